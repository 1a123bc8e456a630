//! Incremental fetch: what a client wants stays with the broker, and answers
//! hold only what changed since the last one (KIP-227). `[P]`
//!
//! ```text
//! session id 0, epoch -1   full fetch, no session
//! session id 0, epoch 0    full fetch, opens a session; its id is in the answer
//! session id x, epoch n    incremental: n goes 1, 2, … 2^31-1, 1, …
//! session id x, epoch -1   full fetch, closes x      (epoch 0: closes x, opens another)
//! ```
//!
//! A session does not look at all its partitions each time. Those worth a look
//! are queued as *pending*: all new or changed ones, those that had data or an
//! error last time, and those marked because they moved. A partition leaves the
//! queue when a look at it showed nothing to say; from then on whoever owns the
//! session must [`mark`](Session::mark) it when it moves. Full fetches are
//! sessions too that nobody keeps.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::types::{LeaderEpoch, Offset, TopicId};

/// "No session" on the wire.
pub const NO_SESSION: i32 = 0;
/// Epoch of a full fetch that opens a session.
pub const INITIAL_EPOCH: i32 = 0;
/// Epoch of a full fetch that opens none.
pub const FINAL_EPOCH: i32 = -1;
/// For how long a session is safe from being evicted by larger ones, and after
/// how long without use it may be evicted by anyone.
pub const EVICTION_AGE: Duration = Duration::from_secs(120);
/// Partitions in all sessions together, at some 200 bytes each.
const MOST_PARTITIONS: usize = 1_000_000;

/// How a session names a topic: by id from Fetch 13 on, before by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicKey {
    /// By id; the name is looked up whenever the partition is read.
    Id(TopicId),
    /// By name.
    Name(Arc<str>),
}

/// A partition within a fetch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// Its topic.
    pub topic: TopicKey,
    /// Its index.
    pub partition: i32,
}

/// What the client asked for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where to read on.
    pub fetch_offset: Offset,
    /// The follower's log start; -1 from consumers.
    pub log_start: Offset,
    /// At most so many bytes of this partition.
    pub max_bytes: i32,
    /// The leader epoch that the client believes in; -1 for none.
    pub current_leader_epoch: LeaderEpoch,
    /// Epoch of the last record that a follower holds; -1 for none.
    pub last_fetched_epoch: LeaderEpoch,
}

/// What a look at a partition showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Bytes of records for the answer.
    pub bytes: usize,
    /// There is more to read than the answer has room for.
    pub undrained: bool,
    /// High watermark for the answer; -1 with an error.
    pub high_watermark: Offset,
    /// Log start for the answer; -1 with an error.
    pub log_start: Offset,
    /// The answer carries an error code.
    pub error: bool,
    /// The answer tells of a preferred read replica or a diverging epoch.
    pub redirects: bool,
}

/// One partition of a session; `P` is what the owner keeps with it.
#[derive(Debug)]
pub struct Entry<P> {
    /// Which partition.
    pub key: PartitionKey,
    /// What the client wants of it.
    pub wanted: Wanted,
    /// What the owner of the session keeps here.
    pub place: P,
    reported: Option<(Offset, Offset)>,
    pending: bool,
}

/// Why an incremental fetch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// Not the epoch that comes next.
    InvalidEpoch,
    /// Opened with topic names, used with ids, or the other way round.
    TopicIds,
}

/// The partitions of one fetch session, or of one full fetch.
#[derive(Debug)]
pub struct Session<P> {
    epoch: i32,
    uses_topic_ids: bool,
    slots: Vec<Option<Entry<P>>>,
    free: Vec<u32>,
    index: HashMap<PartitionKey, u32>,
    pending: VecDeque<u32>,
}

impl<P> Session<P> {
    /// A session without partitions; the next request must carry epoch 1.
    pub fn new(uses_topic_ids: bool) -> Self {
        Self {
            epoch: next_epoch(INITIAL_EPOCH),
            uses_topic_ids,
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            pending: VecDeque::new(),
        }
    }

    /// Number of partitions.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The epoch that the next request must carry.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Checks an incremental request against the session.
    pub fn check(&self, epoch: i32, uses_topic_ids: bool) -> Result<(), SessionError> {
        if self.epoch != epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if self.uses_topic_ids != uses_topic_ids {
            return Err(SessionError::TopicIds);
        }
        Ok(())
    }

    /// Expects the next epoch from now on.
    pub fn next_request(&mut self) {
        self.epoch = next_epoch(self.epoch);
    }

    /// Adds a partition, or changes what is wanted of it; it becomes pending.
    pub fn want(&mut self, key: PartitionKey, wanted: Wanted, place: impl FnOnce() -> P) {
        if let Some(&slot) = self.index.get(&key) {
            if let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) {
                entry.wanted = wanted;
            }
            self.mark(slot);
            return;
        }
        let entry =
            Entry { key: key.clone(), wanted, place: place(), reported: None, pending: false };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // A request of 2^32 partitions does not fit into a frame.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[slot as usize] = Some(entry);
        self.index.insert(key, slot);
        self.mark(slot);
    }

    /// Removes a partition; what its owner kept with it, if it was there. A
    /// [`Self::sweep`] has to follow.
    pub fn forget(&mut self, key: &PartitionKey) -> Option<(u32, P)> {
        let slot = self.index.remove(key)?;
        let entry = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some((slot, entry.place))
    }

    /// Has forgotten partitions be pending no more. To be called before their slots are
    /// given to others.
    pub fn sweep(&mut self) {
        let slots = &self.slots;
        self.pending.retain(|&slot| slots.get(slot as usize).is_some_and(Option::is_some));
    }

    /// Makes a partition pending, since it moved or is asked for anew.
    pub fn mark(&mut self, slot: u32) {
        if let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::as_mut)
            && !std::mem::replace(&mut entry.pending, true)
        {
            self.pending.push_back(slot);
        }
    }

    /// The slots to look at, in the order in which they share the limits.
    pub fn pending(&self) -> Vec<u32> {
        self.pending.iter().copied().collect()
    }

    /// The partition in a slot.
    pub fn entry(&self, slot: u32) -> Option<&Entry<P>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The partition in a slot, to change what is kept with it.
    pub fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry<P>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// All slots in use.
    pub fn slots(&self) -> impl Iterator<Item = (u32, &Entry<P>)> {
        (0u32..).zip(&self.slots).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// Settles what goes into an incremental answer: true for partitions that
    /// have something to say. One with data goes to the end of the queue, so
    /// that the others get their share next time; one with nothing leaves it.
    pub fn settle(&mut self, found: &[(u32, Found)]) -> Vec<bool> {
        let mut stay = VecDeque::new();
        let mut to_the_end = Vec::new();
        let mut included = Vec::with_capacity(found.len());
        for &(slot, found) in found {
            let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else {
                included.push(false);
                continue;
            };
            included.push(entry.report(found));
            if found.bytes > 0 {
                to_the_end.push(slot);
            } else if found.error || found.undrained {
                stay.push_back(slot);
            } else {
                entry.pending = false;
            }
        }
        // What was marked meanwhile was not looked at and stays in between.
        let looked_at: std::collections::HashSet<u32> =
            found.iter().map(|(slot, _)| *slot).collect();
        stay.extend(self.pending.iter().copied().filter(|slot| !looked_at.contains(slot)));
        stay.extend(to_the_end);
        self.pending = stay;
        included
    }
}

impl<P> Entry<P> {
    /// True while the partition is worth a look.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Notes what the client is told; true when there is something to tell.
    fn report(&mut self, found: Found) -> bool {
        let now = (found.high_watermark, found.log_start);
        let changed = self.reported != Some(now);
        // An error makes the client forget what it knew: tell it all again.
        self.reported = (!found.error).then_some(now);
        changed || found.bytes > 0 || found.error || found.redirects
    }
}

/// The epoch after `epoch`: 1 follows 2^31 - 1.
fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MIN..=-1 => FINAL_EPOCH,
        i32::MAX => 1,
        _ => epoch + 1,
    }
}

/// The sessions of a broker by id, at most so many as
/// `max.incremental.fetch.session.cache.slots` says.
///
/// When all slots are taken, a new session replaces one that was not used for
/// two minutes; else, a follower's replaces the smallest consumer's; else it
/// replaces the smallest one that is smaller than itself and lived for two
/// minutes; else it is not kept. Nor is it when all together would have too many
/// partitions.
#[derive(Debug)]
pub struct SessionCache<S> {
    slots: usize,
    /// In all sessions.
    partitions: usize,
    sessions: HashMap<i32, Kept<S>>,
    by_use: BTreeSet<(Duration, i32)>,
    by_worth: BTreeSet<Worth>,
}

/// What a session is worth: followers' before consumers', large before small.
type Worth = (bool, usize, i32);

#[derive(Debug)]
struct Kept<S> {
    session: S,
    privileged: bool,
    size: usize,
    created: Duration,
    used: Duration,
}

impl<S> Kept<S> {
    fn worth(&self, id: i32) -> Worth {
        (self.privileged, self.size, id)
    }
}

impl<S> SessionCache<S> {
    /// A cache for at most `slots` sessions.
    pub fn new(slots: usize) -> Self {
        Self {
            slots,
            partitions: 0,
            sessions: HashMap::new(),
            by_use: BTreeSet::new(),
            by_worth: BTreeSet::new(),
        }
    }

    /// The session of that id.
    pub fn get(&self, id: i32) -> Option<&S> {
        self.sessions.get(&id).map(|kept| &kept.session)
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Number of partitions in all sessions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// True when there may be so many more.
    pub fn has_room_for(&self, partitions: usize) -> bool {
        self.partitions.saturating_add(partitions) <= MOST_PARTITIONS
    }

    /// Ends a session.
    pub fn remove(&mut self, id: i32) -> Option<S> {
        let kept = self.sessions.remove(&id)?;
        self.partitions -= kept.size;
        self.by_use.remove(&(kept.used, id));
        self.by_worth.remove(&kept.worth(id));
        Some(kept.session)
    }

    /// Notes that a session is used at `now` and has `size` partitions.
    pub fn touch(&mut self, id: i32, size: usize, now: Duration) {
        let Some(kept) = self.sessions.get_mut(&id) else { return };
        self.by_use.remove(&(kept.used, id));
        self.by_worth.remove(&kept.worth(id));
        kept.used = now;
        self.partitions = self.partitions - kept.size + size;
        kept.size = size;
        self.by_use.insert((now, id));
        self.by_worth.insert(kept.worth(id));
    }

    /// Frees a slot for a session of `size` partitions if there is none. `Err`
    /// when no session is worth less; else the one that had to go.
    pub fn make_room(
        &mut self,
        privileged: bool,
        size: usize,
        now: Duration,
    ) -> Result<Option<S>, Full> {
        if !self.has_room_for(size) {
            return Err(Full);
        }
        if self.sessions.len() < self.slots {
            return Ok(None);
        }
        let id = self.evictable((privileged, size, 0), now).ok_or(Full)?;
        Ok(self.remove(id))
    }

    /// Keeps a session under an id that `dice` choose: positive and unused.
    /// Room must have been made.
    pub fn insert(
        &mut self,
        session: S,
        privileged: bool,
        size: usize,
        now: Duration,
        mut dice: impl FnMut() -> u64,
    ) -> i32 {
        let id = loop {
            // 31 bits of the dice, never negative.
            let id = (dice() & 0x7fff_ffff) as i32;
            if id != NO_SESSION && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let kept = Kept { session, privileged, size, created: now, used: now };
        self.partitions += size;
        self.by_use.insert((now, id));
        self.by_worth.insert(kept.worth(id));
        self.sessions.insert(id, kept);
        id
    }

    fn evictable(&self, newcomer: Worth, now: Duration) -> Option<i32> {
        let &(used, stale) = self.by_use.first()?;
        if now.saturating_sub(used) > EVICTION_AGE {
            return Some(stale);
        }
        // Young sessions are safe from their peers, not from followers.
        let cheapest = self.by_worth.iter().find(|(privileged, _, id)| {
            let grown_up = self
                .sessions
                .get(id)
                .is_some_and(|kept| now.saturating_sub(kept.created) > EVICTION_AGE);
            grown_up || (newcomer.0 && !privileged)
        })?;
        (newcomer >= *cheapest).then_some(cheapest.2)
    }
}

/// No slot is free and no session is worth less than the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(topic: &str, partition: i32) -> PartitionKey {
        PartitionKey { topic: TopicKey::Name(topic.into()), partition }
    }

    fn from(offset: i64) -> Wanted {
        Wanted {
            fetch_offset: Offset(offset),
            log_start: Offset::NONE,
            max_bytes: 1 << 20,
            current_leader_epoch: LeaderEpoch::NONE,
            last_fetched_epoch: LeaderEpoch::NONE,
        }
    }

    fn found(bytes: usize, high_watermark: i64) -> Found {
        Found { bytes, high_watermark: Offset(high_watermark), ..Found::default() }
    }

    fn session(partitions: i32) -> Session<()> {
        let mut session = Session::new(false);
        for partition in 0..partitions {
            session.want(key("t", partition), from(0), || ());
        }
        session
    }

    /// Looks at all pending slots and finds the same everywhere.
    fn settle_all(session: &mut Session<()>, found: Found) -> Vec<bool> {
        let all: Vec<_> = session.pending().into_iter().map(|slot| (slot, found)).collect();
        session.settle(&all)
    }

    #[test]
    fn only_what_changed_is_looked_at_and_told() {
        let mut session = session(3);
        assert_eq!(settle_all(&mut session, found(0, 5)), [true; 3], "all is new");
        assert!(session.pending().is_empty());
        session.mark(1);
        session.mark(1);
        assert_eq!(session.pending(), [1]);
        assert_eq!(settle_all(&mut session, found(0, 5)), [false]);
        session.mark(1);
        assert_eq!(settle_all(&mut session, found(0, 6)), [true], "high watermark moved");
        session.want(key("t", 2), from(7), || ());
        assert_eq!(session.pending(), [2], "asked for anew");
    }

    #[test]
    fn data_goes_to_the_end_and_the_unread_stays_in_front() {
        let mut session = session(3);
        let unread = Found { undrained: true, ..found(0, 9) };
        let told = session.settle(&[(0, found(100, 9)), (1, unread), (2, found(0, 0))]);
        assert_eq!(told, [true, true, true]);
        assert_eq!(session.pending(), [1, 0]);
        // Data is told again for as long as the client does not move on.
        assert_eq!(session.settle(&[(1, unread), (0, found(100, 9))]), [false, true]);
        assert_eq!(session.pending(), [1, 0]);
    }

    #[test]
    fn errors_are_told_until_they_are_gone_and_then_all_is_told_again() {
        let mut session = session(1);
        let error = Found { error: true, ..found(0, -1) };
        assert_eq!(settle_all(&mut session, found(0, 5)), [true]);
        session.mark(0);
        assert_eq!(settle_all(&mut session, error), [true]);
        assert_eq!(settle_all(&mut session, error), [true]);
        assert_eq!(settle_all(&mut session, found(0, 5)), [true], "as before the error");
        assert!(session.pending().is_empty());
    }

    #[test]
    fn a_diverging_epoch_is_told_every_time() {
        let mut session = session(1);
        settle_all(&mut session, found(0, 5));
        session.mark(0);
        let diverging = Found { redirects: true, ..found(0, 5) };
        assert_eq!(settle_all(&mut session, diverging), [true]);
    }

    #[test]
    fn what_moves_during_a_look_is_pending_afterwards() {
        let mut session = session(2);
        settle_all(&mut session, found(0, 5));
        session.mark(0);
        let looked_at = session.pending();
        session.mark(1);
        assert_eq!(looked_at, [0]);
        session.settle(&[(0, found(0, 6))]);
        assert_eq!(session.pending(), [1]);
    }

    #[test]
    fn forgotten_partitions_leave_their_slot_to_others() {
        let mut session = session(2);
        assert_eq!(session.forget(&key("t", 0)), Some((0, ())));
        assert_eq!(session.forget(&key("t", 0)), None);
        session.sweep();
        assert_eq!((session.len(), session.pending()), (1, vec![1]));
        session.want(key("u", 0), from(0), || ());
        assert_eq!(session.slots().map(|(slot, _)| slot).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(session.entry(0).map(|entry| entry.key.clone()), Some(key("u", 0)));
        assert!(session.entry_mut(7).is_none());
    }

    #[test]
    fn sessions_together_have_a_limit_of_partitions() {
        let mut cache = SessionCache::new(10);
        assert!(cache.make_room(false, MOST_PARTITIONS + 1, seconds(1)).is_err());
        let mut ids = 1..;
        let id = cache.insert((), false, 10, seconds(1), || ids.next().unwrap_or(0));
        assert!(
            cache.has_room_for(MOST_PARTITIONS - 10) && !cache.has_room_for(MOST_PARTITIONS - 9)
        );
        cache.touch(id, 3, seconds(2));
        assert_eq!(cache.partitions(), 3);
        assert!(cache.make_room(false, MOST_PARTITIONS - 2, seconds(3)).is_err());
        cache.remove(id);
        assert_eq!(cache.partitions(), 0);
    }

    #[test]
    fn epochs_count_and_wrap_to_one() {
        let mut session = session(1);
        assert_eq!(session.check(1, false), Ok(()));
        assert_eq!(session.check(2, false), Err(SessionError::InvalidEpoch));
        assert_eq!(session.check(1, true), Err(SessionError::TopicIds));
        session.next_request();
        assert_eq!(session.check(2, false), Ok(()));
        assert_eq!(next_epoch(i32::MAX), 1);
        assert_eq!(next_epoch(FINAL_EPOCH), FINAL_EPOCH);
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn cache(sessions: &[(bool, usize, u64)]) -> SessionCache<usize> {
        let mut cache = SessionCache::new(sessions.len());
        for (id, &(privileged, size, created)) in (1u64..).zip(sessions) {
            cache.insert(size, privileged, size, seconds(created), || id);
        }
        cache
    }

    #[test]
    fn a_stale_session_makes_room_for_any() {
        let mut cache = cache(&[(true, 9, 0), (false, 1, 10)]);
        assert_eq!(cache.make_room(false, 1, seconds(120)), Err(Full));
        assert_eq!(cache.make_room(false, 1, seconds(121)), Ok(Some(9)));
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.make_room(false, 1, seconds(121)), Ok(None), "there is room");
    }

    #[test]
    fn a_follower_replaces_a_consumer_but_not_the_other_way() {
        let mut cache = cache(&[(true, 1, 0), (false, 9, 0)]);
        assert_eq!(cache.make_room(false, 100, seconds(1)), Err(Full), "all are young");
        assert_eq!(cache.make_room(true, 1, seconds(1)), Ok(Some(9)));
        cache.insert(5, true, 5, seconds(1), || 7);
        assert_eq!(cache.make_room(true, 100, seconds(2)), Err(Full), "young followers");
    }

    #[test]
    fn a_larger_session_replaces_a_grown_up_smaller_one() {
        let mut cache = cache(&[(false, 5, 0), (false, 3, 0), (false, 1, 100)]);
        for id in 1..=3 {
            let size = *cache.get(id).unwrap();
            cache.touch(id, size, seconds(115));
        }
        assert_eq!(cache.partitions(), 9);
        assert_eq!(cache.make_room(false, 2, seconds(130)), Err(Full));
        assert_eq!(cache.make_room(false, 4, seconds(130)), Ok(Some(3)));
        assert!(cache.get(2).is_none());
    }

    #[test]
    fn ids_are_positive_and_unused() {
        let mut cache = cache(&[(false, 1, 0)]);
        let mut throws = [0, 1 << 31, 1, (1 << 31) + 2].into_iter();
        assert_eq!(cache.insert(1, false, 1, seconds(0), || throws.next().unwrap()), 2);
        assert_eq!(cache.remove(2), Some(1));
        assert_eq!(cache.remove(2), None);
        assert_eq!(cache.by_use.len(), 1);
    }
}
