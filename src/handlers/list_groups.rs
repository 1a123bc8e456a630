//! ListGroups (16): the groups that this broker coordinates.

use std::collections::HashSet;

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
    let states = lowercase(&request.states_filter);
    let types = lowercase(&request.types_filter);
    let allows = |filter: &HashSet<String>, value: &str| {
        filter.is_empty() || filter.contains(&value.to_ascii_lowercase())
    };
    let groups =
        groups.into_iter().filter(|group| allows(&states, group.state) && allows(&types, CLASSIC));
    ListGroupsResponse { groups: groups.map(answer).collect(), ..ListGroupsResponse::default() }
}

/// A filter as a set: it may be long, and there may be many groups.
fn lowercase(filter: &[Str]) -> HashSet<String> {
    filter.iter().map(|allowed| allowed.to_ascii_lowercase()).collect()
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
