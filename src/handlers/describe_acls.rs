//! DescribeAcls: nobody authorizes here, and Kafka's words for that are told.

use super::{Outcome, RequestContext};
use crate::protocol::ErrorCode;
use crate::protocol::messages::describe_acls_request::DescribeAclsRequest;
use crate::protocol::messages::describe_acls_response::DescribeAclsResponse;

/// The code that stands for nothing in every enumeration of access control: who
/// sends it is cut off, as in Kafka.
pub const UNKNOWN: i8 = 0;

/// Refuses.
pub async fn handle(
    _context: &RequestContext<'_>,
    request: DescribeAclsRequest,
) -> Outcome<DescribeAclsResponse> {
    let codes = [
        request.pattern_type_filter,
        request.resource_type_filter,
        request.permission_type,
        request.operation,
    ];
    if codes.contains(&UNKNOWN) {
        return Outcome::Close("DescribeAclsRequest contains UNKNOWN elements".into());
    }
    Outcome::Answer(DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured on the broker".into()),
        ..Default::default()
    })
}
