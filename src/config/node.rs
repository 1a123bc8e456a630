//! Who this node is: id, roles, addresses, directories. `[P]`
//!
//! Read once at the start from many keys, checked against each other by the
//! rules of Kafka.

use std::path::PathBuf;

use super::keys;
use super::listeners::{
    Endpoint, ProtocolMap, SecurityProtocol, Voter, check_ports, parse_endpoints,
    parse_protocol_map, parse_servers, parse_voters,
};
use super::{Config, ConfigError};

/// Identity and addresses of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `node.id`.
    pub id: i32,
    /// `process.roles` contains `broker`.
    pub is_broker: bool,
    /// `process.roles` contains `controller`.
    pub is_controller: bool,
    /// Where clients and brokers connect.
    pub listeners: Vec<Endpoint>,
    /// Where controllers and brokers reach the controller here.
    pub controller_listeners: Vec<Endpoint>,
    /// What clients are told; always with a host.
    pub advertised_listeners: Vec<Endpoint>,
    /// What other nodes are told of the controller here; always with a host.
    pub advertised_controller_listeners: Vec<Endpoint>,
    /// The listener that brokers use among themselves.
    pub inter_broker_listener: String,
    /// `controller.listener.names`, in capitals; the first is the one brokers use.
    pub controller_listener_names: Vec<String>,
    /// How each listener is protected.
    pub protocols: ProtocolMap,
    /// `controller.quorum.voters`; empty where the voters stand in the metadata log.
    pub voters: Vec<Voter>,
    /// `controller.quorum.bootstrap.servers`.
    pub bootstrap_servers: Vec<(String, u16)>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Where partitions live.
    pub log_dirs: Vec<PathBuf>,
    /// Where the metadata log lives.
    pub metadata_log_dir: PathBuf,
}

/// Kafka's words for a wildcard address that nobody can connect to.
const NONROUTABLE: &str = "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. \
                           Use a routable IP address.";

impl Node {
    /// Reads the node from its keys; `host_name` is told where no host is given.
    pub fn read(config: &Config, host_name: &str) -> Result<Self, ConfigError> {
        let roles = config.get(keys::PROCESS_ROLES);
        let names = config.get(keys::CONTROLLER_LISTENER_NAMES);
        let controller_listener_names: Vec<String> =
            names.iter().map(|name| name.to_uppercase()).collect();
        let protocols = protocols(config, &controller_listener_names)?;
        let is_controller_listener =
            |endpoint: &Endpoint| controller_listener_names.contains(&endpoint.listener);

        let bound = parse_endpoints(&config.get(keys::LISTENERS), &protocols)
            .and_then(|endpoints| check_ports(&endpoints).map(|()| endpoints))
            .map_err(|reason| config.refuse("listeners", &reason))?;
        let told = match config.get(keys::ADVERTISED_LISTENERS) {
            Some(entries) => parse_endpoints(&entries, &protocols)
                .map_err(|reason| config.refuse("advertised.listeners", &reason))?,
            None => Vec::new(),
        };
        let (controller_listeners, listeners): (Vec<_>, Vec<_>) =
            bound.iter().cloned().partition(is_controller_listener);
        let (told_controllers, told_brokers): (Vec<_>, Vec<_>) =
            told.into_iter().partition(is_controller_listener);
        let brokers_told = config.get(keys::ADVERTISED_LISTENERS).is_some();
        let advertised = if brokers_told { told_brokers } else { listeners.clone() };

        let voters = parse_voters(&config.get(keys::CONTROLLER_QUORUM_VOTERS))
            .map_err(|reason| config.refuse("controller.quorum.voters", &reason))?;
        let bootstrap_servers =
            parse_servers(&config.get(keys::CONTROLLER_QUORUM_BOOTSTRAP_SERVERS))
                .map_err(|reason| config.refuse("controller.quorum.bootstrap.servers", &reason))?;
        let log_dirs: Vec<PathBuf> = config
            .get(keys::LOG_DIRS)
            .unwrap_or_else(|| config.get(keys::LOG_DIR))
            .iter()
            .map(PathBuf::from)
            .collect();
        let first_dir = log_dirs.first().cloned().unwrap_or_default();
        let id = config.get(keys::NODE_ID);
        let mut node = Self {
            id,
            is_broker: roles.iter().any(|role| role == "broker"),
            is_controller: roles.iter().any(|role| role == "controller"),
            advertised_listeners: advertised.into_iter().map(|e| with_host(e, host_name)).collect(),
            advertised_controller_listeners: Vec::new(),
            listeners,
            controller_listeners,
            inter_broker_listener: inter_broker_listener(config, &protocols)?,
            controller_listener_names,
            protocols,
            voters,
            bootstrap_servers,
            rack: config.get(keys::BROKER_RACK),
            metadata_log_dir: config.get(keys::METADATA_LOG_DIR).map_or(first_dir, PathBuf::from),
            log_dirs,
        };
        node.advertised_controller_listeners =
            node.advertise_controllers(&told_controllers, host_name);
        node.check()?;
        Ok(node)
    }

    /// The controller's addresses for others: as advertised, else from the
    /// voters, else as bound.
    fn advertise_controllers(&self, told: &[Endpoint], host_name: &str) -> Vec<Endpoint> {
        let names = self.controller_listener_names.iter().enumerate();
        names
            .filter_map(|(index, name)| {
                let of_name = |endpoint: &&Endpoint| endpoint.listener == *name;
                if let Some(endpoint) = told.iter().find(of_name) {
                    return Some(with_host(endpoint.clone(), host_name));
                }
                let mut endpoint = self.controller_listeners.iter().find(of_name)?.clone();
                if matches!(endpoint.host.as_deref(), None | Some("0.0.0.0")) {
                    endpoint.host = None;
                    let mine = self.voters.iter().find(|voter| voter.id == self.id);
                    if let Some(voter) = mine.filter(|_| index == 0) {
                        endpoint.host = Some(voter.host.clone());
                        endpoint.port = voter.port;
                    }
                }
                Some(with_host(endpoint, host_name))
            })
            .collect()
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.voters.is_empty() && self.bootstrap_servers.is_empty() {
            return conflict(
                "If using process.roles, either controller.quorum.bootstrap.servers must contain the \
                 set of bootstrap controllers or controller.quorum.voters must contain a parseable set \
                 of controllers.",
            );
        }
        if self.is_controller {
            self.check_controller()?;
        } else {
            self.check_broker_only()?;
        }
        if self.is_broker {
            self.check_broker()?;
        }
        let advertised =
            self.advertised_listeners.iter().chain(&self.advertised_controller_listeners);
        if advertised.into_iter().any(|endpoint| endpoint.host.as_deref() == Some("0.0.0.0")) {
            return conflict(NONROUTABLE);
        }
        Ok(())
    }

    fn check_controller(&self) -> Result<(), ConfigError> {
        if !self.is_broker && !self.listeners.is_empty() {
            return conflict(
                "The listeners config must only contain KRaft controller listeners from \
                 controller.listener.names when process.roles=controller",
            );
        }
        if !self.voters.is_empty() && !self.voters.iter().any(|voter| voter.id == self.id) {
            return conflict(format!(
                "If process.roles contains the 'controller' role, the node id {} must be included in \
                 the set of voters controller.quorum.voters",
                self.id
            ));
        }
        let bound = |name: &String| self.controller_listeners.iter().any(|e| e.listener == *name);
        if self.controller_listener_names.is_empty()
            || !self.controller_listener_names.iter().all(bound)
        {
            return conflict(
                "controller.listener.names must only contain values appearing in the 'listeners' \
                 configuration when running the KRaft controller role",
            );
        }
        Ok(())
    }

    fn check_broker_only(&self) -> Result<(), ConfigError> {
        if self.voters.iter().any(|voter| voter.id == self.id) {
            return conflict(format!(
                "If process.roles contains just the 'broker' role, the node id {} must not be included \
                 in the set of voters controller.quorum.voters",
                self.id
            ));
        }
        if !self.controller_listeners.is_empty() {
            return conflict(
                "controller.listener.names must not contain a value appearing in the 'listeners' \
                 configuration when running KRaft with just the broker role",
            );
        }
        for name in &self.controller_listener_names {
            if !self.protocols.contains_key(name) {
                return conflict(format!(
                    "Controller listener with name {name} defined in controller.listener.names not \
                     found in listener.security.protocol.map"
                ));
            }
        }
        Ok(())
    }

    fn check_broker(&self) -> Result<(), ConfigError> {
        let names = |endpoints: &[Endpoint]| {
            endpoints.iter().map(|endpoint| endpoint.listener.clone()).collect::<Vec<_>>()
        };
        let (advertised, bound) = (names(&self.advertised_listeners), names(&self.listeners));
        if advertised.is_empty() {
            return conflict(
                "There must be at least one broker advertised listener. Perhaps all listeners appear \
                 in controller.listener.names?",
            );
        }
        if !advertised.contains(&self.inter_broker_listener) {
            return conflict(format!(
                "inter.broker.listener.name must be a listener name defined in advertised.listeners. \
                 The valid options based on currently configured listeners are {}",
                advertised.join(",")
            ));
        }
        if !advertised.iter().all(|name| bound.contains(name)) {
            return conflict(format!(
                "advertised.listeners listener names must be equal to or a subset of the ones defined \
                 in listeners. Found {}. The valid options based on the current configuration are {}",
                advertised.join(","),
                bound.join(",")
            ));
        }
        Ok(())
    }
}

fn conflict<T>(message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Conflict(message.into()))
}

fn with_host(mut endpoint: Endpoint, host_name: &str) -> Endpoint {
    endpoint.host.get_or_insert_with(|| host_name.to_owned());
    endpoint
}

/// The map as given; while it is not given and nothing is encrypted or
/// authenticated, controller listeners are PLAINTEXT under any name (KIP-902).
fn protocols(config: &Config, controller_names: &[String]) -> Result<ProtocolMap, ConfigError> {
    let key = keys::LISTENER_SECURITY_PROTOCOL_MAP;
    let mut map =
        parse_protocol_map(&config.get(key)).map_err(|reason| config.refuse(key.name, &reason))?;
    if config.is_set(key.name) {
        return Ok(map);
    }
    let is_secure = |name: &str| {
        SecurityProtocol::from_name(name).is_some_and(|p| p != SecurityProtocol::Plaintext)
    };
    let listeners = config.get(keys::LISTENERS);
    let bound = listeners.iter().filter_map(|entry| entry.split_once(':')).map(|(name, _)| name);
    if !controller_names.iter().map(String::as_str).chain(bound).any(is_secure) {
        for name in controller_names {
            map.entry(name.clone()).or_insert(SecurityProtocol::Plaintext);
        }
    }
    Ok(map)
}

fn inter_broker_listener(config: &Config, protocols: &ProtocolMap) -> Result<String, ConfigError> {
    let Some(name) = config.get(keys::INTER_BROKER_LISTENER_NAME) else {
        return Ok(config.get(keys::SECURITY_INTER_BROKER_PROTOCOL));
    };
    if config.is_set(keys::SECURITY_INTER_BROKER_PROTOCOL.name) {
        return conflict(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        );
    }
    let name = name.to_uppercase();
    if !protocols.contains_key(&name) {
        return conflict(format!(
            "Listener with name {name} defined in inter.broker.listener.name not found in \
             listener.security.protocol.map."
        ));
    }
    Ok(name)
}
