//! OffsetCommit (8): note how far a group has read.

use std::sync::Arc;
use std::time::Duration;

use super::RequestContext;
use super::group_answers::{identity, topic_name};
use crate::coordinator::group::command::{Answer, Command, Commit, PartitionCommit};
use crate::protocol::ErrorCode;
use crate::protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition,
};
use crate::protocol::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::types::{LeaderEpoch, Offset};

/// From here on a group that does not exist is told apart from a generation that
/// is over.
const UNKNOWN_GROUP_FROM: i16 = 9;

/// Answers an OffsetCommit.
pub async fn handle(
    context: &RequestContext<'_>,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let image = context.image();
    let mut response = OffsetCommitResponse::default();
    let mut offsets = Vec::new();
    // Where each offset's answer stands in the response.
    let mut places = Vec::new();
    for topic in &request.topics {
        let name = topic_name(&image, &topic.name, topic.topic_id);
        let known = name.as_ref().and_then(|name| image.topic(name));
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let exists =
                known.is_some_and(|topic| topic.partition(partition.partition_index).is_some());
            let missing = if name.is_none() {
                ErrorCode::UnknownTopicId
            } else {
                ErrorCode::UnknownTopicOrPartition
            };
            let error = if exists { ErrorCode::None } else { missing };
            if let (Some(topic), true) = (known, exists) {
                places.push((response.topics.len(), partitions.len()));
                offsets.push(translate(&topic.name, topic.id, partition));
            }
            partitions.push(OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: error.code(),
                ..OffsetCommitResponsePartition::default()
            });
        }
        response.topics.push(OffsetCommitResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions,
            ..OffsetCommitResponseTopic::default()
        });
    }
    if offsets.is_empty() {
        return response;
    }
    for ((topic, partition), error) in
        places.into_iter().zip(commit(context, &request, offsets).await)
    {
        let answer =
            response.topics.get_mut(topic).and_then(|topic| topic.partitions.get_mut(partition));
        if let Some(answer) = answer {
            answer.error_code = error.code();
        }
    }
    response
}

fn translate(
    topic: &Arc<str>,
    topic_id: uuid::Uuid,
    partition: &OffsetCommitRequestPartition,
) -> PartitionCommit {
    PartitionCommit {
        topic: topic.clone(),
        topic_id,
        partition: partition.partition_index,
        offset: Offset(partition.committed_offset),
        leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
        metadata: partition.committed_metadata.as_ref().map(Arc::from).unwrap_or_default(),
    }
}

/// Commits; an error for each offset, in order.
async fn commit(
    context: &RequestContext<'_>,
    request: &OffsetCommitRequest,
    offsets: Vec<PartitionCommit>,
) -> Vec<ErrorCode> {
    let count = offsets.len();
    let (instance, generation) =
        (request.group_instance_id.as_ref(), request.generation_id_or_member_epoch);
    let identity = identity(&request.group_id, &request.member_id, instance, generation);
    let group = identity.group.clone();
    let retention = u64::try_from(request.retention_time_ms).ok().map(Duration::from_millis);
    let unknown_group = if context.api_version >= UNKNOWN_GROUP_FROM {
        ErrorCode::GroupIdNotFound
    } else {
        ErrorCode::IllegalGeneration
    };
    let command = Command::Commit(Commit { identity, offsets, retention, unknown_group });
    match context.submit_to_group(&group, command).await {
        Ok(Answer::Offsets { partitions, .. }) => partitions,
        Ok(_) => vec![ErrorCode::UnknownServerError; count],
        Err(error) => vec![error; count],
    }
}
