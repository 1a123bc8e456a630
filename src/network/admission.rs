//! How many connections are let in: `max.connections` for the whole broker,
//! `max.connections.per.ip` and its overrides for each address.
//!
//! At the broker's limit accepting pauses, so that clients queue in the backlog;
//! above an address's limit a connection is closed at once. Both as Kafka does
//! (KIP-402, KIP-308).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The configured limits.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// `max.connections`
    pub total: usize,
    /// `max.connections.per.ip`
    pub per_ip: usize,
    /// `max.connections.per.ip.overrides`, names resolved.
    pub overrides: HashMap<IpAddr, usize>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let unlimited = i32::MAX as usize;
        Self { total: unlimited, per_ip: unlimited, overrides: HashMap::new() }
    }
}

/// Counts the connections of all listeners.
#[derive(Debug)]
pub struct Admissions {
    limits: ConnectionLimits,
    slots: Arc<Semaphore>,
    per_ip: Mutex<HashMap<IpAddr, usize>>,
}

impl Admissions {
    /// Nobody is in yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(limits.total.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { limits, slots, per_ip: Mutex::default() })
    }

    /// Waits until the broker may take one more connection.
    pub async fn slot(&self) -> Slot {
        Slot { _permit: self.slots.clone().acquire_owned().await.ok() }
    }

    /// Counts a connection from `ip`; `None` when its address has its share.
    pub fn admit(self: &Arc<Self>, ip: IpAddr, slot: Slot) -> Option<Admission> {
        let limit = self.limit_for(ip);
        let mut per_ip = self.per_ip.lock();
        let count = per_ip.entry(ip).or_default();
        if *count >= limit {
            if *count == 0 {
                per_ip.remove(&ip);
            }
            return None;
        }
        *count += 1;
        Some(Admission { admissions: self.clone(), ip, _slot: slot })
    }

    /// Connections that `ip` may have at a time.
    pub fn limit_for(&self, ip: IpAddr) -> usize {
        *self.limits.overrides.get(&ip).unwrap_or(&self.limits.per_ip)
    }
}

/// Room for one connection in the whole broker.
#[derive(Debug)]
pub struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

/// One connection that was let in; ends when dropped.
#[derive(Debug)]
pub struct Admission {
    admissions: Arc<Admissions>,
    ip: IpAddr,
    _slot: Slot,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut per_ip = self.admissions.per_ip.lock();
        if let Some(count) = per_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                per_ip.remove(&self.ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_address_has_its_own_share() {
        let (one, two): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let limits =
            ConnectionLimits { per_ip: 1, overrides: [(two, 0)].into(), ..Default::default() };
        let admissions = Admissions::new(limits);
        let first = admissions.admit(one, admissions.slot().await);
        assert!(first.is_some());
        assert!(admissions.admit(one, admissions.slot().await).is_none());
        assert!(admissions.admit(two, admissions.slot().await).is_none());
        drop(first);
        assert!(admissions.per_ip.lock().is_empty());
        assert!(admissions.admit(one, admissions.slot().await).is_some());
    }
}
