//! Committed offsets: who has read how far, and until when that is kept. `[P]`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::records::{CommittedOffset, GroupRecord};
use crate::types::Timestamp;

/// The committed offsets of the groups of one shard: a fold over their records.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    groups: BTreeMap<Arc<str>, ByPartition>,
}

/// Commits by topic and partition.
type ByPartition = BTreeMap<(Arc<str>, i32), CommittedOffset>;

impl Offsets {
    /// Folds a commit, or its end, into the state.
    pub fn replay(
        &mut self,
        group: &Arc<str>,
        topic: &Arc<str>,
        partition: i32,
        value: Option<CommittedOffset>,
    ) {
        match value {
            Some(value) => {
                let offsets = self.groups.entry(group.clone()).or_default();
                // Partitions of a topic share its name.
                let known = offsets.range((topic.clone(), i32::MIN)..).next();
                let known = known.map(|((known, _), _)| known).filter(|known| *known == topic);
                let topic = known.unwrap_or(topic).clone();
                offsets.insert((topic, partition), value);
            }
            None => {
                if let Some(offsets) = self.groups.get_mut(group) {
                    offsets.remove(&(topic.clone(), partition));
                    if offsets.is_empty() {
                        self.groups.remove(group);
                    }
                }
            }
        }
    }

    /// What a group has committed for a partition.
    pub fn get(&self, group: &str, topic: &Arc<str>, partition: i32) -> Option<&CommittedOffset> {
        self.groups.get(group)?.get(&(topic.clone(), partition))
    }

    /// All that a group has committed, by topic and partition.
    pub fn of_group(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        let offsets = self.groups.get(group).into_iter().flatten();
        offsets.map(|((topic, partition), value)| (topic, *partition, value))
    }

    /// Groups that have committed something.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.groups.keys()
    }

    /// Tombstones for all that a group has committed.
    pub fn forget_group(&self, group: &Arc<str>) -> Vec<GroupRecord> {
        self.of_group(group)
            .map(|(topic, partition, _)| tombstone(group, topic, partition))
            .collect()
    }

    /// Tombstones for all that anybody has committed for topics that are gone; not
    /// for what is known to be of another topic of the same name.
    pub fn forget_topics(&self, topics: &[(Arc<str>, Uuid)]) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        for (group, offsets) in &self.groups {
            for (name, id) in topics {
                let first = (name.clone(), i32::MIN);
                let of_topic = offsets.range(first..).take_while(|((topic, _), _)| topic == name);
                let gone = of_topic.filter(|(_, value)| value.is_of(*id));
                records.extend(gone.map(|((_, partition), _)| tombstone(group, name, *partition)));
            }
        }
        records
    }

    /// Tombstones for a group's offsets that have outlived the retention, and
    /// whether none is left then. `since` says from when an offset's time counts,
    /// or that it does not run at all.
    pub fn expired(
        &self,
        group: &Arc<str>,
        now: Timestamp,
        retention: Duration,
        since: impl Fn(&str, &CommittedOffset) -> Option<Timestamp>,
    ) -> (Vec<GroupRecord>, bool) {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let mut records = Vec::new();
        let mut all = true;
        for (topic, partition, offset) in self.of_group(group) {
            let is_expired =
                since(topic, offset).is_some_and(|since| match offset.expire_timestamp {
                    Some(expire) => now >= expire,
                    None => now.0.saturating_sub(since.0) >= retention,
                });
            if is_expired {
                records.push(tombstone(group, topic, partition));
            } else {
                all = false;
            }
        }
        (records, all)
    }
}

/// The end of one commit.
pub fn tombstone(group: &Arc<str>, topic: &Arc<str>, partition: i32) -> GroupRecord {
    GroupRecord::Offset { group: group.clone(), topic: topic.clone(), partition, value: None }
}
