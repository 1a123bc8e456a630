//! Appending: numbering what a leader accepted, or taking what a leader numbered.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::append_plan::{AppendOrigin, AppendPlan, GivenBatches, PlannedBatch, ValidateError};
use super::producers::{CachedBatch, Prepared, ProducerContext, ProducerError, ProducersUpdate};
use super::segment::{Appended, Segment};
use super::validate::{AppendRules, check_given, validate};
use super::{Log, LogError};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// Where records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    /// Offset of the first record.
    pub first_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// The leader's clock where the topic uses it, else none; for a duplicate
    /// the timestamp that it was stored with.
    pub log_append_time: Timestamp,
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The batch had been appended before: these are its offsets, nothing was
    /// written.
    pub duplicate: bool,
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The records are not acceptable.
    #[error(transparent)]
    Invalid(#[from] ValidateError),
    /// Epoch, sequence or transaction of the producer do not fit.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// All batches together do not fit a segment.
    #[error("{size} bytes of batches are over the segment size of {limit}")]
    TooLargeForSegment {
        /// Bytes of the batches.
        size: usize,
        /// `segment.bytes`
        limit: u64,
    },
    /// Batches that carry offsets begin before the log's end.
    #[error("batches begin at offset {first}, the log ends at {log_end}")]
    UnexpectedOffset {
        /// First offset of the batches.
        first: Offset,
        /// Last offset of the batches.
        last: Offset,
        /// Offset that comes next.
        log_end: Offset,
    },
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What is about to be written, whoever numbered it.
struct Outline {
    len: usize,
    first_offset: Offset,
    last_offset: Offset,
    max_timestamp: Timestamp,
}

impl Log {
    /// Checks, numbers and appends what a producer or coordinator sent. What the
    /// leader of the metadata log appends is numbered already.
    pub fn append_as_leader(
        &mut self,
        records: Bytes,
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
        rules: &AppendRules,
    ) -> Result<AppendInfo, AppendError> {
        if origin == AppendOrigin::RaftLeader {
            let limit = Some(rules.max_message_bytes);
            return self.append_given(&records, origin, leader_epoch, limit);
        }
        let plan = validate(&records, origin, rules, self.clock.wall())?;
        let info = self.append_plan(plan, leader_epoch, &ProducerContext::of(origin))?;
        self.flush_if_asked()?;
        Ok(info)
    }

    /// Appends what [`validate`] has accepted: checking needs no lock, and may be
    /// done before it is taken. Nor does the sync that `flush.messages` may ask for
    /// afterwards: see [`Self::begin_asked_flush`].
    pub fn append_plan(
        &mut self,
        mut plan: AppendPlan,
        leader_epoch: LeaderEpoch,
        context: &ProducerContext,
    ) -> Result<AppendInfo, AppendError> {
        self.check_online()?;
        if plan.batches.is_empty() {
            return Ok(self.appended_nothing());
        }
        plan.stamp(self.log_end, leader_epoch);
        let outline = Outline {
            len: plan.total_len(),
            first_offset: self.log_end,
            last_offset: self.log_end + (plan.offset_count - 1),
            max_timestamp: plan.max_timestamp,
        };
        self.check_fits(&outline)?;
        let facts = plan.batches.iter().map(PlannedBatch::facts);
        let update = match self.producers.prepare(facts, context)? {
            Prepared::Duplicate(batch) => return Ok(self.appended_before(&batch)),
            Prepared::Update(update) => update,
        };
        self.make_room(&outline)
            .and_then(|()| self.write_plan(&plan))
            .map_err(|error| self.explain(error))?;
        self.appended(update, &outline).map_err(|error| self.broken(error))?;
        Ok(AppendInfo {
            first_offset: outline.first_offset,
            last_offset: outline.last_offset,
            log_append_time: plan.log_append_time.unwrap_or(Timestamp::NONE),
            log_start_offset: self.log_start,
            duplicate: false,
        })
    }

    /// Appends batches that a follower fetched from its leader. Those of a later
    /// epoch than `leader_epoch`, the one it follows in, are left out.
    pub fn append_as_follower(
        &mut self,
        records: Bytes,
        leader_epoch: LeaderEpoch,
    ) -> Result<AppendInfo, AppendError> {
        self.append_given(&records, AppendOrigin::Replication, leader_epoch, None)
    }

    fn append_given(
        &mut self,
        records: &Bytes,
        origin: AppendOrigin,
        leader_epoch: LeaderEpoch,
        max_message_bytes: Option<usize>,
    ) -> Result<AppendInfo, AppendError> {
        self.check_online()?;
        let given = check_given(records, origin, leader_epoch, max_message_bytes)?;
        let Some(given) = given else { return Ok(self.appended_nothing()) };
        let (first, last) = (given.first_offset(), given.last_offset());
        if first < self.log_end {
            return Err(AppendError::UnexpectedOffset { first, last, log_end: self.log_end });
        }
        let outline = Outline {
            len: given.bytes.len(),
            first_offset: first,
            last_offset: last,
            max_timestamp: given.max_timestamp,
        };
        self.check_fits(&outline)?;
        let update = match self.producers.prepare(&given.facts, &ProducerContext::of(origin))? {
            Prepared::Duplicate(batch) => return Ok(self.appended_before(&batch)),
            Prepared::Update(update) => update,
        };
        self.write_given(&given, &outline).map_err(|error| self.explain(error))?;
        self.appended(update, &outline).map_err(|error| self.broken(error))?;
        self.flush_if_asked()?;
        Ok(AppendInfo {
            first_offset: first,
            last_offset: last,
            log_append_time: Timestamp::NONE,
            log_start_offset: self.log_start,
            duplicate: false,
        })
    }

    fn appended_nothing(&self) -> AppendInfo {
        AppendInfo {
            first_offset: Offset::NONE,
            last_offset: Offset::NONE,
            log_append_time: Timestamp::NONE,
            log_start_offset: self.log_start,
            duplicate: false,
        }
    }

    fn appended_before(&self, batch: &CachedBatch) -> AppendInfo {
        AppendInfo {
            first_offset: batch.first_offset(),
            last_offset: batch.last_offset,
            log_append_time: batch.timestamp,
            log_start_offset: self.log_start,
            duplicate: true,
        }
    }

    fn check_fits(&self, outline: &Outline) -> Result<(), AppendError> {
        let limit = self.config.segment_bytes;
        if outline.len as u64 > limit {
            return Err(AppendError::TooLargeForSegment { size: outline.len, limit });
        }
        Ok(())
    }

    fn write_plan(&mut self, plan: &AppendPlan) -> io::Result<()> {
        for batch in &plan.batches {
            self.epochs.assign(batch.header().leader_epoch, batch.header().base_offset)?;
        }
        let rules = self.index_rules();
        let batches = plan.batches.iter().map(|batch| Appended::from(batch.header()));
        if let [batch] = plan.batches.as_slice() {
            let mut pieces = [IoSlice::new(batch.front()), IoSlice::new(batch.rest())];
            return self.active.append(&mut pieces, batches, &rules);
        }
        let mut pieces = plan.pieces().map(IoSlice::new).collect::<Vec<_>>();
        self.active.append(&mut pieces, batches, &rules)
    }

    fn write_given(&mut self, given: &GivenBatches, outline: &Outline) -> io::Result<()> {
        self.make_room(outline)?;
        for facts in &given.facts {
            if facts.header.magic >= super::batch::MAGIC_V2 {
                self.epochs.assign(facts.header.leader_epoch, facts.header.base_offset)?;
            } else {
                // What has no epochs must not be compared by epochs.
                self.epochs.clear();
            }
        }
        let rules = self.index_rules();
        let batches = given.facts.iter().map(|facts| Appended::from(&facts.header));
        self.active.append(&mut [IoSlice::new(&given.bytes)], batches, &rules)
    }

    /// Brings everything beside the segment up to batches that are in the file.
    fn appended(&mut self, update: ProducersUpdate, outline: &Outline) -> io::Result<()> {
        self.settled = false;
        self.log_end = outline.last_offset + 1;
        self.marks.appended(self.log_end, outline.len as u64);
        self.producers.apply(update, self.log_end, self.active.aborted_mut())?;
        Ok(())
    }

    /// The batches are in the file, or cut from it, but not everything beside it says
    /// so: nothing may be appended or read until the log is recovered, whatever the
    /// reason was.
    pub(super) fn broken(&self, error: io::Error) -> LogError {
        self.health.fail(&self.folder.path, &error);
        self.explain(error)
    }

    // ── rolling ─────────────────────────────────────────────────────────────

    /// Starts a new segment when the active one is full or old enough.
    fn make_room(&mut self, outline: &Outline) -> io::Result<()> {
        self.note_topic_id()?;
        let rules = self.index_rules();
        let limit = self.config.segment_bytes;
        let full = self.active.is_full(&rules, limit, outline.len as u64, outline.last_offset);
        if full || self.is_old(outline)? {
            self.roll_to(outline.first_offset)?;
        }
        Ok(())
    }

    fn is_old(&self, outline: &Outline) -> io::Result<bool> {
        if self.active.size() == 0 {
            return Ok(false);
        }
        let age = self.active.age(self.clock.wall(), outline.max_timestamp)?;
        Ok(age > self.config.roll_ms().saturating_sub(self.roll_jitter))
    }

    pub(super) fn roll_to(&mut self, expected_next: Offset) -> io::Result<()> {
        let base = expected_next.max(self.log_end);
        let now = self.clock.wall();
        if base == self.active.base() && self.active.size() == 0 {
            // Nothing to close; it only becomes new again.
            self.active = Segment::create(&self.folder, base, now)?;
            return Ok(());
        }
        self.active.seal()?;
        let new = Segment::create(&self.folder, base, now)?;
        let old = std::mem::replace(&mut self.active, new);
        tracing::debug!(dir = %self.folder.path.display(), %base, "rolled a new segment");
        self.closed.insert(old.base(), Box::new(old));
        self.settled = false;
        self.roll_jitter = jitter(self.config.segment_jitter_ms, base, now);
        self.producers.move_end(base);
        self.producers.take_snapshot()?;
        self.publish_marks();
        Ok(())
    }
}

/// How much sooner the next segment rolls: anything up to `most`, so that
/// partitions that were created together do not roll together.
fn jitter(most: i64, base: Offset, now: Timestamp) -> i64 {
    let mixed = base
        .0
        .wrapping_mul(31)
        .wrapping_add(now.0)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
    if most <= 0 { 0 } else { (mixed >> 1).rem_euclid(most) }
}
