//! How many connections are let in: `max.connections` for the whole broker and for
//! single listeners, `max.connections.per.ip` and its overrides for each address.
//!
//! At the broker's or the listener's limit accepting pauses, so that clients queue
//! in the backlog, and the log says so once; above an address's limit a connection is closed at once. Both as
//! Kafka does (KIP-402, KIP-308). The limits may change at any time: connections
//! that are in stay, a higher limit lets waiting ones in at once.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::warn;

/// The configured limits.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// `max.connections`
    pub total: usize,
    /// `listener.name.{listener}.max.connections`, by the listener's name.
    pub listeners: HashMap<String, usize>,
    /// `max.connections.per.ip`
    pub per_ip: usize,
    /// `max.connections.per.ip.overrides`, names resolved.
    pub overrides: HashMap<IpAddr, usize>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let unlimited = i32::MAX as usize;
        Self {
            total: unlimited,
            listeners: HashMap::new(),
            per_ip: unlimited,
            overrides: HashMap::new(),
        }
    }
}

impl ConnectionLimits {
    fn of_ip(&self, ip: IpAddr) -> usize {
        *self.overrides.get(&ip).unwrap_or(&self.per_ip)
    }

    fn of_listener(&self, listener: &str) -> usize {
        *self.listeners.get(listener).unwrap_or(&usize::MAX)
    }
}

/// Counts the connections of all listeners.
#[derive(Debug)]
pub struct Admissions {
    state: Mutex<State>,
    /// Someone left, or a limit changed.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    limits: ConnectionLimits,
    total: usize,
    listeners: HashMap<String, usize>,
    per_ip: HashMap<IpAddr, usize>,
    /// Listeners of which it was said that they have no room; it is said again only
    /// after they had plenty.
    said_full: HashSet<String>,
}

impl State {
    fn has_room(&self, listener: &str) -> bool {
        let here = *self.listeners.get(listener).unwrap_or(&0);
        self.total < self.limits.total && here < self.limits.of_listener(listener)
    }

    fn has_plenty(&self, listener: &str) -> bool {
        let here = *self.listeners.get(listener).unwrap_or(&0);
        self.total <= self.limits.total / 2 && here <= self.limits.of_listener(listener) / 2
    }
}

impl Admissions {
    /// Nobody is in yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        let state = Mutex::new(State { limits, ..State::default() });
        Arc::new(Self { state, room: Notify::new() })
    }

    /// Other limits from now on.
    pub fn set_limits(&self, limits: ConnectionLimits) {
        let mut state = self.state.lock();
        state.limits = limits;
        state.said_full.clear();
        drop(state);
        self.room.notify_waiters();
    }

    /// Waits until the broker and the listener may take one more connection.
    pub async fn slot(self: &Arc<Self>, listener: &str) -> Slot {
        loop {
            let room = self.room.notified();
            if let Some(slot) = self.try_slot(listener) {
                return slot;
            }
            room.await;
        }
    }

    fn try_slot(self: &Arc<Self>, listener: &str) -> Option<Slot> {
        let mut state = self.state.lock();
        if !state.has_room(listener) {
            if !state.said_full.contains(listener) {
                state.said_full.insert(listener.to_owned());
                let open = state.total;
                warn!(
                    "Listener {listener} lets nobody in until a connection ends: {open} are open, and \
                     max.connections, its own limit or the process's descriptors allow no more"
                );
            }
            return None;
        }
        state.total += 1;
        match state.listeners.get_mut(listener) {
            Some(count) => *count += 1,
            None => drop(state.listeners.insert(listener.to_owned(), 1)),
        }
        Some(Slot { admissions: self.clone(), listener: listener.to_owned() })
    }

    /// Counts a connection from `ip`; `None` when its address has its share.
    pub fn admit(self: &Arc<Self>, ip: IpAddr, slot: Slot) -> Option<Admission> {
        let mut state = self.state.lock();
        let count = *state.per_ip.get(&ip).unwrap_or(&0);
        if count >= state.limits.of_ip(ip) {
            // Before the slot gives itself back, which takes the same lock.
            drop(state);
            return None;
        }
        state.per_ip.insert(ip, count + 1);
        Some(Admission { ip, slot })
    }

    /// Connections that `ip` may have at a time.
    pub fn limit_for(&self, ip: IpAddr) -> usize {
        self.state.lock().limits.of_ip(ip)
    }
}

/// Room for one connection in the whole broker and in its listener.
#[derive(Debug)]
pub struct Slot {
    admissions: Arc<Admissions>,
    listener: String,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.admissions.state.lock();
        state.total -= 1;
        if let Some(count) = state.listeners.get_mut(&self.listener) {
            *count -= 1;
        }
        if state.has_plenty(&self.listener) {
            state.said_full.remove(&self.listener);
        }
        drop(state);
        self.admissions.room.notify_waiters();
    }
}

/// One connection that was let in; ends when dropped.
#[derive(Debug)]
pub struct Admission {
    ip: IpAddr,
    slot: Slot,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut state = self.slot.admissions.state.lock();
        if let Some(count) = state.per_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                state.per_ip.remove(&self.ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test]
    async fn each_address_has_its_own_share() {
        let limits =
            ConnectionLimits { per_ip: 1, overrides: [(TWO, 0)].into(), ..Default::default() };
        let admissions = Admissions::new(limits);
        let first = admissions.admit(ONE, admissions.slot("A").await);
        assert!(first.is_some());
        assert!(admissions.admit(ONE, admissions.slot("A").await).is_none());
        assert!(admissions.admit(TWO, admissions.slot("A").await).is_none());
        drop(first);
        assert!(admissions.state.lock().per_ip.is_empty());
        assert_eq!(admissions.state.lock().total, 0);
        assert!(admissions.admit(ONE, admissions.slot("A").await).is_some());
    }

    #[tokio::test]
    async fn a_listener_has_its_own_limit_below_the_brokers() {
        let listeners = [("A".to_owned(), 1)].into();
        let admissions =
            Admissions::new(ConnectionLimits { total: 2, listeners, ..Default::default() });
        let first = admissions.try_slot("A").unwrap();
        assert!(admissions.try_slot("A").is_none());
        assert!(admissions.state.lock().said_full.contains("A"));
        let _second = admissions.try_slot("B").unwrap();
        assert!(admissions.try_slot("B").is_none(), "the broker is full");
        drop(first);
        assert!(!admissions.state.lock().said_full.contains("A"));
        assert!(admissions.try_slot("B").is_some());
    }

    #[tokio::test]
    async fn a_higher_limit_lets_those_in_who_wait() {
        let admissions = Admissions::new(ConnectionLimits { total: 1, ..Default::default() });
        let _first = admissions.slot("A").await;
        let waiting = tokio::spawn({
            let admissions = admissions.clone();
            async move { admissions.slot("A").await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        admissions.set_limits(ConnectionLimits { total: 2, ..Default::default() });
        let _second = waiting.await.unwrap();
        admissions.set_limits(ConnectionLimits { total: 1, ..Default::default() });
        assert!(admissions.try_slot("A").is_none(), "a lower limit holds for newcomers");
    }
}
