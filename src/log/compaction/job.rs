//! What the cleaner takes from a log, and what it gives back: both under the log's
//! lock and in little time. In between it works without.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::filter::LastOfProducer;
use super::plan::{Candidate, LogOffsets, SegmentSizes, first_too_young, is_overdue};
use crate::log::cut::Doomed;
use crate::log::file_names::Phase;
use crate::log::files::Folder;
use crate::log::segment::Segment;
use crate::log::{Log, LogConfig, LogError, LogMarks};
use crate::sys::cold::IfCold;
use crate::types::{Offset, ProducerId, Timestamp};

/// A log as it was when cleaning it began.
#[derive(Debug)]
pub struct CleaningJob {
    /// Where its files are.
    pub(super) folder: Arc<Folder>,
    /// Its settings.
    pub(super) config: Arc<LogConfig>,
    /// Which log it was.
    marks: Arc<LogMarks>,
    rewinds: u64,
    /// What is to be done.
    pub(super) candidate: Candidate,
    /// The segments before the first uncleanable offset, as views of their own.
    pub(super) segments: Vec<Segment>,
    /// Those behind that know of aborted transactions.
    pub(super) later: Vec<Segment>,
    /// Active producers.
    pub(super) producers: HashMap<ProducerId, LastOfProducer>,
    /// As it was.
    pub(super) high_watermark: Offset,
    /// When it began.
    pub(super) now: Timestamp,
}

impl CleaningJob {
    /// True when `log` is the one that the job was taken from, and was not cut
    /// since.
    pub fn is_of(&self, log: &Log) -> bool {
        Arc::ptr_eq(&self.marks, log.marks()) && !log.retired && self.rewinds == log.rewinds
    }

    /// What is to be done.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }
}

impl Log {
    /// What cleaning would do; `None` when nothing is in the log.
    pub fn cleaning_candidate(&self) -> Result<Option<Candidate>, LogError> {
        self.check_online()?;
        let offsets = LogOffsets {
            log_start: self.log_start,
            log_end: self.log_end,
            last_stable: self.last_stable(),
            active_base: self.active.base(),
            checkpoint: self.marks.cleaned_to(),
        };
        self.measure(&offsets).map_err(|error| self.explain(error))
    }

    fn measure(&self, offsets: &LogOffsets) -> io::Result<Option<Candidate>> {
        let (now, config) = (self.clock.wall(), &self.config);
        let first_dirty = offsets.first_dirty();
        let dirty_base = self.closed.range(..=first_dirty).next_back();
        let dirty_base = dirty_base.map_or(first_dirty, |(base, _)| *base);
        let dirty = || self.closed.range(dirty_base..).map(|(_, segment)| &**segment);
        // Files are only opened for settings that are in use.
        let mut too_young = None;
        if config.min_compaction_lag_ms > 0 {
            let times = dirty()
                .map(|segment| Ok((segment.base(), segment.largest(IfCold::Wait)?.timestamp)));
            let times = times.collect::<io::Result<Vec<_>>>()?;
            too_young = first_too_young(times, now, config.min_compaction_lag_ms);
        }
        let mut overdue = false;
        if config.max_compaction_lag_ms < i64::MAX {
            let firsts = dirty().map(Segment::first_timestamp);
            let firsts = firsts.collect::<io::Result<Vec<_>>>()?;
            overdue = is_overdue(firsts.into_iter().flatten(), now, config.max_compaction_lag_ms);
        }
        let sizes = self.closed.values().map(|segment| segment.sizes()).collect::<Vec<_>>();
        Ok(Candidate::measure(&sizes, offsets, too_young, overdue))
    }

    fn last_stable(&self) -> Offset {
        let high_watermark = self.marks.high_watermark();
        let unstable = self.producers.get().first_unstable_offset();
        unstable.map_or(high_watermark, |unstable| unstable.min(high_watermark))
    }

    /// All that the cleaner needs to do what `candidate` says.
    pub fn begin_cleaning(&self, candidate: Candidate) -> CleaningJob {
        let now = self.clock.wall();
        let view = |segment: &Segment| segment.view(&self.folder, now);
        let until = candidate.first_uncleanable;
        let later = self.closed.range(until..).map(|(_, segment)| &**segment).chain([&self.active]);
        let producers = self.producers().iter().map(|(producer_id, entry)| {
            let offset = entry.batches().last().map(|batch| batch.last_offset);
            (producer_id, LastOfProducer { offset, epoch: entry.epoch })
        });
        CleaningJob {
            folder: self.folder.clone(),
            config: self.config.clone(),
            marks: self.marks.clone(),
            rewinds: self.rewinds,
            candidate,
            segments: self.closed.range(..until).map(|(_, segment)| view(segment)).collect(),
            later: later.filter(|segment| !segment.aborted().is_empty()).map(view).collect(),
            producers: producers.collect(),
            high_watermark: self.marks.high_watermark(),
            now,
        }
    }

    /// Puts compacted segments, which are durable under their `.cleaned` names, in
    /// the place of those at `originals`. False, and the compacted ones are gone,
    /// when the log is not any more as the job found it.
    pub fn replace_segments(
        &mut self,
        job: &CleaningJob,
        mut compacted: Vec<Segment>,
        originals: &[SegmentSizes],
    ) -> Result<bool, LogError> {
        let unchanged = job.is_of(self)
            && self.health.is_online()
            && self.config.cleanup_policy.compact
            && originals.iter().all(|original| {
                let known = self.closed.get(&original.base);
                known.is_some_and(|known| known.size() == original.size)
            });
        if !unchanged {
            // A failure only leaves what the next start sweeps away.
            compacted.iter_mut().for_each(|segment| drop(segment.remove()));
            return Ok(false);
        }
        let replaced = self.swap(compacted, originals);
        self.publish_marks();
        replaced.map(|()| true).map_err(|error| self.explain(error))
    }

    /// The order of names is what opening relies on: see `loading.rs`.
    fn swap(&mut self, mut compacted: Vec<Segment>, originals: &[SegmentSizes]) -> io::Result<()> {
        for segment in compacted.iter_mut().rev() {
            segment.rename(Phase::Swap)?;
        }
        for original in originals {
            if let Some(segment) = self.closed.get_mut(&original.base) {
                segment.mark_deleted()?;
            }
        }
        for segment in &mut compacted {
            segment.rename(Phase::Live)?;
        }
        let due = self.deletion_time();
        for original in originals {
            let old = self.closed.remove(&original.base);
            self.doomed.extend(old.map(|segment| Doomed { segment: *segment, due }));
        }
        self.closed.extend(compacted.into_iter().map(|segment| (segment.base(), segment.into())));
        for original in originals {
            if !self.closed.contains_key(&original.base) {
                self.producers.forget_snapshot(original.base)?;
            }
        }
        Ok(())
    }
}
