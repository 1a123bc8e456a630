//! Folds metadata records into an image. `[P]`
//!
//! A record that does not fit the image means that log and state have parted;
//! that is never stepped over.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::records::MetadataRecord;
use super::{
    BrokerRegistration, ClusterImage, ConfigResource, ControllerRegistration, Endpoint,
    LeaderRecoveryState, METADATA_VERSION, PartitionRegistration, ResourceType, SecurityProtocol,
    Topic, VersionRange, directory,
};
use crate::protocol::Str;
use crate::protocol::messages::{
    broker_registration_change_record::BrokerRegistrationChangeRecord, config_record::ConfigRecord,
    feature_level_record::FeatureLevelRecord, partition_change_record::PartitionChangeRecord,
    partition_record::PartitionRecord, register_broker_record::RegisterBrokerRecord,
    register_controller_record::RegisterControllerRecord,
};
use crate::types::{BrokerId, LeaderEpoch, Offset, TopicId};

/// `metadata.version` levels that Kafka 4.4 reads: 3.3-IV3 to 4.4-IV2.
pub const METADATA_VERSIONS: VersionRange = VersionRange { min: 7, max: 33 };

/// Why a record does not fit the image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The record names a topic that is not there.
    #[error("there is no topic {0}")]
    UnknownTopic(TopicId),
    /// The record names a topic that is not there.
    #[error("there is no topic named {0}")]
    UnknownTopicName(String),
    /// The record names a partition that is not there.
    #[error("topic {0} has no partition {1}")]
    UnknownPartition(TopicId, i32),
    /// The record skips a partition.
    #[error("partition {1} of topic {0} leaves a gap")]
    PartitionGap(TopicId, i32),
    /// A partition has not as many directories as replicas.
    #[error("partition {1} of topic {0} has not one directory for each replica")]
    Directories(TopicId, i32),
    /// The record names a broker that is not registered under this epoch.
    #[error("broker {0} is not registered under epoch {1}")]
    UnknownBroker(BrokerId, i64),
    /// The record names a controller that is not registered.
    #[error("controller {0} is not registered")]
    UnknownController(BrokerId),
    /// The record removes what is not there.
    #[error("there is no access control entry {0}")]
    UnknownAcl(Uuid),
    /// A number stands for nothing that Kafka 4.4 knows.
    #[error("{0} of {1} means nothing")]
    UnknownCode(&'static str, i64),
    /// The log was written for a format that is older or newer.
    #[error("metadata.version {0} is not one of 7 to 33 (3.3-IV3 to 4.4-IV2)")]
    MetadataVersion(i16),
    /// A transaction begins within another.
    #[error("a metadata transaction begins within another")]
    NestedTransaction,
    /// A transaction ends that has not begun.
    #[error("a metadata transaction ends that has not begun")]
    NoTransaction,
}

impl ClusterImage {
    /// Folds the record at `offset` into the image.
    pub fn replay(&mut self, offset: Offset, record: &MetadataRecord) -> Result<(), ReplayError> {
        use MetadataRecord as R;
        match record {
            R::RegisterBroker(record) => self.register_broker(record)?,
            R::UnregisterBroker(record) => {
                let id = BrokerId(record.broker_id);
                self.broker_under(id, record.broker_epoch)?;
                self.brokers.remove(&id);
            }
            R::BrokerRegistrationChange(record) => self.change_broker(record)?,
            R::FenceBroker(record) => self.fence_broker(record.id, record.epoch, true)?,
            R::UnfenceBroker(record) => self.fence_broker(record.id, record.epoch, false)?,
            R::RegisterController(record) => self.register_controller(record)?,
            R::UnregisterController(record) => {
                let id = BrokerId(record.controller_id);
                self.controllers.remove(&id).ok_or(ReplayError::UnknownController(id))?;
            }
            R::Topic(record) => {
                let name: Arc<str> = Arc::from(&record.name);
                let id = record.topic_id;
                let topic = Topic { name: Arc::clone(&name), id, partitions: Vec::new() };
                self.topics.insert(Arc::clone(&name), Arc::new(topic));
                self.topic_names.insert(id, name);
            }
            R::Partition(record) => self.partition_record(record)?,
            R::PartitionChange(record) => self.change_partition(record)?,
            R::RemoveTopic(record) => self.remove_topic(record.topic_id)?,
            R::ClearElr(record) => self.clear_elr(&record.topic_name)?,
            R::Config(record) => self.config(record)?,
            R::FeatureLevel(record) => self.feature_level_record(record)?,
            R::ProducerIds(record) => self.next_producer_id = record.next_producer_id,
            R::NoOp(_) | R::ZkMigrationState(_) => {}
            R::BeginTransaction(_) | R::EndTransaction(_) | R::AbortTransaction(_) => {
                self.transaction(record)?;
            }
            _ => self.security_record(record)?,
        }
        self.offset = offset;
        Ok(())
    }

    fn security_record(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        use MetadataRecord as R;
        let security = &mut self.security;
        match record {
            R::ClientQuota(record) => security.replay_quota(record),
            R::AccessControlEntry(record) => {
                security.acls.insert(record.id, Arc::new(record.clone()));
            }
            R::RemoveAccessControlEntry(record) => {
                security.acls.remove(&record.id).ok_or(ReplayError::UnknownAcl(record.id))?;
            }
            R::UserScramCredential(record) => {
                let key = (record.mechanism, Arc::from(&record.name));
                security.scram.insert(key, Arc::new(record.clone()));
            }
            R::RemoveUserScramCredential(record) => {
                security.scram.remove(&(record.mechanism, Arc::from(&record.name)));
            }
            R::DelegationToken(record) => {
                let key = Arc::from(&record.token_id);
                security.delegation_tokens.insert(key, Arc::new(record.clone()));
            }
            R::RemoveDelegationToken(record) => {
                security.delegation_tokens.remove(record.token_id.as_str());
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins, ends or undoes a transaction. What an undone one wrote is gone,
    /// but its offsets stay behind us.
    fn transaction(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::BeginTransaction(_) if self.before_transaction.is_some() => {
                return Err(ReplayError::NestedTransaction);
            }
            MetadataRecord::BeginTransaction(_) => {
                self.before_transaction = Some(Arc::new(self.clone()));
            }
            MetadataRecord::EndTransaction(_) => {
                self.before_transaction.take().ok_or(ReplayError::NoTransaction)?;
            }
            _ => {
                let before = self.before_transaction.take().ok_or(ReplayError::NoTransaction)?;
                let (epoch, timestamp) = (self.epoch, self.timestamp);
                *self = Self { epoch, timestamp, ..(*before).clone() };
            }
        }
        Ok(())
    }

    fn feature_level_record(&mut self, record: &FeatureLevelRecord) -> Result<(), ReplayError> {
        let level = record.feature_level;
        match record.name.as_str() {
            // Written into the log by mistake in some releases (KAFKA-18979).
            "kraft.version" => return Ok(()),
            METADATA_VERSION if !METADATA_VERSIONS.contains(level) => {
                return Err(ReplayError::MetadataVersion(level));
            }
            _ => {}
        }
        let features = Arc::make_mut(&mut self.features);
        if level == 0 {
            features.remove(record.name.as_str());
        } else {
            features.insert(Arc::from(&record.name), level);
        }
        Ok(())
    }

    fn config(&mut self, record: &ConfigRecord) -> Result<(), ReplayError> {
        let kind = ResourceType::from_code(record.resource_type).ok_or_else(|| {
            ReplayError::UnknownCode("resource type", i64::from(record.resource_type))
        })?;
        let resource = ConfigResource::new(kind, &*record.resource_name);
        let mut settings = self.configs.get(&resource).cloned().unwrap_or_default();
        let map = Arc::make_mut(&mut settings);
        match &record.value {
            Some(value) => {
                map.insert(Arc::from(&record.name), Arc::from(value));
            }
            None => {
                map.remove(record.name.as_str());
            }
        }
        if settings.is_empty() {
            self.configs.remove(&resource);
        } else {
            self.configs.insert(resource, settings);
        }
        Ok(())
    }
}

/// Brokers and controllers.
impl ClusterImage {
    fn broker_under(
        &mut self,
        id: BrokerId,
        epoch: i64,
    ) -> Result<&mut BrokerRegistration, ReplayError> {
        let broker = self.brokers.get_mut(&id).filter(|broker| broker.epoch == epoch);
        broker.map(Arc::make_mut).ok_or(ReplayError::UnknownBroker(id, epoch))
    }

    fn register_broker(&mut self, record: &RegisterBrokerRecord) -> Result<(), ReplayError> {
        let endpoints = record.end_points.iter().map(|endpoint| {
            read_endpoint(&endpoint.name, &endpoint.host, endpoint.port, endpoint.security_protocol)
        });
        let features = record.features.iter().map(|feature| {
            read_feature(
                &feature.name,
                feature.min_supported_version,
                feature.max_supported_version,
            )
        });
        let id = BrokerId(record.broker_id);
        let broker = BrokerRegistration {
            id,
            epoch: record.broker_epoch,
            incarnation_id: record.incarnation_id,
            endpoints: endpoints.collect::<Result<_, _>>()?,
            features: features.collect(),
            rack: record.rack.as_ref().map(Arc::from),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            directories: record.log_dirs.clone(),
            cordoned_directories: record.cordoned_log_dirs.clone(),
        };
        self.brokers.insert(id, Arc::new(broker));
        Ok(())
    }

    fn change_broker(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayError> {
        let fenced = match record.fenced {
            0 => None,
            1 => Some(true),
            -1 => Some(false),
            other => return Err(ReplayError::UnknownCode("fencing", i64::from(other))),
        };
        let shutdown = match record.in_controlled_shutdown {
            0 => None,
            1 => Some(true),
            other => return Err(ReplayError::UnknownCode("shutdown", i64::from(other))),
        };
        let broker = self.broker_under(BrokerId(record.broker_id), record.broker_epoch)?;
        broker.fenced = fenced.unwrap_or(broker.fenced);
        broker.in_controlled_shutdown = shutdown.unwrap_or(broker.in_controlled_shutdown);
        if !record.log_dirs.is_empty() {
            broker.directories.clone_from(&record.log_dirs);
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            broker.cordoned_directories = Some(cordoned.clone());
        }
        Ok(())
    }

    fn fence_broker(&mut self, id: i32, epoch: i64, fenced: bool) -> Result<(), ReplayError> {
        self.broker_under(BrokerId(id), epoch)?.fenced = fenced;
        Ok(())
    }

    fn register_controller(
        &mut self,
        record: &RegisterControllerRecord,
    ) -> Result<(), ReplayError> {
        let endpoints = record.end_points.iter().map(|endpoint| {
            read_endpoint(&endpoint.name, &endpoint.host, endpoint.port, endpoint.security_protocol)
        });
        let features = record.features.iter().map(|feature| {
            read_feature(
                &feature.name,
                feature.min_supported_version,
                feature.max_supported_version,
            )
        });
        let id = BrokerId(record.controller_id);
        let controller = ControllerRegistration {
            id,
            incarnation_id: record.incarnation_id,
            endpoints: endpoints.collect::<Result<_, _>>()?,
            features: features.collect(),
        };
        self.controllers.insert(id, Arc::new(controller));
        Ok(())
    }
}

/// Topics and partitions.
impl ClusterImage {
    fn topic_mut(&mut self, id: TopicId) -> Result<&mut Topic, ReplayError> {
        let name = self.topic_names.get(&id).ok_or(ReplayError::UnknownTopic(id))?;
        let topic = self.topics.get_mut(name).ok_or(ReplayError::UnknownTopic(id))?;
        Ok(Arc::make_mut(topic))
    }

    fn remove_topic(&mut self, id: TopicId) -> Result<(), ReplayError> {
        let name = self.topic_names.remove(&id).ok_or(ReplayError::UnknownTopic(id))?;
        self.topics.remove(&name);
        self.configs.remove(&ConfigResource::topic(name));
        Ok(())
    }

    fn partition_record(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
        let (id, number) = (record.topic_id, record.partition_id);
        let replicas = brokers(&record.replicas);
        let partition = PartitionRegistration {
            directories: directories(&record.directories, replicas.len())
                .ok_or(ReplayError::Directories(id, number))?,
            replicas,
            isr: brokers(&record.isr),
            removing_replicas: brokers(&record.removing_replicas),
            adding_replicas: brokers(&record.adding_replicas),
            elr: brokers(record.eligible_leader_replicas.as_deref().unwrap_or_default()),
            last_known_elr: brokers(record.last_known_elr.as_deref().unwrap_or_default()),
            leader: leader(record.leader),
            leader_recovery_state: recovery_state(record.leader_recovery_state)?,
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: record.partition_epoch,
        };
        let topic = self.topic_mut(id)?;
        let at = usize::try_from(number).map_err(|_| ReplayError::PartitionGap(id, number))?;
        if at == topic.partitions.len() {
            topic.partitions.push(Arc::new(partition));
            return Ok(());
        }
        let known = topic.partitions.get_mut(at).ok_or(ReplayError::PartitionGap(id, number))?;
        *known = Arc::new(partition);
        Ok(())
    }

    fn change_partition(&mut self, record: &PartitionChangeRecord) -> Result<(), ReplayError> {
        let (id, number) = (record.topic_id, record.partition_id);
        let topic = self.topic_mut(id)?;
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let partition =
            topic.partitions.get_mut(at).ok_or(ReplayError::UnknownPartition(id, number))?;
        Arc::make_mut(partition).merge(record)
    }

    fn clear_elr(&mut self, topic: &str) -> Result<(), ReplayError> {
        let names: Vec<Arc<str>> = if topic.is_empty() {
            self.topics.keys().map(Arc::clone).collect()
        } else {
            vec![Arc::from(topic)]
        };
        for name in names {
            let topic = self.topics.get(&name);
            let topic = topic.ok_or_else(|| ReplayError::UnknownTopicName(name.to_string()))?;
            let has_elr = |partition: &Arc<PartitionRegistration>| {
                !partition.elr.is_empty() || !partition.last_known_elr.is_empty()
            };
            if !topic.partitions.iter().any(has_elr) {
                continue;
            }
            let Some(topic) = self.topics.get_mut(&name).map(Arc::make_mut) else { continue };
            for partition in topic.partitions.iter_mut().filter(|partition| has_elr(partition)) {
                let partition = Arc::make_mut(partition);
                partition.elr.clear();
                partition.last_known_elr.clear();
                partition.partition_epoch += 1;
            }
        }
        Ok(())
    }
}

impl PartitionRegistration {
    /// Changes what the record names. A leader that is named moves the leader
    /// epoch, even when it is the one that leads already.
    pub(super) fn merge(&mut self, record: &PartitionChangeRecord) -> Result<(), ReplayError> {
        const UNCHANGED: i32 = -2;
        set_brokers(&mut self.replicas, record.replicas.as_deref());
        set_brokers(&mut self.isr, record.isr.as_deref());
        set_brokers(&mut self.removing_replicas, record.removing_replicas.as_deref());
        set_brokers(&mut self.adding_replicas, record.adding_replicas.as_deref());
        set_brokers(&mut self.elr, record.eligible_leader_replicas.as_deref());
        set_brokers(&mut self.last_known_elr, record.last_known_elr.as_deref());
        let given = record.directories.as_deref().unwrap_or(&self.directories);
        self.directories = directories(given, self.replicas.len())
            .ok_or(ReplayError::Directories(record.topic_id, record.partition_id))?;
        if record.leader != UNCHANGED {
            self.leader = leader(record.leader);
            self.leader_epoch = LeaderEpoch(self.leader_epoch.0.saturating_add(1));
        }
        if record.leader_recovery_state != -1 {
            self.leader_recovery_state = recovery_state(record.leader_recovery_state)?;
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
        Ok(())
    }
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn set_brokers(field: &mut Vec<BrokerId>, ids: Option<&[i32]>) {
    if let Some(ids) = ids {
        *field = brokers(ids);
    }
}

fn leader(id: i32) -> Option<BrokerId> {
    (id >= 0).then_some(BrokerId(id))
}

fn recovery_state(code: i8) -> Result<LeaderRecoveryState, ReplayError> {
    let state = LeaderRecoveryState::from_code(code);
    state.ok_or_else(|| ReplayError::UnknownCode("leader recovery state", i64::from(code)))
}

/// One directory for each replica. Records older than directories have none,
/// which stands for [`directory::MIGRATING`].
fn directories(given: &[Uuid], replicas: usize) -> Option<Vec<Uuid>> {
    if given.iter().all(|id| *id == directory::MIGRATING) {
        return Some(vec![directory::MIGRATING; replicas]);
    }
    (given.len() == replicas).then(|| given.to_vec())
}

fn read_endpoint(name: &Str, host: &Str, port: u16, code: i16) -> Result<Endpoint, ReplayError> {
    let security_protocol = SecurityProtocol::from_code(code)
        .ok_or_else(|| ReplayError::UnknownCode("security protocol", i64::from(code)))?;
    Ok(Endpoint { listener: Arc::from(name), host: Arc::from(host), port, security_protocol })
}

fn read_feature(name: &Str, min: i16, max: i16) -> (Arc<str>, VersionRange) {
    (Arc::from(name), VersionRange { min, max })
}

/// Features as `RegisterBroker` and its like carry them.
pub(super) type Features = BTreeMap<Arc<str>, VersionRange>;
