//! Which of a broker's logs is compacted next, and what is said of it.

use std::io;

use super::LogMarks;
use super::compaction::cleaner::{CleanerLimits, CleaningError, CleaningReport, Pace, clean};
use super::compaction::job::CleaningJob;
use super::compaction::plan::{Candidate, SegmentSizes};
use super::segment::Segment;
use super::store::LogStore;
use crate::types::TopicPartition;

impl LogStore {
    /// Compacts the log with the largest dirty part; false when none is dirty
    /// enough. May take long; no log's lock is held but to look and to swap.
    pub fn clean_dirtiest(&self, limits: &CleanerLimits, pace: &mut dyn Pace) -> bool {
        let Some((name, candidate)) = self.dirtiest() else { return false };
        let mut job = None;
        self.with_log(&name, |log| job = Some(log.begin_cleaning(candidate)));
        let Some(job) = job else { return false };
        tracing::info!("Cleaner 0: Beginning cleaning of log {name}");
        let mut swap = |compacted: Vec<Segment>, originals: &[SegmentSizes]| {
            let mut swapped = None;
            let mut compacted = Some(compacted);
            self.with_log(&name, |log| {
                if self.future_of(&name).is_some() {
                    // It is being copied, and the copy shall be as compacted as it.
                    return;
                }
                let compacted = compacted.take().unwrap_or_default();
                swapped = Some(log.replace_segments(&job, compacted, originals));
            });
            // Nobody has the log any more, or it is being moved.
            for mut segment in compacted.into_iter().flatten() {
                let _ = segment.remove();
            }
            swapped.unwrap_or(Ok(false))
        };
        let done = clean(&job, limits, &*self.options.clock, pace, &mut swap);
        match done {
            Ok(report) => self.cleaned(&name, &job, &report),
            Err(error) => return self.not_cleaned(&name, &job, error),
        }
        true
    }

    fn dirtiest(&self) -> Option<(TopicPartition, Candidate)> {
        let mut dirtiest: Option<(TopicPartition, Candidate)> = None;
        self.for_each(LogMarks::may_need_cleaning, |name, log| {
            if self.future_of(name).is_some() {
                return;
            }
            let candidate = match log.cleaning_candidate() {
                Ok(candidate) => candidate,
                Err(error) => {
                    tracing::error!(partition = %name, %error, "it cannot be told how dirty the log is");
                    None
                }
            };
            let ratio = log.config().min_cleanable_dirty_ratio;
            let Some(candidate) = candidate.filter(|candidate| candidate.is_due(ratio)) else {
                return;
            };
            if dirtiest.as_ref().is_none_or(|(_, best)| candidate.ratio() > best.ratio()) {
                dirtiest = Some((name.clone(), candidate));
            }
        });
        dirtiest
    }

    fn cleaned(&self, name: &TopicPartition, job: &CleaningJob, report: &CleaningReport) {
        let mut is_there = false;
        self.with_log(name, |log| {
            is_there = job.is_of(log);
            if is_there {
                log.marks().set_cleaned_to(report.end);
            }
        });
        if is_there && let Some(directory) = self.directory(name) {
            // A failure takes the directory offline; its listener tells.
            let _ = directory.attempt(|| directory.write_cleaned());
        }
        let from = job.candidate().first_dirty;
        tracing::info!(
            "Log cleaner thread 0 cleaned log {name} (dirty section = [{from}, {}]): {} bytes and {} records of {} and {}, in {} ms ({} ms for the offset map of {} bytes, {:.1}% of it used)",
            report.end,
            report.written_bytes,
            report.records.kept,
            report.read_bytes,
            report.records.read,
            report.took.as_millis(),
            report.mapping.as_millis(),
            report.mapped_bytes,
            report.utilization * 100.0
        );
        if report.records.keyless > 0 {
            tracing::warn!(
                "Found {} records without key while compacting {name}",
                report.records.keyless
            );
        }
    }

    /// True when other logs may be tried.
    fn not_cleaned(&self, name: &TopicPartition, job: &CleaningJob, error: CleaningError) -> bool {
        let mut is_there = false;
        self.with_log(name, |log| {
            is_there = job.is_of(log);
            match &error {
                // Files of a log that was deleted or cut may be missing or shorter.
                _ if !is_there => {}
                CleaningError::Storage(source) if source.kind() != io::ErrorKind::NotFound => {
                    let source = source
                        .raw_os_error()
                        .map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
                    log.health().explain(log.dir(), source);
                }
                CleaningError::Damaged(_) => log.marks().set_uncleanable(),
                _ => {}
            }
        });
        match error {
            CleaningError::Damaged(reason) if is_there => {
                tracing::error!(
                    "Log {name} is not compacted any more until the next start: {reason}"
                );
                true
            }
            error => {
                tracing::info!("The cleaning of log {name} was aborted: {error}");
                false
            }
        }
    }
}
