//! A broker that speaks the Kafka wire protocol, in one small binary.
#![allow(dead_code, reason = "parts are built one after another; removed when the last is wired")]

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
