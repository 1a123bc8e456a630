//! The leader's writing side: append, wait until committed, delete records.

use bytes::Bytes;

use super::role::{State, min_in_sync};
use super::{Partition, PartitionError};
use crate::log::validate::validate;
use crate::log::{AppendInfo, AppendRules, ProducerContext};
use crate::types::Offset;

/// Where records went.
#[derive(Debug)]
pub struct Appended {
    /// What the log says.
    pub info: AppendInfo,
    /// The high watermark that acks=all waits for: all records are below it.
    pub required: Offset,
    /// True when it is there already.
    pub committed: bool,
}

/// Why an append is not known to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Leadership went elsewhere or the partition was deleted meanwhile.
    #[error("leadership was lost before the records were committed")]
    NotLeaderOrFollower,
    /// It is replicated, but not to as many as `min.insync.replicas` asks for.
    #[error("too few replicas are in sync after the append")]
    NotEnoughReplicas,
}

impl State {
    fn check_may_append(&self, all_acks: bool) -> Result<(), PartitionError> {
        let replicas = self.leader()?;
        let in_sync = replicas.in_sync();
        let min_in_sync = replicas.effective_min_in_sync(min_in_sync(&self.log));
        if all_acks && in_sync < min_in_sync {
            return Err(PartitionError::NotEnoughReplicas { in_sync, min_in_sync });
        }
        Ok(())
    }
}

impl Partition {
    /// Appends one batch as leader. With `all_acks`, enough replicas must be in
    /// sync before anything is written.
    ///
    /// The batch is checked before the lock is taken: that is most of the work.
    pub fn append(
        &self,
        records: &Bytes,
        context: &ProducerContext,
        all_acks: bool,
    ) -> Result<Appended, PartitionError> {
        self.state.lock().check_may_append(all_acks)?;
        let rules = AppendRules::of(&self.config.load());
        let plan = validate(records, context.origin, &rules, self.clock.wall())
            .map_err(|error| PartitionError::Append(error.into()))?;
        let bytes = plan.total_len();
        let mut state = self.state.lock();
        state.check_may_append(all_acks)?;
        let epoch = state.leader_epoch;
        let info = state.log.append_plan(plan, epoch, context)?;
        let required = info.last_offset + 1;
        if let Some(flush) = state.log.begin_asked_flush()? {
            // Others go on while the disk works, and nobody is told of the records.
            drop(state);
            let synced = flush.run();
            state = self.state.lock();
            state.leader()?;
            if state.leader_epoch != epoch {
                return Err(PartitionError::NotLeaderOrFollower);
            }
            // Another's sync of the same file may have been told of the failure.
            state.log.check_online()?;
            if flush.is_of(&state.log) {
                state.log.finish_asked_flush(&flush, synced)?;
            }
        }
        if !info.duplicate {
            let stable = state.last_stable();
            state.advance(Some(bytes), stable, self.clock.monotonic());
        }
        Ok(Appended { info, required, committed: state.high_watermark >= required })
    }

    /// Waits until the high watermark reaches `offset`.
    pub async fn committed(&self, offset: Offset) -> Result<(), CommitError> {
        let wait = {
            let mut state = self.state.lock();
            if state.leader().is_err() {
                return Err(CommitError::NotLeaderOrFollower);
            }
            (state.high_watermark < offset).then(|| state.committed.add(offset))
        };
        if let Some(wait) = wait {
            wait.await.map_err(|_| CommitError::NotLeaderOrFollower)?;
        }
        let state = self.state.lock();
        let replicas = state.leader().map_err(|_| CommitError::NotLeaderOrFollower)?;
        if replicas.in_sync() < replicas.effective_min_in_sync(min_in_sync(&state.log)) {
            return Err(CommitError::NotEnoughReplicas);
        }
        Ok(())
    }

    /// Deletes records below `offset`, or below the high watermark for `None`
    /// (KIP-107). The offset that the log start must reach on all replicas.
    pub fn delete_records(&self, offset: Option<Offset>) -> Result<Offset, PartitionError> {
        let mut state = self.state.lock();
        state.leader()?;
        if !state.log.config().cleanup_policy.delete {
            return Err(PartitionError::PolicyViolation);
        }
        let offset = offset.unwrap_or(state.high_watermark);
        if offset < Offset::ZERO || offset > state.high_watermark {
            return Err(PartitionError::OffsetOutOfRange);
        }
        if offset > state.log.log_start_offset() {
            state.log.delete_records_before(offset)?;
            state.log_start_moved();
        }
        Ok(offset)
    }

    /// Waits until no replica holds records below `offset`; the low watermark
    /// then.
    pub async fn deleted(&self, offset: Offset) -> Result<Offset, PartitionError> {
        let wait = {
            let mut state = self.state.lock();
            let low = state.leader()?.low_watermark(state.log.log_start_offset());
            if low >= offset {
                return Ok(low);
            }
            state.deleted.add(offset)
        };
        wait.await.map_err(|_| PartitionError::NotLeaderOrFollower)?;
        let state = self.state.lock();
        Ok(state.leader()?.low_watermark(state.log.log_start_offset()))
    }
}
