//! Opening a log's directory: sweeping what an interrupted operation left,
//! finding the segments, and making them sound where the last stop was not clean.
//!
//! The order matters and is Kafka's: a crash may have come between any two steps
//! of compaction, deletion or rolling, and each state in between is resolved
//! here to either before or after.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::file_names::{
    FileKind, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, Phase, SegmentFile,
};
use super::files::Folder;
use super::producer_files::ProducerFiles;
use super::recovery::RecoveryReport;
use super::segment::{Segment, SegmentFiles};
use super::side_files::{EpochFile, TopicIdFile, read_topic_id};
use super::{Log, LogError, LogKind, LogMarks, LogOptions};
use crate::sys::cold::IfCold;
use crate::sys::disk::{Entry, Open};
use crate::types::{Offset, TopicId};

/// What becomes a log.
pub(super) struct Loader {
    pub(super) folder: Arc<Folder>,
    pub(super) options: LogOptions,
    pub(super) segments: BTreeMap<Offset, Segment>,
    pub(super) epochs: EpochFile,
    pub(super) producers: ProducerFiles,
    pub(super) report: RecoveryReport,
}

impl Log {
    /// Opens the log in `dir`, which is created when it is missing.
    ///
    /// # Errors
    /// The directory belongs to another topic; it cannot be read or written;
    /// what is in it cannot be made sound.
    pub fn open(dir: &Path, options: LogOptions) -> Result<(Self, RecoveryReport), LogError> {
        let folder = Folder::new(&options.files, dir.to_owned());
        let health = options.health.clone();
        if !health.is_online() {
            return Err(LogError::Offline { path: dir.to_owned() });
        }
        let explain = |error| health.explain(dir, error);
        let disk = folder.files.disk();
        let entries = match disk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.create_dir_all(dir).map(|()| Vec::new())
            }
            other => other,
        };
        let entries = entries.map_err(explain)?;
        let found =
            if lists(&entries, PARTITION_METADATA) { read_topic_id(&folder) } else { Ok(None) };
        if let (Some(expected), Ok(Some(found))) = (options.topic_id, &found)
            && expected != *found
        {
            let found = *found;
            return Err(LogError::InconsistentTopicId { path: dir.to_owned(), expected, found });
        }
        Loader::load(folder, options, found, &entries).map_err(explain)
    }
}

impl Loader {
    fn load(
        folder: Arc<Folder>,
        options: LogOptions,
        topic_id: io::Result<Option<TopicId>>,
        entries: &[Entry],
    ) -> io::Result<(Log, RecoveryReport)> {
        let files = sweep(&folder, entries)?;
        let (segments, snapshots) = sort_files(&folder, files, &options)?;
        let topic_id = match topic_id {
            // It was on its way to the disk when the machine went down; it is there
            // before the first sync of records.
            Err(error) if is_damage(&error) && options.recovery_point == Offset::ZERO => {
                tracing::warn!(dir = %folder.path.display(), %error, "a new log does not know its topic");
                None
            }
            other => other?,
        };
        let mut report = RecoveryReport::default();
        let loaded = if lists(entries, LEADER_EPOCH_CHECKPOINT) {
            EpochFile::load(&folder)
        } else {
            Ok(EpochFile::new(&folder))
        };
        let epochs = match loaded {
            Err(error) if is_damage(&error) => {
                tracing::warn!(dir = %folder.path.display(), %error, "leader epochs are rebuilt");
                report.epochs_rebuilt = true;
                EpochFile::empty(&folder)
            }
            other => other?,
        };
        let tracked = options.kind == LogKind::Partition;
        let producers =
            ProducerFiles::new(&folder, snapshots, tracked, options.producer_expiration_ms);
        let mut loader = Self { folder, options, segments, epochs, producers, report };
        loader.rebuild_epochs()?;
        let log_end = loader.recover()?;
        loader.into_log(log_end, topic_id)
    }

    fn into_log(
        mut self,
        log_end: Offset,
        topic_id: Option<TopicId>,
    ) -> io::Result<(Log, RecoveryReport)> {
        let LogOptions { config, kind, clock, health, rewound, clean, recovery_point, .. } =
            self.options;
        let now = clock.wall();
        self.epochs.truncate_from_end(log_end);
        let Some((base, active)) = self.segments.pop_last() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let first = self.segments.keys().next().copied().unwrap_or(base);
        let log_start = self.options.log_start.max(first);
        self.epochs.truncate_from_start(log_start);
        let was_clean = clean && kind == LogKind::Partition;
        let checkpointed = recovery_point > Offset::ZERO;
        let recovery_point = if was_clean { log_end } else { recovery_point.min(log_end) };
        let topic_id_file = match topic_id {
            None => TopicIdFile::Missing,
            // A sync of records, or a clean stop with some, has made it durable.
            Some(_) if log_end > first && (was_clean || checkpointed) => TopicIdFile::Durable,
            Some(_) => TopicIdFile::Noted,
        };
        let log = Log {
            folder: self.folder,
            config,
            kind,
            clock,
            health,
            rewound,
            topic_id_file,
            topic_id: topic_id.or(self.options.topic_id),
            closed: self.segments.into_iter().map(|(base, closed)| (base, closed.into())).collect(),
            active,
            log_start,
            log_end,
            recovery_point: recovery_point.max(log_start),
            last_flush: now,
            roll_jitter: 0,
            epochs: self.epochs,
            producers: self.producers,
            doomed: Vec::new(),
            rewinds: 0,
            marks: Arc::new(LogMarks::default()),
            settled: was_clean && !self.report.changed_anything(),
            dir_is_new: self.report.created || topic_id_file == TopicIdFile::Noted,
            names_synced: 0,
            retired: false,
        };
        log.publish_marks();
        log.marks.set_high_watermark(self.options.high_watermark.min(log_end).max(log_start));
        Ok((log, self.report))
    }
}

fn is_damage(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

/// Removes what was on its way out, and finishes what was on its way in.
fn sweep(folder: &Folder, entries: &[Entry]) -> io::Result<BTreeMap<SegmentFile, u64>> {
    let mut files = segment_files(entries);
    let has = |files: &BTreeMap<SegmentFile, u64>, phase| files.keys().any(|f| f.phase == phase);
    if [Phase::Deleted, Phase::Cleaned, Phase::Swap].into_iter().all(|phase| !has(&files, phase)) {
        return Ok(files);
    }
    let cleaned = files.keys().filter(|file| file.phase == Phase::Cleaned);
    let unfinished = cleaned.map(|file| file.offset).min().unwrap_or(Offset(i64::MAX));
    remove(folder, &mut files, |file| match file.phase {
        Phase::Deleted | Phase::Cleaned => true,
        // Its round of compaction was not all written: the originals are there.
        Phase::Swap => file.offset >= unfinished,
        Phase::Live => false,
    })?;
    if let Some((from, end)) = swapped_range(folder, &files)? {
        remove(folder, &mut files, |file| {
            file.phase == Phase::Live
                && file.kind != FileKind::ProducerSnapshot
                && (from..end).contains(&file.offset)
        })?;
    }
    let swapped = files.keys().filter(|file| file.phase == Phase::Swap).copied();
    for file in swapped.collect::<Vec<_>>() {
        let live = SegmentFile { phase: Phase::Live, ..file };
        let path = |file: SegmentFile| folder.path.join(file.name());
        folder.files.disk().rename(&path(file), &path(live))?;
        if let Some(len) = files.remove(&file) {
            files.insert(live, len);
        }
    }
    Ok(files)
}

fn segment_files(entries: &[Entry]) -> BTreeMap<SegmentFile, u64> {
    let files = entries.iter().filter(|entry| !entry.is_dir);
    files.filter_map(|entry| Some((SegmentFile::parse(&entry.name)?, entry.len))).collect()
}

fn lists(entries: &[Entry], name: &str) -> bool {
    entries.iter().any(|entry| entry.name == name)
}

fn remove(
    folder: &Folder,
    files: &mut BTreeMap<SegmentFile, u64>,
    unwanted: impl Fn(&SegmentFile) -> bool,
) -> io::Result<()> {
    for file in files.keys().filter(|file| unwanted(file)).copied().collect::<Vec<_>>() {
        tracing::debug!(dir = %folder.path.display(), name = file.name(), "removing left-over file");
        folder.files.disk().remove_file(&folder.path.join(file.name()))?;
        files.remove(&file);
    }
    Ok(())
}

/// The offsets that finished but not yet renamed segments cover.
fn swapped_range(
    folder: &Folder,
    files: &BTreeMap<SegmentFile, u64>,
) -> io::Result<Option<(Offset, Offset)>> {
    let mut range: Option<(Offset, Offset)> = None;
    for (file, len) in files {
        if file.phase != Phase::Swap || file.kind != FileKind::Log {
            continue;
        }
        let opened = folder.files.disk().open(&folder.path.join(file.name()), Open::Read)?;
        let mut next = file.offset;
        let mut scan = super::scan::HeaderScan::new(&opened, IfCold::Wait, 0, *len);
        loop {
            match scan.next() {
                Ok(Some(at)) => next = at.header.next_offset(),
                Ok(None) => break,
                // It was synced before it got this name; the disk has lost something
                // since. What can be read of it counts.
                Err(error) if is_damage(&error) => {
                    tracing::warn!(dir = %folder.path.display(), name = file.name(), %error, "compacted segment is damaged");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let (from, end) = range.unwrap_or((file.offset, next));
        range = Some((from.min(file.offset), end.max(next)));
    }
    Ok(range)
}

type Sorted = (BTreeMap<Offset, Segment>, Vec<Offset>);

/// Segments from their files, and the offsets of producer snapshots. An index
/// without a log is removed.
fn sort_files(
    folder: &Arc<Folder>,
    files: BTreeMap<SegmentFile, u64>,
    options: &LogOptions,
) -> io::Result<Sorted> {
    let mut found = BTreeMap::<Offset, (bool, SegmentFiles)>::new();
    let mut snapshots = Vec::new();
    for (file, len) in files {
        let (has_log, lens) = match file.kind {
            FileKind::ProducerSnapshot => {
                snapshots.push(file.offset);
                continue;
            }
            _ => found.entry(file.offset).or_default(),
        };
        match file.kind {
            FileKind::Log => (*has_log, lens.log) = (true, len),
            FileKind::OffsetIndex => lens.index = Some(len),
            FileKind::TimeIndex => lens.time_index = Some(len),
            FileKind::TxnIndex => lens.txn_index = Some(len),
            FileKind::ProducerSnapshot => {}
        }
    }
    let now = options.clock.wall();
    let mut segments = BTreeMap::new();
    for (base, (has_log, lens)) in found {
        let mut segment = Segment::open(folder, base, &lens, now);
        if has_log {
            segments.insert(base, segment);
        } else {
            tracing::warn!(dir = %folder.path.display(), %base, "removing index files without a log");
            segment.remove()?;
        }
    }
    Ok((segments, snapshots))
}
