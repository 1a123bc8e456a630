//! Settings of topics, brokers and other resources. `[P]`

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use super::command::{AlterSettings, Answer, ApiError, ReplaceSettings, SettingChange};
use super::machine::{ControllerMachine, MIN_INSYNC_REPLICAS, Written, check_size, config_record};
use super::topics::invalid_name;
use crate::cluster::records::{MetadataRecord, level};
use crate::cluster::{ConfigResource, ResourceType};
use crate::protocol::ErrorCode;
use crate::protocol::messages::clear_elr_record::ClearElrRecord;
use crate::types::BrokerId;

/// Bytes of a value, at most.
const MAX_VALUE_LENGTH: usize = 32_767;

const CORDONED_LOG_DIRS: &str = "cordoned.log.dirs";

/// A key and the value that it shall have; none for its default.
type NewValue = (String, Option<String>);

/// Keys and values of one resource.
type Map = BTreeMap<Arc<str>, Arc<str>>;

/// What is known about keys and their values. The table of all keys lies
/// elsewhere; the controller only asks it.
pub trait ConfigRules: Debug + Send + Sync + 'static {
    /// True when the key of this kind of resource holds a list, so that values
    /// can be appended and subtracted.
    fn is_list(&self, kind: ResourceType, key: &str) -> bool;

    /// What holds for the key when nothing is set, as text: the first value to
    /// append to.
    fn default_value(&self, kind: ResourceType, key: &str) -> Option<String>;

    /// Judges all the settings that a resource would have after a change:
    /// are the keys known, do the values parse, do they go together? `before`
    /// is what it has now. Refusals carry Kafka's code and text
    /// (`INVALID_CONFIG` for most).
    fn validate(
        &self,
        resource: &ConfigResource,
        settings: &BTreeMap<Arc<str>, Arc<str>>,
        before: &BTreeMap<Arc<str>, Arc<str>>,
    ) -> Result<(), ApiError>;
}

impl ControllerMachine {
    /// Changes settings, each resource for itself.
    pub(super) fn alter_settings(
        &mut self,
        changes: &[AlterSettings],
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        let each = changes
            .iter()
            .map(|change| (&change.resource, self.altered(&change.resource, &change.changes)));
        self.write_settings(each.collect(), validate_only)
    }

    /// Replaces settings, each resource for itself.
    pub(super) fn replace_settings(
        &mut self,
        settings: &[ReplaceSettings],
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        let each = settings.iter().map(|wanted| {
            let current = self.current(&wanted.resource);
            let mut new: Vec<_> = wanted
                .settings
                .iter()
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .collect();
            let given = |key: &str| wanted.settings.iter().any(|(name, _)| name == key);
            let gone = current.keys().filter(|key| !given(key));
            new.extend(gone.map(|key| (key.to_string(), None)));
            (&wanted.resource, Ok(new))
        });
        self.write_settings(each.collect(), validate_only)
    }

    /// The values that changes lead to; `None` takes a setting away.
    fn altered(
        &self,
        resource: &ConfigResource,
        changes: &[(String, SettingChange)],
    ) -> Result<Vec<NewValue>, ApiError> {
        let current = self.current(resource);
        let mut values = Vec::with_capacity(changes.len());
        for (key, change) in changes {
            let before = current.get(key.as_str()).map(|value| &**value);
            let value = match change {
                SettingChange::Set(value) => Some(value.clone()),
                SettingChange::Delete => None,
                SettingChange::Append(added) => {
                    // How long it may be is judged later.
                    let mut list = self.list(resource, key, before, "APPEND")?;
                    let mut known: HashSet<_> = list.iter().cloned().collect();
                    let new = added.split(',').filter(|value| known.insert((*value).to_owned()));
                    list.extend(new.map(str::to_owned));
                    Some(list.join(","))
                }
                SettingChange::Subtract(taken) => {
                    let mut list = self.list(resource, key, before, "SUBTRACT")?;
                    let mut times = HashMap::<_, usize>::new();
                    taken.split(',').for_each(|value| *times.entry(value).or_default() += 1);
                    list.retain(|value| match times.get_mut(value.as_str()) {
                        Some(left @ 1..) => {
                            *left -= 1;
                            false
                        }
                        _ => true,
                    });
                    Some(list.join(","))
                }
            };
            values.push((key.clone(), value));
        }
        Ok(values)
    }

    /// The values of a list setting, its default where none is set.
    fn list(
        &self,
        resource: &ConfigResource,
        key: &str,
        current: Option<&str>,
        operation: &str,
    ) -> Result<Vec<String>, ApiError> {
        if !self.rules.is_list(resource.kind, key) {
            let text = format!("Can't {operation} to key {key} because its type is not LIST.");
            return Err(ApiError::new(ErrorCode::InvalidConfig, text));
        }
        let value = match current {
            Some(value) => Some(value.to_owned()),
            None => self.rules.default_value(resource.kind, key),
        };
        let parts = value.unwrap_or_default();
        Ok(parts.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    fn write_settings(
        &self,
        each: Vec<(&ConfigResource, Result<Vec<NewValue>, ApiError>)>,
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        let mut records = Vec::new();
        let mut results = Vec::with_capacity(each.len());
        for (resource, values) in each {
            let written = values.and_then(|values| self.setting_records(resource, &values));
            results.push(written.map(|written| records.extend(written)));
        }
        self.clear_elr_where_needed(&mut records);
        check_size(&records)?;
        if validate_only {
            records.clear();
        }
        Ok(Written::atomic(records, Answer::Each(results)))
    }

    /// Judges what a resource's settings would be and gives the records that
    /// make them so. A broker's value is written again even if it is the same:
    /// that makes the broker load it again (KAFKA-14136).
    fn setting_records(
        &self,
        resource: &ConfigResource,
        values: &[NewValue],
    ) -> Result<Vec<MetadataRecord>, ApiError> {
        let before = self.current(resource);
        let mut after = before.clone();
        let mut records = Vec::new();
        for (key, value) in values {
            let same = before.get(key.as_str()).map(|value| &**value) == value.as_deref();
            if same && resource.kind != ResourceType::Broker {
                continue;
            }
            self.check_special(resource, key, value.as_deref())?;
            match value {
                Some(value) => {
                    after.insert(Arc::from(key.as_str()), Arc::from(value.as_str()));
                }
                None => {
                    after.remove(key.as_str());
                }
            }
            records.push(config_record(resource, key, value.as_deref()));
        }
        self.judge_settings(resource, &after, &before)?;
        self.check_exists(resource)?;
        Ok(records)
    }

    /// Judges the settings that a resource would have.
    pub(super) fn judge_settings(
        &self,
        resource: &ConfigResource,
        settings: &Map,
        before: &Map,
    ) -> Result<(), ApiError> {
        check_resource_name(resource)?;
        if let Some(key) = settings.iter().find(|(_, value)| value.len() > MAX_VALUE_LENGTH) {
            let known = before.get(key.0) == Some(key.1);
            if !known {
                return Err(value_too_long());
            }
        }
        self.rules.validate(resource, settings, before)
    }

    fn check_special(
        &self,
        resource: &ConfigResource,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), ApiError> {
        let refused = |text: String| Err(ApiError::new(ErrorCode::InvalidConfig, text));
        if resource.kind != ResourceType::Broker {
            return Ok(());
        }
        if key == MIN_INSYNC_REPLICAS && self.elr_enabled() {
            if !resource.name.is_empty() {
                return refused(format!(
                    "Broker-level {key} cannot be altered while ELR is enabled."
                ));
            }
            if value.is_none() {
                return refused(format!(
                    "Cluster-level {key} cannot be removed while ELR is enabled."
                ));
            }
        }
        if key == CORDONED_LOG_DIRS && self.image.metadata_version() < level::CORDONED_DIRECTORIES {
            return refused(format!(
                "The {key} configuration value cannot be set because it requires \
                 metadata.version >= 4.3-IV0"
            ));
        }
        Ok(())
    }

    fn check_exists(&self, resource: &ConfigResource) -> Result<(), ApiError> {
        match resource.kind {
            ResourceType::Topic if self.image.topic(&resource.name).is_none() => {
                let text = format!("The topic '{}' does not exist.", resource.name);
                Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, text))
            }
            ResourceType::Broker if !resource.name.is_empty() => {
                let id = resource.name.parse().map(BrokerId).map_err(|_| {
                    let text = format!("Invalid broker name {}", resource.name);
                    ApiError::new(ErrorCode::InvalidRequest, text)
                })?;
                let known = id == self.options.node_id
                    || self.image.brokers.contains_key(&id)
                    || self.image.controllers.contains_key(&id);
                if known {
                    return Ok(());
                }
                let text = format!("No node with id {id} found.");
                Err(ApiError::new(ErrorCode::BrokerIdNotRegistered, text))
            }
            _ => Ok(()),
        }
    }

    /// Eligible leader replicas rest on `min.insync.replicas`: when that
    /// changes they are forgotten (KIP-966).
    fn clear_elr_where_needed(&self, records: &mut Vec<MetadataRecord>) {
        if !self.elr_enabled() {
            return;
        }
        let cleared = |record: &MetadataRecord| match record {
            MetadataRecord::Config(record) if record.name == *MIN_INSYNC_REPLICAS => {
                let of_topic = record.resource_type == ResourceType::Topic.code();
                let topic_name =
                    if of_topic { record.resource_name.clone() } else { Default::default() };
                Some(ClearElrRecord { topic_name, ..Default::default() }.into())
            }
            _ => None,
        };
        let clear: Vec<_> = records.iter().filter_map(cleared).collect();
        records.extend(clear);
    }

    fn current(&self, resource: &ConfigResource) -> Map {
        self.image.settings(resource).map(|settings| (**settings).clone()).unwrap_or_default()
    }
}

fn value_too_long() -> ApiError {
    let text = format!(
        "The configuration value cannot be added because it exceeds the maximum value size of \
         {MAX_VALUE_LENGTH} bytes."
    );
    ApiError::new(ErrorCode::InvalidConfig, text)
}

fn check_resource_name(resource: &ConfigResource) -> Result<(), ApiError> {
    let refused = |text: &str| Err(ApiError::new(ErrorCode::InvalidRequest, text));
    let name = &*resource.name;
    match resource.kind {
        ResourceType::Topic if name.is_empty() => {
            refused("Default topic resources are not allowed.")
        }
        ResourceType::Topic => match invalid_name(name) {
            Some(reason) => {
                let text = format!("Topic name is invalid: {reason}");
                Err(ApiError::new(ErrorCode::InvalidTopicException, text))
            }
            None => Ok(()),
        },
        ResourceType::Broker if !name.is_empty() => match name.parse::<i32>() {
            Err(_) => refused("Unable to parse broker name as a base 10 number."),
            Ok(id) if id < 0 => refused("Invalid negative broker ID."),
            Ok(_) => Ok(()),
        },
        ResourceType::Group if name.is_empty() => {
            refused("Default group resources are not allowed.")
        }
        ResourceType::BrokerLogger => refused("Unknown resource type BROKER_LOGGER"),
        _ => Ok(()),
    }
}
