//! The groups of one shard, as one machine: membership of classic groups and
//! committed offsets. `[P]`
//!
//! Offsets are a fold over the log. Membership is soft state that the log backs
//! up: `replay` collects group records while the shard loads, [`GroupMachine::go_live`]
//! turns them into groups, and from then on the machine is ahead of its log.

mod answers;
mod classic;
pub mod command;
mod expiry;
#[cfg(test)]
mod histories;
mod member;
mod offsets;
pub mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

pub use self::classic::ClassicConfig;
use self::classic::{ClassicGroup, Out, State};
use self::command::{
    Answer, Command, Commit, DescribedMember, Description, FetchedOffset, Join, Leaver, Listing,
    PartitionCommit, Sync, WantedOffset,
};
use self::offsets::{Offsets, tombstone};
use self::records::{CommittedOffset, GroupRecord};
use crate::config::{Config, keys};
use crate::protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use crate::protocol::messages::group_metadata_value::GroupMetadataValue;
use crate::protocol::{ErrorCode, Message as _, Reader};
use crate::replicated::{Decision, Machine, Now, Refusal, Ticket};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// The protocol type of groups that consume; only those say which topics.
const CONSUMER: &str = "consumer";

/// The settings that groups obey.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Those of classic groups.
    pub classic: ClassicConfig,
    /// `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.
    pub session_timeouts: (Duration, Duration),
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Duration,
}

impl GroupConfig {
    /// The settings as the broker's configuration has them.
    pub fn of(config: &Config) -> Self {
        let minutes =
            u64::try_from(config.get(keys::OFFSETS_RETENTION_MINUTES)).unwrap_or_default();
        Self {
            classic: ClassicConfig {
                initial_rebalance_delay: config.millis(keys::GROUP_INITIAL_REBALANCE_DELAY_MS),
                max_size: usize::try_from(config.get(keys::GROUP_MAX_SIZE)).unwrap_or_default(),
                max_bytes: usize::try_from(config.get(keys::SOCKET_REQUEST_MAX_BYTES))
                    .unwrap_or_default(),
            },
            session_timeouts: (
                config.millis(keys::GROUP_MIN_SESSION_TIMEOUT_MS),
                config.millis(keys::GROUP_MAX_SESSION_TIMEOUT_MS),
            ),
            offset_metadata_max_bytes: usize::try_from(config.get(keys::OFFSET_METADATA_MAX_BYTES))
                .unwrap_or_default(),
            offsets_retention: Duration::from_secs(minutes * 60),
            offsets_retention_check_interval: config
                .millis(keys::OFFSETS_RETENTION_CHECK_INTERVAL_MS),
        }
    }
}

/// A group, and when it is to be looked at next.
#[derive(Clone, Debug)]
struct Slot {
    group: ClassicGroup,
    armed: Option<Duration>,
}

/// The groups of one shard.
#[derive(Clone, Debug)]
pub struct GroupMachine {
    config: GroupConfig,
    groups: HashMap<Arc<str>, Slot>,
    offsets: Offsets,
    /// What the log said of groups; none once the machine is live.
    loading: Option<HashMap<Arc<str>, GroupMetadataValue>>,
    /// When groups are to be looked at, soonest first.
    timers: BTreeSet<(Duration, Arc<str>)>,
    next_retention_check: Duration,
}

impl GroupMachine {
    /// A machine that has read nothing yet.
    pub fn new(config: GroupConfig) -> Self {
        Self {
            config,
            groups: HashMap::new(),
            offsets: Offsets::default(),
            loading: Some(HashMap::new()),
            timers: BTreeSet::new(),
            next_retention_check: Duration::ZERO,
        }
    }

    /// Ends loading: groups begin to live, and their members' sessions to run.
    pub fn go_live(&mut self, now: Now) {
        for (id, value) in self.loading.take().unwrap_or_default() {
            let group = ClassicGroup::load(id.clone(), &value, now);
            self.groups.insert(id.clone(), Slot { group, armed: None });
            self.arm(&id);
        }
        let simple: Vec<Arc<str>> = self.offsets.groups().cloned().collect();
        for id in simple {
            self.group_or_new(&id, now);
        }
        self.next_retention_check = now.monotonic + self.config.offsets_retention_check_interval;
    }

    fn group_or_new(&mut self, id: &Arc<str>, now: Now) -> &mut ClassicGroup {
        let new = || Slot { group: ClassicGroup::new(id.clone(), now.wall), armed: None };
        &mut self.groups.entry(id.clone()).or_insert_with(new).group
    }

    fn group(&mut self, id: &str) -> Option<&mut ClassicGroup> {
        self.groups.get_mut(id).map(|slot| &mut slot.group)
    }

    /// Looks at a group again no later than it needs.
    fn arm(&mut self, id: &Arc<str>) {
        let Some(slot) = self.groups.get_mut(id) else { return };
        let Some(deadline) = slot.group.deadline() else { return };
        if slot.armed.is_none_or(|armed| deadline < armed) {
            if let Some(armed) = slot.armed {
                self.timers.remove(&(armed, id.clone()));
            }
            slot.armed = Some(deadline);
            self.timers.insert((deadline, id.clone()));
        }
    }

    fn forget(&mut self, id: &Arc<str>) {
        if let Some(armed) = self.groups.remove(id).and_then(|slot| slot.armed) {
            self.timers.remove(&(armed, id.clone()));
        }
    }

    // ── membership ──────────────────────────────────────────────────────────

    fn join(&mut self, now: Now, ticket: Ticket, join: Join) -> Out {
        let mut out = Decision::nothing();
        let (shortest, longest) = self.config.session_timeouts;
        let refusal = if join.session_timeout < shortest || join.session_timeout > longest {
            Some(ErrorCode::InvalidSessionTimeout)
        } else if !join.member.is_empty() && !self.groups.contains_key(&join.group) {
            Some(ErrorCode::UnknownMemberId)
        } else {
            None
        };
        if let Some(error) = refusal {
            out.answers.push(answers::refuse_join(ticket, &join.member, error));
            return out;
        }
        let is_new = !self.groups.contains_key(&join.group);
        let id = join.group.clone();
        let config = self.config.classic.clone();
        let group = self.group_or_new(&id, now);
        group.join(now, ticket, join, &config, &mut out);
        if is_new && group.is_empty() {
            // Nobody came of it: a refused join leaves no group behind.
            self.forget(&id);
        } else if is_new {
            out.records.push(empty_record(&id, now.wall));
        }
        self.arm(&id);
        out
    }

    fn sync(&mut self, now: Now, ticket: Ticket, sync: Sync) -> Out {
        let mut out = Decision::nothing();
        let id = sync.identity.group.clone();
        match self.group(&id) {
            None => out.answers.push((ticket, answers::refuse_sync(ErrorCode::UnknownMemberId))),
            Some(group) => group.sync(now, ticket, sync, &mut out),
        }
        self.arm(&id);
        out
    }

    fn leave(&mut self, now: Now, ticket: Ticket, id: &Arc<str>, leavers: &[Leaver]) -> Out {
        let mut out = Decision::nothing();
        let config = self.config.classic.clone();
        let members = match self.group(id) {
            None => vec![ErrorCode::UnknownMemberId; leavers.len()],
            Some(group) => group.leave(now, leavers, &config, &mut out),
        };
        out.answers.push((ticket, Answer::Left(members)));
        self.arm(id);
        out
    }

    // ── offsets ─────────────────────────────────────────────────────────────

    fn commit(&mut self, now: Now, ticket: Ticket, commit: Commit) -> Out {
        if let Err(error) = self.may_commit(now, &commit) {
            let partitions = vec![error; commit.offsets.len()];
            return Decision::answer(ticket, Answer::Offsets { error, partitions });
        }
        let limit = self.config.offset_metadata_max_bytes;
        let expire = commit.retention.map(|retention| {
            let millis = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
            Timestamp(now.wall.0.saturating_add(millis))
        });
        let mut out = Decision::nothing();
        let mut partitions = Vec::with_capacity(commit.offsets.len());
        for offset in commit.offsets {
            if offset.metadata.encode_utf16().count() > limit {
                partitions.push(ErrorCode::OffsetMetadataTooLarge);
            } else {
                partitions.push(ErrorCode::None);
                out.records.push(offset_record(&commit.identity.group, offset, now.wall, expire));
            }
        }
        out.answers.push((ticket, Answer::Offsets { error: ErrorCode::None, partitions }));
        out
    }

    /// Whether these offsets may be committed; a commit also is a sign of life.
    fn may_commit(&mut self, now: Now, commit: &Commit) -> Result<(), ErrorCode> {
        let who = &commit.identity;
        if !self.groups.contains_key(&who.group) && who.generation >= 0 {
            return Err(commit.unknown_group);
        }
        let group = self.group_or_new(&who.group, now);
        if who.generation < 0 && group.state() == State::Empty {
            return Ok(());
        }
        if who.generation < 0 && who.member.is_empty() && who.instance.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        group.validate(&who.member, who.instance.as_ref())?;
        if who.generation != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if group.state() == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        group.touch(now, &who.member);
        Ok(())
    }

    fn fetch_offsets(&self, group: &str, partitions: Option<Vec<WantedOffset>>) -> Answer {
        let found =
            |topic: &Arc<str>, partition: i32, value: Option<&CommittedOffset>| FetchedOffset {
                topic: topic.clone(),
                partition,
                offset: value.map_or(Offset::NONE, |value| value.offset),
                leader_epoch: value.map_or(LeaderEpoch::NONE, |value| value.leader_epoch),
                metadata: value.map(|value| value.metadata.clone()).unwrap_or_default(),
            };
        let fetched = match partitions {
            None => self
                .offsets
                .of_group(group)
                .map(|(topic, partition, value)| found(topic, partition, Some(value)))
                .collect(),
            Some(partitions) => partitions
                .iter()
                .map(|wanted| {
                    let value = self.offsets.get(group, &wanted.topic, wanted.partition);
                    let value = value.filter(|value| value.is_of(wanted.topic_id));
                    found(&wanted.topic, wanted.partition, value)
                })
                .collect(),
        };
        Answer::Fetched(fetched)
    }

    fn delete_offsets(
        &mut self,
        ticket: Ticket,
        id: &Arc<str>,
        partitions: Vec<(Arc<str>, i32)>,
    ) -> Out {
        let refuse =
            |error| Decision::answer(ticket, Answer::Offsets { error, partitions: Vec::new() });
        let Some(group) = self.group(id) else { return refuse(ErrorCode::GroupIdNotFound) };
        if group.state() != State::Empty && group.protocol_type.as_deref() != Some(CONSUMER) {
            return refuse(ErrorCode::NonEmptyGroup);
        }
        let is_consumer = group.protocol_type.as_deref() == Some(CONSUMER);
        let subscribed = subscribed_topics(group);
        let mut out = Decision::nothing();
        let mut errors = Vec::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            // Of consumers that cannot be understood anything may be expected.
            if subscribed.as_ref().map_or(is_consumer, |topics| topics.contains(&topic)) {
                errors.push(ErrorCode::GroupSubscribedToTopic);
                continue;
            }
            errors.push(ErrorCode::None);
            if self.offsets.get(id, &topic, partition).is_some() {
                out.records.push(tombstone(id, &topic, partition));
            }
        }
        out.answers.push((ticket, Answer::Offsets { error: ErrorCode::None, partitions: errors }));
        out
    }

    // ── administration ──────────────────────────────────────────────────────

    fn describe(&mut self, id: &str) -> Option<Description> {
        let group = self.group(id)?;
        let is_stable = group.state() == State::Stable;
        let protocol = group.protocol.clone().filter(|_| is_stable).unwrap_or_default();
        let members = group.members().map(|member| DescribedMember {
            member: member.id.clone(),
            instance: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: if is_stable { member.metadata(&protocol) } else { bytes::Bytes::new() },
            assignment: member.assignment.clone(),
        });
        Some(Description {
            state: group.state().name(),
            protocol_type: group.protocol_type.clone().unwrap_or_default(),
            members: members.collect(),
            protocol,
        })
    }

    fn list(&self) -> Vec<Listing> {
        let listing = |slot: &Slot| Listing {
            group: slot.group.id.clone(),
            protocol_type: slot.group.protocol_type.clone().unwrap_or_default(),
            state: slot.group.state().name(),
        };
        let mut groups: Vec<Listing> = self.groups.values().map(listing).collect();
        groups.sort_by(|a, b| a.group.cmp(&b.group));
        groups
    }

    fn delete(&mut self, ticket: Ticket, id: &Arc<str>) -> Out {
        let error = match self.group(id) {
            None => ErrorCode::GroupIdNotFound,
            Some(group) if group.state() != State::Empty => ErrorCode::NonEmptyGroup,
            Some(_) => ErrorCode::None,
        };
        if !error.is_ok() {
            return Decision::answer(ticket, Answer::Done(error));
        }
        let mut records = self.offsets.forget_group(id);
        records.push(GroupRecord::Group { group: id.clone(), value: None });
        self.forget(id);
        // There may be more than one batch takes; the group itself goes last.
        let mut out = Decision::atomic(records, ticket, Answer::Done(error));
        out.atomic = false;
        out
    }

    /// Forgets offsets that nobody has needed for the retention time, and groups
    /// that have neither members nor offsets.
    fn expire_offsets(&mut self, now: Now, out: &mut Out) {
        let retention = self.config.offsets_retention;
        let ids: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for id in ids {
            let Some(slot) = self.groups.get(&id) else { continue };
            let group = &slot.group;
            let subscribed = subscribed_topics(group);
            let (records, all) = self.offsets.expired(&id, now.wall, retention, |topic, offset| {
                offset_age_counts_from(group, subscribed.as_ref(), topic, offset)
            });
            out.records.extend(records);
            if all && group.state() == State::Empty && group.is_empty() {
                out.records.push(GroupRecord::Group { group: id.clone(), value: None });
                self.forget(&id);
            }
        }
        out.atomic = false;
    }
}

impl Machine for GroupMachine {
    type Command = Command;
    type Record = GroupRecord;
    type Answer = Answer;
    type Error = Infallible;

    fn decide(&mut self, now: Now, ticket: Ticket, command: Command) -> Out {
        match command {
            Command::Join(join) => self.join(now, ticket, join),
            Command::Sync(sync) => self.sync(now, ticket, sync),
            Command::Heartbeat(who) => {
                let error = self.group(&who.group).map_or(ErrorCode::UnknownMemberId, |group| {
                    group.heartbeat(now, &who.member, who.instance.as_ref(), who.generation)
                });
                Decision::answer(ticket, Answer::Done(error))
            }
            Command::Leave { group, members } => self.leave(now, ticket, &group, &members),
            Command::Commit(commit) => self.commit(now, ticket, commit),
            Command::FetchOffsets { group, partitions } => {
                Decision::answer(ticket, self.fetch_offsets(&group, partitions))
            }
            Command::Describe(group) => {
                Decision::answer(ticket, Answer::Described(self.describe(&group)))
            }
            Command::List => Decision::answer(ticket, Answer::Listed(self.list())),
            Command::Delete(group) => self.delete(ticket, &group),
            Command::DeleteOffsets { group, partitions } => {
                self.delete_offsets(ticket, &group, partitions)
            }
            Command::TopicsDeleted(topics) => {
                let records = self.offsets.forget_topics(&topics);
                let mut out = Decision::atomic(records, ticket, Answer::Done(ErrorCode::None));
                out.atomic = false;
                out
            }
        }
    }

    fn replay(&mut self, _offset: Offset, record: &GroupRecord) -> Result<(), Infallible> {
        match record {
            GroupRecord::Offset { group, topic, partition, value } => {
                self.offsets.replay(group, topic, *partition, value.clone());
            }
            GroupRecord::Group { group, value } => {
                if let Some(loading) = &mut self.loading {
                    match value {
                        Some(value) => drop(loading.insert(group.clone(), value.clone())),
                        None => drop(loading.remove(group)),
                    }
                }
            }
            GroupRecord::Other(_) => {}
        }
        Ok(())
    }

    fn refused(&mut self, now: Now, decision: Out, refusal: Refusal) -> Out {
        let error = match refusal {
            Refusal::Unwritable => ErrorCode::UnknownServerError,
            Refusal::Unavailable => ErrorCode::CoordinatorNotAvailable,
        };
        let mut out = Decision::nothing();
        for (ticket, answer) in decision.answers {
            out.answers.push((ticket, answers::failed(answer, error)));
        }
        let config = self.config.classic.clone();
        for record in decision.records {
            let GroupRecord::Group { group: id, value } = record else { continue };
            match self.groups.get_mut(&id) {
                Some(slot) if value.is_some() => {
                    slot.group.not_written(now, error, &config, &mut out);
                    if slot.group.generation == 0 {
                        // It never came to be.
                        self.forget(&id);
                    }
                }
                // Its end has not been written, so it goes on.
                None if self.offsets.of_group(&id).next().is_some() => {
                    self.group_or_new(&id, now);
                }
                _ => {}
            }
            self.arm(&id);
        }
        out
    }

    fn deadline(&self) -> Option<Duration> {
        let first = self.timers.first().map(|(deadline, _)| *deadline);
        Some(first.map_or(self.next_retention_check, |first| first.min(self.next_retention_check)))
    }

    fn expire(&mut self, now: Now) -> Out {
        let mut out = Decision::nothing();
        let config = self.config.classic.clone();
        while let Some((deadline, id)) = self.timers.first().cloned() {
            if deadline > now.monotonic {
                break;
            }
            self.timers.pop_first();
            if let Some(slot) = self.groups.get_mut(&id) {
                slot.armed = None;
                slot.group.expire(now, &config, &mut out);
            }
            self.arm(&id);
        }
        if self.next_retention_check <= now.monotonic {
            self.next_retention_check =
                now.monotonic + self.config.offsets_retention_check_interval;
            self.expire_offsets(now, &mut out);
        }
        out
    }
}

/// From when an offset's age counts; none while it must be kept.
fn offset_age_counts_from(
    group: &ClassicGroup,
    subscribed: Option<&BTreeSet<Arc<str>>>,
    topic: &str,
    offset: &CommittedOffset,
) -> Option<Timestamp> {
    let Some(protocol_type) = &group.protocol_type else { return Some(offset.commit_timestamp) };
    match group.state() {
        State::Empty if group.state_since == Timestamp::NONE => Some(offset.commit_timestamp),
        State::Empty => Some(group.state_since),
        State::Stable if &**protocol_type == CONSUMER => {
            (!subscribed?.contains(topic)).then_some(offset.commit_timestamp)
        }
        _ => None,
    }
}

/// The topics that a consumer group's members subscribe to; none when it is not a
/// consumer group, or when a member's subscription cannot be read.
fn subscribed_topics(group: &ClassicGroup) -> Option<BTreeSet<Arc<str>>> {
    if group.protocol_type.as_deref() != Some(CONSUMER) {
        return None;
    }
    let mut topics = BTreeSet::new();
    for member in group.members() {
        let protocol = group.protocol.as_ref()?;
        let mut reader = Reader::new(member.metadata(protocol));
        // Some clients write version 0 whatever they claim; topics stand first in all.
        reader.i16().ok()?;
        let subscription = ConsumerProtocolSubscription::decode(&mut reader, 0).ok()?;
        topics.extend(subscription.topics.iter().map(Arc::from));
    }
    Some(topics)
}

fn offset_record(
    group: &Arc<str>,
    commit: PartitionCommit,
    now: Timestamp,
    expire: Option<Timestamp>,
) -> GroupRecord {
    GroupRecord::Offset {
        group: group.clone(),
        topic: commit.topic,
        partition: commit.partition,
        value: Some(CommittedOffset {
            offset: commit.offset,
            leader_epoch: commit.leader_epoch,
            metadata: commit.metadata,
            commit_timestamp: now,
            expire_timestamp: expire,
            topic_id: commit.topic_id,
        }),
    }
}

/// What the log gets of a group before its first generation.
fn empty_record(id: &Arc<str>, now: Timestamp) -> GroupRecord {
    let value = GroupMetadataValue {
        protocol: None,
        leader: None,
        current_state_timestamp: now.0,
        ..GroupMetadataValue::default()
    };
    GroupRecord::Group { group: id.clone(), value: Some(value) }
}
