//! From a request to its answer: one file per API, and here the one `match` that
//! lists them all.

mod fetch_session;

use std::sync::Arc;
use std::time::Duration;

use crate::network::ConnectionInfo;
use crate::sys::clock::Clock;
use crate::sys::random::Random;
use crate::types::BrokerId;

/// The parts of a running broker that handlers work with.
#[derive(Debug)]
pub struct BrokerParts {
    /// `node.id`.
    pub node_id: BrokerId,
    /// The cluster's id, as `meta.properties` holds it.
    pub cluster_id: Arc<str>,
    /// Time for stamps and deadlines.
    pub clock: Arc<dyn Clock>,
    /// Dice, seeded in tests.
    pub random: Random,
}

/// One request: who asks, in which version, and the broker that is asked.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    /// The broker's parts.
    pub broker: &'a BrokerParts,
    /// The connection that the request came in on.
    pub connection: &'a ConnectionInfo,
    /// The client's name for itself; empty when it sent null.
    pub client_id: &'a str,
    /// Version of the request, within what [`crate::protocol::apis`] serves.
    pub api_version: i16,
    /// Monotonic time of arrival: deadlines count from here.
    pub received: Duration,
}
