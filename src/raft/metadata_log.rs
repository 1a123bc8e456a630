//! What lies in `__cluster_metadata-0`: the log, its snapshots and the vote; and
//! reading all of it at the start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::METADATA_TOPIC_ID;
use super::control::{Control, ControlError};
use super::node::ElectionState;
use super::snapshot_file::{SnapshotControl, SnapshotError, read_snapshot, snapshot_timestamp};
use super::snapshots::{Retention, SnapshotFacts, SnapshotId, Snapshots};
use super::vote_file;
use super::voters::VoterSet;
use crate::log::batch::{BatchError, BatchView, batches};
use crate::log::file_names::{BOOTSTRAP_CHECKPOINT, METADATA_LOG, MetadataSnapshot, SnapshotPhase};
use crate::log::files::OpenFiles;
use crate::log::record::RecordError;
use crate::log::{DirectoryHealth, Log, LogConfig, LogError, LogKind, LogOptions, ReadError};
use crate::sys::clock::Clock;
use crate::sys::disk::Disk;
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// Bytes read from the log at once when it is loaded.
const READ_BYTES: usize = 1024 * 1024;

/// What the metadata log needs to be opened.
#[derive(Clone, Debug)]
pub struct MetadataLogOptions {
    /// `metadata.log.dir`: the log directory that holds it.
    pub directory: PathBuf,
    /// Disk, and the files that are open.
    pub files: Arc<OpenFiles>,
    /// Clock, for what is stamped on batches.
    pub clock: Arc<dyn Clock>,
    /// `metadata.log.segment.bytes`
    pub segment_bytes: u64,
    /// `metadata.log.segment.ms`
    pub segment_ms: i64,
    /// `metadata.max.retention.bytes` and `.ms`
    pub retention: Retention,
    /// The voters of `controller.quorum.voters`; they vote only where neither
    /// log nor snapshot say who does.
    pub static_voters: VoterSet,
}

impl MetadataLogOptions {
    /// With Kafka's defaults.
    pub fn new(directory: &Path, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        Self {
            directory: directory.to_owned(),
            files: OpenFiles::new(disk, 64),
            clock,
            segment_bytes: 1024 * 1024 * 1024,
            segment_ms: 7 * 24 * 3600 * 1000,
            retention: Retention { bytes: 100 * 1024 * 1024, ms: 7 * 24 * 3600 * 1000 },
            static_voters: VoterSet::default(),
        }
    }
}

/// Why the metadata log cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be read or written.
    #[error("{path}: {source}")]
    Disk {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A snapshot cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The log begins later than any snapshot ends.
    #[error(
        "the metadata log begins at offset {log_start}, but there is no snapshot of what was before"
    )]
    MissingSnapshot {
        /// First offset of the log.
        log_start: Offset,
    },
    /// A batch is no batch.
    #[error("the batch at offset {offset} of the metadata log: {error}")]
    Batch {
        /// Where the batch was looked for.
        offset: Offset,
        /// What is wrong.
        error: BatchError,
    },
    /// A record does not read.
    #[error("the batch at offset {offset} of the metadata log: {error}")]
    Record {
        /// First offset of its batch.
        offset: Offset,
        /// What is wrong.
        error: RecordError,
    },
    /// A control record does not read.
    #[error("the batch at offset {offset} of the metadata log: {error}")]
    Control {
        /// First offset of its batch.
        offset: Offset,
        /// What is wrong.
        error: ControlError,
    },
    /// Whoever reads the records cannot go on.
    #[error("the record at offset {offset} of the metadata log: {error}")]
    Refused {
        /// Where the record stands; in a snapshot its end.
        offset: Offset,
        /// Why.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Something that was read at the start.
#[derive(Debug)]
pub enum Loaded<'a> {
    /// A record of the newest snapshot, which stands for all before its end.
    Snapshot(SnapshotId, &'a [u8]),
    /// The snapshot is read: the last record in it was appended then.
    SnapshotEnd(SnapshotId, Timestamp),
    /// A record of the log.
    Record {
        /// Where it stands.
        offset: Offset,
        /// Epoch of the leader that appended it.
        epoch: LeaderEpoch,
        /// When it was appended.
        timestamp: Timestamp,
        /// Its value.
        value: &'a [u8],
    },
}

/// What formatting left for the first leader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bootstrap {
    /// Values of the records that an empty log is to begin with.
    pub records: Vec<Vec<u8>>,
}

/// The voters as log, snapshots and configuration tell them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Membership {
    pub(super) kraft_version: i16,
    pub(super) voters: VoterSet,
    /// Where the voters stand in the log: `None` for the configuration's, -1 for
    /// those that formatting left.
    pub(super) voters_at: Option<Offset>,
}

impl Membership {
    fn learn(&mut self, at: Offset, kraft_version: Option<i16>, voters: Option<VoterSet>) {
        self.kraft_version = kraft_version.unwrap_or(self.kraft_version);
        if let Some(voters) = voters {
            self.voters = voters;
            self.voters_at = Some(at);
        }
    }
}

/// The metadata log as it lies on disk, opened.
#[derive(Debug)]
pub struct MetadataLog {
    pub(super) options: MetadataLogOptions,
    pub(super) dir: PathBuf,
    pub(super) log: Log,
    pub(super) snapshots: Snapshots,
    pub(super) membership: Membership,
    pub(super) stored: ElectionState,
    pub(super) last_epoch: LeaderEpoch,
    /// Bytes of the log that no snapshot stands for.
    pub(super) loaded_bytes: u64,
}

impl MetadataLog {
    /// Opens log, snapshots and vote; removes what a crash left half done. The
    /// whole log is checked, and its indexes are made anew.
    pub fn open(options: MetadataLogOptions) -> Result<Self, OpenError> {
        let dir = options.directory.join(METADATA_LOG);
        let disk = Arc::clone(options.files.disk());
        let failed = |source| OpenError::Disk { path: dir.clone(), source };
        disk.create_dir_all(&dir).map_err(failed)?;
        let found = list_snapshots(&*disk, &dir).map_err(failed)?;
        let (mut log, report) = Log::open(&dir, log_options(&options))?;
        tracing::debug!(?report, "metadata log opened");
        let mut snapshots = Snapshots::new();
        for (id, size) in found {
            if id != SnapshotId::BOOTSTRAP && id.end_offset < log.log_start_offset() {
                disk.remove_file(&dir.join(id.file_name())).map_err(failed)?;
                continue;
            }
            let timestamp = snapshot_timestamp(&*disk, &dir, id)?;
            snapshots.insert(id, SnapshotFacts { size, timestamp });
        }
        let last_epoch = log.epochs().latest().map_or(LeaderEpoch(0), |entry| entry.epoch);
        let newest = snapshots.keys().next_back().copied();
        if let Some(id) = newest
            && (id.epoch, id.end_offset) > (last_epoch, log.log_end_offset())
            && id != SnapshotId::BOOTSTRAP
        {
            tracing::info!(?id, "the log ends before its newest snapshot: it begins anew there");
            log.truncate_fully_and_start_at(id.end_offset)?;
        }
        let log_start = log.log_start_offset();
        let covered = newest.is_some_and(|id| id.end_offset >= log_start);
        if log_start > Offset::ZERO && !covered {
            return Err(OpenError::MissingSnapshot { log_start });
        }
        let stored = vote_file::read(&*disk, &dir).map_err(failed)?;
        let membership =
            Membership { voters: options.static_voters.clone(), ..Membership::default() };
        let last_epoch = last_epoch.max(newest.map_or(LeaderEpoch(0), |id| id.epoch));
        let loaded_bytes = 0;
        Ok(Self { options, dir, log, snapshots, membership, stored, last_epoch, loaded_bytes })
    }

    /// Reads everything, once: the bootstrap snapshot for itself, then the newest
    /// other snapshot and the log after it, record by record to `sink`.
    pub fn load(
        &mut self,
        mut sink: impl FnMut(Loaded<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<Bootstrap, OpenError> {
        let bootstrap = self.load_bootstrap()?;
        let mut from = Offset::ZERO;
        if let Some(id) = self.newest_snapshot() {
            let refused = |error| OpenError::Refused { offset: id.end_offset, error };
            let disk = Arc::clone(self.options.files.disk());
            let control = read_snapshot(&*disk, &self.dir.join(id.file_name()), |value| {
                sink(Loaded::Snapshot(id, value)).map_err(refused)
            })?;
            let timestamp = self.learn(id, &control);
            sink(Loaded::SnapshotEnd(id, timestamp)).map_err(refused)?;
            from = id.end_offset;
        }
        self.load_log(from, &mut sink)?;
        Ok(bootstrap)
    }

    /// Level of `kraft.version` as loaded.
    pub fn kraft_version(&self) -> i16 {
        self.membership.kraft_version
    }

    fn newest_snapshot(&self) -> Option<SnapshotId> {
        self.snapshots.keys().next_back().copied().filter(|id| *id != SnapshotId::BOOTSTRAP)
    }

    /// The records of the bootstrap snapshot; where it has none (as Kafka before
    /// 4.4 left it), those of the file that such a Kafka wrote beside the log.
    fn load_bootstrap(&mut self) -> Result<Bootstrap, OpenError> {
        let mut bootstrap = Bootstrap::default();
        let disk = Arc::clone(self.options.files.disk());
        let mut collect = |value: &[u8]| {
            bootstrap.records.push(value.to_vec());
            Ok::<_, OpenError>(())
        };
        if self.snapshots.contains_key(&SnapshotId::BOOTSTRAP) {
            let path = self.dir.join(SnapshotId::BOOTSTRAP.file_name());
            let control = read_snapshot(&*disk, &path, &mut collect)?;
            self.learn(SnapshotId::BOOTSTRAP, &control);
        }
        let older = self.options.directory.join(BOOTSTRAP_CHECKPOINT);
        if bootstrap.records.is_empty() && disk.exists(&older) {
            let mut collect = |value: &[u8]| {
                bootstrap.records.push(value.to_vec());
                Ok::<_, OpenError>(())
            };
            read_snapshot(&*disk, &older, &mut collect)?;
        }
        Ok(bootstrap)
    }

    fn learn(&mut self, id: SnapshotId, control: &SnapshotControl) -> Timestamp {
        let at = id.end_offset + -1;
        self.membership.learn(at, control.kraft_version, control.voters.clone());
        control.timestamp.unwrap_or(Timestamp::NONE)
    }

    fn load_log(
        &mut self,
        mut from: Offset,
        sink: &mut impl FnMut(Loaded<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<(), OpenError> {
        let end = self.log.log_end_offset();
        while from < end {
            let slice = self.log.read(from, end, READ_BYTES, true)?;
            let failed = |source| OpenError::Disk { path: self.dir.clone(), source };
            let bytes = slice.read().map_err(failed)?;
            self.loaded_bytes += u64::try_from(bytes.len()).unwrap_or(0);
            for batch in batches(&bytes) {
                let batch = batch.map_err(|error| OpenError::Batch { offset: from, error })?;
                if batch.header().last_offset() >= from {
                    self.load_batch(&batch, sink)?;
                }
            }
            // A slice always moves on: the log is whole up to its end.
            from = slice.end_offset.max(from + 1);
        }
        Ok(())
    }

    fn load_batch(
        &mut self,
        batch: &BatchView<'_>,
        sink: &mut impl FnMut(Loaded<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<(), OpenError> {
        let header = batch.header();
        let offset = header.base_offset;
        let no_record = |error| OpenError::Record { offset, error };
        for record in batch.records().map_err(no_record)? {
            let record = record.map_err(no_record)?;
            if header.attributes.is_control() {
                let control = Control::read(&record);
                match control.map_err(|error| OpenError::Control { offset, error })? {
                    Control::KRaftVersion(level) => {
                        self.membership.learn(record.offset, Some(level), None);
                    }
                    Control::Voters(voters) => {
                        self.membership.learn(record.offset, None, Some(voters));
                    }
                    _ => {}
                }
                continue;
            }
            let loaded = Loaded::Record {
                offset: record.offset,
                epoch: header.leader_epoch,
                timestamp: header.max_timestamp,
                value: record.value.unwrap_or_default(),
            };
            sink(loaded).map_err(|error| OpenError::Refused { offset: record.offset, error })?;
        }
        Ok(())
    }
}

fn log_options(options: &MetadataLogOptions) -> LogOptions {
    let config = LogConfig {
        segment_bytes: options.segment_bytes,
        segment_ms: options.segment_ms,
        retention_bytes: -1,
        retention_ms: -1,
        ..LogConfig::default()
    };
    LogOptions {
        config: Arc::new(config),
        kind: LogKind::Metadata,
        topic_id: Some(METADATA_TOPIC_ID),
        clean: false,
        recovery_point: Offset::ZERO,
        log_start: Offset::ZERO,
        high_watermark: Offset::ZERO,
        producer_expiration_ms: 24 * 3600 * 1000,
        files: Arc::clone(&options.files),
        clock: Arc::clone(&options.clock),
        health: DirectoryHealth::sound(),
        rewound: None,
    }
}

/// The complete snapshots and their sizes; partial and deleted ones are removed.
fn list_snapshots(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<(SnapshotId, u64)>> {
    let mut found = Vec::new();
    for entry in disk.list(dir)? {
        let Some(snapshot) = MetadataSnapshot::parse(&entry.name) else { continue };
        if snapshot.phase == SnapshotPhase::Live {
            let id = SnapshotId { end_offset: snapshot.end_offset, epoch: snapshot.epoch };
            found.push((id, entry.len));
        } else {
            disk.remove_file(&dir.join(&entry.name))?;
        }
    }
    Ok(found)
}
