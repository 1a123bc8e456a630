//! Consensus for the metadata log (KRaft: KIP-595, KIP-630, KIP-853).
//!
//! One log, `__cluster_metadata-0`, kept by a quorum of voters. What differs from
//! the paper: followers fetch, so that a fetch is at once the acknowledgement of
//! everything before it; a record is committed only in the leader's own epoch,
//! which is why a leader begins with a control batch.
//!
//! ```text
//!   Unattached ──timeout──▶ Prospective ──pre-votes──▶ Candidate ──votes──▶ Leader
//!       ▲                        ▲                                            │
//!       └── newer epoch ──── Follower ◀── leader known                     Resigned
//! ```
//!
//! Today the quorum is this node alone: it goes from one end of that line to the
//! other at its start. [`node`] is pure; [`MetadataLog`] is what lies on disk;
//! [`Raft`] runs the two: it appends, one thread syncs, and the high watermark
//! follows the sync, never the write.

mod control;
mod driver;
mod format;
mod metadata_log;
mod node;
mod quorum;
mod snapshot_file;
mod snapshots;
#[cfg(test)]
mod tests;
mod vote_file;
mod voters;

pub use self::driver::{QuorumView, Raft, RaftError, VoterProgress};
pub use self::format::{FormatRequest, format};
pub use self::metadata_log::{Loaded, MetadataLog, MetadataLogOptions, OpenError};
pub use self::snapshot_file::SnapshotError;
pub use self::snapshots::{Retention, SnapshotId};
pub use self::voters::{ReplicaKey, Voter, VoterEndpoint, VoterSet};
use crate::types::TopicId;

/// Name of the metadata topic.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

/// Id of the metadata topic, which no other topic can have.
pub const METADATA_TOPIC_ID: TopicId = TopicId::from_u128(1);

/// Bytes of one batch, at most, wherever records may be divided.
pub const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
