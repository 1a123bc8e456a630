//! Which settings of topics, brokers, groups and client metrics the controller accepts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Definition, FromValue, RuntimeConfig, Scope, Type, Value, table, topic};
use crate::cluster::{ConfigResource, ResourceType};
use crate::controller::{ApiError, ConfigRules};
use crate::protocol::ErrorCode;

/// The rules of the table, with the broker's own values behind them.
#[derive(Clone, Debug)]
pub struct Rules {
    config: RuntimeConfig,
}

type Settings = BTreeMap<Arc<str>, Arc<str>>;

impl Rules {
    /// Rules that know what the controller's node was given.
    pub fn new(config: RuntimeConfig) -> Self {
        Self { config }
    }
}

/// The scope of a resource's keys.
pub fn scope_of(kind: ResourceType) -> Option<Scope> {
    match kind {
        ResourceType::Topic => Some(Scope::Topic),
        ResourceType::Broker => Some(Scope::Broker),
        ResourceType::Group => Some(Scope::Group),
        ResourceType::ClientMetrics => Some(Scope::ClientMetrics),
        ResourceType::BrokerLogger => None,
    }
}

fn definition(kind: ResourceType, key: &str) -> Option<&'static Definition> {
    table().get(scope_of(kind)?, key)
}

impl ConfigRules for Rules {
    fn is_list(&self, kind: ResourceType, key: &str) -> bool {
        definition(kind, key).is_some_and(|key| key.kind == Type::List)
    }

    fn default_value(&self, kind: ResourceType, key: &str) -> Option<String> {
        let definition = definition(kind, key)?;
        let value = match kind {
            ResourceType::Topic => topic::broker_value(definition, &self.config.current()),
            _ => definition.default.clone(),
        };
        value.filter(|value| *value != Value::Null).map(|value| value.to_config_text())
    }

    fn validate(
        &self,
        resource: &ConfigResource,
        settings: &Settings,
        _before: &Settings,
    ) -> Result<(), ApiError> {
        match resource.kind {
            ResourceType::Topic => {
                if resource.name.is_empty() {
                    return request("Default topic resources are not allowed.");
                }
                self.topic(settings)
            }
            ResourceType::Broker => broker_name(&resource.name),
            ResourceType::Group => {
                if resource.name.is_empty() {
                    return request("Default group resources are not allowed.");
                }
                self.group(settings)
            }
            ResourceType::ClientMetrics => {
                if resource.name.is_empty() {
                    return request("Subscription name can't be empty");
                }
                client_metrics(settings)
            }
            ResourceType::BrokerLogger => request("Unknown resource type BROKER_LOGGER"),
        }
    }
}

fn request(message: impl Into<String>) -> Result<(), ApiError> {
    Err(ApiError::new(ErrorCode::InvalidRequest, message))
}

fn config(message: impl Into<String>) -> Result<(), ApiError> {
    Err(ApiError::new(ErrorCode::InvalidConfig, message))
}

fn broker_name(name: &str) -> Result<(), ApiError> {
    match name.parse::<i32>() {
        _ if name.is_empty() => Ok(()),
        Ok(id) if id < 0 => request("Invalid negative broker ID."),
        Ok(_) => Ok(()),
        Err(_) => request("Unable to parse broker name as a base 10 number."),
    }
}

/// All values, parsed; the first that is unknown or not accepted refuses.
fn parse(scope: Scope, kind: &str, settings: &Settings) -> Result<(), ApiError> {
    for name in settings.keys() {
        if table().get(scope, name).is_none() {
            return config(format!("Unknown {kind} config name: {name}"));
        }
    }
    for (name, text) in settings {
        if let Some(Err(invalid)) = table().get(scope, name).map(|key| key.parse(text)) {
            return config(invalid.message);
        }
    }
    Ok(())
}

impl Rules {
    fn topic(&self, settings: &Settings) -> Result<(), ApiError> {
        parse(Scope::Topic, "topic", settings)?;
        let broker = self.config.current();
        let number = |name| topic::get::<i64>(name, settings, &broker).unwrap_or(0);
        let (min, max) = (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"));
        if min > max {
            return config(format!(
                "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms \
                 ({max})"
            ));
        }
        // Refused whatever the broker says: no remote storage can be plugged in.
        if topic::get("remote.storage.enable", settings, &broker).unwrap_or(false) {
            return config(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured \
                 with remote log storage.",
            );
        }
        Ok(())
    }

    fn group(&self, settings: &Settings) -> Result<(), ApiError> {
        parse(Scope::Group, "group", settings)?;
        let broker = self.config.current();
        for (name, low, high) in GROUP_BOUNDS {
            let Some(value) = own::<i32>(Scope::Group, name, settings) else { continue };
            let bound =
                |key: &str| broker.lookup(key).and_then(|(_, value)| i32::from_value(value));
            match (bound(low), bound(high)) {
                (Some(low), Some(high)) if !(low..=high).contains(&value) => {
                    return config(format!(
                        "{name} must be in the range {low} to {high} inclusive."
                    ));
                }
                (Some(low), None) if value < low => {
                    return config(format!("{name} must be greater than or equal to {low}"));
                }
                (None, Some(high)) if value > high => {
                    return config(format!("{name} must be less than or equal to {high}"));
                }
                _ => {}
            }
        }
        if let Some(chosen) = own::<String>(Scope::Group, "streams.assignor.name", settings) {
            let registered = broker.lookup("group.streams.assignors").map(|(_, value)| value);
            let registered = registered.and_then(Vec::<String>::from_value).unwrap_or_default();
            if !registered.contains(&chosen) {
                return config(format!(
                    "streams.assignor.name '{chosen}' is not a registered task assignor. Registered \
                     assignors are: [{}].",
                    registered.join(", ")
                ));
            }
        }
        for (session, heartbeat, session_default, heartbeat_default) in SESSIONS {
            let value = |name, default: &str| {
                own::<i32>(Scope::Group, name, settings).unwrap_or_else(|| {
                    broker.lookup(default).and_then(|(_, v)| i32::from_value(v)).unwrap_or(0)
                })
            };
            let is_set = settings.contains_key(session) || settings.contains_key(heartbeat);
            if is_set && value(session, session_default) <= value(heartbeat, heartbeat_default) {
                return config(format!("{session} must be greater than {heartbeat}"));
            }
        }
        let dead_letters =
            own::<String>(Scope::Group, "errors.deadletterqueue.topic.name", settings);
        if dead_letters.is_some_and(|name| name.starts_with("__")) {
            return config(
                "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
            );
        }
        Ok(())
    }
}

/// A value that the resource itself has.
fn own<T: FromValue>(scope: Scope, name: &str, settings: &Settings) -> Option<T> {
    T::from_value(&table().get(scope, name)?.parse(settings.get(name)?).ok()?)
}

/// A group's key, and the broker's keys that bound it.
const GROUP_BOUNDS: [(&str, &str, &str); 15] = [
    (
        "consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    (
        "consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    (
        "consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    (
        "share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    (
        "share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    (
        "share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    (
        "share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    (
        "share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    (
        "share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    (
        "streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    (
        "streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    (
        "streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
    ("streams.num.standby.replicas", "", "group.streams.max.standby.replicas"),
    ("streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"),
    ("streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""),
];

/// A group's session timeout and heartbeat interval, and the broker's keys for both.
const SESSIONS: [(&str, &str, &str, &str); 3] = [
    (
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.heartbeat.interval.ms",
    ),
    (
        "share.session.timeout.ms",
        "share.heartbeat.interval.ms",
        "group.share.session.timeout.ms",
        "group.share.heartbeat.interval.ms",
    ),
    (
        "streams.session.timeout.ms",
        "streams.heartbeat.interval.ms",
        "group.streams.session.timeout.ms",
        "group.streams.heartbeat.interval.ms",
    ),
];

fn client_metrics(settings: &Settings) -> Result<(), ApiError> {
    for name in settings.keys() {
        if table().get(Scope::ClientMetrics, name).is_none() {
            return request(format!("Unknown client metrics configuration: {name}"));
        }
    }
    parse(Scope::ClientMetrics, "client metrics", settings)?;
    if let Some(interval) = own::<i32>(Scope::ClientMetrics, "interval.ms", settings)
        && !(100..=3_600_000).contains(&interval)
    {
        return request(format!(
            "Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 \
             hour)"
        ));
    }
    let patterns = own::<Vec<String>>(Scope::ClientMetrics, "match", settings).unwrap_or_default();
    match patterns.iter().find(|pattern| !is_match(pattern)) {
        Some(pattern) => config(format!("Illegal client matching pattern: {pattern}")),
        None => Ok(()),
    }
}

/// `parameter=regular expression`, the parameter one of those that clients tell.
fn is_match(pattern: &str) -> bool {
    const PARAMETERS: [&str; 6] = [
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    ];
    let mut parts = pattern.split('=');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(value), None) => PARAMETERS.contains(&name.trim()) && !value.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn check(resource: &ConfigResource, settings: &[(&str, &str)]) -> Result<(), (i16, String)> {
        let rules = Rules::new(RuntimeConfig::new(Config::from_overrides(&[]).unwrap()));
        let settings =
            settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        rules
            .validate(resource, &settings, &BTreeMap::new())
            .map_err(|error| (error.code.code(), error.message.unwrap_or_default()))
    }

    #[test]
    fn topics() {
        let topic = ConfigResource::topic("t");
        assert_eq!(check(&topic, &[("retention.ms", "-1"), ("cleanup.policy", "")]), Ok(()));
        for (key, value, code, text) in [
            ("retention.m", "1", 40, "Unknown topic config name: retention.m"),
            (
                "retention.ms",
                "x",
                40,
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "segment.bytes",
                "1",
                40,
                "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
            ),
            ("max.compaction.lag.ms", "0", 40, "Value must be at least 1"),
            ("remote.storage.enable", "true", 40, "Tiered Storage functionality is disabled"),
        ] {
            let (got, message) = check(&topic, &[(key, value)]).unwrap_err();
            assert_eq!(got, code);
            assert!(message.contains(text), "{message}");
        }
        let both = [("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")];
        assert!(check(&topic, &both).unwrap_err().1.starts_with("conflict topic config setting"));
        assert_eq!(check(&ConfigResource::topic(""), &[]).unwrap_err().0, 42);
    }

    #[test]
    fn brokers_groups_and_client_metrics() {
        let of = |kind, name: &str| ConfigResource::new(kind, name);
        assert_eq!(check(&of(ResourceType::Broker, "1"), &[]), Ok(()));
        assert_eq!(check(&of(ResourceType::Broker, "-1"), &[]).unwrap_err().0, 42);
        assert_eq!(check(&of(ResourceType::Broker, "one"), &[]).unwrap_err().0, 42);
        let group = of(ResourceType::Group, "g");
        assert_eq!(check(&group, &[("consumer.session.timeout.ms", "50000")]), Ok(()));
        for (key, value, text) in [
            (
                "consumer.session.timeout.ms",
                "1",
                "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
            ),
            (
                "streams.num.standby.replicas",
                "9",
                "streams.num.standby.replicas must be less than or equal to 2",
            ),
            (
                "streams.task.offset.interval.ms",
                "1",
                "streams.task.offset.interval.ms must be greater than or equal to 15000",
            ),
            (
                "streams.assignor.name",
                "mine",
                "streams.assignor.name 'mine' is not a registered task assignor. Registered \
                 assignors are: [sticky].",
            ),
        ] {
            assert_eq!(check(&group, &[(key, value)]), Err((40, text.to_owned())));
        }
        assert_eq!(check(&group, &[("streams.assignor.name", "sticky")]), Ok(()));
        let metrics = of(ResourceType::ClientMetrics, "m");
        assert_eq!(check(&metrics, &[("match", "client_id=a.*")]), Ok(()));
        assert_eq!(check(&metrics, &[("match", "colour=red")]).unwrap_err().0, 40);
        assert_eq!(check(&metrics, &[("interval.ms", "1")]).unwrap_err().0, 42);
        assert_eq!(check(&metrics, &[("other", "1")]).unwrap_err().0, 42);
    }

    #[test]
    fn lists_and_their_first_values() {
        let rules = Rules::new(RuntimeConfig::new(Config::from_overrides(&[]).unwrap()));
        assert!(rules.is_list(ResourceType::Topic, "cleanup.policy"));
        assert!(!rules.is_list(ResourceType::Topic, "retention.ms"));
        assert!(!rules.is_list(ResourceType::Topic, "no.such.key"));
        let first = rules.default_value(ResourceType::Topic, "cleanup.policy");
        assert_eq!(first.as_deref(), Some("delete"));
    }
}
