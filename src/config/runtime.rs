//! The configuration in force while dynamic values come and go (KIP-226).

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{Config, ConfigError, Scope, Setting, Settings, UpdateMode, checks, table};

/// Where the defaults of all brokers come from.
const DEFAULT: &str = "dynamic default";
/// Where a broker's own values come from.
const OWN: &str = "dynamic";

/// Shared by all that must see a value change at run time; cheap to clone and read.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    current: Arc<ArcSwap<Config>>,
}

impl RuntimeConfig {
    /// Starts with what was given at the start.
    pub fn new(config: Config) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(config)) }
    }

    /// The configuration of this moment.
    pub fn current(&self) -> Arc<Config> {
        self.current.load_full()
    }

    /// Puts the dynamic values of the metadata image in force: the defaults of
    /// all brokers (resource BROKER with an empty name) and this broker's own.
    /// Values that do not parse are passed over, as Kafka does, and named.
    pub fn apply(
        &self,
        default: &BTreeMap<Arc<str>, Arc<str>>,
        broker: &BTreeMap<Arc<str>, Arc<str>>,
    ) -> Vec<String> {
        let mut bad = Vec::new();
        let mut next = Config::clone(&self.current.load());
        next.dynamic_default = dynamic(default, DEFAULT, &mut bad);
        next.dynamic_broker = dynamic(broker, OWN, &mut bad);
        next.dynamic_listeners = of_listeners(default).chain(of_listeners(broker)).collect();
        self.current.store(Arc::new(next));
        bad
    }
}

/// Settings of single listeners: they are not in the table.
fn of_listeners(
    values: &BTreeMap<Arc<str>, Arc<str>>,
) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    let of_listener = |(name, _): &(&Arc<str>, &Arc<str>)| name.starts_with("listener.name.");
    values.iter().filter(of_listener).map(|(name, text)| (name.clone(), text.clone()))
}

impl Config {
    /// Checks what this would be with other dynamic values of one layer: the
    /// defaults of all brokers, or the broker's own. Each value must be acceptable
    /// by itself.
    pub fn check_dynamic(
        &self,
        values: &BTreeMap<Arc<str>, Arc<str>>,
        is_default_of_all: bool,
    ) -> Result<(), ConfigError> {
        let mut next = self.clone();
        let mut bad = Vec::new();
        if is_default_of_all {
            next.dynamic_default = dynamic(values, DEFAULT, &mut bad);
        } else {
            next.dynamic_broker = dynamic(values, OWN, &mut bad);
        }
        checks::check(&next).map(|_odd_but_allowed| ())
    }
}

fn dynamic(values: &BTreeMap<Arc<str>, Arc<str>>, origin: &str, bad: &mut Vec<String>) -> Settings {
    let mut settings = Settings::new();
    for (name, text) in values {
        let Some(key) = table().get(Scope::Broker, name) else { continue };
        if key.update == UpdateMode::ReadOnly {
            continue;
        }
        match key.parse(text) {
            Ok(value) => {
                settings.insert(key.name, Setting { value, origin: origin.to_owned() });
            }
            Err(invalid) => bad.push(invalid.to_string()),
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Value, keys};
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<Arc<str>, Arc<str>> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn a_brokers_own_value_goes_before_the_default_of_all() {
        let given = [("message.max.bytes", "1")];
        let config = RuntimeConfig::new(Config::from_overrides(&given).unwrap());
        let read = || config.current().get(keys::MESSAGE_MAX_BYTES);
        assert_eq!(read(), 1);
        config.apply(&map(&[("message.max.bytes", "2")]), &map(&[]));
        assert_eq!(read(), 2);
        config.apply(&map(&[("message.max.bytes", "2")]), &map(&[("message.max.bytes", "3")]));
        assert_eq!(read(), 3);
        let sources: Vec<_> = config
            .current()
            .layers("message.max.bytes")
            .into_iter()
            .map(|(source, _)| source)
            .collect();
        assert_eq!(
            sources,
            [Source::DynamicBroker, Source::DynamicDefault, Source::Static, Source::Default]
        );
        config.apply(&map(&[]), &map(&[]));
        assert_eq!(read(), 1);
    }

    #[test]
    fn a_listeners_setting_may_be_given_at_the_start_and_change() {
        let key = "listener.name.plaintext.max.connections";
        let config = RuntimeConfig::new(Config::from_overrides(&[(key, "4")]).unwrap());
        let read =
            || config.current().of_listener("PLAINTEXT", "max.connections").map(str::to_owned);
        assert_eq!(read().as_deref(), Some("4"));
        config.apply(&map(&[(key, "5")]), &map(&[]));
        assert_eq!(read().as_deref(), Some("5"));
        config.apply(&map(&[(key, "5")]), &map(&[(key, "6")]));
        assert_eq!(read().as_deref(), Some("6"));
        config.apply(&map(&[]), &map(&[]));
        assert_eq!(read().as_deref(), Some("4"));
        assert_eq!(config.current().of_listener("OTHER", "max.connections"), None);
    }

    #[test]
    fn what_cannot_change_or_does_not_parse_changes_nothing() {
        let config = RuntimeConfig::new(Config::from_overrides(&[]).unwrap());
        let bad =
            config.apply(&map(&[("num.partitions", "9"), ("message.max.bytes", "x")]), &map(&[]));
        assert_eq!(bad.len(), 1);
        assert_eq!(config.current().get(keys::NUM_PARTITIONS), 1);
        assert_eq!(
            config.current().lookup("message.max.bytes"),
            Some((Source::Default, &Value::Int(1_048_588)))
        );
    }
}
