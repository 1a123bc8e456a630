//! A whole node: builds the parts, wires them, and takes them down in order.

mod background;
mod follower;
mod lifecycle;
mod listeners;
mod storage;

use std::io;

use thiserror::Error;

use crate::network::BindError;

/// Why a broker does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An address cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A listener wants protection that is not there yet.
    #[error("Listener {listener} uses {protocol}; only PLAINTEXT is served so far")]
    UnservedProtocol {
        /// The listener's name.
        listener: String,
        /// `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        protocol: &'static str,
    },
    /// A thread or runtime cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
}
