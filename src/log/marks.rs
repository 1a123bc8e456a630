//! The numbers of a log that others look at without its lock: checkpoints,
//! descriptions, and whether background work is due.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::news::News;
use crate::types::Offset;

/// See the module. Each number is right by itself; two of them need not be of
/// the same moment.
#[derive(Debug)]
pub struct LogMarks {
    recovery_point: AtomicI64,
    log_start: AtomicI64,
    log_end: AtomicI64,
    high_watermark: AtomicI64,
    first_base: AtomicI64,
    active_base: AtomicI64,
    size: AtomicU64,
    /// Files were given up that are still there.
    removals: AtomicBool,
    flush_ms: AtomicI64,
    /// Its topic's id is not durable.
    new: AtomicBool,
    /// -1 when it was never cleaned.
    cleaned_to: AtomicI64,
    compacted: AtomicBool,
    uncleanable: AtomicBool,
    /// Of the directory that the log is in, where it is in one.
    news: OnceLock<Arc<News>>,
}

impl Default for LogMarks {
    fn default() -> Self {
        Self {
            recovery_point: AtomicI64::new(0),
            log_start: AtomicI64::new(0),
            log_end: AtomicI64::new(0),
            high_watermark: AtomicI64::new(0),
            first_base: AtomicI64::new(0),
            active_base: AtomicI64::new(0),
            size: AtomicU64::new(0),
            removals: AtomicBool::new(false),
            flush_ms: AtomicI64::new(i64::MAX),
            new: AtomicBool::new(false),
            cleaned_to: AtomicI64::new(-1),
            compacted: AtomicBool::new(false),
            uncleanable: AtomicBool::new(false),
            news: OnceLock::new(),
        }
    }
}

impl LogMarks {
    /// Says to `news` from now on when a number changes.
    pub(super) fn tell(&self, news: &Arc<News>) {
        self.news.get_or_init(|| news.clone()).came();
    }

    fn changed(&self) {
        if let Some(news) = self.news.get() {
            news.came();
        }
    }

    /// Only the log sets its numbers, under its lock.
    fn set(&self, number: &AtomicI64, value: i64) {
        if number.load(Ordering::Relaxed) != value {
            number.store(value, Ordering::Release);
            self.changed();
        }
    }

    /// Everything before is synced.
    pub fn recovery_point(&self) -> Offset {
        Offset(self.recovery_point.load(Ordering::Acquire))
    }

    /// First offset that may be read.
    pub fn log_start(&self) -> Offset {
        Offset(self.log_start.load(Ordering::Acquire))
    }

    /// Next offset to be written.
    pub fn log_end(&self) -> Offset {
        Offset(self.log_end.load(Ordering::Acquire))
    }

    /// Everything before is committed, as the owner last said or the checkpoint
    /// did.
    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::Acquire))
    }

    /// Base of the first segment.
    pub fn first_base(&self) -> Offset {
        Offset(self.first_base.load(Ordering::Acquire))
    }

    /// Base of the active segment: before it nothing is appended any more.
    pub fn active_base(&self) -> Offset {
        Offset(self.active_base.load(Ordering::Acquire))
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// False when a look at the log would find no sync due: most of the time.
    pub(super) fn may_need_flush(&self) -> bool {
        let recovery_point = self.recovery_point();
        let flush_ms = self.flush_ms.load(Ordering::Acquire);
        let may_be_asked = flush_ms < i64::MAX || self.new.load(Ordering::Acquire);
        self.active_base() > recovery_point || (may_be_asked && self.log_end() > recovery_point)
    }

    /// Everything before was compacted, as far as is known.
    pub fn cleaned_to(&self) -> Option<Offset> {
        let offset = self.cleaned_to.load(Ordering::Acquire);
        (offset >= 0).then_some(Offset(offset))
    }

    pub(super) fn set_cleaned_to(&self, offset: Offset) {
        self.cleaned_to.store(offset.0, Ordering::Release);
    }

    /// Records from `offset` on are not what they were.
    pub(super) fn cut_at(&self, offset: Offset) {
        self.cleaned_to.fetch_min(offset.0, Ordering::AcqRel);
    }

    /// False when a look at the log would find nothing to compact: for logs of
    /// other policies, and those that cannot be read.
    pub(super) fn may_need_cleaning(&self) -> bool {
        self.compacted.load(Ordering::Acquire)
            && !self.uncleanable.load(Ordering::Acquire)
            && self.cleaned_to().is_none_or(|offset| offset < self.active_base())
    }

    pub(super) fn set_compacted(&self, compacted: bool) {
        self.compacted.store(compacted, Ordering::Release);
    }

    pub(super) fn set_uncleanable(&self) {
        self.uncleanable.store(true, Ordering::Release);
    }

    pub(super) fn set_flush_ms(&self, flush_ms: i64) {
        self.set(&self.flush_ms, flush_ms);
    }

    pub(super) fn set_new(&self, new: bool) {
        if self.new.swap(new, Ordering::AcqRel) != new {
            self.changed();
        }
    }

    /// True when files were given up that are still there.
    pub(super) fn has_removals(&self) -> bool {
        self.removals.load(Ordering::Acquire)
    }

    pub(super) fn set_recovery_point(&self, offset: Offset) {
        self.set(&self.recovery_point, offset.0);
    }

    pub(super) fn set_high_watermark(&self, offset: Offset) {
        self.set(&self.high_watermark, offset.0);
    }

    pub(super) fn set_removals(&self, waiting: bool) {
        if self.removals.swap(waiting, Ordering::AcqRel) != waiting {
            self.changed();
        }
    }

    pub(super) fn set_extent(&self, log_start: Offset, log_end: Offset) {
        self.set(&self.log_start, log_start.0);
        self.set(&self.log_end, log_end.0);
    }

    pub(super) fn set_segments(&self, first: Offset, active: Offset, size: u64) {
        self.set(&self.first_base, first.0);
        self.set(&self.active_base, active.0);
        self.size.store(size, Ordering::Release);
    }

    pub(super) fn appended(&self, log_end: Offset, bytes: u64) {
        self.log_end.store(log_end.0, Ordering::Release);
        self.size.fetch_add(bytes, Ordering::AcqRel);
        if self.flush_ms.load(Ordering::Relaxed) < i64::MAX || self.new.load(Ordering::Relaxed) {
            self.changed();
        }
    }
}
