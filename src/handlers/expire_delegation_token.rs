//! ExpireDelegationToken: refused on channels that cannot have tokens.

use super::RequestContext;
use super::create_delegation_token::NO_TIME;
use crate::protocol::ErrorCode;
use crate::protocol::messages::expire_delegation_token_request::ExpireDelegationTokenRequest;
use crate::protocol::messages::expire_delegation_token_response::ExpireDelegationTokenResponse;

/// Refuses.
pub async fn handle(
    _context: &RequestContext<'_>,
    _request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse {
    ExpireDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        expiry_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}
