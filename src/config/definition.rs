//! What the keys are: one table, read from `keys/*.txt`. `[P]`
//!
//! A key stands there once, with everything that is known about it:
//!
//! ```text
//! log.retention.ms  LONG  = null  HIGH  cluster-wide
//!     How long a log is kept, in milliseconds; -1 for ever.
//! ```
//!
//! Fields are set apart by two blanks or more: name, type, default (`=`, then
//! the value as it would stand in a file; `null`; absent where a value is
//! required), accepted values, importance, update mode, `internal`. Lines below
//! are the documentation, and for a topic key after `<` the broker keys from
//! which its default comes, the first that is set winning. `not_yet.txt` lists
//! the keys that are accepted but change nothing yet.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::accepted::Accepted;
use super::value::{Type, Value};

/// What a key belongs to. The resource types of DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A broker or controller: what stands in `server.properties`.
    Broker,
    /// A topic.
    Topic,
    /// A consumer, share or streams group (KIP-848, KIP-932, KIP-1071).
    Group,
    /// A subscription to metrics of clients (KIP-714).
    ClientMetrics,
}

/// Whether and where a broker's key may change while it runs (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    /// Only by a restart.
    ReadOnly,
    /// On each broker for itself.
    PerBroker,
    /// On one broker or as a default of all.
    ClusterWide,
    /// So too, but not at the start: it is no key of the file, and shown where it is
    /// set.
    DynamicOnly,
}

/// One key.
#[derive(Debug)]
pub struct Definition {
    /// What it belongs to.
    pub scope: Scope,
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// The default; `None` where a value must be given.
    pub default: Option<Value>,
    /// What it accepts.
    pub accepted: Accepted,
    /// `HIGH`, `MEDIUM` or `LOW`.
    pub importance: &'static str,
    /// Whether it may change while the broker runs.
    pub update: UpdateMode,
    /// Known and read, but not listed to users.
    pub internal: bool,
    /// What it does, for users.
    pub doc: String,
    /// For a topic key: the broker keys that its default comes from.
    pub synonyms: Vec<&'static str>,
    /// False while the key is accepted but changes nothing.
    pub effective: bool,
}

impl Definition {
    /// Parses and checks a value as it stands in a file. In a topic's list what is
    /// said again is passed over; in a broker's it is refused.
    pub fn parse(&self, text: &str) -> Result<Value, Invalid> {
        let mut value = Value::parse(self.kind, text)
            .map_err(|reason| Invalid::value(self.name, text, &reason))?;
        if self.scope == Scope::Topic {
            value.drop_repetitions();
        }
        self.accepted.check(self.name, &value)?;
        Ok(value)
    }

    /// True for values that are never shown.
    pub fn is_sensitive(&self) -> bool {
        self.kind == Type::Password
    }
}

/// A value that its key does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The key.
    pub name: String,
    /// Key, value and reason, in Kafka's words.
    pub message: String,
}

impl Invalid {
    /// The value, and why it is refused.
    pub fn value(name: &str, value: &str, reason: &str) -> Self {
        Self::whole(name, format!("Invalid value {value} for configuration {name}: {reason}"))
    }

    /// A refusal with words of its own.
    pub fn whole(name: &str, message: String) -> Self {
        Self { name: name.to_owned(), message }
    }
}

/// All keys.
#[derive(Debug)]
pub struct Table {
    definitions: Vec<Definition>,
    by_name: HashMap<(Scope, &'static str), usize>,
}

impl Table {
    /// The key of that name in that scope.
    pub fn get(&self, scope: Scope, name: &str) -> Option<&Definition> {
        let index = self.by_name.get(&(scope, name))?;
        self.definitions.get(*index)
    }

    /// The keys of one scope, by name.
    pub fn of(&self, scope: Scope) -> impl Iterator<Item = &Definition> {
        self.definitions.iter().filter(move |definition| definition.scope == scope)
    }
}

/// The table of all keys, read on first use.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(read_table);
    &TABLE
}

const FILES: [(Scope, &str); 12] = [
    (Scope::Broker, include_str!("keys/node.txt")),
    (Scope::Broker, include_str!("keys/network.txt")),
    (Scope::Broker, include_str!("keys/log.txt")),
    (Scope::Broker, include_str!("keys/replication.txt")),
    (Scope::Broker, include_str!("keys/groups.txt")),
    (Scope::Broker, include_str!("keys/transactions.txt")),
    (Scope::Broker, include_str!("keys/share_and_streams.txt")),
    (Scope::Broker, include_str!("keys/security.txt")),
    (Scope::Broker, include_str!("keys/tiered.txt")),
    (Scope::Topic, include_str!("keys/topic.txt")),
    (Scope::Group, include_str!("keys/group.txt")),
    (Scope::ClientMetrics, include_str!("keys/client_metrics.txt")),
];

const NOT_YET: &str = include_str!("keys/not_yet.txt");

fn read_table() -> Table {
    let mut definitions = Vec::with_capacity(512);
    for (scope, text) in FILES {
        read_file(scope, text, &mut definitions);
    }
    definitions.sort_by_key(|definition: &Definition| definition.name);
    let by_name =
        definitions.iter().enumerate().map(|(i, key)| ((key.scope, key.name), i)).collect();
    Table { definitions, by_name }
}

/// Lines that do not follow the notation are left out here and found by the
/// test that counts keys and reads every line.
fn read_file(scope: Scope, text: &'static str, into: &mut Vec<Definition>) {
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_prefix("    ") {
            None => into.extend(read_head(scope, line)),
            Some(below) => {
                if let Some(definition) = into.last_mut() {
                    read_below(definition, below);
                }
            }
        }
    }
}

fn read_head(scope: Scope, line: &'static str) -> Option<Definition> {
    let mut fields = line.split("  ").map(str::trim).filter(|field| !field.is_empty()).peekable();
    let name = fields.next()?;
    let kind = Type::from_name(fields.next()?)?;
    let default = match fields.peek().and_then(|field| field.strip_prefix('=')) {
        Some(text) => {
            fields.next();
            Some(Value::default(kind, text.trim())?)
        }
        None => None,
    };
    let mut definition = Definition {
        scope,
        name,
        kind,
        default,
        accepted: Accepted::Any,
        importance: "",
        update: UpdateMode::ReadOnly,
        internal: false,
        doc: String::new(),
        synonyms: Vec::new(),
        effective: is_effective(scope, name),
    };
    for field in fields {
        match field {
            "HIGH" | "MEDIUM" | "LOW" => definition.importance = field,
            "per-broker" => definition.update = UpdateMode::PerBroker,
            "cluster-wide" => definition.update = UpdateMode::ClusterWide,
            "dynamic-only" => definition.update = UpdateMode::DynamicOnly,
            "internal" => definition.internal = true,
            accepted => definition.accepted = Accepted::from_notation(kind, accepted)?,
        }
    }
    Some(definition)
}

fn read_below(definition: &mut Definition, line: &'static str) {
    if let Some(synonyms) = line.strip_prefix("< ") {
        definition.synonyms = synonyms.split(", ").collect();
        return;
    }
    if !definition.doc.is_empty() {
        definition.doc.push(' ');
    }
    definition.doc.push_str(line);
}

/// Lines of `not_yet.txt` are `scope name`; a name may end in `*`.
fn is_effective(scope: Scope, name: &str) -> bool {
    let scope = match scope {
        Scope::Broker => "broker",
        Scope::Topic => "topic",
        Scope::Group => "group",
        Scope::ClientMetrics => "client-metrics",
    };
    !NOT_YET.lines().any(|line| {
        line.split_once(' ').is_some_and(|(of, pattern)| {
            of == scope
                && match pattern.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == pattern,
                }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_files_is_understood() {
        for (scope, text) in FILES {
            for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with(['#', ' '])) {
                let key = read_head(scope, line).unwrap_or_else(|| panic!("not read: {line}"));
                assert!(!key.importance.is_empty(), "no importance: {line}");
            }
        }
        for key in &table().definitions {
            assert!(key.doc.ends_with('.'), "not documented: {}", key.name);
        }
    }

    #[test]
    fn every_default_satisfies_its_own_key() {
        for key in &table().definitions {
            if let Some(value) = key.default.as_ref().filter(|value| **value != Value::Null) {
                assert_eq!(key.accepted.check(key.name, value), Ok(()));
                assert_eq!(key.parse(&value.to_config_text()).as_ref(), Ok(value), "{}", key.name);
            }
        }
    }

    #[test]
    fn keys_of_all_scopes_are_there_once() {
        let count = |scope| table().of(scope).count();
        // 379 of Kafka's and three that it has only while it runs, one of ours.
        assert_eq!(count(Scope::Broker), 383);
        assert_eq!(count(Scope::Topic), 38);
        assert_eq!(count(Scope::Group), 27);
        assert_eq!(count(Scope::ClientMetrics), 3);
        assert_eq!(table().by_name.len(), table().definitions.len());
    }

    #[test]
    fn synonyms_are_broker_keys() {
        for topic_key in table().of(Scope::Topic) {
            for synonym in &topic_key.synonyms {
                assert!(table().get(Scope::Broker, synonym).is_some(), "{synonym}");
            }
        }
    }

    #[test]
    fn every_line_of_not_yet_names_a_key() {
        for line in NOT_YET.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (_, pattern) = line.split_once(' ').unwrap();
            let prefix = pattern.trim_end_matches('*');
            assert!(table().definitions.iter().any(|k| k.name.starts_with(prefix)), "{line}");
        }
    }
}
