//! Which snapshots of the metadata log there are, and which may go. `[P]`

use std::collections::BTreeMap;

use crate::log::file_names::{MetadataSnapshot, SnapshotPhase};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// Names a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// Offset after the last record that went into it.
    pub end_offset: Offset,
    /// Epoch of that record.
    pub epoch: LeaderEpoch,
}

impl SnapshotId {
    /// The one that formatting leaves; it stands for no part of the log.
    pub const BOOTSTRAP: Self = Self { end_offset: Offset::ZERO, epoch: LeaderEpoch(0) };

    /// Its file's name once it is complete.
    pub fn file_name(self) -> String {
        self.in_phase(SnapshotPhase::Live).name("")
    }

    /// Its file's name while it is being written.
    pub fn partial_name(self, unique: &str) -> String {
        self.in_phase(SnapshotPhase::Partial).name(unique)
    }

    /// Its file's name before it is removed.
    pub fn deleted_name(self) -> String {
        self.in_phase(SnapshotPhase::Deleted).name("")
    }

    fn in_phase(self, phase: SnapshotPhase) -> MetadataSnapshot {
        MetadataSnapshot { end_offset: self.end_offset, epoch: self.epoch, phase }
    }
}

/// What is known of a complete snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// Bytes of its file.
    pub size: u64,
    /// When the last record that went into it was appended.
    pub timestamp: Timestamp,
}

/// Limits of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// `metadata.max.retention.bytes` of log and snapshots; negative: no limit.
    pub bytes: i64,
    /// `metadata.max.retention.ms`; negative: no limit.
    pub ms: i64,
}

/// The complete snapshots, oldest first.
pub type Snapshots = BTreeMap<SnapshotId, SnapshotFacts>;

/// The snapshots that may go, oldest first. The newest always stays; when one
/// goes, the log may begin at the next.
pub fn expired(
    snapshots: &Snapshots,
    log_size: u64,
    limits: Retention,
    now: Timestamp,
) -> Vec<SnapshotId> {
    let mut total = snapshots.values().fold(log_size, |sum, facts| sum.saturating_add(facts.size));
    let mut gone = Vec::new();
    for (id, facts) in snapshots.iter().take(snapshots.len().saturating_sub(1)) {
        let too_large = u64::try_from(limits.bytes).is_ok_and(|limit| total > limit);
        let too_old = limits.ms >= 0 && now.0.saturating_sub(facts.timestamp.0) > limits.ms;
        if !too_large && !too_old {
            break;
        }
        total = total.saturating_sub(facts.size);
        gone.push(*id);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(end: i64) -> SnapshotId {
        SnapshotId { end_offset: Offset(end), epoch: LeaderEpoch(1) }
    }

    fn snapshots() -> Snapshots {
        let facts = |timestamp| SnapshotFacts { size: 100, timestamp: Timestamp(timestamp) };
        [(id(10), facts(1_000)), (id(20), facts(2_000)), (id(30), facts(3_000))].into()
    }

    #[test]
    fn the_oldest_go_by_size_and_age_and_the_newest_stays() {
        let expired = |bytes, ms, now| {
            let gone = expired(&snapshots(), 500, Retention { bytes, ms }, Timestamp(now));
            gone.into_iter().map(|id| id.end_offset.0).collect::<Vec<_>>()
        };
        assert!(expired(800, 10_000, 4_000).is_empty());
        assert_eq!(expired(799, 10_000, 4_000), [10]);
        assert_eq!(expired(1, 10_000, 4_000), [10, 20]);
        assert_eq!(expired(-1, 1_500, 3_000), [10]);
        assert_eq!(expired(-1, 0, 9_000), [10, 20]);
        assert!(expired(-1, -1, 9_000).is_empty());
    }

    #[test]
    fn names_are_kafkas() {
        assert_eq!(SnapshotId::BOOTSTRAP.file_name(), "00000000000000000000-0000000000.checkpoint");
        assert_eq!(id(42).partial_name("x"), "00000000000000000042-0000000001-x.checkpoint.part");
    }
}
