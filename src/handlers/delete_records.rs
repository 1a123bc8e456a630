//! DeleteRecords: moves a partition's log start, on all its replicas (KIP-107).

use std::sync::Arc;
use std::time::Duration;

use super::RequestContext;
use super::error_code::partition_error;
use super::produce::is_internal;
use crate::partition::Partition;
use crate::partition::table::Missing;
use crate::protocol::ErrorCode;
use crate::protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest,
};
use crate::protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use crate::sys::clock::within;
use crate::types::Offset;

/// The offset that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

/// One partition's part: done, failed, or waiting for its replicas.
enum Deletion {
    Failed(ErrorCode),
    Begun(Arc<Partition>, Offset),
}

/// Answers a DeleteRecords.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = context.received + timeout;
    let mut begun = Vec::new();
    for topic in &request.topics {
        let parts = topic.partitions.iter().map(|part| {
            let deletion = begin(context, &topic.name, part);
            (part.partition_index, deletion.unwrap_or_else(Deletion::Failed))
        });
        begun.push((topic.name.clone(), parts.collect::<Vec<_>>()));
    }
    let mut topics = Vec::new();
    for (name, parts) in begun {
        let mut partitions = Vec::new();
        for (partition_index, deletion) in parts {
            let left = deadline.saturating_sub(context.broker.clock.monotonic());
            let (low_watermark, error) = match finish(deletion, left).await {
                Ok(low) => (low, ErrorCode::None),
                Err(error) => (Offset::NONE, error),
            };
            partitions.push(DeleteRecordsPartitionResult {
                partition_index,
                low_watermark: low_watermark.0,
                error_code: error.code(),
                ..Default::default()
            });
        }
        topics.push(DeleteRecordsTopicResult { name, partitions, ..Default::default() });
    }
    DeleteRecordsResponse { topics, ..Default::default() }
}

fn begin(
    context: &RequestContext<'_>,
    topic: &str,
    part: &DeleteRecordsPartition,
) -> Result<Deletion, ErrorCode> {
    let hosted = context.broker.partitions.get(topic, part.partition_index);
    if hosted.is_ok() && is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let partition = hosted.map_err(|missing| match missing {
        Missing::Offline => ErrorCode::KafkaStorageError,
        Missing::NotHere => super::not_here(context, topic, part.partition_index),
    })?;
    let offset = (part.offset != HIGH_WATERMARK).then_some(Offset(part.offset));
    let target = partition.delete_records(offset).map_err(|error| partition_error(&error))?;
    Ok(Deletion::Begun(partition, target))
}

async fn finish(deletion: Deletion, left: Duration) -> Result<Offset, ErrorCode> {
    match deletion {
        Deletion::Failed(error) => Err(error),
        Deletion::Begun(partition, target) => match within(left, partition.deleted(target)).await {
            Some(result) => result.map_err(|error| partition_error(&error)),
            None => Err(ErrorCode::RequestTimedOut),
        },
    }
}
