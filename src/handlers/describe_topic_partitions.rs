//! DescribeTopicPartitions: partitions of topics, page by page (KIP-966).

use std::collections::BTreeSet;

use super::RequestContext;
use super::topic_view::{NO_LEADER, TOPIC_OPERATIONS, View, ids, is_internal};
use crate::cluster::{PartitionRegistration, Topic};
use crate::config::keys;
use crate::controller::invalid_name;
use crate::protocol::messages::describe_topic_partitions_request::DescribeTopicPartitionsRequest;
use crate::protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use crate::protocol::{ErrorCode, Str};

/// Answers one page: topics in the order of their names, from the cursor on.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = context.image();
    let view = View { image: &image, listener: &context.connection.listener.name };
    let most = context.broker.config.current().get(keys::MAX_REQUEST_PARTITION_SIZE_LIMIT);
    page(view, &request, most)
}

fn page(
    view: View<'_>,
    request: &DescribeTopicPartitionsRequest,
    most: i32,
) -> DescribeTopicPartitionsResponse {
    let (first_topic, first_partition) = match &request.cursor {
        Some(cursor) => (&*cursor.topic_name, usize::try_from(cursor.partition_index)),
        None => ("", Ok(0)),
    };
    let Ok(first_partition) = first_partition else { return refusal(request) };
    let all = request.topics.is_empty();
    let names: BTreeSet<&str> = if all {
        view.image.topics.range_from(first_topic).map(|(name, _)| &**name).collect()
    } else {
        request.topics.iter().map(|topic| &*topic.name).filter(|n| *n >= first_topic).collect()
    };
    if !all && request.cursor.is_some() && !names.contains(first_topic) {
        return refusal(request);
    }
    let limit = request.response_partition_limit.min(most).max(1);
    let mut left = usize::try_from(limit).unwrap_or(1);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        if left == 0 {
            response.next_cursor = Some(cursor(name, 0));
            break;
        }
        let Some(topic) = view.image.topic(name) else {
            if !all {
                response.topics.push(unknown_topic(name));
            }
            continue;
        };
        let start = if name == first_topic { first_partition } else { 0 };
        let described = describe(view, topic, start, left);
        let next = start.saturating_add(left);
        if next < topic.partitions.len() {
            response.topics.push(described);
            response.next_cursor = Some(cursor(name, next));
            break;
        }
        left = left.saturating_sub(described.partitions.len());
        response.topics.push(described);
    }
    response
}

fn cursor(name: &str, partition: usize) -> Cursor {
    let partition_index = i32::try_from(partition).unwrap_or(i32::MAX);
    Cursor { topic_name: name.into(), partition_index, ..Default::default() }
}

fn describe(
    view: View<'_>,
    topic: &Topic,
    start: usize,
    count: usize,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = (0..).zip(&topic.partitions).skip(start).take(count);
    DescribeTopicPartitionsResponseTopic {
        name: Some((&topic.name).into()),
        topic_id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: partitions
            .map(|(n, partition)| describe_partition(view, n, partition))
            .collect(),
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}

fn describe_partition(
    view: View<'_>,
    partition_index: i32,
    partition: &PartitionRegistration,
) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::None.code(),
        partition_index,
        leader_id: view.leader(partition).map_or(NO_LEADER, |id| id.0),
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        eligible_leader_replicas: Some(ids(&partition.elr)),
        last_known_elr: Some(ids(&partition.last_known_elr)),
        offline_replicas: view.offline_replicas(partition),
        ..Default::default()
    }
}

fn unknown_topic(name: &str) -> DescribeTopicPartitionsResponseTopic {
    let error = match invalid_name(name) {
        Some(_) => ErrorCode::InvalidTopicException,
        None => ErrorCode::UnknownTopicOrPartition,
    };
    named(Some(name.into()), error)
}

fn named(name: Option<Str>, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        is_internal: name.as_deref().is_some_and(is_internal),
        name,
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}

/// To a cursor that cannot be.
fn refusal(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = request.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name.clone()),
        ..Default::default()
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::super::topic_view::tests::{add_topic, image};
    use super::*;
    use crate::protocol::messages::describe_topic_partitions_request as wire;

    fn request(names: &[&str], limit: i32) -> DescribeTopicPartitionsRequest {
        let topic = |name: &&str| wire::TopicRequest { name: (*name).into(), ..Default::default() };
        DescribeTopicPartitionsRequest {
            topics: names.iter().map(topic).collect(),
            response_partition_limit: limit,
            ..Default::default()
        }
    }

    /// Follows the cursor to the end; what each page holds.
    fn pages(mut request: DescribeTopicPartitionsRequest) -> Vec<String> {
        let mut image = image();
        add_topic(&mut image, "a", &[Some(1), Some(1), Some(1)]);
        add_topic(&mut image, "b", &[Some(1), Some(1)]);
        let view = View { image: &image, listener: "PLAINTEXT" };
        let mut pages = Vec::new();
        loop {
            let answer = page(view, &request, 2000);
            let topics = answer.topics.iter().map(|topic| {
                let name = topic.name.as_deref().unwrap_or("");
                let partitions: Vec<_> =
                    topic.partitions.iter().map(|p| p.partition_index.to_string()).collect();
                format!("{name}:{}", partitions.join(","))
            });
            pages.push(topics.collect::<Vec<_>>().join(" "));
            let Some(next) = answer.next_cursor else { return pages };
            request.cursor = Some(wire::Cursor {
                topic_name: next.topic_name,
                partition_index: next.partition_index,
                ..Default::default()
            });
        }
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended() {
        assert_eq!(pages(request(&[], 2000)), ["a:0,1,2 b:0,1"]);
        assert_eq!(pages(request(&[], 2)), ["a:0,1", "a:2 b:0", "b:1"]);
        assert_eq!(pages(request(&[], 3)), ["a:0,1,2", "b:0,1"]);
        assert_eq!(pages(request(&["b", "a"], 4)), ["a:0,1,2 b:0", "b:1"]);
        assert_eq!(pages(request(&["x", "b"], 1)), ["b:0", "b:1", "x:"]);
    }

    #[test]
    fn a_cursor_must_name_a_topic_that_is_asked_for() {
        let image = image();
        let view = View { image: &image, listener: "PLAINTEXT" };
        let mut with = request(&["a"], 10);
        with.cursor = Some(wire::Cursor { topic_name: "b".into(), ..Default::default() });
        assert_eq!(page(view, &with, 2000).topics[0].error_code, 42);
        with.cursor = Some(wire::Cursor {
            topic_name: "a".into(),
            partition_index: -1,
            ..Default::default()
        });
        assert_eq!(page(view, &with, 2000).topics[0].error_code, 42);
    }
}
