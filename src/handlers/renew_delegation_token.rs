//! RenewDelegationToken: refused on channels that cannot have tokens.

use super::RequestContext;
use super::create_delegation_token::NO_TIME;
use crate::protocol::ErrorCode;
use crate::protocol::messages::renew_delegation_token_request::RenewDelegationTokenRequest;
use crate::protocol::messages::renew_delegation_token_response::RenewDelegationTokenResponse;

/// Refuses.
pub async fn handle(
    _context: &RequestContext<'_>,
    _request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse {
    RenewDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        expiry_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}
