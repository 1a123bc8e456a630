//! DeleteGroups (42): end groups that have no members, with their offsets.

use std::collections::HashSet;
use std::sync::Arc;

use super::RequestContext;
use crate::coordinator::group::command::{Answer, Command};
use crate::protocol::messages::delete_groups_request::DeleteGroupsRequest;
use crate::protocol::messages::delete_groups_response::{
    DeletableGroupResult, DeleteGroupsResponse,
};
use crate::protocol::{ErrorCode, Str};

/// Answers a DeleteGroups.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let mut response = DeleteGroupsResponse::default();
    let mut seen = HashSet::new();
    for group in request.groups_names {
        // Who is named twice is deleted once.
        if !seen.insert(group.clone()) {
            continue;
        }
        let error = delete(context, &group).await;
        response.results.push(DeletableGroupResult {
            group_id: group,
            error_code: error.code(),
            ..DeletableGroupResult::default()
        });
    }
    response
}

async fn delete(context: &RequestContext<'_>, group: &Str) -> ErrorCode {
    let id: Arc<str> = Arc::from(group);
    match context.submit_to_group(&id, Command::Delete(id.clone())).await {
        Ok(Answer::Done(error)) => error,
        Ok(_) => ErrorCode::UnknownServerError,
        Err(error) => error,
    }
}
