//! ListGroups (16): the groups that this broker coordinates.

use super::RequestContext;
use crate::coordinator::group::command::Listing;
use crate::protocol::Str;
use crate::protocol::messages::list_groups_request::ListGroupsRequest;
use crate::protocol::messages::list_groups_response::{ListGroupsResponse, ListedGroup};

/// The type of every group there is by now (KIP-848).
const CLASSIC: &str = "classic";

/// Answers a ListGroups.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let groups = match context.broker.groups.list().await {
        Ok(groups) => groups,
        Err(error) => {
            return ListGroupsResponse {
                error_code: error.code(),
                ..ListGroupsResponse::default()
            };
        }
    };
    let allows = |filter: &[Str], value: &str| {
        filter.is_empty() || filter.iter().any(|allowed| allowed.eq_ignore_ascii_case(value))
    };
    let groups = groups.into_iter().filter(|group| {
        allows(&request.states_filter, group.state) && allows(&request.types_filter, CLASSIC)
    });
    ListGroupsResponse { groups: groups.map(answer).collect(), ..ListGroupsResponse::default() }
}

fn answer(group: Listing) -> ListedGroup {
    ListedGroup {
        group_id: Str::from(&group.group),
        protocol_type: Str::from(&group.protocol_type),
        group_state: Str::from_static(group.state),
        group_type: Str::from_static(CLASSIC),
        ..ListedGroup::default()
    }
}
