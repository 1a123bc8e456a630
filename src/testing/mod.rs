//! What only tests need: the rules of the house, and brokers in one process.

pub mod client;
pub mod fuzz;
pub mod node;
pub mod script;
mod tidy;
