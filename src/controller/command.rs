//! What the controller is asked, and what it answers. `[P]`

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::cluster::{ConfigResource, Endpoint, QuotaEntity, VersionRange};
use crate::protocol::ErrorCode;
use crate::types::{BrokerId, DirectoryId, Offset, ProducerId, TopicId};

/// Why a request, or one item of it, was refused: Kafka's code, and what its
/// user is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}{}", .message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct ApiError {
    /// Kafka's error code.
    pub code: ErrorCode,
    /// The text for the user; `None` where Kafka sends none.
    pub message: Option<String>,
}

impl ApiError {
    /// A refusal with a text.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    /// A refusal that says no more than its code.
    pub fn bare(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// One result for each item of a request, in its order.
pub type Results<T> = Vec<Result<T, ApiError>>;

/// A topic to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateTopic {
    /// The topic's name.
    pub name: String,
    /// Partitions; -1 for `num.partitions`, or where `assignments` says it.
    pub partitions: i32,
    /// Replicas of each; -1 for `default.replication.factor`, or where
    /// `assignments` says it.
    pub replication_factor: i16,
    /// Replicas of each partition, chosen by hand; empty to have them placed.
    pub assignments: Vec<(i32, Vec<BrokerId>)>,
    /// Settings. A missing value is refused, as Kafka does.
    pub settings: Vec<(String, Option<String>)>,
}

/// A topic that was, or would be, created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The topic's name.
    pub name: Arc<str>,
    /// Its id; a fresh one each time when only validated.
    pub id: TopicId,
    /// Number of partitions.
    pub partitions: i32,
    /// Replicas of each partition.
    pub replication_factor: i16,
    /// The settings made for it; not defaults.
    pub settings: BTreeMap<Arc<str>, Arc<str>>,
}

/// How a request names a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// A topic that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// The name it had.
    pub name: Arc<str>,
    /// The id it had.
    pub id: TopicId,
}

/// A topic that is to have more partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreatePartitions {
    /// The topic's name.
    pub topic: String,
    /// Partitions that it shall have in all.
    pub count: i32,
    /// Replicas of each new partition, chosen by hand.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// How a request names a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRef {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
}

/// Which leader an election is to bring (KIP-460), with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionKind {
    /// The first of the replicas, if it is in sync.
    Preferred = 0,
    /// Anyone, for a partition that nobody leads.
    Unclean = 1,
}

impl ElectionKind {
    /// The kind with Kafka's number; `None` when there is none.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Preferred),
            1 => Some(Self::Unclean),
            _ => None,
        }
    }
}

/// A partition whose replicas are to be elsewhere (KIP-455).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    /// Which partition.
    pub at: PartitionRef,
    /// Its replicas to be, the preferred leader first; `None` gives up the
    /// reassignment that is under way.
    pub replicas: Option<Vec<BrokerId>>,
}

/// Changes to the quotas of one entity: all or none of them happen.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterQuota {
    /// Whose quotas.
    pub entity: QuotaEntity,
    /// Key and value; `None` takes the quota away.
    pub changes: Vec<(Arc<str>, Option<f64>)>,
    /// False when the entity is an address that is none, nor a known host's name.
    pub is_host_known: bool,
}

/// What is done to one setting (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// Give it this value.
    Set(String),
    /// Back to the default.
    Delete,
    /// Add these values, separated by commas, to a list.
    Append(String),
    /// Take these values, separated by commas, out of a list.
    Subtract(String),
}

/// Changes to the settings of one resource: all or none of them happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSettings {
    /// Whose settings.
    pub resource: ConfigResource,
    /// Key and what is done to it.
    pub changes: Vec<(String, SettingChange)>,
}

/// The settings that one resource shall have, instead of all it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceSettings {
    /// Whose settings.
    pub resource: ConfigResource,
    /// Key and value.
    pub settings: Vec<(String, String)>,
}

/// Producer ids that one broker may hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first of them.
    pub first: ProducerId,
    /// How many there are.
    pub len: i32,
}

/// A broker's registration (KIP-631).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterBroker {
    /// The broker's `node.id`.
    pub id: BrokerId,
    /// The cluster that it believes to belong to.
    pub cluster_id: Arc<str>,
    /// Random for each start of the process.
    pub incarnation_id: Uuid,
    /// Advertised listeners.
    pub endpoints: Vec<Endpoint>,
    /// Feature levels that it can work with.
    pub features: BTreeMap<Arc<str>, VersionRange>,
    /// `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Its log directories.
    pub directories: Vec<DirectoryId>,
    /// Broker epoch under which it last stopped cleanly; -1 when it did not.
    pub previous_epoch: i64,
}

/// A broker's sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerHeartbeat {
    /// The broker's `node.id`.
    pub id: BrokerId,
    /// The epoch that its registration was answered with.
    pub epoch: i64,
    /// The last metadata record that it has applied.
    pub metadata_offset: Offset,
    /// It wants to be (or stay) hidden from clients.
    pub want_fence: bool,
    /// It wants to stop.
    pub want_shut_down: bool,
    /// Log directories that have failed since it started.
    pub offline_directories: Vec<DirectoryId>,
    /// Log directories that take no new replicas; `None` when not said.
    pub cordoned_directories: Option<Vec<DirectoryId>>,
}

/// What a heartbeat is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The broker has applied its own registration.
    pub is_caught_up: bool,
    /// The broker is hidden from clients.
    pub is_fenced: bool,
    /// The broker may stop now.
    pub should_shut_down: bool,
}

/// Where a broker keeps a replica (KIP-858).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryAssignment {
    /// The topic.
    pub topic_id: TopicId,
    /// The partition's number.
    pub partition: i32,
    /// The log directory.
    pub directory: DirectoryId,
}

/// A controller's registration (KIP-919).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterController {
    /// The controller's `node.id`.
    pub id: BrokerId,
    /// Random for each start of the process.
    pub incarnation_id: Uuid,
    /// Its controller listeners.
    pub endpoints: Vec<Endpoint>,
    /// Feature levels that it can work with.
    pub features: BTreeMap<Arc<str>, VersionRange>,
}

/// In which direction a feature's level may go, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeType {
    /// A number that means nothing; always refused.
    Unknown = 0,
    /// Up.
    Upgrade = 1,
    /// Down, as long as nothing is lost.
    SafeDowngrade = 2,
    /// Down, whatever is lost.
    UnsafeDowngrade = 3,
}

impl UpgradeType {
    /// The kind with Kafka's number.
    pub fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Upgrade,
            2 => Self::SafeDowngrade,
            3 => Self::UnsafeDowngrade,
            _ => Self::Unknown,
        }
    }
}

/// A feature that is to have another level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// The feature's name.
    pub name: String,
    /// The level; 0 turns it off.
    pub level: i16,
    /// Whether it may go down.
    pub upgrade: UpgradeType,
}

/// Everything that the controller can be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Create topics; `true` to only judge.
    CreateTopics(Vec<CreateTopic>, bool),
    /// Delete topics.
    DeleteTopics(Vec<TopicRef>),
    /// Add partitions to topics; `true` to only judge.
    CreatePartitions(Vec<CreatePartitions>, bool),
    /// Change some settings; `true` to only judge.
    AlterSettings(Vec<AlterSettings>, bool),
    /// Replace all settings; `true` to only judge.
    ReplaceSettings(Vec<ReplaceSettings>, bool),
    /// Hand out producer ids to a broker of this epoch.
    AllocateProducerIds(BrokerId, i64),
    /// Register a broker.
    RegisterBroker(RegisterBroker),
    /// Hear a broker.
    Heartbeat(BrokerHeartbeat),
    /// Note where a broker of this epoch keeps replicas.
    AssignReplicas(BrokerId, i64, Vec<DirectoryAssignment>),
    /// Forget a broker.
    UnregisterBroker(BrokerId),
    /// Register a controller.
    RegisterController(RegisterController),
    /// Change feature levels; `true` to only judge.
    UpdateFeatures(Vec<FeatureUpdate>, bool),
    /// Elect leaders.
    ElectLeaders(ElectionKind, Vec<PartitionRef>),
    /// Move replicas to other brokers; `true` when their number may change.
    AlterReassignments(Vec<Reassignment>, bool),
    /// Change quotas; `true` to only judge.
    AlterQuotas(Vec<AlterQuota>, bool),
}

/// What commands are answered with, in the same order.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `CreateTopics`.
    CreatedTopics(Results<CreatedTopic>),
    /// To `DeleteTopics`.
    DeletedTopics(Results<DeletedTopic>),
    /// To what has one result for each item and nothing else to tell.
    Each(Results<()>),
    /// To `AllocateProducerIds`.
    ProducerIds(ProducerIdBlock),
    /// To `RegisterBroker`: the broker epoch.
    BrokerEpoch(i64),
    /// To `Heartbeat`.
    Heartbeat(HeartbeatReply),
    /// To what has nothing to tell.
    Done,
    /// The whole command was refused.
    Refused(ApiError),
}
