//! Sockets: accepts connections, cuts their bytes into frames, hands each frame
//! to the dispatcher and sends the answers back in the order of the requests.
//!
//! A request runs on the task that read it, from the first byte to the answer:
//! a hop to another thread costs more than most requests. While a request waits
//! (for records, for followers) the next one of the same connection is not begun,
//! which is also Kafka's promise: requests of one connection take effect in order.
//! Back-pressure follows from it: a connection holds one frame and its answer, a
//! reader that does not drain its answers is not read from, and large frames of
//! all connections share one [`Budget`].
//!
//! Absent on purpose: what a request means. The dispatcher is a function that was
//! handed in; no handler is known here.
//! First to read: [`Listener`], then `connection.rs`.

mod admission;
mod budget;
mod connection;
mod frame;
mod listener;
mod outgoing;
mod rooms;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;

use crate::protocol::Chunk;
use crate::protocol::apis::ListenerKind;

pub use self::admission::{Admissions, ConnectionLimits};
pub use self::budget::Budget;
pub use self::connection::ConnectionSettings;
pub use self::listener::{BindError, Listener, Serving, Shared, SocketSettings};

/// The listener through which a connection came in.
#[derive(Debug)]
pub struct ListenerInfo {
    /// Its name in `listeners`, upper case, such as `PLAINTEXT`.
    pub name: String,
    /// What it serves.
    pub kind: ListenerKind,
}

/// The library behind a connection, as it told in ApiVersions (KIP-511).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSoftware {
    /// Such as `apache-kafka-java`.
    pub name: String,
    /// Such as `4.4.0`.
    pub version: String,
}

/// What is known about the other end of a connection.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Where it came in.
    pub listener: Arc<ListenerInfo>,
    /// The client's address and port.
    pub peer: SocketAddr,
    /// Set by the connection's first ApiVersions from version 3 on.
    pub software: OnceLock<ClientSoftware>,
}

impl fmt::Display for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on listener {}", self.peer, self.listener.name)
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Reply {
    /// A whole frame, its size in front.
    Answer(Vec<Chunk>),
    /// Nothing is sent: Produce with acks=0.
    Silence,
    /// The connection is closed without an answer; the dispatcher said why.
    Close,
}

/// A request at work. It is dropped when its client hangs up or the broker stops
/// before it ends, so it must leave sound state at each of its awaits.
pub type PendingReply = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Judges one frame (without its size) and answers it.
pub type Dispatcher = dyn Fn(Arc<ConnectionInfo>, Bytes) -> PendingReply + Send + Sync;

/// Ends when the listener is told to stop, or is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
