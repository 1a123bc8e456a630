//! OffsetForLeaderEpoch: where an epoch of the leader's log ends (KIP-101).

use super::RequestContext;
use super::error_code::partition_error;
use crate::partition::table::Missing;
use crate::protocol::ErrorCode;
use crate::protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition,
};
use crate::protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use crate::types::{LeaderEpoch, Offset};

/// Answers an OffsetForLeaderEpoch.
pub async fn handle(
    context: &RequestContext<'_>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|part| answer(context, &topic.topic, part))
                .collect(),
            ..Default::default()
        })
        .collect();
    OffsetForLeaderEpochResponse { topics, ..Default::default() }
}

fn answer(
    context: &RequestContext<'_>,
    topic: &str,
    part: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let mut answer = EpochEndOffset { partition: part.partition, ..Default::default() };
    match end_of_epoch(context, topic, part) {
        Ok(Some((epoch, end))) => {
            answer.leader_epoch = epoch.0;
            answer.end_offset = end.0;
        }
        Ok(None) => {}
        Err(error) => answer.error_code = error.code(),
    }
    answer
}

fn end_of_epoch(
    context: &RequestContext<'_>,
    topic: &str,
    part: &OffsetForLeaderPartition,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    let hosted = context.broker.partitions.get(topic, part.partition);
    let partition = hosted.map_err(|missing| match missing {
        Missing::Offline => ErrorCode::KafkaStorageError,
        Missing::NotHere => super::not_here(context, topic, part.partition),
    })?;
    let claimed = LeaderEpoch(part.current_leader_epoch);
    partition
        .end_of_epoch(claimed, LeaderEpoch(part.leader_epoch))
        .map_err(|error| partition_error(&error))
}
