//! Replicas that move to other brokers. `[P]`
//!
//! ```text
//!          target          ISR has all that is added
//!   at rest ──────▶ moving ─────────────────────────▶ at rest
//!                     └── given up: what was added goes ──▲
//! ```
//!
//! While it moves, a partition's replicas are the target and after it those that
//! will go. What only reorders or shrinks ends in the very change that begins it.

use std::collections::BTreeSet;

use super::command::{Answer, ApiError, Reassignment};
use super::leadership::{Election, PartitionChange};
use super::machine::{ControllerMachine, Written, check_size};
use super::partitions::Cause;
use crate::cluster::records::MetadataRecord;
use crate::cluster::{PartitionRegistration, Topic};
use crate::protocol::ErrorCode;
use crate::types::BrokerId;

impl ControllerMachine {
    /// Begins and gives up reassignments, each for itself.
    pub(super) fn alter_reassignments(
        &mut self,
        wanted: &[Reassignment],
        may_change_factor: bool,
    ) -> Result<Written, ApiError> {
        let mut records = Vec::new();
        let alter = |wanted: &Reassignment| {
            records.extend(self.alter_reassignment(wanted, may_change_factor)?);
            Ok(())
        };
        let results = wanted.iter().map(alter).collect();
        check_size(&records)?;
        Ok(Written::atomic(records, Answer::Each(results)))
    }

    fn alter_reassignment(
        &self,
        wanted: &Reassignment,
        may_change_factor: bool,
    ) -> Result<Option<MetadataRecord>, ApiError> {
        let (name, number) = (&wanted.at.topic, wanted.at.partition);
        let unknown = |text| ApiError::new(ErrorCode::UnknownTopicOrPartition, text);
        let topic = self.image.topic(name);
        let topic =
            topic.ok_or_else(|| unknown(format!("Unable to find a topic named {name}.")))?;
        let partition = topic
            .partition(number)
            .ok_or_else(|| unknown(format!("Unable to find partition {name}:{number}.")))?;
        match &wanted.replicas {
            None => self.give_up(topic, number, partition),
            Some(replicas) => {
                self.check_assignment(replicas, None)?;
                if !may_change_factor {
                    check_factor(partition, replicas)?;
                }
                Ok(self.reassign(topic, number, partition, replicas))
            }
        }
    }

    fn reassign(
        &self,
        topic: &Topic,
        number: i32,
        partition: &PartitionRegistration,
        target: &[BrokerId],
    ) -> Option<MetadataRecord> {
        let sorted = |ids: &[BrokerId], without: &[BrokerId]| -> Vec<BrokerId> {
            let ids: BTreeSet<_> = ids.iter().filter(|id| !without.contains(id)).collect();
            ids.into_iter().copied().collect()
        };
        let removing = sorted(&partition.replicas, target);
        let adding = sorted(target, &partition.replicas);
        let replicas: Vec<_> = target.iter().chain(&removing).copied().collect();
        let directory = |id: &BrokerId| {
            partition.directory_of(*id).unwrap_or_else(|| self.default_directory(*id))
        };
        let directories = replicas.iter().map(directory).collect();
        let shape = |change: &mut PartitionChange<'_>| {
            let assignment = &mut change.assignment;
            (assignment.replicas, assignment.directories) = (replicas, directories);
            // What an earlier reassignment adds or removes stands beside the new one
            // where that adds or removes nothing, as in Kafka.
            if !removing.is_empty() {
                assignment.removing = removing;
            }
            if !adding.is_empty() {
                assignment.adding = adding;
            }
            change.election = Election::Online;
        };
        let rules = self.election_rules(topic);
        self.partition_change(topic, number, Cause::default(), rules, shape)
    }

    /// Back to the replicas from before: those that were being added go.
    fn give_up(
        &self,
        topic: &Topic,
        number: i32,
        partition: &PartitionRegistration,
    ) -> Result<Option<MetadataRecord>, ApiError> {
        if !is_moving(partition) {
            return Err(ApiError::bare(ErrorCode::NoReassignmentInProgress));
        }
        let added = |id: &BrokerId| partition.adding_replicas.contains(id);
        let placed = partition.replicas.iter().zip(&partition.directories);
        let left = placed.filter(|(id, _)| !added(id)).map(|(id, at)| (*id, *at));
        let (replicas, directories): (Vec<_>, Vec<_>) = left.unzip();
        let mut isr: Vec<_> = partition.isr.iter().filter(|id| !added(id)).copied().collect();
        let rules = self.election_rules(topic);
        if isr.is_empty() {
            let refused = |text| ApiError::new(ErrorCode::InvalidReplicaAssignment, text);
            let first = replicas.first().copied().ok_or_else(|| {
                let text = "Invalid replica assignment: addingReplicas contains all replicas.";
                refused(text.to_owned())
            })?;
            if !rules.unclean {
                return Err(refused(format!(
                    "Unable to revert partition assignment for {}:{number} because it would \
                     require an unclean leader election.",
                    topic.name
                )));
            }
            isr.push(first);
        }
        let shape = |change: &mut PartitionChange<'_>| {
            let assignment = &mut change.assignment;
            (assignment.replicas, assignment.directories) = (replicas, directories);
            assignment.removing.clear();
            assignment.adding.clear();
            change.isr = isr;
        };
        Ok(self.partition_change(topic, number, Cause::default(), rules, shape))
    }
}

/// True while a reassignment is under way.
pub fn is_moving(partition: &PartitionRegistration) -> bool {
    !partition.adding_replicas.is_empty() || !partition.removing_replicas.is_empty()
}

/// The number of replicas must stay what it will be once nothing moves (KIP-860).
fn check_factor(partition: &PartitionRegistration, target: &[BrokerId]) -> Result<(), ApiError> {
    let stays = |id: &&BrokerId| !partition.removing_replicas.contains(id);
    let now = partition.replicas.iter().filter(stays).count();
    if now == target.len() {
        return Ok(());
    }
    let text = format!("The replication factor is changed from {now} to {}", target.len());
    Err(ApiError::new(ErrorCode::InvalidReplicationFactor, text))
}
