//! One replica of one partition: its log, its role, and who waits for it.
//!
//! A partition is shared by all connections behind one lock that is held for the
//! time of an append or a lookup, microseconds, and never across an await. What
//! happens under it: is this broker the leader, in the epoch that the client
//! believes in; append or find the bytes; move the high watermark; tell those who
//! wait. Bytes leave as ranges of files after the lock is released.
//!
//! Invariants: log start <= last stable offset <= high watermark <= log end, and
//! the high watermark only rises while one leader lasts.
//!
//! Absent on purpose: wire messages. Handlers translate.
//! First to read: this file, then `replicas.rs`, `waiters.rs`, `table.rs`.

mod append;
mod byte_marks;
mod move_pace;
mod move_plan;
pub mod moves;
mod moving;
mod read;
pub mod replicas;
mod role;
pub mod table;
#[cfg(test)]
mod tests;
pub mod waiters;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub use self::append::{Appended, CommitError};
pub use self::read::{Extent, Limits, LookupError, OffsetQuestion, Position, Readable, Reader};
use self::role::State;
use crate::log::store::LogHolder;
use crate::log::{AppendError, Log, LogConfig, LogError, ReadError};
use crate::sys::clock::Clock;
use crate::types::{BrokerId, TopicPartition};

/// One partition's replica on this broker.
#[derive(Debug)]
pub struct Partition {
    name: TopicPartition,
    local: BrokerId,
    clock: Arc<dyn Clock>,
    /// The log's, to be read without the lock.
    config: ArcSwap<LogConfig>,
    state: Mutex<State>,
}

/// Why a partition cannot do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// This broker does not lead the partition, or has no replica that could
    /// answer.
    #[error("this broker is not the leader of the partition")]
    NotLeaderOrFollower,
    /// The partition was deleted while the request was under way.
    #[error("the partition is gone")]
    Gone,
    /// The client's leader epoch is older than the leader's.
    #[error("leader epoch of the request is fenced")]
    FencedLeaderEpoch,
    /// The client's leader epoch is newer than this broker knows.
    #[error("leader epoch of the request is not known here yet")]
    UnknownLeaderEpoch,
    /// Below the log start, beyond the log end, or no offset at all.
    #[error("offset is not within the log")]
    OffsetOutOfRange,
    /// Fewer replicas in sync than `min.insync.replicas`.
    #[error("{in_sync} replicas are in sync, {min_in_sync} are needed")]
    NotEnoughReplicas {
        /// Replicas in sync now.
        in_sync: usize,
        /// Replicas that acks=all needs.
        min_in_sync: usize,
    },
    /// Records of a compacted topic cannot be deleted by offset.
    #[error("records of a topic without delete policy cannot be deleted")]
    PolicyViolation,
    /// The batch is refused.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl PartitionError {
    /// As [`LogError::passes`].
    pub fn passes(&self) -> bool {
        match self {
            Self::Append(AppendError::Log(error)) | Self::Log(error) => error.passes(),
            _ => false,
        }
    }
}

impl From<ReadError> for PartitionError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::OffsetOutOfRange { .. } => Self::OffsetOutOfRange,
            ReadError::Log(error) => Self::Log(error),
        }
    }
}

impl Partition {
    /// A replica that neither leads nor follows yet.
    pub fn new(
        name: TopicPartition,
        local: BrokerId,
        clock: Arc<dyn Clock>,
        log: Log,
    ) -> Arc<Self> {
        let config = ArcSwap::new(Arc::clone(log.config()));
        let state = Mutex::new(State::new(log));
        Arc::new(Self { name, local, clock, config, state })
    }

    /// Topic and index.
    pub fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// Other settings for its log from now on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.config.store(Arc::clone(&config));
        self.state.lock().log.set_config(config);
    }
}

impl LogHolder for Partition {
    fn with_log(&self, act: &mut dyn FnMut(&mut Log)) {
        let mut state = self.state.lock();
        let before = state.log.log_start_offset();
        act(&mut state.log);
        if state.log.log_start_offset() != before {
            state.log_start_moved();
        }
    }
}
