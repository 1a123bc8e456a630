//! The journal of a shard: records go to the partition that it leads, and are
//! committed where the partition's high watermark says so.

use std::sync::Arc;

use tokio::sync::watch;

use super::group::GroupMachine;
use super::group::records::GroupRecord;
use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::log::compression::CompressionError;
use crate::log::{AppendError, AppendOrigin, ProducerContext};
use crate::partition::{Partition, PartitionError};
use crate::protocol::EncodeError;
use crate::replicated::{Appended, Journal, Observer, RECORDS_PER_BATCH, Refusal};
use crate::sys::clock::Clock;
use crate::types::Offset;

/// Bytes of one batch, about, where its records need not stand or fall together:
/// well below what a partition takes at once.
const BYTES_PER_BATCH: usize = 256 * 1024;

/// Writes the records of groups.
#[derive(Debug)]
pub struct GroupJournal {
    partition: Arc<Partition>,
    next_offset: Offset,
    committed: watch::Sender<Offset>,
    context: ProducerContext,
    clock: Arc<dyn Clock>,
}

/// Why records of groups cannot be appended.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The partition refuses.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// A record cannot be written in its format.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The batch cannot be built.
    #[error(transparent)]
    Build(#[from] CompressionError),
}

impl GroupJournal {
    /// A journal that goes on at the partition's end, all of which the machine
    /// has replayed.
    pub fn new(partition: Arc<Partition>, end: Offset, clock: Arc<dyn Clock>) -> Self {
        let (committed, _) = watch::channel(partition.extent().high_watermark);
        let context = ProducerContext::of(AppendOrigin::Coordinator);
        let journal = Self { partition, next_offset: end, committed, context, clock };
        journal.follow(end);
        journal
    }

    /// Tells of the commit of everything before `offset` when it comes. If it never
    /// comes, leadership is lost and the shard is dropped with its journal.
    fn follow(&self, offset: Offset) {
        if *self.committed.borrow() >= offset {
            return;
        }
        let (partition, committed) = (self.partition.clone(), self.committed.clone());
        tokio::spawn(async move {
            if partition.committed(offset).await.is_ok() {
                advance(&committed, offset);
            }
        });
    }
}

fn advance(committed: &watch::Sender<Offset>, offset: Offset) {
    committed.send_if_modified(|known| {
        let moves = *known < offset;
        *known = (*known).max(offset);
        moves
    });
}

impl Journal for GroupJournal {
    type Record = GroupRecord;
    type Error = JournalError;

    fn append(&mut self, records: &[GroupRecord]) -> Result<Appended, JournalError> {
        let now = self.clock.wall();
        let mut batch = BatchBuilder::new(BatchOptions::default());
        for record in records {
            if let Some((key, value)) = record.encode()? {
                batch.append(now, Some(&key), value.as_deref());
            }
        }
        let bytes = batch.build()?;
        let appended = self.partition.append(&bytes, &self.context, true)?;
        self.next_offset = appended.required;
        if appended.committed {
            advance(&self.committed, appended.required);
        } else {
            self.follow(appended.required);
        }
        Ok(Appended {
            first_offset: appended.info.first_offset,
            last_offset: appended.info.last_offset,
        })
    }

    fn refusal(&self, error: &JournalError) -> Option<Refusal> {
        use PartitionError::{Append, NotEnoughReplicas};
        match error {
            JournalError::Encode(_) | JournalError::Build(_) => Some(Refusal::Unwritable),
            JournalError::Partition(error) => match error {
                Append(AppendError::Invalid(_) | AppendError::TooLargeForSegment { .. }) => {
                    Some(Refusal::Unwritable)
                }
                NotEnoughReplicas { .. } => Some(Refusal::Unavailable),
                error if error.passes() => Some(Refusal::Unavailable),
                _ => None,
            },
        }
    }

    fn at_once(&self, records: &[GroupRecord]) -> usize {
        let mut bytes = 0;
        let fits = |record: &&GroupRecord| {
            bytes += record.about_len();
            bytes <= BYTES_PER_BATCH
        };
        records.iter().take(RECORDS_PER_BATCH).take_while(fits).count().max(1)
    }

    fn next_offset(&self) -> Offset {
        self.next_offset
    }

    fn committed(&self) -> watch::Receiver<Offset> {
        self.committed.subscribe()
    }
}

/// Nobody watches the machines of groups.
#[derive(Debug)]
pub struct Unobserved;

impl Observer<GroupMachine> for Unobserved {
    fn replayed(&mut self, _machine: &GroupMachine, _next_offset: Offset) {}
    fn committed(&mut self, _high_watermark: Offset) {}
}
