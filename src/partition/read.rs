//! The reading side: records for consumers and followers, offsets for timestamps,
//! ends of epochs.

use std::io;
use std::sync::Arc;

use super::replicas::FollowerFetch;
use super::role::{Role, State};
use super::waiters::{FetchWaiter, Isolation};
use super::{Partition, PartitionError};
use crate::log::producers::ProducerEntry;
use crate::log::{
    AbortedTransaction, LogSlice, OffsetFor, OffsetSpec, TimeSearch, TimestampAndOffset,
};
use crate::sys::cold::{Cold, IfCold};
use crate::types::{BrokerId, LeaderEpoch, Offset, ProducerId};

/// Who reads, and what that lets it see.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Which offset bounds what it sees.
    pub isolation: Isolation,
    /// Old consumers and followers are served by the leader only; newer
    /// consumers may read from followers (KIP-392).
    pub leader_only: bool,
    /// The broker whose replica fetches; `None` for consumers.
    pub follower: Option<BrokerId>,
}

/// Where a reader stands in one partition.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// First offset that it wants.
    pub fetch_offset: Offset,
    /// The leader epoch that it believes in; -1 for none.
    pub current_leader_epoch: LeaderEpoch,
    /// Epoch of the last record that it holds; -1 for none (KIP-595).
    pub last_fetched_epoch: LeaderEpoch,
    /// First offset that it holds, for followers.
    pub log_start: Offset,
}

/// How much may be read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes at most.
    pub max_bytes: usize,
    /// The first batch is given even if it is larger than that.
    pub at_least_one: bool,
    /// Whether the partition may be kept waiting for the disk.
    pub if_cold: IfCold,
}

/// The offsets of a partition at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First offset that can be read.
    pub log_start: Offset,
    /// End of what READ_COMMITTED may read.
    pub last_stable: Offset,
    /// End of what is committed.
    pub high_watermark: Offset,
    /// The next offset to be assigned.
    pub log_end: Offset,
    /// The leader's epoch.
    pub leader_epoch: LeaderEpoch,
}

/// What a read gives.
#[derive(Debug)]
pub struct Readable {
    /// The offsets just before the read.
    pub extent: Extent,
    /// Whole batches; `None` when there is nothing for this reader.
    pub slice: Option<LogSlice>,
    /// Transactions that a READ_COMMITTED reader must leave out; empty for
    /// others.
    pub aborted: Vec<AbortedTransaction>,
    /// The reader's log parts from this one: end of the newest epoch that both
    /// may share. Nothing was read then.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// What must be brought in before this can be read. Nothing was read then.
    pub cold: Option<Cold>,
    /// There is more than was read.
    pub undrained: bool,
}

/// Which offset is asked for, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct OffsetQuestion {
    /// The offset.
    pub spec: OffsetSpec,
    /// What the asker sees; `None` for a replica or a debugger, which sees everything.
    pub isolation: Option<Isolation>,
    /// The leader epoch that it believes in; -1 for none.
    pub current_leader_epoch: LeaderEpoch,
    /// No other replica may answer it.
    pub leader_only: bool,
}

/// Why no offset is told.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// As for other reads.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// A new leader does not yet know how far its predecessors committed.
    #[error("the high watermark has not reached this leader's epoch yet")]
    OffsetNotAvailable,
}

impl Extent {
    /// End of what a reader of that isolation may see.
    pub fn end_for(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::LogEnd => self.log_end,
            Isolation::HighWatermark => self.high_watermark,
            Isolation::LastStable => self.last_stable,
        }
    }
}

impl State {
    fn extent(&self) -> Extent {
        Extent {
            log_start: self.log.log_start_offset(),
            last_stable: self.last_stable(),
            high_watermark: self.high_watermark,
            log_end: self.log.log_end_offset(),
            leader_epoch: self.leader_epoch,
        }
    }

    fn check_readable(&self, epoch: LeaderEpoch, leader_only: bool) -> Result<(), PartitionError> {
        self.check_epoch(epoch)?;
        match self.role {
            Role::Leader(_) => Ok(()),
            Role::Follower if !leader_only => Ok(()),
            _ => Err(PartitionError::NotLeaderOrFollower),
        }
    }

    /// The end of what the asker sees, and whether a new leader does not know yet if
    /// that is all that its predecessors committed.
    fn end_for(&self, question: &OffsetQuestion) -> (Offset, bool) {
        let extent = self.extent();
        let lags = match &self.role {
            Role::Leader(replicas) => {
                question.isolation.is_some() && replicas.epoch_start() > extent.high_watermark
            }
            _ => false,
        };
        (extent.end_for(question.isolation.unwrap_or(Isolation::LogEnd)), lags)
    }

    /// A record that was found, if the asker sees it.
    fn if_visible(
        &self,
        question: &OffsetQuestion,
        found: Option<TimestampAndOffset>,
    ) -> Result<Option<TimestampAndOffset>, LookupError> {
        let (end, lags) = self.end_for(question);
        match found {
            Some(found) if found.offset < end => Ok(Some(found)),
            _ if lags => Err(LookupError::OffsetNotAvailable),
            _ => Ok(None),
        }
    }

    /// Where a follower's log parts from this one, if it does (KIP-595).
    fn divergence(
        &self,
        position: &Position,
        log_start: Offset,
    ) -> Result<Option<(LeaderEpoch, Offset)>, PartitionError> {
        if position.last_fetched_epoch == LeaderEpoch::NONE {
            return Ok(None);
        }
        let (epoch, end) = self
            .log
            .end_offset_for_epoch(position.last_fetched_epoch)
            .ok_or(PartitionError::OffsetOutOfRange)?;
        if position.fetch_offset < log_start {
            return Err(PartitionError::OffsetOutOfRange);
        }
        let parts = epoch < position.last_fetched_epoch || end < position.fetch_offset;
        Ok(parts.then_some((epoch, end)))
    }
}

impl Partition {
    /// The offsets now.
    pub fn extent(&self) -> Extent {
        self.state.lock().extent()
    }

    /// The producers whose sequences are remembered here, in order of their ids.
    pub fn producers(&self) -> Vec<(ProducerId, ProducerEntry)> {
        let state = self.state.lock();
        let entries = state.log.producers().iter().map(|(id, entry)| (id, *entry));
        let mut producers: Vec<_> = entries.collect();
        drop(state);
        producers.sort_unstable_by_key(|(id, _)| *id);
        producers
    }

    /// True while this broker leads.
    pub fn is_leader(&self) -> bool {
        self.state.lock().leader().is_ok()
    }

    /// Reads whole batches from a position on, as far as the reader may see.
    /// Only finds them: the bytes stay in their file.
    pub fn read(
        &self,
        reader: &Reader,
        position: &Position,
        limits: Limits,
    ) -> Result<Readable, PartitionError> {
        let state = self.state.lock();
        state.check_readable(position.current_leader_epoch, reader.leader_only)?;
        if let Some(broker) = reader.follower
            && !state.leader()?.is_follower(broker)
        {
            // Metadata has not told us of this replica yet; it shall try again.
            return Err(match position.current_leader_epoch {
                LeaderEpoch::NONE => PartitionError::NotLeaderOrFollower,
                _ => PartitionError::UnknownLeaderEpoch,
            });
        }
        let extent = state.extent();
        let nothing = Readable {
            extent,
            slice: None,
            aborted: Vec::new(),
            diverging: None,
            cold: None,
            undrained: false,
        };
        if let Some(diverging) = state.divergence(position, extent.log_start)? {
            return Ok(Readable { diverging: Some(diverging), ..nothing });
        }
        let from = position.fetch_offset;
        if from < extent.log_start || from > extent.log_end {
            return Err(PartitionError::OffsetOutOfRange);
        }
        let end = extent.end_for(reader.isolation);
        if from >= end {
            return Ok(nothing);
        }
        if limits.max_bytes == 0 && !limits.at_least_one {
            return Ok(Readable { undrained: true, ..nothing });
        }
        let Limits { max_bytes, at_least_one, if_cold } = limits;
        let slice = match state.log.try_read(from, end, max_bytes, at_least_one, if_cold)? {
            Ok(slice) => slice,
            Err(cold) => return Ok(Readable { cold: Some(cold), ..nothing }),
        };
        let aborted = match reader.isolation {
            Isolation::LastStable => {
                match state.log.aborted_transactions(from, slice.end_offset, if_cold)? {
                    Ok(aborted) => aborted,
                    Err(cold) => return Ok(Readable { cold: Some(cold), ..nothing }),
                }
            }
            _ => Vec::new(),
        };
        Ok(Readable { slice: Some(slice), aborted, undrained: true, ..nothing })
    }

    /// Notes that a follower fetched, which acknowledges all below its position.
    /// `log_end` is this leader's log end before the read that answers it.
    pub fn follower_fetched(&self, broker: BrokerId, position: &Position, log_end: Offset) {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        let stable = state.last_stable();
        let Role::Leader(replicas) = &mut state.role else { return };
        let before = replicas.follower(broker).and_then(|follower| follower.log_start);
        let moved = replicas.fetched(FollowerFetch {
            broker,
            fetch_offset: position.fetch_offset,
            log_start: position.log_start,
            leader_end: log_end,
            now,
        });
        if moved {
            state.advance(None, stable, now);
        }
        if before != Some(position.log_start) {
            state.low_watermark_moved();
        }
    }

    /// Lets a fetch know when the partition moves on from `seen`, which it read
    /// before; `None` when it never read. If it moved already, the fetch is told
    /// at once.
    pub fn watch(
        &self,
        waiter: &Arc<FetchWaiter>,
        slot: u32,
        isolation: Isolation,
        seen: Option<Extent>,
    ) {
        let mut state = self.state.lock();
        let now = state.extent();
        state.watchers.add(Arc::clone(waiter), slot, isolation);
        match seen {
            Some(seen) if seen == now && !matches!(state.role, Role::Gone) => {}
            Some(seen) if seen.leader_epoch == now.leader_epoch => {
                // How many bytes is no longer known; the fetch looks itself.
                let bytes = now.end_for(isolation) - seen.end_for(isolation);
                let bytes = if bytes > 0 { u64::MAX } else { 0 };
                waiter.touch(slot, bytes);
            }
            _ => waiter.interrupt(slot),
        }
    }

    /// Ends what [`Self::watch`] began.
    pub fn unwatch(&self, waiter: &Arc<FetchWaiter>, slot: u32) {
        self.state.lock().watchers.remove(waiter, slot);
    }

    /// The offset that a ListOffsets timestamp names, or what must be done before it
    /// is known: what is cold brought in, and then the same asked again; or a search,
    /// and [`Self::offset_found`]. Neither keeps the partition waiting.
    pub fn offset_for(
        &self,
        question: &OffsetQuestion,
        if_cold: IfCold,
    ) -> Result<OffsetFor, LookupError> {
        let state = self.state.lock();
        state.check_readable(question.current_leader_epoch, question.leader_only)?;
        if question.spec == OffsetSpec::Latest {
            let (end, lags) = state.end_for(question);
            return match lags {
                true => Err(LookupError::OffsetNotAvailable),
                false => {
                    Ok(OffsetFor::Known(Some(TimestampAndOffset::at(end, state.leader_epoch))))
                }
            };
        }
        match state.log.offset_for(question.spec, if_cold).map_err(PartitionError::from)? {
            OffsetFor::Known(found) if !question.spec.is_earliest() => {
                state.if_visible(question, found).map(OffsetFor::Known)
            }
            other => Ok(other),
        }
    }

    /// What the search found that [`Self::offset_for`] asked for. The outer `None`:
    /// it says nothing any more, and all is to be asked anew.
    pub fn offset_found(
        &self,
        question: &OffsetQuestion,
        search: &TimeSearch,
        found: io::Result<Option<TimestampAndOffset>>,
    ) -> Result<Option<Option<TimestampAndOffset>>, LookupError> {
        let state = self.state.lock();
        state.check_readable(question.current_leader_epoch, question.leader_only)?;
        state.log.check_online().map_err(PartitionError::from)?;
        if state.log.was_cut_since(search) {
            return Ok(None);
        }
        let explain = |error| PartitionError::from(state.log.search_failed(error));
        state.if_visible(question, found.map_err(explain)?).map(Some)
    }

    /// The newest epoch not above `epoch` that has records here, and where it
    /// ends (KIP-101, KIP-279); `None` when nothing is known of it.
    pub fn end_of_epoch(
        &self,
        current_leader_epoch: LeaderEpoch,
        epoch: LeaderEpoch,
    ) -> Result<Option<(LeaderEpoch, Offset)>, PartitionError> {
        let state = self.state.lock();
        state.check_readable(current_leader_epoch, true)?;
        Ok(state.log.end_offset_for_epoch(epoch))
    }
}
