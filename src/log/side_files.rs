//! The small files beside a log's segments: epochs of its leaders, and which
//! topic it belongs to.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::checkpoint_text::{decode_partition_metadata, encode_partition_metadata};
use super::epochs::Epochs;
use super::file_names::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use super::files::Folder;
use crate::sys::disk::{DiskFile, Open, read_small_file, replace_file, replace_file_unsynced};
use crate::types::{LeaderEpoch, Offset, TopicId};

/// No side file comes near this; what is larger is none.
const SIZE_LIMIT: usize = 64 << 20;

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn read_text(folder: &Folder, name: &str) -> io::Result<Option<String>> {
    let path = folder.path.join(name);
    let Some(bytes) = read_small_file(&**folder.files.disk(), &path, SIZE_LIMIT)? else {
        return Ok(None);
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(invalid(format!("{name} is not UTF-8"))),
    }
}

/// Leader epochs with their file. A new epoch is in the file before the first
/// record of it is in the log; what truncation takes away may stay in the file
/// for a while, since loading cuts it to the log again.
///
/// The file is synced together with the records, not before: a start or a change
/// of leaders brings a new epoch to every partition at once, and a file that a
/// power failure has torn is made anew from the batches.
#[derive(Debug)]
pub struct EpochFile {
    folder: Arc<Folder>,
    epochs: Epochs,
    /// The file lacks something.
    stale: bool,
    /// How often the file was written, and how often before it was synced.
    written: u64,
    synced: u64,
}

impl EpochFile {
    /// Without entries and without a file.
    pub fn new(folder: &Arc<Folder>) -> Self {
        let epochs = Epochs::default();
        Self { folder: folder.clone(), epochs, stale: false, written: 0, synced: 0 }
    }

    /// Reads the file; `InvalidData` when it is damaged.
    pub fn load(folder: &Arc<Folder>) -> io::Result<Self> {
        let epochs = match read_text(folder, LEADER_EPOCH_CHECKPOINT)? {
            Some(text) => Epochs::decode(&text)
                .map_err(|error| invalid(format!("{LEADER_EPOCH_CHECKPOINT}: {error}")))?,
            None => Epochs::default(),
        };
        Ok(Self { epochs, ..Self::new(folder) })
    }

    /// Without entries, whatever the file says.
    pub fn empty(folder: &Arc<Folder>) -> Self {
        Self { stale: true, ..Self::new(folder) }
    }

    /// The epochs.
    pub fn get(&self) -> &Epochs {
        &self.epochs
    }

    /// Notes that `epoch` starts at `start`, where a record of it is to be written:
    /// the file has it before.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> io::Result<()> {
        self.note(epoch, start);
        self.write()
    }

    /// Notes that `epoch` starts at `start`; the file follows with [`Self::write`].
    pub fn note(&mut self, epoch: LeaderEpoch, start: Offset) {
        self.stale |= self.epochs.assign(epoch, start);
    }

    /// Forgets what lies at `end` or later.
    pub fn truncate_from_end(&mut self, end: Offset) {
        self.stale |= self.epochs.truncate_from_end(end);
    }

    /// Forgets what lies before `start`.
    pub fn truncate_from_start(&mut self, start: Offset) {
        self.stale |= self.epochs.truncate_from_start(start);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.stale |= !self.epochs.is_empty();
        self.epochs.clear();
    }

    /// Brings the file up to date.
    pub fn write(&mut self) -> io::Result<()> {
        if self.stale {
            let text = self.epochs.encode();
            let disk = self.folder.files.disk();
            let written = replace_file_unsynced(&**disk, &self.path(), text.as_bytes());
            self.folder.changed(written)?;
            self.stale = false;
            self.written += 1;
        }
        Ok(())
    }

    /// Brings the file up to date; it is to be synced if it is not.
    pub fn file_to_sync(&mut self, into: &mut Vec<Arc<dyn DiskFile>>) -> io::Result<()> {
        self.write()?;
        if self.written > self.synced {
            into.push(self.folder.files.disk().open(&self.path(), Open::Read)?);
        }
        Ok(())
    }

    /// How often the file was written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The file was synced after it had been written that often.
    pub fn synced(&mut self, written: u64) {
        self.synced = written;
    }

    fn path(&self) -> PathBuf {
        self.folder.path.join(LEADER_EPOCH_CHECKPOINT)
    }
}

/// Writes the epochs of another log, durably.
pub fn write_epochs(folder: &Folder, epochs: &Epochs) -> io::Result<()> {
    let path = folder.path.join(LEADER_EPOCH_CHECKPOINT);
    replace_file(&**folder.files.disk(), &path, epochs.encode().as_bytes())
}

/// The topic id in `partition.metadata`; `None` when there is no such file.
pub fn read_topic_id(folder: &Folder) -> io::Result<Option<TopicId>> {
    let text = read_text(folder, PARTITION_METADATA)?;
    text.map(|text| {
        decode_partition_metadata(&text)
            .map_err(|error| invalid(format!("{PARTITION_METADATA}: {error}")))
    })
    .transpose()
}

/// How far `partition.metadata` has come. It is noted before the first batch is
/// appended, and durable when a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicIdFile {
    /// Not written.
    Missing,
    /// It outlives this process, though perhaps not the machine.
    Noted,
    /// Synced.
    Durable,
}

/// Writes `partition.metadata` without waiting for the disk.
pub fn note_topic_id(folder: &Folder, topic_id: TopicId) -> io::Result<()> {
    let text = encode_partition_metadata(topic_id);
    let path = folder.path.join(PARTITION_METADATA);
    folder.changed(replace_file_unsynced(&**folder.files.disk(), &path, text.as_bytes()))
}

/// `partition.metadata`, to be synced.
pub fn topic_id_file(folder: &Folder) -> io::Result<Arc<dyn DiskFile>> {
    folder.files.disk().open(&folder.path.join(PARTITION_METADATA), Open::Read)
}
