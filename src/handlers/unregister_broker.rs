//! UnregisterBroker (64): forget a broker that will not come back.

use super::RequestContext;
use crate::protocol::Str;
use crate::protocol::messages::unregister_broker_request::UnregisterBrokerRequest;
use crate::protocol::messages::unregister_broker_response::UnregisterBrokerResponse;
use crate::types::BrokerId;

/// Answers an UnregisterBroker.
pub async fn handle(
    context: &RequestContext<'_>,
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse {
    match context.broker.controller.unregister_broker(BrokerId(request.broker_id)).await {
        Ok(()) => UnregisterBrokerResponse::default(),
        Err(error) => UnregisterBrokerResponse {
            error_code: error.code.code(),
            error_message: error.message.map(Str::from),
            ..UnregisterBrokerResponse::default()
        },
    }
}
