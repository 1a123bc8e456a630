//! Partitions as other versions of Kafka left them, loaded.

use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::coordinator::group::command::{Answer, Command, WantedOffset};
use crate::coordinator::group::{ClassicConfig, GroupConfig};
use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::protocol::messages::group_metadata_key::GroupMetadataKey;
use crate::protocol::messages::group_metadata_value::{GroupMetadataValue, MemberMetadata};
use crate::protocol::messages::legacy_offset_commit_value::LegacyOffsetCommitValue;
use crate::protocol::messages::offset_commit_key::OffsetCommitKey;
use crate::protocol::messages::offset_commit_value::OffsetCommitValue;
use crate::protocol::{Message, Writer};
use crate::replicated::{Now, Ticket};
use crate::types::{ProducerEpoch, Timestamp};

/// What Apache Kafka 4.4.0 had in its one partition after: a classic group, one
/// with a static member, a group of the consumer protocol, transactions with
/// offsets (committed, aborted, and left open), a streams group, a share group.
const KAFKA_4_4_0: &[u8] = include_bytes!("fixtures/kafka-4.4.0.log");

fn machine() -> GroupMachine {
    GroupMachine::new(GroupConfig {
        classic: ClassicConfig {
            initial_rebalance_delay: Duration::ZERO,
            max_size: 10,
            max_bytes: 1_000_000,
        },
        session_timeouts: (Duration::ZERO, Duration::MAX),
        offset_metadata_max_bytes: 4096,
        offsets_retention: Duration::MAX,
        offsets_retention_check_interval: Duration::from_secs(600),
    })
}

/// A key or a value after its type or version.
fn prefixed<M: Message>(prefix: i16, message: &M, version: i16) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put(&prefix.to_be_bytes());
    message.encode(&mut writer, version).unwrap();
    writer.into_bytes().to_vec()
}

fn offset_key(kind: i16, group: &str) -> Vec<u8> {
    let key = OffsetCommitKey { group: group.into(), topic: "t".into(), partition: 0 };
    prefixed(kind, &key, 0)
}

fn offset_value(version: i16, offset: i64) -> Vec<u8> {
    let value = OffsetCommitValue {
        offset,
        leader_epoch: if version >= 3 { 4 } else { -1 },
        metadata: "note".into(),
        commit_timestamp: 1000,
        expire_timestamp: if version == 1 { 2000 } else { -1 },
        ..Default::default()
    };
    prefixed(version, &value, version)
}

fn group_value(version: i16) -> Vec<u8> {
    let member = MemberMetadata {
        member_id: "m".into(),
        group_instance_id: (version >= 3).then(|| "one".into()),
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout: if version >= 1 { 7000 } else { -1 },
        session_timeout: 6000,
        subscription: Bytes::from_static(b"subscription"),
        assignment: Bytes::from_static(b"assignment"),
        ..Default::default()
    };
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 3,
        protocol: Some("range".into()),
        leader: Some("m".into()),
        current_state_timestamp: if version >= 2 { 1000 } else { -1 },
        members: vec![member],
        ..Default::default()
    };
    prefixed(version, &value, version)
}

fn group_key(group: &str) -> Vec<u8> {
    prefixed(2, &GroupMetadataKey { group: group.into() }, 0)
}

type Pair = (Vec<u8>, Option<Vec<u8>>);

fn batch(options: BatchOptions, records: &[Pair]) -> Bytes {
    let mut batch = BatchBuilder::new(options);
    for (key, value) in records {
        batch.append(Timestamp(1000), Some(key), value.as_deref());
    }
    batch.build().unwrap()
}

/// Loads batches; the live machine, and what was passed over.
fn load(batches: &[Bytes]) -> (GroupMachine, Vec<i16>, u64) {
    let mut loading = Loading::into(machine());
    loading.replay(&Bytes::from(batches.concat()), Offset::ZERO).unwrap();
    loading.tell_of_gaps("__consumer_offsets-0");
    let foreign = loading.foreign.keys().copied().collect();
    let unreadable = loading.unreadable.map_or(0, |(count, _)| count);
    loading.machine.go_live(now());
    (loading.machine, foreign, unreadable)
}

fn now() -> Now {
    Now { wall: Timestamp(5000), monotonic: Duration::ZERO, next_offset: Offset::ZERO }
}

fn ask(machine: &mut GroupMachine, command: Command) -> Answer {
    machine.decide(now(), Ticket(1), command).answers.remove(0).1
}

/// Offset, leader epoch and note of `t-0`.
fn committed(machine: &mut GroupMachine, group: &str) -> (i64, i32, String) {
    let wanted = WantedOffset { topic: "t".into(), topic_id: Uuid::nil(), partition: 0 };
    let command = Command::FetchOffsets { group: group.into(), partitions: Some(vec![wanted]) };
    let Answer::Fetched(fetched) = ask(machine, command) else { panic!("not fetched") };
    (fetched[0].offset.0, fetched[0].leader_epoch.0, fetched[0].metadata.to_string())
}

fn groups(machine: &mut GroupMachine) -> Vec<(String, &'static str)> {
    let Answer::Listed(groups) = ask(machine, Command::List) else { panic!("not listed") };
    groups.into_iter().map(|group| (group.group.to_string(), group.state)).collect()
}

#[test]
fn commits_of_all_versions_are_loaded() {
    let legacy =
        LegacyOffsetCommitValue { offset: 9, metadata: "old".into(), commit_timestamp: 1000 };
    let mut records = vec![(offset_key(0, "legacy"), Some(prefixed(0, &legacy, 0)))];
    for version in 0..=4 {
        let key = offset_key(1, &format!("v{version}"));
        records.push((key, Some(offset_value(version, i64::from(version)))));
    }
    records.push((offset_key(1, "v4"), None));
    let (mut machine, foreign, unreadable) = load(&[batch(BatchOptions::default(), &records)]);
    assert_eq!((foreign, unreadable), (vec![], 0));
    assert_eq!(committed(&mut machine, "legacy"), (9, -1, "old".to_owned()));
    for version in 0..=3_i32 {
        let epoch = if version >= 3 { 4 } else { -1 };
        let found = committed(&mut machine, &format!("v{version}"));
        assert_eq!(found, (i64::from(version), epoch, "note".to_owned()));
    }
    assert_eq!(committed(&mut machine, "v4").0, -1);
}

#[test]
fn groups_of_all_versions_are_loaded() {
    let mut records: Vec<Pair> = (0..=4)
        .map(|version| (group_key(&format!("v{version}")), Some(group_value(version))))
        .collect();
    records.push((group_key("gone"), Some(group_value(3))));
    records.push((group_key("gone"), None));
    let (mut machine, _, unreadable) = load(&[batch(BatchOptions::default(), &records)]);
    assert_eq!(unreadable, 0);
    for version in 0..=4 {
        let group = format!("v{version}");
        let Answer::Described(Some(found)) = ask(&mut machine, Command::Describe(group.into()))
        else {
            panic!("version {version} is not there")
        };
        assert_eq!((found.state, &*found.protocol), ("Stable", "range"));
        assert_eq!(found.members[0].instance.is_some(), version >= 3);
        assert_eq!(&*found.members[0].metadata, b"subscription");
        assert_eq!(&*found.members[0].assignment, b"assignment");
    }
    assert_eq!(groups(&mut machine).len(), 5);
}

#[test]
fn what_cannot_be_understood_is_passed_over() {
    let good = |group| (offset_key(1, group), Some(offset_value(4, 5)));
    let mut newer = offset_value(4, 5);
    newer[1] = 77;
    let mut records = vec![
        good("first"),
        (vec![], Some(b"no key".to_vec())),
        (vec![1], None),
        (b"\x7f\xff and so on".to_vec(), Some(b"a type of the future".to_vec())),
        (b"\xff\xff".to_vec(), None),
        (offset_key(1, "newer"), Some(newer)),
        (offset_key(1, "cut"), Some(offset_value(4, 5)[..9].to_vec())),
        (offset_key(1, "empty"), Some(vec![])),
        (offset_key(1, "cut")[..7].to_vec(), Some(offset_value(4, 5))),
        (group_key("cut"), Some(group_value(3)[..40].to_vec())),
    ];
    // Those of the consumer, share and streams protocols.
    records.extend((3..=23).map(|kind: i16| {
        let key = [&kind.to_be_bytes()[..], b"\0\x01g"].concat();
        (key, Some(b"\0\0".to_vec()))
    }));
    records.push(good("last"));
    let (mut machine, foreign, unreadable) = load(&[batch(BatchOptions::default(), &records)]);
    assert_eq!(foreign.len(), 2 + 21);
    assert_eq!(unreadable, 7);
    assert_eq!(groups(&mut machine), [("first".to_owned(), "Empty"), ("last".to_owned(), "Empty")]);
}

#[test]
fn offsets_of_a_transaction_count_once_it_is_committed() {
    let in_transaction = |producer| BatchOptions {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: true,
        ..BatchOptions::default()
    };
    let commit = |group, offset| (offset_key(1, group), Some(offset_value(4, offset)));
    let end = |producer, committed| {
        let marker = EndTransactionMarker { committed, coordinator_epoch: 0 };
        let producer = (ProducerId(producer), ProducerEpoch(0));
        marker.batch(Offset::ZERO, LeaderEpoch(0), Timestamp(1000), producer).unwrap()
    };
    let (mut machine, ..) = load(&[
        batch(in_transaction(1), &[commit("committed", 1), commit("superseded", 1)]),
        batch(in_transaction(2), &[commit("aborted", 2)]),
        batch(in_transaction(3), &[commit("open", 3)]),
        batch(BatchOptions::default(), &[commit("superseded", 4)]),
        end(1, true),
        end(2, false),
    ]);
    assert_eq!(committed(&mut machine, "committed").0, 1);
    assert_eq!(committed(&mut machine, "superseded").0, 4);
    assert_eq!(committed(&mut machine, "aborted").0, -1);
    assert_eq!(committed(&mut machine, "open").0, -1);
}

#[test]
fn what_kafka_wrote_is_loaded() {
    let (mut machine, foreign, unreadable) = load(&[Bytes::from_static(KAFKA_4_4_0)]);
    assert_eq!(unreadable, 0);
    // Groups of the consumer, share and streams protocols stay in the log.
    assert!([3, 5, 10, 11, 17, 19].iter().all(|kind| foreign.contains(kind)), "{foreign:?}");
    let found = groups(&mut machine);
    for group in [("classic", "Stable"), ("static", "Stable"), ("committed", "Empty")] {
        assert!(found.contains(&(group.0.to_owned(), group.1)), "{found:?}");
    }
    for group in ["aborted", "open"] {
        assert_eq!(committed(&mut machine, group).0, -1, "{group}");
    }
    assert_eq!(committed(&mut machine, "classic").0, 10);
    assert_eq!(committed(&mut machine, "committed").0, 7);
    assert_eq!(committed(&mut machine, "next-generation").0, 10);
}

/// Every way to cut a record short, and many ways to spoil it: nothing panics.
#[test]
fn damaged_records_are_survived() {
    let samples = [(group_key("g"), group_value(4)), (offset_key(1, "g"), offset_value(4, 5))];
    for (key, value) in samples {
        for len in 0..key.len().max(value.len()) {
            let cut = |bytes: &[u8]| bytes[..len.min(bytes.len())].to_vec();
            load(&[batch(
                BatchOptions::default(),
                &[(cut(&key), Some(value.clone())), (key.clone(), Some(cut(&value)))],
            )]);
            for bits in [0x01, 0x80, 0xff] {
                let mut spoilt = value.clone();
                if let Some(byte) = spoilt.get_mut(len) {
                    *byte ^= bits;
                }
                load(&[batch(BatchOptions::default(), &[(key.clone(), Some(spoilt))])]);
            }
        }
    }
}
