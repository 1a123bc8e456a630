//! Making a log sound after a stop that was not clean: cutting what was torn,
//! rebuilding indexes, epochs and producers from the batches.

use std::io::{self, IoSlice};

use super::append_plan::BatchFacts;
use super::batch::{BatchView, MAGIC_V2};
use super::file_names::Phase;
use super::loading::Loader;
use super::scan::{HeaderScan, SoundBatch, walk_sound};
use super::segment::{Appended, IndexRules, Segment};
use super::{LogKind, LogOptions};
use crate::sys::cold::IfCold;
use crate::sys::disk::DiskFile;
use crate::types::Offset;

/// What opening a log had to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments whose every batch was checked.
    pub segments_checked: usize,
    /// Segments that went because one before them was cut.
    pub segments_deleted: usize,
    /// Bytes that were cut off as torn.
    pub bytes_cut: u64,
    /// The file of leader epochs was damaged and written anew.
    pub epochs_rebuilt: bool,
    /// All segments went: they ended before the log start.
    pub emptied: bool,
    /// A segment was created: there was none.
    pub created: bool,
}

impl RecoveryReport {
    /// True when the directory is not as it was found.
    pub fn changed_anything(&self) -> bool {
        *self != Self::default()
    }
}

impl Loader {
    /// Where the epoch file is of no use, the batches tell (by their headers).
    pub(super) fn rebuild_epochs(&mut self) -> io::Result<()> {
        if !self.report.epochs_rebuilt {
            return Ok(());
        }
        for segment in self.segments.values() {
            let file = segment.file()?;
            let mut scan = HeaderScan::new(&file, IfCold::Wait, 0, segment.size());
            loop {
                match scan.next() {
                    Ok(Some(at)) if at.header.magic == MAGIC_V2 => {
                        self.epochs.note(at.header.leader_epoch, at.header.base_offset);
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    // A torn tail; recovery proper deals with it.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => break,
                    Err(error) => return Err(error),
                }
            }
        }
        self.epochs.write()
    }

    /// Makes the segments sound; the log's end.
    pub(super) fn recover(&mut self) -> io::Result<Offset> {
        let LogOptions { clean, kind, recovery_point, log_start, .. } = self.options;
        let clean = clean && kind == LogKind::Partition;
        // The segment that holds the recovery point is checked as a whole.
        let mut doubtful = if clean {
            Offset(i64::MAX)
        } else {
            let holding = self.segments.range(..=recovery_point).next_back();
            holding.map_or(recovery_point, |(base, _)| *base)
        };
        let mut next = Offset(i64::MIN);
        while let Some((base, segment)) = self.segments.range(next..).next() {
            let base = *base;
            next = base + 1;
            let newest = base < doubtful && self.segments.range(next..).next().is_none();
            let fault = match segment.index_fault(newest)? {
                None if newest => unreadable(segment)?,
                fault => fault,
            };
            if base < doubtful && fault.is_none() {
                continue;
            }
            if let Some(reason) = fault.filter(|_| base < doubtful) {
                tracing::warn!(dir = %self.folder.path.display(), %base, reason, "checking segment");
            }
            if self.is_unused(base) {
                self.report.segments_checked += 1;
                break;
            }
            match self.check_segment(base)? {
                Checked::Sound => {}
                Checked::Cut => {
                    self.delete_after(base)?;
                    break;
                }
                Checked::Overflows => {
                    self.split(base)?;
                    // Its parts have no index of aborted transactions yet.
                    doubtful = doubtful.min(base);
                    next = base;
                }
            }
        }
        let log_end = self.drop_if_before(log_start)?;
        self.finish_producers(log_end, clean)?;
        self.epochs.write()?;
        Ok(log_end)
    }

    /// True for a last segment that nothing was written to, of which there may be very
    /// many: it is left as it is, without files for its indexes.
    fn is_unused(&self, base: Offset) -> bool {
        let last = self.segments.last_key_value();
        last.is_some_and(|(last, segment)| *last == base && segment.is_blank())
    }

    /// Walks all batches of a segment and rebuilds what is derived from them.
    fn check_segment(&mut self, base: Offset) -> io::Result<Checked> {
        let now = self.options.clock.wall();
        let log_start = self.options.log_start;
        if self.producers.end() != base || self.report.segments_checked == 0 {
            self.producers.load_before(log_start, base, now)?;
            self.replay_producers(base, base)?;
        }
        let rules = self.index_rules();
        let following = self.segments.range(base + 1..).next().map(|(base, _)| *base);
        let Some(segment) = self.segments.get_mut(&base) else { return Ok(Checked::Sound) };
        let size = segment.size();
        let file = segment.file()?;
        if overflows(&*file, size, base, following)? {
            return Ok(Checked::Overflows);
        }
        segment.start_rebuild()?;
        let (epochs, producers) = (&mut self.epochs, &mut self.producers);
        let mut accept = |batch: &BatchFacts| {
            let header = &batch.header;
            segment.rebuild_with(header, &rules)?;
            if header.magic == MAGIC_V2
                && epochs.get().latest().is_none_or(|l| header.leader_epoch > l.epoch)
            {
                epochs.note(header.leader_epoch, header.base_offset);
            }
            producers.replay(batch, Some(segment.aborted_mut()))
        };
        let mut order = Order::new(base, following);
        walk_sound(&*file, 0, size, |batch| {
            let judged = order.next(facts(batch));
            judged.accepted.as_ref().map_or(Ok(()), &mut accept)?;
            Ok(judged.goes_on)
        })?;
        order.last().as_ref().map_or(Ok(()), &mut accept)?;
        segment.finish_rebuild()?;
        let (end, next) = (segment.size(), order.reached);
        self.producers.take_snapshot()?;
        self.report.segments_checked += 1;
        let cut = size - end;
        if cut > 0 {
            tracing::warn!(dir = %self.folder.path.display(), %base, cut, %next, "cut what is damaged or torn");
            self.report.bytes_cut += cut;
            return Ok(Checked::Cut);
        }
        Ok(Checked::Sound)
    }

    fn index_rules(&self) -> IndexRules {
        IndexRules {
            interval_bytes: self.options.config.index_interval_bytes,
            max_bytes: self.options.config.segment_index_bytes,
        }
    }

    /// Makes several segments of one whose offsets do not fit its indexes: old
    /// compaction wrote such (KAFKA-6264). They take its place as after compaction.
    fn split(&mut self, base: Offset) -> io::Result<()> {
        let Some(mut segment) = self.segments.remove(&base) else { return Ok(()) };
        let (now, rules) = (self.options.clock.wall(), self.index_rules());
        let mut parts = Vec::<Segment>::new();
        walk_sound(&*segment.file()?, 0, segment.size(), |batch| {
            let header = &batch.at.header;
            if parts.last().is_none_or(|part| !part.fits(header.last_offset())) {
                let base = if parts.is_empty() { base } else { header.base_offset };
                parts.push(Segment::create_cleaned(&self.folder, base, now)?);
            }
            let mut bytes = vec![0; header.total_len];
            segment.file()?.read_exact_at(&mut bytes, batch.at.position)?;
            let Some(part) = parts.last_mut() else { return Ok(false) };
            part.append(&mut [IoSlice::new(&bytes)], [Appended::from(header)], &rules)?;
            Ok(true)
        })?;
        tracing::warn!(dir = %self.folder.path.display(), %base, parts = parts.len(), "split a segment whose offsets are too far apart");
        for part in &mut parts {
            part.seal_durably()?;
        }
        for part in parts.iter_mut().rev() {
            part.rename(Phase::Swap)?;
        }
        segment.remove()?;
        for mut part in parts {
            part.rename(Phase::Live)?;
            self.segments.insert(part.base(), part);
        }
        self.folder.files.disk().sync_dir(&self.folder.path)
    }

    fn delete_after(&mut self, base: Offset) -> io::Result<()> {
        let after = self.segments.split_off(&(base + 1));
        for (base, mut segment) in after.into_iter().rev() {
            tracing::warn!(dir = %self.folder.path.display(), %base, "deleting segment behind a torn one");
            segment.remove()?;
            self.producers.forget_snapshot(base)?;
            self.report.segments_deleted += 1;
        }
        Ok(())
    }

    /// The log's end. A log that ends before its start is emptied: its files are
    /// not the ones that the checkpoint was made of.
    fn drop_if_before(&mut self, log_start: Offset) -> io::Result<Offset> {
        let now = self.options.clock.wall();
        if let Some(last) = self.segments.values().next_back() {
            let log_end = last.read_next_offset()?;
            if log_end >= log_start {
                return Ok(log_end);
            }
            tracing::warn!(dir = %self.folder.path.display(), %log_end, %log_start, "log ends before its start; emptying it");
            while let Some((_, mut segment)) = self.segments.pop_last() {
                segment.remove()?;
            }
            self.epochs.clear();
            self.producers.restart(log_start)?;
            self.report.emptied = true;
        }
        let first = Segment::create_first(&self.folder, log_start, now)?;
        self.segments.insert(log_start, first);
        self.report.created = true;
        Ok(log_start)
    }

    fn finish_producers(&mut self, log_end: Offset, clean: bool) -> io::Result<()> {
        let bases = self.segments.keys().copied().collect::<Vec<_>>();
        self.producers.remove_strays(&bases)?;
        let now = self.options.clock.wall();
        if clean && !self.producers.has_snapshot() {
            // Nothing says that there ever were producers, and a clean stop would
            // have said so.
            let newest = bases.iter().rev().take(2).rev();
            for offset in newest.copied().chain([log_end]) {
                self.producers.move_end(offset);
                self.producers.take_snapshot()?;
            }
            return Ok(());
        }
        let first = bases.first().copied().unwrap_or(log_end);
        self.producers.reload(self.options.log_start.max(first), log_end, now)?;
        self.replay_producers(log_end, log_end)?;
        self.producers.take_snapshot()
    }

    /// Brings producers, which stand at some snapshot, up to `end` by the batches
    /// of the segments that begin before `before`.
    fn replay_producers(&mut self, before: Offset, end: Offset) -> io::Result<()> {
        let from = self.producers.end();
        if self.producers.is_tracked() && from < end {
            let first = self.segments.range(..=from).next_back().map_or(from, |(base, _)| *base);
            for segment in self.segments.range(first..before.max(first)).map(|(_, s)| s) {
                replay_segment(segment, &mut self.producers, end)?;
            }
        }
        self.producers.move_end(end);
        Ok(())
    }
}

/// Shows the producers the batches of a segment that they have not seen, below
/// `end`.
pub(super) fn replay_segment(
    segment: &Segment,
    producers: &mut super::producer_files::ProducerFiles,
    end: Offset,
) -> io::Result<()> {
    match replay_batches(segment, producers, end) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            tracing::warn!(base = %segment.base(), %error, "producers are known as far as a segment can be read");
            Ok(())
        }
        other => other,
    }
}

fn replay_batches(
    segment: &Segment,
    producers: &mut super::producer_files::ProducerFiles,
    end: Offset,
) -> io::Result<()> {
    let from = producers.end().max(segment.base());
    let Some(first) = segment.find(from, IfCold::Wait)? else { return Ok(()) };
    let file = segment.file()?;
    let mut scan = HeaderScan::new(&file, IfCold::Wait, first.position, segment.size());
    while let Some(at) = scan.next()? {
        if at.header.base_offset >= end {
            break;
        }
        let control;
        let batch = if at.header.attributes.is_control() && at.header.magic == MAGIC_V2 {
            let mut bytes = vec![0; at.header.total_len];
            file.read_exact_at(&mut bytes, at.position)?;
            control = bytes;
            SoundBatch { at, bytes: Some(&control) }
        } else {
            SoundBatch { at, bytes: None }
        };
        producers.replay(&facts(&batch), None)?;
    }
    Ok(())
}

/// Why the end of a segment cannot be found, if it cannot.
fn unreadable(segment: &Segment) -> io::Result<Option<&'static str>> {
    match segment.read_next_offset() {
        Ok(next) if next == segment.base() || segment.fits(next + -1) => Ok(None),
        Ok(_) => Ok(Some("the last offset does not belong into the segment")),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some("batches are damaged")),
        Err(error) => Err(error),
    }
}

/// A batch's numbers, with its marker if it is one.
fn facts(batch: &SoundBatch<'_>) -> BatchFacts {
    match batch.bytes.filter(|_| batch.at.header.attributes.is_control()) {
        Some(bytes) => match BatchView::parse(bytes) {
            Ok(view) => BatchFacts::of(&view),
            Err(_) => BatchFacts { header: batch.at.header, marker: None },
        },
        None => BatchFacts { header: batch.at.header, marker: None },
    }
}

/// What the check of a segment came to.
enum Checked {
    /// Every byte of it is a batch.
    Sound,
    /// Something was cut off; what lies behind the segment has lost its place.
    Cut,
    /// Untouched: it must become several.
    Overflows,
}

/// Takes batches in as long as their offsets make sense. Base offsets lie outside
/// of checksums, so a batch that is sound otherwise may have a wrong one.
struct Order {
    base: Offset,
    /// First offset of the segment behind this one.
    following: Option<Offset>,
    /// After the last batch that was accepted.
    reached: Offset,
    /// Accepted unless the next batch speaks against it.
    held: Option<BatchFacts>,
}

/// A batch that may be taken in, and whether more may follow.
struct Judged {
    accepted: Option<BatchFacts>,
    goes_on: bool,
}

impl Order {
    fn new(base: Offset, following: Option<Offset>) -> Self {
        Self { base, following, reached: base, held: None }
    }

    fn next(&mut self, batch: BatchFacts) -> Judged {
        let header = &batch.header;
        let before = self.held.as_ref().map_or(self.reached, |held| held.header.next_offset());
        if self.fits(&batch) && header.base_offset >= before {
            let accepted = self.last();
            self.held = Some(batch);
            return Judged { accepted, goes_on: true };
        }
        // The one before left a gap, and without it this one is in order: then
        // that one's offset is the wrong one.
        if self.fits(&batch)
            && header.base_offset >= self.reached
            && self.held.as_ref().is_some_and(|held| held.header.base_offset > self.reached)
        {
            self.held = None;
        }
        Judged { accepted: None, goes_on: false }
    }

    /// The batch that is held back, since nothing speaks against it.
    fn last(&mut self) -> Option<BatchFacts> {
        let held = self.held.take();
        self.reached = held.as_ref().map_or(self.reached, |held| held.header.next_offset());
        held
    }

    fn fits(&self, batch: &BatchFacts) -> bool {
        let (first, last) = (batch.header.base_offset, batch.header.last_offset());
        (self.base..=last).contains(&first)
            && last - self.base <= i64::from(i32::MAX)
            && self.following.is_none_or(|following| last < following)
    }
}

/// True when a segment's offsets are in order up to the `following` segment and
/// yet too far from its base for the indexes. Of the last segment nothing says so:
/// there a far offset is a damaged one.
fn overflows(
    file: &dyn DiskFile,
    size: u64,
    base: Offset,
    following: Option<Offset>,
) -> io::Result<bool> {
    let Some(following) = following.filter(|next| *next - base > i64::from(i32::MAX)) else {
        return Ok(false);
    };
    let (mut next, mut far) = (base, false);
    let end = walk_sound(file, 0, size, |batch| {
        let (first, last) = (batch.at.header.base_offset, batch.at.header.last_offset());
        far |= last - base > i64::from(i32::MAX);
        let in_order = next <= first && first <= last && last < following;
        next = batch.at.header.next_offset();
        Ok(in_order)
    })?;
    Ok(far && end == size)
}
