//! Configuration: Kafka's keys, from a properties file, `KAFKA_*` variables and
//! `--override`, the later winning.
//!
//! [`Config::load`] reads and checks everything before a broker starts: a value
//! that its key does not accept ends the start with key, value, reason and the
//! line it stands on; a key that nobody knows is only warned of, with the name
//! that was probably meant. What each key is stands once, in `keys/*.txt`
//! ([`definition`] reads them); [`keys`] has the typed constants.
//!
//! With no file a node for trying things out is described: broker and
//! controller in one, node 1, clients on 9092, controllers on 9093, data in
//! `ottla-data`.
//!
//! Values may change while the broker runs (KIP-226): [`RuntimeConfig`] lays
//! the cluster's defaults and this broker's own dynamic values over what was
//! read at the start. Precedence, highest first: dynamic value of this broker,
//! dynamic default of all brokers, what was given at the start, the default.

pub mod accepted;
mod checks;
pub mod definition;
pub mod keys;
pub mod listeners;
mod nearest;
mod node;
mod rules;
mod runtime;
mod sources;
pub mod topic;
pub mod value;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use definition::{Definition, Invalid, Scope, UpdateMode, table};
pub use keys::Key;
pub use node::Node;
pub use rules::Rules;
pub use runtime::RuntimeConfig;
pub use sources::Sources;
pub use value::{FromValue, Type, Value};

use sources::{Given, ReadError};

/// A value in force, as it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// File and line, variable, option; or that it is dynamic.
    pub origin: String,
}

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// A key does not accept its value.
    #[error("{origin}: {invalid}")]
    Invalid {
        /// Key, value and reason.
        invalid: Invalid,
        /// Where it was given.
        origin: String,
    },
    /// A value must be given.
    #[error("Missing required configuration \"{0}\" which has no default value.")]
    Missing(&'static str),
    /// Values that do not go together.
    #[error("{0}")]
    Conflict(String),
}

/// Where a broker's value comes from. The sources of DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A dynamic value of this broker.
    DynamicBroker,
    /// A dynamic default of all brokers.
    DynamicDefault,
    /// Given at the start.
    Static,
    /// The key's default.
    Default,
}

type Settings = HashMap<&'static str, Setting>;

/// All settings of a node at one moment.
#[derive(Clone, Debug)]
pub struct Config {
    given: Settings,
    dynamic_default: Settings,
    dynamic_broker: Settings,
    /// Dynamic settings of single listeners, with their whole names.
    dynamic_listeners: HashMap<Arc<str>, Arc<str>>,
    others: BTreeMap<String, Given>,
    warnings: Vec<String>,
    without_file: bool,
    node: Node,
}

/// What holds with no file: a node of its own, for trying things out.
const WITHOUT_FILE: [(&str, &str); 12] = [
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
    ("controller.listener.names", "CONTROLLER"),
    ("controller.quorum.bootstrap.servers", "localhost:9093"),
    ("log.dirs", "ottla-data"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
];

impl Config {
    /// Reads and checks all settings.
    ///
    /// # Errors
    ///
    /// The first value that is missing, not accepted, or at odds with another.
    pub fn load(sources: Sources) -> Result<Self, ConfigError> {
        let base: &[(&str, &str)] = if sources.file.is_some() { &[] } else { &WITHOUT_FILE };
        let mut config = Self {
            given: HashMap::new(),
            dynamic_default: HashMap::new(),
            dynamic_broker: HashMap::new(),
            dynamic_listeners: HashMap::new(),
            others: BTreeMap::new(),
            warnings: Vec::new(),
            without_file: sources.file.is_none(),
            node: Node::default(),
        };
        for (key, given) in sources::gather(base, &sources)? {
            config.take(key, given)?;
        }
        config.node_and_broker_id();
        for key in table().of(Scope::Broker) {
            if key.default.is_none() && !config.given.contains_key(key.name) {
                return Err(ConfigError::Missing(key.name));
            }
        }
        let host_name = if sources.file.is_some() { host_name() } else { "localhost".to_owned() };
        config.node = Node::read(&config, &host_name)?;
        let warnings = checks::check(&config)?;
        config.warnings.extend(warnings);
        Ok(config)
    }

    /// The broker, with nothing but overrides: no file, no environment. For tests
    /// and for embedding.
    pub fn from_overrides(overrides: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let overrides = overrides.iter().map(owned).collect();
        Self::load(Sources { overrides, ..Sources::default() })
    }

    /// A key's value in force.
    pub fn get<T: FromValue + Default>(&self, key: Key<T>) -> T {
        // The table and the constants agree (a test says so), and a value that
        // must be given was given; so the default of `T` is never taken.
        self.value(key.name).and_then(T::from_value).unwrap_or_default()
    }

    /// A key in milliseconds as a duration; negative ones become zero.
    pub fn millis<T: FromValue + Default + Into<i64>>(&self, key: Key<T>) -> Duration {
        Duration::from_millis(u64::try_from(self.get(key).into()).unwrap_or(0))
    }

    /// The value in force of any broker key, and where it comes from.
    pub fn lookup(&self, name: &str) -> Option<(Source, &Value)> {
        self.in_force(name).map(|(source, setting)| (source, &setting.value)).or_else(|| {
            let default = table().get(Scope::Broker, name)?.default.as_ref()?;
            Some((Source::Default, default))
        })
    }

    /// All values that a broker key has, the one in force first (KIP-226).
    pub fn layers(&self, name: &str) -> Vec<(Source, &Value)> {
        let layers = [
            (Source::DynamicBroker, &self.dynamic_broker),
            (Source::DynamicDefault, &self.dynamic_default),
            (Source::Static, &self.given),
        ];
        let set = layers
            .into_iter()
            .filter_map(|(source, settings)| Some((source, &settings.get(name)?.value)));
        let default = table().get(Scope::Broker, name).and_then(|key| key.default.as_ref());
        set.chain(default.map(|value| (Source::Default, value))).collect()
    }

    /// Whether the key was given at the start.
    pub fn is_set(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Where the value in force was given: file and line, variable, option.
    pub fn origin(&self, name: &str) -> Option<&str> {
        self.in_force(name).map(|(_, setting)| setting.origin.as_str())
    }

    /// Identity, roles, addresses and directories of this node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// True for a node that was started without a file, for trying things out: it
    /// formats its directories itself.
    pub fn is_without_file(&self) -> bool {
        self.without_file
    }

    /// Things that a user should see in the log at the start.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Given keys that are not in the table: of single listeners
    /// (`listener.name.…`), of plug-ins, and unknown ones. With their origin.
    pub fn others(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.others.iter().map(|(key, g)| (key.as_str(), g.text.as_str(), g.origin.as_str()))
    }

    /// A key of a single listener, as text: `listener.name.{listener}.{key}`.
    pub fn of_listener(&self, listener: &str, key: &str) -> Option<&str> {
        let name = format!("listener.name.{}.{key}", listener.to_lowercase());
        let dynamic = self.dynamic_listeners.get(name.as_str()).map(AsRef::as_ref);
        dynamic.or_else(|| self.others.get(&name).map(|given| given.text.as_str()))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.lookup(name).map(|(_, value)| value)
    }

    fn in_force(&self, name: &str) -> Option<(Source, &Setting)> {
        let layers = [
            (Source::DynamicBroker, &self.dynamic_broker),
            (Source::DynamicDefault, &self.dynamic_default),
            (Source::Static, &self.given),
        ];
        layers.into_iter().find_map(|(source, settings)| Some((source, settings.get(name)?)))
    }

    fn take(&mut self, key: String, given: Given) -> Result<(), ConfigError> {
        let Some(definition) = table().get(Scope::Broker, &key) else {
            if !is_free_form(&key) {
                self.warnings.push(unknown(&key, &given.origin));
            }
            self.others.insert(key, given);
            return Ok(());
        };
        if definition.update == UpdateMode::DynamicOnly {
            let text =
                format!("{}: {key} is ignored; it is set while the broker runs", given.origin);
            self.warnings.push(text);
            return Ok(());
        }
        // A comma too much is forgiven where images put lists of addresses together.
        let text = match definition.name {
            "listeners" | "advertised.listeners" => given.text.trim().trim_end_matches(','),
            _ => &given.text,
        };
        let value = definition
            .parse(text)
            .map_err(|invalid| ConfigError::Invalid { invalid, origin: given.origin.clone() })?;
        self.given.insert(definition.name, Setting { value, origin: given.origin });
        Ok(())
    }

    /// `broker.id` is an old name of `node.id`.
    fn node_and_broker_id(&mut self) {
        let (node, broker) = (keys::NODE_ID.name, keys::BROKER_ID.name);
        if let (None, Some(setting)) = (self.given.get(node), self.given.get(broker)) {
            self.given.insert(node, setting.clone());
        } else if let (Some(setting), None) = (self.given.get(node), self.given.get(broker)) {
            self.given.insert(broker, setting.clone());
        }
    }

    /// An error about a key that was given, or whose default does not fit others.
    fn refuse(&self, name: &str, reason: &str) -> ConfigError {
        let value = self.value(name).map(Value::to_string).unwrap_or_default();
        let invalid = Invalid::value(name, &value, reason);
        let origin = self.origin(name).unwrap_or("default").to_owned();
        ConfigError::Invalid { invalid, origin }
    }
}

/// Keys whose names users choose: settings of single listeners, of plug-ins.
fn is_free_form(key: &str) -> bool {
    const PREFIXES: [&str; 4] =
        ["listener.name.", "rsm.config.", "rlmm.config.", "config.providers."];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

fn unknown(key: &str, origin: &str) -> String {
    let names = table().of(Scope::Broker).map(|definition| definition.name);
    match nearest::nearest(key, names) {
        Some(meant) => format!("{origin}: unknown key {key} is ignored; did you mean {meant}?"),
        None => format!("{origin}: unknown key {key} is ignored"),
    }
}

/// The machine's name if it has an address, else `localhost`.
fn host_name() -> String {
    use std::net::ToSocketAddrs as _;
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let resolves =
        (name.as_ref(), 0).to_socket_addrs().is_ok_and(|mut found| found.next().is_some());
    if resolves { name.into_owned() } else { "localhost".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_file(text: &str) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.properties");
        std::fs::write(&path, text).unwrap();
        Config::load(Sources { file: Some(path), ..Sources::default() })
    }

    const MINIMAL: &str = "process.roles=broker,controller\nnode.id=7\n\
        controller.listener.names=CONTROLLER\ncontroller.quorum.voters=7@localhost:9093\n\
        listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093\n";

    #[test]
    fn with_no_file_a_combined_node_is_described() {
        let config = Config::from_overrides(&[]).unwrap();
        let node = config.node();
        assert_eq!((node.id, node.is_broker, node.is_controller), (1, true, true));
        assert_eq!(node.listeners.len(), 1);
        assert_eq!(node.listeners[0].to_string(), "PLAINTEXT://:9092");
        assert_eq!(node.advertised_listeners[0].to_string(), "PLAINTEXT://localhost:9092");
        assert_eq!(node.controller_listeners[0].port, 9093);
        assert_eq!(node.inter_broker_listener, "PLAINTEXT");
        assert_eq!(node.log_dirs, [std::path::Path::new("ottla-data")]);
        assert_eq!(node.metadata_log_dir, node.log_dirs[0]);
        assert_eq!(config.get(keys::OFFSETS_TOPIC_REPLICATION_FACTOR), 1);
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    }

    #[test]
    fn the_file_that_comes_along_is_accepted_without_a_warning() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/server.properties");
        let config =
            Config::load(Sources { file: Some(path.into()), ..Sources::default() }).unwrap();
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
        assert_eq!(config.node().id, 1);
    }

    #[test]
    fn values_have_types_defaults_and_origins() {
        let config = from_file(&format!("{MINIMAL}num.partitions= 3 \nlog.dir=/a,/b\n")).unwrap();
        assert_eq!(config.get(keys::NUM_PARTITIONS), 3);
        assert_eq!(config.get(keys::BROKER_ID), 7);
        assert_eq!(config.get(keys::LOG_RETENTION_MS), None);
        assert_eq!(config.millis(keys::REQUEST_TIMEOUT_MS), Duration::from_secs(30));
        assert_eq!(config.node().log_dirs.len(), 2);
        assert!(config.origin("num.partitions").unwrap().ends_with("server.properties:6"));
        assert_eq!(config.origin("num.io.threads"), None);
        assert_eq!(config.lookup("num.io.threads"), Some((Source::Default, &Value::Int(8))));
    }

    #[test]
    fn a_bad_value_names_key_value_reason_and_line() {
        let error = from_file(&format!("{MINIMAL}num.partitions=0\n")).unwrap_err().to_string();
        let wanted = "server.properties:6: Invalid value 0 for configuration num.partitions: \
                      Value must be at least 1";
        assert!(error.ends_with(wanted), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = from_file("process.roles=broker\n").unwrap_err().to_string();
        assert!(error.contains("\"controller.listener.names\""), "{error}");
    }

    #[test]
    fn an_unknown_key_is_warned_of_with_what_was_meant() {
        let text = format!("{MINIMAL}num.partition=2\nlistener.name.x.ssl.client.auth=none\n");
        let config = from_file(&text).unwrap();
        assert_eq!(config.warnings().len(), 1);
        assert!(
            config.warnings()[0]
                .ends_with("num.partition is ignored; did you mean num.partitions?")
        );
        assert_eq!(config.others().count(), 2);
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let with = |text: &str| from_file(&format!("{MINIMAL}{text}\n")).unwrap_err().to_string();
        for (text, reason) in [
            ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "nonroutable"),
            ("controller.quorum.voters=1@localhost:9093", "must be included"),
            ("listeners=CONTROLLER://:9093", "at least one broker advertised listener"),
            ("listeners=PLAINTEXT://:9092", "must only contain values appearing"),
            ("inter.broker.listener.name=OTHER", "not found in"),
            ("broker.id=8", "same value"),
            ("queued.max.request.bytes=5", "queued.max.bytes"),
            ("log.retention.ms=0", "log.retention.ms"),
            ("max.connections.per.ip=0", "max.connections.per.ip"),
            ("listener.security.protocol.map=PLAINTEXT:PLAINTEXT", "No security protocol"),
        ] {
            let error = with(text);
            let meant = reason == "queued.max.bytes" && error.contains("queued.max.request.bytes");
            assert!(meant || error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn containers_settings_are_taken_from_the_environment() {
        let variable = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let env = vec![
            variable(
                "KAFKA_LISTENERS",
                "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094,",
            ),
            variable("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://h:1,BROKER://b:9093,"),
            variable(
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
                "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            ),
            variable("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER"),
            variable("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@localhost:9094"),
            variable("KAFKA_LOG_FLUSH_INTERVAL_MESSAGES", "9223372036854775807"),
        ];
        let config = Config::load(Sources { env, ..Sources::default() }).unwrap();
        assert_eq!(config.node().listeners.len(), 2);
        assert_eq!(config.node().inter_broker_listener, "BROKER");
        let controllers = &config.node().advertised_controller_listeners;
        assert_eq!(controllers[0].to_string(), "CONTROLLER://localhost:9094");
        assert_eq!(config.origin("listeners"), Some("environment KAFKA_LISTENERS"));
    }
}
