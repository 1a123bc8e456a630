//! One member of a classic group. `[P]`

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::replicated::Ticket;

/// What a member can do: assignment strategies by preference, each with the
/// member's subscription in the strategy's own format.
pub type Protocols = Vec<(Arc<str>, Bytes)>;

/// A member, from its first join until it leaves or expires.
#[derive(Clone, Debug)]
pub struct Member {
    /// Chosen by the coordinator.
    pub id: Arc<str>,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// What its client calls itself.
    pub client_id: Arc<str>,
    /// Where it connects from, as `/1.2.3.4`.
    pub client_host: Arc<str>,
    /// How long it may take to join again when a rebalance begins.
    pub rebalance_timeout: Duration,
    /// How long it may stay silent.
    pub session_timeout: Duration,
    /// Its strategies, the preferred one first.
    pub protocols: Protocols,
    /// What the leader gave it in this generation.
    pub assignment: Bytes,
    /// A JoinGroup that waits for the rebalance to close.
    pub joining: Option<Ticket>,
    /// A SyncGroup that waits for the leader's assignment.
    pub syncing: Option<Ticket>,
    /// Joined for the first time and has not had an answer yet.
    pub is_new: bool,
    /// When silence becomes expiry, on the monotonic clock; none before the
    /// first answer of a member that was loaded from the log.
    pub deadline: Duration,
}

impl Member {
    /// The member's subscription for one strategy; empty when it has none.
    pub fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| &**name == protocol)
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    /// True while the coordinator owes it an answer: it cannot be expected to
    /// send heartbeats then.
    pub fn is_waiting(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }

    /// True when it supports that strategy.
    pub fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| &**name == protocol)
    }
}
