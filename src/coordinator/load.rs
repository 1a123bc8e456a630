//! Loading a shard: its partition is read from the first record to the last, and
//! every record replayed.
//!
//! A partition may have been written by any Kafka since 0.9. Records of groups that
//! are not served here (those of the consumer, share and streams protocols) stay in
//! the log as they are and are passed over, as is what cannot be read; the log says
//! once how many.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tracing::{info, warn};

use super::group::GroupMachine;
use super::group::records::GroupRecord;
use crate::log::LogSlice;
use crate::log::batch::{BatchError, BatchView, batches};
use crate::log::compression::{CompressionError, decompress};
use crate::log::control::EndTransactionMarker;
use crate::log::record::{RecordError, Records};
use crate::partition::waiters::Isolation;
use crate::partition::{Limits, Partition, PartitionError, Position, Reader};
use crate::replicated::Machine as _;
use crate::sys::cold::IfCold;
use crate::types::{LeaderEpoch, Offset, ProducerId};

/// Bytes that are read at once (`offsets.load.buffer.size`).
const LOAD_BUFFER: usize = 5 * 1024 * 1024;
/// A compressed batch may not grow beyond this.
const LARGEST_BATCH: usize = 256 * 1024 * 1024;

/// Why a shard cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The partition cannot be read.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// Its file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A batch is damaged.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A record is damaged.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A batch cannot be decompressed.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// The thread that read it ended early.
    #[error("loading was interrupted")]
    Interrupted,
}

/// Replays all of a partition into a machine, away from the threads that serve
/// requests. The machine, and where its log ends.
pub async fn replay(
    partition: Arc<Partition>,
    machine: GroupMachine,
) -> Result<(GroupMachine, Offset), LoadError> {
    let work = move || {
        let mut loading = Loading::into(machine);
        let mut next = partition.extent().log_start;
        while let Some(slice) = read(&partition, next)? {
            loading.replay(&slice.read()?, next)?;
            next = slice.end_offset;
        }
        loading.tell_of_gaps(&partition.name().to_string());
        Ok((loading.machine, next))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| LoadError::Interrupted)?
}

fn read(partition: &Partition, from: Offset) -> Result<Option<LogSlice>, LoadError> {
    let reader = Reader { isolation: Isolation::LogEnd, leader_only: true, follower: None };
    let position = Position {
        fetch_offset: from,
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start: Offset::NONE,
    };
    let limits = Limits { max_bytes: LOAD_BUFFER, at_least_one: true, if_cold: IfCold::Wait };
    Ok(partition.read(&reader, &position, limits)?.slice)
}

/// A machine that is being loaded.
pub(super) struct Loading {
    machine: GroupMachine,
    /// Offsets committed in transactions that have not ended yet.
    open: HashMap<ProducerId, Vec<GroupRecord>>,
    /// How many records there were of each type that nobody here acts on.
    foreign: BTreeMap<i16, u64>,
    /// How many records could not be read, and why the first of them could not.
    unreadable: Option<(u64, String)>,
}

impl Loading {
    /// Begins to load a machine.
    pub fn into(machine: GroupMachine) -> Self {
        Self { machine, open: HashMap::new(), foreign: BTreeMap::new(), unreadable: None }
    }

    /// Replays whole batches, from an offset on.
    pub fn replay(&mut self, bytes: &Bytes, from: Offset) -> Result<(), LoadError> {
        for batch in batches(bytes) {
            let batch = batch?;
            if batch.header().next_offset() > from {
                self.replay_batch(&batch)?;
            }
        }
        Ok(())
    }

    fn replay_batch(&mut self, batch: &BatchView<'_>) -> Result<(), LoadError> {
        let header = batch.header();
        if header.attributes.is_control() {
            if let Some((marker, _)) = EndTransactionMarker::from_batch(batch) {
                self.end_transaction(header.producer_id, marker.committed, header.base_offset);
            }
            return Ok(());
        }
        let codec = header.codec().unwrap_or_default();
        let plain = decompress(codec, batch.payload(), LARGEST_BATCH)?;
        for record in Records::new(header, &plain) {
            let record = record?;
            let Some(key) = record.key else { continue };
            match GroupRecord::decode(key, record.value) {
                Ok(GroupRecord::Other(kind)) => *self.foreign.entry(kind).or_default() += 1,
                Ok(decoded) if header.attributes.is_transactional() => {
                    self.open.entry(header.producer_id).or_default().push(decoded);
                }
                Ok(decoded) => {
                    self.supersede(&decoded);
                    fold(&mut self.machine, record.offset, &decoded);
                }
                Err(reason) => {
                    let first = || format!("at offset {}: {reason}", record.offset);
                    self.unreadable.get_or_insert_with(|| (0, first())).0 += 1;
                }
            }
        }
        Ok(())
    }

    /// What a transaction has committed takes effect with its end, or never.
    fn end_transaction(&mut self, producer: ProducerId, committed: bool, offset: Offset) {
        for record in self.open.remove(&producer).into_iter().flatten() {
            if committed {
                fold(&mut self.machine, offset, &record);
            }
        }
    }

    /// A commit that is not part of a transaction counts for more than those that
    /// were before it in the log and whose transactions end after it.
    fn supersede(&mut self, by: &GroupRecord) {
        let GroupRecord::Offset { group, topic, partition, .. } = by else { return };
        for records in self.open.values_mut() {
            records.retain(|record| {
                !matches!(record, GroupRecord::Offset { group: g, topic: t, partition: p, .. }
                    if g == group && t == topic && p == partition)
            });
        }
    }

    /// Says in the log what was passed over.
    fn tell_of_gaps(&self, name: &str) {
        if !self.foreign.is_empty() {
            let (kinds, count) = (self.foreign.keys(), self.foreign.values().sum::<u64>());
            let kinds: Vec<String> = kinds.map(i16::to_string).collect();
            let kinds = kinds.join(", ");
            info!("Passed over {count} records of {name}, of types not served here: {kinds}");
        }
        if let Some((count, first)) = &self.unreadable {
            warn!("Passed over {count} records of {name} that cannot be read, the first {first}");
        }
    }
}

fn fold(machine: &mut GroupMachine, offset: Offset, record: &GroupRecord) {
    let done: Result<(), Infallible> = machine.replay(offset, record);
    let Ok(()) = done;
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
