//! The leader's view of a partition's replicas: who is in sync, how far each
//! has come, and therefore how far the high watermark may go. `[P]`
//!
//! A follower acknowledges by fetching: an offset that it asks for says that it
//! holds everything below. The high watermark is the lowest log end among the
//! in-sync replicas and those about to join them; it never goes back while one
//! leader lasts, and it stands still while fewer replicas are in sync than
//! `min.insync.replicas` asks for (KIP-966).

use std::time::Duration;

use crate::types::{BrokerId, Offset};

/// How far one follower has come, as its fetches tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The follower.
    pub broker: BrokerId,
    /// First offset that it still holds; unknown before its first fetch.
    pub log_start: Option<Offset>,
    /// Offset that it fetches next; unknown before its first fetch.
    pub log_end: Option<Offset>,
    /// The leader's log end when it fetched last.
    leader_end_at_fetch: Offset,
    /// Monotonic time of its last fetch.
    last_fetch: Duration,
    /// Last time at which it is known to have held all that the leader held.
    last_caught_up: Duration,
}

/// One follower's fetch, as the leader saw it before it read its own log.
#[derive(Clone, Copy, Debug)]
pub struct FollowerFetch {
    /// Who fetches.
    pub broker: BrokerId,
    /// Where it wants to go on.
    pub fetch_offset: Offset,
    /// First offset that it holds.
    pub log_start: Offset,
    /// The leader's log end at that moment.
    pub leader_end: Offset,
    /// Monotonic time.
    pub now: Duration,
}

/// What the metadata log says about a partition's replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// All replicas, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those that the controller counts as in sync.
    pub isr: Vec<BrokerId>,
}

/// The replicas of one partition while this broker leads it.
#[derive(Debug)]
pub struct Replicas {
    local: BrokerId,
    isr: Vec<BrokerId>,
    assigned: usize,
    followers: Vec<Follower>,
    epoch_start: Offset,
    high_watermark: Offset,
    /// The leader's log end when it was last told.
    leader_end: Offset,
    max_lag: Duration,
}

impl Replicas {
    /// The view of a leader that takes over with its log ending at
    /// `epoch_start`. Nothing is known of the followers yet; members of the ISR
    /// count as caught up now, so that they are not thrown out at once.
    pub fn new(
        local: BrokerId,
        assignment: &Assignment,
        epoch_start: Offset,
        high_watermark: Offset,
        max_lag: Duration,
        now: Duration,
    ) -> Self {
        let mut replicas = Self {
            local,
            isr: Vec::new(),
            assigned: 0,
            followers: Vec::new(),
            epoch_start,
            high_watermark,
            leader_end: epoch_start,
            max_lag,
        };
        replicas.assign(assignment, now);
        replicas
    }

    /// Takes over a new assignment or ISR within the same leader epoch, keeping
    /// what is known of followers that stay.
    pub fn assign(&mut self, assignment: &Assignment, now: Duration) {
        self.assigned = assignment.replicas.len();
        self.isr.clone_from(&assignment.isr);
        self.followers.retain(|follower| assignment.replicas.contains(&follower.broker));
        for &broker in assignment.replicas.iter().filter(|&&broker| broker != self.local) {
            if self.follower(broker).is_none() {
                let in_sync = assignment.isr.contains(&broker);
                self.followers.push(Follower::unknown(broker, in_sync.then_some(now)));
            }
        }
    }

    /// The first offset that this leader's epoch may append at.
    pub fn epoch_start(&self) -> Offset {
        self.epoch_start
    }

    /// Number of replicas in sync, this broker among them.
    pub fn in_sync(&self) -> usize {
        self.isr.len()
    }

    /// `min.insync.replicas`, but never more than there are replicas.
    pub fn effective_min_in_sync(&self, min_in_sync: usize) -> usize {
        min_in_sync.min(self.assigned)
    }

    /// True when the broker is an assigned replica other than the leader.
    pub fn is_follower(&self, broker: BrokerId) -> bool {
        self.follower(broker).is_some()
    }

    /// What is known of one follower.
    pub fn follower(&self, broker: BrokerId) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.broker == broker)
    }

    /// Notes a follower's fetch; true when its log end moved, so that the high
    /// watermark may follow. A broker that is no replica changes nothing.
    pub fn fetched(&mut self, fetch: FollowerFetch) -> bool {
        let broker = fetch.broker;
        match self.followers.iter_mut().find(|follower| follower.broker == broker) {
            Some(follower) => follower.fetched(fetch),
            None => false,
        }
    }

    /// Moves the high watermark as far as the replicas allow; the new one if
    /// it moved. `leader_end` is this broker's own log end.
    pub fn advance(
        &mut self,
        leader_end: Offset,
        min_in_sync: usize,
        now: Duration,
    ) -> Option<Offset> {
        self.note_end(leader_end, now);
        if self.in_sync() < self.effective_min_in_sync(min_in_sync) {
            return None;
        }
        let mut lowest = leader_end;
        for follower in &self.followers {
            if self.holds_back(follower, now) {
                // An in-sync replica that has not fetched from this leader yet
                // may hold anything: wait for its first word.
                lowest = lowest.min(follower.log_end?);
            }
        }
        if lowest <= self.high_watermark {
            return None;
        }
        self.high_watermark = lowest;
        Some(lowest)
    }

    /// The first offset that some replica still holds, with this broker's own
    /// given; records below are gone everywhere (KIP-107).
    pub fn low_watermark(&self, local_log_start: Offset) -> Offset {
        self.followers
            .iter()
            .map(|follower| follower.log_start.unwrap_or(Offset::NONE))
            .fold(local_log_start, Offset::min)
    }

    /// In-sync followers that have not caught up for longer than
    /// `replica.lag.time.max.ms` and ought to leave the ISR.
    pub fn lagging(&self, leader_end: Offset, now: Duration) -> Vec<BrokerId> {
        self.followers
            .iter()
            .filter(|follower| self.isr.contains(&follower.broker))
            .filter(|follower| follower.log_end != Some(leader_end))
            .filter(|follower| now.saturating_sub(follower.last_caught_up) > self.max_lag)
            .map(|follower| follower.broker)
            .collect()
    }

    /// True for a follower outside the ISR that has caught up far enough to
    /// join: to the high watermark, and into this leader's own epoch.
    pub fn may_join(&self, broker: BrokerId) -> bool {
        !self.isr.contains(&broker)
            && self
                .follower(broker)
                .and_then(|follower| follower.log_end)
                .is_some_and(|end| end >= self.high_watermark && end >= self.epoch_start)
    }

    /// Followers that had all until now were caught up until now, however long
    /// ago they said so: a fetch session is silent while nothing moves.
    fn note_end(&mut self, leader_end: Offset, now: Duration) {
        let before = std::mem::replace(&mut self.leader_end, leader_end);
        if leader_end > before {
            for follower in &mut self.followers {
                if follower.log_end == Some(before) {
                    follower.last_caught_up = now;
                }
            }
        }
    }

    /// The high watermark respects members of the ISR and replicas that are
    /// close behind, since those may be members before it moves again.
    fn holds_back(&self, follower: &Follower, now: Duration) -> bool {
        let close_behind = follower.log_end.is_some()
            && now.saturating_sub(follower.last_caught_up) <= self.max_lag;
        self.isr.contains(&follower.broker) || close_behind
    }
}

impl Follower {
    fn unknown(broker: BrokerId, caught_up: Option<Duration>) -> Self {
        Self {
            broker,
            log_start: None,
            log_end: None,
            leader_end_at_fetch: Offset::ZERO,
            last_fetch: Duration::ZERO,
            last_caught_up: caught_up.unwrap_or_default(),
        }
    }

    fn fetched(&mut self, fetch: FollowerFetch) -> bool {
        if fetch.fetch_offset >= fetch.leader_end {
            self.last_caught_up = fetch.now;
        } else if self.log_end.is_some() && fetch.fetch_offset >= self.leader_end_at_fetch {
            // It now has what the leader had when it asked before.
            self.last_caught_up = self.last_fetch;
        }
        let moved = self.log_end != Some(fetch.fetch_offset);
        self.log_end = Some(fetch.fetch_offset);
        self.log_start = Some(fetch.log_start);
        self.leader_end_at_fetch = fetch.leader_end;
        self.last_fetch = fetch.now;
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Duration = Duration::from_secs(30);
    const ME: BrokerId = BrokerId(1);

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn assignment(replicas: &[i32], isr: &[i32]) -> Assignment {
        Assignment { replicas: brokers(replicas), isr: brokers(isr) }
    }

    fn leader(replicas: &[i32], isr: &[i32]) -> Replicas {
        let zero = Offset::ZERO;
        Replicas::new(ME, &assignment(replicas, isr), zero, zero, LAG, Duration::ZERO)
    }

    fn fetch(broker: i32, offset: i64, leader_end: i64, seconds: u64) -> FollowerFetch {
        FollowerFetch {
            broker: BrokerId(broker),
            fetch_offset: Offset(offset),
            log_start: Offset(0),
            leader_end: Offset(leader_end),
            now: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn alone_all_that_is_appended_is_committed() {
        let mut replicas = leader(&[1], &[1]);
        assert_eq!(replicas.advance(Offset(7), 1, Duration::ZERO), Some(Offset(7)));
        assert_eq!(replicas.advance(Offset(7), 1, Duration::ZERO), None);
        // One replica is all there is, so two cannot be asked for.
        assert_eq!(replicas.advance(Offset(9), 2, Duration::ZERO), Some(Offset(9)));
    }

    #[test]
    fn the_slowest_in_sync_replica_holds_the_high_watermark() {
        let mut replicas = leader(&[1, 2, 3], &[1, 2, 3]);
        let now = Duration::from_secs(1);
        assert_eq!(replicas.advance(Offset(10), 2, now), None, "nobody fetched yet");
        assert!(replicas.fetched(fetch(2, 8, 10, 1)));
        assert_eq!(replicas.advance(Offset(10), 2, now), None, "3 did not fetch yet");
        assert!(replicas.fetched(fetch(3, 5, 10, 1)));
        assert_eq!(replicas.advance(Offset(10), 2, now), Some(Offset(5)));
        assert!(!replicas.fetched(fetch(3, 5, 10, 1)), "asked again for the same offset");
        assert!(!replicas.fetched(fetch(9, 10, 10, 1)), "no replica of this partition");
        replicas.assign(&assignment(&[1, 2, 3], &[1, 2]), now);
        // 3 left the ISR and is not close behind.
        let later = Duration::from_secs(40);
        assert_eq!(replicas.advance(Offset(10), 2, later), Some(Offset(8)));
    }

    #[test]
    fn too_few_in_sync_replicas_stop_the_high_watermark() {
        let mut replicas = leader(&[1, 2, 3], &[1]);
        let later = Duration::from_secs(60);
        assert_eq!(replicas.advance(Offset(4), 2, later), None);
        assert_eq!(replicas.advance(Offset(4), 1, later), Some(Offset(4)));
    }

    #[test]
    fn a_replica_that_catches_up_holds_back_before_it_is_a_member() {
        let mut replicas = leader(&[1, 2], &[1]);
        replicas.fetched(fetch(2, 10, 10, 60));
        assert!(replicas.may_join(BrokerId(2)));
        let now = Duration::from_secs(61);
        assert_eq!(replicas.advance(Offset(20), 1, now), Some(Offset(10)));
    }

    #[test]
    fn who_had_everything_at_the_previous_fetch_was_caught_up_then() {
        let mut replicas = leader(&[1, 2], &[1, 2]);
        replicas.fetched(fetch(2, 5, 10, 20));
        replicas.fetched(fetch(2, 10, 30, 45));
        // At 45 s it held the ten records of 20 s: caught up at 20 s.
        assert!(replicas.lagging(Offset(30), Duration::from_secs(50)).is_empty());
        assert_eq!(replicas.lagging(Offset(30), Duration::from_secs(51)), brokers(&[2]));
        replicas.fetched(fetch(2, 30, 30, 51));
        assert!(replicas.lagging(Offset(30), Duration::from_secs(500)).is_empty());
    }

    #[test]
    fn a_silent_follower_is_caught_up_until_something_is_appended() {
        let mut replicas = leader(&[1, 2], &[1, 2]);
        replicas.advance(Offset(10), 1, Duration::ZERO);
        replicas.fetched(fetch(2, 10, 10, 1));
        replicas.advance(Offset(11), 1, Duration::from_secs(3600));
        assert!(replicas.lagging(Offset(11), Duration::from_secs(3630)).is_empty());
        assert_eq!(replicas.lagging(Offset(11), Duration::from_secs(3631)), brokers(&[2]));
    }

    #[test]
    fn a_replica_joins_only_inside_this_leaders_epoch() {
        let parts = assignment(&[1, 2], &[1]);
        let mut replicas = Replicas::new(ME, &parts, Offset(8), Offset(5), LAG, Duration::ZERO);
        replicas.fetched(fetch(2, 7, 8, 1));
        assert!(!replicas.may_join(BrokerId(2)));
        replicas.fetched(fetch(2, 8, 8, 1));
        assert!(replicas.may_join(BrokerId(2)));
    }

    #[test]
    fn low_watermark_waits_for_every_follower() {
        let mut replicas = leader(&[1, 2], &[1, 2]);
        assert_eq!(replicas.low_watermark(Offset(9)), Offset(-1));
        replicas.fetched(FollowerFetch { log_start: Offset(6), ..fetch(2, 8, 10, 1) });
        assert_eq!(replicas.low_watermark(Offset(9)), Offset(6));
        assert_eq!(leader(&[1], &[1]).low_watermark(Offset(9)), Offset(9));
    }
}
