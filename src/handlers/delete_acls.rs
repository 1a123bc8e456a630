//! DeleteAcls: nobody authorizes here, and Kafka's words for that are told.

use super::describe_acls::UNKNOWN;
use super::{Outcome, RequestContext};
use crate::protocol::ErrorCode;
use crate::protocol::messages::delete_acls_request::{DeleteAclsFilter, DeleteAclsRequest};
use crate::protocol::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsResponse};

/// Refuses each.
pub async fn handle(
    _context: &RequestContext<'_>,
    request: DeleteAclsRequest,
) -> Outcome<DeleteAclsResponse> {
    let is_unknown = |one: &DeleteAclsFilter| {
        [one.pattern_type_filter, one.resource_type_filter, one.permission_type, one.operation]
            .contains(&UNKNOWN)
    };
    if request.filters.iter().any(is_unknown) {
        return Outcome::Close("Filters contain UNKNOWN elements".into());
    }
    let refused = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured.".into()),
        ..Default::default()
    };
    let filter_results = vec![refused; request.filters.len()];
    Outcome::Answer(DeleteAclsResponse { filter_results, ..Default::default() })
}
