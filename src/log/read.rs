//! Finding batches by offset, for readers.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::error::ReadError;
use super::segment::Segment;
use super::txn_index::AbortedTransaction;
use super::{Log, LogError};
use crate::sys::cold::{Cold, IfCold};
use crate::sys::disk::DiskFile;
use crate::types::Offset;

/// A piece of a segment's file.
#[derive(Clone, Debug)]
pub struct FileSlice {
    /// The file; stays readable while this is held, even when it is deleted.
    pub file: Arc<dyn DiskFile>,
    /// Bytes before the piece.
    pub position: u64,
    /// Bytes of it.
    pub len: usize,
}

impl FileSlice {
    /// The bytes.
    pub fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.len];
        self.file.read_exact_at(&mut bytes, self.position)?;
        Ok(bytes.into())
    }
}

/// Whole batches of one segment, not read yet.
#[derive(Clone, Debug)]
pub struct LogSlice {
    /// Where their bytes are: one piece, or none when there is nothing to read.
    pub regions: Vec<FileSlice>,
    /// First offset of the first batch, which may lie before the one asked for;
    /// the one asked for when there is none.
    pub first_offset: Offset,
    /// All offsets in it are below this one, and the next read starts here.
    pub end_offset: Offset,
}

impl LogSlice {
    fn empty(at: Offset) -> Self {
        Self { regions: Vec::new(), first_offset: at, end_offset: at }
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.regions.iter().map(|region| region.len).sum()
    }

    /// True when there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The bytes, for those who decode them.
    pub fn read(&self) -> io::Result<Bytes> {
        match self.regions.as_slice() {
            [] => Ok(Bytes::new()),
            [region] => region.read(),
            regions => {
                let parts = regions.iter().map(FileSlice::read).collect::<io::Result<Vec<_>>>()?;
                Ok(parts.concat().into())
            }
        }
    }
}

impl Log {
    /// Whole batches from the one that holds `from` on, none of which has an
    /// offset of `up_to` or above, together at most `max_bytes` — but one at
    /// least if asked for, however large. Never more than to the end of a segment.
    ///
    /// # Errors
    /// `from` lies before the log start or after the log end; the disk fails.
    pub fn read(
        &self,
        from: Offset,
        up_to: Offset,
        max_bytes: usize,
        at_least_one_batch: bool,
    ) -> Result<LogSlice, ReadError> {
        self.check_readable(from)?;
        let found = self.find_batches(from, up_to, max_bytes, at_least_one_batch, IfCold::Wait);
        Ok(found.map_err(|error| self.explain(error))?)
    }

    /// The same where it is asked not to wait for the disk. The inner error says
    /// what is not in memory.
    pub fn try_read(
        &self,
        from: Offset,
        up_to: Offset,
        max_bytes: usize,
        at_least_one_batch: bool,
        if_cold: IfCold,
    ) -> Result<Result<LogSlice, Cold>, ReadError> {
        self.check_readable(from)?;
        let found = self.find_batches(from, up_to, max_bytes, at_least_one_batch, if_cold);
        Ok(self.unless_cold(found)?)
    }

    pub(super) fn unless_cold<T>(&self, found: io::Result<T>) -> Result<Result<T, Cold>, LogError> {
        match found.map_err(Cold::place) {
            Ok(found) => Ok(Ok(found)),
            Err(Ok(cold)) => Ok(Err(cold)),
            Err(Err(error)) => Err(self.explain(error)),
        }
    }

    fn check_readable(&self, from: Offset) -> Result<(), ReadError> {
        self.check_online()?;
        let (log_start, log_end) = (self.log_start, self.log_end);
        if from < log_start || from > log_end {
            return Err(ReadError::OffsetOutOfRange { offset: from, log_start, log_end });
        }
        Ok(())
    }

    fn find_batches(
        &self,
        from: Offset,
        up_to: Offset,
        max_bytes: usize,
        at_least_one_batch: bool,
        if_cold: IfCold,
    ) -> io::Result<LogSlice> {
        let up_to = up_to.min(self.log_end);
        for (segment, next_base) in self.segments_from(from) {
            if segment.base() >= up_to {
                break;
            }
            // After compaction the offset may be gone, and the next batch be in
            // a later segment.
            let Some(first) = segment.place_of(from, if_cold)? else { continue };
            let end = if next_base <= up_to {
                segment.size()
            } else {
                let beyond = segment.place_of(up_to, if_cold)?;
                beyond.map_or_else(|| segment.size(), |at| at.position)
            };
            let least = if at_least_one_batch { first.end - first.position } else { 0 };
            let limit = first.position.saturating_add(least.max(max_bytes as u64));
            let (end, end_offset) = if limit >= end {
                (end, next_base.min(up_to))
            } else {
                let (end, next) = segment.whole_batches(&first, limit, if_cold)?;
                (end, next.unwrap_or(from))
            };
            if end <= first.position {
                break;
            }
            let len = usize::try_from(end - first.position).unwrap_or(usize::MAX);
            let region = FileSlice { file: segment.file()?, position: first.position, len };
            let first_offset = first.base_offset;
            return Ok(LogSlice { regions: vec![region], first_offset, end_offset });
        }
        Ok(LogSlice::empty(from))
    }

    /// The segment that `offset` belongs to and all after it, each with the base
    /// of the next one (the log end after the last).
    pub(super) fn segments_from(&self, offset: Offset) -> impl Iterator<Item = (&Segment, Offset)> {
        let first = self.closed.range(..=offset).next_back().map_or(offset, |(base, _)| *base);
        let closed = self.closed.range(first..).map(|(_, segment)| &**segment);
        let segments = closed.chain([&self.active]);
        let ends = self.closed.range(first..).skip(1).map(|(base, _)| *base);
        let last = self.closed.range(first..).next().map(|_| self.active.base());
        segments.zip(ends.chain(last).chain([self.log_end]))
    }

    /// The aborted transactions that concern the offsets from `from` up to below
    /// `upper`; perhaps some more. The inner error as for [`Self::try_read`].
    pub fn aborted_transactions(
        &self,
        from: Offset,
        upper: Offset,
        if_cold: IfCold,
    ) -> Result<Result<Vec<AbortedTransaction>, Cold>, LogError> {
        let mut aborted = Vec::new();
        for (segment, _) in self.segments_from(from) {
            let complete = segment.aborted().collect(from, upper, if_cold, &mut aborted);
            match self.unless_cold(complete)? {
                Ok(true) => break,
                Ok(false) => {}
                Err(cold) => return Ok(Err(cold)),
            }
        }
        Ok(Ok(aborted))
    }
}
