//! DescribeGroups (15): state and members of classic groups.

use std::sync::Arc;

use super::RequestContext;
use crate::coordinator::group::command::{Answer, Command, Description};
use crate::protocol::messages::describe_groups_request::DescribeGroupsRequest;
use crate::protocol::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use crate::protocol::{ErrorCode, Str};

/// From here on a group that does not exist is an error, not a dead one (KIP-1043).
const UNKNOWN_GROUP_FROM: i16 = 6;
/// What may be done with a group, as bits, where nobody is kept from anything:
/// read, delete, describe, and their configs' two.
const ALL_OPERATIONS: i32 = (1 << 3) | (1 << 6) | (1 << 8) | (1 << 10) | (1 << 11);

/// Answers a DescribeGroups.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let mut response = DescribeGroupsResponse::default();
    for group in &request.groups {
        let mut described = describe(context, group).await;
        if request.include_authorized_operations && described.error_code == 0 {
            described.authorized_operations = ALL_OPERATIONS;
        }
        response.groups.push(described);
    }
    response
}

async fn describe(context: &RequestContext<'_>, group: &Str) -> DescribedGroup {
    let id: Arc<str> = Arc::from(group);
    let described = DescribedGroup { group_id: group.clone(), ..DescribedGroup::default() };
    match context.submit_to_group(&id, Command::Describe(id.clone())).await {
        Ok(Answer::Described(Some(description))) => fill(described, description),
        Ok(Answer::Described(None)) if context.api_version >= UNKNOWN_GROUP_FROM => {
            DescribedGroup {
                error_code: ErrorCode::GroupIdNotFound.code(),
                error_message: Some(Str::from(format!("Group {group} not found."))),
                group_state: Str::from_static("Dead"),
                ..described
            }
        }
        Ok(Answer::Described(None)) => {
            DescribedGroup { group_state: Str::from_static("Dead"), ..described }
        }
        Ok(_) => DescribedGroup { error_code: ErrorCode::UnknownServerError.code(), ..described },
        Err(error) => DescribedGroup { error_code: error.code(), ..described },
    }
}

fn fill(described: DescribedGroup, description: Description) -> DescribedGroup {
    let members = description.members.into_iter().map(|member| DescribedGroupMember {
        member_id: Str::from(&member.member),
        group_instance_id: member.instance.as_ref().map(Str::from),
        client_id: Str::from(&member.client_id),
        client_host: Str::from(&member.client_host),
        member_metadata: member.metadata,
        member_assignment: member.assignment,
        ..DescribedGroupMember::default()
    });
    DescribedGroup {
        group_state: Str::from_static(description.state),
        protocol_type: Str::from(&description.protocol_type),
        protocol_data: Str::from(&description.protocol),
        members: members.collect(),
        ..described
    }
}
