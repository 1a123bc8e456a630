//! Every file and directory name under a log directory, and what they say. `[P]`
//!
//! Offsets in names have twenty digits, so that names sort as their offsets do.

use crate::types::{LeaderEpoch, Offset, TopicPartition};

/// Identity of a log directory and its cluster.
pub const META_PROPERTIES: &str = "meta.properties";
/// Locked while a broker uses the directory.
pub const LOCK: &str = ".lock";
/// Left behind by a clean stop.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// Per partition: everything below is flushed.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// Per partition: first offset that may be read.
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// Per partition: high watermark.
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";
/// Per partition: everything below is compacted.
pub const CLEANER_CHECKPOINT: &str = "cleaner-offset-checkpoint";
/// Initial metadata records, as formats before 4.4 left them.
pub const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";
/// Belongs to tiered storage; not a partition.
pub const REMOTE_LOG_INDEX_CACHE: &str = "remote-log-index-cache";
/// Directory of the metadata log.
pub const METADATA_LOG: &str = "__cluster_metadata-0";
/// Vote and epoch of the metadata quorum.
pub const QUORUM_STATE: &str = "quorum-state";
/// Epochs of a partition's leaders.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// Topic id of a partition's directory.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// The longest name that a directory may have.
const MAX_NAME_LEN: usize = 255;
const OFFSET_DIGITS: usize = 20;
const EPOCH_DIGITS: usize = 10;

/// The kinds of files that are named after an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Record batches.
    Log,
    /// Offset → position.
    OffsetIndex,
    /// Timestamp → offset.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
    /// Producer state before the offset.
    ProducerSnapshot,
}

impl FileKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TxnIndex, Self::ProducerSnapshot];

    /// The end of the name, dot included.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::ProducerSnapshot => ".snapshot",
        }
    }
}

/// In which step of its life a segment's file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// In use.
    #[default]
    Live,
    /// To be removed.
    Deleted,
    /// Being written by the cleaner.
    Cleaned,
    /// Written by the cleaner, about to take its place.
    Swap,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Live, Self::Deleted, Self::Cleaned, Self::Swap];

    /// What is appended to the name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }
}

/// A file in a partition's directory that is named after an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentFile {
    /// Base offset of the segment; for snapshots the offset they reach.
    pub offset: Offset,
    /// What is in it.
    pub kind: FileKind,
    /// Live or on its way in or out.
    pub phase: Phase,
}

impl SegmentFile {
    /// A file in use.
    pub fn live(offset: Offset, kind: FileKind) -> Self {
        Self { offset, kind, phase: Phase::Live }
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("{}{}{}", offset_digits(self.offset), self.kind.suffix(), self.phase.suffix())
    }

    /// Reads a name; `None` when it is none of these files'.
    pub fn parse(name: &str) -> Option<Self> {
        let (digits, suffix) = name.split_at_checked(name.find('.')?)?;
        let offset = parse_offset(digits)?;
        FileKind::ALL.into_iter().find_map(|kind| {
            let phase = suffix.strip_prefix(kind.suffix())?;
            let phase = Phase::ALL.into_iter().find(|known| known.suffix() == phase)?;
            Some(Self { offset, kind, phase })
        })
    }
}

/// Name of a file in use.
pub fn segment_file(offset: Offset, kind: FileKind) -> String {
    SegmentFile::live(offset, kind).name()
}

/// What has become of a replica's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryState {
    /// The replica.
    Current,
    /// To be deleted; the id makes the name unique.
    Deleted(String),
    /// Not in the metadata: kept for the operator, not served.
    Stray(String),
    /// The replica's next home, while it moves between log directories.
    Future(String),
}

/// A partition's directory.
///
/// The topic of a deleted or stray directory may be cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDirectory {
    /// Whose it is.
    pub partition: TopicPartition,
    /// Whether it is in use.
    pub state: DirectoryState,
}

impl PartitionDirectory {
    /// The directory of a replica in use.
    pub fn current(partition: TopicPartition) -> Self {
        Self { partition, state: DirectoryState::Current }
    }

    /// Its name.
    pub fn name(&self) -> String {
        let TopicPartition { topic, partition } = &self.partition;
        let (id, suffix, shortened) = match &self.state {
            DirectoryState::Current => return self.partition.to_string(),
            DirectoryState::Deleted(id) => (id, "-delete", true),
            DirectoryState::Stray(id) => (id, "-stray", true),
            DirectoryState::Future(id) => (id, "-future", false),
        };
        let tail = format!("-{partition}.{id}{suffix}");
        let room = if shortened { MAX_NAME_LEN.saturating_sub(tail.len()) } else { usize::MAX };
        let topic = topic.char_indices().take_while(|(at, c)| at + c.len_utf8() <= room);
        topic.map(|(_, c)| c).chain(tail.chars()).collect()
    }

    /// Reads a directory's name; `None` when it is not of a partition's form.
    pub fn parse(name: &str) -> Option<Self> {
        let marked = |id: String, suffix| match suffix {
            "-delete" => DirectoryState::Deleted(id),
            "-stray" => DirectoryState::Stray(id),
            _ => DirectoryState::Future(id),
        };
        for suffix in ["-delete", "-stray", "-future"] {
            if let Some(head) = name.strip_suffix(suffix) {
                let (replica, id) = head.rsplit_once('.')?;
                let partition = parse_replica(replica)?;
                let sound = !id.is_empty() && !name.contains(char::is_whitespace);
                let state = marked(id.to_owned(), suffix);
                return sound.then_some(Self { partition, state });
            }
        }
        Some(Self::current(parse_replica(name)?))
    }
}

fn parse_replica(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let digits = !partition.is_empty() && partition.bytes().all(|b| b.is_ascii_digit());
    let partition = partition.parse().ok()?;
    (!topic.is_empty() && digits).then(|| TopicPartition::new(topic, partition))
}

/// In which step of its life a snapshot of the metadata log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotPhase {
    /// Whole and unchanging.
    Live,
    /// Being written or fetched.
    Partial,
    /// To be removed.
    Deleted,
}

/// A snapshot of the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataSnapshot {
    /// Offset after the last record that went into it.
    pub end_offset: Offset,
    /// Epoch of that record.
    pub epoch: LeaderEpoch,
    /// Live or on its way in or out.
    pub phase: SnapshotPhase,
}

impl MetadataSnapshot {
    /// The one that formatting a directory leaves.
    pub const BOOTSTRAP: Self =
        Self { end_offset: Offset::ZERO, epoch: LeaderEpoch(0), phase: SnapshotPhase::Live };

    /// Its name; `unique` goes into that of a partial one.
    pub fn name(&self, unique: &str) -> String {
        let end = offset_digits(self.end_offset);
        let epoch = format!("{:0width$}", self.epoch.0, width = EPOCH_DIGITS);
        match self.phase {
            SnapshotPhase::Live => format!("{end}-{epoch}.checkpoint"),
            SnapshotPhase::Deleted => format!("{end}-{epoch}.checkpoint.deleted"),
            SnapshotPhase::Partial => format!("{end}-{epoch}-{unique}.checkpoint.part"),
        }
    }

    /// Reads a name; `None` when it is not a snapshot's.
    pub fn parse(name: &str) -> Option<Self> {
        let phases = [
            (".checkpoint.part", SnapshotPhase::Partial),
            (".checkpoint.deleted", SnapshotPhase::Deleted),
            (".checkpoint", SnapshotPhase::Live),
        ];
        let (stem, phase) = phases
            .into_iter()
            .find_map(|(suffix, phase)| Some((name.strip_suffix(suffix)?, phase)))?;
        let (end, rest) = stem.split_once('-')?;
        let epoch = match phase {
            SnapshotPhase::Partial => rest.split_once('-').map_or(rest, |(epoch, _)| epoch),
            _ => rest,
        };
        let digits = epoch.len() >= EPOCH_DIGITS && epoch.bytes().all(|b| b.is_ascii_digit());
        let epoch = LeaderEpoch(epoch.parse().ok().filter(|_| digits)?);
        Some(Self { end_offset: parse_offset(end)?, epoch, phase })
    }
}

fn offset_digits(offset: Offset) -> String {
    format!("{:0width$}", offset.0, width = OFFSET_DIGITS)
}

fn parse_offset(digits: &str) -> Option<Offset> {
    let digits = Some(digits).filter(|text| {
        text.len() >= OFFSET_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
    })?;
    digits.parse().ok().map(Offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_files() {
        let file = |offset, kind, phase| SegmentFile { offset: Offset(offset), kind, phase };
        let cases = [
            ("00000000000000000000.log", file(0, FileKind::Log, Phase::Live)),
            ("00000000000000000042.index", file(42, FileKind::OffsetIndex, Phase::Live)),
            ("00000000000000000042.timeindex.swap", file(42, FileKind::TimeIndex, Phase::Swap)),
            ("00000000000000000042.txnindex.cleaned", file(42, FileKind::TxnIndex, Phase::Cleaned)),
            (
                "09223372036854775807.snapshot.deleted",
                file(i64::MAX, FileKind::ProducerSnapshot, Phase::Deleted),
            ),
        ];
        for (name, expected) in cases {
            assert_eq!(SegmentFile::parse(name), Some(expected), "{name}");
            assert_eq!(expected.name(), name);
        }
        let others = [
            "",
            ".log",
            "leader-epoch-checkpoint",
            "0.log",
            "00000000000000000000.logs",
            "00000000000000000000.log.bak",
            "-0000000000000000001.log",
            "99999999999999999999.log",
            "00000000000000000000-0000000000.checkpoint",
        ];
        for name in others {
            assert_eq!(SegmentFile::parse(name), None, "{name}");
        }
    }

    #[test]
    fn directories() {
        let id = "0123456789abcdef0123456789abcdef".to_owned();
        let cases = [
            ("t-0".to_owned(), "t", 0, DirectoryState::Current),
            ("a-b.c-12".to_owned(), "a-b.c", 12, DirectoryState::Current),
            (format!("a.b-1.{id}-delete"), "a.b", 1, DirectoryState::Deleted(id.clone())),
            (format!("a-1.{id}-stray"), "a", 1, DirectoryState::Stray(id.clone())),
            (format!("a-1.{id}-future"), "a", 1, DirectoryState::Future(id.clone())),
        ];
        for (name, topic, partition, state) in cases {
            let directory =
                PartitionDirectory { partition: TopicPartition::new(topic, partition), state };
            assert_eq!(PartitionDirectory::parse(&name), Some(directory.clone()), "{name}");
            assert_eq!(directory.name(), name);
        }
        for name in ["", "t", "-0", "t-", "t-x", "t-+1", "t-99999999999", "t-0.-delete", "t-delete"]
        {
            assert_eq!(PartitionDirectory::parse(name), None, "{name}");
        }
    }

    #[test]
    fn long_names_are_cut_but_for_the_future() {
        let id = "f".repeat(32);
        let partition = TopicPartition::new("x".repeat(249), 7);
        let name = |state| PartitionDirectory { partition: partition.clone(), state }.name();
        let deleted = name(DirectoryState::Deleted(id.clone()));
        assert_eq!(deleted.len(), 255);
        assert!(deleted.ends_with(&format!("x-7.{id}-delete")));
        assert_eq!(name(DirectoryState::Stray(id.clone())).len(), 255);
        assert_eq!(name(DirectoryState::Future(id)).len(), 249 + 2 + 33 + 7);
    }

    #[test]
    fn metadata_snapshots() {
        let snapshot = |end, epoch, phase| MetadataSnapshot {
            end_offset: Offset(end),
            epoch: LeaderEpoch(epoch),
            phase,
        };
        let cases = [
            ("00000000000000000000-0000000000.checkpoint", MetadataSnapshot::BOOTSTRAP),
            ("00000000000000000123-0000000004.checkpoint", snapshot(123, 4, SnapshotPhase::Live)),
            (
                "00000000000000000123-0000000004.checkpoint.deleted",
                snapshot(123, 4, SnapshotPhase::Deleted),
            ),
            (
                "00000000000000000123-0000000004-987.checkpoint.part",
                snapshot(123, 4, SnapshotPhase::Partial),
            ),
        ];
        for (name, expected) in cases {
            assert_eq!(MetadataSnapshot::parse(name), Some(expected), "{name}");
            assert_eq!(expected.name("987"), name);
        }
        for name in ["bootstrap.checkpoint", "leader-epoch-checkpoint", "1-2.checkpoint", "x.log"] {
            assert_eq!(MetadataSnapshot::parse(name), None, "{name}");
        }
    }
}
