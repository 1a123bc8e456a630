//! How settings are shown: the value in force, and where it comes from. `[P]`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::alteration::base_name;
use crate::config::{Config, Definition, Scope, Source, Type, UpdateMode, Value, table, topic};

/// Settings of one resource, as in the image.
pub type Settings = BTreeMap<Arc<str>, Arc<str>>;

/// Where a value comes from, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic = 1,
    /// A dynamic value of this broker.
    DynamicBroker = 2,
    /// A dynamic default of all brokers.
    DynamicDefaultBroker = 3,
    /// Given when the broker started.
    StaticBroker = 4,
    /// The key's own default.
    Default = 5,
    /// Set for the subscription.
    ClientMetrics = 7,
    /// Set for the group.
    Group = 8,
}

impl ConfigSource {
    /// Kafka's number.
    pub fn code(self) -> i8 {
        self as i8
    }
}

impl From<Source> for ConfigSource {
    fn from(source: Source) -> Self {
        match source {
            Source::DynamicBroker => Self::DynamicBroker,
            Source::DynamicDefault => Self::DynamicDefaultBroker,
            Source::Static => Self::StaticBroker,
            Source::Default => Self::Default,
        }
    }
}

/// One of the values that a key has; the first of them is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The key under which it was set.
    pub name: String,
    /// `None` for what is never shown.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
}

/// One key of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub name: String,
    /// The value in force; `None` where there is none or it is never shown.
    pub value: Option<String>,
    /// It cannot change at run time.
    pub read_only: bool,
    /// It is never shown.
    pub is_sensitive: bool,
    /// Where the value comes from, and what would hold instead.
    pub synonyms: Vec<Synonym>,
    /// Kafka's number of its type; 0 where nothing is known of the key.
    pub kind: i8,
    /// What it does.
    pub doc: Option<&'static str>,
}

impl Entry {
    /// Where the value in force comes from.
    pub fn source(&self) -> ConfigSource {
        self.synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source)
    }
}

/// All keys of a topic. Internal ones only when they are set.
pub fn topic_entries(settings: &Settings, config: &Config) -> Vec<Entry> {
    let keys = table().of(Scope::Topic);
    let shown = keys.filter(|key| !key.internal || settings.contains_key(key.name));
    shown
        .map(|key| {
            let broker_key = key.synonyms.first().copied();
            let value = topic::value(key.name, settings, config);
            let synonyms = broker_key.map_or_else(Vec::new, |name| broker_synonyms(name, config));
            with_own(entry(key, value.as_ref()), settings, ConfigSource::Topic, synonyms)
        })
        .collect()
}

/// All keys of a group: what is not set for it comes from the broker's keys.
pub fn group_entries(settings: &Settings, config: &Config) -> Vec<Entry> {
    let keys = table().of(Scope::Group);
    let shown = keys.filter(|key| !key.internal || settings.contains_key(key.name));
    shown
        .map(|key| {
            let broker_key = group_default(key.name);
            let broker =
                table().get(Scope::Broker, &broker_key).and_then(|_| config.lookup(&broker_key));
            let own = settings.get(key.name).and_then(|text| key.parse(text).ok());
            let value = own.or_else(|| broker.map(|(_, value)| inherited(key, value)));
            let value = value.or_else(|| key.default.clone());
            let entry = entry(key, value.as_ref());
            let synonyms = match broker {
                Some(_) => broker_synonyms(&broker_key, config),
                None => default_synonym(key).into_iter().collect(),
            };
            with_own(entry, settings, ConfigSource::Group, synonyms)
        })
        .collect()
}

/// The broker's key for what a group does not say itself.
fn group_default(name: &str) -> String {
    match name {
        "streams.assignor.name" => "group.streams.assignors".to_owned(),
        _ => format!("group.{name}"),
    }
}

/// Where a group has one of what the broker lists, it gets the first.
fn inherited(key: &Definition, value: &Value) -> Value {
    match value {
        Value::List(all) if key.kind != Type::List => {
            all.first().map_or(Value::Null, |one| Value::String(one.clone()))
        }
        one => one.clone(),
    }
}

/// All keys of a subscription to client metrics.
pub fn client_metrics_entries(settings: &Settings) -> Vec<Entry> {
    let keys = table().of(Scope::ClientMetrics);
    keys.map(|key| {
        let own = settings.get(key.name).and_then(|text| key.parse(text).ok());
        let entry = entry(key, own.as_ref().or(key.default.as_ref()));
        with_own(entry, settings, ConfigSource::ClientMetrics, Vec::new())
    })
    .collect()
}

/// All keys of this broker, and whatever else it was given: at its start, as its
/// own dynamic settings, or as those of all brokers.
pub fn broker_entries(config: &Config, own: &Settings, all: &Settings) -> Vec<Entry> {
    let keys = table().of(Scope::Broker);
    let shown = keys.filter(|key| match key.update {
        UpdateMode::DynamicOnly => own.contains_key(key.name) || all.contains_key(key.name),
        _ => !key.internal || config.is_set(key.name),
    });
    let mut entries: Vec<_> = shown
        .map(|key| {
            let mut entry = entry(key, config.lookup(key.name).map(|(_, value)| value));
            entry.read_only = key.update == UpdateMode::ReadOnly;
            entry.synonyms = broker_synonyms(key.name, config);
            entry
        })
        .collect();
    let given: BTreeMap<_, _> = config.others().map(|(name, text, _)| (name, text)).collect();
    let names = own.keys().chain(all.keys()).map(|name| &**name).chain(given.keys().copied());
    let others: BTreeSet<_> =
        names.filter(|name| table().get(Scope::Broker, name).is_none()).collect();
    entries.extend(others.into_iter().map(|name| {
        let layers = [
            (ConfigSource::DynamicBroker, own.get(name).map(|text| &**text)),
            (ConfigSource::DynamicDefaultBroker, all.get(name).map(|text| &**text)),
            (ConfigSource::StaticBroker, given.get(name).copied()),
        ];
        let set = layers.into_iter().filter_map(|(source, text)| Some((source, text?)));
        let mut entry = other_entry(name, set);
        if base_name(name) != name {
            entry.synonyms.extend(broker_synonyms(base_name(name), config));
        }
        entry
    }));
    entries
}

/// The dynamic defaults of all brokers.
pub fn default_broker_entries(settings: &Settings) -> Vec<Entry> {
    let known = settings.iter().map(|(name, text)| {
        let source = ConfigSource::DynamicDefaultBroker;
        let Some(key) = table().get(Scope::Broker, name) else {
            return other_entry(name, [(source, &**text)]);
        };
        let mut entry = entry(key, key.parse(text).ok().as_ref());
        entry.read_only = key.update == UpdateMode::ReadOnly;
        entry.synonyms =
            vec![Synonym { name: name.to_string(), value: entry.value.clone(), source }];
        entry
    });
    known.collect()
}

/// A name that is no broker's key: one for a single listener is shown like the key
/// behind it, of any other nothing is known, and it may be a secret.
fn other_entry<'a>(name: &str, set: impl IntoIterator<Item = (ConfigSource, &'a str)>) -> Entry {
    let key = table().get(Scope::Broker, base_name(name));
    let is_sensitive = key.is_none_or(Definition::is_sensitive);
    let synonyms: Vec<_> = (set.into_iter())
        .map(|(source, text)| Synonym {
            name: name.to_owned(),
            value: (!is_sensitive).then(|| text.to_owned()),
            source,
        })
        .collect();
    Entry {
        name: name.to_owned(),
        value: synonyms.first().and_then(|synonym| synonym.value.clone()),
        read_only: true,
        is_sensitive,
        synonyms,
        kind: key.map_or(0, |key| key.kind.wire()),
        doc: key.map(|key| &*key.doc),
    }
}

fn entry(key: &'static Definition, value: Option<&Value>) -> Entry {
    let value = value.filter(|value| **value != Value::Null && !key.is_sensitive());
    Entry {
        name: key.name.to_owned(),
        value: value.map(ToString::to_string),
        read_only: false,
        is_sensitive: key.is_sensitive(),
        synonyms: Vec::new(),
        kind: key.kind.wire(),
        doc: Some(&key.doc),
    }
}

fn with_own(
    mut entry: Entry,
    settings: &Settings,
    source: ConfigSource,
    synonyms: Vec<Synonym>,
) -> Entry {
    if settings.contains_key(entry.name.as_str()) {
        let (name, value) = (entry.name.clone(), entry.value.clone());
        entry.synonyms.push(Synonym { name, value, source });
    }
    entry.synonyms.extend(synonyms);
    entry
}

fn default_synonym(key: &Definition) -> Option<Synonym> {
    let value = key.default.as_ref().filter(|value| **value != Value::Null)?;
    let value = (!key.is_sensitive()).then(|| value.to_string());
    Some(Synonym { name: key.name.to_owned(), value, source: ConfigSource::Default })
}

/// Names that mean the same in other units, the first going before.
fn same_meaning(name: &str) -> &'static [&'static str] {
    const ROLL: &[&str] = &["log.roll.ms", "log.roll.hours"];
    const JITTER: &[&str] = &["log.roll.jitter.ms", "log.roll.jitter.hours"];
    const RETENTION: &[&str] =
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
    const FLUSH: &[&str] = &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"];
    match name {
        "log.flush.interval.ms" => FLUSH,
        _ if ROLL.contains(&name) => ROLL,
        _ if JITTER.contains(&name) => JITTER,
        _ if RETENTION.contains(&name) => RETENTION,
        _ => &[],
    }
}

/// The values of a broker's key in the order of their sources. Those of keys
/// that mean the same are among them, but the list begins with the key itself.
fn broker_synonyms(name: &str, config: &Config) -> Vec<Synonym> {
    let same = same_meaning(name);
    let names = if same.is_empty() { std::slice::from_ref(&name) } else { same };
    let layers: Vec<_> = names.iter().map(|name| (*name, config.layers(name))).collect();
    let sources = [Source::DynamicBroker, Source::DynamicDefault, Source::Static, Source::Default];
    let mut all = Vec::new();
    for wanted in sources {
        for (name, values) in &layers {
            let is_secret = table().get(Scope::Broker, name).is_none_or(Definition::is_sensitive);
            let found = values.iter().filter(|(source, value)| {
                *source == wanted && (**value != Value::Null || wanted != Source::Default)
            });
            all.extend(found.map(|(source, value)| Synonym {
                name: (*name).to_owned(),
                value: (!is_secret).then(|| value.to_string()),
                source: (*source).into(),
            }));
        }
    }
    all.into_iter().skip_while(|synonym| synonym.name != name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RuntimeConfig;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn find<'a>(entries: &'a [Entry], name: &str) -> &'a Entry {
        entries.iter().find(|entry| entry.name == name).unwrap()
    }

    fn chain(entry: &Entry) -> Vec<String> {
        let show = |s: &Synonym| {
            format!("{}={} {:?}", s.name, s.value.as_deref().unwrap_or("-"), s.source)
        };
        entry.synonyms.iter().map(show).collect()
    }

    #[test]
    fn a_topics_values_come_from_itself_then_from_the_broker() {
        let given = [("log.segment.bytes", "2000000"), ("log.retention.hours", "1")];
        let config = Config::from_overrides(&given).unwrap();
        let entries = topic_entries(&settings(&[("segment.bytes", "3000000")]), &config);
        assert_eq!(
            chain(find(&entries, "segment.bytes")),
            [
                "segment.bytes=3000000 Topic",
                "log.segment.bytes=2000000 StaticBroker",
                "log.segment.bytes=1073741824 Default",
            ]
        );
        // What is set under another name is in force, but not among the synonyms.
        let retention = find(&entries, "retention.ms");
        assert_eq!(retention.value.as_deref(), Some("3600000"));
        assert_eq!((retention.source(), retention.synonyms.len()), (ConfigSource::Default, 0));
        assert!(entries.iter().all(|entry| entry.name != "internal.segment.bytes"));
        assert_eq!(entries.len(), 37);
    }

    #[test]
    fn a_brokers_secrets_and_unknown_keys_are_not_shown() {
        let given = [("ssl.key.password", "secret"), ("no.such.key", "x"), ("log.roll.ms", "9")];
        let (own, all) = (settings(&[("my.own", "1")]), settings(&[("my.own", "2")]));
        let entries = broker_entries(&Config::from_overrides(&given).unwrap(), &own, &all);
        let secret = find(&entries, "ssl.key.password");
        assert_eq!((secret.value.as_deref(), secret.is_sensitive), (None, true));
        assert_eq!(chain(secret), ["ssl.key.password=- StaticBroker"]);
        let unknown = find(&entries, "no.such.key");
        assert_eq!((unknown.kind, unknown.is_sensitive, unknown.read_only), (0, true, true));
        assert_eq!(
            chain(find(&entries, "my.own")),
            ["my.own=- DynamicBroker", "my.own=- DynamicDefaultBroker"]
        );
        assert!(find(&entries, "num.partitions").read_only);
        assert!(!find(&entries, "log.segment.bytes").read_only);
        assert_eq!(
            chain(find(&entries, "log.roll.ms")),
            ["log.roll.ms=9 StaticBroker", "log.roll.hours=168 Default"]
        );
    }

    #[test]
    fn a_single_listeners_key_is_shown_like_the_key_behind_it() {
        let name = "listener.name.plaintext.max.connections";
        let own = settings(&[(name, "70")]);
        let entries = broker_entries(&Config::from_overrides(&[]).unwrap(), &own, &settings(&[]));
        let entry = find(&entries, name);
        assert_eq!((entry.value.as_deref(), entry.read_only), (Some("70"), true));
        assert_eq!(entry.kind, Type::Int.wire());
        assert_eq!(
            chain(entry),
            [format!("{name}=70 DynamicBroker"), "max.connections=2147483647 Default".to_owned()]
        );
        let default = default_broker_entries(&settings(&[("my.own", "v")]));
        assert_eq!(chain(&default[0]), ["my.own=- DynamicDefaultBroker"]);
    }

    #[test]
    fn what_is_only_dynamic_is_shown_where_it_is_set() {
        let rate = "leader.replication.throttled.rate";
        let config = Config::from_overrides(&[(rate, "1")]).unwrap();
        assert!(config.warnings()[0].contains("leader.replication.throttled.rate is ignored"));
        let none = settings(&[]);
        assert!(broker_entries(&config, &none, &none).iter().all(|entry| entry.name != rate));
        let (own, all) = (settings(&[(rate, "5")]), settings(&[(rate, "6")]));
        let config = RuntimeConfig::new(config);
        assert_eq!(config.apply(&all, &own), Vec::<String>::new());
        let entries = broker_entries(&config.current(), &own, &all);
        let entry = find(&entries, rate);
        assert_eq!(entry.value.as_deref(), Some("5"));
        assert!(!entry.read_only && !entry.is_sensitive);
        assert_eq!(
            chain(entry),
            [format!("{rate}=5 DynamicBroker"), format!("{rate}=6 DynamicDefaultBroker")]
        );
    }

    #[test]
    fn groups_take_the_brokers_values() {
        let given = [("group.consumer.session.timeout.ms", "50000")];
        let config = Config::from_overrides(&given).unwrap();
        let entries =
            group_entries(&settings(&[("share.isolation.level", "read_committed")]), &config);
        let session = find(&entries, "consumer.session.timeout.ms");
        assert_eq!(session.value.as_deref(), Some("50000"));
        assert_eq!(session.source(), ConfigSource::StaticBroker);
        let assignor = find(&entries, "streams.assignor.name");
        assert_eq!(assignor.value.as_deref(), Some("sticky"));
        assert_eq!(chain(assignor), ["group.streams.assignors=sticky Default"]);
        let tags = find(&entries, "streams.rack.aware.assignment.tags");
        assert_eq!(tags.value.as_deref(), Some(""));
        let level = find(&entries, "share.isolation.level");
        assert_eq!(
            chain(level),
            [
                "share.isolation.level=read_committed Group",
                "share.isolation.level=read_uncommitted Default",
            ]
        );
    }
}
