//! Loading a shard: its partition is read from the first record to the last, and
//! every record replayed.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tracing::warn;

use super::group::GroupMachine;
use super::group::records::GroupRecord;
use crate::log::LogSlice;
use crate::log::batch::{BatchError, BatchView, batches};
use crate::log::compression::{CompressionError, decompress};
use crate::log::record::{Record, RecordError, Records};
use crate::partition::waiters::Isolation;
use crate::partition::{Limits, Partition, PartitionError, Position, Reader};
use crate::replicated::Machine as _;
use crate::types::{LeaderEpoch, Offset};

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
    mut machine: GroupMachine,
) -> Result<(GroupMachine, Offset), LoadError> {
    let work = move || {
        let mut next = partition.extent().log_start;
        while let Some(slice) = read(&partition, next)? {
            next = replay_slice(&slice, next, &mut machine)?;
        }
        Ok((machine, next))
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
    let limits = Limits { max_bytes: LOAD_BUFFER, at_least_one: true };
    Ok(partition.read(&reader, &position, limits)?.slice)
}

/// Replays whole batches; where the next one begins.
fn replay_slice(
    slice: &LogSlice,
    from: Offset,
    machine: &mut GroupMachine,
) -> Result<Offset, LoadError> {
    let bytes = slice.read()?;
    for batch in batches(&bytes) {
        let batch = batch?;
        if batch.header().next_offset() > from {
            replay_batch(&batch, machine)?;
        }
    }
    Ok(slice.end_offset)
}

fn replay_batch(batch: &BatchView<'_>, machine: &mut GroupMachine) -> Result<(), LoadError> {
    let header = batch.header();
    // Control batches end transactions, of which there are none here yet.
    if header.attributes.is_control() {
        return Ok(());
    }
    let codec = header.codec().unwrap_or_default();
    let plain = decompress(codec, batch.payload(), LARGEST_BATCH)?;
    for record in Records::new(header, &plain) {
        replay_record(&record?, machine);
    }
    Ok(())
}

/// A record that cannot be understood is passed over, as Kafka does: it may be
/// of a newer version.
fn replay_record(record: &Record<'_>, machine: &mut GroupMachine) {
    let Some(key) = record.key else { return };
    let value = record.value.map(Bytes::copy_from_slice);
    match GroupRecord::decode(Bytes::copy_from_slice(key), value) {
        Ok(decoded) => {
            let done: Result<(), Infallible> = machine.replay(record.offset, &decoded);
            let Ok(()) = done;
        }
        Err(reason) => {
            warn!("A record of groups at offset {} is passed over: {reason}", record.offset)
        }
    }
}
