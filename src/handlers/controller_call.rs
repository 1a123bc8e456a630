//! Asking the controller: for as long as the client wants to wait, and its
//! refusals as they stand on the wire.

use std::future::Future;
use std::time::Duration;

use super::RequestContext;
use crate::controller::ApiError;
use crate::protocol::{ErrorCode, Str};
use crate::sys::clock;

/// Waits for the controller's answer, and until what it decided has taken effect
/// on this broker; at most the client's `timeout_ms`.
pub async fn within<T>(
    context: &RequestContext<'_>,
    timeout_ms: i32,
    answer: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    // Kafka has no time at all for 0 and answers that it timed out; a change
    // that was made all the same. To wait for a moment is kinder.
    let patience = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0).max(1000));
    let answer = async {
        let answer = answer.await?;
        context.caught_up().await;
        Ok(answer)
    };
    clock::within(patience, answer).await.unwrap_or_else(|| {
        let text = "The request timed out.";
        Err(ApiError::new(ErrorCode::RequestTimedOut, text))
    })
}

/// Code and text of a result.
pub fn code_and_text<T>(result: &Result<T, ApiError>) -> (i16, Option<Str>) {
    match result {
        Ok(_) => (ErrorCode::None.code(), None),
        Err(error) => (error.code.code(), error.message.as_deref().map(Str::from)),
    }
}
