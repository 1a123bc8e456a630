//! AssignReplicasToDirs: a broker tells which directory holds a replica (KIP-858).

use super::RequestContext;
use crate::controller::DirectoryAssignment;
use crate::protocol::messages::assign_replicas_to_dirs_request::AssignReplicasToDirsRequest;
use crate::protocol::messages::assign_replicas_to_dirs_response::{
    AssignReplicasToDirsResponse, DirectoryData, PartitionData, TopicData,
};
use crate::types::BrokerId;

/// Tells the controller.
pub async fn handle(
    context: &RequestContext<'_>,
    request: AssignReplicasToDirsRequest,
) -> AssignReplicasToDirsResponse {
    let assignments = request.directories.iter().flat_map(|directory| {
        directory.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|part| DirectoryAssignment {
                topic_id: topic.topic_id,
                partition: part.partition_index,
                directory: directory.id,
            })
        })
    });
    let broker = BrokerId(request.broker_id);
    let controller = &context.broker.controller;
    let assigning =
        controller.assign_replicas_to_dirs(broker, request.broker_epoch, assignments.collect());
    let results = match assigning.await {
        Ok(results) => results,
        Err(error) => {
            let error_code = error.code.code();
            return AssignReplicasToDirsResponse { error_code, ..Default::default() };
        }
    };
    let mut codes = results.into_iter().map(|result| result.map_or_else(|e| e.code.code(), |()| 0));
    let directories = request.directories.iter().map(|directory| {
        let topics = directory.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().zip(codes.by_ref());
            let partitions = partitions.map(|(part, error_code)| PartitionData {
                partition_index: part.partition_index,
                error_code,
                ..Default::default()
            });
            let partitions = partitions.collect();
            TopicData { topic_id: topic.topic_id, partitions, ..Default::default() }
        });
        DirectoryData { id: directory.id, topics: topics.collect(), ..Default::default() }
    });
    AssignReplicasToDirsResponse { directories: directories.collect(), ..Default::default() }
}
