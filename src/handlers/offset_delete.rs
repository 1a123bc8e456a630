//! OffsetDelete (47): forget a group's offsets of topics it does not subscribe to.

use std::sync::Arc;

use super::RequestContext;
use crate::coordinator::group::command::{Answer, Command};
use crate::protocol::ErrorCode;
use crate::protocol::messages::offset_delete_request::OffsetDeleteRequest;
use crate::protocol::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

/// Answers an OffsetDelete.
pub async fn handle(
    context: &RequestContext<'_>,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    if request.group_id.is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let image = context.image();
    let group: Arc<str> = Arc::from(&request.group_id);
    let mut partitions = Vec::new();
    let mut response = OffsetDeleteResponse::default();
    for topic in &request.topics {
        let known = image.topic(&topic.name);
        let mut answer =
            OffsetDeleteResponseTopic { name: topic.name.clone(), ..Default::default() };
        for partition in &topic.partitions {
            let exists =
                known.is_some_and(|topic| topic.partition(partition.partition_index).is_some());
            let error = if exists { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition };
            if exists {
                partitions.push((Arc::from(&topic.name), partition.partition_index));
            }
            answer.partitions.push(OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: error.code(),
            });
        }
        response.topics.push(answer);
    }
    let command = Command::DeleteOffsets { group: group.clone(), partitions };
    match context.submit_to_group(&group, command).await {
        Ok(Answer::Offsets { error: ErrorCode::None, partitions }) => {
            fill(&mut response, partitions)
        }
        Ok(Answer::Offsets { error, .. }) | Err(error) => return refuse(error),
        Ok(_) => return refuse(ErrorCode::UnknownServerError),
    }
    response
}

/// Puts the coordinator's errors where the partitions that exist stand.
fn fill(response: &mut OffsetDeleteResponse, errors: Vec<ErrorCode>) {
    let existing = response
        .topics
        .iter_mut()
        .flat_map(|topic| &mut topic.partitions)
        .filter(|partition| partition.error_code == 0);
    for (partition, error) in existing.zip(errors) {
        partition.error_code = error.code();
    }
}

fn refuse(error: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code: error.code(), ..OffsetDeleteResponse::default() }
}
