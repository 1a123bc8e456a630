//! The controller as a machine: commands and records in, records and answers out. `[P]`
//!
//! Its state is the cluster's image, as far as the log has been appended (not
//! only as far as it is committed), and some soft state of the active
//! controller. What it decides lies in the files beside this one, cut by what it
//! is about: topics, brokers, leadership, settings, producer ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::command::{Answer, ApiError, Command, ProducerIdBlock};
use super::configs::ConfigRules;
use super::sessions::Sessions;
use super::topics::unify_collision_chars;
use crate::cluster::records::{MetadataRecord, level};
use crate::cluster::{ClusterImage, ConfigResource, ReplayError, features};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    abort_transaction_record::AbortTransactionRecord,
    begin_transaction_record::BeginTransactionRecord, config_record::ConfigRecord,
    end_transaction_record::EndTransactionRecord, no_op_record::NoOpRecord,
    producer_ids_record::ProducerIdsRecord,
};
use crate::replicated::{Decision, Machine, Now, Ticket};
use crate::sys::random::Random;
use crate::types::{BrokerId, Offset, ProducerId};

/// Records that one request may write, at most.
pub const RECORDS_PER_REQUEST: usize = 10_000;

/// Producer ids in a block.
const PRODUCER_ID_BLOCK: i32 = 1000;

/// Key of the setting that acks=all is judged by.
pub const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";
/// Key of the setting that lets replicas lead that are not in sync.
pub const UNCLEAN_LEADER_ELECTION: &str = "unclean.leader.election.enable";

/// What the controller is configured with.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// This node.
    pub node_id: BrokerId,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election: bool,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `metadata.max.idle.interval.ms`; zero for no idle records.
    pub max_idle_interval: Duration,
    /// The broker in this very process. When it registers, its earlier
    /// incarnation is known to be dead: it cannot have outlived the process.
    pub local_broker: Option<BrokerId>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            node_id: BrokerId(1),
            num_partitions: 1,
            default_replication_factor: 1,
            min_insync_replicas: 1,
            unclean_leader_election: false,
            session_timeout: Duration::from_secs(9),
            max_idle_interval: Duration::from_millis(500),
            local_broker: None,
        }
    }
}

/// What a command writes, and its answer.
pub(super) struct Written {
    pub(super) records: Vec<MetadataRecord>,
    pub(super) atomic: bool,
    pub(super) answer: Answer,
}

impl Written {
    /// Records that stand or fall together.
    pub(super) fn atomic(records: Vec<MetadataRecord>, answer: Answer) -> Self {
        Self { records, atomic: true, answer }
    }
}

/// The controller's state. See the module.
#[derive(Debug)]
pub struct ControllerMachine {
    pub(super) image: ClusterImage,
    pub(super) options: ControllerOptions,
    pub(super) rules: Arc<dyn ConfigRules>,
    pub(super) dice: Random,
    pub(super) sessions: Sessions,
    /// Where each broker's registration stands in the log.
    pub(super) registered_at: BTreeMap<BrokerId, Offset>,
    /// Topics whose names hold `.` or `_`, by the name with every `.` made `_`:
    /// two of them would collide in the names of metrics.
    pub(super) collisions: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// When the next idle record is due; none while this node only follows.
    next_idle: Option<Duration>,
}

impl ControllerMachine {
    /// The machine of an empty log.
    pub fn new(
        image: ClusterImage,
        options: ControllerOptions,
        rules: Arc<dyn ConfigRules>,
        dice: Random,
    ) -> Self {
        let sessions = Sessions::new(options.session_timeout);
        Self {
            image,
            options,
            rules,
            dice,
            sessions,
            registered_at: BTreeMap::new(),
            collisions: BTreeMap::new(),
            next_idle: None,
        }
    }

    /// What the log says as far as it is appended.
    pub fn image(&self) -> &ClusterImage {
        &self.image
    }

    /// Says where the records that follow come from, or came from.
    pub fn set_origin(&mut self, image: impl FnOnce(&mut ClusterImage)) {
        image(&mut self.image);
    }

    /// This node has become the active controller. What it must write first:
    /// the bootstrap records into an empty log, or the end of a transaction that
    /// its predecessor left open.
    pub fn activate(
        &mut self,
        now: Now,
        bootstrap: &[MetadataRecord],
    ) -> Decision<MetadataRecord, Answer> {
        for broker in self.image.brokers.values().filter(|broker| !broker.fenced) {
            if self.options.local_broker != Some(broker.id) {
                self.sessions.touch(broker.id, broker.epoch, Offset::NONE, now.monotonic);
            }
        }
        let idle = self.options.max_idle_interval;
        self.next_idle = (!idle.is_zero()).then_some(now.monotonic + idle);
        let mut records = Vec::new();
        if self.image.in_transaction() {
            let reason = Some("Controller failover".into());
            records.push(AbortTransactionRecord { reason, ..Default::default() }.into());
        }
        let stable = self.image.stable();
        if stable.metadata_version() == 0 {
            records.extend(self.bootstrap_records(bootstrap));
        }
        Decision { records, atomic: true, answers: Vec::new() }
    }

    /// The first records of a log, in a transaction where the format has them.
    fn bootstrap_records(&self, bootstrap: &[MetadataRecord]) -> Vec<MetadataRecord> {
        let level = |name: &str| {
            bootstrap.iter().find_map(|record| match record {
                MetadataRecord::FeatureLevel(record) if record.name == *name => {
                    Some(record.feature_level)
                }
                _ => None,
            })
        };
        let mut records = bootstrap.to_vec();
        if level(features::ELR_VERSION).is_some_and(|level| level > 0) {
            let min_isr = self.options.min_insync_replicas.to_string();
            let resource = ConfigResource::all_brokers();
            records.push(config_record(&resource, MIN_INSYNC_REPLICAS, Some(&min_isr)));
        }
        let metadata_version = level(crate::cluster::METADATA_VERSION).unwrap_or(0);
        if metadata_version >= level::TRANSACTIONS {
            let name = Some("Bootstrap records".into());
            records.insert(0, BeginTransactionRecord { name, ..Default::default() }.into());
            records.push(EndTransactionRecord::default().into());
        }
        records
    }

    /// True when eligible leader replicas are kept (KIP-966).
    pub(super) fn elr_enabled(&self) -> bool {
        self.image.feature_level(features::ELR_VERSION) > 0
    }

    /// A topic's setting as it holds: its own, this node's, all brokers'.
    pub(super) fn topic_setting(&self, topic: &str, key: &str) -> Option<&Arc<str>> {
        let own = ConfigResource::topic(topic);
        let node = ConfigResource::broker(self.options.node_id);
        [own, node, ConfigResource::all_brokers()]
            .iter()
            .find_map(|resource| self.image.settings(resource)?.get(key))
    }

    /// A block of producer ids for a broker of this epoch.
    fn allocate_producer_ids(&self, broker: BrokerId, epoch: i64) -> Result<Written, ApiError> {
        self.check_broker_epoch(broker, epoch)?;
        let first = self.image.next_producer_id.max(0);
        let next = first.checked_add(i64::from(PRODUCER_ID_BLOCK));
        let next_producer_id = next.ok_or_else(|| {
            let text = "Exhausted all producerIds as the next block's end producerId has exceeded \
                        the int64 type limit";
            ApiError::new(ErrorCode::UnknownServerError, text)
        })?;
        let record = ProducerIdsRecord {
            broker_id: broker.0,
            broker_epoch: epoch,
            next_producer_id,
            ..Default::default()
        };
        let block = ProducerIdBlock { first: ProducerId(first), len: PRODUCER_ID_BLOCK };
        Ok(Written::atomic(vec![record.into()], Answer::ProducerIds(block)))
    }

    fn handle(&mut self, now: Now, command: Command) -> Result<Written, ApiError> {
        match command {
            Command::CreateTopics(topics, validate_only) => {
                self.create_topics(&topics, validate_only)
            }
            Command::DeleteTopics(topics) => self.delete_topics(&topics),
            Command::CreatePartitions(topics, validate_only) => {
                self.create_partitions(&topics, validate_only)
            }
            Command::AlterSettings(changes, validate_only) => {
                self.alter_settings(&changes, validate_only)
            }
            Command::ReplaceSettings(settings, validate_only) => {
                self.replace_settings(&settings, validate_only)
            }
            Command::AllocateProducerIds(broker, epoch) => {
                self.allocate_producer_ids(broker, epoch)
            }
            Command::RegisterBroker(broker) => self.register_broker(now, broker),
            Command::Heartbeat(heartbeat) => self.heartbeat(now, &heartbeat),
            Command::AssignReplicas(broker, epoch, assignments) => {
                self.assign_replicas(broker, epoch, &assignments)
            }
            Command::UnregisterBroker(broker) => self.unregister_broker(broker),
            Command::RegisterController(controller) => self.register_controller(controller),
            Command::UpdateFeatures(updates, validate_only) => {
                self.update_features(&updates, validate_only)
            }
            Command::ElectLeaders(kind, partitions) => self.elect_leaders(kind, &partitions),
            Command::AlterReassignments(wanted, may_change_factor) => {
                self.alter_reassignments(&wanted, may_change_factor)
            }
            Command::AlterQuotas(alterations, validate_only) => {
                self.alter_quotas(&alterations, validate_only)
            }
        }
    }

    fn idle(&mut self, now: Now) -> Option<MetadataRecord> {
        if self.next_idle.is_none_or(|due| now.monotonic < due) {
            return None;
        }
        self.next_idle = Some(now.monotonic + self.options.max_idle_interval);
        Some(NoOpRecord::default().into())
    }
}

impl Machine for ControllerMachine {
    type Command = Command;
    type Record = MetadataRecord;
    type Answer = Answer;
    type Error = ReplayError;

    fn decide(
        &mut self,
        now: Now,
        ticket: Ticket,
        command: Command,
    ) -> Decision<MetadataRecord, Answer> {
        match self.handle(now, command) {
            Ok(Written { records, atomic, answer }) => {
                Decision { records, atomic, answers: vec![(ticket, answer)] }
            }
            Err(error) => Decision::answer(ticket, Answer::Refused(error)),
        }
    }

    fn replay(&mut self, offset: Offset, record: &MetadataRecord) -> Result<(), ReplayError> {
        if let MetadataRecord::RemoveTopic(record) = record {
            self.forget_collision(record.topic_id);
        }
        self.image.replay(offset, record)?;
        match record {
            MetadataRecord::Topic(record) => self.note_collision(&Arc::from(&record.name)),
            MetadataRecord::RegisterBroker(record) => {
                self.registered_at.insert(BrokerId(record.broker_id), offset);
            }
            MetadataRecord::UnregisterBroker(record) => {
                self.registered_at.remove(&BrokerId(record.broker_id));
                self.sessions.remove(BrokerId(record.broker_id));
            }
            MetadataRecord::AbortTransaction(_) => {
                self.collisions.clear();
                let names: Vec<_> = self.image.topics.keys().cloned().collect();
                names.iter().for_each(|name| self.note_collision(name));
            }
            _ => {}
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Duration> {
        let sessions = self.next_idle.and_then(|_| self.sessions.deadline());
        self.next_idle.into_iter().chain(sessions).min()
    }

    /// Fences one broker that has fallen silent, so that the next is judged by
    /// what that changed; writes the idle record when it is due.
    fn expire(&mut self, now: Now) -> Decision<MetadataRecord, Answer> {
        let mut records = Vec::new();
        if let Some(broker) = self.sessions.expired(now.monotonic) {
            self.sessions.remove(broker);
            if self.image.broker(broker).is_some_and(|broker| !broker.fenced) {
                records.extend(self.fence(broker));
            }
        }
        records.extend(self.idle(now));
        Decision { records, atomic: false, answers: Vec::new() }
    }
}

impl ControllerMachine {
    fn note_collision(&mut self, name: &Arc<str>) {
        if let Some(unified) = unify_collision_chars(name) {
            self.collisions.entry(unified).or_default().insert(Arc::clone(name));
        }
    }

    fn forget_collision(&mut self, id: crate::types::TopicId) {
        let Some(name) = self.image.topic_names.get(&id).cloned() else { return };
        let Some(unified) = unify_collision_chars(&name) else { return };
        if let Some(names) = self.collisions.get_mut(&unified) {
            names.remove(&name);
            if names.is_empty() {
                self.collisions.remove(&unified);
            }
        }
    }
}

/// The record that makes, or without a value takes away, a setting.
pub fn config_record(resource: &ConfigResource, key: &str, value: Option<&str>) -> MetadataRecord {
    ConfigRecord {
        resource_type: resource.kind.code(),
        resource_name: (&resource.name).into(),
        name: key.into(),
        value: value.map(Into::into),
        ..Default::default()
    }
    .into()
}

/// Refuses a request that would write more than one request may.
pub(super) fn check_size(records: &[MetadataRecord]) -> Result<(), ApiError> {
    check_count(records.len())
}

/// Refuses a request that names more than one request may write records for.
pub fn check_count(count: usize) -> Result<(), ApiError> {
    if count <= RECORDS_PER_REQUEST {
        return Ok(());
    }
    let text = "Unable to perform excessively large batch operation.";
    Err(ApiError::new(ErrorCode::PolicyViolation, text))
}
