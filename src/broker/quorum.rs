//! The controller of this node: its directory formatted where that is its own
//! affair, its log opened and led.
//!
//! The quorum is this node alone so far; a configuration that names other voters,
//! or only one of the roles, is refused.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::info;

use super::StartError;
use super::storage::Machine;
use crate::config::listeners::Endpoint;
use crate::config::{Config, Node, Rules, RuntimeConfig, keys};
use crate::controller::bootstrap::{Levels, format_metadata, levels};
use crate::controller::{ActiveController, ControllerOptions, ControllerStart, SnapshotRules};
use crate::log::meta_properties::MetaProperties;
use crate::log::store::LogStore;
use crate::raft::{MetadataLogOptions, ReplicaKey, Retention, Voter, VoterEndpoint, VoterSet};
use crate::types::{BrokerId, uuid_text};

/// Levels of `kraft.version` that this node can work with.
const KRAFT_VERSIONS: (i16, i16) = (0, 1);

/// Refuses what only a cluster of several nodes could do.
pub fn check_roles(node: &Node) -> Result<(), StartError> {
    if !(node.is_broker && node.is_controller) {
        let reason = "process.roles must be broker,controller";
        return Err(StartError::Unserved(reason.to_owned()));
    }
    match node.voters.iter().find(|voter| voter.id != node.id) {
        Some(other) => Err(StartError::Unserved(format!(
            "controller.quorum.voters names node {}; the quorum must be this node alone",
            other.id
        ))),
        None => Ok(()),
    }
}

/// Formats the directories that are not formatted yet, for a node that was started
/// without a file: somebody is trying things out.
pub fn format_if_new(config: &Config, machine: &Machine) -> Result<(), StartError> {
    let node = config.node();
    let mut dirs: Vec<PathBuf> = vec![node.metadata_log_dir.clone()];
    dirs.extend(node.log_dirs.iter().filter(|dir| **dir != node.metadata_log_dir).cloned());
    let mut new = Vec::new();
    let mut cluster_id = None;
    for dir in dirs {
        let identity = match machine.disk.exists(&dir) {
            true => MetaProperties::read(&*machine.disk, &dir)?,
            false => None,
        };
        match identity {
            Some(identity) => cluster_id = Some(identity.cluster_id),
            None => new.push(dir),
        }
    }
    let cluster_id = cluster_id.unwrap_or_else(|| uuid_text(machine.random.uuid()));
    for dir in new {
        let failed = |source| StartError::Format { dir: dir.clone(), source };
        machine.disk.create_dir_all(&dir).map_err(failed)?;
        let directory_id = machine.random.uuid();
        if dir == node.metadata_log_dir {
            let key = ReplicaKey { id: BrokerId(node.id), directory: Some(directory_id) };
            let endpoints = voter_endpoints(&node.advertised_controller_listeners);
            let voter = Voter { key, endpoints, kraft_versions: KRAFT_VERSIONS };
            let now = machine.clock.wall();
            let levels = levels(&Levels::new(), true)?;
            format_metadata(&machine.disk, &dir, &levels, Some(&VoterSet::new([voter])), now)?;
        }
        let identity = MetaProperties {
            cluster_id: cluster_id.clone(),
            node_id: BrokerId(node.id),
            directory_id: Some(directory_id),
        };
        identity.write(&*machine.disk, &dir).map_err(failed)?;
        info!("Formatted {} for cluster {cluster_id}", dir.display());
    }
    Ok(())
}

/// Opens the metadata log and takes the lead. `endpoints` are the controller's
/// listeners with their real ports.
pub fn start(
    config: &RuntimeConfig,
    store: &LogStore,
    endpoints: &[Endpoint],
    machine: &Machine,
) -> Result<ActiveController, StartError> {
    let settings = config.current();
    let node = settings.node();
    let me = BrokerId(node.id);
    let directory = store.metadata_directory();
    let start = ControllerStart {
        log: log_options(&settings, store, machine),
        me: ReplicaKey { id: me, directory: Some(directory.id()) },
        endpoints: voter_endpoints(endpoints),
        cluster_id: store.cluster_id().into(),
        options: ControllerOptions {
            node_id: me,
            num_partitions: settings.get(keys::NUM_PARTITIONS),
            default_replication_factor: i16::try_from(
                settings.get(keys::DEFAULT_REPLICATION_FACTOR),
            )
            .unwrap_or(i16::MAX),
            min_insync_replicas: settings.get(keys::MIN_INSYNC_REPLICAS),
            unclean_leader_election: settings.get(keys::UNCLEAN_LEADER_ELECTION_ENABLE),
            session_timeout: settings.millis(keys::BROKER_SESSION_TIMEOUT_MS),
            max_idle_interval: settings.millis(keys::METADATA_MAX_IDLE_INTERVAL_MS),
            local_broker: Some(me),
        },
        rules: Arc::new(Rules::new(config.clone())),
        snapshots: SnapshotRules {
            max_bytes: unsigned(
                settings.get(keys::METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS),
            ),
            max_interval: settings.millis(keys::METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS),
        },
        random: machine.random.clone(),
    };
    Ok(ActiveController::start(start)?)
}

fn log_options(config: &Config, store: &LogStore, machine: &Machine) -> MetadataLogOptions {
    let node = config.node();
    let voters = node.voters.iter().map(|voter| {
        let name = node.controller_listener_names.first().cloned().unwrap_or_default();
        Voter {
            key: ReplicaKey { id: BrokerId(voter.id), directory: None },
            endpoints: vec![VoterEndpoint { name, host: voter.host.clone(), port: voter.port }],
            kraft_versions: KRAFT_VERSIONS,
        }
    });
    MetadataLogOptions {
        directory: store.metadata_directory().path().to_owned(),
        files: store.files().clone(),
        clock: machine.clock.clone(),
        segment_bytes: unsigned(config.get(keys::METADATA_LOG_SEGMENT_BYTES).into()),
        segment_ms: config.get(keys::METADATA_LOG_SEGMENT_MS),
        retention: Retention {
            bytes: config.get(keys::METADATA_MAX_RETENTION_BYTES),
            ms: config.get(keys::METADATA_MAX_RETENTION_MS),
        },
        static_voters: VoterSet::new(voters),
    }
}

fn voter_endpoints(endpoints: &[Endpoint]) -> Vec<VoterEndpoint> {
    let endpoint = |endpoint: &Endpoint| VoterEndpoint {
        name: endpoint.listener.clone(),
        host: endpoint.host.clone().unwrap_or_default(),
        port: endpoint.port,
    };
    endpoints.iter().map(endpoint).collect()
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
