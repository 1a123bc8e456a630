//! AlterPartitionReassignments: replicas move to other brokers, or stay after all
//! (KIP-455).

use super::RequestContext;
use super::controller_call::{code_and_text, within};
use crate::controller::{PartitionRef, Reassignment, check_count};
use crate::protocol::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignableTopic,
};
use crate::protocol::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use crate::types::BrokerId;

/// Begins and gives up reassignments, each partition for itself.
pub async fn handle(
    context: &RequestContext<'_>,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let may_change_factor = request.allow_replication_factor_change;
    if let Err(error) = check_count(request.topics.iter().map(|topic| topic.partitions.len()).sum())
    {
        let (error_code, error_message) = code_and_text::<()>(&Err(error));
        return AlterPartitionReassignmentsResponse {
            error_code,
            error_message,
            ..Default::default()
        };
    }
    let wanted: Vec<_> = request.topics.iter().flat_map(commands).collect();
    let count = wanted.len();
    let altering = context.broker.controller.alter_reassignments(wanted, may_change_factor);
    let mut response = AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: may_change_factor,
        ..Default::default()
    };
    let results = within(context, request.timeout_ms, altering).await.unwrap_or_else(|error| {
        (response.error_code, response.error_message) = code_and_text::<()>(&Err(error.clone()));
        vec![Err(error); count]
    });
    let mut results = results.iter();
    let topics = request.topics.iter().map(|topic| {
        let partitions =
            topic.partitions.iter().zip(results.by_ref()).map(|(partition, result)| {
                let (error_code, error_message) = code_and_text(result);
                ReassignablePartitionResponse {
                    partition_index: partition.partition_index,
                    error_code,
                    error_message,
                    ..Default::default()
                }
            });
        ReassignableTopicResponse {
            name: topic.name.clone(),
            partitions: partitions.collect(),
            ..Default::default()
        }
    });
    response.responses = topics.collect();
    response
}

fn commands(topic: &ReassignableTopic) -> impl Iterator<Item = Reassignment> {
    topic.partitions.iter().map(|partition| Reassignment {
        at: PartitionRef { topic: topic.name.to_string(), partition: partition.partition_index },
        replicas: partition
            .replicas
            .as_ref()
            .map(|ids| ids.iter().copied().map(BrokerId).collect()),
    })
}
