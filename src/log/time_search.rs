//! Which offset a timestamp names, for ListOffsets.
//!
//! Where to look is told under the log's lock, by indexes, of which nothing is read
//! that is not in memory. The look itself reads batches and unfolds them, and needs no lock: a
//! [`TimeSearch`] may run wherever there is time for it.

use std::io;
use std::sync::Arc;

use super::batch::{BatchHeader, BatchView, TimestampType};
use super::compression::{Codec, stored_records};
use super::marks::LogMarks;
use super::record::Records;
use super::scan::{HeaderScan, damaged};
use super::segment::Segment;
use super::{Log, LogError};
use crate::sys::cold::{Cold, IfCold};
use crate::sys::disk::DiskFile;
use crate::types::{LeaderEpoch, Offset, Timestamp};

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

/// A record found by its timestamp, or an offset that was asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampAndOffset {
    /// The record's timestamp, or none where only an offset was asked for.
    pub timestamp: Timestamp,
    /// Its offset.
    pub offset: Offset,
    /// The epoch of its batch, where known.
    pub leader_epoch: Option<LeaderEpoch>,
}

impl TimestampAndOffset {
    /// An offset without a timestamp.
    pub fn at(offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        Self::found(Timestamp::NONE, offset, leader_epoch)
    }

    fn found(timestamp: Timestamp, offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        let leader_epoch = Some(leader_epoch).filter(|epoch| epoch.0 >= 0);
        Self { timestamp, offset, leader_epoch }
    }
}

/// What a log says of an [`OffsetSpec`].
#[derive(Debug)]
pub enum OffsetFor {
    /// The offset; `None` when no record fits.
    Known(Option<TimestampAndOffset>),
    /// It is that of a record, which is to be looked for.
    Search(TimeSearch),
    /// What must be brought in before that can be told.
    Cold(Cold),
}

/// Batches of a segment, and which of their records is looked for.
#[derive(Debug)]
pub struct TimeSearch {
    file: Arc<dyn DiskFile>,
    /// Bytes before the first of the batches, and before what follows the last.
    start: u64,
    end: u64,
    sought: Sought,
    /// The log, where it began, and how often it was cut back before.
    marks: Arc<LogMarks>,
    log_start: Offset,
    rewinds: u64,
}

#[derive(Clone, Copy, Debug)]
enum Sought {
    /// The first of this time or a later one, at this offset or a later one.
    From(Timestamp, Offset),
    /// The first of this time, which is the largest.
    Largest(Timestamp),
}

impl Sought {
    fn may_be_in(self, header: &BatchHeader) -> bool {
        match self {
            Self::From(target, _) => header.max_timestamp >= target,
            Self::Largest(largest) => header.max_timestamp == largest,
        }
    }

    fn is(self, timestamp: Timestamp, offset: Offset) -> bool {
        match self {
            Self::From(target, from) => timestamp >= target && offset >= from,
            Self::Largest(largest) => timestamp == largest,
        }
    }

    /// The first record of a batch that it is.
    fn find_in(self, batch: &BatchView<'_>) -> Result<Option<TimestampAndOffset>, String> {
        let header = batch.header();
        let plain = stored_records(batch)?;
        for record in Records::new(header, &plain) {
            let record = record.map_err(|error| error.to_string())?;
            if self.is(record.timestamp, record.offset) {
                let (timestamp, offset) = (record.timestamp, record.offset);
                return Ok(Some(TimestampAndOffset::found(timestamp, offset, header.leader_epoch)));
            }
        }
        Ok(None)
    }
}

impl TimeSearch {
    /// Reads the batches until the record is found. Waits for the disk.
    ///
    /// # Errors
    /// The disk fails, or what is on it is damaged; or the log was cut meanwhile,
    /// which [`Log::was_cut_since`] tells.
    pub fn run(&self) -> io::Result<Option<TimestampAndOffset>> {
        let mut scan = HeaderScan::new(&self.file, IfCold::Wait, self.start, self.end);
        while let Some(at) = scan.next()? {
            if !self.sought.may_be_in(&at.header) {
                continue;
            }
            let by_append = at.header.attributes.timestamp_type() == TimestampType::LogAppendTime;
            if by_append && matches!(self.sought, Sought::Largest(_)) {
                // All its records have this time; the last one is meant (KIP-734).
                let BatchHeader { max_timestamp, leader_epoch, .. } = at.header;
                let last = at.header.last_offset();
                return Ok(Some(TimestampAndOffset::found(max_timestamp, last, leader_epoch)));
            }
            let mut bytes = vec![0; at.header.total_len];
            self.file.read_exact_at(&mut bytes, at.position)?;
            let view = BatchView::parse(&bytes).map_err(|error| damaged(at.position, &error))?;
            match self.sought.find_in(&view) {
                Ok(None) => {}
                Ok(hit) => return Ok(hit),
                // A producer's fault, which was not looked for when it came.
                Err(reason) if at.header.codec() != Some(Codec::None) => {
                    tracing::warn!(position = at.position, %reason, "batch cannot be unfolded");
                }
                Err(reason) => {
                    let reason = format!("batch at byte {}: {reason}", at.position);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
            }
        }
        Ok(None)
    }
}

impl Log {
    /// The offset that `spec` names. Knows nothing of high watermarks: the caller
    /// compares.
    pub fn offset_for(&self, spec: OffsetSpec, if_cold: IfCold) -> Result<OffsetFor, LogError> {
        self.check_online()?;
        let known = match spec {
            OffsetSpec::Latest => {
                let epoch = self.epochs().latest().map_or(LeaderEpoch::NONE, |entry| entry.epoch);
                TimestampAndOffset::at(self.log_end, epoch)
            }
            OffsetSpec::Earliest | OffsetSpec::EarliestLocal => {
                let first = self.epochs().earliest();
                let first = first.filter(|entry| entry.start_offset <= self.log_start);
                let epoch = first.map_or(LeaderEpoch::NONE, |entry| entry.epoch);
                TimestampAndOffset::at(self.log_start, epoch)
            }
            // Nothing is tiered.
            OffsetSpec::LatestTiered | OffsetSpec::EarliestPendingUpload => TimestampAndOffset {
                timestamp: Timestamp::NONE,
                offset: Offset::NONE,
                leader_epoch: Some(LeaderEpoch::NONE),
            },
            OffsetSpec::MaxTimestamp => return self.told(self.where_largest(if_cold)),
            OffsetSpec::Timestamp(target) => return self.told(self.where_from(target, if_cold)),
        };
        Ok(OffsetFor::Known(Some(known)))
    }

    fn told(&self, place: io::Result<Option<TimeSearch>>) -> Result<OffsetFor, LogError> {
        Ok(match self.unless_cold(place)? {
            Ok(Some(search)) => OffsetFor::Search(search),
            Ok(None) => OffsetFor::Known(None),
            Err(cold) => OffsetFor::Cold(cold),
        })
    }

    fn where_largest(&self, if_cold: IfCold) -> io::Result<Option<TimeSearch>> {
        let mut best = None;
        for segment in self.segments() {
            let largest = segment.largest(if_cold)?;
            if best.is_none_or(|(_, before)| largest.timestamp > before) {
                best = Some((segment, largest.timestamp));
            }
        }
        let Some((segment, timestamp)) = best else { return Ok(None) };
        if timestamp == Timestamp::NONE {
            return Ok(None);
        }
        let start = segment.start_for(segment.largest(if_cold)?.offset, if_cold)?;
        self.search(segment, start, Sought::Largest(timestamp)).map(Some)
    }

    fn where_from(&self, target: Timestamp, if_cold: IfCold) -> io::Result<Option<TimeSearch>> {
        for segment in self.segments() {
            if segment.largest_or_modified(if_cold)? >= target {
                let start = segment.start_for_time(target, self.log_start, if_cold)?;
                let sought = Sought::From(target, self.log_start);
                return self.search(segment, start, sought).map(Some);
            }
        }
        Ok(None)
    }

    fn search(&self, segment: &Segment, start: u64, sought: Sought) -> io::Result<TimeSearch> {
        let (file, end) = (segment.file()?, segment.size());
        let marks = Arc::clone(&self.marks);
        let (log_start, rewinds) = (self.log_start, self.rewinds);
        Ok(TimeSearch { file, start, end, sought, marks, log_start, rewinds })
    }

    /// True when what a search found says nothing, because batches that it looked
    /// through may be gone, at either end.
    pub fn was_cut_since(&self, search: &TimeSearch) -> bool {
        let is_other = !Arc::ptr_eq(&self.marks, &search.marks);
        is_other || (self.log_start, self.rewinds) != (search.log_start, search.rewinds)
    }

    /// What a search that failed means for the log's directory.
    pub fn search_failed(&self, error: io::Error) -> LogError {
        self.explain(error)
    }
}
