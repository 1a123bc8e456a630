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

/// Lines in the log for one request, at most.
const WARNINGS: usize = 10;

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
    let mut refused = 0;
    for (name, path) in wishes {
        let error = alter(context, &name, path).map_or_else(
            |error| {
                refused += 1;
                if refused <= WARNINGS {
                    tracing::warn!("Unable to alter log dirs for {name}: {error}");
                }
                code(context, &name, &error)
            },
            |()| ErrorCode::None,
        );
        let result = AlterReplicaLogDirPartitionResult {
            partition_index: name.partition,
            error_code: error.code(),
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
    if refused > WARNINGS {
        tracing::warn!("Unable to alter log dirs for {} more partitions", refused - WARNINGS);
    }
    AlterReplicaLogDirsResponse { results, ..Default::default() }
}

fn alter(
    context: &RequestContext<'_>,
    name: &TopicPartition,
    path: &str,
) -> Result<(), AlterDirError> {
    let config = context.broker.config.current();
    let cordoned = config.get(keys::CORDONED_LOG_DIRS);
    let broker = context.broker;
    broker.moves.alter(&broker.partitions, name, path, &cordoned)
}

fn code(context: &RequestContext<'_>, name: &TopicPartition, error: &AlterDirError) -> ErrorCode {
    match error {
        AlterDirError::NotHere => match not_here(context, &name.topic, name.partition) {
            // As older clients know it.
            ErrorCode::NotLeaderOrFollower => ErrorCode::ReplicaNotAvailable,
            code => code,
        },
        error => alter_dir_error(error),
    }
}
