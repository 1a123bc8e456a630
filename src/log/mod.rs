//! A log: record batches in the order of their offsets, on disk in segments.
//!
//! It keeps batches as they came and gives them back as ranges of files. It
//! knows producers (for duplicates and open transactions) and leader epochs
//! (for truncation), because both are rebuilt from the batches; it knows neither
//! topics nor leaders nor what is committed: its owner does.
//!
//! Writing takes `&mut self`, reading `&self`; the owner puts it behind one
//! short lock. Nothing here waits for anything but the disk.
//!
//! Invariants: log start <= log end; closed segments never change but by
//! truncation, and compaction replaces them as a whole; a batch is in the indexes,
//! epochs and producer state only once it is in the file.

mod append;
pub mod append_plan;
pub mod batch;
pub mod batch_builder;
pub mod checkpoint_text;
pub mod compaction;
pub mod compression;
mod config;
pub mod control;
pub mod crc;
mod cut;
mod directory;
mod entry_file;
pub mod epochs;
mod error;
pub mod file_names;
pub mod files;
mod flush;
#[cfg(test)]
mod fuzz;
mod loading;
mod lz4;
mod marks;
pub mod meta_properties;
mod news;
pub mod offset_index;
mod producer_entry;
mod producer_files;
pub mod producers;
mod read;
pub mod record;
mod record_stream;
mod recovery;
pub mod retention;
mod scan;
pub mod segment;
mod side_files;
mod snappy;
pub mod snapshot;
pub mod store;
mod store_cleaning;
mod store_loading;
mod store_moving;
#[cfg(test)]
mod tests;
pub mod time_index;
mod time_search;
pub mod txn_index;
mod upkeep;
pub mod validate;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use self::append::{AppendError, AppendInfo};
pub use self::append_plan::AppendOrigin;
pub use self::config::{CleanupPolicy, LogConfig};
use self::cut::Doomed;
use self::epochs::Epochs;
pub use self::error::{DirectoryHealth, LogError, ReadError};
use self::files::{Folder, OpenFiles};
pub use self::marks::LogMarks;
use self::producer_files::ProducerFiles;
pub use self::producers::{ProducerContext, Producers};
pub use self::read::{FileSlice, LogSlice};
pub use self::recovery::RecoveryReport;
use self::segment::{IndexRules, Segment};
use self::side_files::{EpochFile, TopicIdFile};
pub use self::time_search::{OffsetFor, OffsetSpec, TimeSearch, TimestampAndOffset};
pub use self::txn_index::AbortedTransaction;
pub use self::validate::AppendRules;
use crate::sys::clock::Clock;
use crate::types::{LeaderEpoch, Offset, Timestamp, TopicId};

/// What a log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// A partition's: has producers, retention, a clean stop.
    Partition,
    /// The metadata log's: without producers and retention; checked from its
    /// first batch at every start; snapshots beside it are not this log's.
    Metadata,
}

/// What a log needs to be opened.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Settings.
    pub config: Arc<LogConfig>,
    /// What it is for.
    pub kind: LogKind,
    /// The topic that it must belong to; noted in `partition.metadata` when the
    /// directory says nothing yet.
    pub topic_id: Option<TopicId>,
    /// It was closed cleanly: nothing needs to be checked.
    pub clean: bool,
    /// Everything before was synced.
    pub recovery_point: Offset,
    /// First offset that may be read, by the checkpoint.
    pub log_start: Offset,
    /// Everything before was committed, by the checkpoint.
    pub high_watermark: Offset,
    /// `producer.id.expiration.ms`
    pub producer_expiration_ms: i64,
    /// Disk, and the files that are open.
    pub files: Arc<OpenFiles>,
    /// For segment age and delayed deletion.
    pub clock: Arc<dyn Clock>,
    /// The state of the log directory.
    pub health: Arc<DirectoryHealth>,
    /// Is told when the recovery point went back, before anything is appended
    /// again: a checkpoint that says more than is synced would make recovery
    /// overlook a torn segment.
    pub rewound: Option<Arc<dyn Rewound>>,
}

/// Keeps a recovery point checkpoint.
pub trait Rewound: Send + Sync + std::fmt::Debug {
    /// The recovery point of one of the logs went back, as its marks say; it must
    /// be in the checkpoint when this returns.
    fn recovery_point_rewound(&self) -> io::Result<()>;
}

/// One log. See the module.
#[derive(Debug)]
pub struct Log {
    folder: Arc<Folder>,
    config: Arc<LogConfig>,
    kind: LogKind,
    clock: Arc<dyn Clock>,
    health: Arc<DirectoryHealth>,
    rewound: Option<Arc<dyn Rewound>>,
    topic_id: Option<TopicId>,
    topic_id_file: TopicIdFile,
    /// In boxes: a map of the segments themselves has room for a dozen even when it
    /// is empty again, and most logs have none.
    closed: BTreeMap<Offset, Box<Segment>>,
    active: Segment,
    log_start: Offset,
    log_end: Offset,
    recovery_point: Offset,
    last_flush: Timestamp,
    /// How much sooner than `segment.ms` the next segment rolls.
    roll_jitter: i64,
    epochs: EpochFile,
    producers: ProducerFiles,
    doomed: Vec<Doomed>,
    /// Counts what makes a sync or a search that is under way say nothing of the log any
    /// more.
    rewinds: u64,
    marks: Arc<LogMarks>,
    /// The directory was created with this log; its name is not synced yet.
    dir_is_new: bool,
    /// Changes of the folder that are durable.
    names_synced: u64,
    /// The directory is as a clean stop wants it.
    settled: bool,
    retired: bool,
}

impl Log {
    /// First offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        self.log_start
    }

    /// Offset of the next record.
    pub fn log_end_offset(&self) -> Offset {
        self.log_end
    }

    /// Everything before this offset is synced.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// Epochs of the leaders, and where each began.
    pub fn epochs(&self) -> &Epochs {
        self.epochs.get()
    }

    /// The newest epoch not above `epoch` that has records here, and where it
    /// ends; `None` when nothing is known of it (KIP-101, KIP-279).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs().end_offset_for(epoch, self.log_end)
    }

    /// Notes that `epoch` begins at `start`. The file has it before the log has the
    /// first record of the epoch: not now, when a start gives one to every log.
    pub fn assign_epoch(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<(), LogError> {
        self.check_online()?;
        self.epochs.note(epoch, start);
        Ok(())
    }

    /// Producers: what they sent last, and their open transactions.
    pub fn producers(&self) -> &Producers {
        self.producers.get()
    }

    /// Forgets producers that were silent for `producer.id.expiration.ms`.
    pub fn remove_expired_producers(&mut self) {
        self.producers.remove_expired(self.clock.wall());
    }

    /// The owner's high watermark moved: transactions that ended before it no
    /// longer hold back the last stable offset.
    pub fn high_watermark_advanced(&mut self, high_watermark: Offset) {
        self.producers.get_mut().on_high_watermark(high_watermark);
        self.marks.set_high_watermark(high_watermark);
    }

    /// The settings in force.
    pub fn config(&self) -> &Arc<LogConfig> {
        &self.config
    }

    /// Other settings from now on.
    pub fn set_config(&mut self, config: Arc<LogConfig>) {
        self.marks.set_flush_ms(config.flush_ms);
        self.marks.set_compacted(config.cleanup_policy.compact);
        self.config = config;
    }

    /// The topic that the log belongs to.
    pub fn topic_id(&self) -> Option<TopicId> {
        self.topic_id
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.folder.path
    }

    /// The state of the log directory that it is in.
    pub fn health(&self) -> &Arc<DirectoryHealth> {
        &self.health
    }

    /// Its numbers, to look at without its lock.
    pub fn marks(&self) -> &Arc<LogMarks> {
        &self.marks
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        self.segments().map(Segment::size).sum()
    }

    /// All segments in order; the last is the active one.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.closed.values().map(|segment| &**segment).chain([&self.active])
    }

    /// The log is given up: its directory is about to be renamed or removed.
    /// Everything fails from now on, and its files are never opened again.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    fn first_base(&self) -> Offset {
        self.closed.keys().next().copied().unwrap_or_else(|| self.active.base())
    }

    fn index_rules(&self) -> IndexRules {
        IndexRules {
            interval_bytes: self.config.index_interval_bytes,
            max_bytes: self.config.segment_index_bytes,
        }
    }

    pub fn check_online(&self) -> Result<(), LogError> {
        if self.retired || !self.health.is_online() {
            return Err(LogError::Offline { path: self.folder.path.clone() });
        }
        Ok(())
    }

    fn explain(&self, error: io::Error) -> LogError {
        self.health.explain(&self.folder.path, error)
    }

    fn publish_marks(&self) {
        let marks = &*self.marks;
        marks.set_flush_ms(self.config.flush_ms);
        marks.set_compacted(self.config.cleanup_policy.compact);
        marks.set_recovery_point(self.recovery_point);
        marks.set_extent(self.log_start, self.log_end);
        marks.set_segments(self.first_base(), self.active.base(), self.size());
        marks.set_removals(!self.doomed.is_empty());
        marks.set_new(self.topic_id_file == TopicIdFile::Noted);
    }
}
