//! All partitions that have a replica here, by name and by topic id.
//!
//! Reading takes no lock: the maps are immutable and replaced as a whole, and a
//! new one shares all that did not change with the one before. Changes come from
//! one place only, the deltas of the cluster's image: logs are created, led,
//! followed and deleted as the metadata log says.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::Partition;
use super::replicas::Assignment;
use super::role::Leadership;
use crate::cluster::{
    ChangedPartition, ClusterDelta, ClusterImage, PartitionRegistration, ResourceType, SharedMap,
    Topic, directory,
};
use crate::log::store::{LogHolder, LogStore, Place};
use crate::log::{LogConfig, LogError};
use crate::sys::clock::Clock;
use crate::types::{BrokerId, TopicId, TopicPartition};

/// Settings in force for the log of a topic's partitions.
pub type LogConfigs = dyn Fn(&ClusterImage, &str) -> LogConfig + Send + Sync;

/// What the table needs from the broker.
pub struct Surroundings {
    /// This broker.
    pub local: BrokerId,
    /// Where logs are created and deleted.
    pub store: Arc<LogStore>,
    /// Settings of topics.
    pub log_configs: Box<LogConfigs>,
    /// `replica.lag.time.max.ms`.
    pub max_lag: Duration,
    /// For deadlines of replicas.
    pub clock: Arc<dyn Clock>,
}

/// The partitions of this broker.
pub struct PartitionTable {
    surroundings: Surroundings,
    topics: ArcSwap<Topics>,
    /// Held while a delta is applied: one after another.
    applying: Mutex<()>,
}

/// Both maps, replaced together.
#[derive(Clone, Debug, Default)]
struct Topics {
    by_name: SharedMap<Arc<str>, Arc<Replicas>>,
    by_id: SharedMap<TopicId, Arc<Replicas>>,
}

/// The replicas of one topic here, at their index.
#[derive(Clone, Debug)]
struct Replicas {
    name: Arc<str>,
    id: TopicId,
    partitions: Vec<Hosted>,
}

/// A place in a topic.
#[derive(Clone, Debug, Default)]
enum Hosted {
    /// Another broker's.
    #[default]
    Elsewhere,
    /// Here.
    Online(Arc<Partition>),
    /// Should be here, but its log cannot be used.
    Offline,
}

/// Why a partition cannot be found here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No replica of it lives here.
    NotHere,
    /// Its log directory failed.
    Offline,
}

impl std::fmt::Debug for PartitionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let topics = self.topics.load().by_name.len();
        f.debug_struct("PartitionTable").field("topics", &topics).finish_non_exhaustive()
    }
}

impl PartitionTable {
    /// A table without partitions.
    pub fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, topics: ArcSwap::default(), applying: Mutex::new(()) }
    }

    /// The partition of that name.
    pub fn get(&self, topic: &str, partition: i32) -> Result<Arc<Partition>, Missing> {
        find(self.topics.load().by_name.get(topic), partition)
    }

    /// The partition of the topic with that id.
    pub fn get_by_id(&self, topic: TopicId, partition: i32) -> Result<Arc<Partition>, Missing> {
        find(self.topics.load().by_id.get(&topic), partition)
    }

    /// Does what has to be done to get from one image to the next. What fails
    /// for one partition is logged, makes it offline and stops nothing else.
    pub fn apply(&self, delta: &ClusterDelta, image: &ClusterImage) {
        let _one_at_a_time = self.applying.lock();
        let mut topics = Topics::clone(&self.topics.load());
        for topic in &delta.deleted_topics {
            self.delete_topic(&mut topics, topic);
        }
        for of_topic in delta.changed_partitions.chunk_by(|a, b| a.topic_id == b.topic_id) {
            let Some(ChangedPartition { topic, topic_id, .. }) = of_topic.first() else { continue };
            let config = LazyCell::new(|| self.log_config(image, topic));
            let hosted = of_topic.iter().map(|change| {
                let hosted = self.change(&topics, change, || Arc::clone(&config));
                (change.partition, hosted)
            });
            let hosted = hosted.collect();
            topics.put(topic, *topic_id, hosted);
        }
        self.topics.store(Arc::new(topics));
        self.reconfigure(delta, image);
    }

    fn delete_topic(&self, topics: &mut Topics, topic: &Topic) {
        let Some(replicas) = topics.by_id.get(&topic.id).map(Arc::clone) else { return };
        self.delete(replicas.partitions.iter().filter_map(Hosted::online));
        topics.remove(&replicas);
    }

    fn log_config(&self, image: &ClusterImage, topic: &str) -> Arc<LogConfig> {
        Arc::new((self.surroundings.log_configs)(image, topic))
    }

    fn change(
        &self,
        topics: &Topics,
        change: &ChangedPartition,
        config: impl Fn() -> Arc<LogConfig>,
    ) -> Hosted {
        let name = TopicPartition::new(Arc::clone(&change.topic), change.partition);
        let existing = topics
            .by_id
            .get(&change.topic_id)
            .and_then(|topic| topic.at(change.partition))
            .and_then(Hosted::online)
            .map(Arc::clone);
        if !change.after.replicas.contains(&self.surroundings.local) {
            self.delete(existing.iter());
            return Hosted::Elsewhere;
        }
        match self.host(existing, &name, change, config) {
            Ok(partition) => Hosted::Online(partition),
            Err(error) => {
                tracing::error!(partition = %name, %error, "partition is offline");
                Hosted::Offline
            }
        }
    }

    fn host(
        &self,
        existing: Option<Arc<Partition>>,
        name: &TopicPartition,
        change: &ChangedPartition,
        config: impl Fn() -> Arc<LogConfig>,
    ) -> Result<Arc<Partition>, LogError> {
        let partition = match existing {
            Some(partition) => partition,
            None => {
                let Surroundings { local, store, clock, .. } = &self.surroundings;
                let all_there = store.online().count() == store.directories().len();
                let place = place(&change.after, *local, all_there);
                let log = store.open_log(name, change.topic_id, config(), place)?;
                let clock = Arc::clone(clock);
                let partition = Partition::new(name.clone(), *local, clock, log);
                let holder: Arc<dyn LogHolder> = partition.clone();
                store.attach(name, Arc::downgrade(&holder));
                partition
            }
        };
        let news = leadership(&change.after, self.surroundings.max_lag);
        partition.lead_or_follow(&news)?;
        Ok(partition)
    }

    /// Ends replicas and gives their directories up.
    fn delete<'p>(&self, partitions: impl Iterator<Item = &'p Arc<Partition>>) {
        let names: Vec<_> = partitions
            .map(|partition| {
                partition.retire();
                partition.name().clone()
            })
            .collect();
        if let Err(error) = self.surroundings.store.delete(&names) {
            tracing::error!(%error, "logs of deleted partitions could not be given up");
        }
    }

    /// Gives logs the settings that changed: a topic's own, or the broker's,
    /// which are every topic's defaults.
    fn reconfigure(&self, delta: &ClusterDelta, image: &ClusterImage) {
        let topics = self.topics.load();
        let give = |topic: &Replicas| {
            let config = self.log_config(image, &topic.name);
            for partition in topic.partitions.iter().filter_map(Hosted::online) {
                partition.set_config(Arc::clone(&config));
            }
        };
        if delta.configs.iter().any(|resource| resource.kind == ResourceType::Broker) {
            topics.by_name.values().for_each(|topic| give(topic));
            return;
        }
        for resource in &delta.configs {
            if resource.kind == ResourceType::Topic
                && let Some(topic) = topics.by_name.get(&resource.name)
            {
                give(topic);
            }
        }
    }
}

impl Hosted {
    fn online(&self) -> Option<&Arc<Partition>> {
        match self {
            Self::Online(partition) => Some(partition),
            Self::Elsewhere | Self::Offline => None,
        }
    }
}

impl Replicas {
    fn at(&self, partition: i32) -> Option<&Hosted> {
        self.partitions.get(usize::try_from(partition).ok()?)
    }
}

impl Topics {
    fn put(&mut self, name: &Arc<str>, id: TopicId, changed: Vec<(i32, Hosted)>) {
        let mut replicas = match self.by_id.get(&id) {
            Some(replicas) => Replicas::clone(replicas),
            None => Replicas { name: Arc::clone(name), id, partitions: Vec::new() },
        };
        for (partition, hosted) in changed {
            let Ok(index) = usize::try_from(partition) else { continue };
            if replicas.partitions.len() <= index {
                replicas.partitions.resize_with(index + 1, Hosted::default);
            }
            replicas.partitions[index] = hosted;
        }
        let replicas = Arc::new(replicas);
        self.by_name.insert(Arc::clone(name), Arc::clone(&replicas));
        self.by_id.insert(id, replicas);
    }

    fn remove(&mut self, replicas: &Replicas) {
        self.by_id.remove(&replicas.id);
        // A topic created anew under the name may stand there already.
        if self.by_name.get(&replicas.name).is_some_and(|named| named.id == replicas.id) {
            self.by_name.remove(&replicas.name);
        }
    }
}

fn find(topic: Option<&Arc<Replicas>>, partition: i32) -> Result<Arc<Partition>, Missing> {
    match topic.and_then(|topic| topic.at(partition)) {
        Some(Hosted::Online(partition)) => Ok(Arc::clone(partition)),
        Some(Hosted::Offline) => Err(Missing::Offline),
        Some(Hosted::Elsewhere) | None => Err(Missing::NotHere),
    }
}

/// Where a replica's log may be created. One that is in sync has a log already: if
/// its directory is not there, an empty log in another would pass for it, and what
/// was acknowledged would be lost.
fn place(registration: &PartitionRegistration, local: BrokerId, all_there: bool) -> Place {
    let known = registration.directory_of(local).unwrap_or(directory::UNASSIGNED);
    let in_sync = registration.isr.contains(&local);
    // Nobody knows where it is, but it is somewhere if the partition is not new.
    let may_be_offline = !all_there && registration.partition_epoch > 0;
    if in_sync && (!directory::is_reserved(known) || may_be_offline) {
        Place::Only(known)
    } else {
        Place::Preferably(known)
    }
}

fn leadership(registration: &PartitionRegistration, max_lag: Duration) -> Leadership {
    Leadership {
        leader: registration.leader,
        leader_epoch: registration.leader_epoch,
        partition_epoch: registration.partition_epoch,
        assignment: Assignment {
            replicas: registration.replicas.clone(),
            isr: registration.isr.clone(),
        },
        max_lag,
    }
}
