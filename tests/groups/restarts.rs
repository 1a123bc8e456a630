//! What a broker knows of groups after it was gone, and how it bears many of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::ErrorCode;
use ottla_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use ottla_protocol::messages::describe_groups_response::DescribeGroupsResponse;
use ottla_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use ottla_protocol::messages::join_group_response::JoinGroupResponse;
use ottla_protocol::messages::list_groups_request::ListGroupsRequest;
use ottla_protocol::messages::list_groups_response::ListGroupsResponse;
use ottla_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::offset_commit_response::OffsetCommitResponse;
use ottla_protocol::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup};
use ottla_protocol::messages::offset_fetch_response::OffsetFetchResponse;
use ottla_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use ottla_protocol::messages::sync_group_response::SyncGroupResponse;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::Client;
use crate::requests::{self, make_topic};
use crate::with_broker_in;

/// Requests that are on their way at once.
const WINDOW: usize = 50;

fn commit(group: &str, partitions: i32, note: &str) -> OffsetCommitRequest {
    let partition = |index| OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: i64::from(index) + 7,
        committed_metadata: Some(note.into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

fn fetch(groups: &[String]) -> OffsetFetchRequest {
    let group = |group: &String| OffsetFetchRequestGroup {
        group_id: group.as_str().into(),
        topics: None,
        ..Default::default()
    };
    OffsetFetchRequest { groups: groups.iter().map(group).collect(), ..Default::default() }
}

/// Commits for each group; every commit must be accepted.
fn commit_for_all(client: &mut Client, groups: &[String]) {
    for groups in groups.chunks(WINDOW) {
        let first = client.last_correlation();
        for group in groups {
            client.send(8, &commit(group, 1, ""));
        }
        for (number, _) in (1..).zip(groups) {
            client.expect_correlation(first + number);
            let answer: OffsetCommitResponse = client.receive(8).unwrap();
            assert_eq!(answer.topics[0].partitions[0].error_code, 0);
        }
    }
}

fn wait_until_served(address: SocketAddr) -> Client {
    let mut client = Client::connect(address);
    let begun = Instant::now();
    while !requests::is_served(&mut client) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the groups are not loaded");
    }
    client
}

#[test]
fn ten_thousand_groups_come_back() {
    let groups: Vec<String> = (0..10_000).map(|number| format!("group-{number}")).collect();
    let dir = tempfile::tempdir().unwrap();
    with_broker_in(dir.path(), |address| {
        let mut client = wait_until_served(address);
        make_topic(&mut client, "t", 2);
        commit_for_all(&mut client, &groups);
    });
    with_broker_in(dir.path(), |address| {
        // Who asks while they are loaded is told so, and never that there is nothing.
        let mut client = Client::connect(address);
        let begun = Instant::now();
        for groups in groups.chunks(1000) {
            loop {
                let answer: OffsetFetchResponse = client.call(8, &fetch(groups));
                let errors: BTreeSet<i16> =
                    answer.groups.iter().map(|group| group.error_code).collect();
                if errors == BTreeSet::from([0]) {
                    let offsets = answer
                        .groups
                        .iter()
                        .map(|group| group.topics[0].partitions[0].committed_offset);
                    assert!(offsets.eq(vec![7; groups.len()]));
                    break;
                }
                let loading = ErrorCode::CoordinatorLoadInProgress.code();
                assert!(errors.is_subset(&BTreeSet::from([0, loading])), "{errors:?}");
                assert!(begun.elapsed() < Duration::from_secs(60), "the groups are not loaded");
            }
        }
        let listed: ListGroupsResponse = client.call(4, &ListGroupsRequest::default());
        assert_eq!((listed.error_code, listed.groups.len()), (0, groups.len()));
    });
}

/// Half a batch and worse at the end of a partition, as a crash leaves it.
#[test]
fn a_torn_tail_costs_nothing_that_was_answered() {
    let groups: Vec<String> = (0..200).map(|number| format!("group-{number}")).collect();
    for tail in [&[0; 100][..], &[0xff; 61], b"\0\0\0\0\0\0\0\x09\0\0\x01\0 and no more"] {
        let dir = tempfile::tempdir().unwrap();
        with_broker_in(dir.path(), |address| {
            let mut client = wait_until_served(address);
            make_topic(&mut client, "t", 2);
            commit_for_all(&mut client, &groups);
        });
        fs::remove_file(dir.path().join(".kafka_cleanshutdown")).unwrap();
        for partition in 0..50 {
            let log = format!("__consumer_offsets-{partition}/00000000000000000000.log");
            let log = dir.path().join(log);
            fs::OpenOptions::new().append(true).open(log).unwrap().write_all(tail).unwrap();
        }
        with_broker_in(dir.path(), |address| {
            let mut client = wait_until_served(address);
            let answer: OffsetFetchResponse = client.call(8, &fetch(&groups));
            for group in &answer.groups {
                assert_eq!(group.topics[0].partitions[0].committed_offset, 7);
            }
            commit_for_all(&mut client, &groups);
        });
    }
}

fn join(group: &str, member: &str, metadata: &Bytes) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.into(),
        member_id: member.into(),
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: metadata.clone(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn sync(joined: &JoinGroupResponse, group: &str, part: &Bytes) -> SyncGroupRequest {
    let assignments = joined.members.iter().map(|member| SyncGroupRequestAssignment {
        member_id: member.member_id.clone(),
        assignment: part.clone(),
        ..Default::default()
    });
    SyncGroupRequest {
        group_id: group.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: assignments.collect(),
        ..Default::default()
    }
}

fn state(client: &mut Client, group: &str) -> (String, usize) {
    let request = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
    let answer: DescribeGroupsResponse = client.call(4, &request);
    (answer.groups[0].group_state.to_string(), answer.groups[0].members.len())
}

/// Many members that come all at once; their group survives a restart.
#[test]
fn a_thousand_members_share_a_group() {
    const MEMBERS: usize = 1000;
    // Both ends of each connection are in this process.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    with_broker_in(dir.path(), |address| {
        let mut other = wait_until_served(address);
        let mut clients: Vec<Client> = (0..MEMBERS).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            client.send(3, &join("crowd", "", &Bytes::from_static(b"subscription")));
        }
        let begun = Instant::now();
        while state(&mut other, "crowd").1 < MEMBERS {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", state(&mut other, "crowd"));
        }
        let joined: Vec<JoinGroupResponse> =
            clients.iter_mut().map(|client| client.receive(3).unwrap()).collect();
        let leader = joined.iter().find(|joined| joined.leader == joined.member_id).unwrap();
        assert_eq!(leader.members.len(), MEMBERS);
        assert!(joined.iter().all(|joined| joined.generation_id == leader.generation_id));
        let part = Bytes::from_static(b"assignment");
        for (client, joined) in clients.iter_mut().zip(&joined) {
            client.send(2, &sync(joined, "crowd", &part));
        }
        for client in &mut clients {
            let synced: SyncGroupResponse = client.receive(2).unwrap();
            assert_eq!((synced.error_code, &synced.assignment), (0, &part));
        }
        assert_eq!(state(&mut other, "crowd"), ("Stable".to_owned(), MEMBERS));
    });
    with_broker_in(dir.path(), |address| {
        let mut client = wait_until_served(address);
        assert_eq!(state(&mut client, "crowd"), ("Stable".to_owned(), MEMBERS));
    });
}

/// What one client sends does not fit into a record: it gets its error, and the
/// groups that share the partition go on.
#[test]
fn what_is_too_large_for_the_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    with_broker_in(dir.path(), |address| {
        let mut client = wait_until_served(address);
        make_topic(&mut client, "t", 300);
        // Three hundred records of 4 KB each are more than a batch may hold.
        let group = "g".repeat(4000);
        let answer: OffsetCommitResponse = client.call(8, &commit(&group, 300, ""));
        let errors = answer.topics[0].partitions.iter().map(|it| it.error_code);
        assert!(errors.eq(vec![ErrorCode::UnknownServerError.code(); 300]));
        let answer: OffsetCommitResponse = client.call(8, &commit(&group, 1, "fits"));
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);

        // An assignment of 2 MB.
        let mut member = Client::connect(address);
        let joined: JoinGroupResponse = member.call(3, &join(&group, "", &Bytes::new()));
        assert_eq!(joined.error_code, 0);
        let part = Bytes::from(vec![0; 2 << 20]);
        let synced: SyncGroupResponse = member.call(2, &sync(&joined, &group, &part));
        assert_eq!(synced.error_code, ErrorCode::UnknownServerError.code());
        let again = join(&group, &joined.member_id, &Bytes::new());
        let joined: JoinGroupResponse = member.call(3, &again);
        let part = Bytes::from_static(b"small");
        let synced: SyncGroupResponse = member.call(2, &sync(&joined, &group, &part));
        assert_eq!((synced.error_code, synced.assignment), (0, part));

        // A member id that is made of this name has no room in any message.
        let mut stranger = Client::connect(address);
        let endless = "i".repeat(i16::MAX as usize);
        let request = join("endless", "", &Bytes::new());
        let request = JoinGroupRequest { group_instance_id: Some(endless.into()), ..request };
        stranger.send(5, &request);
        assert!(stranger.is_closed());
        let endless = "g".repeat(i16::MAX as usize);
        let joined: JoinGroupResponse = client.call(4, &join(&endless, "", &Bytes::new()));
        assert_eq!(joined.error_code, ErrorCode::MemberIdRequired.code());
        assert!(requests::is_served(&mut client));
    });
    with_broker_in(dir.path(), |address| {
        let mut client = wait_until_served(address);
        let groups = ["g".repeat(4000)];
        let answer: OffsetFetchResponse = client.call(8, &fetch(&groups));
        assert_eq!(answer.groups[0].topics[0].partitions.len(), 1);
        assert_eq!(answer.groups[0].topics[0].partitions[0].metadata.as_deref(), Some("fits"));
    });
}

/// Clients that ask to join and hang up: their places are given up again, and the
/// others are not held up.
#[test]
fn who_hangs_up_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    with_broker_in(dir.path(), |address| {
        let mut client = wait_until_served(address);
        for version in [3, 9] {
            for _ in 0..50 {
                let mut gone = Client::connect(address);
                gone.send(version, &join("gone", "", &Bytes::new()));
            }
        }
        let joined: JoinGroupResponse = client.call(3, &join("other", "", &Bytes::new()));
        assert_eq!(joined.error_code, 0);
        assert!(requests::is_served(&mut client));
    });
}
