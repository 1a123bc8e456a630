//! Loading all logs at start: per directory on some threads, each log by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::directory::{LogDirectory, Offsets};
use super::file_names::{
    CLEANER_CHECKPOINT, DirectoryState, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT,
    METADATA_LOG, PartitionDirectory, RECOVERY_POINT_CHECKPOINT, REMOTE_LOG_INDEX_CACHE,
};
use super::store::{DoomedDirectory, LogStore, Owner, StoreError};
use super::{Log, LogConfig, LogError, LogOptions, RecoveryReport};
use crate::types::{DirectoryId, Offset, Timestamp, TopicId, TopicPartition};

/// Settings of a topic's logs.
pub type ConfigOf<'c> = dyn Fn(&str) -> Arc<LogConfig> + Sync + 'c;
/// True when the metadata do not know this log here.
pub type IsStray<'c> = dyn Fn(&TopicPartition, TopicId) -> bool + Sync + 'c;

/// What loading found and did.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Logs that can be used.
    pub logs: usize,
    /// Logs put aside because the metadata do not know them.
    pub strays: usize,
    /// Logs that had something checked or repaired.
    pub recovered: usize,
    /// Bytes of torn tails that were cut.
    pub bytes_cut: u64,
    /// Logs that could not be loaded, and why; they stay where they are.
    pub unusable: Vec<(TopicPartition, String)>,
    /// How long it took.
    pub took: Duration,
}

/// What a directory lists, sorted out.
#[derive(Default)]
pub(super) struct Found {
    pub(super) current: Vec<TopicPartition>,
    /// Copies, with the names of their directories.
    pub(super) futures: Vec<(TopicPartition, String)>,
    deleted: Vec<String>,
}

/// Where the metadata say that a log is.
pub type DirectoryOf<'c> = dyn Fn(&TopicPartition) -> Option<DirectoryId> + Sync + 'c;

/// The checkpoints of a directory.
struct Checkpoints {
    clean: bool,
    recovery_points: Offsets,
    log_starts: Offsets,
    high_watermarks: Offsets,
    cleaned: Offsets,
}

impl LogStore {
    /// Opens all logs; those that `is_stray` says the metadata do not know are put
    /// aside. A directory that fails meanwhile goes offline, the others go on.
    ///
    /// # Errors
    /// A directory holds something that is no partition; two hold the same; none
    /// is left.
    pub fn load(
        &self,
        config_of: &ConfigOf<'_>,
        is_stray: &IsStray<'_>,
        directory_of: &DirectoryOf<'_>,
    ) -> Result<LoadReport, StoreError> {
        let start = self.options.clock.monotonic();
        let mut lists = Vec::new();
        for directory in self.online() {
            if let Some(found) = self.survey(directory)? {
                lists.push((directory, found));
            }
        }
        self.settle_moves(&mut lists, directory_of)?;
        check_duplicates(&lists)?;
        let report = Mutex::new(LoadReport::default());
        std::thread::scope(|scope| {
            for (directory, found) in &lists {
                let report = &report;
                scope.spawn(move || {
                    self.load_directory(directory, found, config_of, is_stray, report)
                });
            }
        });
        for (directory, found) in lists {
            self.doom_left_overs(directory, found.deleted);
        }
        if self.online().next().is_none() {
            return Err(StoreError::NoneLeft("all failed while loading".to_owned()));
        }
        let _ = self.loaded.set(());
        let mut report = report.into_inner();
        report.took = self.options.clock.monotonic().saturating_sub(start);
        Ok(report)
    }

    /// What is in a directory; `None` when it cannot be listed and is offline now.
    fn survey(&self, directory: &LogDirectory) -> Result<Option<Found>, StoreError> {
        let entries = directory.attempt(|| self.options.disk.list(directory.path()));
        let Ok(entries) = entries else { return Ok(None) };
        let mut found = Found::default();
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            if entry.name == METADATA_LOG || entry.name == REMOTE_LOG_INDEX_CACHE {
                continue;
            }
            match PartitionDirectory::parse(&entry.name) {
                None => {
                    // What a file system puts there itself is nobody's mistake.
                    if entry.name == "lost+found" {
                        continue;
                    }
                    return Err(StoreError::UnknownDirectory(directory.path().join(entry.name)));
                }
                Some(PartitionDirectory { partition, state: DirectoryState::Current }) => {
                    found.current.push(partition);
                }
                Some(PartitionDirectory { partition, state: DirectoryState::Future(_) }) => {
                    found.futures.push((partition, entry.name));
                }
                Some(PartitionDirectory { state: DirectoryState::Deleted(_), .. }) => {
                    found.deleted.push(entry.name);
                }
                Some(_) => {
                    tracing::info!(dir = %directory.path().display(), name = entry.name, "left alone");
                }
            }
        }
        Ok(Some(found))
    }

    fn load_directory(
        &self,
        directory: &Arc<LogDirectory>,
        found: &Found,
        config_of: &ConfigOf<'_>,
        is_stray: &IsStray<'_>,
        report: &Mutex<LoadReport>,
    ) {
        let Ok(checkpoints) = directory.attempt(|| read_checkpoints(directory)) else { return };
        let next = AtomicUsize::new(0);
        let current = &found.current;
        let work = || {
            while let Some(name) = current.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !directory.health().is_online() {
                    return;
                }
                let options = self.options_for(directory, &checkpoints, name, config_of);
                let path = directory.path().join(name.to_string());
                let opened = Log::open(&path, options);
                if let (Ok((log, _)), Some(offset)) = (&opened, checkpoints.cleaned.get(name))
                    && *offset <= log.log_end_offset()
                {
                    log.marks().set_cleaned_to(*offset);
                }
                self.loaded_one(directory, name, opened, is_stray, report);
            }
        };
        let threads = self.options.recovery_threads_per_dir.clamp(1, current.len().max(1));
        std::thread::scope(|scope| {
            // This thread is one of them.
            (1..threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        for (name, path) in &found.futures {
            let options = self.options_for(directory, &checkpoints, name, config_of);
            self.load_future(directory, name, &directory.path().join(path), options, is_stray);
        }
    }

    fn options_for(
        &self,
        directory: &Arc<LogDirectory>,
        checkpoints: &Checkpoints,
        name: &TopicPartition,
        config_of: &ConfigOf<'_>,
    ) -> LogOptions {
        let offset = |offsets: &Offsets| offsets.get(name).copied().unwrap_or(Offset::ZERO);
        LogOptions {
            clean: checkpoints.clean,
            recovery_point: offset(&checkpoints.recovery_points),
            log_start: offset(&checkpoints.log_starts),
            high_watermark: offset(&checkpoints.high_watermarks),
            ..self.log_options(directory, config_of(&name.topic))
        }
    }

    fn loaded_one(
        &self,
        directory: &Arc<LogDirectory>,
        name: &TopicPartition,
        opened: Result<(Log, RecoveryReport), LogError>,
        is_stray: &IsStray<'_>,
        report: &Mutex<LoadReport>,
    ) {
        let (log, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(partition = %name, %error, "log cannot be loaded");
                report.lock().unusable.push((name.clone(), error.to_string()));
                self.unusable.lock().insert(name.clone(), Arc::new(error));
                return;
            }
        };
        // Before the first record a log notes its topic: without it nothing was
        // ever written here.
        let stray = log.topic_id().is_none_or(|topic_id| is_stray(name, topic_id));
        self.host(name, directory, log.marks(), Owner::Lent);
        {
            let mut report = report.lock();
            report.recovered += usize::from(recovery.segments_checked > 0);
            report.bytes_cut += recovery.bytes_cut;
            *(if stray { &mut report.strays } else { &mut report.logs }) += 1;
        }
        if stray {
            if let Err(error) = self.make_stray(name, log) {
                tracing::error!(partition = %name, %error, "stray log cannot be put aside");
            }
        } else if let Some(hosted) = self.hosted.lock().get_mut(name) {
            hosted.owner = Owner::Store(Arc::new(Mutex::new(Some(log))));
        }
    }

    /// Directories that an earlier run has renamed and not removed yet.
    fn doom_left_overs(&self, directory: &Arc<LogDirectory>, names: Vec<String>) {
        let delay = LogConfig::default().file_delete_delay_ms;
        let due = Timestamp(self.options.clock.wall().0.saturating_add(delay));
        let mut doomed = self.doomed.lock();
        for name in names {
            let path = directory.path().join(name);
            doomed.push(DoomedDirectory { directory: directory.clone(), path, due });
        }
    }
}

fn check_duplicates(lists: &[(&Arc<LogDirectory>, Found)]) -> Result<(), StoreError> {
    let mut seen = std::collections::HashMap::new();
    for (directory, found) in lists {
        let current = found.current.iter().map(|name| (name, name.to_string(), false));
        let futures = found.futures.iter().map(|(name, path)| (name, path.clone(), true));
        for (name, path, is_future) in current.chain(futures) {
            let path = directory.path().join(path);
            if let Some(other) = seen.insert((name, is_future), path.clone()) {
                return Err(StoreError::Duplicate(other, path));
            }
        }
    }
    Ok(())
}

/// Reads the checkpoints and takes away the marker of a clean stop: from now on
/// this run answers for the directory.
fn read_checkpoints(directory: &LogDirectory) -> std::io::Result<Checkpoints> {
    let clean = directory.clean_shutdown()?.is_some();
    let checkpoints = Checkpoints {
        clean,
        recovery_points: directory.read_offsets_leniently(RECOVERY_POINT_CHECKPOINT)?,
        log_starts: directory.read_offsets_leniently(LOG_START_CHECKPOINT)?,
        high_watermarks: directory.read_offsets_leniently(HIGH_WATERMARK_CHECKPOINT)?,
        cleaned: directory.read_offsets_leniently(CLEANER_CHECKPOINT)?,
    };
    directory.remove_clean_shutdown()?;
    Ok(checkpoints)
}
