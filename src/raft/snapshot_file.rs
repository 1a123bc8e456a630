//! Files of snapshots: written beside the log, read batch by batch.
//!
//! A file holds batches as a log does, but its offsets begin at 0: a control
//! batch with the header (and from `kraft.version` 1 on the level and the
//! voters), the records, and a control batch with the footer. Without a footer
//! it is incomplete. It gets its name only when it is whole and durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::MAX_BATCH_BYTES;
use super::control::{Control, ControlError, control_batch, data_batch};
use super::snapshots::{SnapshotFacts, SnapshotId};
use super::voters::VoterSet;
use crate::log::batch::{BatchError, BatchHeader, BatchView, HEADER_LEN};
use crate::log::record::RecordError;
use crate::protocol::EncodeError;
use crate::sys::disk::{Disk, DiskFile, Open};
use crate::types::{Offset, Timestamp};

/// Bytes that a batch may have when it is read: Kafka writes no more than
/// [`MAX_BATCH_BYTES`] unless a single record is longer.
const MAX_READ_BYTES: usize = 256 * 1024 * 1024;

/// Records of one batch, at most.
const RECORDS_PER_BATCH: usize = 10_000;

/// Why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed.
    #[error("{path}: {source}")]
    Disk {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A record cannot be written.
    #[error("a record of a snapshot: {0}")]
    Encode(#[from] EncodeError),
    /// A batch is no batch.
    #[error("{path}: at byte {position}: {error}")]
    Batch {
        /// The file.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// What is wrong.
        error: BatchError,
    },
    /// A record does not read.
    #[error("{path}: at byte {position}: {error}")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where its batch begins.
        position: u64,
        /// What is wrong.
        error: RecordError,
    },
    /// A control record does not read.
    #[error("{path}: at byte {position}: {error}")]
    Control {
        /// The file.
        path: PathBuf,
        /// Where its batch begins.
        position: u64,
        /// What is wrong.
        error: ControlError,
    },
    /// The file begins with something else.
    #[error("{path}: the snapshot has no header")]
    NoHeader {
        /// The file.
        path: PathBuf,
    },
    /// The file ends without a footer.
    #[error("{path}: the snapshot is incomplete: it has no footer")]
    NoFooter {
        /// The file.
        path: PathBuf,
    },
    /// The snapshot is of a part of the log that is not committed, or gone.
    #[error(
        "snapshot {id:?} does not fit the log, which is committed from {log_start} to {high_watermark}"
    )]
    NotCommitted {
        /// What was asked for.
        id: SnapshotId,
        /// First offset of the log.
        log_start: Offset,
        /// Everything before it is committed.
        high_watermark: Offset,
    },
}

/// Writes one snapshot.
#[derive(Debug)]
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    partial: PathBuf,
    id: SnapshotId,
    file: Arc<dyn DiskFile>,
    timestamp: Timestamp,
    now: Timestamp,
    position: u64,
    next_offset: Offset,
    pending: Vec<Bytes>,
    pending_bytes: usize,
}

impl SnapshotWriter {
    /// Begins the snapshot `id` in `dir`; `timestamp` is that of the last record
    /// that goes into it.
    pub fn create(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        id: SnapshotId,
        (timestamp, now): (Timestamp, Timestamp),
        (kraft_version, voters): (i16, Option<&VoterSet>),
    ) -> Result<Self, SnapshotError> {
        let partial = dir.join(id.partial_name(&now.0.to_string()));
        let opened = disk.open(&partial, Open::Create).and_then(|file| {
            file.set_len(0)?;
            Ok(file)
        });
        let file =
            opened.map_err(|source| SnapshotError::Disk { path: partial.clone(), source })?;
        let mut writer = Self {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            partial,
            id,
            file,
            timestamp,
            now,
            position: 0,
            next_offset: Offset::ZERO,
            pending: Vec::new(),
            pending_bytes: 0,
        };
        let mut header = vec![Control::SnapshotHeader(timestamp)];
        if kraft_version > 0 {
            header.push(Control::KRaftVersion(kraft_version));
            header.extend(voters.cloned().map(Control::Voters));
        }
        writer.control(&header)?;
        Ok(writer)
    }

    /// Adds the value of one record.
    pub fn append(&mut self, value: Bytes) -> Result<(), SnapshotError> {
        let full = self.pending_bytes + value.len() > MAX_BATCH_BYTES / 2
            || self.pending.len() >= RECORDS_PER_BATCH;
        if full {
            self.write_pending()?;
        }
        self.pending_bytes += value.len();
        self.pending.push(value);
        Ok(())
    }

    /// Ends the snapshot; it is whole, durable and nobody's to change when this
    /// returns.
    pub fn finish(mut self) -> Result<SnapshotFacts, SnapshotError> {
        self.write_pending()?;
        self.control(&[Control::SnapshotFooter])?;
        let live = self.dir.join(self.id.file_name());
        let kept = self
            .file
            .sync()
            .and_then(|()| self.file.set_read_only())
            .and_then(|()| self.disk.rename(&self.partial, &live))
            .and_then(|()| self.disk.sync_dir(&self.dir));
        kept.map_err(|source| SnapshotError::Disk { path: live, source })?;
        Ok(SnapshotFacts { size: self.position, timestamp: self.timestamp })
    }

    /// Gives the snapshot up.
    pub fn abandon(self) {
        // A partial file that stays is removed at the next start.
        let _ = self.disk.remove_file(&self.partial);
    }

    fn control(&mut self, records: &[Control]) -> Result<(), SnapshotError> {
        let batch = control_batch(self.next_offset, self.id.epoch, self.now, records)?;
        self.write(&batch, records.len())
    }

    fn write_pending(&mut self) -> Result<(), SnapshotError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let values = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let batch = data_batch(self.next_offset, self.id.epoch, self.now, &values)?;
        self.write(&batch, values.len())
    }

    fn write(&mut self, batch: &[u8], records: usize) -> Result<(), SnapshotError> {
        let written = self.file.write_at(batch, self.position);
        written.map_err(|source| SnapshotError::Disk { path: self.partial.clone(), source })?;
        self.position += u64::try_from(batch.len()).unwrap_or(0);
        self.next_offset += i64::try_from(records).unwrap_or(0);
        Ok(())
    }
}

/// What a snapshot's control records said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotControl {
    /// When the last record that went into it was appended.
    pub timestamp: Option<Timestamp>,
    /// Level of `kraft.version`.
    pub kraft_version: Option<i16>,
    /// The voters.
    pub voters: Option<VoterSet>,
}

/// Reads a whole snapshot file and hands the value of each record to `sink`.
pub fn read_snapshot<E: From<SnapshotError>>(
    disk: &dyn Disk,
    path: &Path,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<SnapshotControl, E> {
    let path = path.to_owned();
    let failed = |source| SnapshotError::Disk { path: path.clone(), source };
    let file = disk.open(&path, Open::Read).map_err(failed)?;
    let size = file.len().map_err(failed)?;
    let mut control = SnapshotControl::default();
    let (mut position, mut complete) = (0, false);
    while position < size && !complete {
        let bytes = read_batch(&*file, &path, position, size)?;
        let no_batch = |error| SnapshotError::Batch { path: path.clone(), position, error };
        let no_record = |error| SnapshotError::Record { path: path.clone(), position, error };
        let batch = BatchView::parse(&bytes).map_err(no_batch)?;
        batch.check_crc().map_err(no_batch)?;
        for record in batch.records().map_err(no_record)? {
            let record = record.map_err(no_record)?;
            if !batch.header().attributes.is_control() {
                sink(record.value.unwrap_or_default())?;
                continue;
            }
            let read = Control::read(&record);
            let path = || path.clone();
            match read.map_err(|error| SnapshotError::Control { path: path(), position, error })? {
                Control::SnapshotHeader(timestamp) => control.timestamp = Some(timestamp),
                Control::KRaftVersion(level) => control.kraft_version = Some(level),
                Control::Voters(voters) => control.voters = Some(voters),
                Control::SnapshotFooter => complete = true,
                _ => {}
            }
        }
        position += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    }
    if !complete {
        return Err(SnapshotError::NoFooter { path }.into());
    }
    Ok(control)
}

/// When the last record that went into a snapshot was appended, from its header.
pub fn snapshot_timestamp(
    disk: &dyn Disk,
    dir: &Path,
    id: SnapshotId,
) -> Result<Timestamp, SnapshotError> {
    let path = dir.join(id.file_name());
    let failed = |source| SnapshotError::Disk { path: path.clone(), source };
    let file = disk.open(&path, Open::Read).map_err(failed)?;
    let bytes = read_batch(&*file, &path, 0, file.len().map_err(failed)?)?;
    let position = 0;
    let no_batch = |error| SnapshotError::Batch { path: path.clone(), position, error };
    let batch = BatchView::parse(&bytes).map_err(no_batch)?;
    let first = batch.records().ok().and_then(|mut records| records.next()?.ok());
    match first.as_ref().map(Control::read) {
        Some(Ok(Control::SnapshotHeader(timestamp))) => Ok(timestamp),
        _ => Err(SnapshotError::NoHeader { path }),
    }
}

/// One whole batch. A length from the file reserves no more than the file holds.
fn read_batch(
    file: &dyn DiskFile,
    path: &Path,
    position: u64,
    size: u64,
) -> Result<Vec<u8>, SnapshotError> {
    let failed = |source| SnapshotError::Disk { path: path.to_owned(), source };
    let no_batch = |error| SnapshotError::Batch { path: path.to_owned(), position, error };
    let left = usize::try_from(size - position).unwrap_or(usize::MAX);
    let mut front = vec![0; HEADER_LEN.min(left)];
    file.read_exact_at(&mut front, position).map_err(failed)?;
    let header = BatchHeader::parse(&front).map_err(no_batch)?;
    let mut bytes = vec![0; header.total_len.min(left).min(MAX_READ_BYTES)];
    file.read_exact_at(&mut bytes, position).map_err(failed)?;
    Ok(bytes)
}
