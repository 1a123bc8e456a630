//! Partitions as brokers come and go, and elections that somebody asks for. `[P]`

use super::command::{Answer, ApiError, ElectionKind, PartitionRef};
use super::leadership::{Assignment, Election, PartitionChange};
use super::machine::{
    ControllerMachine, MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, Written, check_size,
};
use crate::cluster::records::MetadataRecord;
use crate::cluster::{PartitionRegistration, Topic, directory};
use crate::protocol::ErrorCode;
use crate::types::{BrokerId, DirectoryId};

/// Why partitions are looked at.
#[derive(Clone, Copy, Default)]
pub(super) struct Cause {
    /// Leaves every ISR and leads nothing.
    pub(super) remove: Option<BrokerId>,
    /// May lead, though its registration does not say so yet.
    pub(super) add: Option<BrokerId>,
    /// Leaves every ISR and ELR: it may have lost what it acknowledged.
    pub(super) unclean_shutdown: Option<BrokerId>,
    /// Only replicas in this directory.
    pub(super) directory: Option<DirectoryId>,
    /// Lies there from now on.
    pub(super) place: Option<Placement>,
}

/// A replica in a directory of its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) broker: BrokerId,
    pub(super) directory: DirectoryId,
}

/// What a topic's settings say about elections.
#[derive(Clone, Copy)]
pub(super) struct ElectionRules {
    /// Anyone may lead, whatever is lost by that.
    pub(super) unclean: bool,
    /// How many must be in sync.
    min_isr: usize,
}

impl ControllerMachine {
    /// Has leaders elected, each for itself.
    pub(super) fn elect_leaders(
        &mut self,
        kind: ElectionKind,
        partitions: &[PartitionRef],
    ) -> Result<Written, ApiError> {
        let mut records = Vec::new();
        let elect = |at: &PartitionRef| {
            records.push(self.elect_leader(kind, at)?);
            Ok(())
        };
        let results = partitions.iter().map(elect).collect();
        check_size(&records)?;
        Ok(Written { records, atomic: false, answer: Answer::Each(results) })
    }

    fn elect_leader(
        &self,
        kind: ElectionKind,
        at: &PartitionRef,
    ) -> Result<MetadataRecord, ApiError> {
        let unknown = |text| ApiError::new(ErrorCode::UnknownTopicOrPartition, text);
        let topic = self.image.topic(&at.topic);
        let topic = topic.ok_or_else(|| unknown(format!("No such topic as {}", at.topic)))?;
        let partition = topic.partition(at.partition).ok_or_else(|| {
            unknown(format!("No such partition as {}-{}", at.topic, at.partition))
        })?;
        let has_leader = partition.leader.is_some();
        let (satisfied, election, unavailable, text) = match kind {
            ElectionKind::Preferred => (
                has_leader && partition.leader.as_ref() == partition.replicas.first(),
                Election::Preferred,
                ErrorCode::PreferredLeaderNotAvailable,
                "The preferred leader was not available.",
            ),
            ElectionKind::Unclean => (
                has_leader,
                Election::Unclean,
                ErrorCode::EligibleLeadersNotAvailable,
                "Eligible topic partition leaders are not available.",
            ),
        };
        if satisfied {
            let text = "Leader election not needed for topic partition.";
            return Err(ApiError::new(ErrorCode::ElectionNotNeeded, text));
        }
        let rules = self.election_rules(topic);
        let elect = |change: &mut PartitionChange<'_>| change.election = election;
        let record = self.partition_change(topic, at.partition, Cause::default(), rules, elect);
        record.ok_or_else(|| ApiError::new(unavailable, text))
    }

    /// The changes of all partitions that a change of a broker touches.
    pub(super) fn partition_changes(&self, cause: Cause) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        for topic in self.image.topics.values() {
            let mut rules = None;
            for (number, partition) in (0..).zip(&topic.partitions) {
                if cause.concerns(partition) {
                    let rules = *rules.get_or_insert_with(|| self.election_rules(topic));
                    records.extend(self.partition_change(topic, number, cause, rules, |_| ()));
                }
            }
        }
        records
    }

    /// The record that says where a replica lies; from a directory that is
    /// offline it cannot lead or be in sync. `None` when it is known.
    pub(super) fn place_replica(
        &self,
        topic: &Topic,
        number: i32,
        place: Placement,
    ) -> Option<MetadataRecord> {
        let broker = self.image.broker(place.broker)?;
        let offline = !broker.has_online_directory(place.directory);
        let remove = offline.then_some(place.broker);
        let cause = Cause { remove, place: Some(place), ..Cause::default() };
        let shape = |change: &mut PartitionChange<'_>| change.assignment.place(place);
        self.partition_change(topic, number, cause, self.election_rules(topic), shape)
    }

    /// The change of one partition: what a change of brokers, none by default,
    /// makes of it, and what `shape` adds to that.
    pub(super) fn partition_change(
        &self,
        topic: &Topic,
        number: i32,
        cause: Cause,
        rules: ElectionRules,
        shape: impl FnOnce(&mut PartitionChange<'_>),
    ) -> Option<MetadataRecord> {
        let partition = topic.partition(number)?;
        let gone = [cause.remove, cause.unclean_shutdown];
        let may_lead = |id: BrokerId| {
            let online = self.image.broker(id).is_some_and(|broker| {
                let active = cause.add == Some(id) || broker.is_active();
                let told = cause.place.filter(|place| place.broker == id);
                let at = match told {
                    Some(place) => place.directory,
                    None => partition.directory_of(id).unwrap_or(directory::LOST),
                };
                active && broker.has_online_directory(at)
            });
            online && !gone.contains(&Some(id))
        };
        let isr = partition.isr.iter().filter(|id| !gone.contains(&Some(**id)));
        let mut change = PartitionChange {
            partition,
            topic_id: topic.id,
            number,
            assignment: Assignment::of(partition),
            isr: isr.copied().collect(),
            may_lead: &may_lead,
            election: if rules.unclean { Election::Unclean } else { Election::Online },
            unclean_shutdown: cause.unclean_shutdown,
            min_isr: rules.min_isr,
            elr_enabled: self.elr_enabled(),
            metadata_version: self.image.metadata_version(),
        };
        shape(&mut change);
        change.record().map(Into::into)
    }

    /// Whether a topic lets anyone lead, and how many must be in sync: Kafka takes
    /// the replication factor from the first partition.
    pub(super) fn election_rules(&self, topic: &Topic) -> ElectionRules {
        let value = |key| self.topic_setting(&topic.name, key);
        let unclean = value(UNCLEAN_LEADER_ELECTION)
            .map_or(self.options.unclean_leader_election, |text| text.eq_ignore_ascii_case("true"));
        let min_isr = value(MIN_INSYNC_REPLICAS).and_then(|text| text.parse().ok());
        let configured = usize::try_from(self.options.min_insync_replicas).unwrap_or(1);
        let replicas = topic.partitions.first().map_or(0, |partition| partition.replicas.len());
        ElectionRules { unclean, min_isr: min_isr.unwrap_or(configured).min(replicas) }
    }
}

impl Assignment {
    fn place(&mut self, place: Placement) {
        let replicas = self.replicas.iter().zip(&mut self.directories);
        for (_, directory) in replicas.filter(|(replica, _)| **replica == place.broker) {
            *directory = place.directory;
        }
    }
}

impl Cause {
    /// True when this may change the partition.
    fn concerns(self, partition: &PartitionRegistration) -> bool {
        let lost = |id: Option<BrokerId>| {
            id.is_some_and(|id| partition.isr.contains(&id) || partition.leader == Some(id))
        };
        let eligible = |id: Option<BrokerId>| id.is_some_and(|id| partition.elr.contains(&id));
        if let (Some(id), Some(at)) = (self.remove, self.directory) {
            return partition.directory_of(id) == Some(at);
        }
        lost(self.remove)
            || lost(self.unclean_shutdown)
            || eligible(self.unclean_shutdown)
            || (self.add.is_some() && partition.leader.is_none())
    }
}
