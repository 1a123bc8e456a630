//! Topics: create, delete, grow. `[P]`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::{
    Answer, ApiError, CreatePartitions, CreateTopic, CreatedTopic, DeletedTopic, TopicRef,
};
use super::machine::{ControllerMachine, Written, check_count, check_size};
use super::placement::{UsableBroker, place};
use crate::cluster::records::MetadataRecord;
use crate::cluster::{ConfigResource, PartitionRegistration, Topic, directory};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    remove_topic_record::RemoveTopicRecord, topic_record::TopicRecord,
};
use crate::types::{BrokerId, DirectoryId, LeaderEpoch};

/// Partitions that one request may create, at most.
const PARTITIONS_PER_REQUEST: i64 = 10_000;

/// Characters of a topic's name, at most.
const MAX_NAME_LENGTH: usize = 249;

const ALL_FENCED: &str = "All brokers are currently fenced or in controlled shutdown.";

impl ControllerMachine {
    /// Creates topics, each for itself: some may fail while others succeed.
    pub(super) fn create_topics(
        &mut self,
        topics: &[CreateTopic],
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        self.check_partition_count(topics)?;
        let mut records = Vec::new();
        let mut seen = BTreeMap::<&str, usize>::new();
        for topic in topics {
            *seen.entry(&topic.name).or_default() += 1;
        }
        let mut results = Vec::with_capacity(topics.len());
        for topic in topics {
            let result = if seen.get(topic.name.as_str()).is_some_and(|count| *count > 1) {
                Err(ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
            } else {
                self.create_topic(topic, &mut records)
            };
            results.push(result);
        }
        check_size(&records)?;
        if validate_only {
            records.clear();
        }
        Ok(Written::atomic(records, Answer::CreatedTopics(results)))
    }

    fn create_topic(
        &self,
        topic: &CreateTopic,
        records: &mut Vec<MetadataRecord>,
    ) -> Result<CreatedTopic, ApiError> {
        self.check_new_name(&topic.name)?;
        let settings = self.new_settings(topic)?;
        let partitions = self.new_partitions(topic)?;
        let name: Arc<str> = Arc::from(topic.name.as_str());
        let id = self.dice.uuid();
        let record = TopicRecord { name: (&name).into(), topic_id: id, ..Default::default() };
        records.push(record.into());
        let resource = ConfigResource::topic(Arc::clone(&name));
        for (key, value) in &settings {
            records.push(super::machine::config_record(&resource, key, Some(value)));
        }
        let metadata_version = self.image.metadata_version();
        for (number, partition) in (0..).zip(&partitions) {
            records.push(partition.to_record(id, number, metadata_version).into());
        }
        let replicas = partitions.first().map_or(0, |partition| partition.replicas.len());
        Ok(CreatedTopic {
            name,
            id,
            partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(replicas).unwrap_or(i16::MAX),
            settings,
        })
    }

    fn check_new_name(&self, name: &str) -> Result<(), ApiError> {
        let invalid = |text| ApiError::new(ErrorCode::InvalidTopicException, text);
        // Kafka lets the later of its findings stand; none can meet another.
        if let Some(reason) = invalid_name(name) {
            return Err(invalid(format!("Topic name is invalid: {reason}")));
        }
        if self.image.topic(name).is_some() {
            let text = format!("Topic '{name}' already exists.");
            return Err(ApiError::new(ErrorCode::TopicAlreadyExists, text));
        }
        let colliding = unify_collision_chars(name)
            .and_then(|unified| self.collisions.get(&unified)?.first().cloned());
        match colliding {
            Some(other) => {
                Err(invalid(format!("Topic '{name}' collides with existing topic: {other}")))
            }
            None => Ok(()),
        }
    }

    fn new_settings(&self, topic: &CreateTopic) -> Result<BTreeMap<Arc<str>, Arc<str>>, ApiError> {
        let missing = topic.settings.iter().filter(|(_, value)| value.is_none());
        let missing: Vec<_> = missing.map(|(key, _)| key.as_str()).collect();
        if !missing.is_empty() {
            let text = format!("Null value not supported for topic configs: {}", missing.join(","));
            return Err(ApiError::new(ErrorCode::InvalidConfig, text));
        }
        let given = topic.settings.iter().filter_map(|(key, value)| {
            Some((Arc::from(key.as_str()), Arc::from(value.as_deref()?)))
        });
        let settings: BTreeMap<_, _> = given.collect();
        if !settings.is_empty() {
            let resource = ConfigResource::topic(topic.name.as_str());
            self.judge_settings(&resource, &settings, &BTreeMap::new())?;
        }
        Ok(settings)
    }

    fn new_partitions(&self, topic: &CreateTopic) -> Result<Vec<PartitionRegistration>, ApiError> {
        if !topic.assignments.is_empty() {
            return self.assigned_partitions(topic);
        }
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            let text = "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err(ApiError::new(ErrorCode::InvalidReplicationFactor, text));
        }
        if topic.partitions < -1 || topic.partitions == 0 {
            let text = "Number of partitions was set to an invalid non-positive value.";
            return Err(ApiError::new(ErrorCode::InvalidPartitions, text));
        }
        let count = self.partition_count(topic);
        let replication_factor = if topic.replication_factor == -1 {
            self.options.default_replication_factor
        } else {
            topic.replication_factor
        };
        self.placed_partitions(usize::try_from(count).unwrap_or(0), replication_factor).map_err(
            |error| {
                let reason = error.message.unwrap_or_default();
                let text = format!(
                    "Unable to replicate the partition {replication_factor} time(s): {reason}"
                );
                ApiError::new(error.code, text)
            },
        )
    }

    fn partition_count(&self, topic: &CreateTopic) -> i64 {
        if !topic.assignments.is_empty() {
            return i64::try_from(topic.assignments.len()).unwrap_or(i64::MAX);
        }
        match topic.partitions {
            -1 => i64::from(self.options.num_partitions),
            count => i64::from(count.max(0)),
        }
    }

    /// Refuses before anything large is built.
    fn check_partition_count(&self, topics: &[CreateTopic]) -> Result<(), ApiError> {
        let counts = topics.iter().map(|topic| self.partition_count(topic));
        if counts.fold(0_i64, i64::saturating_add) <= PARTITIONS_PER_REQUEST {
            return Ok(());
        }
        let text = "Excessively large number of partitions per request.";
        Err(ApiError::new(ErrorCode::PolicyViolation, text))
    }

    /// Partitions with replicas of our choice.
    fn placed_partitions(
        &self,
        count: usize,
        replication_factor: i16,
    ) -> Result<Vec<PartitionRegistration>, ApiError> {
        let refused = |text: String| ApiError::new(ErrorCode::InvalidReplicationFactor, text);
        let placed = place(&self.dice, &self.usable_brokers(), count, replication_factor)
            .map_err(|error| refused(error.to_string()))?;
        let registered = placed.into_iter().map(|replicas| self.new_partition(replicas));
        registered.collect::<Option<_>>().ok_or_else(|| refused(ALL_FENCED.into()))
    }

    /// Partitions with replicas that the request chose.
    fn assigned_partitions(
        &self,
        topic: &CreateTopic,
    ) -> Result<Vec<PartitionRegistration>, ApiError> {
        let ambiguous = |what| {
            let text = format!(
                "A manual partition assignment was specified, but {what} was not set to -1."
            );
            ApiError::new(ErrorCode::InvalidRequest, text)
        };
        if topic.replication_factor != -1 {
            return Err(ambiguous("replication factor"));
        }
        if topic.partitions != -1 {
            return Err(ambiguous("numPartitions"));
        }
        let refused = |text: String| ApiError::new(ErrorCode::InvalidReplicaAssignment, text);
        let mut partitions = BTreeMap::new();
        let mut replication_factor = None;
        for (number, replicas) in &topic.assignments {
            if partitions.contains_key(number) {
                return Err(refused(format!(
                    "Found multiple manual partition assignments for partition {number}"
                )));
            }
            self.check_assignment(replicas, replication_factor)?;
            replication_factor = Some(replicas.len());
            partitions.insert(*number, self.assigned_partition(*number, replicas)?);
        }
        if partitions.keys().zip(0..).any(|(number, expected)| *number != expected) {
            let text = "partitions should be a consecutive 0-based integer sequence";
            return Err(refused(text.into()));
        }
        Ok(partitions.into_values().collect())
    }

    fn assigned_partition(
        &self,
        number: i32,
        replicas: &[BrokerId],
    ) -> Result<PartitionRegistration, ApiError> {
        self.new_partition(replicas.to_vec()).ok_or_else(|| {
            let text = format!(
                "All brokers specified in the manual partition assignment for partition {number} \
                 are fenced or in controlled shutdown."
            );
            ApiError::new(ErrorCode::InvalidReplicaAssignment, text)
        })
    }

    /// Refuses replicas that no partition can have.
    pub(super) fn check_assignment(
        &self,
        replicas: &[BrokerId],
        replication_factor: Option<usize>,
    ) -> Result<(), ApiError> {
        let refused = |text: String| {
            Err(ApiError::new(
                ErrorCode::InvalidReplicaAssignment,
                format!("The manual partition assignment includes {text}"),
            ))
        };
        if replicas.is_empty() {
            return refused("an empty replica list.".into());
        }
        let mut sorted = replicas.to_vec();
        sorted.sort_unstable();
        let mut before = None;
        for id in sorted {
            let Some(broker) = self.image.broker(id) else {
                return refused(format!("broker {id}, but no such broker is registered."));
            };
            if broker.is_cordoned() {
                return refused(format!("broker {id}, but all its log directories are cordoned."));
            }
            if before == Some(id) {
                return refused(format!("the broker {id} more than once."));
            }
            before = Some(id);
        }
        let count = replicas.len();
        match replication_factor {
            Some(expected) if expected != count => refused(format!(
                "a partition with {count} replica(s), but this is not consistent with previous \
                 partitions, which have {expected} replica(s)."
            )),
            _ => Ok(()),
        }
    }

    /// A new partition on these replicas; `None` when none of them may lead.
    fn new_partition(&self, replicas: Vec<BrokerId>) -> Option<PartitionRegistration> {
        let active = |id: &&BrokerId| self.image.broker(**id).is_some_and(|b| b.is_active());
        let isr: Vec<_> = replicas.iter().filter(active).copied().collect();
        Some(PartitionRegistration {
            directories: replicas.iter().map(|id| self.default_directory(*id)).collect(),
            leader: Some(*isr.first()?),
            replicas,
            isr,
            leader_epoch: LeaderEpoch(0),
            ..PartitionRegistration::default()
        })
    }

    /// Where a broker will put a new replica: certain when it has one directory.
    pub(super) fn default_directory(&self, broker: BrokerId) -> DirectoryId {
        match self.image.broker(broker).map(|broker| broker.directories.as_slice()) {
            Some([]) => directory::MIGRATING,
            Some([only]) => *only,
            _ => directory::UNASSIGNED,
        }
    }

    fn usable_brokers(&self) -> Vec<UsableBroker> {
        let usable = self
            .image
            .brokers
            .values()
            .filter(|broker| !broker.in_controlled_shutdown && !broker.is_cordoned());
        let broker = usable.map(|broker| UsableBroker {
            id: broker.id,
            rack: broker.rack.clone(),
            fenced: broker.fenced,
        });
        broker.collect()
    }

    /// Deletes topics, each for itself.
    pub(super) fn delete_topics(&mut self, topics: &[TopicRef]) -> Result<Written, ApiError> {
        let mut records = Vec::new();
        let mut deleted = BTreeSet::new();
        let mut results = Vec::with_capacity(topics.len());
        for topic in topics {
            results.push(self.find_topic(topic).and_then(|topic| {
                if !deleted.insert(topic.id) {
                    let text = "Duplicate topic name.";
                    return Err(ApiError::new(ErrorCode::InvalidRequest, text));
                }
                let record = RemoveTopicRecord { topic_id: topic.id, ..Default::default() };
                records.push(record.into());
                Ok(DeletedTopic { name: Arc::clone(&topic.name), id: topic.id })
            }));
        }
        check_size(&records)?;
        Ok(Written::atomic(records, Answer::DeletedTopics(results)))
    }

    fn find_topic(&self, topic: &TopicRef) -> Result<&Arc<Topic>, ApiError> {
        match topic {
            TopicRef::Name(name) => self.image.topic(name).ok_or_else(|| {
                let text = "This server does not host this topic-partition.";
                ApiError::new(ErrorCode::UnknownTopicOrPartition, text)
            }),
            TopicRef::Id(id) => self.image.topic_by_id(*id).ok_or_else(|| {
                let text = "This server does not host this topic ID.";
                ApiError::new(ErrorCode::UnknownTopicId, text)
            }),
        }
    }

    /// Gives topics more partitions, each for itself.
    pub(super) fn create_partitions(
        &mut self,
        topics: &[CreatePartitions],
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        self.check_additional_count(topics)?;
        let mut records = Vec::new();
        let grow = |topic| self.grow_topic(topic, &mut records);
        let results = topics.iter().map(grow).collect();
        check_size(&records)?;
        if validate_only {
            records.clear();
        }
        Ok(Written::atomic(records, Answer::Each(results)))
    }

    /// Refuses before anything large is built.
    fn check_additional_count(&self, topics: &[CreatePartitions]) -> Result<(), ApiError> {
        let additional = |request: &CreatePartitions| {
            let topic = self.image.topic(&request.topic)?;
            additional_partitions(request, topic).ok()
        };
        check_count(topics.iter().filter_map(additional).fold(0, usize::saturating_add))
    }

    fn grow_topic(
        &self,
        request: &CreatePartitions,
        records: &mut Vec<MetadataRecord>,
    ) -> Result<(), ApiError> {
        let topic = self.image.topic(&request.topic);
        let topic = topic.ok_or_else(|| ApiError::bare(ErrorCode::UnknownTopicOrPartition))?;
        let additional = additional_partitions(request, topic)?;
        let first = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let replicas = topic.partitions.first().map_or(0, |partition| partition.replicas.len());
        let partitions = match &request.assignments {
            None => {
                self.placed_partitions(additional, i16::try_from(replicas).unwrap_or(i16::MAX))?
            }
            Some(assignments) => {
                let assigned = (first..).zip(assignments).map(|(number, brokers)| {
                    self.check_assignment(brokers, Some(replicas))?;
                    self.assigned_partition(number, brokers)
                });
                assigned.collect::<Result<_, _>>()?
            }
        };
        let metadata_version = self.image.metadata_version();
        let numbered = (first..).zip(&partitions);
        records.extend(numbered.map(|(number, partition)| {
            partition.to_record(topic.id, number, metadata_version).into()
        }));
        Ok(())
    }
}

/// How many partitions are to be added.
fn additional_partitions(request: &CreatePartitions, topic: &Topic) -> Result<usize, ApiError> {
    let has = topic.partitions.len();
    let wanted = usize::try_from(request.count).unwrap_or(0);
    let refused = |text| Err(ApiError::new(ErrorCode::InvalidPartitions, text));
    if wanted == has {
        return refused(format!("Topic already has {has} partition(s)."));
    }
    let Some(additional) = wanted.checked_sub(has) else {
        return refused(format!(
            "The topic {} currently has {has} partition(s); {} would not be an increase.",
            request.topic, request.count
        ));
    };
    if i64::try_from(additional).is_ok_and(|count| count > PARTITIONS_PER_REQUEST) {
        let text = "Unable to perform excessively large batch operation.";
        return Err(ApiError::new(ErrorCode::PolicyViolation, text));
    }
    match &request.assignments {
        Some(assignments) if assignments.len() != additional => {
            let text = format!(
                "Attempted to add {additional} additional partition(s), but only {} assignment(s) \
                 were specified.",
                assignments.len()
            );
            Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, text))
        }
        _ => Ok(additional),
    }
}

/// Why this is no name for a topic, as Kafka words it.
pub fn invalid_name(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "" => Some("the empty string is not allowed".into()),
        "." | ".." => Some(format!("'{name}' is not allowed")),
        // Kafka counts as Java does, in UTF-16.
        _ if name.encode_utf16().count() > MAX_NAME_LENGTH => Some(format!(
            "the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )),
        _ if !name.chars().all(allowed) => Some(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' \
             and '-'"
        )),
        _ => None,
    }
}

/// The name with every `.` made `_`, for names that hold either.
pub(super) fn unify_collision_chars(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}
