//! Heartbeat (12): a member of a classic group is alive, and learns of rebalances.

use super::RequestContext;
use super::group_answers::identity;
use crate::coordinator::group::command::{Answer, Command};
use crate::protocol::ErrorCode;
use crate::protocol::messages::heartbeat_request::HeartbeatRequest;
use crate::protocol::messages::heartbeat_response::HeartbeatResponse;

/// Answers a Heartbeat.
pub async fn handle(context: &RequestContext<'_>, request: HeartbeatRequest) -> HeartbeatResponse {
    let error = beat(context, &request).await;
    HeartbeatResponse { error_code: error.code(), ..HeartbeatResponse::default() }
}

async fn beat(context: &RequestContext<'_>, request: &HeartbeatRequest) -> ErrorCode {
    if request.group_id.is_empty() {
        return ErrorCode::InvalidGroupId;
    }
    let instance = request.group_instance_id.as_ref();
    let identity = identity(&request.group_id, &request.member_id, instance, request.generation_id);
    let group = identity.group.clone();
    match context.submit_to_group(&group, Command::Heartbeat(identity)).await {
        Ok(Answer::Done(error)) => error,
        Ok(_) => ErrorCode::UnknownServerError,
        // A shard that loads has not forgotten the member: it may go on.
        Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
        Err(error) => error,
    }
}
