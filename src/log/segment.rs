//! One segment of a log: a run of batches in a `.log` file, and what finds
//! things in it.
//!
//! Only the last segment of a log grows. Nothing here knows leaders, producers
//! or what may be read; it finds batches by offset, tells where those of a time are, appends bytes
//! that are ready, and cuts.

use std::io::{self, IoSlice};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use super::batch::BatchHeader;
use super::compaction::plan::SegmentSizes;
use super::file_names::{FileKind, Phase};
use super::files::{FileSlot, Folder};
use super::offset_index::{self, OffsetIndex, OffsetPosition};
use super::scan::{BatchAt, HeaderScan};
use super::time_index::{self, TimeIndex, TimestampOffset};
use super::txn_index::TransactionIndex;
use crate::sys::cold::IfCold;
use crate::sys::disk::DiskFile;
use crate::types::{Offset, Timestamp};

/// Lengths of a segment's files, as the directory lists them; `None` for a file
/// that is not there.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentFiles {
    /// `.log`
    pub log: u64,
    /// `.index`
    pub index: Option<u64>,
    /// `.timeindex`
    pub time_index: Option<u64>,
    /// `.txnindex`
    pub txn_index: Option<u64>,
}

/// A batch that was or is being appended, as the indexes need to know it.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// First offset in it.
    pub base_offset: Offset,
    /// Last offset in it.
    pub last_offset: Offset,
    /// Largest timestamp in it.
    pub max_timestamp: Timestamp,
    /// Bytes of it.
    pub len: u64,
}

impl From<&BatchHeader> for Appended {
    fn from(header: &BatchHeader) -> Self {
        Self {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
            len: header.total_len as u64,
        }
    }
}

/// Where a batch is, and its offsets: what readers need to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Bytes before it.
    pub position: u64,
    /// Bytes up to its end.
    pub end: u64,
    /// Its first offset.
    pub base_offset: Offset,
    /// Its last offset.
    pub last_offset: Offset,
}

impl From<BatchAt> for Place {
    fn from(at: BatchAt) -> Self {
        let (base_offset, last_offset) = (at.header.base_offset, at.header.last_offset());
        Self { position: at.position, end: at.end(), base_offset, last_offset }
    }
}

/// Bytes that are sooner walked over than looked up.
const NEAR: u64 = 16 * 1024;

/// What a search gave.
enum Found {
    Batch(BatchAt),
    Nothing,
    /// The index entry that it began with is wrong.
    Distrusted,
}

/// Limits that a segment keeps to.
#[derive(Clone, Copy, Debug)]
pub struct IndexRules {
    /// `index.interval.bytes`: bytes of batches between two entries.
    pub interval_bytes: u64,
    /// `segment.index.bytes`: at this size an index is full.
    pub max_bytes: u64,
}

/// One segment.
#[derive(Debug)]
pub struct Segment {
    base: Offset,
    log: FileSlot,
    size: u64,
    offsets: OffsetIndex,
    times: TimeIndex,
    aborted: TransactionIndex,
    /// Largest timestamp, and the batch where it was first seen; read from the
    /// time index when first needed.
    largest: OnceLock<TimestampOffset>,
    bytes_since_entry: u64,
    /// The batch appended last: who follows the log's end asks for no other, and it is
    /// found without a look into the file.
    newest: Option<Place>,
    /// Largest timestamp of the first batch, which time-based rolling counts from.
    first_timestamp: OnceLock<Timestamp>,
    created: Timestamp,
    index_missing: bool,
    index_implausible: bool,
}

impl Segment {
    /// The segment at `base` whose files are there. Touches no file.
    pub fn open(folder: &Arc<Folder>, base: Offset, files: &SegmentFiles, now: Timestamp) -> Self {
        let index_len = files.index.unwrap_or(0);
        let time_len = files.time_index.unwrap_or(0);
        let most = files.log / super::batch::MAGIC_END as u64 + 1;
        Self {
            base,
            log: FileSlot::new(folder, base, FileKind::Log),
            size: files.log,
            offsets: OffsetIndex::new(folder, base, index_len),
            times: TimeIndex::new(folder, base, time_len),
            aborted: TransactionIndex::new(folder, base, files.txn_index.unwrap_or(0)),
            largest: OnceLock::new(),
            bytes_since_entry: 0,
            newest: None,
            first_timestamp: OnceLock::new(),
            created: now,
            // Nothing has entries in it before it has batches.
            index_missing: files.index.is_none() && files.log > 0,
            index_implausible: !index_len.is_multiple_of(offset_index::ENTRY_LEN)
                || !time_len.is_multiple_of(time_index::ENTRY_LEN)
                || index_len / offset_index::ENTRY_LEN > most
                || time_len / time_index::ENTRY_LEN > most,
        }
    }

    /// A new, empty segment at `base`. What older files of that name hold is
    /// thrown away.
    pub fn create(folder: &Arc<Folder>, base: Offset, now: Timestamp) -> io::Result<Self> {
        Self::create_in(folder, base, now, Phase::Live)
    }

    /// The same under the names of a segment that is to take the place of others,
    /// once it is whole.
    pub fn create_cleaned(folder: &Arc<Folder>, base: Offset, now: Timestamp) -> io::Result<Self> {
        Self::create_in(folder, base, now, Phase::Cleaned)
    }

    /// The same where no file goes by that name, as in a log's directory that is new.
    pub fn create_first(folder: &Arc<Folder>, base: Offset, now: Timestamp) -> io::Result<Self> {
        let segment = Self::open(folder, base, &SegmentFiles::default(), now);
        segment.log.create_new()?;
        Ok(segment)
    }

    fn create_in(
        folder: &Arc<Folder>,
        base: Offset,
        now: Timestamp,
        phase: Phase,
    ) -> io::Result<Self> {
        let mut segment = Self::open(folder, base, &SegmentFiles::default(), now);
        segment.slots().into_iter().for_each(|slot| slot.set_phase(phase));
        segment.log.created()?.set_len(0)?;
        for slot in segment.slots().into_iter().skip(1) {
            slot.remove()?;
        }
        segment.index_missing = false;
        Ok(segment)
    }

    /// All its files, the log first.
    fn slots(&mut self) -> [&mut FileSlot; 4] {
        [&mut self.log, self.offsets.slot(), self.times.slot(), self.aborted.slot()]
    }

    /// Another view on the files of a segment that does not change any more, to be
    /// read without the log's lock.
    pub fn view(&self, folder: &Arc<Folder>, now: Timestamp) -> Self {
        let sizes = self.sizes();
        let files = SegmentFiles {
            log: sizes.size,
            index: Some(sizes.index),
            time_index: Some(sizes.time_index),
            txn_index: Some(self.aborted.size()),
        };
        Self::open(folder, self.base, &files, now)
    }

    /// Base and sizes.
    pub fn sizes(&self) -> SegmentSizes {
        SegmentSizes {
            base: self.base,
            size: self.size,
            index: self.offsets.len() as u64 * offset_index::ENTRY_LEN,
            time_index: self.times.len() as u64 * time_index::ENTRY_LEN,
        }
    }

    /// Offset that the segment is named by; no record in it lies before.
    pub fn base(&self) -> Offset {
        self.base
    }

    /// True without batches and without anything in the indexes, whose files need not
    /// be there.
    pub fn is_blank(&self) -> bool {
        let SegmentSizes { size, index, time_index, .. } = self.sizes();
        size + index + time_index + self.aborted.size() == 0 && !self.index_implausible
    }

    /// Bytes of batches.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The `.log` file, opened if need be.
    pub fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.log.existing()
    }

    /// The aborted transactions.
    pub fn aborted(&self) -> &TransactionIndex {
        &self.aborted
    }

    /// The aborted transactions, to add one.
    pub fn aborted_mut(&mut self) -> &mut TransactionIndex {
        &mut self.aborted
    }

    /// Why the indexes must be rebuilt before they are used, if they must.
    ///
    /// `thorough` also looks at the newest entries, which costs opening the files.
    pub fn index_fault(&self, thorough: bool) -> io::Result<Option<&'static str>> {
        if self.index_missing {
            return Ok(Some("offset index is missing"));
        }
        if self.index_implausible {
            return Ok(Some("index has an impossible length"));
        }
        match self.aborted.check(self.base) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Some("transaction index is damaged"));
            }
            other => other?,
        }
        if !thorough {
            return Ok(None);
        }
        let last = self.offsets.last(IfCold::Wait)?;
        if last.offset < self.base || (last.position > 0 && last.position >= self.size) {
            return Ok(Some("offset index points outside the segment"));
        }
        if self.times.last(IfCold::Wait)?.offset < self.base {
            return Ok(Some("time index points outside the segment"));
        }
        Ok(None)
    }

    // ── appending ───────────────────────────────────────────────────────────

    /// True when an append of `len` bytes that ends with `last_offset` must go to
    /// a new segment, time aside.
    pub fn is_full(&self, rules: &IndexRules, segment_bytes: u64, len: u64, last: Offset) -> bool {
        let offset_entries = rules.max_bytes / offset_index::ENTRY_LEN;
        // One place is kept for the entry that is written when the segment closes.
        let time_entries = (rules.max_bytes / time_index::ENTRY_LEN).saturating_sub(1);
        self.size + len > segment_bytes
            || self.offsets.len() as u64 >= offset_entries
            || self.times.len() as u64 >= time_entries
            || !self.offsets.fits(last)
    }

    /// Time since the first batch by the records' own clock, or since the segment
    /// was created when they have none, in ms.
    pub fn age(&self, now: Timestamp, newest: Timestamp) -> io::Result<i64> {
        Ok(match self.first_timestamp()? {
            Some(first) if first.0 >= 0 => newest.0.saturating_sub(first.0),
            _ => now.0.saturating_sub(self.created.0),
        })
    }

    /// Writes batches behind the others. When that fails the file is cut back to
    /// what it was; whoever reads at most to [`Self::size`] never sees a part.
    pub fn append(
        &mut self,
        slices: &mut [IoSlice<'_>],
        batches: impl IntoIterator<Item = Appended>,
        rules: &IndexRules,
    ) -> io::Result<()> {
        let file = self.log.existing()?;
        // Known before anything is written, so that nothing after the write fails.
        self.largest(IfCold::Wait)?;
        if let Err(error) = file.write_all_at(slices, self.size) {
            file.set_len(self.size)?;
            return Err(error);
        }
        batches.into_iter().try_for_each(|batch| self.note(&batch, rules))
    }

    /// Brings size, indexes and timestamps up to the next batch in the file.
    fn note(&mut self, batch: &Appended, rules: &IndexRules) -> io::Result<()> {
        if self.size == 0 {
            self.first_timestamp = OnceLock::from(batch.max_timestamp);
        }
        if batch.max_timestamp > self.largest(IfCold::Wait)?.timestamp {
            let largest =
                TimestampOffset { timestamp: batch.max_timestamp, offset: batch.last_offset };
            self.largest = OnceLock::from(largest);
        }
        if self.bytes_since_entry > rules.interval_bytes {
            self.offsets.append(batch.last_offset, self.size);
            let largest = self.largest(IfCold::Wait)?;
            self.times.maybe_append(largest)?;
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += batch.len;
        let (position, end) = (self.size, self.size + batch.len);
        let Appended { base_offset, last_offset, .. } = *batch;
        self.newest = Some(Place { position, end, base_offset, last_offset });
        self.size = end;
        Ok(())
    }

    /// Writes what the index files lack: the segment takes no more appends, or
    /// the log closes. Nothing is synced.
    pub fn seal(&mut self) -> io::Result<()> {
        let largest = self.largest(IfCold::Wait)?;
        self.times.maybe_append(largest)?;
        self.offsets.write_out()?;
        self.times.write_out()
    }

    /// Seals and syncs a segment that nobody else knows yet.
    pub fn seal_durably(&mut self) -> io::Result<()> {
        self.seal()?;
        let mut files = Vec::new();
        self.files_to_sync(true, &mut files)?;
        files.iter().try_for_each(|file| file.sync())
    }

    /// The files whose sync makes durable what was appended. Indexes only when
    /// the segment is sealed: before, they are rebuilt after a crash anyway.
    pub fn files_to_sync(
        &mut self,
        sealed: bool,
        into: &mut Vec<Arc<dyn DiskFile>>,
    ) -> io::Result<()> {
        into.push(self.log.existing()?);
        if sealed {
            into.push(self.offsets.slot().existing()?);
            into.push(self.times.slot().existing()?);
            into.extend(self.aborted.file()?);
        }
        Ok(())
    }

    // ── finding ─────────────────────────────────────────────────────────────

    /// Where the first batch is that ends at `target` or later.
    pub fn place_of(&self, target: Offset, if_cold: IfCold) -> io::Result<Option<Place>> {
        let holds = |place: &Place| place.base_offset <= target && target <= place.last_offset;
        match self.newest.filter(holds) {
            Some(place) => Ok(Some(place)),
            None => Ok(self.find(target, if_cold)?.map(Place::from)),
        }
    }

    /// The first batch that ends at `target` or later.
    pub fn find(&self, target: Offset, if_cold: IfCold) -> io::Result<Option<BatchAt>> {
        let entry = self.offsets.lookup(target, if_cold)?;
        if entry.position > 0 {
            match self.find_from(entry.position, entry.offset, target, if_cold) {
                Ok(Found::Batch(at)) => return Ok(Some(at)),
                Ok(Found::Nothing) => return Ok(None),
                Ok(Found::Distrusted) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
        // Without an entry, or with one that points to no batch.
        Ok(match self.find_from(0, Offset(i64::MAX), target, if_cold)? {
            Found::Batch(at) => Some(at),
            Found::Nothing | Found::Distrusted => None,
        })
    }

    /// Looks from `position` on, where a batch must begin that holds `known` or
    /// what is before it.
    fn find_from(
        &self,
        position: u64,
        known: Offset,
        target: Offset,
        if_cold: IfCold,
    ) -> io::Result<Found> {
        let mut found = if position < self.size { Found::Nothing } else { Found::Distrusted };
        self.scan(position, if_cold, |at| {
            if at.position == position && at.header.base_offset > known {
                found = Found::Distrusted;
            } else if at.header.last_offset() < target {
                return ControlFlow::Continue(());
            } else {
                found = Found::Batch(*at);
            }
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// A position from where to look for `target`. An entry that points to no
    /// batch, or to one behind the target, is damage: then from the start.
    pub fn start_for(&self, target: Offset, if_cold: IfCold) -> io::Result<u64> {
        let entry = self.offsets.lookup(target, if_cold)?;
        if entry.position == 0 {
            return Ok(0);
        }
        let file = self.file()?;
        let first = HeaderScan::new(&file, if_cold, entry.position, self.size).next();
        let trusted = match first {
            // Before 4.0 Kafka's entries named the last offset of a whole append.
            Ok(Some(at)) => at.header.base_offset <= entry.offset,
            Ok(None) => false,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => false,
            Err(error) => return Err(error),
        };
        Ok(if trusted { entry.position } else { 0 })
    }

    fn scan(
        &self,
        from: u64,
        if_cold: IfCold,
        mut visit: impl FnMut(&BatchAt) -> ControlFlow<()>,
    ) -> io::Result<()> {
        if from >= self.size {
            return Ok(());
        }
        let file = self.file()?;
        let mut scan = HeaderScan::new(&file, if_cold, from, self.size);
        while let Some(at) = scan.next()? {
            if visit(&at).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Where the last batch ends, from `first` on, that lies wholly before `limit`;
    /// where `first` begins when there is none. With the offset of what comes next.
    pub fn whole_batches(
        &self,
        first: &Place,
        limit: u64,
        if_cold: IfCold,
    ) -> io::Result<(u64, Option<Offset>)> {
        if first.end > limit {
            return Ok((first.position, Some(first.base_offset)));
        }
        if limit - first.end > NEAR {
            let entry = self.offsets.lookup_position(limit, if_cold)?;
            if entry.position > first.end
                && let Some(found) = self.last_before(limit, entry, if_cold)?
            {
                return Ok(found);
            }
        }
        let start = OffsetPosition { offset: Offset(i64::MAX), position: first.end };
        let found = self.last_before(limit, start, if_cold)?;
        Ok(found.unwrap_or_else(|| (first.end, Some(first.last_offset + 1))))
    }

    /// Where the last batch ends, from `start` on, that lies wholly before `limit`, and
    /// the offset of what comes next. `None` if no batch begins at `start`, or one
    /// that comes after the offset there.
    fn last_before(
        &self,
        limit: u64,
        start: OffsetPosition,
        if_cold: IfCold,
    ) -> io::Result<Option<(u64, Option<Offset>)>> {
        let mut found = None;
        let scanned = self.scan(start.position, if_cold, |at| {
            // Before 4.0 Kafka's entries named the last offset of a whole append.
            if found.is_none() && at.header.base_offset > start.offset {
                return ControlFlow::Break(());
            }
            if at.end() > limit {
                found = Some((at.position, Some(at.header.base_offset)));
                return ControlFlow::Break(());
            }
            found = Some((at.end(), Some(at.header.next_offset())));
            ControlFlow::Continue(())
        });
        match scanned {
            // What lies before the damage is as good as ever.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            other => other?,
        }
        Ok(found)
    }

    /// Records in all its batches, by their headers.
    pub fn count_records(&self) -> io::Result<u64> {
        let mut count = 0;
        self.scan(0, IfCold::Wait, |at| {
            count += u64::try_from(at.header.record_count).unwrap_or(0);
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// The offset after the last batch; the base when there is none.
    pub fn read_next_offset(&self) -> io::Result<Offset> {
        let mut next = self.base;
        let start = self.start_for(self.offsets.last(IfCold::Wait)?.offset, IfCold::Wait)?;
        self.scan(start, IfCold::Wait, |at| {
            next = at.header.next_offset();
            ControlFlow::Continue(())
        })?;
        Ok(next)
    }

    /// Largest timestamp of the first batch; `None` in an empty segment.
    pub fn first_timestamp(&self) -> io::Result<Option<Timestamp>> {
        if let Some(first) = self.first_timestamp.get() {
            return Ok(Some(*first));
        }
        let mut first = None;
        self.scan(0, IfCold::Wait, |at| {
            first = Some(at.header.max_timestamp);
            ControlFlow::Break(())
        })?;
        Ok(first.map(|first| *self.first_timestamp.get_or_init(|| first)))
    }

    /// Largest timestamp, with the batch where it was first seen.
    pub fn largest(&self, if_cold: IfCold) -> io::Result<TimestampOffset> {
        if let Some(largest) = self.largest.get() {
            return Ok(*largest);
        }
        let largest = self.times.last(if_cold)?;
        Ok(*self.largest.get_or_init(|| largest))
    }

    /// Largest timestamp; where no record has one, when the file was last changed.
    pub fn largest_or_modified(&self, if_cold: IfCold) -> io::Result<Timestamp> {
        let largest = self.largest(if_cold)?.timestamp;
        if largest.0 >= 0 { Ok(largest) } else { self.file()?.modified().map(Timestamp) }
    }

    /// A position from where to look for a record of `target` or later at `from` or
    /// after it.
    pub fn start_for_time(
        &self,
        target: Timestamp,
        from: Offset,
        if_cold: IfCold,
    ) -> io::Result<u64> {
        let before = self.times.lookup(target, if_cold)?;
        self.start_for(before.offset.max(from), if_cold)
    }

    // ── cutting ─────────────────────────────────────────────────────────────

    /// Cuts the batch that holds `offset`, and all after it; the bytes that went.
    pub fn truncate_to(&mut self, offset: Offset, now: Timestamp) -> io::Result<u64> {
        let Some(at) = self.find(offset, IfCold::Wait)? else { return Ok(0) };
        let cut = self.size - at.position;
        self.log.existing()?.set_len(at.position)?;
        self.size = at.position;
        self.newest = None;
        self.offsets.truncate_to(offset)?;
        self.times.truncate_to(offset)?;
        self.aborted.truncate_to(offset)?;
        self.bytes_since_entry = 0;
        if self.size == 0 {
            self.created = now;
            self.first_timestamp = OnceLock::new();
        }
        let largest = self.read_largest()?;
        self.largest = OnceLock::from(largest);
        Ok(cut)
    }

    /// Largest timestamp by the time index and the batches after its last entry.
    fn read_largest(&self) -> io::Result<TimestampOffset> {
        let mut largest = self.times.last(IfCold::Wait)?;
        let start = self.start_for(largest.offset, IfCold::Wait)?;
        self.scan(start, IfCold::Wait, |at| {
            if at.header.max_timestamp > largest.timestamp {
                largest = TimestampOffset {
                    timestamp: at.header.max_timestamp,
                    offset: at.header.last_offset(),
                };
            }
            ControlFlow::Continue(())
        })?;
        Ok(largest)
    }

    /// Forgets what the indexes and timestamps say, before a rebuild by
    /// [`Self::rebuild_with`] from the first batch on.
    pub fn start_rebuild(&mut self) -> io::Result<()> {
        self.offsets.clear();
        self.times.clear();
        self.aborted.clear()?;
        self.largest =
            OnceLock::from(TimestampOffset { timestamp: Timestamp::NONE, offset: self.base });
        self.first_timestamp = OnceLock::new();
        self.bytes_since_entry = 0;
        self.newest = None;
        self.size = 0;
        Ok(())
    }

    /// The next sound batch during a rebuild; the caller has seen that its offsets
    /// are in order and [`Self::fits`] the last of them.
    pub fn rebuild_with(&mut self, header: &BatchHeader, rules: &IndexRules) -> io::Result<()> {
        self.note(&Appended::from(header), rules)
    }

    /// True when the indexes can tell this offset.
    pub fn fits(&self, offset: Offset) -> bool {
        self.offsets.fits(offset)
    }

    /// Ends a rebuild: cuts what came after the last sound batch and writes the
    /// indexes.
    pub fn finish_rebuild(&mut self) -> io::Result<()> {
        let file = self.log.existing()?;
        if file.len()? > self.size {
            file.set_len(self.size)?;
        }
        self.index_missing = false;
        self.index_implausible = false;
        self.seal()
    }

    // ── going ───────────────────────────────────────────────────────────────

    /// Renames the files to `.deleted`: after a crash they are swept away.
    pub fn mark_deleted(&mut self) -> io::Result<()> {
        self.rename(Phase::Deleted)
    }

    /// Gives the files the names of another phase, the log first: what a crash
    /// leaves half-way is told by it.
    pub fn rename(&mut self, phase: Phase) -> io::Result<()> {
        self.slots().into_iter().try_for_each(|slot| slot.rename(phase))
    }

    /// Removes the files.
    pub fn remove(&mut self) -> io::Result<()> {
        self.slots().into_iter().try_for_each(|slot| slot.remove())
    }
}
