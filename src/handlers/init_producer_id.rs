//! InitProducerId: gives a producer the id under which its sequences are checked
//! (KIP-98).
//!
//! Ids come from blocks that the controller hands out, so that no two brokers,
//! and no two runs of one broker, give the same. An idempotent producer always
//! gets a new one, whatever it had before: it counts its own epochs up
//! (KIP-360) and asks again only when these are used up.

use tokio::sync::Mutex;

use super::RequestContext;
use crate::config::keys;
use crate::controller::{ApiError, ProducerIdBlock};
use crate::protocol::ErrorCode;
use crate::protocol::messages::init_producer_id_request::InitProducerIdRequest;
use crate::protocol::messages::init_producer_id_response::InitProducerIdResponse;
use crate::types::ProducerId;

/// The ids that this broker may still give away.
#[derive(Debug, Default)]
pub struct ProducerIds {
    // An async lock: whoever finds the block used up asks for the next one, and
    // the others wait for it rather than ask too.
    left: Mutex<Option<ProducerIdBlock>>,
}

impl ProducerIds {
    /// A producer id that nobody has had.
    async fn next(&self, context: &RequestContext<'_>) -> Result<ProducerId, ApiError> {
        let mut left = self.left.lock().await;
        loop {
            if let Some(block) = left.as_mut()
                && block.len > 0
            {
                let id = block.first;
                block.first = ProducerId(id.0 + 1);
                block.len -= 1;
                return Ok(id);
            }
            let broker = context.broker;
            let epoch = context.image().broker(broker.node_id).map_or(-1, |own| own.epoch);
            *left = Some(broker.controller.allocate_producer_ids(broker.node_id, epoch).await?);
        }
    }
}

/// Answers an InitProducerId.
pub async fn handle(
    context: &RequestContext<'_>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let longest = context.broker.config.current().get(keys::TRANSACTION_MAX_TIMEOUT_MS);
    if let Err(error) = judge(&request, longest) {
        return refused(error);
    }
    match context.broker.producer_ids.next(context).await {
        Ok(id) => InitProducerIdResponse { producer_id: id.0, ..Default::default() },
        Err(error) => {
            tracing::warn!(%error, "no block of producer ids");
            refused(ErrorCode::CoordinatorLoadInProgress)
        }
    }
}

fn judge(request: &InitProducerIdRequest, longest_ms: i32) -> Result<(), ErrorCode> {
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return Err(ErrorCode::InvalidRequest);
    }
    match request.transactional_id.as_deref() {
        None => Ok(()),
        Some("") => Err(ErrorCode::InvalidRequest),
        Some(_) if request.keep_prepared_txn => Err(ErrorCode::UnsupportedVersion),
        Some(_) if !(1..=longest_ms).contains(&request.transaction_timeout_ms) => {
            Err(ErrorCode::InvalidTransactionTimeout)
        }
        // No transaction coordinator runs here; another try would change nothing.
        Some(_) => Err(ErrorCode::UnsupportedVersion),
    }
}

fn refused(error: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse { error_code: error.code(), producer_epoch: -1, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_and_epoch_come_together_or_not_at_all() {
        let judged = |producer_id, producer_epoch| {
            let request = InitProducerIdRequest {
                transactional_id: None,
                producer_id,
                producer_epoch,
                ..Default::default()
            };
            judge(&request, 900_000)
        };
        assert_eq!(judged(-1, -1), Ok(()));
        assert_eq!(judged(5, 0), Ok(()));
        assert_eq!(judged(5, -1), Err(ErrorCode::InvalidRequest));
        assert_eq!(judged(-1, 3), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn transactions_need_a_coordinator() {
        let judged = |id: &str, transaction_timeout_ms| {
            let transactional_id = Some(id.into());
            let request = InitProducerIdRequest {
                transactional_id,
                transaction_timeout_ms,
                ..Default::default()
            };
            judge(&request, 900_000)
        };
        assert_eq!(judged("", 1), Err(ErrorCode::InvalidRequest));
        assert_eq!(judged("t", 0), Err(ErrorCode::InvalidTransactionTimeout));
        assert_eq!(judged("t", 900_001), Err(ErrorCode::InvalidTransactionTimeout));
        assert_eq!(judged("t", 900_000), Err(ErrorCode::UnsupportedVersion));
    }
}
