//! The write side of cluster metadata: one active controller decides, the
//! metadata log remembers.
//!
//! [`Controller`] is the handle that the rest of the broker holds. Commands go
//! to the machine through the replicated runtime and are answered when what
//! they wrote is committed; the image is what is committed.

pub mod bootstrap;
mod brokers;
mod command;
mod configs;
mod directories;
mod features;
mod journal;
mod leadership;
mod machine;
mod partitions;
mod placement;
mod publisher;
mod quotas;
mod reassignment;
mod sessions;
mod start;
#[cfg(test)]
mod start_tests;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tokio::sync::watch;

pub use self::command::{
    AlterQuota, AlterSettings, Answer, ApiError, BrokerHeartbeat, Command, CreatePartitions,
    CreateTopic, CreatedTopic, DeletedTopic, DirectoryAssignment, ElectionKind, FeatureUpdate,
    HeartbeatReply, PartitionRef, ProducerIdBlock, Reassignment, RegisterBroker,
    RegisterController, ReplaceSettings, Results, SettingChange, TopicRef, UpgradeType,
};
pub use self::configs::ConfigRules;
pub use self::machine::{ControllerOptions, check_count};

pub use self::publisher::SnapshotRules;
pub use self::quotas::{IP, QUOTA_ENTITY_TYPES, QuotaMatch, matching_quotas};
pub use self::reassignment::is_moving;
pub use self::start::{ActiveController, ControllerCloser, ControllerStart, ControllerStartError};
pub use self::topics::invalid_name;
use crate::cluster::ClusterImage;
use crate::protocol::ErrorCode;
use crate::raft::Raft;
pub use crate::raft::{METADATA_TOPIC, QuorumView, Voter, VoterProgress};
use crate::replicated::Handle;
use crate::types::BrokerId;

/// Submits commands to the active controller and follows the committed image.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Controller {
    machine: Handle<Command, Answer>,
    image: Arc<ArcSwap<ClusterImage>>,
    published: watch::Receiver<Arc<ClusterImage>>,
    /// Weak: a handle that somebody keeps must not keep the log open.
    raft: Weak<Raft>,
}

impl Controller {
    /// What is committed, as of now. Costs nothing; take it once per request.
    pub fn image(&self) -> Arc<ClusterImage> {
        self.image.load_full()
    }

    /// Follows the committed image. A slow follower sees fewer, never wrong
    /// images; `ClusterDelta::between` the last one it applied and this one
    /// tells what it has to do.
    pub fn watch(&self) -> watch::Receiver<Arc<ClusterImage>> {
        self.published.clone()
    }

    /// The quorum as its leader sees it; `None` when this node does not lead.
    pub fn quorum(&self) -> Option<QuorumView> {
        self.raft.upgrade().map(|raft| raft.quorum())
    }

    /// Creates topics (or only judges whether it would): one result each.
    pub async fn create_topics(
        &self,
        topics: Vec<CreateTopic>,
        validate_only: bool,
    ) -> Result<Results<CreatedTopic>, ApiError> {
        match self.submit(Command::CreateTopics(topics, validate_only)).await? {
            Answer::CreatedTopics(results) => Ok(results),
            other => Err(unexpected(other)),
        }
    }

    /// Deletes topics: one result each.
    pub async fn delete_topics(
        &self,
        topics: Vec<TopicRef>,
    ) -> Result<Results<DeletedTopic>, ApiError> {
        match self.submit(Command::DeleteTopics(topics)).await? {
            Answer::DeletedTopics(results) => Ok(results),
            other => Err(unexpected(other)),
        }
    }

    /// Adds partitions to topics (or only judges): one result each.
    pub async fn create_partitions(
        &self,
        topics: Vec<CreatePartitions>,
        validate_only: bool,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::CreatePartitions(topics, validate_only)).await
    }

    /// Changes settings (or only judges): one result for each resource.
    pub async fn incremental_alter_configs(
        &self,
        changes: Vec<AlterSettings>,
        validate_only: bool,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::AlterSettings(changes, validate_only)).await
    }

    /// Replaces all settings of resources (or only judges): one result each.
    pub async fn alter_configs(
        &self,
        settings: Vec<ReplaceSettings>,
        validate_only: bool,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::ReplaceSettings(settings, validate_only)).await
    }

    /// A block of producer ids for the broker that registered under `epoch`.
    pub async fn allocate_producer_ids(
        &self,
        broker: BrokerId,
        epoch: i64,
    ) -> Result<ProducerIdBlock, ApiError> {
        match self.submit(Command::AllocateProducerIds(broker, epoch)).await? {
            Answer::ProducerIds(block) => Ok(block),
            other => Err(unexpected(other)),
        }
    }

    /// Registers a broker; its broker epoch.
    pub async fn register_broker(&self, broker: RegisterBroker) -> Result<i64, ApiError> {
        match self.submit(Command::RegisterBroker(broker)).await? {
            Answer::BrokerEpoch(epoch) => Ok(epoch),
            other => Err(unexpected(other)),
        }
    }

    /// Hears a broker.
    pub async fn broker_heartbeat(
        &self,
        heartbeat: BrokerHeartbeat,
    ) -> Result<HeartbeatReply, ApiError> {
        match self.submit(Command::Heartbeat(heartbeat)).await? {
            Answer::Heartbeat(reply) => Ok(reply),
            other => Err(unexpected(other)),
        }
    }

    /// Notes where the broker that registered under `epoch` keeps replicas: one
    /// result each.
    pub async fn assign_replicas_to_dirs(
        &self,
        broker: BrokerId,
        epoch: i64,
        assignments: Vec<DirectoryAssignment>,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::AssignReplicas(broker, epoch, assignments)).await
    }

    /// Forgets a broker.
    pub async fn unregister_broker(&self, broker: BrokerId) -> Result<(), ApiError> {
        self.done(Command::UnregisterBroker(broker)).await
    }

    /// Registers a controller.
    pub async fn register_controller(
        &self,
        controller: RegisterController,
    ) -> Result<(), ApiError> {
        self.done(Command::RegisterController(controller)).await
    }

    /// Changes feature levels (or only judges), all or none.
    pub async fn update_features(
        &self,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
    ) -> Result<(), ApiError> {
        self.done(Command::UpdateFeatures(updates, validate_only)).await
    }

    /// Has leaders elected: one result for each partition.
    pub async fn elect_leaders(
        &self,
        kind: ElectionKind,
        partitions: Vec<PartitionRef>,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::ElectLeaders(kind, partitions)).await
    }

    /// Begins or gives up reassignments: one result for each partition.
    pub async fn alter_reassignments(
        &self,
        wanted: Vec<Reassignment>,
        may_change_factor: bool,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::AlterReassignments(wanted, may_change_factor)).await
    }

    /// Changes quotas (or only judges): one result for each entity.
    pub async fn alter_quotas(
        &self,
        alterations: Vec<AlterQuota>,
        validate_only: bool,
    ) -> Result<Results<()>, ApiError> {
        self.each(Command::AlterQuotas(alterations, validate_only)).await
    }

    async fn each(&self, command: Command) -> Result<Results<()>, ApiError> {
        match self.submit(command).await? {
            Answer::Each(results) => Ok(results),
            other => Err(unexpected(other)),
        }
    }

    async fn done(&self, command: Command) -> Result<(), ApiError> {
        match self.submit(command).await? {
            Answer::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    async fn submit(&self, command: Command) -> Result<Answer, ApiError> {
        match self.machine.submit(command).await {
            Ok(Answer::Refused(error)) => Err(error),
            Ok(answer) => Ok(answer),
            Err(_) => Err(not_controller()),
        }
    }
}

/// Nobody here may decide (any more); whoever asked tries again elsewhere.
fn not_controller() -> ApiError {
    ApiError::bare(ErrorCode::NotController)
}

/// The machine answered another question, which it never does.
fn unexpected(answer: Answer) -> ApiError {
    tracing::error!(?answer, "the controller answered another question");
    ApiError::bare(ErrorCode::UnknownServerError)
}
