//! DescribeDelegationToken: refused on channels that cannot have tokens.

use super::RequestContext;
use crate::protocol::ErrorCode;
use crate::protocol::messages::describe_delegation_token_request::DescribeDelegationTokenRequest;
use crate::protocol::messages::describe_delegation_token_response::DescribeDelegationTokenResponse;

/// Refuses.
pub async fn handle(
    _context: &RequestContext<'_>,
    _request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse {
    let error_code = ErrorCode::DelegationTokenRequestNotAllowed.code();
    DescribeDelegationTokenResponse { error_code, ..Default::default() }
}
