//! Producer state with its snapshots: `<offset>.snapshot`, the state before that
//! offset.
//!
//! A snapshot is written at every roll, on a clean stop and after recovery, so
//! that a start replays no more than the last segments. It is no loss when one
//! is damaged: an older one, or the log start, needs more replay.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::append_plan::{AppendOrigin, BatchFacts};
use super::file_names::{FileKind, segment_file};
use super::files::Folder;
use super::producers::{Prepared, ProducerContext, ProducerError, Producers, ProducersUpdate};
use super::snapshot;
use super::txn_index::{AbortedTransaction, TransactionIndex};
use crate::sys::disk::{DiskFile, Open, read_small_file};
use crate::types::{Offset, Timestamp};

/// Snapshots of more producers than fit here are not believed.
const SIZE_LIMIT: usize = 1 << 30;

/// Producers and the snapshots of them.
#[derive(Debug)]
pub(super) struct ProducerFiles {
    folder: Arc<Folder>,
    producers: Producers,
    snapshots: BTreeSet<Offset>,
    unsynced: Vec<Offset>,
    /// False for the metadata log, which has no producers.
    tracked: bool,
    expiration_ms: i64,
}

impl ProducerFiles {
    /// Nothing known yet; snapshots at these offsets lie in the directory.
    pub(super) fn new(
        folder: &Arc<Folder>,
        snapshots: Vec<Offset>,
        tracked: bool,
        expiration_ms: i64,
    ) -> Self {
        Self {
            folder: folder.clone(),
            producers: Producers::default(),
            snapshots: snapshots.into_iter().collect(),
            unsynced: Vec::new(),
            tracked,
            expiration_ms,
        }
    }

    pub(super) fn get(&self) -> &Producers {
        &self.producers
    }

    pub(super) fn get_mut(&mut self) -> &mut Producers {
        &mut self.producers
    }

    pub(super) fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// The offset that the state reaches.
    pub(super) fn end(&self) -> Offset {
        self.producers.end_offset()
    }

    // ── appending ───────────────────────────────────────────────────────────

    pub(super) fn prepare<'f>(
        &self,
        facts: impl IntoIterator<Item = &'f BatchFacts>,
        context: &ProducerContext,
    ) -> Result<Prepared, ProducerError> {
        if !self.tracked {
            return Ok(Prepared::Update(ProducersUpdate::default()));
        }
        self.producers.prepare(facts, context)
    }

    /// Takes in what was written up to `end`; the aborted transactions go into
    /// the index of the segment that holds their markers.
    pub(super) fn apply(
        &mut self,
        update: ProducersUpdate,
        end: Offset,
        aborted: &mut TransactionIndex,
    ) -> io::Result<()> {
        for error in update.suppressed() {
            tracing::warn!(dir = %self.folder.path.display(), %error, "replicated batch is against the rules");
        }
        for decided in self.producers.apply(update, end) {
            let transaction = &decided.transaction;
            if transaction.aborted {
                aborted.append(&AbortedTransaction {
                    producer_id: transaction.producer_id,
                    first_offset: transaction.first_offset,
                    last_offset: transaction.last_offset,
                    last_stable_offset: decided.last_stable_offset,
                })?;
            }
        }
        Ok(())
    }

    /// Takes in a batch that is in the log already. With an index, which is being
    /// rebuilt, its aborted transactions go there.
    pub(super) fn replay(
        &mut self,
        facts: &BatchFacts,
        aborted: Option<&mut TransactionIndex>,
    ) -> io::Result<()> {
        if self.tracked && facts.header.has_producer_id() {
            let context = ProducerContext::of(AppendOrigin::Replication);
            match self.producers.prepare([facts], &context) {
                Ok(Prepared::Update(update)) => {
                    let end = facts.header.next_offset();
                    match aborted {
                        Some(aborted) => self.apply(update, end, aborted)?,
                        None => drop(self.producers.apply(update, end)),
                    }
                }
                Ok(Prepared::Duplicate(_)) => {}
                Err(error) => {
                    tracing::warn!(dir = %self.folder.path.display(), %error, "batch in the log is against the rules");
                }
            }
        }
        self.producers.advance_to(facts.header.next_offset());
        Ok(())
    }

    /// The log goes on to `end`.
    pub(super) fn move_end(&mut self, end: Offset) {
        self.producers.advance_to(end);
    }

    /// Records below `start` are gone.
    pub(super) fn log_start_moved(&mut self, start: Offset) {
        let latest = self.snapshots.last().copied();
        self.producers.on_log_start_incremented(start, latest);
    }

    /// Forgets producers that were silent for too long.
    pub(super) fn remove_expired(&mut self, now: Timestamp) {
        self.producers.remove_expired(now, self.expiration_ms);
    }

    // ── snapshots ───────────────────────────────────────────────────────────

    fn path(&self, offset: Offset) -> PathBuf {
        self.folder.path.join(segment_file(offset, FileKind::ProducerSnapshot))
    }

    /// Writes the state, unless it did not move since the last time. Not synced.
    pub(super) fn take_snapshot(&mut self) -> io::Result<()> {
        if !self.tracked || !self.producers.wants_snapshot() {
            return Ok(());
        }
        let offset = self.end();
        let bytes = snapshot::encode(&self.producers.to_snapshot());
        let opened = self.folder.files.disk().open(&self.path(offset), Open::Create);
        let file = self.folder.changed(opened)?;
        file.set_len(0)?;
        file.write_at(&bytes, 0)?;
        self.snapshots.insert(offset);
        self.unsynced.push(offset);
        self.producers.snapshot_written(offset);
        Ok(())
    }

    /// The snapshots that are not known to be durable.
    pub(super) fn files_to_sync(&mut self, into: &mut Vec<Arc<dyn DiskFile>>) -> io::Result<()> {
        for offset in std::mem::take(&mut self.unsynced) {
            if self.snapshots.contains(&offset) {
                into.push(self.folder.files.disk().open(&self.path(offset), Open::Read)?);
            }
        }
        Ok(())
    }

    pub(super) fn has_snapshot(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Removes the snapshot at `offset`, if there is one.
    pub(super) fn forget_snapshot(&mut self, offset: Offset) -> io::Result<()> {
        if self.snapshots.remove(&offset) {
            let removed = self.folder.files.disk().remove_file(&self.path(offset));
            remove_if_there(self.folder.changed(removed))?;
        }
        Ok(())
    }

    /// Removes snapshots that no segment needs.
    pub(super) fn remove_strays(&mut self, bases: &[Offset]) -> io::Result<()> {
        let snapshots = self.snapshots.iter().copied().collect::<Vec<_>>();
        let strays = snapshot::stray_snapshots(&snapshots, bases);
        strays.into_iter().try_for_each(|stray| self.forget_snapshot(stray))
    }

    /// Brings the state to the newest snapshot at or before `end`, or to the log
    /// start; what follows up to `end` is then to be replayed. Snapshots outside
    /// of the log go.
    pub(super) fn reload(
        &mut self,
        log_start: Offset,
        end: Offset,
        now: Timestamp,
    ) -> io::Result<()> {
        let outside = self.snapshots.iter().copied();
        let outside = outside.filter(|at| *at > end || *at <= log_start).collect::<Vec<_>>();
        outside.into_iter().try_for_each(|at| self.forget_snapshot(at))?;
        if self.end() == end {
            self.log_start_moved(log_start);
            return Ok(());
        }
        self.load_before(log_start, end, now)
    }

    /// The same, leaving later snapshots alone.
    pub(super) fn load_before(
        &mut self,
        log_start: Offset,
        end: Offset,
        now: Timestamp,
    ) -> io::Result<()> {
        while let Some(offset) = self.snapshots.range(..=end).next_back().copied() {
            match self.read(offset) {
                Ok(Some(entries)) => {
                    self.producers.load(&entries, offset, now, self.expiration_ms);
                    return Ok(());
                }
                Ok(None) => {
                    self.snapshots.remove(&offset);
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(dir = %self.folder.path.display(), %offset, %error, "removing damaged producer snapshot");
                    self.forget_snapshot(offset)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.producers.load(&[], log_start.min(end), now, self.expiration_ms);
        Ok(())
    }

    fn read(&self, offset: Offset) -> io::Result<Option<Vec<snapshot::SnapshotEntry>>> {
        let disk = self.folder.files.disk();
        let bytes = read_small_file(&**disk, &self.path(offset), SIZE_LIMIT)?;
        bytes
            .map(|bytes| {
                snapshot::decode(&bytes)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            })
            .transpose()
    }

    /// Forgets everything: the log is empty and goes on at `offset`.
    pub(super) fn restart(&mut self, offset: Offset) -> io::Result<()> {
        for snapshot in std::mem::take(&mut self.snapshots) {
            let removed = self.folder.files.disk().remove_file(&self.path(snapshot));
            remove_if_there(self.folder.changed(removed))?;
        }
        self.producers.reset(offset);
        Ok(())
    }
}

fn remove_if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
