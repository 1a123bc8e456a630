//! Which brokers have been heard of lately. `[P]`
//!
//! Soft state of the active controller: a new one gives every unfenced broker a
//! fresh session, because it cannot know when it was last heard of.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::{BrokerId, Offset};

/// One broker's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Broker epoch of the registration that it belongs to.
    pub epoch: i64,
    /// When the broker was last heard of.
    pub heard: Duration,
    /// The last metadata record that the broker has applied.
    pub metadata_offset: Offset,
    /// Set when the broker began to shut down: it may go once every other
    /// broker has applied the record at this offset.
    pub shutting_down_at: Option<Offset>,
}

/// All sessions.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    timeout: Duration,
    by_broker: BTreeMap<BrokerId, Session>,
}

impl Sessions {
    /// No sessions yet; each will end `timeout` after its last heartbeat.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, by_broker: BTreeMap::new() }
    }

    /// The session of this broker under this epoch.
    pub fn get(&self, broker: BrokerId, epoch: i64) -> Option<&Session> {
        self.by_broker.get(&broker).filter(|session| session.epoch == epoch)
    }

    /// True when the broker under this epoch was heard of in time.
    pub fn is_valid(&self, broker: BrokerId, epoch: i64, now: Duration) -> bool {
        self.get(broker, epoch).is_some_and(|session| now < session.heard + self.timeout)
    }

    /// Hears a broker.
    pub fn touch(&mut self, broker: BrokerId, epoch: i64, metadata_offset: Offset, now: Duration) {
        let shutting_down_at = self.get(broker, epoch).and_then(|session| session.shutting_down_at);
        let session = Session { epoch, heard: now, metadata_offset, shutting_down_at };
        self.by_broker.insert(broker, session);
    }

    /// The broker began to shut down with the records before `offset`.
    pub fn shut_down_at(&mut self, broker: BrokerId, offset: Offset) {
        if let Some(session) = self.by_broker.get_mut(&broker) {
            session.shutting_down_at.get_or_insert(offset);
        }
    }

    /// Ends a session.
    pub fn remove(&mut self, broker: BrokerId) {
        self.by_broker.remove(&broker);
    }

    /// The first session that has run out, to be fenced.
    pub fn expired(&self, now: Duration) -> Option<BrokerId> {
        let expired = |session: &Session| now >= session.heard + self.timeout;
        self.by_broker.iter().find(|(_, session)| expired(session)).map(|(broker, _)| *broker)
    }

    /// When the next session runs out if its broker stays silent.
    pub fn deadline(&self) -> Option<Duration> {
        self.by_broker.values().map(|session| session.heard + self.timeout).min()
    }

    /// The lowest metadata offset among brokers that are not shutting down;
    /// `None` when there are none.
    pub fn lowest_active_offset(&self) -> Option<Offset> {
        let active = self.by_broker.values().filter(|session| session.shutting_down_at.is_none());
        active.map(|session| session.metadata_offset).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_runs_out_unless_its_broker_is_heard() {
        let second = Duration::from_secs;
        let mut sessions = Sessions::new(second(9));
        sessions.touch(BrokerId(1), 5, Offset(3), second(0));
        sessions.touch(BrokerId(2), 6, Offset(4), second(4));
        assert_eq!(sessions.deadline(), Some(second(9)));
        assert_eq!(sessions.expired(second(8)), None);
        assert_eq!(sessions.expired(second(9)), Some(BrokerId(1)));
        sessions.touch(BrokerId(1), 5, Offset(7), second(8));
        assert_eq!(sessions.expired(second(9)), None);
        assert!(sessions.is_valid(BrokerId(1), 5, second(16)));
        assert!(!sessions.is_valid(BrokerId(1), 4, second(16)));
        assert_eq!(sessions.lowest_active_offset(), Some(Offset(4)));
        sessions.shut_down_at(BrokerId(2), Offset(20));
        sessions.shut_down_at(BrokerId(2), Offset(30));
        assert_eq!(sessions.get(BrokerId(2), 6).unwrap().shutting_down_at, Some(Offset(20)));
        assert_eq!(sessions.lowest_active_offset(), Some(Offset(7)));
    }
}
