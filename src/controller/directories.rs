//! In which log directory of its broker each replica lies (KIP-858). `[P]`
//!
//! The controller chooses the directory of a new replica when its broker has only
//! one. Else the broker does, and tells where the replica went, so that the
//! replicas of a directory that fails are known.

use super::command::{Answer, ApiError, DirectoryAssignment};
use super::machine::{ControllerMachine, Written};
use super::partitions::Placement;
use crate::cluster::records::{MetadataRecord, level};
use crate::protocol::ErrorCode;
use crate::types::BrokerId;

impl ControllerMachine {
    /// Notes in which directories a broker of this epoch keeps replicas: one
    /// result each. Replicas in a directory that is offline lose their leadership.
    pub(super) fn assign_replicas(
        &self,
        broker: BrokerId,
        epoch: i64,
        assignments: &[DirectoryAssignment],
    ) -> Result<Written, ApiError> {
        if self.image.metadata_version() < level::DIRECTORY_ASSIGNMENT {
            let text = "Directory assignment is not supported yet.";
            return Err(ApiError::new(ErrorCode::UnsupportedVersion, text));
        }
        self.check_broker_epoch(broker, epoch)?;
        let mut records = Vec::new();
        let each = |assignment| {
            self.assign_replica(broker, assignment).map(|record| records.extend(record))
        };
        let results = assignments.iter().map(each).collect();
        Ok(Written { records, atomic: false, answer: Answer::Each(results) })
    }

    fn assign_replica(
        &self,
        broker: BrokerId,
        assignment: &DirectoryAssignment,
    ) -> Result<Option<MetadataRecord>, ApiError> {
        let refused = |code| Err(ApiError::bare(code));
        let Some(topic) = self.image.topic_by_id(assignment.topic_id) else {
            return refused(ErrorCode::UnknownTopicId);
        };
        let Some(partition) = topic.partition(assignment.partition) else {
            return refused(ErrorCode::UnknownTopicOrPartition);
        };
        if !partition.replicas.contains(&broker) {
            return refused(ErrorCode::NotLeaderOrFollower);
        }
        let place = Placement { broker, directory: assignment.directory };
        Ok(self.place_replica(topic, assignment.partition, place))
    }
}
