//! Cleans one log: maps the keys of its dirty section, rewrites its segments by
//! the map, group by group.
//!
//! It reads and writes without any lock; only the swap of a whole group takes the
//! log's, and it is refused when the log was cut or deleted meanwhile.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use super::filter::{Fate, Filter, FilterCounts};
use super::job::CleaningJob;
use super::offset_map::{BYTES_PER_KEY, OffsetMap};
use super::plan::{SegmentSizes, groups};
use super::transactions::CleanedTransactions;
use crate::log::LogError;
use crate::log::batch::{BatchHeader, BatchView, MAGIC_V2};
use crate::log::compression::stored_records;
use crate::log::files::Folder;
use crate::log::record::Records;
use crate::log::scan::walk_whole;
use crate::log::segment::{Appended, IndexRules, Segment};
use crate::sys::clock::Clock;
use crate::sys::cold::IfCold;
use crate::types::{Offset, Timestamp};

/// A segment's file is addressed with 31 bits.
const MAX_SEGMENT: u64 = i32::MAX as u64;

/// What the cleaner may use.
#[derive(Clone, Copy, Debug)]
pub struct CleanerLimits {
    /// Memory for keys: `log.cleaner.dedupe.buffer.size`.
    pub map_bytes: u64,
    /// How full the map gets: `log.cleaner.io.buffer.load.factor`.
    pub load_factor: f64,
    /// Bytes read or written at once: `log.cleaner.io.buffer.size`.
    pub buffer_bytes: usize,
}

/// Slows the cleaner down, and stops it.
pub trait Pace {
    /// So many bytes were read or written; false to stop.
    fn moved(&mut self, bytes: u64) -> bool;
}

/// Puts the compacted segments in the place of others; false when the log has
/// changed: see [`crate::log::Log::replace_segments`].
pub type Swap<'s> = dyn FnMut(Vec<Segment>, &[SegmentSizes]) -> Result<bool, LogError> + 's;

/// Why a log is not cleaned.
#[derive(Debug, thiserror::Error)]
pub enum CleaningError {
    /// The cleaner was told to stop, or the log was cut or deleted meanwhile.
    #[error("cleaning was given up")]
    GivenUp,
    /// A batch cannot be read; the log stays as it is.
    #[error("{0}")]
    Damaged(String),
    /// Reading or writing failed.
    #[error(transparent)]
    Storage(io::Error),
    /// The swap failed; the log's directory knows.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl From<io::Error> for CleaningError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Damaged(error.to_string()),
            _ => Self::Storage(error),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleaningReport {
    /// Everything before is clean now.
    pub end: Offset,
    /// Bytes that were looked at for their keys.
    pub mapped_bytes: u64,
    /// How full the map got, from 0 to 1.
    pub utilization: f64,
    /// Bytes of the segments before.
    pub read_bytes: u64,
    /// Bytes of the segments afterwards.
    pub written_bytes: u64,
    /// Records before and afterwards.
    pub records: FilterCounts,
    /// Time for the map.
    pub mapping: Duration,
    /// Time for all.
    pub took: Duration,
}

/// Cleans what the job says.
pub fn clean(
    job: &CleaningJob,
    limits: &CleanerLimits,
    clock: &dyn Clock,
    pace: &mut dyn Pace,
    swap: &mut Swap<'_>,
) -> Result<CleaningReport, CleaningError> {
    let began = clock.monotonic();
    let mut work = Work { job, limits, pace, report: CleaningReport::default() };
    let map = work.map_keys()?;
    work.report.mapping = clock.monotonic().saturating_sub(began);
    work.report.utilization = map.utilization();
    work.report.end = map.latest() + 1;
    work.rewrite(&map, swap)?;
    work.report.took = clock.monotonic().saturating_sub(began);
    Ok(work.report)
}

struct Work<'w> {
    job: &'w CleaningJob,
    limits: &'w CleanerLimits,
    pace: &'w mut dyn Pace,
    report: CleaningReport,
}

impl Work<'_> {
    /// The last offset of each key in the dirty section, as far as memory allows.
    fn map_keys(&mut self) -> Result<OffsetMap, CleaningError> {
        let (job, from) = (self.job, self.job.candidate.first_dirty);
        let first = job.segments.partition_point(|segment| segment.base() <= from);
        let dirty = job.segments.get(first.saturating_sub(1)..).unwrap_or_default();
        let mut records = 0;
        let limits = self.limits;
        for segment in dirty {
            records += segment.count_records()?;
            // No more than that fits anyway; the rest is counted in its turn.
            if records > limits.map_bytes / BYTES_PER_KEY {
                break;
            }
            self.count(0)?;
        }
        let mut map = OffsetMap::new(records, limits.map_bytes, limits.load_factor);
        let mut transactions = CleanedTransactions::new(self.aborted_from(from)?);
        let nexts =
            dirty.iter().skip(1).map(Segment::base).chain([job.candidate.first_uncleanable]);
        for (segment, next_base) in dirty.iter().zip(nexts) {
            if !self.map_segment(segment, &mut map, &mut transactions)? {
                break;
            }
            map.reached(next_base + -1);
        }
        Ok(map)
    }

    /// False when the map is full.
    fn map_segment(
        &mut self,
        segment: &Segment,
        map: &mut OffsetMap,
        transactions: &mut CleanedTransactions,
    ) -> Result<bool, CleaningError> {
        let from = self.job.candidate.first_dirty;
        let start = match segment.find(from, IfCold::Wait)? {
            Some(at) if segment.base() < from => at.position,
            Some(_) => 0,
            None => segment.size(),
        };
        let mut fits = true;
        self.walk(segment, start, |work, batch| {
            let len = batch.header().total_len as u64;
            work.count(len)?;
            work.report.mapped_bytes += len;
            fits = map_batch(batch, from, map, transactions)?;
            Ok(fits)
        })?;
        Ok(fits)
    }

    /// The aborted transactions that touch what is cleaned, from `from` on.
    fn aborted_from(&self, from: Offset) -> io::Result<Vec<crate::log::AbortedTransaction>> {
        let upper = self.job.candidate.first_uncleanable;
        let mut aborted = Vec::new();
        for segment in self.job.segments.iter().chain(&self.job.later) {
            if segment.aborted().collect(from, upper, IfCold::Wait, &mut aborted)? {
                break;
            }
        }
        Ok(aborted)
    }

    fn rewrite(&mut self, map: &OffsetMap, swap: &mut Swap<'_>) -> Result<(), CleaningError> {
        let job = self.job;
        let count = job.segments.partition_point(|segment| segment.base() < self.report.end);
        let segments = job.segments.get(..count).unwrap_or_default();
        let sizes = segments.iter().map(Segment::sizes).collect::<Vec<_>>();
        let end = job.candidate.first_uncleanable;
        let config = &job.config;
        let mut filter = Filter {
            map,
            transactions: CleanedTransactions::new(self.aborted_from(Offset(i64::MIN))?),
            producers: &job.producers,
            high_watermark: job.high_watermark,
            now: job.now,
            delete_retention_ms: config.delete_retention_ms,
            counts: FilterCounts::default(),
        };
        for group in groups(&sizes, config.segment_bytes, config.segment_index_bytes, end) {
            let originals = sizes.get(group.clone()).unwrap_or_default();
            let group = segments.get(group).unwrap_or_default();
            let compacted = self.rewrite_group(group, &mut filter)?;
            tracing::debug!(
                dir = %job.folder.path.display(), into = compacted.len(), of = originals.len(),
                "swapping in compacted segments"
            );
            if !swap(compacted, originals)? {
                return Err(CleaningError::GivenUp);
            }
            job.folder.files.disk().sync_dir(&job.folder.path)?;
        }
        self.report.records = filter.counts;
        Ok(())
    }

    fn rewrite_group(
        &mut self,
        group: &[Segment],
        filter: &mut Filter<'_>,
    ) -> Result<Vec<Segment>, CleaningError> {
        let mut writer = Writer::new(self.job, self.limits, group.first().map(Segment::base));
        let mut done = self.rewrite_into(group, filter, &mut writer);
        if done.is_ok() {
            done = writer.finish(group.last());
        }
        if let Err(error) = done {
            // What cannot be removed is swept away at the next start.
            writer.segments.iter_mut().for_each(|segment| drop(segment.remove()));
            return Err(error);
        }
        self.report.written_bytes += writer.segments.iter().map(Segment::size).sum::<u64>();
        Ok(writer.segments)
    }

    fn rewrite_into(
        &mut self,
        group: &[Segment],
        filter: &mut Filter<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), CleaningError> {
        writer.start()?;
        for segment in group {
            self.report.read_bytes += segment.size();
            self.walk(segment, 0, |work, batch| {
                let (fate, aborts) = filter.judge(batch).map_err(CleaningError::Damaged)?;
                let written = match &fate {
                    Fate::Gone => 0,
                    Fate::Whole => writer.push(batch.header(), batch.bytes())?,
                    Fate::Changed(header, bytes) => writer.push(header, bytes)?,
                };
                if let Some((aborted, last)) = aborts.as_ref().zip(writer.segments.last_mut()) {
                    last.aborted_mut().append(aborted)?;
                }
                work.count(batch.header().total_len as u64 + written)?;
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// Shows a segment's batches until `visit` has enough. Their offsets must be in
    /// order: checksums do not cover them, and a wrong one would make an old record
    /// look new.
    fn walk(
        &mut self,
        segment: &Segment,
        start: u64,
        mut visit: impl FnMut(&mut Self, &BatchView<'_>) -> Result<bool, CleaningError>,
    ) -> Result<(), CleaningError> {
        let job = self.job;
        let after = job.segments.partition_point(|other| other.base() <= segment.base());
        let end = job.segments.get(after).map_or(job.candidate.first_uncleanable, Segment::base);
        let file = segment.file()?;
        let mut next = segment.base();
        walk_whole(&*file, start, segment.size(), self.limits.buffer_bytes, |batch| {
            let (first, last) = (batch.header().base_offset, batch.header().last_offset());
            if first < next || last < first || last >= end {
                let reason = format!("offsets {first} to {last} of a batch are out of order");
                return Err(CleaningError::Damaged(reason));
            }
            next = last + 1;
            visit(self, batch)
        })
    }

    fn count(&mut self, bytes: u64) -> Result<(), CleaningError> {
        if self.pace.moved(bytes) { Ok(()) } else { Err(CleaningError::GivenUp) }
    }
}

/// Puts the keys of a batch into the map; false when it is full.
fn map_batch(
    batch: &BatchView<'_>,
    from: Offset,
    map: &mut OffsetMap,
    transactions: &mut CleanedTransactions,
) -> Result<bool, CleaningError> {
    let header = batch.header();
    let ignored = if header.magic != MAGIC_V2 {
        true
    } else if header.attributes.is_control() {
        transactions.on_control(header, super::filter::kind_of(batch));
        true
    } else {
        transactions.on_records(header)
    };
    if !ignored {
        let plain = stored_records(batch).map_err(CleaningError::Damaged)?;
        for record in Records::new(header, &plain) {
            let record = record.map_err(|error| CleaningError::Damaged(error.to_string()))?;
            let Some(key) = record.key.filter(|_| record.offset >= from) else { continue };
            if !map.put(key, record.offset) {
                return Ok(false);
            }
        }
    }
    if header.last_offset() >= from {
        map.reached(header.last_offset());
    }
    Ok(true)
}

/// Writes compacted segments: one for a group, unless it grows beyond what a
/// segment can hold.
struct Writer<'w> {
    folder: &'w Arc<Folder>,
    now: Timestamp,
    rules: IndexRules,
    base: Offset,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    batches: Vec<Appended>,
    segments: Vec<Segment>,
}

impl<'w> Writer<'w> {
    fn new(job: &'w CleaningJob, limits: &CleanerLimits, base: Option<Offset>) -> Self {
        Self {
            folder: &job.folder,
            now: job.now,
            rules: IndexRules {
                interval_bytes: job.config.index_interval_bytes,
                max_bytes: job.config.segment_index_bytes,
            },
            base: base.unwrap_or_default(),
            buffer: Vec::new(),
            buffer_bytes: limits.buffer_bytes,
            batches: Vec::new(),
            segments: Vec::new(),
        }
    }

    fn start(&mut self) -> io::Result<()> {
        self.segments.push(Segment::create_cleaned(self.folder, self.base, self.now)?);
        Ok(())
    }

    /// Adds a batch; its bytes.
    fn push(&mut self, header: &BatchHeader, bytes: &[u8]) -> io::Result<u64> {
        let len = bytes.len() as u64;
        let size = self.buffer.len() as u64 + self.segments.last().map_or(0, Segment::size);
        let fits = self.segments.last().is_some_and(|last| last.fits(header.last_offset()));
        if !fits || (size > 0 && size + len > MAX_SEGMENT) {
            self.write_out()?;
            self.base = header.base_offset;
            self.start()?;
        }
        self.buffer.extend_from_slice(bytes);
        self.batches.push(Appended::from(header));
        if self.buffer.len() >= self.buffer_bytes {
            self.write_out()?;
        }
        Ok(len)
    }

    fn write_out(&mut self) -> io::Result<()> {
        let batches = std::mem::take(&mut self.batches);
        if let Some(last) = self.segments.last_mut().filter(|_| !batches.is_empty()) {
            last.append(&mut [IoSlice::new(&self.buffer)], batches, &self.rules)?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Makes all durable, as old as the last of the originals.
    fn finish(&mut self, last: Option<&Segment>) -> Result<(), CleaningError> {
        self.write_out()?;
        let modified = last.map_or(Ok(self.now.0), |last| last.file()?.modified())?;
        for segment in &mut self.segments {
            segment.file()?.set_modified(modified)?;
            segment.seal_durably()?;
        }
        Ok(())
    }
}
