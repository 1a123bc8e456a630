//! A classic group: members join, a leader assigns, everybody syncs. `[P]`
//!
//! Its membership is soft state: the log gets the group as it stands when a
//! generation is complete, and a coordinator that takes over starts from there
//! while the members notice nothing but a new address.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use indexmap::IndexMap;

use super::answers::{load_member, refuse_join, refuse_sync};
use super::command::{Answer, Join, Sync, Synced};
use super::member::{Member, Protocols};
use super::records::GroupRecord;
use crate::protocol::ErrorCode;
use crate::protocol::messages::group_metadata_value::GroupMetadataValue;
use crate::replicated::{Decision, Now, Ticket};
use crate::types::Timestamp;

/// How long a newcomer may stay without its first answer before it is taken for
/// dead: its client may have gone and a new one come with another id.
const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// What a member takes besides what it brings along.
const MEMBER_BYTES: usize = 512;

/// Up to so many strategies are sooner walked over than put into a set.
const FEW_PROTOCOLS: usize = 16;

/// What is to be written and answered.
pub type Out = Decision<GroupRecord, Answer>;

/// The settings that a classic group obeys.
#[derive(Clone, Debug)]
pub struct ClassicConfig {
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an
    /// empty group waits for further members.
    pub initial_rebalance_delay: Duration,
    /// `group.max.size`.
    pub max_size: usize,
    /// What the members of a group may bring along and be assigned, all together.
    /// Kafka knows no such limit, but one request may not be larger either:
    /// `socket.request.max.bytes`.
    pub max_bytes: usize,
}

/// Where a group stands.
///
/// ```text
///            first member joins            all joined, or time ran out
///   Empty ────────────────────▶ Preparing ────────────────────▶ Completing
///     ▲                          Rebalance ◀──────────────────── Rebalance
///     │ the last member left     │  ▲        somebody joins or      │
///     └──────────────────────────┘  │        leaves                 │ the leader
///                                   └───────── Stable ◀─────────────┘ has assigned
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No members; offsets may be committed from outside.
    Empty,
    /// Members are asked to join again.
    PreparingRebalance,
    /// The generation stands; the leader's assignment is awaited.
    CompletingRebalance,
    /// Everybody has, or can get, its assignment.
    Stable,
}

impl State {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// The end of the join phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinTimer {
    pub(super) deadline: Duration,
    /// For the first rebalance: this step's delay, and how much may be added.
    pub(super) initial: Option<(Duration, Duration)>,
}

/// A classic group.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    /// Its id.
    pub id: Arc<str>,
    pub(super) state: State,
    /// It was empty before the rebalance that is going on.
    pub(super) was_empty: bool,
    /// Since when it is in this state.
    pub state_since: Timestamp,
    /// `consumer`, `connect`, …; none for a group that never had a member.
    pub protocol_type: Option<Arc<str>>,
    /// The strategy of this generation.
    pub protocol: Option<Arc<str>>,
    /// Who assigns.
    pub leader: Option<Arc<str>>,
    /// Counts complete rebalances.
    pub generation: i32,
    pub(super) members: IndexMap<Arc<str>, Member>,
    static_members: HashMap<Arc<str>, Arc<str>>,
    /// Newcomers that were told their id and shall join again, until when.
    pub(super) pending_join: HashMap<Arc<str>, Duration>,
    /// Members that have yet to sync in this generation.
    pub(super) pending_sync: BTreeSet<Arc<str>>,
    pub(super) new_member_added: bool,
    pub(super) join_timer: Option<JoinTimer>,
    pub(super) sync_deadline: Option<Duration>,
}

impl ClassicGroup {
    /// A group without members.
    pub fn new(id: Arc<str>, now: Timestamp) -> Self {
        Self {
            id,
            state: State::Empty,
            was_empty: false,
            state_since: now,
            protocol_type: None,
            protocol: None,
            leader: None,
            generation: 0,
            members: IndexMap::new(),
            static_members: HashMap::new(),
            pending_join: HashMap::new(),
            pending_sync: BTreeSet::new(),
            new_member_added: false,
            join_timer: None,
            sync_deadline: None,
        }
    }

    /// The group as the log has it. Its members get a whole session to report.
    pub fn load(id: Arc<str>, value: &GroupMetadataValue, now: Now) -> Self {
        let mut group = Self::new(id, Timestamp(value.current_state_timestamp));
        group.protocol_type =
            (!value.protocol_type.is_empty()).then(|| Arc::from(&value.protocol_type));
        group.protocol = value.protocol.as_ref().map(Arc::from);
        group.leader = value.leader.as_ref().map(Arc::from);
        group.generation = value.generation;
        for member in &value.members {
            group.insert(load_member(member, group.protocol.as_ref(), now));
        }
        if !group.members.is_empty() {
            group.state = State::Stable;
        }
        group
    }

    /// Where the group stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Its members, in the order they came.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// True when nobody is a member and nobody was told to become one.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.pending_join.is_empty()
    }

    /// The next moment when something is due.
    pub fn deadline(&self) -> Option<Duration> {
        let sessions = self.members.values().filter(|member| !member.is_waiting() || member.is_new);
        sessions
            .map(|member| member.deadline)
            .chain(self.pending_join.values().copied())
            .chain(self.join_timer.map(|timer| timer.deadline))
            .chain(self.sync_deadline)
            .min()
    }

    // ── joining ─────────────────────────────────────────────────────────────

    /// A JoinGroup. Answered at once or when the rebalance closes.
    pub fn join(
        &mut self,
        now: Now,
        ticket: Ticket,
        join: Join,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        if !self.has_room_for(&join.member, config) {
            self.dismiss(&join.member, out);
            return out.answers.push(refuse_join(ticket, "", ErrorCode::GroupMaxSizeReached));
        }
        if self.bytes_without(&join.member) + join_bytes(&join) > config.max_bytes {
            let was_member = self.members.contains_key(&join.member);
            self.dismiss(&join.member, out);
            out.answers.push(refuse_join(ticket, "", ErrorCode::GroupMaxSizeReached));
            if was_member {
                self.rebalance_or_complete(now, config, out);
            }
            return;
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            return out.answers.push(refuse_join(
                ticket,
                &join.member,
                ErrorCode::InconsistentGroupProtocol,
            ));
        }
        if join.member.is_empty() {
            self.join_new(now, ticket, join, config, out);
        } else if self.pending_join.contains_key(&join.member) {
            let id = join.member.clone();
            self.add(now, ticket, id, join, config, out);
        } else if let Err(error) = self.validate(&join.member, join.instance.as_ref()) {
            out.answers.push(refuse_join(ticket, &join.member, error));
        } else {
            self.join_again(now, ticket, join, config, out);
        }
    }

    fn join_new(
        &mut self,
        now: Now,
        ticket: Ticket,
        join: Join,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        let prefix = join.instance.as_ref().unwrap_or(&join.client_id);
        let id: Arc<str> = format!("{prefix}-{}", join.fresh_id).into();
        match &join.instance {
            Some(instance) => match self.static_members.get(instance).cloned() {
                Some(old) => self.replace_static(now, ticket, &old, id, join, config, out),
                None => self.add(now, ticket, id, join, config, out),
            },
            None if join.member_id_required => {
                self.pending_join.insert(id.clone(), now.monotonic + join.session_timeout);
                out.answers.push(refuse_join(ticket, &id, ErrorCode::MemberIdRequired));
            }
            None => self.add(now, ticket, id, join, config, out),
        }
    }

    fn add(
        &mut self,
        now: Now,
        ticket: Ticket,
        id: Arc<str>,
        join: Join,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        if self.state == State::PreparingRebalance && self.was_empty {
            self.new_member_added = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        self.pending_join.remove(&id);
        self.insert(Member {
            id,
            instance_id: join.instance,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout: join.rebalance_timeout,
            session_timeout: join.session_timeout,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(ticket),
            syncing: None,
            is_new: true,
            deadline: now.monotonic + NEW_MEMBER_TIMEOUT,
        });
        self.rebalance_or_complete(now, config, out);
    }

    /// A member that is known joins again.
    fn join_again(
        &mut self,
        now: Now,
        ticket: Ticket,
        join: Join,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        let is_leader = self.leader.as_ref() == Some(&join.member);
        let Some(member) = self.members.get_mut(&join.member) else { return };
        let unchanged = member.protocols == join.protocols;
        let rebalances = match self.state {
            State::PreparingRebalance => true,
            State::CompletingRebalance => !unchanged,
            State::Stable => is_leader || !unchanged,
            State::Empty => {
                return out.answers.push(refuse_join(
                    ticket,
                    &join.member,
                    ErrorCode::UnknownMemberId,
                ));
            }
        };
        if !rebalances {
            // Its answer of this generation was lost on the way.
            let lists_members = is_leader && self.state == State::CompletingRebalance;
            let answer = self.joined(&join.member, lists_members, false);
            return out.answers.push((ticket, answer));
        }
        if let Some(stale) = member.joining.replace(ticket) {
            out.answers.push(refuse_join(stale, &join.member, ErrorCode::UnknownMemberId));
        }
        member.protocols = join.protocols;
        member.rebalance_timeout = join.rebalance_timeout;
        member.session_timeout = join.session_timeout;
        self.rebalance_or_complete(now, config, out);
    }

    /// A static member came back without its member id: it takes the place of
    /// what it was, and what it was is fenced (KIP-345).
    #[expect(
        clippy::too_many_arguments,
        reason = "one step of join with all that join has at hand"
    )]
    fn replace_static(
        &mut self,
        now: Now,
        ticket: Ticket,
        old: &Arc<str>,
        id: Arc<str>,
        join: Join,
        config: &ClassicConfig,
        out: &mut Out,
    ) {
        let Some((at, _, mut member)) = self.members.shift_remove_full(old) else { return };
        if let Some(joining) = member.joining.take() {
            out.answers.push(refuse_join(joining, old, ErrorCode::FencedInstanceId));
        }
        if let Some(syncing) = member.syncing.take() {
            out.answers.push((syncing, refuse_sync(ErrorCode::FencedInstanceId)));
        }
        let was_leader = self.leader.as_ref() == Some(old);
        if was_leader {
            self.leader = Some(id.clone());
        }
        if self.pending_sync.remove(old) {
            self.pending_sync.insert(id.clone());
        }
        let changed = member.protocols != join.protocols;
        member.id = id.clone();
        member.protocols = join.protocols;
        member.rebalance_timeout = join.rebalance_timeout;
        member.session_timeout = join.session_timeout;
        member.client_id = join.client_id;
        member.client_host = join.client_host;
        member.deadline = now.monotonic + member.session_timeout;
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), id.clone());
        }
        self.members.shift_insert(at, id.clone(), member);
        if self.state == State::Stable && !(changed && self.elect_protocol() != self.protocol) {
            let skips = join.can_skip_assignment;
            let mut answer = self.joined(&id, skips && was_leader, skips && was_leader);
            if let Answer::Join(joined) = &mut answer
                && !skips
                && was_leader
            {
                // An old client that finds itself leader would assign anew; it must
                // not, so it is told that its former self leads.
                joined.leader = old.clone();
            }
            out.records.push(self.record());
            return out.answers.push((ticket, answer));
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.joining = Some(ticket);
        }
        self.rebalance_or_complete(now, config, out);
    }

    fn has_room_for(&self, member: &str, config: &ClassicConfig) -> bool {
        match self.state {
            State::Empty => true,
            State::PreparingRebalance => {
                self.members.get(member).is_some_and(|member| member.joining.is_some())
                    || self.members.values().filter(|member| member.joining.is_some()).count()
                        < config.max_size
            }
            State::CompletingRebalance | State::Stable => {
                self.members.contains_key(member) || self.members.len() < config.max_size
            }
        }
    }

    /// What the group's members and newcomers hold in memory, about.
    fn bytes_without(&self, id: &str) -> usize {
        let others = self.members.values().filter(|member| &*member.id != id);
        let members = others.map(|member| {
            let names = [&member.id, &member.client_id].map(|name| name.len());
            let instance = member.instance_id.as_ref().map_or(0, |instance| instance.len());
            MEMBER_BYTES
                + names.iter().sum::<usize>()
                + instance
                + protocol_bytes(&member.protocols)
                + member.assignment.len()
        });
        let pending = self.pending_join.keys().map(|id| MEMBER_BYTES + id.len());
        members.sum::<usize>() + pending.sum::<usize>()
    }

    fn supports(&self, protocol_type: &str, protocols: &Protocols) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        if self.protocol_type.as_deref() != Some(protocol_type) {
            return false;
        }
        let common = self.common_protocols();
        protocols.iter().any(|(name, _)| common.contains(name))
    }

    /// The strategies that all members support. A client may name very many.
    fn common_protocols(&self) -> HashSet<&Arc<str>> {
        let fewest = self.members.values().min_by_key(|member| member.protocols.len());
        let Some(fewest) = fewest else { return HashSet::new() };
        let mut common: HashSet<_> = fewest.protocols.iter().map(|(name, _)| name).collect();
        for member in self.members.values() {
            if member.protocols.len() <= FEW_PROTOCOLS {
                common.retain(|name| member.supports(name));
            } else {
                let own: HashSet<_> = member.protocols.iter().map(|(name, _)| name).collect();
                common.retain(|name| own.contains(name));
            }
        }
        common
    }

    /// That the member is one, and that its static identity is still its own.
    pub fn validate(&self, member: &str, instance: Option<&Arc<str>>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.static_members.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if &**current != member => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    // ── rebalancing ─────────────────────────────────────────────────────────

    fn rebalance_or_complete(&mut self, now: Now, config: &ClassicConfig, out: &mut Out) {
        if self.state != State::PreparingRebalance {
            self.prepare_rebalance(now, config, out);
        } else if !self.was_empty && self.all_joined() {
            self.complete_join(now, out);
        }
    }

    pub(super) fn prepare_rebalance(&mut self, now: Now, config: &ClassicConfig, out: &mut Out) {
        if self.state == State::CompletingRebalance {
            self.answer_syncs(now, ErrorCode::RebalanceInProgress, out);
        }
        self.pending_sync.clear();
        self.sync_deadline = None;
        self.was_empty = self.state == State::Empty;
        self.enter(State::PreparingRebalance, now);
        if self.was_empty {
            self.new_member_added = false;
            let delay = config.initial_rebalance_delay;
            let rest = self.rebalance_timeout().saturating_sub(delay);
            self.join_timer =
                Some(JoinTimer { deadline: now.monotonic + delay, initial: Some((delay, rest)) });
        } else if self.all_joined() {
            self.complete_join(now, out);
        } else {
            let deadline = now.monotonic + self.rebalance_timeout();
            self.join_timer = Some(JoinTimer { deadline, initial: None });
        }
    }

    pub(super) fn all_joined(&self) -> bool {
        self.pending_join.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// Ends the join phase: who has not joined is out, a generation begins.
    pub(super) fn complete_join(&mut self, now: Now, out: &mut Out) {
        self.join_timer = None;
        let absent: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|member| member.joining.is_none() && member.instance_id.is_none())
            .map(|member| member.id.clone())
            .collect();
        for member in absent {
            self.remove(&member);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Only static members are left and none has joined: wait once more.
            let deadline = now.monotonic + self.rebalance_timeout();
            self.join_timer = Some(JoinTimer { deadline, initial: None });
            return;
        }
        self.generation = self.generation.wrapping_add(1).max(0);
        if self.members.is_empty() {
            self.protocol = None;
            self.enter(State::Empty, now);
            return out.records.push(self.record());
        }
        self.protocol = self.elect_protocol();
        self.enter(State::CompletingRebalance, now);
        self.answer_joins(now, out);
        self.sync_deadline = Some(now.monotonic + self.rebalance_timeout());
    }

    fn answer_joins(&mut self, now: Now, out: &mut Out) {
        let ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.joined(&id, self.leader.as_ref() == Some(&id), false);
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.is_new = false;
            member.deadline = now.monotonic + member.session_timeout;
            if let Some(ticket) = member.joining.take() {
                out.answers.push((ticket, answer));
            }
            self.pending_sync.insert(id);
        }
    }

    /// Keeps the leader if it has joined, else takes the first who has.
    fn elect_joined_leader(&mut self) -> bool {
        let leads = |group: &Self, id: &Arc<str>| {
            group.members.get(id).is_some_and(|member| member.joining.is_some())
        };
        if self.leader.as_ref().is_some_and(|leader| leads(self, leader)) {
            return true;
        }
        let joined = self.members.values().find(|member| member.joining.is_some());
        match joined.map(|member| member.id.clone()) {
            Some(id) => {
                self.leader = Some(id);
                true
            }
            None => false,
        }
    }

    /// Every member votes for the first of its strategies that all support. Of equals
    /// Kafka takes the one that comes first in a Java hash map.
    fn elect_protocol(&self) -> Option<Arc<str>> {
        let common = self.common_protocols();
        let mut votes: IndexMap<&Arc<str>, usize> = IndexMap::new();
        for member in self.members.values() {
            let mut names = member.protocols.iter().map(|(name, _)| name);
            if let Some(choice) = names.find(|name| common.contains(name)) {
                *votes.entry(choice).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let best = votes.into_iter().filter(|(_, count)| *count == most);
        best.min_by_key(|(name, _)| java_bucket(name)).map(|(name, _)| name.clone())
    }

    fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    fn enter(&mut self, state: State, now: Now) {
        self.state = state;
        self.state_since = now.wall;
    }

    // ── syncing, heartbeats, leaving ────────────────────────────────────────

    /// A SyncGroup; the leader's ends the rebalance.
    pub fn sync(&mut self, now: Now, ticket: Ticket, sync: Sync, out: &mut Out) {
        if let Err(error) = self.validate_sync(&sync) {
            return out.answers.push((ticket, refuse_sync(error)));
        }
        let id = sync.identity.member.clone();
        match self.state {
            State::Empty => out.answers.push((ticket, refuse_sync(ErrorCode::UnknownMemberId))),
            State::PreparingRebalance => {
                out.answers.push((ticket, refuse_sync(ErrorCode::RebalanceInProgress)));
            }
            State::Stable => {
                self.has_synced(&id);
                let assignment = self.members.get(&id).map(|member| member.assignment.clone());
                out.answers.push((ticket, self.synced(assignment.unwrap_or_default())));
            }
            State::CompletingRebalance => {
                self.has_synced(&id);
                if let Some(stale) =
                    self.members.get_mut(&id).and_then(|member| member.syncing.replace(ticket))
                {
                    out.answers.push((stale, refuse_sync(ErrorCode::UnknownMemberId)));
                }
                if self.leader.as_ref() == Some(&id) {
                    self.assign(now, sync.assignments, out);
                }
            }
        }
    }

    fn validate_sync(&self, sync: &Sync) -> Result<(), ErrorCode> {
        let identity = &sync.identity;
        self.validate(&identity.member, identity.instance.as_ref())?;
        if identity.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |asked: &Option<Arc<str>>, actual: &Option<Arc<str>>| {
            asked.is_some() && asked != actual
        };
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// Takes the leader's assignment; members it forgot get an empty one, and
    /// what it says of strangers is ignored.
    fn assign(&mut self, now: Now, assignments: Vec<(Arc<str>, Bytes)>, out: &mut Out) {
        let mut assignments: HashMap<Arc<str>, Bytes> = assignments.into_iter().collect();
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&member.id).unwrap_or_default();
        }
        out.records.push(self.record());
        self.answer_syncs(now, ErrorCode::None, out);
        self.enter(State::Stable, now);
    }

    /// Answers whoever waits for an assignment.
    fn answer_syncs(&mut self, now: Now, error: ErrorCode, out: &mut Out) {
        let (protocol_type, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        for member in self.members.values_mut() {
            if !error.is_ok() {
                member.assignment = Bytes::new();
            }
            let Some(ticket) = member.syncing.take() else { continue };
            member.deadline = now.monotonic + member.session_timeout;
            let answer = if error.is_ok() {
                Answer::Sync(Synced {
                    error,
                    protocol_type: protocol_type.clone(),
                    protocol: protocol.clone(),
                    assignment: member.assignment.clone(),
                })
            } else {
                refuse_sync(error)
            };
            out.answers.push((ticket, answer));
        }
    }

    fn has_synced(&mut self, member: &Arc<str>) {
        self.pending_sync.remove(member);
        if self.pending_sync.is_empty() {
            self.sync_deadline = None;
        }
    }

    /// A Heartbeat, or a commit that counts as one.
    pub fn heartbeat(
        &mut self,
        now: Now,
        member: &str,
        instance: Option<&Arc<str>>,
        generation: i32,
    ) -> ErrorCode {
        if let Err(error) = self.validate(member, instance) {
            return error;
        }
        if generation != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        self.touch(now, member);
        match self.state {
            State::Empty => ErrorCode::UnknownMemberId,
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            State::CompletingRebalance | State::Stable => ErrorCode::None,
        }
    }

    /// Begins a member's session anew.
    pub fn touch(&mut self, now: Now, member: &str) {
        if let Some(member) = self.members.get_mut(member)
            && !member.is_new
        {
            member.deadline = now.monotonic + member.session_timeout;
        }
    }

    /// Removes those who leave; each gets its own error.
    pub fn leave(
        &mut self,
        now: Now,
        leavers: &[super::command::Leaver],
        config: &ClassicConfig,
        out: &mut Out,
    ) -> Vec<ErrorCode> {
        let mut errors = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            errors.push(match self.leaving(&leaver.member, leaver.instance.as_ref()) {
                Err(error) => error,
                Ok(id) => {
                    self.dismiss(&id, out);
                    ErrorCode::None
                }
            });
        }
        if errors.contains(&ErrorCode::None) && self.state != State::Empty {
            self.rebalance_or_complete(now, config, out);
        }
        errors
    }

    /// Whom a LeaveGroup means.
    fn leaving(
        &self,
        member: &Arc<str>,
        instance: Option<&Arc<str>>,
    ) -> Result<Arc<str>, ErrorCode> {
        if member.is_empty() {
            let current = instance.and_then(|instance| self.static_members.get(instance));
            return current.cloned().ok_or(ErrorCode::UnknownMemberId);
        }
        if !self.pending_join.contains_key(member) {
            self.validate(member, instance)?;
        }
        Ok(member.clone())
    }

    /// Removes a member and answers what it still waits for.
    pub(super) fn dismiss(&mut self, id: &Arc<str>, out: &mut Out) {
        if let Some(member) = self.remove(id) {
            if let Some(ticket) = member.joining {
                out.answers.push(refuse_join(ticket, "", ErrorCode::UnknownMemberId));
            }
            if let Some(ticket) = member.syncing {
                out.answers.push((ticket, refuse_sync(ErrorCode::UnknownMemberId)));
            }
        }
    }

    // ── members and answers ─────────────────────────────────────────────────

    fn insert(&mut self, member: Member) {
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), member.id.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(member.id.clone());
        }
        self.members.insert(member.id.clone(), member);
    }

    fn remove(&mut self, id: &str) -> Option<Member> {
        self.pending_join.remove(id);
        self.pending_sync.remove(id);
        let member = self.members.shift_remove(id)?;
        if let Some(instance) = &member.instance_id
            && self.static_members.get(instance).is_some_and(|current| &**current == id)
        {
            self.static_members.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(member)
    }
}

fn protocol_bytes(protocols: &Protocols) -> usize {
    protocols.iter().map(|(name, metadata)| MEMBER_BYTES / 8 + name.len() + metadata.len()).sum()
}

fn join_bytes(join: &Join) -> usize {
    let instance = join.instance.as_ref().map_or(0, |instance| instance.len());
    // The id that it is given begins with one of them.
    MEMBER_BYTES + 2 * join.client_id.len() + 2 * instance + protocol_bytes(&join.protocols)
}

/// The place of a name in a Java hash map of no more than twelve entries.
fn java_bucket(name: &str) -> u32 {
    let hash = name
        .encode_utf16()
        .fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash ^ (hash >> 16)) & 15
}
