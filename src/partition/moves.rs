//! The moves of replicas between log directories that are under way, and the
//! threads that carry them: one move per thread from its beginning to its end, and
//! no threads while there is none.
//!
//! ```text
//! copy until caught up ─► tell the controller ─► copy what came in ─► swap
//!          └───────────────────────┴── given up or failed ─► tell where the log is
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::move_pace::MovePace;
use super::table::{Missing, PartitionTable};
use super::{Partition, PartitionError};
use crate::log::store::{FutureLog, LogStore, may_move};
use crate::sys::clock::Clock;
use crate::sys::thread::{Priority, spawn};
use crate::types::{DirectoryId, TopicId, TopicPartition};

/// Bytes after which what was copied is synced, so that the swap has little to do.
const SYNC_BYTES: usize = 16 << 20;

/// How long to wait for the controller before the copy is brought up again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Longest rest under a limit before the limit is looked at again.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// `replica.alter.log.dirs.io.max.bytes.per.second`, as it is at the moment.
pub type BytesPerSecond = dyn Fn() -> Option<i64> + Send + Sync;

/// Tells the controller where a replica lies, again and again until it hears; the
/// receiver gets its word, or ends when it refuses.
pub type Tell = dyn Fn(TopicId, i32, DirectoryId) -> Receiver<()> + Send + Sync;

/// Settings in force.
#[derive(Clone, Copy, Debug)]
pub struct MoveLimits {
    /// `num.replica.alter.log.dirs.threads`
    pub threads: usize,
    /// `replica.fetch.max.bytes`: what is copied at once.
    pub piece: usize,
    /// `replica.fetch.backoff.ms`: between attempts.
    pub backoff: Duration,
}

/// Why a replica is not moved.
#[derive(Debug, thiserror::Error)]
pub enum AlterDirError {
    /// The copy's directory would have too long a name.
    #[error("the topic name is too long")]
    NameTooLong,
    /// No such directory in `log.dirs`.
    #[error("log directory is not in the configuration")]
    UnknownDirectory,
    /// The directory has failed, or the one that holds the replica.
    #[error("log directory is offline")]
    Offline,
    /// The directory takes no replicas.
    #[error("log directory is cordoned")]
    Cordoned,
    /// No replica here yet; where it is wanted is remembered.
    #[error("the replica is not here")]
    NotHere,
    /// The replica cannot be moved.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}

/// All moves.
pub struct Moves {
    store: Arc<LogStore>,
    limits: MoveLimits,
    per_second: Box<BytesPerSecond>,
    clock: Arc<dyn Clock>,
    tell: Box<Tell>,
    pace: Mutex<MovePace>,
    /// One wish after another.
    altering: Mutex<()>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    moves: BTreeMap<TopicPartition, Move>,
    threads: Vec<JoinHandle<()>>,
    at_work: usize,
    stopped: bool,
}

#[derive(Clone)]
struct Move {
    partition: Arc<Partition>,
    future: Arc<FutureLog>,
    /// A thread is at it, or at the one that this one follows.
    running: bool,
}

impl std::fmt::Debug for Moves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let moves = self.queue.lock().moves.len();
        f.debug_struct("Moves").field("moves", &moves).finish_non_exhaustive()
    }
}

impl Moves {
    /// No moves yet.
    pub fn new(
        store: Arc<LogStore>,
        limits: MoveLimits,
        per_second: Box<BytesPerSecond>,
        clock: Arc<dyn Clock>,
        tell: Box<Tell>,
    ) -> Arc<Self> {
        let (pace, altering, queue, changed) = <_>::default();
        Arc::new(Self { store, limits, per_second, clock, tell, pace, altering, queue, changed })
    }

    /// Begins to move a replica to the directory at `path`, or ends its move when it
    /// is there. One that is not here yet will be created there.
    pub fn alter(
        self: &Arc<Self>,
        table: &PartitionTable,
        name: &TopicPartition,
        path: &str,
        cordoned: &[String],
    ) -> Result<(), AlterDirError> {
        let _one_at_a_time = self.altering.lock();
        if !may_move(name) {
            return Err(AlterDirError::NameTooLong);
        }
        let is_it = |known: &Path| std::path::absolute(known).is_ok_and(|p| p == Path::new(path));
        let wanted = self.store.directories().iter().find(|wanted| is_it(wanted.path()));
        let wanted = wanted.ok_or(AlterDirError::UnknownDirectory)?;
        if !wanted.health().is_online() {
            return Err(AlterDirError::Offline);
        }
        if cordoned.iter().any(|dir| dir == "*" || wanted.path() == Path::new(dir)) {
            return Err(AlterDirError::Cordoned);
        }
        let partition = match table.get(&name.topic, name.partition) {
            Ok(partition) => partition,
            Err(Missing::Offline) => return Err(AlterDirError::Offline),
            Err(Missing::NotHere) => {
                self.store.prefer(name, wanted.id());
                return Err(AlterDirError::NotHere);
            }
        };
        if let Some(future) = partition.change_directory(&self.store, wanted.id())? {
            self.begin(partition, future);
        }
        Ok(())
    }

    /// Goes on with the move that the last run had begun for this replica.
    pub fn resume(self: &Arc<Self>, table: &PartitionTable, name: &TopicPartition) {
        let Some(future) = self.store.future_of(name) else { return };
        let Ok(partition) = table.get(&name.topic, name.partition) else { return };
        let known = self.queue.lock().moves.contains_key(name);
        if !known {
            self.begin(partition, future);
        }
    }

    fn begin(self: &Arc<Self>, partition: Arc<Partition>, future: Arc<FutureLog>) {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return;
        }
        let name = partition.name().clone();
        tracing::info!("Moving {name} to {}", future.directory().path().display());
        let running = queue.moves.get(&name).is_some_and(|before| before.running);
        queue.moves.insert(name, Move { partition, future, running });
        self.changed.notify_all();
        queue.threads.retain(|thread| !thread.is_finished());
        if queue.at_work >= self.limits.threads.max(1) {
            return;
        }
        let moves = self.clone();
        let name = format!("ReplicaAlterLogDirsThread-{}", queue.at_work);
        match spawn(&name, Priority::Background, move || moves.work()) {
            Ok(thread) => {
                queue.at_work += 1;
                queue.threads.push(thread);
            }
            Err(error) => tracing::error!(%error, "no thread for moves of replicas"),
        }
    }

    /// Ends the threads: what they were at is gone on with at the next start.
    pub fn stop(&self) {
        let threads = {
            let mut queue = self.queue.lock();
            queue.stopped = true;
            self.changed.notify_all();
            std::mem::take(&mut queue.threads)
        };
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            let stopped = queue.stopped;
            let next = queue.moves.values_mut().find(|next| !next.running && !stopped);
            let Some(next) = next else { break };
            next.running = true;
            let taken = next.clone();
            drop(queue);
            self.carry(&taken);
            queue = self.queue.lock();
            let name = taken.partition.name();
            match queue.moves.get_mut(name) {
                Some(known) if !Arc::ptr_eq(&known.future, &taken.future) => known.running = false,
                _ => drop(queue.moves.remove(name)),
            }
        }
        queue.at_work -= 1;
    }

    /// Waits; false when it is time to stop.
    fn rest(&self, time: Duration) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stopped {
            self.changed.wait_for(&mut queue, time);
        }
        !queue.stopped
    }

    fn is_stopped(&self) -> bool {
        self.queue.lock().stopped
    }

    fn carry(&self, taken: &Move) {
        let Move { partition, future, .. } = taken;
        let name = partition.name();
        let is_wanted = || self.is_wanted(partition, future);
        while is_wanted() {
            match self.carry_on(partition, future) {
                Ok(true) | Err(PartitionError::Gone) => return,
                Ok(false) if self.is_stopped() => return,
                Ok(false) => {}
                Err(_) if !is_wanted() => break,
                Err(error) => {
                    tracing::error!(partition = %name, %error, "the move of a replica has failed");
                    if partition.topic_id_if_usable().is_none() {
                        // The copy may be all that is left.
                        self.store.leave_future(name, future);
                    } else if !future.directory().health().is_online()
                        || future.lock().check_online().is_err()
                    {
                        self.store.drop_future(name, future);
                    } else if !self.rest(self.limits.backoff) {
                        return;
                    }
                }
            }
        }
        self.tell_truth(partition);
    }

    /// Copies until the end and swaps; false when it is time to stop or to look
    /// whether the move is still wanted.
    fn carry_on(
        &self,
        partition: &Arc<Partition>,
        future: &Arc<FutureLog>,
    ) -> Result<bool, PartitionError> {
        if !self.copy(partition, future)? {
            return Ok(false);
        }
        let target = future.directory().id();
        let Some(told) = self.tell(partition, target) else { return Ok(false) };
        loop {
            if self.is_stopped() {
                return Ok(false);
            }
            match told.recv_timeout(LOOK_AGAIN) {
                Ok(()) => break,
                Err(RecvTimeoutError::Timeout) if !self.copy(partition, future)? => {
                    return Ok(false);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.rest(self.limits.backoff);
                    return Ok(false);
                }
            }
        }
        while self.copy(partition, future)? {
            if partition.finish_move(&self.store, future, self.limits.piece)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies until there is nothing more, and syncs; false when it is time to stop or
    /// the move is no longer wanted.
    fn copy(&self, partition: &Partition, future: &Arc<FutureLog>) -> Result<bool, PartitionError> {
        let mut unsynced = 0;
        while self.pause(partition, future) {
            let progress = partition.copy_some(future, self.limits.piece)?;
            self.pace.lock().copied(progress.bytes);
            unsynced += progress.bytes;
            if progress.caught_up || unsynced >= SYNC_BYTES {
                let mut copy = future.lock();
                let end = copy.log_end_offset();
                copy.flush(end)?;
                unsynced = 0;
            }
            if progress.caught_up {
                return Ok(true);
            }
            // What is missing cannot be read yet: after the last record that
            // compaction left there is nothing until the next one comes.
            if progress.bytes == 0 && !self.rest(self.limits.backoff) {
                break;
            }
        }
        Ok(false)
    }

    /// Waits until more may be copied; false when there is no more to be.
    fn pause(&self, partition: &Partition, future: &Arc<FutureLog>) -> bool {
        while !self.is_stopped() {
            let now = self.clock.monotonic();
            let Some(time) = self.pace.lock().pause((self.per_second)(), now) else { return true };
            if !self.rest(time.min(LONGEST_PAUSE)) || !self.is_wanted(partition, future) {
                return false;
            }
        }
        false
    }

    fn is_wanted(&self, partition: &Partition, future: &Arc<FutureLog>) -> bool {
        self.store.future_of(partition.name()).is_some_and(|known| Arc::ptr_eq(&known, future))
    }

    fn tell(&self, partition: &Partition, directory: DirectoryId) -> Option<Receiver<()>> {
        let topic_id = partition.topic_id_if_usable()?;
        Some((self.tell)(topic_id, partition.name().partition, directory))
    }

    /// The controller may have been told of a swap that does not come.
    fn tell_truth(&self, partition: &Partition) {
        let actual = self.store.directory_of(partition.name());
        let Some(told) = actual.and_then(|actual| self.tell(partition, actual)) else { return };
        while told.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) {
            if self.is_stopped() {
                return;
            }
        }
    }
}
