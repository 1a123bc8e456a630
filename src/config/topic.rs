//! A topic's settings: its own overrides over what the broker gives. `[P]`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Config, Definition, FromValue, Scope, Value, keys, table};
use crate::log::batch::TimestampType;
use crate::log::compression::{Codec, Compression, CompressionType};
use crate::log::{CleanupPolicy, LogConfig};

/// What was set for a topic, as it stands in the metadata image.
pub type Overrides = BTreeMap<Arc<str>, Arc<str>>;

/// The value in force of a topic's key.
///
/// Overrides that do not parse (written by another version) give way to the
/// broker's value.
pub fn value(name: &str, overrides: &Overrides, config: &Config) -> Option<Value> {
    let key = table().get(Scope::Topic, name)?;
    let own = overrides.get(name).and_then(|text| key.parse(text).ok());
    own.or_else(|| broker_value(key, config))
}

/// What a topic gets that does not set the key: the first of the broker's keys
/// that has a value, in the topic key's own unit, else the key's default. (Where
/// there are several, all but the last are without default.)
pub fn broker_value(key: &Definition, config: &Config) -> Option<Value> {
    let values = key.synonyms.iter().filter_map(|name| Some((*name, config.lookup(name)?.1)));
    let mut set = values.filter(|(_, value)| **value != Value::Null);
    match set.next() {
        Some((name, value)) => Some(in_millis(name, value)),
        None => key.default.clone(),
    }
}

/// Hours and minutes of a broker's key as the milliseconds of a topic's.
pub fn in_millis(name: &str, value: &Value) -> Value {
    let factor = match name.rsplit_once('.') {
        Some((_, "hours")) => 3_600_000,
        Some((_, "minutes")) => 60_000,
        _ => return value.clone(),
    };
    match value {
        Value::Int(count) if *count < 0 => Value::Long(-1),
        Value::Int(count) => Value::Long(i64::from(*count).saturating_mul(factor)),
        other => other.clone(),
    }
}

/// `log.retention.ms`, `.minutes` or `.hours`: the first that is given.
pub fn retention_ms(config: &Config) -> i64 {
    let minutes = || config.get(keys::LOG_RETENTION_MINUTES).map(|m| i64::from(m) * 60_000);
    let hours = || i64::from(config.get(keys::LOG_RETENTION_HOURS)) * 3_600_000;
    let millis = config.get(keys::LOG_RETENTION_MS).or_else(minutes).unwrap_or_else(hours);
    if millis < 0 { -1 } else { millis }
}

/// A topic's value as a Rust type.
pub fn get<T: FromValue>(name: &str, overrides: &Overrides, config: &Config) -> Option<T> {
    T::from_value(&value(name, overrides, config)?)
}

/// The settings of a topic's logs.
pub fn log_config(overrides: &Overrides, config: &Config) -> LogConfig {
    let defaults = LogConfig::default();
    let topic = Reader { overrides, config };
    LogConfig {
        segment_bytes: topic.segment_bytes(defaults.segment_bytes),
        segment_ms: topic.get("segment.ms", defaults.segment_ms),
        segment_jitter_ms: topic.get("segment.jitter.ms", defaults.segment_jitter_ms),
        segment_index_bytes: topic.size("segment.index.bytes", defaults.segment_index_bytes),
        index_interval_bytes: topic.size("index.interval.bytes", defaults.index_interval_bytes),
        flush_messages: topic.get("flush.messages", defaults.flush_messages),
        flush_ms: topic.get("flush.ms", defaults.flush_ms),
        retention_bytes: topic.get("retention.bytes", defaults.retention_bytes),
        retention_ms: topic.get("retention.ms", defaults.retention_ms),
        max_message_bytes: topic.size("max.message.bytes", defaults.max_message_bytes),
        file_delete_delay_ms: topic.get("file.delete.delay.ms", defaults.file_delete_delay_ms),
        delete_retention_ms: topic.get("delete.retention.ms", defaults.delete_retention_ms),
        min_compaction_lag_ms: topic.get("min.compaction.lag.ms", defaults.min_compaction_lag_ms),
        max_compaction_lag_ms: topic.get("max.compaction.lag.ms", defaults.max_compaction_lag_ms),
        min_cleanable_dirty_ratio: topic
            .get("min.cleanable.dirty.ratio", defaults.min_cleanable_dirty_ratio),
        cleanup_policy: topic.cleanup_policy(),
        compression_type: topic.compression_type(),
        check_compressed_records: config.get(keys::OTTLA_COMPRESSED_RECORDS_CHECK_ENABLE),
        preallocate: topic.get("preallocate", defaults.preallocate),
        message_timestamp_type: topic.timestamp_type(),
        message_timestamp_before_max_ms: topic
            .get("message.timestamp.before.max.ms", defaults.message_timestamp_before_max_ms),
        message_timestamp_after_max_ms: topic
            .get("message.timestamp.after.max.ms", defaults.message_timestamp_after_max_ms),
        min_insync_replicas: topic.get("min.insync.replicas", defaults.min_insync_replicas),
        unclean_leader_election_enable: topic
            .get("unclean.leader.election.enable", defaults.unclean_leader_election_enable),
    }
}

/// Reads the keys of one topic.
#[derive(Clone, Copy)]
struct Reader<'a> {
    overrides: &'a Overrides,
    config: &'a Config,
}

impl Reader<'_> {
    /// Every key of the table has a default, so `or` is never taken.
    fn get<T: FromValue>(self, name: &str, or: T) -> T {
        get(name, self.overrides, self.config).unwrap_or(or)
    }

    fn size<T: TryFrom<i32>>(self, name: &str, or: T) -> T {
        get::<i32>(name, self.overrides, self.config)
            .and_then(|size| T::try_from(size).ok())
            .unwrap_or(or)
    }

    /// `internal.segment.bytes` goes before, without a lower bound.
    fn segment_bytes(self, or: u64) -> u64 {
        let internal = self.get("internal.segment.bytes", None::<i32>);
        match internal.and_then(|size| u64::try_from(size).ok()) {
            Some(size) => size,
            None => self.size("segment.bytes", or),
        }
    }

    fn cleanup_policy(self) -> CleanupPolicy {
        let policies = self.get("cleanup.policy", Vec::<String>::new());
        let has = |name: &str| policies.iter().any(|policy| policy == name);
        CleanupPolicy { delete: has("delete"), compact: has("compact") }
    }

    fn compression_type(self) -> CompressionType {
        let name = self.get("compression.type", String::new());
        let kind = CompressionType::from_name(&name).unwrap_or_default();
        let CompressionType::Fixed(compression) = kind else { return kind };
        let level = match compression.codec {
            Codec::Gzip => Some("compression.gzip.level"),
            Codec::Lz4 => Some("compression.lz4.level"),
            Codec::Zstd => Some("compression.zstd.level"),
            Codec::None | Codec::Snappy => None,
        };
        let level = level.and_then(|key| get::<i32>(key, self.overrides, self.config));
        CompressionType::Fixed(Compression { level: level.or(compression.level), ..compression })
    }

    fn timestamp_type(self) -> TimestampType {
        match self.get("message.timestamp.type", String::new()).as_str() {
            "LogAppendTime" => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_falls_back_to_the_brokers_keys_in_order() {
        let none = BTreeMap::new();
        let retention = |given: &[(&str, &str)], own: &Overrides| {
            let config = Config::from_overrides(given).unwrap();
            get::<i64>("retention.ms", own, &config).unwrap()
        };
        assert_eq!(retention(&[], &none), 604_800_000);
        assert_eq!(retention(&[("log.retention.hours", "1")], &none), 3_600_000);
        let both = [("log.retention.hours", "1"), ("log.retention.minutes", "2")];
        assert_eq!(retention(&both, &none), 120_000);
        assert_eq!(retention(&[("log.retention.minutes", "-1")], &none), -1);
        let own = BTreeMap::from([("retention.ms".into(), "5".into())]);
        assert_eq!(retention(&both, &own), 5);
        let bad = BTreeMap::from([("retention.ms".into(), "soon".into())]);
        assert_eq!(retention(&both, &bad), 120_000);
    }

    fn overrides(pairs: &[(&str, &str)]) -> Overrides {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn with_nothing_set_a_log_has_its_own_defaults_but_for_levels() {
        let config = Config::from_overrides(&[]).unwrap();
        assert_eq!(log_config(&overrides(&[]), &config), LogConfig::default());
    }

    #[test]
    fn a_log_is_built_from_overrides_over_the_brokers_keys() {
        let config = Config::from_overrides(&[
            ("log.segment.bytes", "2000000"),
            ("message.max.bytes", "77"),
            ("log.flush.interval.ms", "5"),
            ("log.roll.hours", "2"),
        ])
        .unwrap();
        let log = log_config(
            &overrides(&[
                ("cleanup.policy", "compact,delete"),
                ("compression.type", "zstd"),
                ("compression.zstd.level", "7"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "99"),
            ]),
            &config,
        );
        assert_eq!(log.segment_bytes, 2_000_000);
        assert_eq!((log.max_message_bytes, log.flush_ms), (99, 5));
        assert_eq!(log.segment_ms, 2 * 3_600_000);
        assert_eq!(log.cleanup_policy, CleanupPolicy { delete: true, compact: true });
        let zstd = Compression { codec: Codec::Zstd, level: Some(7) };
        assert_eq!(log.compression_type, CompressionType::Fixed(zstd));
        assert_eq!(log.message_timestamp_type, TimestampType::LogAppendTime);
        let small = overrides(&[("internal.segment.bytes", "100")]);
        assert_eq!(log_config(&small, &config).segment_bytes, 100);
    }
}
