//! What takes records out of a log: truncation at the end, deletion at the start.

use std::io;

use super::recovery::replay_segment;
use super::retention::{DeletionReason, LogPosition, RetentionPolicy, SegmentSummary, deletable};
use super::segment::Segment;
use super::{Log, LogError, LogKind};
use crate::sys::cold::{Cold, IfCold};
use crate::types::{Offset, Timestamp};

/// A segment that was renamed and waits to be removed: readers may still be at it.
#[derive(Debug)]
pub(super) struct Doomed {
    pub(super) segment: Segment,
    pub(super) due: Timestamp,
}

impl Log {
    /// Takes away all batches with an offset of `offset` or above; false when
    /// there is none.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<bool, LogError> {
        self.check_online()?;
        // What finds the place does so again below; when it cannot, nothing has changed.
        if let Some((segment, _)) = self.segments_from(offset).next() {
            segment.find(offset, IfCold::Wait).map_err(|error| self.explain(error))?;
        }
        let truncated = self.truncate_files(offset);
        self.publish_marks();
        truncated.map_err(|error| self.broken(error))
    }

    fn truncate_files(&mut self, offset: Offset) -> io::Result<bool> {
        if offset >= self.log_end {
            // A leader may have noted its epoch and never appended.
            self.epochs.truncate_from_end(self.log_end);
            return Ok(false);
        }
        if offset < self.first_base() {
            self.restart_files(offset)?;
            return Ok(true);
        }
        tracing::info!(dir = %self.folder.path.display(), %offset, log_end = %self.log_end, "truncating");
        self.rewind(offset)?;
        // From the end, so that a crash leaves no gap.
        while self.active.base() > offset {
            let Some((_, previous)) = self.closed.pop_last() else { break };
            let segment = std::mem::replace(&mut self.active, *previous);
            self.log_end = segment.base();
            self.doom(segment)?;
        }
        let now = self.clock.wall();
        self.active.truncate_to(offset, now)?;
        self.log_end = offset;
        self.log_start = self.log_start.min(offset);
        self.epochs.truncate_from_end(offset);
        self.rebuild_producers(offset)?;
        Ok(true)
    }

    /// Throws everything away and goes on at `offset`: what a follower does whose
    /// leader begins later, and the metadata log after a snapshot.
    pub fn truncate_fully_and_start_at(&mut self, offset: Offset) -> Result<(), LogError> {
        self.check_online()?;
        let restarted = self.restart_files(offset);
        self.publish_marks();
        restarted.map_err(|error| self.broken(error))
    }

    fn restart_files(&mut self, offset: Offset) -> io::Result<()> {
        self.rewind(offset.min(self.recovery_point))?;
        while let Some((_, previous)) = self.closed.pop_last() {
            let segment = std::mem::replace(&mut self.active, *previous);
            self.log_end = segment.base();
            self.doom(segment)?;
        }
        self.active.mark_deleted()?;
        let new = Segment::create(&self.folder, offset, self.clock.wall())?;
        let old = std::mem::replace(&mut self.active, new);
        self.doomed.push(Doomed { segment: old, due: self.deletion_time() });
        self.log_start = offset;
        self.log_end = offset;
        self.recovery_point = offset;
        self.epochs.clear();
        self.epochs.write()?;
        self.producers.restart(offset)
    }

    /// Before anything at `offset` or later changes: no sync under way counts any
    /// more, and the checkpoint must not claim what will be written anew.
    fn rewind(&mut self, offset: Offset) -> io::Result<()> {
        self.rewinds += 1;
        self.marks.cut_at(offset);
        self.settled = false;
        if offset < self.recovery_point {
            self.recovery_point = offset;
            self.publish_marks();
            if let Some(rewound) = &self.rewound {
                rewound.recovery_point_rewound()?;
            }
        }
        Ok(())
    }

    /// Moves the log start: records before `offset` cannot be read any more.
    /// Segments wholly before it go with the next retention run. The caller has
    /// seen that `offset` is not above the high watermark.
    pub fn delete_records_before(&mut self, offset: Offset) -> Result<(), LogError> {
        self.check_online()?;
        self.move_log_start(offset.min(self.log_end));
        Ok(())
    }

    fn move_log_start(&mut self, offset: Offset) {
        if offset > self.log_start {
            self.log_start = offset;
            self.epochs.truncate_from_start(offset);
            self.recovery_point = self.recovery_point.max(offset);
            self.producers.log_start_moved(offset);
            self.publish_marks();
        }
    }

    /// Lets the segments go that settings allow to go; how many.
    pub fn run_retention(&mut self, high_watermark: Offset) -> Result<usize, LogError> {
        // Nothing is cold for those who wait.
        Ok(self.try_retention(high_watermark, IfCold::Wait)?.unwrap_or(0))
    }

    /// The same where it is asked not to wait for the disk. The inner error says what
    /// is not in memory; nothing went then.
    pub fn try_retention(
        &mut self,
        high_watermark: Offset,
        if_cold: IfCold,
    ) -> Result<Result<usize, Cold>, LogError> {
        self.check_online()?;
        let gone = self.find_deletable(high_watermark, if_cold).and_then(|reasons| {
            if reasons.is_empty() { Ok(0) } else { self.delete_first(&reasons) }
        });
        self.publish_marks();
        self.unless_cold(gone)
    }

    fn find_deletable(
        &self,
        high_watermark: Offset,
        if_cold: IfCold,
    ) -> io::Result<Vec<DeletionReason>> {
        let policy = RetentionPolicy {
            // The metadata log goes by its snapshots only.
            delete: self.kind == LogKind::Partition && self.config.cleanup_policy.delete,
            retention_ms: self.config.retention_ms,
            retention_bytes: self.config.retention_bytes,
        };
        let by_age = policy.delete && policy.retention_ms >= 0;
        let position =
            LogPosition { log_start: self.log_start, log_end: self.log_end, high_watermark };
        let mut summaries = Vec::new();
        for segment in self.segments() {
            // Only asked for where it matters: it may have to be read.
            let closed = segment.base() != self.active.base();
            let largest = if by_age && (closed || segment.size() > 0) {
                segment.largest_or_modified(if_cold)?
            } else {
                Timestamp(i64::MAX)
            };
            summaries.push(SegmentSummary {
                base_offset: segment.base(),
                size: segment.size(),
                largest_timestamp: largest,
            });
        }
        Ok(deletable(&summaries, &policy, &position, self.clock.wall()))
    }

    fn delete_first(&mut self, reasons: &[DeletionReason]) -> io::Result<usize> {
        if reasons.len() > self.closed.len() {
            self.roll_to(self.log_end)?;
        }
        let mut gone = 0;
        for reason in reasons {
            let Some((base, segment)) = self.closed.pop_first() else { break };
            let next = self.first_base();
            tracing::info!(dir = %self.folder.path.display(), %base, size = segment.size(), ?reason, "deleting segment");
            self.move_log_start(next.max(self.log_start));
            self.doom(*segment)?;
            gone += 1;
        }
        self.epochs.write()?;
        Ok(gone)
    }

    /// Renames a segment that is no longer part of the log; it is removed later.
    fn doom(&mut self, mut segment: Segment) -> io::Result<()> {
        segment.mark_deleted()?;
        self.producers.forget_snapshot(segment.base())?;
        self.doomed.push(Doomed { segment, due: self.deletion_time() });
        Ok(())
    }

    pub(super) fn deletion_time(&self) -> Timestamp {
        Timestamp(self.clock.wall().0.saturating_add(self.config.file_delete_delay_ms))
    }

    /// Removes the files of segments that were given up `file.delete.delay.ms` ago.
    pub fn remove_doomed(&mut self) -> Result<(), LogError> {
        let now = self.clock.wall();
        if self.retired || self.doomed.iter().all(|doomed| doomed.due > now) {
            return Ok(());
        }
        let (due, waiting) = std::mem::take(&mut self.doomed)
            .into_iter()
            .partition::<Vec<_>, _>(|doomed| doomed.due <= now);
        self.doomed = waiting;
        let mut due = due.into_iter();
        let mut removed = Ok(());
        while let Some(mut doomed) = due.next() {
            removed = doomed.segment.remove();
            if removed.is_err() {
                self.doomed.push(doomed);
                self.doomed.extend(due);
                break;
            }
        }
        self.publish_marks();
        removed.map_err(|error| self.explain(error))
    }

    /// Brings the producers back to what they were at `end`.
    fn rebuild_producers(&mut self, end: Offset) -> io::Result<()> {
        if !self.producers.is_tracked() {
            return Ok(());
        }
        // Without producers before there were none earlier that matter now.
        let none = self.producers.get().is_empty() && self.producers.end() >= end;
        self.producers.reload(self.log_start, end, self.clock.wall())?;
        if !none && self.producers.end() < end {
            let from = self.producers.end();
            let first = self.closed.range(..=from).next_back().map_or(from, |(base, _)| *base);
            let closed = self.closed.range(first..).map(|(_, segment)| &**segment);
            for segment in closed.chain([&self.active]) {
                replay_segment(segment, &mut self.producers, end)?;
            }
        }
        self.producers.move_end(end);
        self.producers.take_snapshot()
    }
}
