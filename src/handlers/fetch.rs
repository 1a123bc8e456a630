//! Fetch: reads each partition, waits for `min.bytes` or the deadline, answers
//! with ranges of files. Followers report how far they are by fetching.
//!
//! Whether full or incremental, a fetch works on a session; a full one is kept
//! only if the client asked for it. Each round looks at the partitions that are
//! pending; if that gives too little, the fetch waits until its partitions
//! together have enough, and looks again at those that moved.

use std::time::Duration;

use super::RequestContext;
use super::fetch_answer;
use super::fetch_live::{Kind, Look, Shared};
use super::fetch_session::NO_SESSION;
use crate::config::keys;
use crate::partition::Reader;
use crate::partition::waiters::Isolation;
use crate::protocol::messages::fetch_request::FetchRequest;
use crate::protocol::messages::fetch_response::FetchResponse;
use crate::sys::clock::within;
use crate::sys::cold::{Cold, IfCold, aside};
use crate::types::BrokerId;

/// First version that may be served by a follower (KIP-392).
const FROM_FOLLOWER: i16 = 11;
/// First version that names topics by id (KIP-516).
pub const BY_TOPIC_ID: i16 = 13;
/// Looks that give way to the disk, one after another. Then one waits: the index
/// and the batches of one place are brought in by fewer, unless they are evicted as
/// fast as they are read.
const COLD_LOOKS: usize = 8;
/// Replica id of consumers.
const CONSUMER: i32 = -1;

/// The request's own parameters.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Who reads, and what it may see.
    pub reader: Reader,
    /// Bytes of records in the answer, at most.
    pub max_bytes: usize,
    /// Bytes of records to wait for.
    pub min_bytes: usize,
    /// Monotonic time at which the answer leaves in any case.
    pub deadline: Duration,
    /// Topics are named by id.
    pub by_topic_id: bool,
}

/// Answers a Fetch.
pub async fn handle(context: &RequestContext<'_>, request: FetchRequest) -> FetchResponse {
    let params = Params::of(context, &request);
    let sessions = &context.broker.fetch_sessions;
    let (fetch, kind) = match sessions.open(context, &request, &params) {
        Ok(opened) => opened,
        Err(error) => return FetchResponse { error_code: error.code(), ..Default::default() },
    };
    let mut out_of_time = params.time_left(context).is_zero();
    let mut first = true;
    let mut refusals = 0..COLD_LOOKS;
    let look = loop {
        let if_cold = refusals.next().map_or(IfCold::Wait, |_| IfCold::Refuse);
        let waiter = {
            let mut fetch = fetch.lock();
            match fetch.look(context, &params, first, if_cold) {
                Ok(look) if out_of_time || look.is_enough(&params) => break look,
                Ok(look) => {
                    fetch.watch_pending(params.reader.isolation);
                    Ok(fetch.waiter(params.min_bytes - look.bytes))
                }
                Err(cold) => Err(cold),
            }
        };
        match waiter {
            Ok(waiter) => {
                first = false;
                refusals = 0..COLD_LOOKS;
                out_of_time = within(params.time_left(context), waiter).await.is_none();
            }
            Err(cold) => {
                let brought = aside(move || cold.iter().try_for_each(Cold::bring_in)).await;
                if brought.is_err() {
                    // The next look waits, meets the same error and tells it.
                    refusals = 0..0;
                }
            }
        }
    };
    finish(context, &params, fetch, kind, look)
}

fn finish(
    context: &RequestContext<'_>,
    params: &Params,
    fetch: Shared,
    kind: Kind,
    look: Look,
) -> FetchResponse {
    let answers = match fetch.lock().settle(kind, look, params.reader.isolation) {
        Ok(answers) => answers,
        Err(error) => return FetchResponse { error_code: error.code(), ..Default::default() },
    };
    let session_id = match kind {
        Kind::Full => NO_SESSION,
        Kind::Incremental { id, .. } => id,
        Kind::Opening => {
            let follower = params.reader.follower.is_some();
            context.broker.fetch_sessions.keep(fetch, follower, context.broker.clock.monotonic())
        }
    };
    fetch_answer::response(context, session_id, answers)
}

impl Params {
    fn of(context: &RequestContext<'_>, request: &FetchRequest) -> Self {
        // ReplicaState took the place of ReplicaId in version 15.
        let replica = match context.api_version {
            ..15 => request.replica_id,
            _ => request.replica_state.replica_id,
        };
        let follower = (replica >= 0).then_some(BrokerId(replica));
        let isolation = match (replica, request.isolation_level) {
            (CONSUMER, 1) => Isolation::LastStable,
            (CONSUMER, _) => Isolation::HighWatermark,
            _ => Isolation::LogEnd,
        };
        let old_consumer = replica == CONSUMER && context.api_version < FROM_FOLLOWER;
        let broker_max = context.broker.config.current().get(keys::FETCH_MAX_BYTES);
        let max_bytes = request.max_bytes.min(broker_max).max(0);
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        Self {
            reader: Reader { isolation, leader_only: follower.is_some() || old_consumer, follower },
            max_bytes: usize::try_from(max_bytes).unwrap_or(0),
            min_bytes: usize::try_from(request.min_bytes.min(max_bytes)).unwrap_or(0),
            deadline: context.received + wait,
            by_topic_id: context.api_version >= BY_TOPIC_ID,
        }
    }

    fn time_left(&self, context: &RequestContext<'_>) -> Duration {
        self.deadline.saturating_sub(context.broker.clock.monotonic())
    }
}
