//! The steps of a script as requests, and their answers in words: every field that
//! does not differ from run to run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use bytes::Bytes;
use ottla_protocol::messages::api_versions_request::ApiVersionsRequest;
use ottla_protocol::messages::api_versions_response::ApiVersionsResponse;
use ottla_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use ottla_protocol::messages::create_topics_response::CreateTopicsResponse;
use ottla_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use ottla_protocol::messages::delete_groups_response::DeleteGroupsResponse;
use ottla_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use ottla_protocol::messages::delete_topics_response::DeleteTopicsResponse;
use ottla_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use ottla_protocol::messages::describe_groups_response::DescribeGroupsResponse;
use ottla_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use ottla_protocol::messages::find_coordinator_response::FindCoordinatorResponse;
use ottla_protocol::messages::heartbeat_request::HeartbeatRequest;
use ottla_protocol::messages::heartbeat_response::HeartbeatResponse;
use ottla_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use ottla_protocol::messages::join_group_response::JoinGroupResponse;
use ottla_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use ottla_protocol::messages::leave_group_response::LeaveGroupResponse;
use ottla_protocol::messages::list_groups_request::ListGroupsRequest;
use ottla_protocol::messages::list_groups_response::ListGroupsResponse;
use ottla_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use ottla_protocol::messages::metadata_response::MetadataResponse;
use ottla_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::offset_commit_response::OffsetCommitResponse;
use ottla_protocol::messages::offset_delete_request::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use ottla_protocol::messages::offset_delete_response::OffsetDeleteResponse;
use ottla_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use ottla_protocol::messages::offset_fetch_response::OffsetFetchResponse;
use ottla_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use ottla_protocol::messages::sync_group_response::SyncGroupResponse;
use ottla_protocol::{ErrorCode, Message, Str};
use uuid::Uuid;

use crate::cast::{CLOSED, Hear, Known, Names};
use crate::client::Client;

/// `key=value` words of a step.
#[derive(Clone)]
pub struct Words {
    group: String,
    words: BTreeMap<String, String>,
}

impl Words {
    pub fn new(group: &str, words: &[String]) -> Self {
        let pair = |word: &String| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (key.to_owned(), value.to_owned())
        };
        Self { group: group.to_owned(), words: words.iter().map(pair).collect() }
    }

    /// `v=3`, or `v=0-3` for each of them; the default is a middling one.
    pub fn versions(&self) -> RangeInclusive<i16> {
        let (low, high) =
            self.get("v").map_or(("-1", "-1"), |v| v.split_once('-').unwrap_or((v, v)));
        low.parse().unwrap_or(-1)..=high.parse().unwrap_or(-1)
    }

    pub fn in_version(&self, version: i16) -> Self {
        let mut one = self.clone();
        one.words.insert("v".to_owned(), version.to_string());
        one
    }

    fn version(&self, default: i16) -> i16 {
        self.get("v").map_or(default, |version| version.parse().unwrap())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(String::as_str)
    }

    fn text(&self, key: &str, default: &str) -> Str {
        unspelled(self.get(key).unwrap_or(default)).into()
    }

    fn optional(&self, key: &str) -> Option<Str> {
        self.get(key).map(|word| unspelled(word).into())
    }

    fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(&self, key: &str, default: N) -> N {
        self.get(key).map_or(default, |number| number.parse().unwrap())
    }

    fn list(&self, key: &str, default: &str) -> Vec<String> {
        let words = self.get(key).unwrap_or(default).split(',');
        words.filter(|word| !word.is_empty()).map(unspelled).collect()
    }

    fn group(&self) -> Str {
        self.text("group", &self.group)
    }

    /// `a:1,b:2` as pairs.
    fn pairs(&self, key: &str, default: &str) -> Vec<(String, String)> {
        let words = self.get(key).unwrap_or(default).split(',');
        let pair = |word: &str| {
            let (first, second) = word.split_once(':').unwrap_or((word, ""));
            (unspelled(first), unspelled(second))
        };
        words.filter(|word| !word.is_empty()).map(pair).collect()
    }
}

/// Words that a script cannot spell.
fn unspelled(word: &str) -> String {
    match word {
        "<empty>" => String::new(),
        "<huge>" => "x".repeat(30_000),
        "<16>" => "x".repeat(16),
        "<17>" => "x".repeat(17),
        other => other.to_owned(),
    }
}

fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

/// A reader of one kind of answer.
fn hear<R: Message + 'static>(
    version: i16,
    tell: impl FnOnce(R, &mut Names) -> String + 'static,
) -> Hear {
    hear_and_learn(version, |_, _| {}, tell)
}

/// The same for an answer that the client must remember something of.
fn hear_and_learn<R: Message + 'static>(
    version: i16,
    learn: impl FnOnce(&R, &mut Known) + 'static,
    tell: impl FnOnce(R, &mut Names) -> String + 'static,
) -> Hear {
    Box::new(move |client, known| match client.receive::<R>(version) {
        Ok(answer) => {
            learn(&answer, known);
            Box::new(move |names| tell(answer, names))
        }
        Err(_) => Box::new(|_| CLOSED.to_owned()),
    })
}

/// Sends a request; how its answer is to be read.
pub fn send(client: &mut Client, known: &Known, verb: &str, words: &Words) -> Hear {
    match verb {
        "join" => join(client, known, words),
        "sync" => sync(client, known, words),
        "beat" => beat(client, known, words),
        "leave" => leave(client, known, words),
        "commit" => commit(client, known, words),
        "fetch" => fetch(client, words),
        "forget" => forget(client, words),
        "find" => find(client, words),
        "describe" => describe(client, words),
        "list" => list(client, words),
        "delete" => delete(client, words),
        "create-topic" => create_topic(client, words),
        "delete-topic" => delete_topic(client, words),
        _ => panic!("no such step: {verb}"),
    }
}

fn join(client: &mut Client, known: &Known, words: &Words) -> Hear {
    let version = words.version(9);
    let protocols = words.pairs("protocols", "range:r").into_iter();
    let request = JoinGroupRequest {
        group_id: words.group(),
        session_timeout_ms: words.number("session", 1_800_000),
        rebalance_timeout_ms: words.number("rebalance", 1_800_000),
        member_id: words.text("member", &known.member),
        group_instance_id: words.optional("instance"),
        protocol_type: words.text("type", "consumer"),
        protocols: protocols
            .map(|(name, metadata)| JoinGroupRequestProtocol {
                name: name.into(),
                metadata: Bytes::from(metadata),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    client.send(version, &request);
    hear_and_learn(version, learn_of_join, |answer: JoinGroupResponse, names| {
        let mut members: Vec<String> = Vec::new();
        for member in &answer.members {
            let instance = member.group_instance_id.as_deref().map(|id| format!("/{id}"));
            members.push(format!(
                "{}{} {}",
                names.of(&member.member_id),
                instance.unwrap_or_default(),
                String::from_utf8_lossy(&member.metadata)
            ));
        }
        members.sort();
        format!(
            "{} generation {} type {:?} protocol {:?} leader [{}] member [{}] skip {} {members:?}",
            error(answer.error_code),
            answer.generation_id,
            answer.protocol_type.as_deref(),
            answer.protocol_name.as_deref(),
            names.of(&answer.leader),
            names.of(&answer.member_id),
            answer.skip_assignment,
        )
    })
}

fn learn_of_join(answer: &JoinGroupResponse, known: &mut Known) {
    if answer.error_code == 0 || error(answer.error_code) == ErrorCode::MemberIdRequired {
        known.member = answer.member_id.to_string();
        known.generation = answer.generation_id;
    }
}

fn sync(client: &mut Client, known: &Known, words: &Words) -> Hear {
    let version = words.version(5);
    let assignments = words.pairs("assign", "").into_iter();
    let named = |default| if version >= 5 { default } else { None };
    let optional = |key, default: &str| match words.get(key) {
        Some("null") => None,
        other => named(Some(Str::from(other.unwrap_or(default)))),
    };
    let request = SyncGroupRequest {
        group_id: words.group(),
        generation_id: words.number("generation", known.generation),
        member_id: words.text("member", &known.member),
        group_instance_id: words.optional("instance"),
        protocol_type: optional("type", "consumer"),
        protocol_name: optional("protocol", "range"),
        assignments: assignments
            .map(|(member, part)| SyncGroupRequestAssignment {
                member_id: member.into(),
                assignment: Bytes::from(part),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    client.send(version, &request);
    hear(version, |answer: SyncGroupResponse, _| {
        format!(
            "{} type {:?} protocol {:?} [{}]",
            error(answer.error_code),
            answer.protocol_type.as_deref(),
            answer.protocol_name.as_deref(),
            String::from_utf8_lossy(&answer.assignment)
        )
    })
}

fn beat(client: &mut Client, known: &Known, words: &Words) -> Hear {
    let version = words.version(4);
    let request = HeartbeatRequest {
        group_id: words.group(),
        generation_id: words.number("generation", known.generation),
        member_id: words.text("member", &known.member),
        group_instance_id: words.optional("instance"),
        ..Default::default()
    };
    client.send(version, &request);
    hear(version, |answer: HeartbeatResponse, _| error(answer.error_code).to_string())
}

fn leave(client: &mut Client, known: &Known, words: &Words) -> Hear {
    let version = words.version(5);
    let mut request = LeaveGroupRequest { group_id: words.group(), ..Default::default() };
    if version < 3 {
        request.member_id = words.text("member", &known.member);
    } else {
        let members = words.pairs("members", &known.member).into_iter();
        request.members = members
            .map(|(member, instance)| MemberIdentity {
                member_id: member.into(),
                group_instance_id: (!instance.is_empty()).then(|| instance.into()),
                ..Default::default()
            })
            .collect();
    }
    client.send(version, &request);
    hear(version, |answer: LeaveGroupResponse, names| {
        let mut text = error(answer.error_code).to_string();
        for member in answer.members {
            let _ = write!(
                text,
                " [{} {:?} {}]",
                names.of(&member.member_id),
                member.group_instance_id.as_deref(),
                error(member.error_code)
            );
        }
        text
    })
}

fn commit(client: &mut Client, known: &Known, words: &Words) -> Hear {
    let version = words.version(9);
    let from_group = words.get("simple").is_none();
    let mut topics = Vec::new();
    for (topic, partition) in words.pairs("topics", "t:0") {
        let topic_id = if version >= 10 { topic_id(client, &topic) } else { Uuid::nil() };
        let partition = OffsetCommitRequestPartition {
            partition_index: partition.parse().unwrap(),
            committed_offset: words.number("offset", 1),
            committed_leader_epoch: words.number("epoch", -1),
            committed_metadata: words.optional("note"),
            ..Default::default()
        };
        topics.push(OffsetCommitRequestTopic {
            name: topic.into(),
            topic_id,
            partitions: vec![partition],
            ..Default::default()
        });
    }
    let member = if from_group { known.member.as_str() } else { "" };
    let request = OffsetCommitRequest {
        group_id: words.group(),
        generation_id_or_member_epoch: words
            .number("generation", if from_group { known.generation } else { -1 }),
        member_id: words.text("member", member),
        group_instance_id: words.optional("instance"),
        topics,
        ..Default::default()
    };
    client.send(version, &request);
    hear(version, |answer: OffsetCommitResponse, _| {
        let mut text = Vec::new();
        for topic in &answer.topics {
            let known_by = if topic.topic_id.is_nil() { &topic.name } else { "id" };
            for partition in &topic.partitions {
                text.push(format!(
                    "{known_by}-{} {}",
                    partition.partition_index,
                    error(partition.error_code)
                ));
            }
        }
        text.sort();
        format!("[{}]", text.join(", "))
    })
}

fn fetch(client: &mut Client, words: &Words) -> Hear {
    let version = words.version(9);
    let topics = (words.get("topics") != Some("all")).then(|| words.pairs("topics", "t:0"));
    let mut request = OffsetFetchRequest {
        require_stable: version >= 7 && words.get("stable").is_some(),
        ..Default::default()
    };
    if version < 8 {
        request.group_id = words.group();
        request.topics = topics.map(|topics| {
            let topic = |(name, partition): (String, String)| OffsetFetchRequestTopic {
                name: name.into(),
                partition_indexes: vec![partition.parse().unwrap()],
                ..Default::default()
            };
            topics.into_iter().map(topic).collect()
        });
    } else {
        for group in words.list("groups", &words.group()) {
            let mut wanted = Vec::new();
            for (name, partition) in topics.iter().flatten() {
                wanted.push(OffsetFetchRequestTopics {
                    name: name.as_str().into(),
                    topic_id: if version >= 10 { topic_id(client, name) } else { Uuid::nil() },
                    partition_indexes: vec![partition.parse().unwrap()],
                    ..Default::default()
                });
            }
            request.groups.push(OffsetFetchRequestGroup {
                group_id: group.into(),
                topics: topics.is_some().then_some(wanted),
                member_id: words.optional("member"),
                member_epoch: words.number("epoch", -1),
                ..Default::default()
            });
        }
    }
    client.send(version, &request);
    hear(version, move |answer: OffsetFetchResponse, _| {
        if version < 8 {
            return tell_narrow(&answer);
        }
        let groups = answer.groups.iter().map(|group| {
            let mut text = Vec::new();
            for topic in &group.topics {
                let known_by = if topic.topic_id.is_nil() { &topic.name } else { "id" };
                for it in &topic.partitions {
                    text.push(format!(
                        "{known_by}-{}={}/{} {:?} {}",
                        it.partition_index,
                        it.committed_offset,
                        it.committed_leader_epoch,
                        it.metadata.as_deref(),
                        error(it.error_code)
                    ));
                }
            }
            text.sort();
            format!("{} {} [{}]", group.group_id, error(group.error_code), text.join(", "))
        });
        groups.collect::<Vec<_>>().join("; ")
    })
}

fn tell_narrow(answer: &OffsetFetchResponse) -> String {
    let mut text = Vec::new();
    for topic in &answer.topics {
        for it in &topic.partitions {
            text.push(format!(
                "{}-{}={}/{} {:?} {}",
                topic.name,
                it.partition_index,
                it.committed_offset,
                it.committed_leader_epoch,
                it.metadata.as_deref(),
                error(it.error_code)
            ));
        }
    }
    text.sort();
    format!("{} [{}]", error(answer.error_code), text.join(", "))
}

fn forget(client: &mut Client, words: &Words) -> Hear {
    let mut request = OffsetDeleteRequest { group_id: words.group(), ..Default::default() };
    for (topic, partition) in words.pairs("topics", "t:0") {
        let partition_index = partition.parse().unwrap();
        request.topics.push(OffsetDeleteRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetDeleteRequestPartition { partition_index }],
        });
    }
    client.send(0, &request);
    hear(0, |answer: OffsetDeleteResponse, _| {
        let mut text = error(answer.error_code).to_string();
        let mut parts = Vec::new();
        for topic in &answer.topics {
            for it in &topic.partitions {
                let error = error(it.error_code);
                parts.push(format!(" [{}-{} {error}]", topic.name, it.partition_index));
            }
        }
        parts.sort();
        text.extend(parts);
        text
    })
}

fn find(client: &mut Client, words: &Words) -> Hear {
    let version = words.version(4);
    let keys = words.list("keys", &words.group());
    let request = FindCoordinatorRequest {
        key: if version < 4 {
            keys.first().map(|key| Str::from(key.as_str())).unwrap_or_default()
        } else {
            Str::default()
        },
        key_type: if version >= 1 { words.number("type", 0) } else { 0 },
        coordinator_keys: if version < 4 {
            Vec::new()
        } else {
            keys.iter().map(|key| key.as_str().into()).collect()
        },
        ..Default::default()
    };
    client.send(version, &request);
    hear(version, move |answer: FindCoordinatorResponse, _| {
        let port = |port: i32| if port < 0 { "no port" } else { "a port" };
        // Whole sentences are the broker's own.
        let message = |message: Option<&str>| match message {
            Some(message) if message.contains(' ') => "said".to_owned(),
            other => format!("{other:?}"),
        };
        if version < 4 {
            return format!(
                "{} {} node {} {} {}",
                error(answer.error_code),
                message(answer.error_message.as_deref()),
                answer.node_id,
                answer.host,
                port(answer.port)
            );
        }
        let found = answer.coordinators.iter().map(|it| {
            format!(
                "{} {} {} node {} {} {}",
                it.key,
                error(it.error_code),
                message(it.error_message.as_deref()),
                it.node_id,
                it.host,
                port(it.port)
            )
        });
        found.collect::<Vec<_>>().join("; ")
    })
}

fn describe(client: &mut Client, words: &Words) -> Hear {
    let version = words.version(6);
    let groups = words.list("groups", &words.group());
    let request = DescribeGroupsRequest {
        groups: groups.iter().map(|group| group.as_str().into()).collect(),
        include_authorized_operations: version >= 3 && words.get("operations").is_some(),
        ..Default::default()
    };
    client.send(version, &request);
    hear(version, |answer: DescribeGroupsResponse, names| {
        let mut text = Vec::new();
        for group in &answer.groups {
            let mut members = Vec::new();
            for member in &group.members {
                members.push(format!(
                    "{} {:?} {} {} {}->{}",
                    names.of(&member.member_id),
                    member.group_instance_id.as_deref(),
                    member.client_id,
                    member.client_host,
                    String::from_utf8_lossy(&member.member_metadata),
                    String::from_utf8_lossy(&member.member_assignment)
                ));
            }
            members.sort();
            text.push(format!(
                "{} {} {:?} {} type [{}] protocol [{}] operations {:x} {members:?}",
                error(group.error_code),
                group.group_id,
                group.error_message.as_deref(),
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                group.authorized_operations
            ));
        }
        text.join("; ")
    })
}

fn list(client: &mut Client, words: &Words) -> Hear {
    let version = words.version(5);
    let filter = |key| words.list(key, "").iter().map(|it| it.as_str().into()).collect();
    let request = ListGroupsRequest {
        states_filter: if version >= 4 { filter("states") } else { Vec::new() },
        types_filter: if version >= 5 { filter("types") } else { Vec::new() },
        ..Default::default()
    };
    let prefix = words.get("prefix").unwrap_or_default().to_owned();
    client.send(version, &request);
    hear(version, move |answer: ListGroupsResponse, _| {
        let shown = answer.groups.iter().filter(|group| group.group_id.starts_with(&prefix));
        let mut groups: Vec<String> = shown
            .map(|it| {
                format!(
                    "{} [{}] {} {}",
                    it.group_id, it.protocol_type, it.group_state, it.group_type
                )
            })
            .collect();
        groups.sort();
        format!("{} {groups:?}", error(answer.error_code))
    })
}

fn delete(client: &mut Client, words: &Words) -> Hear {
    let version = words.version(3);
    let groups = words.list("groups", &words.group());
    let request = DeleteGroupsRequest {
        groups_names: groups.iter().map(|group| group.as_str().into()).collect(),
        ..Default::default()
    };
    client.send(version, &request);
    hear(version, |answer: DeleteGroupsResponse, _| {
        let mut results: Vec<String> = answer
            .results
            .iter()
            .map(|it| {
                format!(
                    "{} {} {:?}",
                    it.group_id,
                    error(it.error_code),
                    it.error_message.as_deref()
                )
            })
            .collect();
        results.sort();
        results.join("; ")
    })
}

/// True once a broker coordinates all groups, and has loaded them.
pub fn is_served(client: &mut Client) -> bool {
    let find = FindCoordinatorRequest { coordinator_keys: vec!["x".into()], ..Default::default() };
    let found: FindCoordinatorResponse = client.call(4, &find);
    // One of each partition, and more.
    let groups = (0..500).map(|number| format!("is-served-{number}").into()).collect();
    let describe = DescribeGroupsRequest { groups, ..Default::default() };
    let described: DescribeGroupsResponse = client.call(5, &describe);
    found.coordinators[0].error_code == 0
        && described.groups.iter().all(|group| group.error_code == 0)
}

/// A request that every broker answers at once.
pub fn say_hello(client: &mut Client) {
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let _: ApiVersionsResponse = client.call(3, &request);
}

/// Makes a topic that is not there yet.
pub fn make_topic(client: &mut Client, name: &str, partitions: i32) {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let answer: CreateTopicsResponse = client.call(7, &request);
    assert_eq!(answer.topics[0].error_code, 0);
}

/// True while the group has a commit for that topic.
pub fn knows(client: &mut Client, group: &str, topic: &str) -> bool {
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.into(),
            topics: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer: OffsetFetchResponse = client.call(8, &request);
    answer.groups[0].topics.iter().any(|known| known.name == *topic)
}

/// Creates topics; an answer that they exist is as good.
fn create_topic(client: &mut Client, words: &Words) -> Hear {
    let topics = words.pairs("topics", "t:2").into_iter();
    let request = CreateTopicsRequest {
        topics: topics
            .map(|(name, partitions)| CreatableTopic {
                name: name.into(),
                num_partitions: partitions.parse().unwrap(),
                replication_factor: 1,
                ..Default::default()
            })
            .collect(),
        timeout_ms: 10_000,
        ..Default::default()
    };
    client.send(7, &request);
    hear(7, |answer: CreateTopicsResponse, _| {
        let exists = ErrorCode::TopicAlreadyExists;
        let failed = answer
            .topics
            .iter()
            .map(|it| error(it.error_code))
            .find(|error| !error.is_ok() && *error != exists);
        failed.unwrap_or(ErrorCode::None).to_string()
    })
}

fn delete_topic(client: &mut Client, words: &Words) -> Hear {
    let topics = words.list("topics", "t").into_iter();
    let topic = |name: String| DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let request = DeleteTopicsRequest {
        topics: topics.map(topic).collect(),
        timeout_ms: 10_000,
        ..Default::default()
    };
    client.send(6, &request);
    hear(6, |answer: DeleteTopicsResponse, _| {
        answer.responses.iter().map(|it| error(it.error_code).to_string()).collect()
    })
}

/// A topic's id; one that nobody has for a topic that is not there.
fn topic_id(client: &mut Client, name: &str) -> Uuid {
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let answer: MetadataResponse = client.call(12, &request);
    let id = answer.topics.first().map_or(Uuid::nil(), |topic| topic.topic_id);
    if id.is_nil() { Uuid::from_u128(77) } else { id }
}
