//! Groups under scripts, and under random histories.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::command::{
    Answer, Command, Commit, Identity, Join, Leaver, PartitionCommit, Sync, WantedOffset,
};
use super::records::GroupRecord;
use super::{ClassicConfig, GroupConfig, GroupMachine};
use crate::protocol::ErrorCode;
use crate::replicated::{Decision, Machine as _, Now, Ticket};
use crate::testing::script;
use crate::types::{LeaderEpoch, Offset, Timestamp};

const ZEROS: &str = "-00000000-0000-0000-0000-00000000000";

/// A machine with its clock and log, and commands written as text.
pub struct Rig {
    machine: GroupMachine,
    config: GroupConfig,
    now: Duration,
    log: Vec<GroupRecord>,
    last_id: u128,
    pub last_ticket: u64,
}

/// `key=value` words of an input line.
struct Words<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Words<'a> {
    fn text(&self, key: &str) -> Arc<str> {
        let word = self.0.get(key).copied().unwrap_or_default();
        // `c-1` stands for a client's name and the first id that was made up.
        match word.rsplit_once('-') {
            Some((name, number)) if number.len() == 1 => format!("{name}{ZEROS}{number}").into(),
            _ => word.into(),
        }
    }

    fn optional(&self, key: &str) -> Option<Arc<str>> {
        self.0.contains_key(key).then(|| self.text(key))
    }

    fn number(&self, key: &str, default: i64) -> i64 {
        self.0.get(key).map_or(default, |word| word.parse().unwrap())
    }

    fn seconds(&self, key: &str, default: i64) -> Duration {
        Duration::from_secs(self.number(key, default).try_into().unwrap())
    }

    fn list(&self, key: &str) -> Vec<&'a str> {
        self.0.get(key).map(|words| words.split(',').collect()).unwrap_or_default()
    }
}

pub fn config() -> GroupConfig {
    GroupConfig {
        classic: ClassicConfig {
            initial_rebalance_delay: Duration::from_secs(3),
            max_size: 3,
            max_bytes: 100_000,
        },
        session_timeouts: (Duration::from_secs(6), Duration::from_secs(1800)),
        offset_metadata_max_bytes: 8,
        offsets_retention: Duration::from_secs(7 * 24 * 3600),
        offsets_retention_check_interval: Duration::from_secs(600),
    }
}

impl Rig {
    pub fn new(config: GroupConfig) -> Self {
        let mut machine = GroupMachine::new(config.clone());
        let now = Duration::ZERO;
        machine.go_live(at(now));
        Self { machine, config, now, log: Vec::new(), last_id: 0, last_ticket: 0 }
    }

    /// Everything forgotten but the log.
    pub fn restart(&mut self) {
        self.machine = GroupMachine::new(self.config.clone());
        for record in &self.log {
            self.machine.replay(Offset::ZERO, record).unwrap();
        }
        self.machine.go_live(at(self.now));
    }

    pub fn submit(&mut self, command: Command) -> Decision<GroupRecord, Answer> {
        self.last_ticket += 1;
        let decision = self.machine.decide(at(self.now), Ticket(self.last_ticket), command);
        self.fold(decision)
    }

    pub fn tick(&mut self, by: Duration) -> Decision<GroupRecord, Answer> {
        self.now += by;
        let decision = self.machine.expire(at(self.now));
        self.fold(decision)
    }

    fn fold(&mut self, decision: Decision<GroupRecord, Answer>) -> Decision<GroupRecord, Answer> {
        for record in &decision.records {
            self.machine.replay(Offset::ZERO, record).unwrap();
            self.log.push(record.clone());
        }
        decision
    }

    fn step(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap();
        let words = Words(words.map(|word| word.split_once('=').unwrap()).collect());
        let decision = match verb {
            "tick" => self.tick(words.seconds("seconds", 0)),
            "restart" => {
                self.restart();
                Decision::nothing()
            }
            _ => {
                let command = self.command(verb, &words);
                self.submit(command)
            }
        };
        print(&decision)
    }

    fn command(&mut self, verb: &str, words: &Words<'_>) -> Command {
        let group: Arc<str> = words.optional("group").unwrap_or_else(|| "g".into());
        let identity = Identity {
            group: group.clone(),
            member: words.text("member"),
            instance: words.optional("instance"),
            generation: words.number("generation", -1).try_into().unwrap(),
        };
        match verb {
            "join" => self.join(identity, words),
            "sync" => {
                let part = |word: &str| {
                    let (member, part) = word.split_once(':').unwrap();
                    let member = Words([("member", member)].into()).text("member");
                    (member, Bytes::copy_from_slice(part.as_bytes()))
                };
                let assignments = words.list("assign").into_iter().map(part).collect();
                let (protocol_type, protocol) =
                    (words.optional("type"), words.optional("protocol"));
                Command::Sync(Sync { identity, protocol_type, protocol, assignments })
            }
            "heartbeat" => Command::Heartbeat(identity),
            "leave" => {
                let leaver = Leaver { member: identity.member, instance: identity.instance };
                Command::Leave { group, members: vec![leaver] }
            }
            "commit" => Command::Commit(Commit {
                identity,
                offsets: vec![PartitionCommit {
                    topic: "t".into(),
                    topic_id: Uuid::from_u128(words.number("topic-id", 0) as u128),
                    partition: 0,
                    offset: Offset(words.number("offset", 0)),
                    leader_epoch: LeaderEpoch(3),
                    metadata: words.text("note"),
                }],
                retention: None,
                unknown_group: ErrorCode::GroupIdNotFound,
            }),
            "fetch" => {
                let topic_id = Uuid::from_u128(words.number("topic-id", 0) as u128);
                let wanted = WantedOffset { topic: "t".into(), topic_id, partition: 0 };
                Command::FetchOffsets { group, partitions: Some(vec![wanted]) }
            }
            "describe" => Command::Describe(group),
            "list" => Command::List,
            "delete" => Command::Delete(group),
            "forget" => Command::DeleteOffsets { group, partitions: vec![("t".into(), 0)] },
            "drop-topic" => {
                let topic_id = Uuid::from_u128(words.number("topic-id", 0) as u128);
                Command::TopicsDeleted(vec![("t".into(), topic_id)])
            }
            other => panic!("what is {other}?"),
        }
    }

    pub fn fresh_id(&mut self) -> Uuid {
        self.last_id += 1;
        Uuid::from_u128(self.last_id)
    }

    fn join(&mut self, identity: Identity, words: &Words<'_>) -> Command {
        let fresh_id = self.fresh_id();
        let mut protocols = words.list("protocols");
        if protocols.is_empty() {
            protocols.push("range");
        }
        let long = usize::try_from(words.number("metadata-bytes", 0)).unwrap();
        let metadata = format!("{}{}", words.text("metadata"), "x".repeat(long));
        let named = |name: &str| (Arc::from(name), Bytes::copy_from_slice(metadata.as_bytes()));
        Command::Join(Join {
            group: identity.group,
            member: identity.member,
            fresh_id,
            instance: identity.instance,
            client_id: words.optional("client").unwrap_or_else(|| "c".into()),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout: words.seconds("rebalance", 60),
            session_timeout: words.seconds("session", 10),
            protocol_type: words.optional("type").unwrap_or_else(|| "consumer".into()),
            protocols: protocols.into_iter().map(named).collect(),
            member_id_required: words.number("version", 3) >= 4
                && !words.0.contains_key("instance"),
            can_skip_assignment: words.number("version", 3) >= 9,
        })
    }
}

fn at(now: Duration) -> Now {
    let wall = Timestamp(i64::try_from(now.as_millis()).unwrap());
    Now { wall, monotonic: now, next_offset: Offset::ZERO }
}

/// A decision as a script shows it, with short member ids.
fn print(decision: &Decision<GroupRecord, Answer>) -> String {
    let mut text = String::new();
    for record in &decision.records {
        let _ = match record {
            GroupRecord::Group { group, value: None } => writeln!(text, "  log: {group} ends"),
            GroupRecord::Group { group, value: Some(value) } => {
                let members: Vec<_> =
                    value.members.iter().map(|member| member.member_id.to_string()).collect();
                writeln!(
                    text,
                    "  log: {group} generation {} members [{}]",
                    value.generation,
                    members.join(" ")
                )
            }
            GroupRecord::Offset { group, topic, partition, value } => {
                let value = value.as_ref().map(|value| value.offset.to_string());
                writeln!(
                    text,
                    "  log: {group} {topic}-{partition} {}",
                    value.unwrap_or_else(|| "ends".to_owned())
                )
            }
            GroupRecord::Other(_) => writeln!(text, "  log: other"),
        };
    }
    for (ticket, answer) in &decision.answers {
        let _ = writeln!(text, "  #{}: {}", ticket.0, describe(answer));
    }
    text.replace(ZEROS, "-")
}

fn describe(answer: &Answer) -> String {
    match answer {
        Answer::Join(joined) if !joined.error.is_ok() => {
            format!("{} member [{}]", joined.error, joined.member)
        }
        Answer::Join(joined) => {
            let members: Vec<_> =
                joined.members.iter().map(|member| member.member.to_string()).collect();
            format!(
                "joined as {} generation {} {} leader {} skip {} members [{}]",
                joined.member,
                joined.generation,
                joined.protocol.as_deref().unwrap_or("-"),
                joined.leader,
                joined.skip_assignment,
                members.join(" ")
            )
        }
        Answer::Sync(synced) => {
            format!("{} [{}]", synced.error, String::from_utf8_lossy(&synced.assignment))
        }
        Answer::Done(error) => error.to_string(),
        Answer::Left(members) => format!("{members:?}"),
        Answer::Offsets { error, partitions } => format!("{error} {partitions:?}"),
        Answer::Fetched(fetched) => {
            let offsets: Vec<_> =
                fetched.iter().map(|found| format!("{}={}", found.topic, found.offset)).collect();
            offsets.join(" ")
        }
        Answer::Described(None) => "no such group".to_owned(),
        Answer::Described(Some(group)) => {
            format!(
                "{} {} {} members {}",
                group.state,
                group.protocol_type,
                group.protocol,
                group.members.len()
            )
        }
        Answer::Listed(groups) => {
            let groups: Vec<_> =
                groups.iter().map(|group| format!("{} {}", group.group, group.state)).collect();
            groups.join(", ")
        }
    }
}

macro_rules! scripts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let mut rig = Rig::new(config());
            script::run(concat!("coordinator/group/scripts/", stringify!($name), ".txt"), |line| rig.step(line));
        }
    )*};
}

scripts! {
    first_rebalance
    second_member_joins_and_leaves
    static_member_is_replaced
    silence_expires
    joined_but_never_synced
    refusals
    commits
    restart_keeps_members_and_offsets
    group_is_full
    no_room_for_what_a_member_says
}
