//! A replica's side of its move to another log directory (KIP-113): copying piece
//! by piece while it goes on, and the change from the log to its copy.

use std::sync::Arc;

use bytes::Bytes;

use super::move_plan::{Copied, Source, Step, change, next_step, restart_at};
use super::role::{Role, State};
use super::{Partition, PartitionError};
use crate::log::store::{FutureLog, LogStore};
use crate::log::{Log, LogSlice};
use crate::types::{DirectoryId, LeaderEpoch, Offset, TopicId};

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were copied.
    pub bytes: usize,
    /// It had all there was.
    pub caught_up: bool,
}

/// What a copy takes in next.
struct Piece {
    slice: LogSlice,
    from: Offset,
    log_start: Offset,
    log_end: Offset,
    high_watermark: Offset,
    leader_epoch: LeaderEpoch,
}

impl State {
    /// Finds the next piece for a copy, cutting it where it parts from the log;
    /// `None` when it has all.
    fn next_piece(
        &self,
        copy: &mut Log,
        max_bytes: usize,
    ) -> Result<Option<Piece>, PartitionError> {
        if matches!(self.role, Role::Gone) {
            return Err(PartitionError::Gone);
        }
        self.log.check_online()?;
        let (log_start, log_end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let from = loop {
            match self.next_step(copy) {
                Step::CaughtUp => break log_end,
                Step::Read(from) => break from,
                Step::Truncate(offset) => {
                    let before = (copy.log_end_offset(), copy.epochs().latest());
                    copy.truncate_to(offset)?;
                    if before == (copy.log_end_offset(), copy.epochs().latest()) {
                        copy.truncate_fully_and_start_at(log_start)?;
                    }
                }
            }
        };
        if from == log_end && copy.log_end_offset() == log_end {
            return Ok(None);
        }
        let limit = usize::try_from(copy.config().segment_bytes).unwrap_or(usize::MAX);
        let slice = self.log.read(from, log_end, max_bytes.min(limit), true)?;
        let high_watermark = self.high_watermark;
        let leader_epoch = self.log.epochs().latest().map_or(self.leader_epoch, |e| e.epoch);
        Ok(Some(Piece { slice, from, log_start, log_end, high_watermark, leader_epoch }))
    }

    fn next_step(&self, copy: &Log) -> Step {
        let newest = copy.epochs().latest().map(|entry| entry.epoch);
        let known = self.log.epochs().latest().map(|entry| entry.epoch);
        let asked = newest.zip(known).map(|(newest, known)| newest.min(known));
        let shared = asked.and_then(|epoch| self.log.end_offset_for_epoch(epoch));
        let shared_end = shared.and_then(|(epoch, _)| copy.end_offset_for_epoch(epoch));
        let source = Source {
            log_start: self.log.log_start_offset(),
            log_end: self.log.log_end_offset(),
            shared,
        };
        next_step(&source, &copied(copy, newest, shared_end.map(|(_, end)| end)))
    }
}

fn copied(copy: &Log, epoch: Option<LeaderEpoch>, shared_end: Option<Offset>) -> Copied {
    Copied {
        is_empty: copy.size() == 0,
        log_end: copy.log_end_offset(),
        epoch,
        shared_end: shared_end.unwrap_or_else(|| copy.log_end_offset()),
    }
}

impl Piece {
    /// Appends what was read.
    fn add_to(&self, copy: &mut Log, bytes: Bytes) -> Result<Progress, PartitionError> {
        let first = if bytes.is_empty() { self.from } else { self.slice.first_offset };
        let before = copied(copy, None, None);
        if let Some(at) = restart_at(&before, self.from, first) {
            copy.truncate_fully_and_start_at(at)?;
        }
        let len = bytes.len();
        copy.append_as_follower(bytes, self.leader_epoch)?;
        let end = copy.log_end_offset();
        let start = self.log_start.min(end);
        if start > copy.log_start_offset() {
            copy.delete_records_before(start)?;
            copy.run_retention(self.high_watermark.min(end))?;
        }
        copy.remove_doomed()?;
        copy.high_watermark_advanced(self.high_watermark.min(end));
        Ok(Progress { bytes: len, caught_up: end >= self.log_end })
    }
}

impl Partition {
    /// Does what a wish to have the replica in `wanted` asks for; the copy that is
    /// to be made, when it is a new one.
    pub fn change_directory(
        &self,
        store: &LogStore,
        wanted: DirectoryId,
    ) -> Result<Option<Arc<FutureLog>>, PartitionError> {
        let state = self.state.lock();
        if matches!(state.role, Role::Gone) {
            return Err(PartitionError::Gone);
        }
        state.log.check_online()?;
        let Some(current) = store.directory_of(&self.name) else {
            return Err(PartitionError::Gone);
        };
        let future = store.future_of(&self.name);
        let change = change(current, future.as_ref().map(|f| f.directory().id()), wanted);
        if let Some(future) = future.filter(|_| change.drop) {
            store.drop_future(&self.name, &future);
        }
        let directory = store.directories().iter().find(|directory| directory.id() == wanted);
        match directory.filter(|_| change.create) {
            Some(directory) => Ok(Some(store.create_future(&self.name, &state.log, directory)?)),
            None => Ok(None),
        }
    }

    /// Copies up to `max_bytes`, or one batch. Only finding them holds the lock.
    pub fn copy_some(
        &self,
        future: &FutureLog,
        max_bytes: usize,
    ) -> Result<Progress, PartitionError> {
        let piece = {
            let state = self.state.lock();
            state.next_piece(&mut future.lock(), max_bytes)?
        };
        let Some(piece) = piece else { return Ok(Progress { bytes: 0, caught_up: true }) };
        let bytes = piece.slice.read().map_err(|error| self.unreadable(error))?;
        piece.add_to(&mut future.lock(), bytes)
    }

    fn unreadable(&self, error: std::io::Error) -> PartitionError {
        let state = self.state.lock();
        state.log.health().explain(state.log.dir(), error).into()
    }

    /// Goes on with the copy in place of the log, if it can be brought up to it with
    /// `max_bytes`. Everybody else waits meanwhile: most of the copy is synced before.
    pub fn finish_move(
        &self,
        store: &LogStore,
        future: &Arc<FutureLog>,
        max_bytes: usize,
    ) -> Result<bool, PartitionError> {
        let mut state = self.state.lock();
        {
            let mut copy = future.lock();
            if let Some(piece) = state.next_piece(&mut copy, max_bytes)? {
                let bytes = piece.slice.read();
                let bytes = bytes.map_err(|e| state.log.health().explain(state.log.dir(), e))?;
                if !piece.add_to(&mut copy, bytes)?.caught_up {
                    return Ok(false);
                }
            }
            let start = state.log.log_start_offset();
            if start > copy.log_start_offset() {
                copy.delete_records_before(start)?;
            }
        }
        let before = state.log.log_start_offset();
        state.log = store.promote(&self.name, &mut state.log, future)?;
        if state.log.log_start_offset() != before {
            state.log_start_moved();
        }
        Ok(true)
    }

    /// The topic that its log belongs to; `None` when it was deleted or its
    /// directory failed.
    pub fn topic_id_if_usable(&self) -> Option<TopicId> {
        let state = self.state.lock();
        let usable = !matches!(state.role, Role::Gone) && state.log.check_online().is_ok();
        state.log.topic_id().filter(|_| usable)
    }
}
