//! Where settings come from: a properties file, `KAFKA_*` variables, overrides.
//!
//! The `config` crate layers them, the later winning, and remembers where each
//! value came from. It would split keys at dots, so that `max.connections` and
//! `max.connections.per.ip` could not both exist; therefore every source here
//! hands it one table of flat keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ::config::{Map, Source, Value, ValueKind};

use crate::properties;

/// Everything that a start is given.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The properties file; with none, a combined node for trying things out.
    pub file: Option<PathBuf>,
    /// The process environment; what does not begin with `KAFKA_` is ignored.
    pub env: Vec<(String, String)>,
    /// `--override key=value`, in order.
    pub overrides: Vec<(String, String)>,
}

impl Sources {
    /// This file, the environment of this process, these overrides.
    pub fn from_process(file: Option<PathBuf>, overrides: Vec<(String, String)>) -> Self {
        // A variable that is not Unicode is none of ours.
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { file, env, overrides }
    }
}

/// A value as given, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The text.
    pub text: String,
    /// File and line, variable, or option.
    pub origin: String,
}

/// The table's name within the `config` crate's tree.
const TABLE: &str = "kafka";

/// One layer of flat keys.
#[derive(Clone, Debug, Default)]
struct Layer(Vec<(String, Given)>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ::config::ConfigError> {
        let flat: Map<String, Value> = self
            .0
            .iter()
            .map(|(key, given)| {
                (
                    key.clone(),
                    Value::new(Some(&given.origin), ValueKind::String(given.text.clone())),
                )
            })
            .collect();
        Ok(Map::from_iter([(TABLE.to_owned(), Value::new(None, ValueKind::Table(flat)))]))
    }
}

/// Layers `base`, file, environment and overrides; what remains of each key.
pub fn gather(
    base: &[(&str, &str)],
    sources: &Sources,
) -> Result<BTreeMap<String, Given>, ReadError> {
    let built_in = base.iter().map(|(key, value)| {
        ((*key).to_owned(), Given { text: (*value).to_owned(), origin: "no file given".to_owned() })
    });
    let layers = [
        Layer(built_in.collect()),
        file_layer(sources)?,
        Layer(sources.env.iter().filter_map(from_variable).collect()),
        Layer(sources.overrides.iter().map(from_override).collect()),
    ];
    let mut builder = ::config::Config::builder();
    for layer in layers {
        builder = builder.add_source(layer);
    }
    let tree = builder.build().and_then(|tree| tree.get_table(TABLE));
    Ok(tree.unwrap_or_default().into_iter().map(|(key, value)| (key, given(value))).collect())
}

fn given(value: Value) -> Given {
    let origin = value.origin().unwrap_or_default().to_owned();
    Given { text: value.into_string().unwrap_or_default(), origin }
}

/// The file is there but cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", .path.display())]
pub struct ReadError {
    path: PathBuf,
    source: std::io::Error,
}

fn file_layer(sources: &Sources) -> Result<Layer, ReadError> {
    let Some(path) = &sources.file else { return Ok(Layer::default()) };
    let bytes = std::fs::read(path).map_err(|source| ReadError { path: path.clone(), source })?;
    // Java reads these files as UTF-8 or Latin-1 depending on the way in.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().map(|byte| char::from(*byte)).collect());
    let assignments = properties::parse(&text).into_iter().map(|property| {
        let origin = format!("{}:{}", path.display(), property.line);
        (property.key, Given { text: property.value, origin })
    });
    Ok(Layer(assignments.collect()))
}

fn from_override((key, value): &(String, String)) -> (String, Given) {
    (key.clone(), Given { text: value.clone(), origin: "--override".to_owned() })
}

/// Variables of Kafka's images that are about the Java process, not settings.
const NOT_SETTINGS: [&str; 11] = [
    "KAFKA_VERSION",
    "KAFKA_HEAP_OPTS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_JMX_HOSTNAME",
];

fn from_variable((name, value): &(String, String)) -> Option<(String, Given)> {
    let key = key_of_variable(name)?;
    Some((key, Given { text: value.clone(), origin: format!("environment {name}") }))
}

/// The key that a variable names, by the rule of Kafka's images: after `KAFKA_`,
/// in small letters, `_` is a dot, `__` an underscore, `___` a dash.
fn key_of_variable(name: &str) -> Option<String> {
    if NOT_SETTINGS.contains(&name) {
        return None;
    }
    let dotted = name.strip_prefix("KAFKA_")?.to_lowercase().replace('_', ".");
    let key = dotted.replace("...", "-").replace("..", "_");
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_keys_by_the_images_rule() {
        let key = |name| key_of_variable(name);
        assert_eq!(key("KAFKA_LOG_DIRS").as_deref(), Some("log.dirs"));
        assert_eq!(key("KAFKA_A__B___C").as_deref(), Some("a_b-c"));
        assert_eq!(key("KAFKA_HEAP_OPTS"), None);
        assert_eq!(key("PATH"), None);
        assert_eq!(key("KAFKA_"), None);
        assert_eq!(
            key("KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-256_SASL_JAAS_CONFIG").as_deref(),
            Some("listener.name.secure.scram-sha-256.sasl.jaas.config")
        );
    }

    #[test]
    fn later_layers_win_and_keys_with_dots_live_side_by_side() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let sources = Sources {
            file: None,
            env: vec![
                pair("KAFKA_MAX_CONNECTIONS", "100"),
                pair("KAFKA_MAX_CONNECTIONS_PER_IP", "10"),
                pair("HOME", "/"),
            ],
            overrides: vec![pair("max.connections", "200"), pair("max.connections", "300")],
        };
        let all = gather(&[("node.id", "1"), ("max.connections", "1")], &sources).unwrap();
        let text = |key: &str| (all[key].text.as_str(), all[key].origin.as_str());
        assert_eq!(all.len(), 3);
        assert_eq!(text("max.connections"), ("300", "--override"));
        assert_eq!(
            text("max.connections.per.ip"),
            ("10", "environment KAFKA_MAX_CONNECTIONS_PER_IP")
        );
        assert_eq!(text("node.id"), ("1", "no file given"));
    }

    #[test]
    fn a_file_tells_its_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.properties");
        std::fs::write(&path, "# comment\nnode.id = 3\nnode.id=4\nname=\u{e9}\n").unwrap();
        let sources = Sources { file: Some(path.clone()), ..Sources::default() };
        let all = gather(&[("node.id", "1")], &sources).unwrap();
        assert_eq!(all["node.id"].text, "4");
        assert_eq!(all["node.id"].origin, format!("{}:3", path.display()));
        assert_eq!(all["name"].text, "\u{e9}");
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let sources = Sources { file: Some("/no/such/file".into()), ..Sources::default() };
        assert!(gather(&[], &sources).unwrap_err().to_string().contains("/no/such/file"));
    }
}
