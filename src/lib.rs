//! A broker that speaks the Kafka wire protocol, in one small binary.
#![cfg_attr(
    not(test),
    allow(dead_code, reason = "followers and transactions will call what only tests call so far")
)]

pub mod command_line;
pub mod config;
pub mod logging;
pub mod server;

mod broker;

pub use broker::{Broker, StartError};
pub use config::Config;

mod network;
use ottla_protocol as protocol;
mod handlers;

mod cluster;
mod controller;
mod coordinator;
mod raft;
mod replicated;

mod log;
mod partition;

mod properties;
mod sys;
mod types;

#[cfg(test)]
mod testing;
