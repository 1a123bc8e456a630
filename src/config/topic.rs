//! A topic's settings: its own overrides over what the broker gives. `[P]`

use std::collections::BTreeMap;

use super::{Config, Definition, FromValue, Scope, Value, keys, table};

/// The value in force of a topic's key.
///
/// Overrides that do not parse (written by another version) give way to the
/// broker's value.
pub fn value(name: &str, overrides: &BTreeMap<String, String>, config: &Config) -> Option<Value> {
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
pub fn get<T: FromValue>(
    name: &str,
    overrides: &BTreeMap<String, String>,
    config: &Config,
) -> Option<T> {
    T::from_value(&value(name, overrides, config)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_falls_back_to_the_brokers_keys_in_order() {
        let none = BTreeMap::new();
        let retention = |given: &[(&str, &str)], own: &BTreeMap<String, String>| {
            let config = Config::from_overrides(given).unwrap();
            get::<i64>("retention.ms", own, &config).unwrap()
        };
        assert_eq!(retention(&[], &none), 604_800_000);
        assert_eq!(retention(&[("log.retention.hours", "1")], &none), 3_600_000);
        let both = [("log.retention.hours", "1"), ("log.retention.minutes", "2")];
        assert_eq!(retention(&both, &none), 120_000);
        assert_eq!(retention(&[("log.retention.minutes", "-1")], &none), -1);
        let own = BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]);
        assert_eq!(retention(&both, &own), 5);
        let bad = BTreeMap::from([("retention.ms".to_owned(), "soon".to_owned())]);
        assert_eq!(retention(&both, &bad), 120_000);
    }
}
