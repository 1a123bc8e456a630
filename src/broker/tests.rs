//! Whole brokers in this process, spoken to over sockets.

use std::path::Path;

use super::*;
use crate::cluster::ConfigResource;
use crate::controller::{AlterSettings, SettingChange};
use crate::protocol::messages::api_versions_request::ApiVersionsRequest;
use crate::protocol::messages::api_versions_response::ApiVersionsResponse;
use crate::protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use crate::protocol::messages::create_topics_response::CreateTopicsResponse;
use crate::protocol::messages::describe_cluster_request::DescribeClusterRequest;
use crate::protocol::messages::describe_cluster_response::DescribeClusterResponse;
use crate::protocol::messages::describe_quorum_request::{
    DescribeQuorumRequest, PartitionData, TopicData,
};
use crate::protocol::messages::describe_quorum_response::DescribeQuorumResponse;
use crate::protocol::messages::metadata_request::MetadataRequest;
use crate::protocol::messages::metadata_response::MetadataResponse;
use crate::sys::clock::within;
use crate::testing::client::Client;

fn config(dir: &Path) -> Config {
    let dir = dir.to_str().unwrap();
    let overrides =
        [("log.dirs", dir), ("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0")];
    Config::from_overrides(&overrides).unwrap()
}

pub(super) fn client(broker: &Broker) -> Client {
    Client::connect(broker.addresses()[0])
}

fn software() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    }
}

pub(super) fn create(client: &mut Client, name: &str) -> i16 {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 2,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response: CreateTopicsResponse = client.call(7, &request);
    response.topics[0].error_code
}

fn topics(client: &mut Client) -> Vec<(String, usize)> {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let response: MetadataResponse = client.call(12, &request);
    let topic = |topic: &crate::protocol::messages::metadata_response::MetadataResponseTopic| {
        (topic.name.as_ref().unwrap().to_string(), topic.partitions.len())
    };
    response.topics.iter().map(topic).collect()
}

#[tokio::test]
async fn a_broker_starts_serves_stops_and_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let mut one = client(&broker);
    let versions: ApiVersionsResponse = one.call(4, &software());
    assert_eq!(versions.error_code, 0);
    assert!(versions.finalized_features.iter().any(|f| &*f.name == "metadata.version"));
    assert_eq!(create(&mut one, "remembered"), 0);
    assert_eq!(topics(&mut one), [("remembered".to_owned(), 2)]);
    broker.stop().await;
    assert!(one.is_closed());

    let broker = Broker::start(config(dir.path())).await.unwrap();
    let mut two = client(&broker);
    assert_eq!(topics(&mut two), [("remembered".to_owned(), 2)]);
    broker.stop().await;
}

#[tokio::test]
async fn a_second_broker_on_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Broker::start(config(dir.path())).await.unwrap();
    let refused = Broker::start(config(dir.path())).await.unwrap_err();
    assert!(matches!(refused, StartError::Storage(_)), "{refused}");
    assert!(refused.to_string().contains(".lock"), "{refused}");
    let mut client = client(&first);
    assert!(topics(&mut client).is_empty());
    first.stop().await;
}

/// Waits until an image of the metadata says so.
pub(super) async fn until(broker: &Broker, says: impl Fn(&ClusterImage) -> bool) {
    let mut images = broker.parts.controller.watch();
    let image = images.wait_for(|image| says(image));
    within(Duration::from_secs(20), image).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_directory_that_fails_takes_only_its_own_partitions_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = ["one", "two"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    let config = || {
        let listeners = ("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0");
        Config::from_overrides(&[("log.dirs", &dirs.join(",")), listeners]).unwrap()
    };
    let broker = Broker::start(config()).await.unwrap();
    assert_eq!(create(&mut client(&broker), "spread"), 0);
    let lies = |image: &ClusterImage, partition| {
        image.partition("spread", partition).and_then(|p| p.directory_of(BrokerId(1)))
    };
    let ids: Vec<_> = broker.store.directories().iter().map(|directory| directory.id()).collect();
    let known = |image: &ClusterImage| {
        (0..2).all(|partition| lies(image, partition).is_some_and(|id| ids.contains(&id)))
    };
    until(&broker, known).await;
    let failing = &broker.store.directories()[1];
    let lost = (0..2).find(|n| lies(&broker.parts.controller.image(), *n) == Some(failing.id()));
    let lost = lost.expect("the partitions are spread");
    failing.health().fail(failing.path(), &std::io::Error::other("it burns"));
    let leader = |image: &ClusterImage, n| image.partition("spread", n).unwrap().leader;
    until(&broker, |image| leader(image, lost).is_none()).await;
    assert_eq!(leader(&broker.parts.controller.image(), 1 - lost), Some(BrokerId(1)));
    broker.stop().await;

    // The disk is sound again: what was in it is served again.
    let broker = Broker::start(config()).await.unwrap();
    until(&broker, |image| leader(image, lost) == Some(BrokerId(1))).await;
    broker.stop().await;
}

#[tokio::test]
async fn dynamic_limits_of_connections_hold_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let mut first = client(&broker);
    assert_eq!(create(&mut first, "t"), 0);
    let change = ("max.connections.per.ip".into(), SettingChange::Set("1".into()));
    let resource = ConfigResource::all_brokers();
    let changes = vec![AlterSettings { resource, changes: vec![change] }];
    let written = broker.parts.controller.incremental_alter_configs(changes, false).await.unwrap();
    assert_eq!(written, [Ok(())]);
    let written = broker.parts.controller.image().offset;
    broker.follower.applied.clone().wait_for(|applied| *applied >= written).await.unwrap();
    assert!(client(&broker).is_closed(), "this address has its one connection");
    assert_eq!(topics(&mut first).len(), 1);
    broker.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody, not even root, can make a directory in a file.
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let wanted = file.join("data");
    let refused = Broker::start(config(&wanted)).await.unwrap_err().to_string();
    assert!(refused.starts_with(wanted.to_str().unwrap()), "{refused}");
    assert!(refused.contains("Not a directory"), "{refused}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let listeners = format!("PLAINTEXT://{address},CONTROLLER://127.0.0.1:0");
    let overrides = [("log.dirs", dir.path().to_str().unwrap()), ("listeners", &listeners)];
    let config = Config::from_overrides(&overrides).unwrap();
    let refused = Broker::start(config).await.unwrap_err().to_string();
    let wanted = format!("Listener PLAINTEXT failed to bind to {address}: Address already in use");
    assert!(refused.starts_with(&wanted), "{refused}");
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let mut client = client(&broker);
    // ApiVersions version 99, correlation id 1, null client id, and a body that
    // nobody can know.
    client.send_bytes(b"\0\0\0\x0d\0\x12\0\x63\0\0\0\x01\xff\xff\0\xaa\xbb");
    client.expect_correlation(1);
    let response: ApiVersionsResponse = client.receive(0).unwrap();
    assert_eq!((response.error_code, response.api_keys.len()), (35, 1));
    let versions: ApiVersionsResponse = client.call(5, &software());
    assert_eq!(versions.error_code, 0, "the connection goes on");
    broker.stop().await;
}

#[tokio::test]
async fn what_cannot_be_served_closes_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let refused: [&[u8]; 3] = [
        // No such API.
        b"\0\0\0\x0a\x7f\0\0\0\0\0\0\x01\xff\xff",
        // Metadata in a version that there is not.
        b"\0\0\0\x0a\0\x03\0\x63\0\0\0\x01\xff\xff\0",
        // Metadata version 1 with two thousand million topics.
        b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff",
    ];
    for bytes in refused {
        let mut client = client(&broker);
        let mut frame = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(&bytes[4..]);
        client.send_bytes(&frame);
        assert!(client.is_closed(), "{bytes:?}");
    }
    // Fetch is no API of the controller here.
    let mut controller = Client::connect(broker.controller_addresses()[0]);
    controller.send_bytes(b"\0\0\0\x0a\0\x01\0\x04\0\0\0\x01\xff\xff");
    assert!(controller.is_closed());
    let mut controller = Client::connect(broker.controller_addresses()[0]);
    let versions: ApiVersionsResponse = controller.call(4, &software());
    assert_eq!(versions.error_code, 0);
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_means_another_broker_is_sent_to_look_for_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let cluster = broker.parts.cluster_id.to_string();
    let mut client = client(&broker);
    for (cluster_id, node_id, error) in [
        (Some(cluster.as_str()), 1, 0),
        (Some(cluster.as_str()), 2, 129),
        (Some("another"), 1, 129),
        (Some("another"), -1, 42),
        (None, 1, 42),
    ] {
        let cluster_id = cluster_id.map(Into::into);
        let request = ApiVersionsRequest { cluster_id, node_id, ..software() };
        let response: ApiVersionsResponse = client.call(5, &request);
        assert_eq!(response.error_code, error, "{request:?}");
    }
    let nameless = ApiVersionsRequest::default();
    let response: ApiVersionsResponse = client.call(3, &nameless);
    assert_eq!((response.error_code, response.api_keys.len()), (42, 0));
    broker.stop().await;
}

fn quorum_of(topic_name: &str) -> DescribeQuorumRequest {
    let partitions = vec![PartitionData::default()];
    let topic = TopicData { topic_name: topic_name.into(), partitions, ..Default::default() };
    DescribeQuorumRequest { topics: vec![topic], ..Default::default() }
}

#[tokio::test]
async fn the_quorum_is_told_by_broker_and_controller() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let controller = broker.controller_addresses()[0];
    for address in [broker.addresses()[0], controller] {
        let mut client = Client::connect(address);
        let response: DescribeQuorumResponse = client.call(2, &quorum_of("__cluster_metadata"));
        let quorum = &response.topics[0].partitions[0];
        assert_eq!((quorum.error_code, quorum.leader_id, quorum.leader_epoch), (0, 1, 1));
        let voter = &quorum.current_voters[0];
        assert_eq!((quorum.current_voters.len(), quorum.observers.len()), (1, 0));
        assert_eq!(voter.replica_directory_id, broker.store.metadata_directory().id());
        assert!(quorum.high_watermark > 0 && voter.log_end_offset >= quorum.high_watermark);
        assert_eq!(voter.last_fetch_timestamp, voter.last_caught_up_timestamp);
        let listener = &response.nodes[0].listeners[0];
        assert_eq!((&*listener.name, listener.port), ("CONTROLLER", controller.port()));

        let old: DescribeQuorumResponse = client.call(0, &quorum_of("__cluster_metadata"));
        assert_eq!(old.topics[0].partitions[0].leader_id, 1);
        let other: DescribeQuorumResponse = client.call(2, &quorum_of("t"));
        assert_eq!(other.topics[0].partitions[0].error_code, 3);
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_controller_tells_of_controllers_and_takes_topics() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(dir.path())).await.unwrap();
    let address = broker.controller_addresses()[0];
    let mut controller = Client::connect(address);
    let ask = |endpoint_type| DescribeClusterRequest { endpoint_type, ..Default::default() };
    let cluster: DescribeClusterResponse = controller.call(1, &ask(2));
    assert_eq!((cluster.error_code, cluster.endpoint_type, cluster.controller_id), (0, 2, 1));
    assert_eq!(cluster.brokers[0].port, i32::from(address.port()));
    let refused: DescribeClusterResponse = controller.call(1, &ask(1));
    assert_eq!(refused.error_code, 114);
    assert_eq!(create(&mut controller, "t"), 0);
    assert_eq!(topics(&mut client(&broker)), [("t".to_owned(), 2)]);
    broker.stop().await;
}
