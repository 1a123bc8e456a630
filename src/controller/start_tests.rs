//! Whole controllers over a disk in memory: start, serve, crash, start again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::bootstrap::{Levels, format_metadata, levels};
use super::{
    ActiveController, ApiError, BrokerHeartbeat, ConfigRules, Controller, ControllerCloser,
    ControllerOptions, ControllerStart, CreateTopic, RegisterBroker, SnapshotRules,
};
use crate::cluster::{ClusterImage, ConfigResource, ResourceType, features};
use crate::raft::{MetadataLogOptions, ReplicaKey, Voter, VoterEndpoint, VoterSet};
use crate::sys::clock::SystemClock;
use crate::sys::disk::Disk as _;
use crate::sys::memory_disk::{Fault, MemoryDisk};
use crate::sys::random::Random;
use crate::types::{BrokerId, DirectoryId, Timestamp};

const DIR: &str = "/data";
const ME: ReplicaKey =
    ReplicaKey { id: BrokerId(1), directory: Some(DirectoryId::from_u128(0xd1_0000)) };

/// Everything goes.
#[derive(Debug)]
struct NoRules;

impl ConfigRules for NoRules {
    fn is_list(&self, _: ResourceType, _: &str) -> bool {
        false
    }
    fn default_value(&self, _: ResourceType, _: &str) -> Option<String> {
        None
    }
    fn validate(
        &self,
        _: &ConfigResource,
        _: &BTreeMap<Arc<str>, Arc<str>>,
        _: &BTreeMap<Arc<str>, Arc<str>>,
    ) -> Result<(), ApiError> {
        Ok(())
    }
}

fn endpoints() -> Vec<VoterEndpoint> {
    vec![VoterEndpoint { name: "CONTROLLER".into(), host: "localhost".into(), port: 9093 }]
}

fn formatted() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let voter = Voter { key: ME, endpoints: endpoints(), kraft_versions: (0, 1) };
    let fresh = levels(&Levels::new(), true).unwrap();
    let voters = VoterSet::new([voter]);
    format_metadata(&disk.shared(), Path::new(DIR), &fresh, Some(&voters), Timestamp(1)).unwrap();
    disk
}

struct Node {
    controller: Controller,
    closer: ControllerCloser,
    serving: tokio::task::JoinHandle<Result<(), String>>,
}

fn start_with(disk: &MemoryDisk, snapshots: SnapshotRules) -> Result<Node, String> {
    let clock = SystemClock::shared();
    let options = ControllerOptions {
        local_broker: Some(BrokerId(1)),
        // Silence: the tests count what they write.
        max_idle_interval: Duration::ZERO,
        ..ControllerOptions::default()
    };
    let active = ActiveController::start(ControllerStart {
        log: MetadataLogOptions::new(Path::new(DIR), disk.shared(), clock),
        me: ME,
        endpoints: endpoints(),
        cluster_id: "cluster".into(),
        options,
        rules: Arc::new(NoRules),
        snapshots,
        random: Random::from_seed(5),
    });
    let (controller, serving, closer) = active.map_err(|error| error.to_string())?.into_parts();
    Ok(Node { controller, closer, serving: tokio::spawn(serving) })
}

fn start(disk: &MemoryDisk) -> Result<Node, String> {
    start_with(disk, SnapshotRules::default())
}

impl Node {
    /// Registers this node's broker and has it unfenced; its epoch.
    async fn broker(&self) -> Result<i64, ApiError> {
        let image = self.closer.caught_up(&self.controller).await?;
        let epoch = self
            .controller
            .register_broker(RegisterBroker {
                id: BrokerId(1),
                cluster_id: "cluster".into(),
                incarnation_id: Uuid::new_v4(),
                endpoints: Vec::new(),
                features: features::supported(&image),
                rack: None,
                directories: vec![Uuid::from_u128(0xd1_0000)],
                previous_epoch: -1,
            })
            .await?;
        let heartbeat = BrokerHeartbeat {
            id: BrokerId(1),
            epoch,
            metadata_offset: self.controller.image().offset,
            want_fence: false,
            want_shut_down: false,
            offline_directories: Vec::new(),
            cordoned_directories: None,
        };
        let reply = self.controller.broker_heartbeat(heartbeat).await?;
        assert!(!reply.is_fenced);
        Ok(epoch)
    }

    /// Waits until the controller itself is registered.
    async fn registered(&self) {
        let mut published = self.controller.watch();
        published.wait_for(|image| !image.controllers.is_empty()).await.unwrap();
    }

    async fn create(&self, name: &str, partitions: i32) -> Result<(), ApiError> {
        let topic = CreateTopic {
            name: name.into(),
            partitions,
            replication_factor: -1,
            ..CreateTopic::default()
        };
        let mut results = self.controller.create_topics(vec![topic], false).await?;
        results.pop().unwrap().map(|_| ())
    }

    async fn stop(self) -> Arc<ClusterImage> {
        let image = self.controller.image();
        drop(self.controller);
        self.serving.await.unwrap().unwrap();
        self.closer.close();
        image
    }
}

#[tokio::test]
async fn what_was_decided_is_there_after_a_restart() {
    let disk = formatted();
    let node = start(&disk).unwrap();
    node.broker().await.unwrap();
    node.create("a", 3).await.unwrap();
    node.registered().await;
    let image = node.stop().await;
    assert_eq!((image.topic("a").unwrap().partitions.len(), image.kraft_version), (3, 1));

    // The controller of the next start has not registered yet in its first image.
    let node = start(&disk).unwrap();
    let again = node.closer.caught_up(&node.controller).await.unwrap();
    assert_eq!((&again.topics, &again.brokers), (&image.topics, &image.brokers));
    assert_eq!((&again.features, again.kraft_version), (&image.features, image.kraft_version));
    node.broker().await.unwrap();
    let leader = node.controller.image().partition("a", 2).unwrap().leader;
    assert_eq!(leader, Some(BrokerId(1)));
    node.stop().await;
}

#[tokio::test]
async fn a_snapshot_is_written_when_the_log_has_grown_and_read_again() {
    let disk = formatted();
    let rules = SnapshotRules { max_bytes: 20_000, max_interval: Duration::ZERO };
    let node = start_with(&disk, rules).unwrap();
    node.broker().await.unwrap();
    let dir = Path::new(DIR).join("__cluster_metadata-0");
    let snapshots = || {
        let names = disk.list(&dir).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".checkpoint")).count()
    };
    let mut topics = 0;
    while snapshots() < 2 {
        topics += 1;
        node.create(&format!("topic-{topics}"), 10).await.unwrap();
    }
    let image = node.stop().await;
    let node = start(&disk).unwrap();
    let again = node.closer.caught_up(&node.controller).await.unwrap();
    assert_eq!(again.topics.len(), topics);
    assert_eq!(again.topics, image.topics);
    assert!(again.offset >= image.offset);
    node.stop().await;
}

/// Creates topics until the disk breaks; those that were acknowledged.
async fn create_until_broken(disk: &MemoryDisk) -> Vec<String> {
    let mut done = Vec::new();
    let Ok(node) = start(disk) else { return done };
    if node.broker().await.is_ok() {
        for number in 0..4 {
            let name = format!("t{number}");
            if node.create(&name, 2).await.is_err() {
                break;
            }
            done.push(name);
        }
    }
    drop(node.controller);
    let _ = node.serving.await;
    drop(node.closer);
    done
}

#[tokio::test]
async fn at_no_instant_does_a_crash_lose_an_acknowledged_topic() {
    let whole = formatted();
    let before = whole.operations();
    assert_eq!(create_until_broken(&whole).await.len(), 4);
    for crash_point in 0..whole.operations() - before {
        let disk = formatted();
        disk.break_with(Fault::stop(crash_point));
        let done = create_until_broken(&disk).await;
        disk.power_lost(&Random::from_seed(crash_point));
        let node = start(&disk).unwrap();
        let image = node.closer.caught_up(&node.controller).await.unwrap();
        for name in &done {
            let topic = image.topic(name);
            assert_eq!(topic.map(|topic| topic.partitions.len()), Some(2), "{crash_point}");
        }
        node.broker().await.unwrap();
        node.create("after", 1).await.unwrap();
        node.stop().await;
    }
}

#[tokio::test]
async fn who_asks_a_controller_whose_disk_failed_is_told() {
    let disk = formatted();
    let node = start(&disk).unwrap();
    node.broker().await.unwrap();
    disk.break_with(Fault::full(0));
    let refused = node.create("a", 1).await.unwrap_err();
    assert_eq!(refused.code, crate::protocol::ErrorCode::NotController);
    assert!(node.serving.await.unwrap().is_err());
    assert!(node.controller.image().topic("a").is_none());
}
