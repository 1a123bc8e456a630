//! Fetch sessions at work: their partitions as found on this broker, what a look
//! at them shows, and their registration with those that they wait for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::RequestContext;
use super::error_code::partition_error;
use super::fetch::Params;
use super::fetch_answer::{self, PartitionAnswer};
use super::fetch_session::{
    FINAL_EPOCH, Found, INITIAL_EPOCH, NO_SESSION, PartitionKey, Session, SessionCache,
    SessionError, TopicKey, Wanted,
};
use crate::partition::table::Missing;
use crate::partition::waiters::{FetchWaiter, Isolation};
use crate::partition::{Extent, Limits, Partition, PartitionError, Position, Readable};
use crate::protocol::ErrorCode;
use crate::protocol::messages::fetch_request::FetchRequest;
use crate::sys::cold::{Cold, IfCold};
use crate::sys::random::Random;
use crate::types::{LeaderEpoch, Offset};

/// The fetch sessions of this broker.
#[derive(Debug)]
pub struct FetchSessions {
    cache: Mutex<SessionCache<Shared>>,
    random: Random,
}

/// A session, shared between the cache and the request that uses it.
pub type Shared = Arc<Mutex<Fetch>>;

/// What becomes of the session when the answer is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All is told, nothing is kept.
    Full,
    /// All is told; the session is kept if there is room.
    Opening,
    /// Only what changed is told.
    Incremental {
        /// The session's id.
        id: i32,
        /// The epoch that it expects next, unless another request came between.
        next_epoch: i32,
    },
}

/// A session with its partitions as found here.
#[derive(Debug)]
pub struct Fetch {
    session: Session<Place>,
    waiter: Arc<FetchWaiter>,
}

/// What a session keeps with each partition.
#[derive(Debug, Default)]
struct Place {
    partition: Option<Arc<Partition>>,
    watched: Option<Isolation>,
    /// The offsets at the last look.
    seen: Option<Extent>,
}

/// What one round of looking gave.
#[derive(Debug)]
pub struct Look {
    /// Partitions that are known here, then those that are not.
    parts: Vec<(u32, Found, PartitionAnswer)>,
    /// Bytes of records in all.
    pub bytes: usize,
    /// Something that the client should hear at once.
    urgent: bool,
    /// Not one partition of the whole fetch is known here.
    nothing_known: bool,
}

impl Look {
    /// True when the answer may leave.
    pub fn is_enough(&self, params: &Params) -> bool {
        self.urgent || self.nothing_known || self.bytes >= params.min_bytes
    }
}

impl FetchSessions {
    /// No sessions yet, and never more than `slots`.
    pub fn new(slots: usize, random: Random) -> Self {
        Self { cache: Mutex::new(SessionCache::new(slots)), random }
    }

    /// The session that a request works on, brought up to what it wants.
    pub fn open(
        &self,
        context: &RequestContext<'_>,
        request: &FetchRequest,
        params: &Params,
    ) -> Result<(Shared, Kind), ErrorCode> {
        let id = request.session_id;
        if !matches!(request.session_epoch, INITIAL_EPOCH | FINAL_EPOCH) {
            return self.resume(context, request, params);
        }
        if id != NO_SESSION {
            self.close(id);
        }
        let mut fetch = Fetch::new(params.by_topic_id);
        fetch.update(request, params);
        let kind = match request.session_epoch {
            FINAL_EPOCH => Kind::Full,
            _ => Kind::Opening,
        };
        Ok((Arc::new(Mutex::new(fetch)), kind))
    }

    fn resume(
        &self,
        context: &RequestContext<'_>,
        request: &FetchRequest,
        params: &Params,
    ) -> Result<(Shared, Kind), ErrorCode> {
        let id = request.session_id;
        let more = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        let (known, has_room) = {
            let cache = self.cache.lock();
            (cache.get(id).map(Arc::clone), cache.has_room_for(more))
        };
        let shared = known.ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if !has_room {
            // The client asks for all anew, and gets it without a session.
            self.close(id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        let (size, next_epoch) = {
            let mut fetch = shared.lock();
            fetch.session.check(request.session_epoch, params.by_topic_id).map_err(|error| {
                match error {
                    SessionError::InvalidEpoch => ErrorCode::InvalidFetchSessionEpoch,
                    SessionError::TopicIds => ErrorCode::FetchSessionTopicIdError,
                }
            })?;
            fetch.update(request, params);
            fetch.session.next_request();
            (fetch.session.len(), fetch.session.epoch())
        };
        if size == 0 {
            self.close(id);
            return Ok((shared, Kind::Full));
        }
        self.cache.lock().touch(id, size, context.broker.clock.monotonic());
        Ok((shared, Kind::Incremental { id, next_epoch }))
    }

    /// Keeps a session if there is room; its id, or that of no session.
    pub fn keep(&self, fetch: Shared, follower: bool, now: Duration) -> i32 {
        let size = fetch.lock().session.len();
        let mut cache = self.cache.lock();
        let Ok(evicted) = cache.make_room(follower, size, now) else { return NO_SESSION };
        let id = cache.insert(fetch, follower, size, now, || self.random.next_u64());
        drop(cache);
        // Its registrations end with it, outside the lock.
        drop(evicted);
        id
    }

    fn close(&self, id: i32) {
        let closed = self.cache.lock().remove(id);
        drop(closed);
    }
}

impl Fetch {
    fn new(by_topic_id: bool) -> Self {
        Self { session: Session::new(by_topic_id), waiter: Arc::default() }
    }

    /// Takes over what the request wants and no longer wants.
    fn update(&mut self, request: &FetchRequest, params: &Params) {
        for topic in &request.topics {
            let named = topic_key(params.by_topic_id, &topic.topic, topic.topic_id);
            for part in &topic.partitions {
                let wanted = Wanted {
                    fetch_offset: Offset(part.fetch_offset),
                    log_start: Offset(part.log_start_offset),
                    max_bytes: part.partition_max_bytes,
                    current_leader_epoch: LeaderEpoch(part.current_leader_epoch),
                    last_fetched_epoch: LeaderEpoch(part.last_fetched_epoch),
                };
                let key = PartitionKey { topic: named.clone(), partition: part.partition };
                self.session.want(key, wanted, Place::default);
            }
        }
        for topic in &request.forgotten_topics_data {
            let named = topic_key(params.by_topic_id, &topic.topic, topic.topic_id);
            for &partition in &topic.partitions {
                let key = PartitionKey { topic: named.clone(), partition };
                if let Some((slot, place)) = self.session.forget(&key) {
                    place.unwatch(&self.waiter, slot);
                }
            }
        }
        if !request.forgotten_topics_data.is_empty() {
            self.session.sweep();
        }
    }

    /// Looks at all that is pending or moved. Fails with what must be read from the
    /// disk before, if it may not wait for that.
    pub fn look(
        &mut self,
        context: &RequestContext<'_>,
        params: &Params,
        first: bool,
        if_cold: IfCold,
    ) -> Result<Look, Vec<Cold>> {
        for slot in self.waiter.take_dirty() {
            self.session.mark(slot);
        }
        let mut look = Look { parts: Vec::new(), bytes: 0, urgent: false, nothing_known: false };
        let (mut unknown, mut all_cold) = (Vec::new(), Vec::new());
        for slot in self.session.pending() {
            let limits = Limits {
                max_bytes: params.max_bytes - look.bytes.min(params.max_bytes),
                at_least_one: look.bytes == 0,
                if_cold,
            };
            match self.look_at(context, params, slot, limits, first) {
                Ok(Sight::Cold(cold, share)) => {
                    all_cold.push(cold);
                    // What others need is not brought in if this fills the answer.
                    look.bytes += share;
                }
                Ok(Sight::Answer(found, answer)) => {
                    look.bytes += found.bytes;
                    look.urgent |= found.error || found.redirects;
                    look.parts.push((slot, found, answer));
                }
                Err(error) => {
                    let Some(entry) = self.session.entry(slot) else { continue };
                    unknown.push((slot, ERROR, fetch_answer::failed(&entry.key, error)));
                }
            }
        }
        look.nothing_known = look.parts.is_empty() && unknown.len() == self.session.len();
        look.parts.append(&mut unknown);
        if all_cold.is_empty() { Ok(look) } else { Err(all_cold) }
    }

    /// Looks at one partition; `Err` when it is not known here at all.
    fn look_at(
        &mut self,
        context: &RequestContext<'_>,
        params: &Params,
        slot: u32,
        limits: Limits,
        first: bool,
    ) -> Result<Sight, ErrorCode> {
        let entry = self.session.entry_mut(slot).ok_or(ErrorCode::UnknownServerError)?;
        let wanted = entry.wanted;
        let own = usize::try_from(wanted.max_bytes).unwrap_or(0);
        let limits = Limits { max_bytes: limits.max_bytes.min(own), ..limits };
        let position = Position {
            fetch_offset: wanted.fetch_offset,
            current_leader_epoch: wanted.current_leader_epoch,
            last_fetched_epoch: wanted.last_fetched_epoch,
            log_start: wanted.log_start,
        };
        for _ in 0..2 {
            let partition = match &entry.place.partition {
                Some(partition) => Arc::clone(partition),
                None => match find(context, &entry.key)? {
                    Ok(partition) => partition,
                    Err(error) => return Ok(failed(&entry.key, error)),
                },
            };
            match partition.read(&params.reader, &position, limits) {
                Ok(Readable { cold: Some(cold), .. }) => {
                    return Ok(Sight::Cold(cold, limits.max_bytes));
                }
                Ok(readable) => {
                    let extent = readable.extent;
                    if let (true, None, Some(follower)) =
                        (first, readable.diverging, params.reader.follower)
                    {
                        partition.follower_fetched(follower, &position, extent.log_end);
                    }
                    entry.place.partition = Some(partition);
                    entry.place.seen = Some(extent);
                    let isolation = params.reader.isolation;
                    let (found, answer) = fetch_answer::read(&entry.key, readable, isolation);
                    return Ok(Sight::Answer(found, answer));
                }
                // Deleted, and perhaps created anew: look it up once more.
                Err(PartitionError::Gone) => {
                    entry.place.unwatch(&self.waiter, slot);
                    entry.place = Place::default();
                }
                Err(error) => {
                    entry.place.partition = Some(partition);
                    entry.place.seen = None;
                    return Ok(failed(&entry.key, partition_error(&error)));
                }
            }
        }
        Err(unknown(&entry.key))
    }

    /// Registers with all pending partitions that it does not watch yet.
    pub fn watch_pending(&mut self, isolation: Isolation) {
        for slot in self.session.pending() {
            self.watch(slot, isolation);
        }
    }

    fn watch(&mut self, slot: u32, isolation: Isolation) {
        let Some(entry) = self.session.entry_mut(slot) else { return };
        let Some(partition) = entry.place.partition.as_ref().map(Arc::clone) else { return };
        if entry.place.watched == Some(isolation) {
            return;
        }
        entry.place.unwatch(&self.waiter, slot);
        partition.watch(&self.waiter, slot, isolation, entry.place.seen);
        entry.place.watched = Some(isolation);
    }

    /// Waits for so many more bytes in the watched partitions.
    pub fn waiter(&self, bytes: usize) -> impl Future<Output = ()> + Send + use<> {
        let waiter = Arc::clone(&self.waiter);
        async move { waiter.enough(bytes as u64).await }
    }

    /// What the client is told of a look, and what stays pending.
    pub fn settle(
        &mut self,
        kind: Kind,
        look: Look,
        isolation: Isolation,
    ) -> Result<Vec<PartitionAnswer>, ErrorCode> {
        if let Kind::Incremental { next_epoch, .. } = kind
            && self.session.epoch() != next_epoch
        {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if kind == Kind::Full {
            return Ok(look.parts.into_iter().map(|(_, _, answer)| answer).collect());
        }
        let found: Vec<_> = look.parts.iter().map(|(slot, found, _)| (*slot, *found)).collect();
        let told = self.session.settle(&found);
        for &(slot, _) in &found {
            // What is no longer looked at must tell when it moves.
            if self.session.entry(slot).is_some_and(|entry| !entry.is_pending()) {
                self.watch(slot, isolation);
            }
        }
        let all = kind == Kind::Opening;
        let parts = look.parts.into_iter().zip(told);
        Ok(parts.filter(|(_, told)| *told || all).map(|((_, _, answer), _)| answer).collect())
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        for (slot, entry) in self.session.slots() {
            entry.place.unwatch(&self.waiter, slot);
        }
    }
}

impl Place {
    fn unwatch(&self, waiter: &Arc<FetchWaiter>, slot: u32) {
        if let (Some(partition), Some(_)) = (&self.partition, self.watched) {
            partition.unwatch(waiter, slot);
        }
    }
}

/// A partition that is answered with an error code.
const ERROR: Found = Found {
    bytes: 0,
    undrained: false,
    high_watermark: Offset::NONE,
    log_start: Offset::NONE,
    error: true,
    redirects: false,
};

/// What is seen of one partition.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "passed on at once; a box would be one for each read"
)]
enum Sight {
    Answer(Found, PartitionAnswer),
    /// What must be read from the disk, and the bytes that the answer may then have.
    Cold(Cold, usize),
}

fn failed(key: &PartitionKey, error: ErrorCode) -> Sight {
    Sight::Answer(ERROR, fetch_answer::failed(key, error))
}

fn topic_key(by_id: bool, name: &str, id: uuid::Uuid) -> TopicKey {
    if by_id { TopicKey::Id(id) } else { TopicKey::Name(name.into()) }
}

fn unknown(key: &PartitionKey) -> ErrorCode {
    match key.topic {
        TopicKey::Id(_) => ErrorCode::UnknownTopicId,
        TopicKey::Name(_) => ErrorCode::UnknownTopicOrPartition,
    }
}

/// The partition here. The outer error is for partitions that the cluster does
/// not have, the inner one for those that this broker cannot serve.
fn find(
    context: &RequestContext<'_>,
    key: &PartitionKey,
) -> Result<Result<Arc<Partition>, ErrorCode>, ErrorCode> {
    let table = &context.broker.partitions;
    let hosted = match &key.topic {
        TopicKey::Id(id) => table.get_by_id(*id, key.partition),
        TopicKey::Name(name) => table.get(name, key.partition),
    };
    let missing = match hosted {
        Ok(partition) => return Ok(Ok(partition)),
        Err(missing) => missing,
    };
    let image = context.image();
    let topic = match &key.topic {
        TopicKey::Id(id) => image.topic_by_id(*id),
        TopicKey::Name(name) => image.topic(name),
    };
    let topic = topic.ok_or_else(|| unknown(key))?;
    topic.partition(key.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(Err(match missing {
        Missing::Offline => ErrorCode::KafkaStorageError,
        Missing::NotHere => ErrorCode::NotLeaderOrFollower,
    }))
}
