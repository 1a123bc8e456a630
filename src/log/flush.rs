//! Making a log durable, and closing it.
//!
//! Syncing takes milliseconds and needs no lock: [`Log::begin_flush`] collects
//! the files, [`Flush::run`] syncs them wherever it likes, [`Log::finish_flush`]
//! moves the recovery point — unless the log was truncated meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::Folder;
use super::side_files::{self, TopicIdFile};
use super::{Log, LogError};
use crate::sys::disk::DiskFile;
use crate::types::Offset;

/// A sync that is to be done, without the log's lock.
#[derive(Debug)]
pub struct Flush {
    folder: Arc<Folder>,
    files: Vec<Arc<dyn DiskFile>>,
    /// The directory, when names in it are not durable, and the one above.
    dirs: Vec<PathBuf>,
    /// Changes of the folder that the sync makes durable.
    changes: u64,
    up_to: Offset,
    rewinds: u64,
    /// How often the epoch file had been written.
    epochs_written: u64,
    /// The topic's id is among the files.
    topic_id: bool,
}

impl Flush {
    /// Syncs. May take long.
    pub fn run(&self) -> io::Result<()> {
        for file in &self.files {
            file.sync()?;
        }
        let disk = self.folder.files.disk();
        self.dirs.iter().try_for_each(|dir| disk.sync_dir(dir))
    }

    /// False when the log was moved to another directory meanwhile, where all of it
    /// is synced.
    pub fn is_of(&self, log: &Log) -> bool {
        Arc::ptr_eq(&self.folder, &log.folder)
    }
}

impl Log {
    /// What has to be synced so that everything before `up_to` is durable; `None`
    /// when it is already.
    pub fn begin_flush(&mut self, up_to: Offset) -> Result<Option<Flush>, LogError> {
        self.check_online()?;
        let up_to = up_to.min(self.log_end);
        if up_to <= self.recovery_point {
            return Ok(None);
        }
        let flush = self.collect_flush(up_to);
        flush.map(Some).map_err(|error| self.explain(error))
    }

    pub(super) fn collect_flush(&mut self, up_to: Offset) -> io::Result<Flush> {
        let mut files = Vec::new();
        self.note_topic_id()?;
        let topic_id = self.topic_id_file == TopicIdFile::Noted;
        if topic_id {
            files.push(side_files::topic_id_file(&self.folder)?);
        }
        self.epochs.file_to_sync(&mut files)?;
        let from = self.recovery_point;
        let first = self.closed.range(..=from).next_back().map_or(from, |(base, _)| *base);
        for segment in self.closed.range_mut(first..up_to.max(first)).map(|(_, segment)| segment) {
            segment.files_to_sync(true, &mut files)?;
        }
        if self.active.base() < up_to {
            self.active.files_to_sync(false, &mut files)?;
        }
        self.producers.files_to_sync(&mut files)?;
        let changes = self.folder.changes();
        let (path, changed) = (&*self.folder.path, changes > self.names_synced);
        let dir = Some(path).filter(|_| changed);
        // That there is this directory at all must be durable, too.
        let parent = path.parent().filter(|_| self.dir_is_new);
        let dirs = dir.into_iter().chain(parent).map(Path::to_owned).collect();
        Ok(Flush {
            folder: self.folder.clone(),
            files,
            dirs,
            changes,
            up_to,
            rewinds: self.rewinds,
            epochs_written: self.epochs.written(),
            topic_id,
        })
    }

    /// Notes that a sync is done.
    pub fn finish_flush(&mut self, flush: &Flush) {
        if flush.rewinds == self.rewinds && flush.up_to > self.recovery_point {
            self.recovery_point = flush.up_to;
            self.dir_is_new = false;
            self.names_synced = flush.changes;
            self.epochs.synced(flush.epochs_written);
            if flush.topic_id {
                self.topic_id_file = TopicIdFile::Durable;
            }
            self.last_flush = self.clock.wall();
            self.publish_marks();
        }
    }

    /// The sync that `flush.messages` asks for after an append: to be run, and given
    /// to [`Self::finish_asked_flush`], before anybody is told of the records.
    pub fn begin_asked_flush(&mut self) -> Result<Option<Flush>, LogError> {
        if self.log_end - self.recovery_point < self.config.flush_messages {
            return Ok(None);
        }
        self.begin_flush(self.log_end)
    }

    /// Notes how that sync went.
    pub fn finish_asked_flush(
        &mut self,
        flush: &Flush,
        synced: io::Result<()>,
    ) -> Result<(), LogError> {
        synced.map_err(|error| self.broken(error))?;
        self.finish_flush(flush);
        Ok(())
    }

    pub(super) fn flush_if_asked(&mut self) -> Result<(), LogError> {
        match self.begin_asked_flush()? {
            Some(flush) => self.finish_asked_flush(&flush, flush.run()),
            None => Ok(()),
        }
    }

    /// Makes everything before `up_to` durable, now.
    pub fn flush(&mut self, up_to: Offset) -> Result<(), LogError> {
        if let Some(flush) = self.begin_flush(up_to)? {
            flush.run().map_err(|error| self.explain(error))?;
            self.finish_flush(&flush);
        }
        Ok(())
    }

    /// Up to where a background sync should go now: to the active segment after a
    /// roll, to the end when `flush.ms` has passed or the topic's id is not durable,
    /// without which the records would be nobody's. `None` when nothing is due.
    pub fn flush_due(&self) -> Option<Offset> {
        let age = self.clock.wall().0.saturating_sub(self.last_flush.0);
        let asked = age >= self.config.flush_ms || self.topic_id_file == TopicIdFile::Noted;
        if self.log_end > self.recovery_point && asked {
            return Some(self.log_end);
        }
        let rolled = self.active.base();
        (rolled > self.recovery_point).then_some(rolled)
    }

    /// Brings everything to disk so that the next start need not look: indexes
    /// trimmed, producers noted at the log end, all synced. The log can be used
    /// no more.
    pub fn close_clean(&mut self) -> Result<(), LogError> {
        if self.close_unsynced()? {
            self.sync_closed()?;
            self.closed_durably();
        }
        Ok(())
    }

    /// The first third of [`Self::close_clean`]: all is written; false when nothing
    /// of it needs to be synced.
    pub(super) fn close_unsynced(&mut self) -> Result<bool, LogError> {
        if self.retired {
            return Ok(false);
        }
        self.check_online()?;
        let written = if self.settled { Ok(()) } else { self.write_rest() };
        self.retired = true;
        written.map_err(|error| self.explain(error))?;
        Ok(!self.settled)
    }

    fn write_rest(&mut self) -> io::Result<()> {
        self.note_topic_id()?;
        if self.never_had_a_record() {
            // There is nothing else to keep.
            return Ok(());
        }
        self.epochs.write()?;
        self.producers.take_snapshot()?;
        self.active.seal()
    }

    /// The second third, by itself; syncing all of the directory does it as well.
    pub(super) fn sync_closed(&mut self) -> Result<(), LogError> {
        self.sync_rest().map_err(|error| self.explain(error))
    }

    fn sync_rest(&mut self) -> io::Result<()> {
        let mut files = Vec::new();
        if !self.never_had_a_record() {
            self.active.files_to_sync(true, &mut files)?;
        }
        self.collect_flush(self.log_end)?.run()?;
        files.iter().try_for_each(|file| file.sync())
    }

    /// The last third: what was written is synced.
    pub(super) fn closed_durably(&mut self) {
        self.recovery_point = self.log_end;
        self.settled = true;
        self.publish_marks();
    }

    fn never_had_a_record(&self) -> bool {
        let is_new = self.topic_id_file != TopicIdFile::Durable;
        is_new && self.rewinds == 0 && self.log_end == Offset::ZERO
    }

    /// Notes the topic's id beside a log that is new: without it the log would be a
    /// stray after a crash. It becomes durable with the first sync of records, which
    /// follows soon; whoever appends does not wait for it.
    pub(super) fn note_topic_id(&mut self) -> io::Result<()> {
        if let (Some(topic_id), TopicIdFile::Missing) = (self.topic_id, self.topic_id_file) {
            side_files::note_topic_id(&self.folder, topic_id)?;
            self.topic_id_file = TopicIdFile::Noted;
            self.publish_marks();
        }
        Ok(())
    }
}
