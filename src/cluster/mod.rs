//! The read side of cluster metadata: what the metadata log says at one offset. `[P]`
//!
//! A [`ClusterImage`] is immutable once published. Every committed batch of the
//! metadata log yields the next one, which shares all that did not change with
//! the one before; [`ClusterDelta`] says what did. Brokers act on deltas,
//! requests are answered from the newest image.

mod broker;
mod delta;
pub mod features;
pub mod map;
pub mod records;
mod replay;
mod security;
mod snapshot;
mod topic;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::broker::{
    BrokerRegistration, ControllerRegistration, Endpoint, SecurityProtocol, VersionRange, directory,
};
pub use self::delta::{ChangedPartition, ClusterDelta};
pub use self::map::SharedMap;
pub use self::replay::{METADATA_VERSIONS, ReplayError};
pub use self::security::{QuotaEntity, Security};
pub use self::snapshot::feature_level;
pub use self::topic::{LeaderRecoveryState, PartitionRegistration, Topic};
use crate::types::{BrokerId, LeaderEpoch, Offset, Timestamp, TopicId};

/// Name of the feature that stands for the metadata format itself.
pub const METADATA_VERSION: &str = "metadata.version";

/// Settings of one resource: key to value.
pub type Settings = Arc<BTreeMap<Arc<str>, Arc<str>>>;

/// Everything that the metadata log says, up to and including `offset`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterImage {
    /// Identity of the cluster, from `meta.properties`.
    pub cluster_id: Arc<str>,
    /// The last record that is contained; -1 before the first.
    pub offset: Offset,
    /// Raft epoch of that record.
    pub epoch: LeaderEpoch,
    /// When that record was appended.
    pub timestamp: Timestamp,
    /// Level of `kraft.version`, which only control records tell.
    pub kraft_version: i16,
    /// Finalized feature levels, `metadata.version` among them; level 0 is absent.
    pub features: Arc<BTreeMap<Arc<str>, i16>>,
    /// Registered brokers, fenced ones too.
    pub brokers: SharedMap<BrokerId, Arc<BrokerRegistration>>,
    /// Registered controllers.
    pub controllers: SharedMap<BrokerId, Arc<ControllerRegistration>>,
    /// Topics by name.
    pub topics: SharedMap<Arc<str>, Arc<Topic>>,
    /// Names of topics by id.
    pub topic_names: SharedMap<TopicId, Arc<str>>,
    /// Settings that were made for a resource; never defaults.
    pub configs: SharedMap<ConfigResource, Settings>,
    /// First producer id that no block has handed out yet; -1 before the first.
    pub next_producer_id: i64,
    /// Quotas, access control, credentials and tokens.
    pub security: Security,
    /// The image as it was before the open metadata transaction (KIP-868) began.
    before_transaction: Option<Arc<Self>>,
}

/// What a setting is made for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    /// Kind of resource.
    pub kind: ResourceType,
    /// Name of the topic or group, decimal id of the broker; empty for the
    /// default of all brokers.
    pub name: Arc<str>,
}

/// Kinds of resources that have settings, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceType {
    /// A topic.
    Topic = 2,
    /// One broker, or with an empty name the default of all.
    Broker = 4,
    /// Log levels of a broker; never stored.
    BrokerLogger = 8,
    /// Subscriptions of client metrics (KIP-714).
    ClientMetrics = 16,
    /// A consumer or share group.
    Group = 32,
}

impl ResourceType {
    /// The kind with Kafka's number; `None` when there is none.
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Topic, Self::Broker, Self::BrokerLogger, Self::ClientMetrics, Self::Group]
            .into_iter()
            .find(|kind| kind.code() == code)
    }

    /// Kafka's number.
    pub fn code(self) -> i8 {
        self as i8
    }
}

impl ConfigResource {
    /// The resource of this kind and name.
    pub fn new(kind: ResourceType, name: impl Into<Arc<str>>) -> Self {
        Self { kind, name: name.into() }
    }

    /// Settings of a topic.
    pub fn topic(name: impl Into<Arc<str>>) -> Self {
        Self::new(ResourceType::Topic, name)
    }

    /// Settings of one broker.
    pub fn broker(id: BrokerId) -> Self {
        Self::new(ResourceType::Broker, id.to_string())
    }

    /// Settings that hold for every broker without its own.
    pub fn all_brokers() -> Self {
        Self::new(ResourceType::Broker, "")
    }
}

impl ClusterImage {
    /// The image of an empty log.
    pub fn empty(cluster_id: impl Into<Arc<str>>) -> Self {
        Self {
            cluster_id: cluster_id.into(),
            offset: Offset::NONE,
            epoch: LeaderEpoch::NONE,
            timestamp: Timestamp::NONE,
            kraft_version: 0,
            features: Arc::default(),
            brokers: SharedMap::default(),
            controllers: SharedMap::default(),
            topics: SharedMap::default(),
            topic_names: SharedMap::default(),
            configs: SharedMap::default(),
            next_producer_id: -1,
            security: Security::default(),
            before_transaction: None,
        }
    }

    /// What may be shown: never the inside of an open metadata transaction.
    pub fn stable(&self) -> &Self {
        self.before_transaction.as_deref().unwrap_or(self)
    }

    /// True between the begin and the end of a metadata transaction.
    pub fn in_transaction(&self) -> bool {
        self.before_transaction.is_some()
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    /// The topic of this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(self.topic_names.get(&id)?)
    }

    /// A partition of a topic.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionRegistration> {
        self.topic(topic)?.partition(partition)
    }

    /// The registration of a broker, fenced or not.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id)
    }

    /// Brokers that clients may be sent to: registered and not fenced.
    pub fn unfenced_brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }

    /// Settings made for a resource; `None` when none are.
    pub fn settings(&self, resource: &ConfigResource) -> Option<&Settings> {
        self.configs.get(resource)
    }

    /// Finalized level of a feature; 0 when it is off.
    pub fn feature_level(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// Finalized `metadata.version`; 0 before the log says one.
    pub fn metadata_version(&self) -> i16 {
        self.feature_level(METADATA_VERSION)
    }
}
