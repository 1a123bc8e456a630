//! SyncGroup (14): the leader hands in the assignment, everybody gets its part.

use std::sync::Arc;

use bytes::Bytes;

use super::RequestContext;
use super::group_answers::identity;
use crate::coordinator::group::command::{Answer, Command, Sync, Synced};
use crate::protocol::messages::sync_group_request::SyncGroupRequest;
use crate::protocol::messages::sync_group_response::SyncGroupResponse;
use crate::protocol::{ErrorCode, Str};

/// From here on type and strategy are named, and checked (KIP-559).
const PROTOCOL_NAMED_FROM: i16 = 5;

/// Answers a SyncGroup.
pub async fn handle(context: &RequestContext<'_>, request: SyncGroupRequest) -> SyncGroupResponse {
    if request.group_id.is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let named = (request.protocol_type.is_some(), request.protocol_name.is_some());
    if context.api_version >= PROTOCOL_NAMED_FROM && named != (true, true) {
        return refuse(ErrorCode::InconsistentGroupProtocol);
    }
    let instance = request.group_instance_id.as_ref();
    let identity = identity(&request.group_id, &request.member_id, instance, request.generation_id);
    let group = identity.group.clone();
    let part = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    let sync = Sync {
        identity,
        protocol_type: request.protocol_type.as_ref().map(Arc::from),
        protocol: request.protocol_name.as_ref().map(Arc::from),
        assignments: request
            .assignments
            .iter()
            .map(|assignment| (Arc::from(&assignment.member_id), part(&assignment.assignment)))
            .collect(),
    };
    match context.submit_to_group(&group, Command::Sync(sync)).await {
        Ok(Answer::Sync(synced)) => answer(synced),
        Ok(_) => refuse(ErrorCode::UnknownServerError),
        Err(error) => refuse(error),
    }
}

fn answer(synced: Synced) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: synced.error.code(),
        protocol_type: synced.protocol_type.as_ref().map(Str::from),
        protocol_name: synced.protocol.as_ref().map(Str::from),
        assignment: synced.assignment,
        ..SyncGroupResponse::default()
    }
}

fn refuse(error: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code: error.code(), ..SyncGroupResponse::default() }
}
