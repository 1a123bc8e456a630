//! The store's work in the background, and its end. Plain functions that whoever
//! runs the broker calls from time to time, on a thread that may block.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::directory::LogDirectory;
use super::news::Look;
use super::store::{LogStore, Owner};
use super::{Log, LogError, LogMarks};
use crate::sys::cold::IfCold;
use crate::sys::disk::is_exhaustion;
use crate::types::TopicPartition;

/// Logs of a directory that a stop syncs one by one; when more have something to be
/// synced, all of the volume is.
const SYNCED_ONE_BY_ONE: usize = 16;

/// Logs that one look syncs: other work waits meanwhile, and a stop does. The rest is
/// looked at next time.
const SYNCED_AT_A_LOOK: usize = 100;

/// So often retention makes way for the disk in one log; as a rule each segment is
/// read once. What is evicted again and again is waited for then.
const COLD_LOOKS: usize = 10_000;

impl LogStore {
    /// Lets go what retention allows: each `log.retention.check.interval.ms`.
    /// The locks of logs are not held while the age of a segment is read from the disk.
    pub fn run_retention(&self) {
        for name in self.names_where(|_| true) {
            let mut refusals = 0..COLD_LOOKS;
            loop {
                let if_cold = refusals.next().map_or(IfCold::Wait, |_| IfCold::Refuse);
                let mut missing = None;
                self.with_log(&name, |log| {
                    let high_watermark = log.marks().high_watermark();
                    match log.try_retention(high_watermark, if_cold) {
                        Ok(Ok(0)) => {}
                        Ok(Ok(gone)) => {
                            tracing::info!(partition = %name, gone, "retention let segments go");
                        }
                        Ok(Err(cold)) => missing = Some(cold),
                        Err(error) => {
                            tracing::error!(partition = %name, %error, "retention failed")
                        }
                    }
                });
                let Some(cold) = missing else { break };
                if cold.bring_in().is_err() {
                    // The next look waits, meets the same error and tells it.
                    refusals = 0..0;
                }
            }
        }
    }

    /// Forgets silent producers: each
    /// `producer.id.expiration.check.interval.ms`.
    pub fn run_producer_expiration(&self) {
        self.for_each(|_| true, |_, log| log.remove_expired_producers());
    }

    /// Syncs what was rolled, and what `flush.ms` asks for: each second or so.
    /// The locks of logs are not held while the disk works.
    pub fn run_flush(&self) {
        let mut left = SYNCED_AT_A_LOOK;
        for name in self.names_to_look_at(Look::Flush, LogMarks::may_need_flush) {
            if left == 0 {
                break;
            }
            let mut flush = None;
            self.with_log(&name, |log| {
                let begun = log.flush_due().map(|up_to| log.begin_flush(up_to));
                match begun.transpose() {
                    Ok(begun) => flush = begun.flatten(),
                    Err(error) => tracing::error!(partition = %name, %error, "flush failed"),
                }
            });
            // Those that are not due yet do not count, or others would never be.
            let Some(flush) = flush else { continue };
            left -= 1;
            let synced = flush.run();
            self.with_log(&name, |log| match &synced {
                _ if !flush.is_of(log) => {}
                Ok(()) => log.finish_flush(&flush),
                // The log is looked at again when there are descriptors once more.
                Err(error) if is_exhaustion(error) => {
                    tracing::warn!(partition = %name, %error, "flush failed");
                }
                Err(error) => log.health().fail(log.dir(), error),
            });
        }
    }

    /// Removes files and directories that were given up long enough ago.
    pub fn run_removals(&self) {
        let now = self.options.clock.wall();
        for name in self.names_to_look_at(Look::Removals, LogMarks::has_removals) {
            self.with_log(&name, |log| {
                if let Err(error) = log.remove_doomed() {
                    tracing::error!(partition = %name, %error, "old segments cannot be removed");
                }
            });
        }
        let due = {
            let mut doomed = self.doomed.lock();
            let (due, waiting) = std::mem::take(&mut *doomed)
                .into_iter()
                .partition::<Vec<_>, _>(|doomed| doomed.due <= now);
            *doomed = waiting;
            due
        };
        for doomed in due {
            let removed =
                doomed.directory.attempt(|| match self.options.disk.remove_dir_all(&doomed.path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    other => other,
                });
            match removed {
                Ok(()) => tracing::info!(dir = %doomed.path.display(), "removed deleted log"),
                Err(error) => {
                    tracing::error!(dir = %doomed.path.display(), %error, "deleted log cannot be removed");
                }
            }
        }
    }

    /// Writes recovery points: each `log.flush.offset.checkpoint.interval.ms`.
    pub fn run_recovery_point_checkpoint(&self) {
        self.checkpoint(Look::RecoveryPoints, LogDirectory::write_recovery_points);
    }

    /// Writes where logs begin: each
    /// `log.flush.start.offset.checkpoint.interval.ms`.
    pub fn run_log_start_checkpoint(&self) {
        self.checkpoint(Look::LogStarts, LogDirectory::write_log_starts);
    }

    /// Writes high watermarks: each
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub fn run_high_watermark_checkpoint(&self) {
        self.checkpoint(Look::HighWatermarks, LogDirectory::write_high_watermarks);
    }

    fn checkpoint(&self, look: Look, write: fn(&LogDirectory) -> io::Result<()>) {
        for directory in self.online().filter(|directory| directory.news().taken(look)) {
            // A failure takes the directory offline, and its listener tells; unless it
            // will pass.
            if directory.attempt(|| write(directory)).is_err() {
                directory.news().again(look);
            }
        }
    }

    /// The end: all logs closed, all checkpoints written, then the marker that
    /// says so, with the epoch that the controller gave this broker. Directories
    /// where something fails get no marker and are checked at the next start.
    pub fn close_clean(&self, broker_epoch: i64) {
        let written = self.close_unsynced();
        self.close_futures();
        for directory in self.online() {
            let here = written.iter().filter(|(_, of)| Arc::ptr_eq(of, directory));
            self.sync_closed(directory, &here.map(|(name, _)| name).collect::<Vec<_>>());
            let _ = directory.attempt(|| {
                directory.write_high_watermarks()?;
                directory.write_recovery_points()?;
                directory.write_log_starts()?;
                if self.loaded.get().is_some() && directory.is_clean() {
                    directory.write_clean_shutdown(broker_epoch)?;
                }
                Ok(())
            });
        }
    }

    /// Closes all logs, on some threads; those that have something to be synced,
    /// with their directories.
    fn close_unsynced(&self) -> Vec<(TopicPartition, Arc<LogDirectory>)> {
        let names = self.names_where(|_| true);
        let next = AtomicUsize::new(0);
        let unsynced = Mutex::new(Vec::new());
        let work = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Some(directory) = self.directory(name) else { continue };
                let mut closed = None;
                self.with_log(name, |log| closed = Some(log.close_unsynced()));
                match closed {
                    Some(Ok(false)) => {}
                    Some(Ok(true)) => unsynced.lock().push((name.clone(), directory)),
                    Some(Err(error)) => not_closed(name, &directory, &error),
                    None => directory.not_clean(),
                }
            }
        };
        let threads = self.options.recovery_threads_per_dir * self.directories.len().max(1);
        std::thread::scope(|scope| {
            (1..threads.clamp(1, names.len().max(1))).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        unsynced.into_inner()
    }

    /// Makes closed logs durable: a few one by one, for the volume may hold much that
    /// is not ours; many at once.
    fn sync_closed(&self, directory: &LogDirectory, names: &[&TopicPartition]) {
        let at_once = names.len() > SYNCED_ONE_BY_ONE;
        let synced = directory.attempt(|| match at_once {
            true => directory.sync_all(),
            false => Ok(()),
        });
        if let Err(error) = synced {
            tracing::error!(dir = %directory.path().display(), %error, "logs cannot be closed");
            directory.not_clean();
            return;
        }
        for name in names {
            self.with_log(name, |log| {
                let synced = if at_once { Ok(()) } else { log.sync_closed() };
                match synced {
                    Ok(()) => log.closed_durably(),
                    Err(error) => not_closed(name, directory, &error),
                }
            });
        }
    }

    pub(super) fn directory(&self, name: &TopicPartition) -> Option<Arc<LogDirectory>> {
        self.hosted.lock().get(name).map(|hosted| hosted.directory.clone())
    }

    /// Those of the logs that are `wanted`; nothing is looked at when none can have
    /// become so. As long as there are any, it is.
    fn names_to_look_at(
        &self,
        look: Look,
        wanted: impl Fn(&LogMarks) -> bool,
    ) -> Vec<TopicPartition> {
        let news = self.online().filter(|directory| directory.news().taken(look)).count();
        let names = if news > 0 { self.names_where(wanted) } else { Vec::new() };
        if !names.is_empty() {
            self.online().for_each(|directory| directory.news().again(look));
        }
        names
    }

    fn names_where(&self, wanted: impl Fn(&LogMarks) -> bool) -> Vec<TopicPartition> {
        let hosted = self.hosted.lock();
        let wanted = hosted
            .iter()
            .filter(|(_, hosted)| hosted.directory.health().is_online() && wanted(&hosted.marks));
        wanted.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn for_each(
        &self,
        wanted: impl Fn(&LogMarks) -> bool,
        mut act: impl FnMut(&TopicPartition, &mut Log),
    ) {
        for name in self.names_where(wanted) {
            self.with_log(&name, |log| act(&name, log));
        }
    }

    /// Lets `act` work on a log, whoever has it; not at all when it was given out
    /// and its owner is gone or unknown.
    pub(super) fn with_log(&self, name: &TopicPartition, mut act: impl FnMut(&mut Log)) {
        let (holder, loaded) = match self.hosted.lock().get(name).map(|hosted| &hosted.owner) {
            Some(Owner::Holder(holder)) => (holder.upgrade(), None),
            Some(Owner::Store(loaded)) => (None, Some(loaded.clone())),
            Some(Owner::Lent) | None => (None, None),
        };
        if let Some(holder) = holder {
            holder.with_log(&mut act);
        } else if let Some(loaded) = loaded {
            loaded.lock().iter_mut().for_each(act);
        }
    }
}

fn not_closed(name: &TopicPartition, directory: &LogDirectory, error: &LogError) {
    tracing::error!(partition = %name, %error, "log cannot be closed");
    directory.not_clean();
}
