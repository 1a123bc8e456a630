//! JoinGroup (11): enter a classic group, or stay in it through a rebalance. The
//! answer waits until the rebalance closes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::RequestContext;
use super::group_answers::{NO_GROUP, client_host};
use crate::coordinator::group::command::{Answer, Command, Join, Joined};
use crate::protocol::messages::join_group_request::JoinGroupRequest;
use crate::protocol::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use crate::protocol::{ErrorCode, Str};

/// From here on a newcomer is told its id first (KIP-394).
const MEMBER_ID_REQUIRED_FROM: i16 = 4;
/// From here on a leader may be told to assign nothing (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;

/// Answers a JoinGroup.
pub async fn handle(context: &RequestContext<'_>, request: JoinGroupRequest) -> JoinGroupResponse {
    if request.group_id.is_empty() {
        return refuse(context.api_version, ErrorCode::InvalidGroupId, request.member_id);
    }
    let member = request.member_id.clone();
    let group = Arc::from(&request.group_id);
    let join = translate(context, request);
    match context.submit_to_group(&group, Command::Join(join)).await {
        Ok(Answer::Join(joined)) => answer(context.api_version, joined),
        Ok(_) => refuse(context.api_version, ErrorCode::UnknownServerError, member),
        Err(error) => refuse(context.api_version, error, member),
    }
}

fn translate(context: &RequestContext<'_>, request: JoinGroupRequest) -> Join {
    let millis = |millis: i32| Duration::from_millis(u64::try_from(millis).unwrap_or_default());
    // Version 0 knew one timeout for both.
    let rebalance = if context.api_version == 0 {
        request.session_timeout_ms
    } else {
        request.rebalance_timeout_ms
    };
    let copied = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    Join {
        group: Arc::from(&request.group_id),
        member: Arc::from(&request.member_id),
        fresh_id: context.broker.random.uuid(),
        instance: request.group_instance_id.as_ref().map(Arc::from),
        client_id: Arc::from(context.client_id),
        client_host: client_host(context),
        rebalance_timeout: millis(rebalance),
        session_timeout: millis(request.session_timeout_ms),
        protocol_type: Arc::from(&request.protocol_type),
        protocols: request
            .protocols
            .iter()
            .map(|protocol| (Arc::from(&protocol.name), copied(&protocol.metadata)))
            .collect(),
        member_id_required: context.api_version >= MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment: context.api_version >= SKIP_ASSIGNMENT_FROM,
    }
}

fn answer(version: i16, joined: Joined) -> JoinGroupResponse {
    let text = |text: Option<Arc<str>>| text.as_ref().map(Str::from);
    let members = joined.members.into_iter().map(|member| JoinGroupResponseMember {
        member_id: Str::from(&member.member),
        group_instance_id: text(member.instance),
        metadata: member.metadata,
        ..JoinGroupResponseMember::default()
    });
    JoinGroupResponse {
        error_code: joined.error.code(),
        generation_id: joined.generation,
        protocol_type: text(joined.protocol_type),
        protocol_name: text(joined.protocol).or_else(|| no_protocol(version)),
        leader: Str::from(&joined.leader),
        skip_assignment: joined.skip_assignment,
        member_id: Str::from(&joined.member),
        members: members.collect(),
        ..JoinGroupResponse::default()
    }
}

/// Null only from version 7 on; before, no protocol is an empty one.
fn no_protocol(version: i16) -> Option<Str> {
    (version < 7).then(Str::default)
}

fn refuse(version: i16, error: ErrorCode, member: Str) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: error.code(),
        generation_id: NO_GROUP,
        protocol_name: no_protocol(version),
        member_id: member,
        ..JoinGroupResponse::default()
    }
}
