//! What only tests need: the rules of the house, and brokers in one process.

mod tidy;
