//! An image as the records that make it, in the order of Kafka's snapshots. `[P]`

use std::sync::Arc;

use super::records::MetadataRecord;
use super::replay::Features;
use super::{
    BrokerRegistration, ClusterImage, ControllerRegistration, METADATA_VERSION,
    PartitionRegistration,
};
use crate::cluster::records::level;
use crate::protocol::messages::{
    client_quota_record::{ClientQuotaRecord, EntityData},
    config_record::ConfigRecord,
    feature_level_record::FeatureLevelRecord,
    partition_record::PartitionRecord,
    producer_ids_record::ProducerIdsRecord,
    register_broker_record::{BrokerEndpoint, BrokerFeature, RegisterBrokerRecord},
    register_controller_record::{ControllerEndpoint, ControllerFeature, RegisterControllerRecord},
    topic_record::TopicRecord,
};
use crate::types::{BrokerId, TopicId};

impl ClusterImage {
    /// Hands every record of a snapshot to `sink`, one after another, so that a
    /// large image is never held twice. Stops at the first error of the sink.
    pub fn for_each_record<E>(
        &self,
        mut sink: impl FnMut(MetadataRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.features(&mut sink)?;
        for broker in self.brokers.values() {
            sink(broker.to_record(self.metadata_version()).into())?;
        }
        for controller in self.controllers.values() {
            sink(controller.to_record().into())?;
        }
        self.topics(&mut sink)?;
        self.configs(&mut sink)?;
        self.quotas_and_producer_ids(&mut sink)?;
        for acl in self.security.acls.values() {
            sink((**acl).clone().into())?;
        }
        for credential in self.security.scram.values() {
            sink((**credential).clone().into())?;
        }
        for token in self.security.delegation_tokens.values() {
            sink((**token).clone().into())?;
        }
        Ok(())
    }

    /// Features, `metadata.version` first: it says how the rest reads.
    fn features<E>(&self, sink: &mut impl FnMut(MetadataRecord) -> Result<(), E>) -> Result<(), E> {
        let others = self.features.iter().filter(|(name, _)| ***name != *METADATA_VERSION);
        let version = self.features.get_key_value(METADATA_VERSION);
        for (name, level) in version.into_iter().chain(others) {
            sink(feature_level(name, *level).into())?;
        }
        Ok(())
    }

    fn topics<E>(&self, sink: &mut impl FnMut(MetadataRecord) -> Result<(), E>) -> Result<(), E> {
        let metadata_version = self.metadata_version();
        for topic in self.topics.values() {
            let record = TopicRecord {
                name: (&topic.name).into(),
                topic_id: topic.id,
                ..Default::default()
            };
            sink(record.into())?;
            for (number, partition) in (0..).zip(&topic.partitions) {
                sink(partition.to_record(topic.id, number, metadata_version).into())?;
            }
        }
        Ok(())
    }

    fn configs<E>(&self, sink: &mut impl FnMut(MetadataRecord) -> Result<(), E>) -> Result<(), E> {
        for (resource, settings) in &self.configs {
            for (key, value) in settings.iter() {
                let record = ConfigRecord {
                    resource_type: resource.kind.code(),
                    resource_name: (&resource.name).into(),
                    name: key.into(),
                    value: Some(value.into()),
                    ..Default::default()
                };
                sink(record.into())?;
            }
        }
        Ok(())
    }

    fn quotas_and_producer_ids<E>(
        &self,
        sink: &mut impl FnMut(MetadataRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        for ((entity, key), value) in &self.security.client_quotas {
            let entity = entity.iter().map(|(kind, name)| EntityData {
                entity_type: kind.into(),
                entity_name: name.as_ref().map(Into::into),
                ..Default::default()
            });
            let record = ClientQuotaRecord {
                entity: entity.collect(),
                key: key.into(),
                value: *value,
                ..Default::default()
            };
            sink(record.into())?;
        }
        if self.next_producer_id >= 0 {
            let record = ProducerIdsRecord {
                broker_id: -1,
                broker_epoch: -1,
                next_producer_id: self.next_producer_id,
                ..Default::default()
            };
            sink(record.into())?;
        }
        Ok(())
    }
}

/// The record that finalizes a feature level.
pub fn feature_level(name: &str, level: i16) -> FeatureLevelRecord {
    FeatureLevelRecord { name: name.into(), feature_level: level, ..Default::default() }
}

impl BrokerRegistration {
    /// The record that makes this registration. Where the format has no place
    /// for directories, they are lost, as in Kafka.
    pub fn to_record(&self, metadata_version: i16) -> RegisterBrokerRecord {
        let holds = |level| metadata_version >= level;
        let endpoints = self.endpoints.iter().map(|endpoint| BrokerEndpoint {
            name: (&endpoint.listener).into(),
            host: (&endpoint.host).into(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol.code(),
            ..Default::default()
        });
        let features = ranges(&self.features).map(|(name, min, max)| BrokerFeature {
            name: name.into(),
            min_supported_version: min,
            max_supported_version: max,
            ..Default::default()
        });
        RegisterBrokerRecord {
            broker_id: self.id.0,
            incarnation_id: self.incarnation_id,
            broker_epoch: self.epoch,
            end_points: endpoints.collect(),
            features: features.collect(),
            rack: self.rack.as_ref().map(Into::into),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
            log_dirs: if holds(level::DIRECTORY_ASSIGNMENT) {
                self.directories.clone()
            } else {
                Vec::new()
            },
            cordoned_log_dirs: self
                .cordoned_directories
                .clone()
                .filter(|_| holds(level::CORDONED_DIRECTORIES)),
            ..Default::default()
        }
    }
}

impl ControllerRegistration {
    /// The record that makes this registration.
    pub fn to_record(&self) -> RegisterControllerRecord {
        let endpoints = self.endpoints.iter().map(|endpoint| ControllerEndpoint {
            name: (&endpoint.listener).into(),
            host: (&endpoint.host).into(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol.code(),
            ..Default::default()
        });
        let features = ranges(&self.features).map(|(name, min, max)| ControllerFeature {
            name: name.into(),
            min_supported_version: min,
            max_supported_version: max,
            ..Default::default()
        });
        RegisterControllerRecord {
            controller_id: self.id.0,
            incarnation_id: self.incarnation_id,
            end_points: endpoints.collect(),
            features: features.collect(),
            ..Default::default()
        }
    }
}

impl PartitionRegistration {
    /// The record that makes this partition. Where the format has no place for
    /// directories or eligible leader replicas, they are lost, as in Kafka.
    pub fn to_record(
        &self,
        topic_id: TopicId,
        number: i32,
        metadata_version: i16,
    ) -> PartitionRecord {
        let ids = |brokers: &[BrokerId]| brokers.iter().map(|broker| broker.0).collect::<Vec<_>>();
        let some = |brokers: &[BrokerId]| {
            let held = metadata_version >= level::ELIGIBLE_LEADER_REPLICAS && !brokers.is_empty();
            held.then(|| ids(brokers))
        };
        let directories = if metadata_version >= level::DIRECTORY_ASSIGNMENT {
            self.directories.clone()
        } else {
            Vec::new()
        };
        PartitionRecord {
            partition_id: number,
            topic_id,
            replicas: ids(&self.replicas),
            isr: ids(&self.isr),
            removing_replicas: ids(&self.removing_replicas),
            adding_replicas: ids(&self.adding_replicas),
            leader: self.leader.map_or(-1, |leader| leader.0),
            leader_recovery_state: self.leader_recovery_state.code(),
            leader_epoch: self.leader_epoch.0,
            partition_epoch: self.partition_epoch,
            directories,
            eligible_leader_replicas: some(&self.elr),
            last_known_elr: some(&self.last_known_elr),
            ..Default::default()
        }
    }
}

fn ranges(features: &Features) -> impl Iterator<Item = (&Arc<str>, i16, i16)> {
    features.iter().map(|(name, range)| (name, range.min, range.max))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use uuid::Uuid;

    use super::*;
    use crate::cluster::{ClusterDelta, ReplayError};
    use crate::protocol::messages::{
        abort_transaction_record::AbortTransactionRecord,
        access_control_entry_record::AccessControlEntryRecord,
        begin_transaction_record::BeginTransactionRecord,
        broker_registration_change_record::BrokerRegistrationChangeRecord,
        clear_elr_record::ClearElrRecord, delegation_token_record::DelegationTokenRecord,
        end_transaction_record::EndTransactionRecord,
        partition_change_record::PartitionChangeRecord, remove_topic_record::RemoveTopicRecord,
        user_scram_credential_record::UserScramCredentialRecord,
    };
    use crate::types::Offset;

    const TOPIC: TopicId = Uuid::from_u128(0x7001);
    const DIRECTORY: Uuid = Uuid::from_u128(0xd001);

    fn image(records: impl IntoIterator<Item = MetadataRecord>) -> ClusterImage {
        let mut image = ClusterImage::empty("cluster");
        apply(&mut image, records);
        image
    }

    fn apply(image: &mut ClusterImage, records: impl IntoIterator<Item = MetadataRecord>) {
        for record in records {
            // Through bytes, as in the log.
            let bytes = record.encode(33).unwrap();
            let record = MetadataRecord::decode(&bytes).unwrap();
            image.replay(image.offset + 1, &record).unwrap();
        }
    }

    fn snapshot(image: &ClusterImage) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        let done: Result<(), Infallible> = image.for_each_record(|record| {
            records.push(record);
            Ok(())
        });
        done.unwrap();
        records
    }

    fn topic(name: &str, id: TopicId) -> MetadataRecord {
        TopicRecord { name: name.into(), topic_id: id, ..Default::default() }.into()
    }

    fn partition(topic_id: TopicId, partition_id: i32) -> PartitionRecord {
        PartitionRecord {
            partition_id,
            topic_id,
            replicas: vec![1, 2],
            isr: vec![1],
            leader: 1,
            leader_epoch: 4,
            partition_epoch: 9,
            directories: vec![DIRECTORY, Uuid::from_u128(1)],
            eligible_leader_replicas: Some(vec![2]),
            ..Default::default()
        }
    }

    fn config(kind: i8, name: &str, key: &str, value: Option<&str>) -> MetadataRecord {
        ConfigRecord {
            resource_type: kind,
            resource_name: name.into(),
            name: key.into(),
            value: value.map(Into::into),
            ..Default::default()
        }
        .into()
    }

    fn broker(id: i32) -> RegisterBrokerRecord {
        RegisterBrokerRecord {
            broker_id: id,
            incarnation_id: Uuid::from_u128(77),
            broker_epoch: 5,
            end_points: vec![BrokerEndpoint {
                name: "PLAINTEXT".into(),
                host: "localhost".into(),
                port: 9092,
                ..Default::default()
            }],
            features: vec![BrokerFeature {
                name: "metadata.version".into(),
                min_supported_version: 7,
                max_supported_version: 33,
                ..Default::default()
            }],
            rack: Some("r1".into()),
            fenced: true,
            log_dirs: vec![DIRECTORY],
            ..Default::default()
        }
    }

    fn everything() -> Vec<MetadataRecord> {
        let controller =
            RegisterControllerRecord { controller_id: 3, ..RegisterControllerRecord::default() };
        let quota = ClientQuotaRecord {
            entity: vec![EntityData { entity_type: "user".into(), ..Default::default() }],
            key: "producer_byte_rate".into(),
            value: 1.5,
            ..Default::default()
        };
        let ids = ProducerIdsRecord { next_producer_id: 2000, ..Default::default() };
        let acl = AccessControlEntryRecord {
            id: Uuid::from_u128(0xac1),
            principal: "User:a".into(),
            ..Default::default()
        };
        let scram = UserScramCredentialRecord {
            name: "alice".into(),
            mechanism: 1,
            iterations: 4096,
            ..Default::default()
        };
        let token = DelegationTokenRecord { token_id: "t".into(), ..Default::default() };
        vec![
            feature_level(METADATA_VERSION, 33).into(),
            feature_level("group.version", 1).into(),
            broker(1).into(),
            controller.into(),
            topic("a", TOPIC),
            partition(TOPIC, 0).into(),
            partition(TOPIC, 1).into(),
            config(2, "a", "retention.ms", Some("7")),
            config(4, "", "min.insync.replicas", Some("1")),
            quota.into(),
            ids.into(),
            acl.into(),
            scram.into(),
            token.into(),
        ]
    }

    #[test]
    fn a_snapshot_makes_the_same_image() {
        let original = image(everything());
        let records = snapshot(&original);
        assert_eq!(records.len(), everything().len());
        assert_eq!(records.first(), Some(&feature_level(METADATA_VERSION, 33).into()));
        let mut copy = image(records);
        copy.offset = original.offset;
        assert_eq!(copy, original);
    }

    #[test]
    fn a_named_leader_moves_its_epoch_and_silence_moves_nothing() {
        let mut image = image(everything());
        let before = image.clone();
        let change = PartitionChangeRecord {
            topic_id: TOPIC,
            partition_id: 1,
            leader: 1,
            isr: Some(vec![1, 2]),
            ..Default::default()
        };
        apply(&mut image, [change.into()]);
        let partition = image.partition("a", 1).unwrap();
        assert_eq!(partition.isr, [BrokerId(1), BrokerId(2)]);
        assert_eq!((partition.leader_epoch.0, partition.partition_epoch), (5, 10));
        assert_eq!(partition.replicas, [BrokerId(1), BrokerId(2)]);

        let delta = ClusterDelta::between(&before, &image);
        let changed: Vec<_> = delta.changed_partitions.iter().map(|c| c.partition).collect();
        assert_eq!((changed, delta.created_topics.len()), (vec![1], 0));

        let clear = ClearElrRecord::default();
        apply(&mut image, [clear.into()]);
        assert!(image.partition("a", 0).unwrap().elr.is_empty());
    }

    #[test]
    fn a_topic_goes_with_its_settings_and_may_come_again() {
        let mut image = image(everything());
        let before = image.clone();
        let remove = RemoveTopicRecord { topic_id: TOPIC, ..Default::default() };
        let again = Uuid::from_u128(0x7002);
        apply(&mut image, [remove.into(), topic("a", again), partition(again, 0).into()]);
        assert_eq!(image.settings(&crate::cluster::ConfigResource::topic("a")), None);
        assert!(image.topic_by_id(TOPIC).is_none());
        let delta = ClusterDelta::between(&before, &image);
        assert_eq!(delta.deleted_topics.iter().map(|t| t.id).collect::<Vec<_>>(), [TOPIC]);
        assert_eq!(delta.created_topics.iter().map(|t| t.id).collect::<Vec<_>>(), [again]);
        assert_eq!(delta.changed_partitions.len(), 1);
    }

    #[test]
    fn a_transaction_is_seen_whole_or_not_at_all() {
        let mut image = image(everything());
        let before = image.clone();
        apply(&mut image, [BeginTransactionRecord::default().into(), topic("b", DIRECTORY)]);
        assert!(image.stable().topic("b").is_none());
        let mut ended = image.clone();
        apply(&mut ended, [EndTransactionRecord::default().into()]);
        assert!(ended.stable().topic("b").is_some());

        apply(&mut image, [AbortTransactionRecord::default().into()]);
        assert_eq!(image.offset, before.offset + 3);
        assert_eq!(ClusterImage { offset: before.offset, ..image.clone() }, before);
        let end = EndTransactionRecord::default().into();
        assert_eq!(image.replay(Offset(99), &end), Err(ReplayError::NoTransaction));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut image = image(everything());
        let mut refused = |record: MetadataRecord| image.replay(Offset(99), &record).unwrap_err();
        let change = BrokerRegistrationChangeRecord {
            broker_id: 1,
            broker_epoch: 4,
            fenced: -1,
            ..Default::default()
        };
        assert_eq!(refused(change.into()), ReplayError::UnknownBroker(BrokerId(1), 4));
        let gap = partition(TOPIC, 3);
        assert_eq!(refused(gap.into()), ReplayError::PartitionGap(TOPIC, 3));
        let level = feature_level(METADATA_VERSION, 34);
        assert_eq!(refused(level.into()), ReplayError::MetadataVersion(34));
        let unknown = RemoveTopicRecord { topic_id: DIRECTORY, ..Default::default() };
        assert_eq!(refused(unknown.into()), ReplayError::UnknownTopic(DIRECTORY));
    }
}
