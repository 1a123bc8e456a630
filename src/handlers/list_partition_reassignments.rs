//! ListPartitionReassignments: what moves at this moment (KIP-455).

use super::RequestContext;
use crate::cluster::Topic;
use crate::controller::is_moving;
use crate::protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsRequest;
use crate::protocol::messages::list_partition_reassignments_response::{
    ListPartitionReassignmentsResponse, OngoingPartitionReassignment, OngoingTopicReassignment,
};
use crate::types::BrokerId;

/// Lists the partitions named, or all, that are being reassigned.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let image = context.broker.controller.image();
    let topics: Vec<_> = match &request.topics {
        None => image.topics.values().map(|topic| ongoing(topic, numbers(topic))).collect(),
        Some(named) => {
            let known = named.iter().filter_map(|named| Some((image.topic(&named.name)?, named)));
            known
                .map(|(topic, named)| ongoing(topic, named.partition_indexes.iter().copied()))
                .collect()
        }
    };
    let topics = topics.into_iter().filter(|topic| !topic.partitions.is_empty()).collect();
    ListPartitionReassignmentsResponse { topics, ..Default::default() }
}

fn numbers(topic: &Topic) -> impl Iterator<Item = i32> {
    (0..).zip(&topic.partitions).map(|(number, _)| number)
}

fn ongoing(topic: &Topic, numbers: impl Iterator<Item = i32>) -> OngoingTopicReassignment {
    let partitions = numbers.filter_map(|number| {
        let partition = topic.partition(number).filter(|partition| is_moving(partition))?;
        Some(OngoingPartitionReassignment {
            partition_index: number,
            replicas: ids(&partition.replicas),
            adding_replicas: ids(&partition.adding_replicas),
            removing_replicas: ids(&partition.removing_replicas),
            ..Default::default()
        })
    });
    OngoingTopicReassignment {
        name: (&topic.name).into(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn ids(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::PartitionRegistration;
    use crate::types::TopicId;

    #[test]
    fn only_what_moves_is_listed() {
        let at_rest = PartitionRegistration {
            replicas: vec![BrokerId(1)],
            ..PartitionRegistration::default()
        };
        let moving = PartitionRegistration {
            replicas: vec![BrokerId(2), BrokerId(1)],
            adding_replicas: vec![BrokerId(2)],
            removing_replicas: vec![BrokerId(1)],
            ..PartitionRegistration::default()
        };
        let partitions = vec![Arc::new(at_rest), Arc::new(moving)];
        let topic = Topic { name: "t".into(), id: TopicId::nil(), partitions };
        let listed = ongoing(&topic, numbers(&topic)).partitions;
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].partition_index, &*listed[0].replicas), (1, &[2, 1][..]));
        assert_eq!(ongoing(&topic, [0, 7].into_iter()).partitions, []);
    }
}
