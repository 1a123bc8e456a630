//! From settings to sockets: which addresses to bind, and the limits of
//! connections.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::warn;

use super::StartError;
use super::storage::open_files;
use crate::cluster;
use crate::config::listeners::{Endpoint, SecurityProtocol, parse_ip_overrides};
use crate::config::{Config, Key, keys};
use crate::network::{
    Admissions, Budget, ConnectionLimits, ConnectionSettings, Dispatcher, Listener, ListenerInfo,
    Shared, SocketSettings,
};
use crate::protocol::apis::ListenerKind;

/// Memory for large frames where `queued.max.request.bytes` sets no limit. Kafka
/// has none then, and dies of it.
const DEFAULT_BUDGET: usize = 128 << 20;

/// An idle time that never comes.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Binds the listeners of a kind that this node has, if it has that role.
pub fn bind(config: &Config, kind: ListenerKind) -> Result<Vec<Listener>, StartError> {
    let node = config.node();
    let endpoints = match kind {
        ListenerKind::Broker if node.is_broker => &node.listeners,
        ListenerKind::Controller if node.is_controller => &node.controller_listeners,
        _ => return Ok(Vec::new()),
    };
    endpoints.iter().map(|endpoint| bind_one(config, endpoint, kind)).collect()
}

fn bind_one(
    config: &Config,
    endpoint: &Endpoint,
    kind: ListenerKind,
) -> Result<Listener, StartError> {
    if endpoint.protocol != SecurityProtocol::Plaintext {
        let (listener, protocol) = (endpoint.listener.clone(), endpoint.protocol.name());
        return Err(StartError::UnservedProtocol { listener, protocol });
    }
    let info = ListenerInfo { name: endpoint.listener.clone(), kind };
    let settings = SocketSettings {
        backlog: config.get(keys::SOCKET_LISTEN_BACKLOG_SIZE),
        send_buffer: given_size(config, keys::SOCKET_SEND_BUFFER_BYTES),
        receive_buffer: given_size(config, keys::SOCKET_RECEIVE_BUFFER_BYTES),
    };
    let host = endpoint.host.as_deref().unwrap_or_default();
    Ok(Listener::bind(info, host, endpoint.port, settings)?)
}

/// The size of a socket's buffer if somebody chose it. Kafka's default of 100 KiB
/// would hold back fast links over long distances, so it stays with the kernel.
fn given_size(config: &Config, key: Key<i32>) -> Option<usize> {
    config.is_set(key.name).then(|| usize::try_from(config.get(key)).ok()).flatten()
}

/// An endpoint as the broker registers it.
pub fn registered(endpoint: &Endpoint) -> cluster::Endpoint {
    cluster::Endpoint {
        listener: endpoint.listener.as_str().into(),
        host: endpoint.host.as_deref().unwrap_or_default().into(),
        port: endpoint.port,
        security_protocol: match endpoint.protocol {
            SecurityProtocol::Plaintext => cluster::SecurityProtocol::Plaintext,
            SecurityProtocol::Ssl => cluster::SecurityProtocol::Ssl,
            SecurityProtocol::SaslPlaintext => cluster::SecurityProtocol::SaslPlaintext,
            SecurityProtocol::SaslSsl => cluster::SecurityProtocol::SaslSsl,
        },
    }
}

/// What the connections of all listeners share.
pub fn shared(
    config: &Config,
    descriptors: usize,
    dispatcher: Arc<Dispatcher>,
    runtimes: Vec<Handle>,
) -> Arc<Shared> {
    let max_idle = match config.get(keys::CONNECTIONS_MAX_IDLE_MS) {
        millis @ 0.. => Duration::from_millis(millis.unsigned_abs()).min(NEVER),
        _ => NEVER,
    };
    let max_frame = config.get(keys::SOCKET_REQUEST_MAX_BYTES);
    let budget = match config.get(keys::QUEUED_MAX_REQUEST_BYTES) {
        bytes @ 1.. => usize::try_from(bytes).unwrap_or(usize::MAX),
        _ => DEFAULT_BUDGET,
    };
    let frames = unsigned(config.get(keys::QUEUED_MAX_REQUESTS));
    Arc::new(Shared {
        dispatcher,
        settings: Arc::new(ConnectionSettings { max_frame: unsigned(max_frame), max_idle }),
        admissions: Admissions::new(limits(config, descriptors)),
        budget: Budget::new(budget, frames),
        runtimes,
        next_id: 0.into(),
    })
}

/// The limits of connections in force now. Of the descriptors some are left for files:
/// those that logs keep open, and some for what is opened for a moment.
pub fn limits(config: &Config, descriptors: usize) -> ConnectionLimits {
    let for_files = open_files(descriptors) + descriptors / 16;
    let text = config.get(keys::MAX_CONNECTIONS_PER_IP_OVERRIDES);
    // The text was checked when the settings were read.
    let overrides = parse_ip_overrides(&text).unwrap_or_default();
    ConnectionLimits {
        total: unsigned(config.get(keys::MAX_CONNECTIONS)).min(descriptors - for_files),
        listeners: of_listeners(config),
        per_ip: unsigned(config.get(keys::MAX_CONNECTIONS_PER_IP)),
        overrides: resolved(&overrides),
    }
}

/// `listener.name.{listener}.max.connections`, where it is a number.
fn of_listeners(config: &Config) -> HashMap<String, usize> {
    let listeners = config.node().listeners.iter().map(|endpoint| &endpoint.listener);
    let limit = |name: &String| {
        let text = config.of_listener(name, keys::MAX_CONNECTIONS.name)?;
        Some((name.clone(), unsigned(text.trim().parse().ok()?)))
    };
    listeners.filter_map(limit).collect()
}

fn resolved(overrides: &[(String, i32)]) -> HashMap<IpAddr, usize> {
    let mut limits = HashMap::new();
    for (host, limit) in overrides {
        match (host.as_str(), 0).to_socket_addrs() {
            Ok(addresses) => {
                let limit = unsigned(*limit);
                limits.extend(addresses.map(|address| (address.ip().to_canonical(), limit)));
            }
            Err(error) => {
                let key = keys::MAX_CONNECTIONS_PER_IP_OVERRIDES.name;
                warn!("{key}: the host {host} has no effect, for it has no address: {error}");
            }
        }
    }
    limits
}

fn unsigned(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_resolved_and_unknown_hosts_passed_over() {
        let given = [("localhost", 3), ("10.0.0.1", 0), ("no such host", 9)];
        let given = given.map(|(host, limit)| (host.to_owned(), limit));
        let limits = resolved(&given);
        assert_eq!(limits.get(&IpAddr::from([127, 0, 0, 1])), Some(&3));
        assert_eq!(limits.get(&IpAddr::from([10, 0, 0, 1])), Some(&0));
    }

    #[test]
    fn only_listeners_of_the_nodes_roles_are_bound() {
        let overrides = [
            ("process.roles", "broker"),
            ("node.id", "1"),
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("controller.quorum.bootstrap.servers", "127.0.0.1:1"),
        ];
        let config = Config::from_overrides(&overrides).unwrap();
        let listeners = bind(&config, ListenerKind::Broker).unwrap();
        assert_eq!(listeners.len(), 1);
        assert_ne!(listeners[0].local_address().port(), 0);
        assert!(bind(&config, ListenerKind::Controller).unwrap().is_empty());
    }

    #[test]
    fn protocols_that_are_not_served_end_the_start() {
        let overrides = [
            ("listeners", "SSL://127.0.0.1:0,CONTROLLER://:0"),
            ("listener.security.protocol.map", "SSL:SSL,CONTROLLER:PLAINTEXT"),
            ("inter.broker.listener.name", "SSL"),
        ];
        let config = Config::from_overrides(&overrides).unwrap();
        let error = bind(&config, ListenerKind::Broker).unwrap_err();
        assert!(error.to_string().contains("SSL"), "{error}");
    }
}
