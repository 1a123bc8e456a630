//! CreateDelegationToken: tokens are for clients that have authenticated over a
//! channel that proves it, which plaintext is not; Kafka's refusal of such.

use super::RequestContext;
use crate::protocol::messages::create_delegation_token_request::CreateDelegationTokenRequest;
use crate::protocol::messages::create_delegation_token_response::CreateDelegationTokenResponse;
use crate::protocol::{ErrorCode, Str};

/// A time that never was, in a refusal.
pub const NO_TIME: i64 = -1;

/// Refuses, naming who asked and for whom: everybody is anonymous here.
pub async fn handle(
    _context: &RequestContext<'_>,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    let requester = || (Str::from("User"), Str::from("ANONYMOUS"));
    let named = request.owner_principal_name.filter(|name| !name.is_empty());
    let owner = named
        .map_or_else(requester, |name| (request.owner_principal_type.unwrap_or_default(), name));
    let (token_requester_principal_type, token_requester_principal_name) = requester();
    CreateDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        principal_type: owner.0,
        principal_name: owner.1,
        token_requester_principal_type,
        token_requester_principal_name,
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}
