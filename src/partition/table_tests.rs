//! The table of partitions follows the cluster's image, on logs of a real store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::table::{Missing, PartitionTable, Surroundings};
use super::*;
use crate::cluster::{
    ClusterDelta, ClusterImage, ConfigResource, PartitionRegistration, Settings, Topic,
};
use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::log::meta_properties::MetaProperties;
use crate::log::store::{LogStore, StoreOptions};
use crate::log::{AppendOrigin, ProducerContext};
use crate::sys::clock::ManualClock;
use crate::sys::disk::Disk as _;
use crate::sys::memory_disk::MemoryDisk;
use crate::sys::random::Random;
use crate::types::{LeaderEpoch, Offset, Timestamp};

const ME: BrokerId = BrokerId(1);

/// A table and what it stands on; `image` is what it has applied.
struct Node {
    disk: Arc<MemoryDisk>,
    table: PartitionTable,
    image: ClusterImage,
}

impl Node {
    fn start(disk: Arc<MemoryDisk>) -> Self {
        let clock = ManualClock::starting_at(Timestamp(1_000_000));
        let path = PathBuf::from("/data");
        if !disk.exists(&path) {
            disk.create_dir_all(&path).unwrap();
            let identity =
                MetaProperties { cluster_id: "c".to_owned(), node_id: ME, directory_id: None };
            identity.write(&*disk, &path).unwrap();
        }
        let options = StoreOptions {
            disk: disk.shared(),
            clock: clock.clone(),
            random: Random::from_seed(1),
            log_dirs: vec![path.clone()],
            metadata_log_dir: path,
            node_id: ME,
            recovery_threads_per_dir: 1,
            producer_expiration_ms: 86_400_000,
            open_files: 10,
        };
        let store = Arc::new(LogStore::open(options).unwrap());
        store.load(&|_| Arc::default(), &|_, _| false).unwrap();
        let table = PartitionTable::new(Surroundings {
            local: ME,
            store,
            log_configs: Box::new(|image, topic| {
                let settings = image.settings(&ConfigResource::topic(topic));
                let bytes = settings.and_then(|all| all.get("max.message.bytes")?.parse().ok());
                let default = LogConfig::default();
                let max_message_bytes = bytes.unwrap_or(default.max_message_bytes);
                LogConfig { max_message_bytes, ..default }
            }),
            max_lag: Duration::from_secs(30),
            clock,
        });
        Self { disk, table, image: ClusterImage::empty("c") }
    }

    /// Lets the metadata log say something else.
    fn change(&mut self, change: impl FnOnce(&mut ClusterImage)) {
        let mut next = self.image.clone();
        change(&mut next);
        self.table.apply(&ClusterDelta::between(&self.image, &next), &next);
        self.image = next;
    }

    fn directories(&self) -> Vec<String> {
        let entries = self.disk.list(Path::new("/data")).unwrap();
        let mut names: Vec<_> =
            entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect();
        names.sort();
        names
    }
}

fn registration(leader: i32, replicas: &[i32], epoch: i32) -> Arc<PartitionRegistration> {
    let brokers: Vec<_> = replicas.iter().copied().map(BrokerId).collect();
    Arc::new(PartitionRegistration {
        directories: vec![TopicId::nil(); brokers.len()],
        isr: brokers.clone(),
        replicas: brokers,
        leader: Some(BrokerId(leader)),
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: epoch,
        ..PartitionRegistration::default()
    })
}

fn put(
    image: &mut ClusterImage,
    name: &str,
    id: u128,
    partitions: Vec<Arc<PartitionRegistration>>,
) {
    let name: Arc<str> = name.into();
    let id = TopicId::from_u128(id);
    let topic = Topic { name: Arc::clone(&name), id, partitions };
    image.topics.insert(Arc::clone(&name), Arc::new(topic));
    image.topic_names.insert(id, name);
}

fn remove(image: &mut ClusterImage, name: &str) {
    let topic = image.topics.remove(name).unwrap();
    image.topic_names.remove(&topic.id);
}

fn append(partition: &Partition) -> Result<Appended, PartitionError> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(Timestamp(1), None, Some(b"0123456789"));
    let context = ProducerContext::of(AppendOrigin::Client);
    partition.append(&builder.build().unwrap(), &context, true)
}

#[test]
fn topics_come_are_led_and_go() {
    let mut node = Node::start(Arc::new(MemoryDisk::new()));
    node.change(|image| {
        put(image, "t", 7, vec![registration(1, &[1], 0), registration(2, &[2], 0)]);
    });
    let partition = node.table.get("t", 0).unwrap();
    assert!(append(&partition).unwrap().committed);
    assert_eq!(node.table.get("t", 1).unwrap_err(), Missing::NotHere, "another broker's");
    assert_eq!(node.table.get("t", -1).unwrap_err(), Missing::NotHere);
    let by_id = node.table.get_by_id(TopicId::from_u128(7), 0).unwrap();
    assert!(Arc::ptr_eq(&partition, &by_id));
    assert_eq!(node.directories(), ["t-0"]);

    node.change(|image| remove(image, "t"));
    assert_eq!(node.table.get("t", 0).unwrap_err(), Missing::NotHere);
    assert!(node.table.get_by_id(TopicId::from_u128(7), 0).is_err());
    assert!(matches!(append(&partition), Err(PartitionError::Gone)));
    assert!(node.directories().iter().all(|name| name.ends_with("-delete")));
}

#[test]
fn a_topic_deleted_and_created_anew_between_two_images_begins_empty() {
    let mut node = Node::start(Arc::new(MemoryDisk::new()));
    node.change(|image| put(image, "t", 7, vec![registration(1, &[1], 0)]));
    let old = node.table.get("t", 0).unwrap();
    append(&old).unwrap();
    node.change(|image| {
        remove(image, "t");
        put(image, "t", 8, vec![registration(1, &[1], 0)]);
    });
    let new = node.table.get("t", 0).unwrap();
    assert_eq!(new.topic_id(), TopicId::from_u128(8));
    assert_eq!(new.extent().log_end, Offset::ZERO);
    assert!(append(&old).is_err());
    assert!(node.table.get_by_id(TopicId::from_u128(7), 0).is_err());
}

#[test]
fn leadership_moves_away_and_back() {
    let mut node = Node::start(Arc::new(MemoryDisk::new()));
    node.change(|image| put(image, "t", 7, vec![registration(1, &[1, 2], 0)]));
    let partition = node.table.get("t", 0).unwrap();
    append(&partition).unwrap();
    node.change(|image| put(image, "t", 7, vec![registration(2, &[1, 2], 1)]));
    assert!(matches!(append(&partition), Err(PartitionError::NotLeaderOrFollower)));
    node.change(|image| put(image, "t", 7, vec![registration(1, &[1, 2], 2)]));
    append(&partition).unwrap();
    assert_eq!(partition.extent().leader_epoch, LeaderEpoch(2));
    node.change(|image| put(image, "t", 7, vec![registration(2, &[2], 3)]));
    assert_eq!(node.table.get("t", 0).unwrap_err(), Missing::NotHere, "moved to another broker");
}

#[test]
fn new_settings_hold_from_the_next_append_on() {
    let mut node = Node::start(Arc::new(MemoryDisk::new()));
    node.change(|image| put(image, "t", 7, vec![registration(1, &[1], 0)]));
    let partition = node.table.get("t", 0).unwrap();
    append(&partition).unwrap();
    node.change(|image| {
        let mut settings = Settings::default();
        Arc::make_mut(&mut settings).insert("max.message.bytes".into(), "70".into());
        image.configs.insert(ConfigResource::topic("t"), settings);
    });
    assert!(matches!(append(&partition), Err(PartitionError::Append(_))));
}

#[test]
fn records_and_high_watermark_are_there_after_a_restart() {
    let disk = Arc::new(MemoryDisk::new());
    let mut node = Node::start(disk.clone());
    let topic = |image: &mut ClusterImage| put(image, "t", 7, vec![registration(1, &[1], 0)]);
    node.change(topic);
    for _ in 0..3 {
        append(&node.table.get("t", 0).unwrap()).unwrap();
    }
    drop(node);
    let mut node = Node::start(disk);
    node.change(topic);
    let extent = node.table.get("t", 0).unwrap().extent();
    assert_eq!((extent.log_end, extent.high_watermark), (Offset(3), Offset(3)));
}
