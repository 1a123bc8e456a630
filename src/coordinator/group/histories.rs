//! Groups under random histories: members that do as the protocol wants but crash,
//! stall, and come back at any moment, and a coordinator that restarts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::command::{
    Answer, Command, Commit, Identity, Join, Leaver, PartitionCommit, Sync, Synced, WantedOffset,
};
use super::records::GroupRecord;
use super::tests::{Rig, config};
use super::{ClassicConfig, GroupConfig};
use crate::protocol::ErrorCode;
use crate::replicated::Decision;
use crate::types::{LeaderEpoch, Offset};

/// Members, and partitions to be shared among them.
const CLIENTS: usize = 4;

/// What a member knows.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Survives the process of a static member.
    instance: Option<Arc<str>>,
    member: Option<Arc<str>>,
    generation: i32,
    /// Has joined this generation and not been told of its end.
    has_joined: bool,
    /// The partition it was given, and how far it has read there.
    owned: Option<(i32, i64)>,
    waiting: Option<u64>,
    /// As leader: whom it will give something.
    leads: Vec<Arc<str>>,
}

impl Client {
    fn identity(&self) -> Identity {
        Identity {
            group: "g".into(),
            member: self.member.clone().unwrap_or_else(|| "".into()),
            instance: self.instance.clone(),
            generation: self.generation,
        }
    }

    /// All that a process forgets when it dies.
    fn forget(&mut self) {
        *self = Self { instance: self.instance.clone(), ..Self::default() };
    }

    /// Its name to the outside, whatever member id it has.
    fn name(&self) -> Option<Arc<str>> {
        self.instance.clone().or_else(|| self.member.clone())
    }
}

struct World {
    rig: Rig,
    clients: Vec<Client>,
    /// Who was given a partition in a generation.
    owners: BTreeMap<(i32, i32), Arc<str>>,
    /// The last commit that was accepted, by partition.
    committed: BTreeMap<i32, i64>,
    /// Which client waits for a ticket, and what it will have committed then.
    commits: BTreeMap<u64, (i32, i64)>,
}

impl World {
    fn new(statics: usize) -> Self {
        let rules = GroupConfig {
            classic: ClassicConfig { max_size: 100, ..config().classic },
            ..config()
        };
        let client = |number| Client {
            instance: (number < statics).then(|| format!("static-{number}").into()),
            ..Client::default()
        };
        Self {
            rig: Rig::new(rules),
            clients: (0..CLIENTS).map(client).collect(),
            owners: BTreeMap::new(),
            committed: BTreeMap::new(),
            commits: BTreeMap::new(),
        }
    }

    /// One move of one client, or of the world around it.
    fn act(&mut self, who: usize, action: u8) {
        match action {
            0..=3 => self.join(who),
            4..=7 => self.sync(who),
            8 | 9 => self.beat(who),
            10..=12 => self.commit(who),
            13 => {
                let leaver = Leaver {
                    member: self.clients[who].identity().member,
                    instance: self.clients[who].instance.clone(),
                };
                self.send(who, Command::Leave { group: "g".into(), members: vec![leaver] });
            }
            14 => self.clients[who].forget(),
            15 => {
                self.rig.restart();
                for client in &mut self.clients {
                    client.waiting = None;
                }
                self.commits.clear();
                self.check_commits();
            }
            16 | 17 => self.tick(4),
            _ => self.tick(61),
        }
    }

    fn tick(&mut self, seconds: u64) {
        let decision = self.rig.tick(Duration::from_secs(seconds));
        self.hear(decision);
    }

    fn send(&mut self, who: usize, command: Command) {
        let decision = self.rig.submit(command);
        // An answer that nobody waits for any more is lost.
        self.clients[who].waiting = Some(self.rig.last_ticket);
        self.hear(decision);
    }

    fn join(&mut self, who: usize) {
        let identity = self.clients[who].identity();
        let fresh_id = self.rig.fresh_id();
        let join = Join {
            group: identity.group,
            member: identity.member,
            fresh_id,
            member_id_required: identity.instance.is_none(),
            instance: identity.instance,
            client_id: "c".into(),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout: Duration::from_secs(60),
            session_timeout: Duration::from_secs(10),
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), Bytes::new())],
            can_skip_assignment: true,
        };
        // It gives up what it has before it joins again.
        self.clients[who].owned = None;
        self.send(who, Command::Join(join));
    }

    fn sync(&mut self, who: usize) {
        let client = &self.clients[who];
        let part =
            |(part, member): (usize, &Arc<str>)| (member.clone(), Bytes::from(vec![part as u8]));
        let assignments = client.leads.iter().enumerate().map(part).collect();
        let identity = client.identity();
        self.send(
            who,
            Command::Sync(Sync { identity, protocol_type: None, protocol: None, assignments }),
        );
    }

    fn beat(&mut self, who: usize) {
        self.send(who, Command::Heartbeat(self.clients[who].identity()));
    }

    /// Reads on and commits, as long as it believes that the partition is its own.
    fn commit(&mut self, who: usize) {
        let Some((partition, position)) = &mut self.clients[who].owned else { return };
        *position += 1;
        let (partition, offset) = (*partition, *position);
        let commit = Commit {
            identity: self.clients[who].identity(),
            offsets: vec![PartitionCommit {
                topic: "t".into(),
                topic_id: Uuid::nil(),
                partition,
                offset: Offset(offset),
                leader_epoch: LeaderEpoch::NONE,
                metadata: "".into(),
            }],
            retention: None,
            unknown_group: ErrorCode::GroupIdNotFound,
        };
        self.commits.insert(self.rig.last_ticket + 1, (partition, offset));
        self.send(who, Command::Commit(commit));
    }

    fn hear(&mut self, decision: Decision<GroupRecord, Answer>) {
        // A group that is forgotten counts its generations anew.
        let ends = |record: &GroupRecord| matches!(record, GroupRecord::Group { value: None, .. });
        if decision.records.iter().any(ends) {
            self.owners.clear();
        }
        for (ticket, answer) in decision.answers {
            if let Some((partition, offset)) = self.commits.remove(&ticket.0)
                && matches!(&answer, Answer::Offsets { partitions, .. } if partitions[0].is_ok())
            {
                let before = self.committed.insert(partition, offset).unwrap_or(0);
                assert!(
                    before < offset,
                    "partition {partition} goes from {before} back to {offset}"
                );
            }
            let waits = |client: &Client| client.waiting == Some(ticket.0);
            let Some(who) = self.clients.iter().position(waits) else { continue };
            self.clients[who].waiting = None;
            self.learn(who, answer);
        }
    }

    fn learn(&mut self, who: usize, answer: Answer) {
        let client = &mut self.clients[who];
        match answer {
            Answer::Join(joined) if joined.error == ErrorCode::MemberIdRequired => {
                client.member = Some(joined.member);
            }
            Answer::Join(joined) if joined.error.is_ok() => {
                client.member = Some(joined.member);
                client.generation = joined.generation;
                client.has_joined = true;
                // Who shall skip the assignment gets the one that stands.
                let leads = joined.members.into_iter().map(|member| member.member);
                client.leads = if joined.skip_assignment { Vec::new() } else { leads.collect() };
            }
            Answer::Sync(synced) if synced.error.is_ok() => {
                if let Some(part) = synced.assignment.first() {
                    self.own(who, i32::from(*part));
                }
            }
            Answer::Join(_) | Answer::Left(_) => client.forget(),
            Answer::Sync(Synced { error, .. }) | Answer::Done(error) => client.fail(error),
            Answer::Offsets { partitions, .. } => client.fail(partitions[0]),
            _ => {}
        }
    }

    /// A client has been given a partition: it begins where the group has got to.
    fn own(&mut self, who: usize, partition: i32) {
        let client = &self.clients[who];
        let (Some(name), generation) = (client.name(), client.generation) else { return };
        let owner = self.owners.entry((generation, partition)).or_insert_with(|| name.clone());
        assert_eq!(*owner, name, "partition {partition} in generation {generation}");
        let position = self.position(partition);
        self.clients[who].owned = Some((partition, position));
    }

    /// What the machine says was committed.
    fn position(&mut self, partition: i32) -> i64 {
        let wanted = WantedOffset { topic: "t".into(), topic_id: Uuid::nil(), partition };
        let command = Command::FetchOffsets { group: "g".into(), partitions: Some(vec![wanted]) };
        let decision = self.rig.submit(command);
        let Some((_, Answer::Fetched(fetched))) = decision.answers.into_iter().next() else {
            panic!("offsets are not told")
        };
        fetched[0].offset.0.max(0)
    }

    fn check_commits(&mut self) {
        for (partition, offset) in self.committed.clone() {
            assert_eq!(self.position(partition), offset, "partition {partition}");
        }
    }

    /// Everybody does what is next; true when all have a partition of one
    /// generation.
    fn heal(&mut self) -> bool {
        for who in 0..CLIENTS {
            let client = &self.clients[who];
            match client {
                Client { waiting: Some(_), .. } => {}
                Client { has_joined: false, .. } => self.join(who),
                Client { owned: None, .. } => self.sync(who),
                _ => self.beat(who),
            }
        }
        self.tick(1);
        let generation = self.clients[0].generation;
        let is_well = |client: &Client| client.owned.is_some() && client.generation == generation;
        self.clients.iter().all(is_well)
    }
}

impl Client {
    /// An error says what the client believed in vain.
    fn fail(&mut self, error: ErrorCode) {
        match error {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => self.forget(),
            _ => {
                self.owned = None;
                self.has_joined = false;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever happens: within a generation no partition is given to two, commits
    /// never move back and survive restarts, and once peace returns everybody gets
    /// its share.
    #[test]
    fn nothing_is_owned_twice_and_commits_never_move_back(
        statics in 0..=CLIENTS,
        moves in prop::collection::vec((0..CLIENTS, 0..19_u8), 1..120),
    ) {
        let mut world = World::new(statics);
        for (who, action) in moves {
            world.act(who, action);
        }
        prop_assert!((0..300).any(|_| world.heal()), "the group does not heal");
        (0..CLIENTS).for_each(|who| world.commit(who));
        for client in &world.clients {
            let (partition, position) = client.owned.unwrap();
            prop_assert_eq!(world.committed.get(&partition), Some(&position));
        }
        world.check_commits();
    }
}
