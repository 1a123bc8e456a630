//! CreateAcls: nobody authorizes here, and Kafka's words for that are told.

use super::describe_acls::UNKNOWN;
use super::{Outcome, RequestContext};
use crate::protocol::ErrorCode;
use crate::protocol::messages::create_acls_request::{AclCreation, CreateAclsRequest};
use crate::protocol::messages::create_acls_response::{AclCreationResult, CreateAclsResponse};

/// Refuses each.
pub async fn handle(
    _context: &RequestContext<'_>,
    request: CreateAclsRequest,
) -> Outcome<CreateAclsResponse> {
    let is_unknown = |one: &AclCreation| {
        [one.resource_pattern_type, one.resource_type, one.permission_type, one.operation]
            .contains(&UNKNOWN)
    };
    if request.creations.iter().any(is_unknown) {
        return Outcome::Close("CreatableAcls contain unknown elements".into());
    }
    let refused = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured.".into()),
        ..Default::default()
    };
    let results = vec![refused; request.creations.len()];
    Outcome::Answer(CreateAclsResponse { results, ..Default::default() })
}
