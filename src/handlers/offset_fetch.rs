//! OffsetFetch (9): how far groups have read; from version 8 on, many in one request.

use std::sync::Arc;

use uuid::Uuid;

use super::RequestContext;
use super::group_answers::topic_name;
use crate::cluster::ClusterImage;
use crate::coordinator::group::command::{Answer, Command, FetchedOffset, WantedOffset};
use crate::protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use crate::protocol::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use crate::protocol::{ErrorCode, Str};

/// From here on the request has a list of groups (KIP-709).
const BATCHED_FROM: i16 = 8;
/// From here on topics are named by id.
const TOPIC_IDS_FROM: i16 = 10;
/// From here on an error of the whole group has a place of its own.
const GROUP_ERROR_FROM: i16 = 2;

/// Answers an OffsetFetch.
pub async fn handle(
    context: &RequestContext<'_>,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if context.api_version >= BATCHED_FROM {
        let mut response = OffsetFetchResponse::default();
        for group in request.groups {
            response.groups.push(fetch(context, group).await);
        }
        return response;
    }
    let topics = request.topics.map(|topics| {
        let wide = topics.into_iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
            ..OffsetFetchRequestTopics::default()
        });
        wide.collect()
    });
    let group = OffsetFetchRequestGroup {
        group_id: request.group_id,
        topics,
        ..OffsetFetchRequestGroup::default()
    };
    narrow(context.api_version, fetch(context, group).await)
}

/// The offsets of one group.
async fn fetch(
    context: &RequestContext<'_>,
    group: OffsetFetchRequestGroup,
) -> OffsetFetchResponseGroup {
    let image = context.image();
    let mut response = OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        ..OffsetFetchResponseGroup::default()
    };
    let id: Arc<str> = Arc::from(&group.group_id);
    let mut wanted = Vec::new();
    for topic in group.topics.iter().flatten() {
        match topic_name(&image, &topic.name, topic.topic_id) {
            Some(name) => wanted.extend(topic.partition_indexes.iter().map(|index| WantedOffset {
                topic: name.clone(),
                topic_id: topic.topic_id,
                partition: *index,
            })),
            None => response.topics.push(unknown_topic(topic)),
        }
    }
    let partitions = group.topics.is_some().then_some(wanted.clone());
    let command = Command::FetchOffsets { group: id.clone(), partitions };
    match context.submit_to_group(&id, command).await {
        Ok(Answer::Fetched(fetched)) => {
            response.topics.extend(by_topic(&image, context.api_version, fetched));
        }
        Ok(_) => response.error_code = ErrorCode::UnknownServerError.code(),
        Err(error) => {
            response.error_code = error.code();
            if context.api_version < GROUP_ERROR_FROM {
                let nothing = |wanted: WantedOffset| FetchedOffset {
                    topic: wanted.topic,
                    partition: wanted.partition,
                    offset: crate::types::Offset::NONE,
                    leader_epoch: crate::types::LeaderEpoch::NONE,
                    metadata: Arc::default(),
                };
                let nothing = wanted.into_iter().map(nothing).collect();
                response.topics.extend(by_topic(&image, context.api_version, nothing));
            }
        }
    }
    response
}

fn unknown_topic(topic: &OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.iter().map(|index| OffsetFetchResponsePartitions {
        partition_index: *index,
        committed_offset: -1,
        metadata: Some(Str::default()),
        error_code: ErrorCode::UnknownTopicId.code(),
        ..OffsetFetchResponsePartitions::default()
    });
    OffsetFetchResponseTopics {
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
        ..OffsetFetchResponseTopics::default()
    }
}

/// Gathers offsets that follow each other by topic.
fn by_topic(
    image: &ClusterImage,
    version: i16,
    fetched: Vec<FetchedOffset>,
) -> Vec<OffsetFetchResponseTopics> {
    let mut topics: Vec<(Arc<str>, OffsetFetchResponseTopics)> = Vec::new();
    for offset in fetched {
        if topics.last().is_none_or(|(name, _)| *name != offset.topic) {
            let id = image.topic(&offset.topic).map_or(Uuid::nil(), |topic| topic.id);
            if version >= TOPIC_IDS_FROM && id.is_nil() {
                // Of a topic that is gone there is nothing to be said by id.
                continue;
            }
            let topic = OffsetFetchResponseTopics {
                name: Str::from(&offset.topic),
                topic_id: if version >= TOPIC_IDS_FROM { id } else { Uuid::nil() },
                ..OffsetFetchResponseTopics::default()
            };
            topics.push((offset.topic.clone(), topic));
        }
        if let Some((_, topic)) = topics.last_mut() {
            topic.partitions.push(OffsetFetchResponsePartitions {
                partition_index: offset.partition,
                committed_offset: offset.offset.0,
                committed_leader_epoch: offset.leader_epoch.0,
                metadata: Some(Str::from(&offset.metadata)),
                ..OffsetFetchResponsePartitions::default()
            });
        }
    }
    topics.into_iter().map(|(_, topic)| topic).collect()
}

/// The answer for one group in the shape before version 8.
fn narrow(version: i16, group: OffsetFetchResponseGroup) -> OffsetFetchResponse {
    let error = group.error_code;
    let in_partitions = if version < GROUP_ERROR_FROM { error } else { 0 };
    let topics = group.topics.into_iter().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| OffsetFetchResponsePartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata,
                error_code: if in_partitions == 0 { partition.error_code } else { in_partitions },
                ..OffsetFetchResponsePartition::default()
            })
            .collect(),
        ..OffsetFetchResponseTopic::default()
    });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code: error,
        ..OffsetFetchResponse::default()
    }
}
