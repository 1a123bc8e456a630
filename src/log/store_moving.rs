//! Moving a log to another directory of the same broker (KIP-113).
//!
//! ```text
//! create_future ─► <name>.<id>-future ──┬─ promote ─► <name>, the old one <name>.<id>-delete
//!     (somebody copies into it)         └─ drop ────► <name>.<id>-delete
//! ```
//! [`LogStore::promote`] is a clean stop of the copy and a clean start under
//! another name. The copy gets the log's name before the log loses it: a crash in
//! between leaves two equal logs, and the one where the metadata say that it is
//! counts. Whoever promotes has told the controller before.
//!
//! Creating, dropping and promoting are done under the lock of the log's owner;
//! the copy has its own lock, which is taken after that one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::directory::LogDirectory;
use super::file_names::{DirectoryState, FileKind, PartitionDirectory, segment_file};
use super::side_files::write_epochs;
use super::snapshot;
use super::store::{LogStore, StoreError};
use super::store_loading::{DirectoryOf, Found, IsStray};
use super::{Log, LogError, LogOptions};
use crate::sys::disk::replace_file;
use crate::types::{DirectoryId, TopicPartition};

/// How many wishes for logs that are not here yet are remembered; further ones are
/// forgotten, and such a log goes where fewest are.
const PREFERENCES: usize = 100_000;

/// The copy of a log in another directory, which is to replace it.
#[derive(Debug)]
pub struct FutureLog {
    directory: Arc<LogDirectory>,
    log: Mutex<Log>,
}

impl FutureLog {
    /// Where it is.
    pub fn directory(&self) -> &Arc<LogDirectory> {
        &self.directory
    }

    /// The copy.
    pub fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }
}

impl LogStore {
    /// The copy that is being made of a log.
    pub fn future_of(&self, name: &TopicPartition) -> Option<Arc<FutureLog>> {
        self.futures.lock().get(name).cloned()
    }

    /// Remembers where a log is wanted that is not here yet.
    pub fn prefer(&self, name: &TopicPartition, directory: DirectoryId) {
        let mut preferred = self.preferred.lock();
        if preferred.len() < PREFERENCES || preferred.contains_key(name) {
            preferred.insert(name.clone(), directory);
        }
    }

    /// Begins a copy of `source` in another directory.
    ///
    /// # Errors
    /// A directory is offline, where a copy may lie already; the disk fails.
    pub fn create_future(
        &self,
        name: &TopicPartition,
        source: &Log,
        directory: &Arc<LogDirectory>,
    ) -> Result<Arc<FutureLog>, LogError> {
        source.check_online()?;
        if let Some(offline) = self.directories.iter().find(|dir| !dir.health().is_online()) {
            return Err(LogError::Offline { path: offline.path().to_owned() });
        }
        let path = self.unique_path(directory, name, DirectoryState::Future);
        let options = LogOptions {
            topic_id: source.topic_id(),
            clean: true,
            ..self.log_options(directory, source.config().clone())
        };
        let (mut log, _) = Log::open(&path, options)?;
        log.note_topic_id().map_err(|error| directory.health().explain(&path, error))?;
        tracing::info!("Created log for partition {name} in {}", path.display());
        Ok(self.host_future(directory, name, log))
    }

    fn host_future(
        &self,
        directory: &Arc<LogDirectory>,
        name: &TopicPartition,
        log: Log,
    ) -> Arc<FutureLog> {
        directory.add(name, log.marks());
        let future = Arc::new(FutureLog { directory: directory.clone(), log: Mutex::new(log) });
        self.futures.lock().insert(name.clone(), future.clone());
        future
    }

    /// Gives a copy up: its directory goes, unless the disk below has failed.
    pub fn drop_future(&self, name: &TopicPartition, future: &Arc<FutureLog>) {
        if !self.leave_future(name, future) {
            return;
        }
        let directory = &future.directory;
        let (path, delay) = {
            let log = future.lock();
            (log.dir().to_owned(), log.config().file_delete_delay_ms)
        };
        if directory.health().is_online()
            && let Err(error) = self.doom(directory, name, &path, delay)
        {
            tracing::error!(partition = %name, %error, "the copy of a log cannot be given up");
        }
        // A failure takes the directory offline; its listener tells.
        let _ = directory.attempt(|| directory.write_checkpoints());
    }

    /// Lets go of a copy and leaves it where it is, for the next start to go on
    /// with; false when it is not the log's copy any more.
    pub fn leave_future(&self, name: &TopicPartition, future: &Arc<FutureLog>) -> bool {
        {
            let mut futures = self.futures.lock();
            if !futures.get(name).is_some_and(|known| Arc::ptr_eq(known, future)) {
                return false;
            }
            futures.remove(name);
        }
        future.lock().retire();
        future.directory.forget(name);
        true
    }

    pub(super) fn close_futures(&self) {
        let futures: Vec<_> = self.futures.lock().values().cloned().collect();
        for future in futures {
            if let Err(error) = future.lock().close_clean() {
                tracing::error!(%error, "the copy of a log cannot be closed");
                future.directory.not_clean();
            }
        }
    }

    // ── the swap ────────────────────────────────────────────────────────────

    /// Puts a copy in the place of its log, which it equals: the log to go on with.
    /// `source` is at its end then. Should it fail, `source` is as it was, and the
    /// copy can be used no more.
    pub fn promote(
        &self,
        name: &TopicPartition,
        source: &mut Log,
        future: &Arc<FutureLog>,
    ) -> Result<Log, LogError> {
        let directory = &future.directory;
        let mut copy = future.lock();
        copy.close_clean()?;
        copy.marks().set_high_watermark(source.marks().high_watermark());
        if let Some(offset) = source.marks().cleaned_to() {
            copy.marks().set_cleaned_to(offset);
        }
        let path = directory.path().join(name.to_string());
        let named = directory.attempt(|| {
            bequeath(source, &copy)?;
            // Where it starts must be known before anybody can read it.
            directory.write_checkpoints()?;
            self.options.disk.rename(copy.dir(), &path)?;
            self.options.disk.sync_dir(directory.path()).inspect_err(|_| {
                // Two logs must not both go by this name.
                let _ = self.options.disk.rename(&path, copy.dir());
            })
        });
        named.map_err(|error| directory.health().explain(&path, error))?;
        let options = LogOptions {
            topic_id: source.topic_id(),
            clean: true,
            recovery_point: copy.log_end_offset(),
            log_start: copy.log_start_offset(),
            high_watermark: source.marks().high_watermark(),
            ..self.log_options(directory, source.config().clone())
        };
        drop(copy);
        let opened = Log::open(&path, options).and_then(|(mut log, _)| {
            if let Some(latest) = source.epochs().latest() {
                // One that nothing was written in yet does not outlive the opening.
                log.assign_epoch(latest.epoch, latest.start_offset)?;
            }
            Ok(log)
        });
        let log = opened.inspect_err(|_| {
            self.leave_future(name, future);
            let delay = source.config().file_delete_delay_ms;
            if let Err(LogError::Storage { source: error, .. }) =
                self.doom(directory, name, &path, delay)
            {
                // Two logs must not both go by this name.
                directory.health().fail(&path, &error);
            }
        })?;
        if let Some(offset) = source.marks().cleaned_to() {
            log.marks().set_cleaned_to(offset);
        }
        self.futures.lock().remove(name);
        directory.add(name, log.marks());
        self.replace(name, source, directory, &log);
        tracing::info!(
            "The current replica is successfully replaced with the future replica for {name}"
        );
        Ok(log)
    }

    /// The new log is there; lets the old one go.
    fn replace(
        &self,
        name: &TopicPartition,
        source: &mut Log,
        directory: &Arc<LogDirectory>,
        log: &Log,
    ) {
        source.retire();
        let old = {
            let mut hosted = self.hosted.lock();
            let Some(hosted) = hosted.get_mut(name) else { return };
            hosted.marks = log.marks().clone();
            std::mem::replace(&mut hosted.directory, directory.clone())
        };
        old.forget(name);
        let delay = source.config().file_delete_delay_ms;
        if let Err(error) = self.doom(&old, name, source.dir(), delay) {
            tracing::error!(partition = %name, %error, "the log that was moved is left behind");
        }
        let _ = old.attempt(|| old.write_checkpoints());
    }

    // ── start ───────────────────────────────────────────────────────────────

    /// Decides what the last run did not finish: see [`settle`].
    pub(super) fn settle_moves(
        &self,
        lists: &mut [(&Arc<LogDirectory>, Found)],
        directory_of: &DirectoryOf<'_>,
    ) -> Result<(), StoreError> {
        let all_there = lists.len() == self.directories.len();
        for verdict in settle(lists, directory_of, all_there) {
            match verdict {
                Verdict::Replaced { at, name } => {
                    let Some((directory, found)) = lists.get_mut(at) else { continue };
                    let path = directory.path().join(name.to_string());
                    tracing::warn!("{} was replaced before the last stop", path.display());
                    found.current.retain(|current| *current != name);
                    let _ = self.doom(directory, &name, &path, 0);
                }
                Verdict::Promoted { at, name, path } => {
                    let Some((directory, found)) = lists.get_mut(at) else { continue };
                    let from = directory.path().join(&path);
                    let to = directory.path().join(name.to_string());
                    tracing::warn!(
                        "Recovering abandoned future log for {name} at {}",
                        from.display()
                    );
                    found.futures.retain(|(_, known)| *known != path);
                    let renamed = directory.attempt(|| {
                        self.options.disk.rename(&from, &to)?;
                        self.options.disk.sync_dir(directory.path())
                    });
                    if renamed.is_ok() {
                        found.current.push(name);
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens a copy that the last run was making: it is gone on with.
    pub(super) fn load_future(
        &self,
        directory: &Arc<LogDirectory>,
        name: &TopicPartition,
        path: &Path,
        options: LogOptions,
        is_stray: &IsStray<'_>,
    ) {
        if !directory.health().is_online() {
            return;
        }
        let done = match Log::open(path, options) {
            Ok((mut log, _)) => match log.topic_id() {
                Some(topic_id) if is_stray(name, topic_id) => {
                    self.put_aside(directory, name, &mut log)
                }
                Some(_) => {
                    self.host_future(directory, name, log);
                    return;
                }
                // Nothing was copied yet.
                None => self.doom(directory, name, path, 0),
            },
            Err(error) => {
                tracing::warn!(partition = %name, %error, "the copy of a log is begun anew");
                self.doom(directory, name, path, 0)
            }
        };
        if let Err(error) = done {
            tracing::error!(partition = %name, %error, "the copy of a log cannot be put aside");
        }
    }
}

/// Leaves to a copy what is not in the batches: epochs in which nothing was
/// written, and producers whose batches are gone.
fn bequeath(source: &Log, copy: &Log) -> io::Result<()> {
    write_epochs(&copy.folder, source.epochs())?;
    let snapshot = segment_file(copy.log_end_offset(), FileKind::ProducerSnapshot);
    let producers = snapshot::encode(&source.producers().to_snapshot());
    replace_file(&**copy.folder.files.disk(), &copy.dir().join(snapshot), &producers)
}

/// What a move that a crash interrupted comes to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The log in this directory has been replaced by the one in another.
    Replaced { at: usize, name: TopicPartition },
    /// The copy in this directory is all there is of the log.
    Promoted { at: usize, name: TopicPartition, path: String },
}

/// Of two logs of one partition the one counts that the metadata know: a move
/// tells the controller before it renames anything. A copy where the metadata know
/// it takes the place of a log that is nowhere; not while a directory is missing,
/// for the log may be in that one. Other copies are gone on with.
fn settle(
    lists: &[(&Arc<LogDirectory>, Found)],
    directory_of: &DirectoryOf<'_>,
    all_there: bool,
) -> Vec<Verdict> {
    let mut places = std::collections::HashMap::<_, Vec<usize>>::new();
    for (at, (_, found)) in lists.iter().enumerate() {
        for name in &found.current {
            places.entry(name).or_default().push(at);
        }
    }
    let is_told = |at: usize, name| directory_of(name) == lists.get(at).map(|(dir, _)| dir.id());
    let mut verdicts = Vec::new();
    for (name, places) in &places {
        if places.len() > 1 && places.iter().any(|at| is_told(*at, name)) {
            let others = places.iter().filter(|at| !is_told(**at, name));
            verdicts.extend(others.map(|at| Verdict::Replaced { at: *at, name: (*name).clone() }));
        }
    }
    for (at, (_, found)) in lists.iter().enumerate() {
        for (name, path) in &found.futures {
            if all_there && !places.contains_key(name) && is_told(at, name) {
                let (name, path) = (name.clone(), path.clone());
                verdicts.push(Verdict::Promoted { at, name, path });
            }
        }
    }
    verdicts
}

/// True when a copy of the log can have a name: it is longer than the log's own.
pub fn may_move(name: &TopicPartition) -> bool {
    let id = "0".repeat(uuid::fmt::Simple::LENGTH);
    let state = DirectoryState::Future(id);
    PartitionDirectory { partition: name.clone(), state }.name().len() <= 255
}
