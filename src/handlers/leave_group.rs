//! LeaveGroup (13): one member leaves, or from version 3 on several are removed.

use std::sync::Arc;

use super::RequestContext;
use crate::coordinator::group::command::{Answer, Command, Leaver};
use crate::protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use crate::protocol::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};
use crate::protocol::{ErrorCode, Str};

/// From here on the request has a list (KIP-345).
const BATCHED_FROM: i16 = 3;

/// Answers a LeaveGroup.
pub async fn handle(
    context: &RequestContext<'_>,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    if request.group_id.is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    let group: Arc<str> = Arc::from(&request.group_id);
    let members = if context.api_version < BATCHED_FROM {
        vec![MemberIdentity { member_id: request.member_id, ..MemberIdentity::default() }]
    } else {
        request.members
    };
    let leavers = members.iter().map(|member| Leaver {
        member: Arc::from(&member.member_id),
        instance: member.group_instance_id.as_ref().map(Arc::from),
    });
    let command = Command::Leave { group: group.clone(), members: leavers.collect() };
    match context.submit_to_group(&group, command).await {
        Ok(Answer::Left(errors)) => answer(context.api_version, members.into_iter().zip(errors)),
        Ok(_) => refuse(ErrorCode::UnknownServerError),
        Err(error) => refuse(error),
    }
}

fn answer(
    version: i16,
    members: impl Iterator<Item = (MemberIdentity, ErrorCode)>,
) -> LeaveGroupResponse {
    let mut members = members.peekable();
    if version < BATCHED_FROM {
        return refuse(members.peek().map_or(ErrorCode::None, |(_, error)| *error));
    }
    let members = members.map(|(member, error)| MemberResponse {
        member_id: Str::from(member.member_id.as_str()),
        group_instance_id: member.group_instance_id,
        error_code: error.code(),
        ..MemberResponse::default()
    });
    LeaveGroupResponse { members: members.collect(), ..LeaveGroupResponse::default() }
}

fn refuse(error: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse { error_code: error.code(), ..LeaveGroupResponse::default() }
}
