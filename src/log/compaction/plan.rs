//! Which log is cleaned next, how far, and which segments become one. `[P]`

use std::ops::Range;

use crate::types::{Offset, Timestamp};

/// A segment, as far as the plan needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSizes {
    /// Its name.
    pub base: Offset,
    /// Bytes of batches.
    pub size: u64,
    /// Bytes of its offset index.
    pub index: u64,
    /// Bytes of its time index.
    pub time_index: u64,
}

/// Offsets of a log that matter here.
#[derive(Clone, Copy, Debug)]
pub struct LogOffsets {
    /// First that may be read.
    pub log_start: Offset,
    /// Next to be written.
    pub log_end: Offset,
    /// Beyond it transactions are undecided, or nothing is committed.
    pub last_stable: Offset,
    /// Base of the active segment, which is never cleaned.
    pub active_base: Offset,
    /// Everything before was cleaned, by the checkpoint.
    pub checkpoint: Option<Offset>,
}

impl LogOffsets {
    /// Where the dirty section begins. A checkpoint that does not fit the log says
    /// nothing.
    pub fn first_dirty(&self) -> Offset {
        let known = self.checkpoint.filter(|at| (self.log_start..=self.log_end).contains(at));
        known.unwrap_or(self.log_start)
    }
}

/// The first of the dirty segments, given with their largest timestamps, that has a
/// record of the last `min.compaction.lag.ms`.
pub fn first_too_young(
    segments: impl IntoIterator<Item = (Offset, Timestamp)>,
    now: Timestamp,
    min_lag_ms: i64,
) -> Option<Offset> {
    let youngest = now.0.saturating_sub(min_lag_ms);
    segments.into_iter().find(|(_, largest)| largest.0 > youngest).map(|(base, _)| base)
}

/// True when the oldest first batch of the dirty segments is beyond
/// `max.compaction.lag.ms`.
pub fn is_overdue(
    firsts: impl IntoIterator<Item = Timestamp>,
    now: Timestamp,
    max_lag_ms: i64,
) -> bool {
    let oldest = firsts.into_iter().filter(|first| first.0 > 0).min();
    oldest.is_some_and(|oldest| oldest.0 < now.0.saturating_sub(max_lag_ms.max(0)))
}

/// What cleaning a log would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Where the dirty section begins.
    pub first_dirty: Offset,
    /// Where it ends: the base of a segment.
    pub first_uncleanable: Offset,
    /// Bytes of segments before the dirty section.
    pub clean_bytes: u64,
    /// Bytes of the dirty ones.
    pub cleanable_bytes: u64,
    /// Records wait longer than `max.compaction.lag.ms`.
    pub is_overdue: bool,
}

impl Candidate {
    /// Measures a log; `closed` are its segments but the active one. `None` when
    /// there is nothing in it.
    pub fn measure(
        closed: &[SegmentSizes],
        offsets: &LogOffsets,
        too_young: Option<Offset>,
        is_overdue: bool,
    ) -> Option<Self> {
        let first_dirty = offsets.first_dirty();
        let bounds = [offsets.last_stable, offsets.active_base].into_iter().chain(too_young);
        let bound = bounds.min().unwrap_or(first_dirty).max(first_dirty);
        // A segment that holds the bound is left whole.
        let holding = closed.iter().rev().find(|segment| segment.base <= bound);
        let first_uncleanable = match holding {
            Some(segment) if bound < offsets.active_base => segment.base,
            _ => offsets.active_base,
        };
        let dirty_base = closed.iter().rev().find(|segment| segment.base <= first_dirty);
        let dirty_base = dirty_base.map_or(first_dirty, |segment| segment.base);
        let dirty_base =
            if first_dirty < first_uncleanable { dirty_base } else { first_uncleanable };
        let bytes = |range: Range<Offset>| {
            let inside = closed.iter().filter(|segment| range.contains(&segment.base));
            inside.map(|segment| segment.size).sum::<u64>()
        };
        let candidate = Self {
            first_dirty,
            first_uncleanable,
            clean_bytes: bytes(Offset(i64::MIN)..first_dirty),
            cleanable_bytes: bytes(dirty_base..first_uncleanable),
            is_overdue,
        };
        (candidate.clean_bytes + candidate.cleanable_bytes > 0).then_some(candidate)
    }

    /// The dirty part of what would be cleaned.
    pub fn ratio(&self) -> f64 {
        self.cleanable_bytes as f64 / (self.clean_bytes + self.cleanable_bytes) as f64
    }

    /// True when it is worth it, or cannot wait.
    pub fn is_due(&self, min_cleanable_dirty_ratio: f64) -> bool {
        (self.is_overdue && self.cleanable_bytes > 0) || self.ratio() > min_cleanable_dirty_ratio
    }
}

/// Runs of neighbouring segments that fit one together, by size, by their indexes
/// and by their offsets; `end` is where the last one ends.
pub fn groups(
    segments: &[SegmentSizes],
    max_bytes: u64,
    max_index_bytes: u64,
    end: Offset,
) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = 0;
    while let Some(first) = segments.get(start) {
        let mut sum = *first;
        let mut next = start + 1;
        while let Some(segment) = segments.get(next) {
            let after = segments.get(next + 1).map_or(end, |following| following.base);
            let fits = sum.size + segment.size <= max_bytes
                && sum.index + segment.index <= max_index_bytes
                && sum.time_index + segment.time_index <= max_index_bytes
                && (segment.size == 0 || after + -1 - first.base <= i64::from(i32::MAX));
            if !fits {
                break;
            }
            sum.size += segment.size;
            sum.index += segment.index;
            sum.time_index += segment.time_index;
            next += 1;
        }
        groups.push(start..next);
        start = next;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(sizes: &[(i64, u64)]) -> Vec<SegmentSizes> {
        let segment = |&(base, size): &(i64, u64)| SegmentSizes {
            base: Offset(base),
            size,
            index: 8,
            time_index: 12,
        };
        sizes.iter().map(segment).collect()
    }

    fn offsets(stable: i64, checkpoint: Option<i64>) -> LogOffsets {
        LogOffsets {
            log_start: Offset(10),
            log_end: Offset(100),
            last_stable: Offset(stable),
            active_base: Offset(80),
            checkpoint: checkpoint.map(Offset),
        }
    }

    #[test]
    fn the_dirty_section_goes_from_the_checkpoint_to_what_is_decided() {
        let closed = segments(&[(10, 100), (30, 200), (50, 400)]);
        let measure = |stable, checkpoint, young: Option<i64>| {
            let offsets = offsets(stable, checkpoint);
            let candidate = Candidate::measure(&closed, &offsets, young.map(Offset), false)?;
            let range = (candidate.first_dirty.0, candidate.first_uncleanable.0);
            Some((range, candidate.clean_bytes, candidate.cleanable_bytes))
        };
        assert_eq!(measure(100, None, None), Some(((10, 80), 0, 700)));
        assert_eq!(measure(100, Some(50), None), Some(((50, 80), 300, 400)));
        // A segment that begins before the first dirty offset counts on both sides.
        assert_eq!(measure(100, Some(40), None), Some(((40, 80), 300, 600)));
        assert_eq!(measure(60, None, None), Some(((10, 50), 0, 300)));
        assert_eq!(measure(100, None, Some(30)), Some(((10, 30), 0, 100)));
        assert_eq!(measure(5, None, None), None, "nothing is decided");
        // Checkpoints outside of the log.
        assert_eq!(measure(100, Some(3), None), Some(((10, 80), 0, 700)));
        assert_eq!(measure(100, Some(101), None), Some(((10, 80), 0, 700)));
        assert_eq!(measure(100, Some(100), None), Some(((100, 80), 700, 0)));
    }

    #[test]
    fn a_log_is_due_by_its_ratio_or_its_age() {
        let closed = segments(&[(10, 300), (50, 100)]);
        let due = |overdue, ratio| {
            let offsets = offsets(100, Some(50));
            Candidate::measure(&closed, &offsets, None, overdue).unwrap().is_due(ratio)
        };
        assert!(due(false, 0.2) && !due(false, 0.25) && due(true, 0.25) && !due(false, 1.0));
        let now = Timestamp(1000);
        let times = |times: &[i64]| times.iter().copied().map(Timestamp).collect::<Vec<_>>();
        assert!(is_overdue(times(&[-1, 500, 899]), now, 200));
        assert!(!is_overdue(times(&[-1, 0, 800]), now, 200));
        assert!(!is_overdue(times(&[5]), now, i64::MAX));
        let young = [(Offset(10), Timestamp(900)), (Offset(30), Timestamp(950))];
        assert_eq!(first_too_young(young, now, 100), Some(Offset(30)));
        assert_eq!(first_too_young(young, now, 50), None);
    }

    #[test]
    fn neighbours_become_one_as_far_as_they_fit() {
        let five = segments(&[(0, 50), (10, 50), (20, 1), (30, 99), (40, 200)]);
        assert_eq!(groups(&five, 100, 1000, Offset(50)), [0..2, 2..4, 4..5]);
        assert_eq!(groups(&five, 1000, 24, Offset(50)), [0..2, 2..4, 4..5]);
        assert_eq!(groups(&five, 1000, 36, Offset(50)), [0..3, 3..5]);
        let far = i64::from(i32::MAX);
        let wide = segments(&[(0, 1), (10, 1), (20, 0), (far + 2, 1)]);
        assert_eq!(groups(&wide, 100, 1000, Offset(far + 9)), [0..3, 3..4], "by offsets");
        assert!(groups(&[], 100, 1000, Offset(0)).is_empty());
    }
}
