//! What a broker itself refuses of changed settings, before the controller is asked. `[P]`
//!
//! Changes to a broker's settings are checked here, since only the broker knows
//! what it was started with; the controller checks all the others.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::cluster::ResourceType;
use crate::config::{Config, ConfigError, Scope, Type, UpdateMode, Value, table};
use crate::controller::{ApiError, SettingChange};
use crate::protocol::ErrorCode;
use crate::types::BrokerId;

fn refuse<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::new(ErrorCode::InvalidRequest, text))
}

/// The refusal of a resource that stands in the request more than once.
pub fn named_twice() -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, "Each resource must appear at most once.")
}

/// Checks the keys of one resource: each once, none without value.
pub fn check_keys<'a>(keys: impl Iterator<Item = (&'a str, bool)> + Clone) -> Result<(), ApiError> {
    let mut seen = HashSet::new();
    if keys.clone().any(|(key, _)| !seen.insert(key)) {
        return refuse("Error due to duplicate config keys");
    }
    let missing: Vec<_> = keys.filter(|(_, has_value)| !has_value).map(|(key, _)| key).collect();
    if !missing.is_empty() {
        return refuse(format!("Null value not supported for : {}", missing.join(", ")));
    }
    Ok(())
}

/// Which kind of resource it is, if its settings are kept by the controller.
pub fn kept_by_controller(code: i8) -> Result<ResourceType, ApiError> {
    match ResourceType::from_code(code) {
        Some(ResourceType::BrokerLogger) | None => refuse(format!("Unknown resource type {code}")),
        Some(kind) => Ok(kind),
    }
}

/// A broker takes changes for itself and for all, not for another.
pub fn check_broker_name(name: &str, here: BrokerId) -> Result<(), ApiError> {
    match name.parse::<i32>() {
        _ if name.is_empty() => Ok(()),
        Ok(id) if id == here.0 => Ok(()),
        Ok(_) => refuse(format!("Unexpected broker id, expected {here}, but received {name}")),
        Err(_) => refuse(format!("Node id must be an integer, but it is: {name}")),
    }
}

/// What a broker resource would have after some changes.
pub fn after_changes(
    before: &BTreeMap<Arc<str>, Arc<str>>,
    changes: &[(String, SettingChange)],
) -> Result<BTreeMap<Arc<str>, Arc<str>>, ApiError> {
    let mut after = before.clone();
    for (key, change) in changes {
        let value = match change {
            SettingChange::Delete => {
                after.remove(key.as_str());
                continue;
            }
            SettingChange::Set(value) => value.clone(),
            SettingChange::Append(value) => {
                let mut all = list_of(key, &after, "append")?;
                let more = value.split(',').filter(|v| !all.iter().any(|old| old == v));
                let more: Vec<_> = more.map(str::to_owned).collect();
                all.extend(more);
                all.join(",")
            }
            SettingChange::Subtract(value) => {
                let mut all = list_of(key, &after, "subtract")?;
                all.retain(|old| !value.split(',').any(|v| v == old));
                all.join(",")
            }
        };
        after.insert(key.as_str().into(), value.into());
    }
    Ok(after)
}

fn list_of(
    key: &str,
    settings: &BTreeMap<Arc<str>, Arc<str>>,
    verb: &str,
) -> Result<Vec<String>, ApiError> {
    let invalid = |text| ApiError::new(ErrorCode::InvalidConfig, text);
    let definition = table()
        .get(Scope::Broker, key)
        .ok_or_else(|| invalid(format!("Unknown config name: {key}")))?;
    if definition.kind != Type::List {
        let text = format!("Config value {verb} is not allowed for config key: {key}");
        return Err(invalid(text));
    }
    let default = || definition.default.as_ref().map(Value::to_config_text).unwrap_or_default();
    let now = settings.get(key).map_or_else(default, |text| text.to_string());
    Ok(now.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect())
}

/// Checks what a broker (or all brokers) would have dynamically (KIP-226).
pub fn check_dynamic(
    settings: &BTreeMap<Arc<str>, Arc<str>>,
    is_default_of_all: bool,
    config: &Config,
) -> Result<(), ApiError> {
    let names = |keep: &dyn Fn(&str) -> bool| -> Vec<&str> {
        settings.keys().map(|name| &**name).filter(|name| keep(name)).collect()
    };
    refuse_names("Cannot update these configs dynamically", &names(&is_read_only))?;
    let secret = "These security configs can be dynamically updated only per-listener using the \
                  listener prefix";
    refuse_names(secret, &names(&is_store))?;
    for (name, text) in settings {
        let base = base_name(name);
        if let Some(Err(invalid)) = table().get(Scope::Broker, base).map(|key| key.parse(text)) {
            return refuse(invalid.message);
        }
    }
    if is_default_of_all {
        let single = "Cannot update these configs at default cluster level, broker id must be \
                      specified";
        refuse_names(single, &names(&is_per_broker))?;
    }
    refuse_names("Addresses of a running broker cannot be changed here", &names(&is_address))?;
    // Kafka's words, down to how its language names what went wrong.
    match config.check_dynamic(settings, is_default_of_all) {
        Err(ConfigError::Conflict(text)) => return refuse(format!("requirement failed: {text}")),
        Err(other) => return refuse(other.to_string()),
        Ok(()) => {}
    }
    for (name, text) in settings {
        if let Some(problem) = thread_count_problem(name, text, config) {
            return refuse(format!(
                "Invalid value org.apache.kafka.common.config.ConfigException: {problem} for \
                 configuration Invalid dynamic configuration"
            ));
        }
    }
    Ok(())
}

fn refuse_names(text: &str, names: &[&str]) -> Result<(), ApiError> {
    if names.is_empty() { Ok(()) } else { refuse(format!("{text}: [{}]", names.join(", "))) }
}

/// The key behind `listener.name.<listener>.`
pub fn base_name(name: &str) -> &str {
    let listener_key = name.strip_prefix("listener.name.").and_then(|rest| rest.split_once('.'));
    listener_key.map_or(name, |(_, base)| base)
}

fn is_read_only(name: &str) -> bool {
    let key = table().get(Scope::Broker, name);
    key.is_some_and(|key| key.update == UpdateMode::ReadOnly)
}

/// Key and trust stores belong to listeners.
fn is_store(name: &str) -> bool {
    matches!(
        name,
        "ssl.keystore.type"
            | "ssl.keystore.location"
            | "ssl.keystore.password"
            | "ssl.key.password"
            | "ssl.keystore.key"
            | "ssl.keystore.certificate.chain"
            | "ssl.truststore.type"
            | "ssl.truststore.location"
            | "ssl.truststore.password"
            | "ssl.truststore.certificates"
    )
}

fn is_per_broker(name: &str) -> bool {
    let base = base_name(name);
    let of_table = |name| {
        table().get(Scope::Broker, name).is_some_and(|key| key.update == UpdateMode::PerBroker)
    };
    if base == name {
        return of_table(name);
    }
    !matches!(base, "max.connections" | "max.connection.creation.rate" | "num.network.threads")
}

fn is_address(name: &str) -> bool {
    matches!(name, "listeners" | "listener.security.protocol.map")
}

/// Pools of threads at most double and at most halve in one step.
fn thread_count_problem(name: &str, text: &str, config: &Config) -> Option<String> {
    const POOLS: [&str; 9] = [
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "num.recovery.threads.per.data.dir",
        "background.threads",
        "remote.log.reader.threads",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
    ];
    const CLEANERS: &str = "log.cleaner.threads";
    let (Ok(new), Some((_, Value::Int(now)))) = (text.trim().parse::<i32>(), config.lookup(name))
    else {
        return None;
    };
    let (few, many) = (new < now / 2, new > now.saturating_mul(2));
    if name == CLEANERS {
        let how = match (few, many) {
            (true, _) => "reduced to less than half",
            (_, true) => "increased to more than double",
            _ => return None,
        };
        return Some(format!("Log cleaner threads cannot be {how} the current value {now}"));
    }
    let problem = match (POOLS.contains(&name), new < 1, few, many) {
        (false, ..) | (true, false, false, false) => return None,
        (_, true, ..) => "value should be at least 1".to_owned(),
        (_, _, true, _) => format!("value should be at least half the current value {now}"),
        _ => format!("value should not be greater than double the current value {now}"),
    };
    Some(format!("Dynamic thread count update validation failed for {name}={new}, {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Arc<str>> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn text(result: Result<(), ApiError>) -> String {
        result.err().and_then(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn what_a_broker_may_not_change_at_run_time_is_refused() {
        let config = Config::from_overrides(&[]).unwrap();
        let check =
            |pairs: &[(&str, &str)], all| text(check_dynamic(&settings(pairs), all, &config));
        assert_eq!(check(&[("log.retention.ms", "5"), ("my.own", "1")], true), "");
        assert_eq!(
            check(&[("num.partitions", "5")], false),
            "Cannot update these configs dynamically: [num.partitions]"
        );
        let rate = "replica.alter.log.dirs.io.max.bytes.per.second";
        assert_eq!(check(&[(rate, "5")], true), "");
        assert!(check(&[(rate, "-1")], false).ends_with("Value must be at least 0"));
        assert!(check(&[("ssl.keystore.location", "/x")], false).contains("per-listener"));
        assert!(check(&[("log.segment.bytes", "1")], true).contains("at least 1048576"));
        assert!(
            check(&[("ssl.client.auth", "none")], true).contains("broker id must be specified")
        );
        assert!(check(&[("listeners", "PLAINTEXT://:1")], false).contains("Addresses"));
        assert!(check(&[("num.io.threads", "17")], false).contains("double the current value 8"));
        assert!(check(&[("num.io.threads", "3")], false).contains("half the current value 8"));
        assert_eq!(
            check(&[("log.cleaner.threads", "5")], true),
            "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads \
             cannot be increased to more than double the current value 1 for configuration Invalid \
             dynamic configuration"
        );
        assert_eq!(
            check(&[("log.cleaner.dedupe.buffer.size", "100")], true),
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner \
             thread."
        );
        assert_eq!(
            check(&[("cordoned.log.dirs", "/nowhere")], false),
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or \
             log.dir. Missing entries : /nowhere"
        );
    }

    #[test]
    fn keys_are_named_once_and_have_values() {
        assert!(text(check_keys([("a", true), ("a", true)].into_iter())).contains("duplicate"));
        assert_eq!(
            text(check_keys([("a", false), ("b", true), ("c", false)].into_iter())),
            "Null value not supported for : a, c"
        );
    }

    #[test]
    fn brokers_take_changes_for_themselves_and_for_all() {
        assert_eq!(check_broker_name("", BrokerId(1)), Ok(()));
        assert_eq!(check_broker_name("1", BrokerId(1)), Ok(()));
        assert!(check_broker_name("2", BrokerId(1)).is_err());
        assert!(check_broker_name("x", BrokerId(1)).is_err());
    }

    #[test]
    fn lists_grow_and_shrink() {
        let change = |change| vec![("log.cleanup.policy".to_owned(), change)];
        let append = change(SettingChange::Append("compact,delete".into()));
        let after = after_changes(&BTreeMap::new(), &append).unwrap();
        assert_eq!(&*after["log.cleanup.policy"], "delete,compact");
        let subtract = change(SettingChange::Subtract("delete".into()));
        let after = after_changes(&after, &subtract).unwrap();
        assert_eq!(&*after["log.cleanup.policy"], "compact");
        let no_list = vec![("log.retention.ms".to_owned(), SettingChange::Append("1".into()))];
        assert_eq!(after_changes(&after, &no_list).unwrap_err().code, ErrorCode::InvalidConfig);
    }
}
