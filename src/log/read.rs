//! Finding batches: by offset for readers, by time for ListOffsets.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::error::ReadError;
use super::segment::{Segment, TimestampAndOffset};
use super::txn_index::AbortedTransaction;
use super::{Log, LogError};
use crate::sys::cold::{Cold, IfCold};
use crate::sys::disk::DiskFile;
use crate::types::{LeaderEpoch, Offset, Timestamp};

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

/// Which offset ListOffsets asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// -1: after the last that the asker may see; the caller knows that one.
    Latest,
    /// -2: the log start.
    Earliest,
    /// -3: of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// -4: the first on local disk; without tiered storage the log start (KIP-405).
    EarliestLocal,
    /// -5: the last in tiered storage (KIP-1005).
    LatestTiered,
    /// -6: the first not yet in tiered storage (KIP-1023).
    EarliestPendingUpload,
    /// The first with this timestamp or a later one.
    Timestamp(Timestamp),
}

impl OffsetSpec {
    /// Reads the timestamp of a request; `None` for a negative one that means
    /// nothing.
    pub fn from_timestamp(timestamp: i64) -> Option<Self> {
        Some(match timestamp {
            0.. => Self::Timestamp(Timestamp(timestamp)),
            -1 => Self::Latest,
            -2 => Self::Earliest,
            -3 => Self::MaxTimestamp,
            -4 => Self::EarliestLocal,
            -5 => Self::LatestTiered,
            -6 => Self::EarliestPendingUpload,
            _ => return None,
        })
    }

    /// True for those that name the log's beginning, which everybody may see.
    pub fn is_earliest(self) -> bool {
        matches!(self, Self::Earliest | Self::EarliestLocal)
    }
}

impl TimestampAndOffset {
    /// An offset without a timestamp.
    pub fn at(offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        let leader_epoch = Some(leader_epoch).filter(|epoch| epoch.0 >= 0);
        Self { timestamp: Timestamp::NONE, offset, leader_epoch }
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

    fn unless_cold<T>(&self, found: io::Result<T>) -> Result<Result<T, Cold>, LogError> {
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
    fn segments_from(&self, offset: Offset) -> impl Iterator<Item = (&Segment, Offset)> {
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

    /// The offset that `spec` names; `None` when no record fits. Knows nothing of
    /// high watermarks: the caller compares.
    pub fn offset_for(&self, spec: OffsetSpec) -> Result<Option<TimestampAndOffset>, LogError> {
        self.check_online()?;
        let found = match spec {
            OffsetSpec::Latest => {
                let epoch = self.epochs().latest().map_or(LeaderEpoch::NONE, |entry| entry.epoch);
                Ok(Some(TimestampAndOffset::at(self.log_end, epoch)))
            }
            OffsetSpec::Earliest | OffsetSpec::EarliestLocal => {
                let first = self.epochs().earliest();
                let first = first.filter(|entry| entry.start_offset <= self.log_start);
                let epoch = first.map_or(LeaderEpoch::NONE, |entry| entry.epoch);
                Ok(Some(TimestampAndOffset::at(self.log_start, epoch)))
            }
            // Nothing is tiered.
            OffsetSpec::LatestTiered | OffsetSpec::EarliestPendingUpload => {
                Ok(Some(TimestampAndOffset {
                    timestamp: Timestamp::NONE,
                    offset: Offset::NONE,
                    leader_epoch: Some(LeaderEpoch::NONE),
                }))
            }
            OffsetSpec::MaxTimestamp => self.find_largest_timestamp(),
            OffsetSpec::Timestamp(target) => self.find_timestamp(target),
        };
        found.map_err(|error| self.explain(error))
    }

    fn find_largest_timestamp(&self) -> io::Result<Option<TimestampAndOffset>> {
        let mut best: Option<(&Segment, Timestamp)> = None;
        for segment in self.segments() {
            let largest = segment.largest()?.timestamp;
            if best.is_none_or(|(_, timestamp)| largest > timestamp) {
                best = Some((segment, largest));
            }
        }
        best.map_or(Ok(None), |(segment, _)| segment.find_largest())
    }

    fn find_timestamp(&self, target: Timestamp) -> io::Result<Option<TimestampAndOffset>> {
        for segment in self.segments() {
            if segment.largest_or_modified()? >= target {
                return segment.find_timestamp(target, self.log_start);
            }
        }
        Ok(None)
    }
}
