//! Which segments of a log may go: by start offset, size and age. `[P]`
//!
//! Segments go from the front, oldest first; the first that must stay keeps all
//! behind it. None goes that holds an offset at or above the high watermark, so
//! that the log start never passes it. The active segment may go, too: the
//! caller then rolls a new one first.

use crate::types::{Offset, Timestamp};

/// What retention needs to know of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Offset that the segment is named after.
    pub base_offset: Offset,
    /// Bytes of its records.
    pub size: u64,
    /// Largest timestamp of its records; when the file was last written, where
    /// no record has one.
    pub largest_timestamp: Timestamp,
}

/// The settings of a topic that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// `cleanup.policy` contains `delete`. Without it only what lies before the
    /// log start goes.
    pub delete: bool,
    /// `retention.ms`; negative: for ever.
    pub retention_ms: i64,
    /// `retention.bytes`; negative: without bound.
    pub retention_bytes: i64,
}

/// Where the log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// First offset that may still be read.
    pub log_start: Offset,
    /// Offset of the next record.
    pub log_end: Offset,
    /// Offset up to which records are committed.
    pub high_watermark: Offset,
}

/// Why a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// It lies wholly before the log start.
    LogStart,
    /// The log without it is still `retention.bytes` long.
    Size,
    /// All its records are older than `retention.ms`.
    Age,
}

/// The segments that may go, as the reason for each, front to back. `segments`
/// are all of the log's, in order, the active one last.
pub fn deletable(
    segments: &[SegmentSummary],
    policy: &RetentionPolicy,
    position: &LogPosition,
    now: Timestamp,
) -> Vec<DeletionReason> {
    let mut reasons = Vec::new();
    let walk = Walk { segments, position };
    walk.extend(&mut reasons, DeletionReason::LogStart, |_, next| {
        next.is_some_and(|next| next <= position.log_start)
    });
    if !policy.delete {
        return reasons;
    }
    if let Ok(wanted) = u64::try_from(policy.retention_bytes) {
        let size: u64 = segments.iter().skip(reasons.len()).map(|segment| segment.size).sum();
        let mut excess = size.checked_sub(wanted);
        walk.extend(&mut reasons, DeletionReason::Size, |segment, _| {
            excess = excess.and_then(|excess| excess.checked_sub(segment.size));
            excess.is_some()
        });
    }
    if policy.retention_ms >= 0 {
        walk.extend(&mut reasons, DeletionReason::Age, |segment, _| {
            now.0.saturating_sub(segment.largest_timestamp.0) > policy.retention_ms
        });
    }
    reasons
}

struct Walk<'a> {
    segments: &'a [SegmentSummary],
    position: &'a LogPosition,
}

impl Walk<'_> {
    /// Goes on behind the segments already given up while `may_go` says so of a
    /// segment and the base offset of the one after it.
    fn extend(
        &self,
        reasons: &mut Vec<DeletionReason>,
        reason: DeletionReason,
        mut may_go: impl FnMut(&SegmentSummary, Option<Offset>) -> bool,
    ) {
        while let Some(segment) = self.segments.get(reasons.len()) {
            let next = self.segments.get(reasons.len() + 1).map(|next| next.base_offset);
            let upper_bound = next.unwrap_or(self.position.log_end);
            let empty_active = next.is_none() && segment.size == 0;
            let committed = self.position.high_watermark >= upper_bound;
            if empty_active || !committed || !may_go(segment, next) {
                return;
            }
            reasons.push(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DeletionReason::{Age, LogStart, Size};
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const KEEP: RetentionPolicy =
        RetentionPolicy { delete: true, retention_ms: -1, retention_bytes: -1 };

    /// Four segments of 100 bytes and 10 offsets, ages 400, 300, 200 and 100 ms.
    fn segments() -> Vec<SegmentSummary> {
        (0..4)
            .map(|i| SegmentSummary {
                base_offset: Offset(i * 10),
                size: 100,
                largest_timestamp: Timestamp(NOW.0 - 400 + 100 * i),
            })
            .collect()
    }

    fn at(log_start: i64, high_watermark: i64) -> LogPosition {
        LogPosition {
            log_start: Offset(log_start),
            log_end: Offset(40),
            high_watermark: Offset(high_watermark),
        }
    }

    #[test]
    fn what_goes_and_why() {
        let age = |retention_ms| RetentionPolicy { retention_ms, ..KEEP };
        let bytes = |retention_bytes| RetentionPolicy { retention_bytes, ..KEEP };
        let compact = RetentionPolicy { delete: false, retention_ms: 0, retention_bytes: 0 };
        let both = RetentionPolicy { retention_ms: 250, retention_bytes: 300, ..KEEP };
        let cases: [(&str, RetentionPolicy, LogPosition, &[DeletionReason]); 15] = [
            ("nothing asked for", KEEP, at(0, 40), &[]),
            ("start inside the first", KEEP, at(9, 40), &[]),
            ("start at the second", KEEP, at(10, 40), &[LogStart]),
            ("start at the end leaves the active", KEEP, at(40, 40), &[LogStart; 3]),
            ("compacted only by start", compact, at(20, 40), &[LogStart; 2]),
            ("age at the bound", age(300), at(0, 40), &[Age]),
            ("age over the bound", age(299), at(0, 40), &[Age; 2]),
            ("age takes the active, too", age(0), at(0, 40), &[Age; 4]),
            ("not over the high watermark", age(0), at(0, 39), &[Age; 3]),
            ("nothing is committed", age(0), at(0, 9), &[]),
            ("size below the bound", bytes(401), at(0, 40), &[]),
            ("size would fall short", bytes(301), at(0, 40), &[]),
            ("size to the byte", bytes(200), at(0, 40), &[Size; 2]),
            ("no bytes at all", bytes(0), at(0, 40), &[Size; 4]),
            ("one after the other", both, at(10, 40), &[LogStart, Age]),
        ];
        for (name, policy, position, expected) in cases {
            assert_eq!(deletable(&segments(), &policy, &position, NOW), expected, "{name}");
        }
    }

    #[test]
    fn a_young_segment_keeps_the_old_ones_behind_it() {
        let mut segments = segments();
        segments[0].largest_timestamp = Timestamp(NOW.0 + 5);
        let policy = RetentionPolicy { retention_ms: 50, ..KEEP };
        assert_eq!(deletable(&segments, &policy, &at(0, 40), NOW), []);
    }

    #[test]
    fn an_empty_active_segment_stays() {
        let empty = [SegmentSummary {
            base_offset: Offset(40),
            size: 0,
            largest_timestamp: Timestamp::NONE,
        }];
        let policy = RetentionPolicy { retention_ms: 0, retention_bytes: 0, ..KEEP };
        assert_eq!(deletable(&empty, &policy, &at(40, 40), NOW), []);
    }
}
