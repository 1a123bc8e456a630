//! What a replica is to its partition at the moment, and the changes between.
//!
//! ```text
//!            become_leader              become_follower
//!   idle ───────────────► leader ◄──────────────────► follower
//!     └──────────────────────┬────────────────────────────┘
//!                         retire ──► gone
//! ```
//! Each change that takes leadership away lets all who wait go with an error, so
//! that clients look for the new leader at once.

use std::time::Duration;

use super::byte_marks::ByteMarks;
use super::replicas::{Assignment, Replicas};
use super::waiters::{Growth, OffsetWaiters, Watchers};
use super::{Partition, PartitionError};
use crate::log::{Log, LogError};
use crate::types::{BrokerId, LeaderEpoch, Offset};

/// What the metadata log says about this broker's part in the partition.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// The leader; `None` when the partition has none.
    pub leader: Option<BrokerId>,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
    /// Version of the registration; older ones are ignored.
    pub partition_epoch: i32,
    /// Replicas and ISR.
    pub assignment: Assignment,
    /// `replica.lag.time.max.ms`.
    pub max_lag: Duration,
}

/// All that a partition's lock guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) log: Log,
    pub(super) role: Role,
    pub(super) leader_epoch: LeaderEpoch,
    partition_epoch: i32,
    /// Kept here for followers; a leader's is in its `Replicas`.
    pub(super) high_watermark: Offset,
    pub(super) marks: ByteMarks,
    pub(super) watchers: Watchers,
    /// Producers that wait for the high watermark.
    pub(super) committed: OffsetWaiters,
    /// DeleteRecords that wait for the low watermark.
    pub(super) deleted: OffsetWaiters,
}

/// What this replica is.
#[derive(Debug)]
pub(super) enum Role {
    /// Opened, not told yet.
    Idle,
    /// Takes appends.
    Leader(Replicas),
    /// Fetches from the leader, or waits for one to be elected.
    Follower,
    /// Deleted or moved away; answers nothing any more.
    Gone,
}

impl State {
    pub(super) fn new(log: Log) -> Self {
        // As the checkpoint had it, so that a leader does not start from nothing.
        let high_watermark = log.marks().high_watermark();
        Self {
            log,
            role: Role::Idle,
            leader_epoch: LeaderEpoch::NONE,
            partition_epoch: -1,
            high_watermark,
            marks: ByteMarks::default(),
            watchers: Watchers::default(),
            committed: OffsetWaiters::default(),
            deleted: OffsetWaiters::default(),
        }
    }

    /// The leader's replicas, or why there are none here.
    pub(super) fn leader(&self) -> Result<&Replicas, PartitionError> {
        match &self.role {
            Role::Leader(replicas) => Ok(replicas),
            Role::Gone => Err(PartitionError::Gone),
            Role::Idle | Role::Follower => Err(PartitionError::NotLeaderOrFollower),
        }
    }

    /// Checks the leader epoch that a client believes in; -1 believes in none.
    pub(super) fn check_epoch(&self, claimed: LeaderEpoch) -> Result<(), PartitionError> {
        if matches!(self.role, Role::Gone) {
            Err(PartitionError::Gone)
        } else if claimed == LeaderEpoch::NONE || claimed == self.leader_epoch {
            Ok(())
        } else if claimed < self.leader_epoch {
            Err(PartitionError::FencedLeaderEpoch)
        } else {
            Err(PartitionError::UnknownLeaderEpoch)
        }
    }

    /// First offset that READ_COMMITTED must not see.
    pub(super) fn last_stable(&self) -> Offset {
        match self.log.producers().first_unstable_offset() {
            Some(unstable) => unstable.min(self.high_watermark),
            None => self.high_watermark,
        }
    }

    /// Moves the high watermark as far as it may and tells all who wait. Call
    /// after an append (`appended` bytes) or a follower's progress, with the
    /// last stable offset as it was before.
    pub(super) fn advance(
        &mut self,
        appended: Option<usize>,
        stable_before: Offset,
        now: Duration,
    ) {
        let end = self.log.log_end_offset();
        if let Some(bytes) = appended {
            self.marks.appended(end, bytes);
        }
        let Role::Leader(replicas) = &mut self.role else { return };
        let before = self.high_watermark;
        let min_in_sync = min_in_sync(&self.log);
        if let Some(high_watermark) = replicas.advance(end, min_in_sync, now) {
            self.high_watermark = high_watermark;
            self.log.high_watermark_advanced(high_watermark);
            self.committed.reached(high_watermark);
        }
        self.tell(appended, before, stable_before);
    }

    fn tell(&mut self, appended: Option<usize>, high_before: Offset, stable_before: Offset) {
        let stable = self.last_stable();
        let high = self.high_watermark;
        if !self.watchers.is_empty() {
            let between = |from, to| self.marks.up_to(to).saturating_sub(self.marks.up_to(from));
            let moved = high != high_before;
            let growth = Growth {
                log_end: appended.map(|bytes| bytes as u64).or_else(|| moved.then_some(0)),
                high_watermark: moved.then(|| between(high_before, high)),
                // A reader is told of the high watermark too, though it cannot
                // read up to there.
                last_stable: (moved || stable != stable_before)
                    .then(|| between(stable_before, stable)),
            };
            self.watchers.grew(growth);
        }
        self.marks.passed(stable);
    }

    /// Says that the log start moved: readers are told of it.
    pub(super) fn log_start_moved(&mut self) {
        self.watchers.grew(Growth {
            log_end: Some(0),
            high_watermark: Some(0),
            last_stable: Some(0),
        });
        self.low_watermark_moved();
    }

    /// Says that some replica's log start may have moved.
    pub(super) fn low_watermark_moved(&mut self) {
        let low = match &self.role {
            Role::Leader(replicas) => replicas.low_watermark(self.log.log_start_offset()),
            _ => return,
        };
        self.deleted.reached(low);
    }

    pub(super) fn let_all_go(&mut self) {
        self.watchers.interrupt();
        self.committed.fail();
        self.deleted.fail();
        self.marks.clear();
    }
}

/// `min.insync.replicas` of a log's topic.
pub(super) fn min_in_sync(log: &Log) -> usize {
    usize::try_from(log.config().min_insync_replicas).unwrap_or(1)
}

impl Partition {
    /// Takes over what the metadata log says, as leader or follower. Older news
    /// than those already known change nothing.
    ///
    /// # Errors
    /// The log cannot note the new epoch.
    pub fn lead_or_follow(&self, news: &Leadership) -> Result<(), LogError> {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        if news.partition_epoch < state.partition_epoch || matches!(state.role, Role::Gone) {
            return Ok(());
        }
        let leads = news.leader == Some(self.local);
        let new_epoch = news.leader_epoch > state.leader_epoch;
        match &mut state.role {
            Role::Leader(replicas) if leads && !new_epoch => replicas.assign(&news.assignment, now),
            _ if leads => state.start_leading(self.local, news, now)?,
            _ => state.follow(new_epoch),
        }
        state.leader_epoch = news.leader_epoch;
        state.partition_epoch = news.partition_epoch;
        let stable = state.last_stable();
        state.advance(None, stable, now);
        Ok(())
    }

    /// Ends the replica: whoever still holds it gets errors, and the log is no
    /// longer written.
    pub fn retire(&self) {
        let mut state = self.state.lock();
        state.role = Role::Gone;
        state.log.retire();
        state.let_all_go();
    }
}

impl State {
    fn start_leading(
        &mut self,
        local: BrokerId,
        news: &Leadership,
        now: Duration,
    ) -> Result<(), LogError> {
        let end = self.log.log_end_offset();
        // Noted even when nothing follows: a later leader must find where this
        // epoch began (KIP-101).
        self.log.assign_epoch(news.leader_epoch, end)?;
        let high = self.high_watermark;
        let replicas = Replicas::new(local, &news.assignment, end, high, news.max_lag, now);
        self.role = Role::Leader(replicas);
        self.let_all_go();
        Ok(())
    }

    fn follow(&mut self, new_epoch: bool) {
        let led = matches!(self.role, Role::Leader(_));
        self.role = Role::Follower;
        if led || new_epoch {
            self.let_all_go();
        }
    }
}
