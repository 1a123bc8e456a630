//! AlterReplicaLogDirs: moves replicas to other log directories of this broker
//! (KIP-113).

use std::sync::Arc;

use super::error_code::alter_dir_error;
use super::{RequestContext, not_here};
use crate::config::keys;
use crate::partition::moves::AlterDirError;
use crate::protocol::ErrorCode;
use crate::protocol::messages::alter_replica_log_dirs_request::AlterReplicaLogDirsRequest;
use crate::protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
};
use crate::types::TopicPartition;

/// Begins the moves; they are done in the background.
pub async fn handle(
    context: &RequestContext<'_>,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse {
    // The last wish for a partition counts.
    let mut wishes = std::collections::BTreeMap::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            let topic_name: Arc<str> = topic.name.to_string().into();
            for partition in &topic.partitions {
                wishes.insert(TopicPartition::new(topic_name.clone(), *partition), &*dir.path);
            }
        }
    }
    let mut results = Vec::<AlterReplicaLogDirTopicResult>::new();
    for (name, path) in wishes {
        let result = AlterReplicaLogDirPartitionResult {
            partition_index: name.partition,
            error_code: alter(context, &name, path).code(),
            ..Default::default()
        };
        match results.last_mut() {
            Some(topic) if *topic.topic_name == *name.topic => topic.partitions.push(result),
            _ => results.push(AlterReplicaLogDirTopicResult {
                topic_name: (&name.topic).into(),
                partitions: vec![result],
                ..Default::default()
            }),
        }
    }
    AlterReplicaLogDirsResponse { results, ..Default::default() }
}

fn alter(context: &RequestContext<'_>, name: &TopicPartition, path: &str) -> ErrorCode {
    let config = context.broker.config.current();
    let cordoned = config.get(keys::CORDONED_LOG_DIRS);
    let broker = context.broker;
    let Err(error) = broker.moves.alter(&broker.partitions, name, path, &cordoned) else {
        return ErrorCode::None;
    };
    tracing::warn!("Unable to alter log dirs for {name}: {error}");
    match error {
        AlterDirError::NotHere => match not_here(context, &name.topic, name.partition) {
            // As older clients know it.
            ErrorCode::NotLeaderOrFollower => ErrorCode::ReplicaNotAvailable,
            code => code,
        },
        error => alter_dir_error(&error),
    }
}
