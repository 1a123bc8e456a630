//! What changed between two images. `[P]`

use std::sync::Arc;

use super::map::Change;
use super::{BrokerRegistration, ClusterImage, ConfigResource, PartitionRegistration, Topic};
use crate::types::{BrokerId, TopicId};

/// What must be done to go from one image to a later one. Costs what changed,
/// not what there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterDelta {
    /// Topics that are gone, as they last were. A topic that was deleted and
    /// created anew under its name stands here with its old id and in
    /// `changed_partitions` with its new one.
    pub deleted_topics: Vec<Arc<Topic>>,
    /// Topics that are new.
    pub created_topics: Vec<Arc<Topic>>,
    /// Partitions that are new or differ, by topic in the order of names.
    pub changed_partitions: Vec<ChangedPartition>,
    /// Brokers that are new, differ, or (`None`) are gone.
    pub brokers: Vec<(BrokerId, Option<Arc<BrokerRegistration>>)>,
    /// Resources whose settings differ; read the new ones from the image.
    pub configs: Vec<ConfigResource>,
    /// A finalized feature level differs.
    pub features_changed: bool,
}

/// A partition that is new or differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Id of the topic.
    pub topic_id: TopicId,
    /// The partition's number.
    pub partition: i32,
    /// As it was; `None` when new.
    pub before: Option<Arc<PartitionRegistration>>,
    /// As it is now.
    pub after: Arc<PartitionRegistration>,
}

impl ClusterDelta {
    /// What leads from `old` to `new`.
    pub fn between(old: &ClusterImage, new: &ClusterImage) -> Self {
        let mut delta = Self { features_changed: old.features != new.features, ..Self::default() };
        for change in new.topics.changes_since(&old.topics) {
            match change {
                Change::Added(_, topic) => delta.created(topic),
                Change::Removed(_, topic) => delta.deleted_topics.push(Arc::clone(topic)),
                Change::Changed(_, before, after) if before.id != after.id => {
                    delta.deleted_topics.push(Arc::clone(before));
                    delta.created(after);
                }
                Change::Changed(_, before, after) => delta.changed(before, after),
            }
        }
        for change in new.brokers.changes_since(&old.brokers) {
            delta.brokers.push(match change {
                Change::Added(id, broker) | Change::Changed(id, _, broker) => {
                    (*id, Some(Arc::clone(broker)))
                }
                Change::Removed(id, _) => (*id, None),
            });
        }
        let configs = new.configs.changes_since(&old.configs).into_iter();
        delta.configs = configs.map(|change| changed_key(&change).clone()).collect();
        delta
    }

    fn created(&mut self, topic: &Arc<Topic>) {
        self.created_topics.push(Arc::clone(topic));
        for (index, partition) in topic.partitions.iter().enumerate() {
            self.partition(topic, index, None, partition);
        }
    }

    fn changed(&mut self, before: &Topic, after: &Topic) {
        for (index, partition) in after.partitions.iter().enumerate() {
            let old = before.partitions.get(index);
            if old.is_none_or(|old| old != partition) {
                self.partition(after, index, old.map(Arc::clone), partition);
            }
        }
    }

    fn partition(
        &mut self,
        topic: &Topic,
        index: usize,
        before: Option<Arc<PartitionRegistration>>,
        after: &Arc<PartitionRegistration>,
    ) {
        self.changed_partitions.push(ChangedPartition {
            topic: Arc::clone(&topic.name),
            topic_id: topic.id,
            partition: i32::try_from(index).unwrap_or(i32::MAX),
            before,
            after: Arc::clone(after),
        });
    }
}

fn changed_key<'a, K, V>(change: &Change<'a, K, V>) -> &'a K {
    match change {
        Change::Added(key, _) | Change::Changed(key, _, _) | Change::Removed(key, _) => key,
    }
}
