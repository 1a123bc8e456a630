//! One log directory: its identity, its lock, and the small files that speak of
//! all logs in it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::checkpoint_text::{decode_offsets, encode_offsets};
use super::error::DirectoryHealth;
use super::file_names::{
    CLEAN_SHUTDOWN, CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
};
use super::news::News;
use super::{LogMarks, Rewound};
use crate::sys::disk::{Disk, DiskLock, is_exhaustion, read_small_file, replace_file};
use crate::types::{DirectoryId, Offset, TopicPartition};

/// No checkpoint comes near this; what is larger is none.
const SIZE_LIMIT: usize = 256 << 20;

/// Offsets of partitions, as a checkpoint holds them.
pub type Offsets = BTreeMap<TopicPartition, Offset>;

/// One log directory.
#[derive(Debug)]
pub struct LogDirectory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    id: DirectoryId,
    health: Arc<DirectoryHealth>,
    /// The logs that live here.
    logs: Mutex<Logs>,
    news: Arc<News>,
    /// Fingerprints of what the checkpoints say, by name: no write when nothing
    /// changed, and one writer at a time.
    written: Mutex<BTreeMap<&'static str, u64>>,
    /// A log in it was not closed as it should be.
    unclean: AtomicBool,
    /// None where it could not be used from the start.
    lock: Option<Box<dyn DiskLock>>,
}

#[derive(Debug, Default)]
struct Logs {
    marks: BTreeMap<TopicPartition, Arc<LogMarks>>,
    /// Counts the logs that came and went.
    changes: u64,
}

/// The clean-shutdown marker's contents; older ones are empty.
#[derive(Debug, Serialize, Deserialize)]
struct CleanShutdown {
    version: i32,
    #[serde(rename = "brokerEpoch")]
    broker_epoch: i64,
}

impl LogDirectory {
    /// The directory at `path`, locked.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        id: DirectoryId,
        lock: Option<Box<dyn DiskLock>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            disk,
            path,
            id,
            health: DirectoryHealth::sound(),
            logs: Mutex::default(),
            news: Arc::default(),
            written: Mutex::default(),
            unclean: AtomicBool::new(false),
            lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its identity (KIP-858).
    pub fn id(&self) -> DirectoryId {
        self.id
    }

    /// Whether it can be used.
    pub fn health(&self) -> &Arc<DirectoryHealth> {
        &self.health
    }

    /// Makes all that is in it durable at once.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        match &self.lock {
            Some(lock) => lock.sync_all_beside(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether there is anything new in its logs.
    pub(super) fn news(&self) -> &News {
        &self.news
    }

    /// Number of logs in it.
    pub fn log_count(&self) -> usize {
        self.logs.lock().marks.len()
    }

    /// The logs in it, with their numbers.
    pub fn logs(&self) -> Vec<(TopicPartition, Arc<LogMarks>)> {
        let logs = self.logs.lock();
        logs.marks.iter().map(|(name, marks)| (name.clone(), marks.clone())).collect()
    }

    pub(super) fn add(&self, name: &TopicPartition, marks: &Arc<LogMarks>) {
        let mut logs = self.logs.lock();
        logs.marks.insert(name.clone(), marks.clone());
        logs.changes += 1;
        marks.tell(&self.news);
    }

    pub(super) fn forget(&self, name: &TopicPartition) {
        let mut logs = self.logs.lock();
        logs.marks.remove(name);
        logs.changes += 1;
        self.news.came();
    }

    /// Does something with the disk; an error takes the directory offline.
    pub(super) fn attempt<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if !self.health.is_online() {
            return Err(io::Error::other("log directory is offline"));
        }
        act().inspect_err(|error| {
            if !is_exhaustion(error) {
                self.health.fail(&self.path, error);
            }
        })
    }

    // ── checkpoints ─────────────────────────────────────────────────────────

    /// Reads an offset checkpoint; empty when there is none. `InvalidData` when
    /// it is damaged.
    pub(super) fn read_offsets(&self, name: &str) -> io::Result<Offsets> {
        let Some(bytes) = read_small_file(&*self.disk, &self.path.join(name), SIZE_LIMIT)? else {
            return Ok(Offsets::new());
        };
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let text = String::from_utf8(bytes).map_err(|_| invalid(format!("{name}: not UTF-8")))?;
        let entries = decode_offsets(&text).map_err(|error| invalid(format!("{name}: {error}")))?;
        Ok(entries.into_iter().collect())
    }

    /// The same; a damaged one says nothing, and a line in the log says so.
    pub(super) fn read_offsets_leniently(&self, name: &str) -> io::Result<Offsets> {
        match self.read_offsets(name) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(dir = %self.path.display(), %error, "checkpoint is ignored");
                Ok(Offsets::new())
            }
            other => other,
        }
    }

    fn write_offsets(
        &self,
        name: &'static str,
        offset: impl Fn(&LogMarks) -> Option<Offset>,
    ) -> io::Result<()> {
        // Collected under the lock of the writing, so that an older state never
        // overwrites a newer one.
        let mut written = self.written.lock();
        let mut entries = Vec::new();
        let fingerprint = {
            let logs = self.logs.lock();
            let offsets = logs.marks.values().map(|marks| offset(marks));
            let fingerprint = offsets.fold(logs.changes, mix);
            if written.get(name) == Some(&fingerprint) {
                return Ok(());
            }
            let known = logs.marks.iter();
            entries.extend(known.filter_map(|(name, marks)| Some((name.clone(), offset(marks)?))));
            fingerprint
        };
        let text = encode_offsets(entries.iter().map(|(name, offset)| (name, *offset)));
        replace_file(&*self.disk, &self.path.join(name), text.as_bytes())?;
        // An offset that moved between the two looks was written newer than its
        // fingerprint says; the next run then writes once too often.
        written.insert(name, fingerprint);
        Ok(())
    }

    /// Writes up to where each log is synced.
    pub(super) fn write_recovery_points(&self) -> io::Result<()> {
        self.write_offsets(RECOVERY_POINT_CHECKPOINT, |marks| Some(marks.recovery_point()))
    }

    /// Writes where logs begin whose first segment does not say it.
    pub(super) fn write_log_starts(&self) -> io::Result<()> {
        self.write_offsets(LOG_START_CHECKPOINT, |marks| {
            let start = marks.log_start();
            (start > marks.first_base()).then_some(start)
        })
    }

    /// Writes up to where each log is committed.
    pub(super) fn write_high_watermarks(&self) -> io::Result<()> {
        self.write_offsets(HIGH_WATERMARK_CHECKPOINT, |marks| Some(marks.high_watermark()))
    }

    /// Writes up to where each log is compacted.
    pub(super) fn write_cleaned(&self) -> io::Result<()> {
        let known = self.logs().iter().any(|(_, marks)| marks.cleaned_to().is_some());
        if !known && !self.disk.exists(&self.path.join(CLEANER_CHECKPOINT)) {
            return Ok(());
        }
        self.write_offsets(CLEANER_CHECKPOINT, LogMarks::cleaned_to)
    }

    /// Writes all of them.
    pub(super) fn write_checkpoints(&self) -> io::Result<()> {
        self.write_recovery_points()?;
        self.write_log_starts()?;
        self.write_high_watermarks()?;
        self.write_cleaned()
    }

    /// Notes that a stop cannot be called clean any more.
    pub(super) fn not_clean(&self) {
        self.unclean.store(true, Ordering::Release);
    }

    /// False when something has to be checked at the next start.
    pub(super) fn is_clean(&self) -> bool {
        !self.unclean.load(Ordering::Acquire)
    }

    // ── clean stop ──────────────────────────────────────────────────────────

    /// Looks for the marker of a clean stop: the broker's epoch then, -1 when
    /// the marker does not say; `None` when there is no marker.
    pub(super) fn clean_shutdown(&self) -> io::Result<Option<i64>> {
        let path = self.path.join(CLEAN_SHUTDOWN);
        let Some(bytes) = read_small_file(&*self.disk, &path, SIZE_LIMIT)? else {
            return Ok(None);
        };
        let marker = serde_json::from_slice::<CleanShutdown>(&bytes);
        Ok(Some(marker.map_or(-1, |marker| marker.broker_epoch)))
    }

    /// Removes the marker: from now on a stop is unclean until it is written anew.
    pub(super) fn remove_clean_shutdown(&self) -> io::Result<()> {
        match self.disk.remove_file(&self.path.join(CLEAN_SHUTDOWN)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.disk.sync_dir(&self.path),
        }
    }

    /// Writes the marker, after everything else.
    pub(super) fn write_clean_shutdown(&self, broker_epoch: i64) -> io::Result<()> {
        let marker = serde_json::to_vec(&CleanShutdown { version: 0, broker_epoch })?;
        replace_file(&*self.disk, &self.path.join(CLEAN_SHUTDOWN), &marker)
    }
}

/// Adds an offset to a fingerprint; order counts.
fn mix(fingerprint: u64, offset: Option<Offset>) -> u64 {
    let offset = offset.map_or(u64::MAX, |offset| offset.0.cast_unsigned());
    (fingerprint.rotate_left(5) ^ offset).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Rewound for LogDirectory {
    fn recovery_point_rewound(&self) -> io::Result<()> {
        self.write_recovery_points()?;
        self.write_cleaned()
    }
}
