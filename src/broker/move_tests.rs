//! Replicas of a whole broker that move between its log directories.

use std::collections::BTreeMap;
use std::path::Path;

use super::tests::{client, create, until};
use super::*;
use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::log::{AppendOrigin, ProducerContext};
use crate::partition::waiters::Isolation;
use crate::partition::{Limits, Partition, Position, Reader};
use crate::protocol::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use crate::protocol::messages::alter_replica_log_dirs_response::AlterReplicaLogDirsResponse;
use crate::sys::clock::sleep;
use crate::sys::cold::IfCold;
use crate::sys::thread::{Priority, spawn};
use crate::testing::client::Client;
use crate::types::{DirectoryId, LeaderEpoch, Offset, Timestamp};

const NODE: BrokerId = BrokerId(1);

fn two_dirs(dir: &Path) -> Config {
    let dirs = ["one", "two"].map(|name| dir.join(name).to_str().unwrap().to_owned()).join(",");
    let listeners = ("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0");
    // Small pieces, so that a copy takes a while.
    let pieces = ("replica.fetch.max.bytes", "2000");
    Config::from_overrides(&[("log.dirs", &dirs), listeners, pieces]).unwrap()
}

fn alter(client: &mut Client, topic: &str, partition: i32, path: &Path) -> i16 {
    let topic = AlterReplicaLogDirTopic {
        name: topic.into(),
        partitions: vec![partition],
        ..<_>::default()
    };
    let path = path.to_str().unwrap().into();
    let dir = AlterReplicaLogDir { path, topics: vec![topic], ..<_>::default() };
    let request = AlterReplicaLogDirsRequest { dirs: vec![dir], ..<_>::default() };
    let response: AlterReplicaLogDirsResponse = client.call(2, &request);
    response.results[0].partitions[0].error_code
}

fn produce(partition: &Partition, number: i64) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Timestamp(1_000), None, Some(format!("record {number}").as_bytes()));
    let context = ProducerContext::of(AppendOrigin::Client);
    let appended = partition.append(&builder.build().unwrap(), &context, true).unwrap();
    assert_eq!(appended.info.first_offset, Offset(number));
}

/// All offsets from 0 to `end` can be read, each once.
fn assert_whole(partition: &Partition, end: i64) {
    let reader = Reader { isolation: Isolation::HighWatermark, leader_only: true, follower: None };
    let mut next = Offset::ZERO;
    while next < Offset(end) {
        let position = Position {
            fetch_offset: next,
            current_leader_epoch: LeaderEpoch::NONE,
            last_fetched_epoch: LeaderEpoch::NONE,
            log_start: Offset::NONE,
        };
        let limits = Limits { max_bytes: 50_000, at_least_one: true, if_cold: IfCold::Wait };
        let slice = partition.read(&reader, &position, limits).unwrap().slice.unwrap();
        assert_eq!(slice.first_offset, next);
        let bytes = slice.read().unwrap();
        let last = format!("record {}", slice.end_offset.0 - 1);
        assert!(bytes.windows(last.len()).any(|window| window == last.as_bytes()), "{last}");
        next = slice.end_offset;
    }
    assert_eq!(partition.extent().log_end, Offset(end));
}

fn told(image: &ClusterImage) -> Option<DirectoryId> {
    image.partition("moving", 0).and_then(|partition| partition.directory_of(NODE))
}

/// The directory with the replica, and the other one.
fn here_and_there(broker: &Broker) -> (usize, usize) {
    let name = TopicPartition::new("moving", 0);
    let here = broker.store.directory_of(&name).unwrap();
    let at = broker.store.directories().iter().position(|dir| dir.id() == here).unwrap();
    (at, 1 - at)
}

/// Waits until the controller was told of the replica there, and it is.
async fn arrives(broker: &Broker, at: usize) {
    let wanted = Some(broker.store.directories()[at].id());
    until(broker, |image| told(image) == wanted).await;
    let name = TopicPartition::new("moving", 0);
    while broker.store.directory_of(&name) != wanted {
        sleep(Duration::from_millis(1)).await;
    }
}

fn path(broker: &Broker, at: usize) -> std::path::PathBuf {
    broker.store.directories()[at].path().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_partition_moves_while_it_is_written_and_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(two_dirs(dir.path())).await.unwrap();
    let mut asking = client(&broker);
    assert_eq!(create(&mut asking, "moving"), 0);
    let partition = broker.parts.partitions.get("moving", 0).unwrap();
    (0..2000).for_each(|number| produce(&partition, number));
    let (here, there) = here_and_there(&broker);

    let written = partition.clone();
    let write = move || (2000..8000).for_each(|number| produce(&written, number));
    let writer = spawn("writer", Priority::Normal, write).unwrap();
    assert_eq!(alter(&mut asking, "moving", 0, &path(&broker, there)), 0);
    arrives(&broker, there).await;
    writer.join().unwrap();
    let end = 8000;
    assert_whole(&partition, end);
    assert_eq!(here_and_there(&broker), (there, here));
    assert_eq!(
        told(&broker.parts.controller.image()),
        Some(broker.store.directories()[there].id()),
        "the controller was told before"
    );
    // And back, with a stop in the middle.
    assert_eq!(alter(&mut asking, "moving", 0, &path(&broker, here)), 0);
    drop(partition);
    broker.stop().await;

    let broker = Broker::start(two_dirs(dir.path())).await.unwrap();
    arrives(&broker, here).await;
    let partition = broker.parts.partitions.get("moving", 0).unwrap();
    assert_whole(&partition, end);
    produce(&partition, end);
    drop(partition);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_move_keeps_to_the_limit_of_the_moment() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(two_dirs(dir.path())).await.unwrap();
    let mut asking = client(&broker);
    assert_eq!(create(&mut asking, "moving"), 0);
    let partition = broker.parts.partitions.get("moving", 0).unwrap();
    (0..2000).for_each(|number| produce(&partition, number));
    let (here, there) = here_and_there(&broker);
    let limit = |value: &str| {
        let key = "replica.alter.log.dirs.io.max.bytes.per.second";
        let own = BTreeMap::from([(key.into(), value.into())]);
        assert!(broker.parts.config.apply(&BTreeMap::new(), &own).is_empty());
    };
    let copied = || {
        let future = broker.store.future_of(&TopicPartition::new("moving", 0));
        future.map_or(Offset::ZERO, |future| future.lock().log_end_offset())
    };

    // After one piece comes the next in half an hour.
    limit("1");
    assert_eq!(alter(&mut asking, "moving", 0, &path(&broker, there)), 0);
    while copied() == Offset::ZERO {
        sleep(Duration::from_millis(1)).await;
    }
    let piece = copied();
    (2000..4000).for_each(|number| produce(&partition, number));
    assert_eq!(copied(), piece);
    // It can be called off meanwhile, and begun again.
    assert_eq!(alter(&mut asking, "moving", 0, &path(&broker, here)), 0);
    arrives(&broker, here).await;
    assert_eq!(alter(&mut asking, "moving", 0, &path(&broker, there)), 0);
    limit("1000000000");
    arrives(&broker, there).await;
    assert_whole(&partition, 4000);
    drop(partition);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn wishes_that_cannot_be_met_are_told_as_kafka_tells_them() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(two_dirs(dir.path())).await.unwrap();
    let mut asking = client(&broker);
    let there = path(&broker, 1);
    assert_eq!(alter(&mut asking, "moving", 0, Path::new("/nowhere")), 57);
    assert_eq!(alter(&mut asking, &"n".repeat(249), 0, &there), 17);
    assert_eq!(alter(&mut asking, "moving", 0, &there), 3, "and it is remembered");
    assert_eq!(alter(&mut asking, "moving", 1, &there), 3);
    assert_eq!(create(&mut asking, "moving"), 0);
    let second = broker.store.directories()[1].id();
    for partition in 0..2 {
        let name = TopicPartition::new("moving", partition);
        assert_eq!(broker.store.directory_of(&name), Some(second));
    }
    assert_eq!(alter(&mut asking, "moving", 0, &there), 0, "it is there");
    let failing = &broker.store.directories()[1];
    failing.health().fail(failing.path(), &std::io::Error::other("it burns"));
    assert_eq!(alter(&mut asking, "moving", 0, &there), 56);
    assert_eq!(alter(&mut asking, "moving", 0, &path(&broker, 0)), 56);
    broker.stop().await;
}
