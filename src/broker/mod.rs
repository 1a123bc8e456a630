//! A whole node: builds the parts, wires them, and takes them down in order.
//!
//! Up: directories are locked and checked, the metadata log is read and led, logs
//! are loaded, listeners open, the broker registers and follows the metadata until
//! its own registration has taken effect; then clients are let in and the broker is
//! unfenced. Down: the controller lets the broker go, clients are answered and shut
//! out, logs are closed and marked as clean, and the controller goes last.

mod background;
mod cleaner;
mod directories;
mod failure;
mod follower;
mod lifecycle;
mod listeners;
#[cfg(test)]
mod move_tests;
mod quorum;
mod start_error;
mod storage;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use self::background::Background;
use self::cleaner::LogCleaner;
use self::failure::Failure;
use self::follower::{Follower, apply_settings};
use self::lifecycle::{BrokerState, Intervals, LifecycleHandle, Wish};
pub use self::start_error::StartError;
use self::storage::Machine;
use crate::cluster::{ClusterDelta, ClusterImage, features};
use crate::config::listeners::Endpoint;
use crate::config::{Config, RuntimeConfig, keys};
use crate::controller::{Controller, ControllerCloser, RegisterBroker};
use crate::coordinator::GroupCoordinator;
use crate::coordinator::group::GroupConfig;
use crate::handlers::{self, BrokerParts, FetchSessions, MetadataAnswers, ProducerIds};
use crate::log::store::LogStore;
use crate::network::{Admissions, Dispatcher, Listener, Serving, Shared};
use crate::partition::moves::{MoveLimits, Moves};
use crate::partition::table::{PartitionTable, Surroundings};
use crate::protocol::apis::ListenerKind;
use crate::sys::clock::SystemClock;
use crate::sys::descriptors;
use crate::sys::random::Random;
use crate::sys::real_disk::RealDisk;
use crate::sys::thread::Runtimes;
use crate::types::{BrokerId, TopicPartition};

/// How long a stop waits for the controller to let the broker go.
const LET_GO: Duration = Duration::from_millis(400);

/// How long a stop waits for requests at work.
const LAST_ANSWERS: Duration = Duration::from_millis(150);

/// A running node.
#[derive(Debug)]
pub struct Broker {
    parts: Arc<BrokerParts>,
    store: Arc<LogStore>,
    clients: Vec<Serving>,
    controllers: Vec<Serving>,
    lifecycle: LifecycleHandle,
    follower: Follower,
    background: Background,
    cleaner: Option<LogCleaner>,
    controlling: JoinHandle<()>,
    quorum: ControllerCloser,
    failure: Failure,
    runtimes: Runtimes,
}

impl Broker {
    /// Starts a node on this machine and waits until it serves clients.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let machine = Machine {
            disk: RealDisk::shared(),
            clock: SystemClock::shared(),
            random: Random::from_system(),
            descriptors: descriptors::limit(),
        };
        Self::start_on(config, &machine).await
    }

    async fn start_on(config: Config, machine: &Machine) -> Result<Self, StartError> {
        quorum::check_roles(config.node())?;
        if config.is_without_file() {
            quorum::format_if_new(&config, machine)?;
        }
        let store = storage::open(&config, machine)?;
        let clients = listeners::bind(&config, ListenerKind::Broker)?;
        let controllers = listeners::bind(&config, ListenerKind::Controller)?;
        let runtimes = Runtimes::one_per_core("ottla").map_err(StartError::Thread)?;

        let node = config.node();
        let told_clients = with_ports(&node.advertised_listeners, &clients);
        let told_controllers = with_ports(&node.advertised_controller_listeners, &controllers);
        let settings = RuntimeConfig::new(config);
        let active = quorum::start(&settings, &store, &told_controllers, machine)?;
        let (controller, serving, quorum) = active.into_parts();
        let failure = Failure::new();
        let controlling = runtimes.first().spawn({
            let failure = failure.clone();
            async move {
                if let Err(reason) = serving.await {
                    failure.report(format!("the controller has failed: {reason}"));
                }
            }
        });
        failure.watch(&store);
        let image = quorum.caught_up(&controller).await?;
        storage::load(&store, &settings.current(), &image)?;

        let moves = moves(&settings, machine, &store, &controller, &runtimes);
        let parts = Arc::new(parts(&settings, &store, &controller, &image, moves, machine));
        let (answers, handles) = (dispatcher(&parts), runtimes.handles());
        let shared = listeners::shared(&settings.current(), machine.descriptors, answers, handles);
        let controllers = serve(controllers, &shared)?;
        let follower = follow(&parts, machine.descriptors, &shared.admissions, &runtimes)?;
        let lifecycle =
            register(&parts, &store, &told_clients, &follower, &failure, &runtimes).await?;
        lifecycle.wish(Wish::Serve);
        if !lifecycle.reaches(BrokerState::Running, lifecycle.patience()).await {
            return Err(StartError::StaysFenced);
        }
        // The first client must find this broker in the cluster: some remember for
        // minutes that there was none.
        let running = parts.controller.image().offset;
        let _ = follower.applied.clone().wait_for(|applied| *applied >= running).await;
        let clients = serve(clients, &shared)?;
        let jobs = storage::jobs(&settings.current(), &store);
        let background =
            Background::start(jobs, machine.clock.clone()).map_err(StartError::Thread)?;
        let cleaner = LogCleaner::start(settings, store.clone(), machine.clock.clone())
            .map_err(StartError::Thread)?;
        info!("[KafkaServer id={}] started", parts.node_id);
        Ok(Self {
            parts,
            store,
            clients,
            controllers,
            lifecycle,
            follower,
            background,
            cleaner,
            controlling,
            quorum,
            failure,
            runtimes,
        })
    }

    /// Waits for a failure that this broker cannot outlive, such as that of the
    /// metadata log's disk; what it was.
    pub async fn failed(&self) -> String {
        self.failure.happens().await
    }

    /// `node.id`.
    pub fn node_id(&self) -> i32 {
        self.parts.node_id.0
    }

    /// Where clients can connect, by listener in the order of `listeners`; with the
    /// real port where the configuration left it to the system.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.clients.iter().map(Serving::local_address).collect()
    }

    /// Where the controller listens.
    pub fn controller_addresses(&self) -> Vec<SocketAddr> {
        self.controllers.iter().map(Serving::local_address).collect()
    }

    /// Stops cleanly: within a second, unless the disk needs longer.
    pub async fn stop(self) {
        let node = self.parts.node_id;
        self.lifecycle.wish(Wish::Stop);
        if !self.lifecycle.reaches(BrokerState::ShuttingDown, LET_GO).await {
            warn!("[KafkaServer id={node}] the controller did not let the broker go in time");
        }
        for listener in self.clients {
            listener.stop(LAST_ANSWERS).await;
        }
        self.background.stop();
        if let Some(cleaner) = self.cleaner {
            cleaner.stop();
        }
        self.follower.stop();
        self.parts.moves.stop();
        self.store.close_clean(self.lifecycle.epoch);
        for listener in self.controllers {
            listener.stop(LAST_ANSWERS).await;
        }
        self.controlling.abort();
        self.quorum.close();
        self.runtimes.stop();
        info!("[KafkaServer id={node}] shut down completed");
    }
}

/// Advertised endpoints; a port that was left to the system is the one it chose.
fn with_ports(advertised: &[Endpoint], bound: &[Listener]) -> Vec<Endpoint> {
    let with_port = |endpoint: &Endpoint| {
        let listener = bound.iter().find(|listener| listener.info().name == endpoint.listener);
        match listener {
            Some(listener) if endpoint.port == 0 => {
                Endpoint { port: listener.local_address().port(), ..endpoint.clone() }
            }
            _ => endpoint.clone(),
        }
    };
    advertised.iter().map(with_port).collect()
}

fn parts(
    settings: &RuntimeConfig,
    store: &Arc<LogStore>,
    controller: &Controller,
    image: &ClusterImage,
    moves: Arc<Moves>,
    machine: &Machine,
) -> BrokerParts {
    let config = settings.current();
    let node_id = BrokerId(config.node().id);
    let of_topics = settings.clone();
    let surroundings = Surroundings {
        local: node_id,
        store: store.clone(),
        log_configs: Box::new(move |image, topic| {
            storage::log_config(&of_topics.current(), image, topic)
        }),
        max_lag: config.millis(keys::REPLICA_LAG_TIME_MAX_MS),
        clock: machine.clock.clone(),
    };
    let sessions = config.get(keys::MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS);
    BrokerParts {
        node_id,
        cluster_id: store.cluster_id().into(),
        config: settings.clone(),
        image: watch::Sender::new(Arc::new(ClusterImage::empty(store.cluster_id()))),
        controller: controller.clone(),
        partitions: PartitionTable::new(surroundings),
        log_store: store.clone(),
        moves,
        fetch_sessions: FetchSessions::new(
            usize::try_from(sessions).unwrap_or(0),
            machine.random.clone(),
        ),
        groups: GroupCoordinator::new(node_id, GroupConfig::of(&config), machine.clock.clone()),
        producer_ids: ProducerIds::default(),
        metadata_answers: MetadataAnswers::default(),
        features: features::supported(image),
        clock: machine.clock.clone(),
        random: machine.random.clone(),
    }
}

fn moves(
    settings: &RuntimeConfig,
    machine: &Machine,
    store: &Arc<LogStore>,
    controller: &Controller,
    runtimes: &Runtimes,
) -> Arc<Moves> {
    let config = settings.current();
    let threads = config.get(keys::NUM_REPLICA_ALTER_LOG_DIRS_THREADS);
    let threads = threads.and_then(|threads| usize::try_from(threads).ok());
    let limits = MoveLimits {
        threads: threads.unwrap_or_else(|| store.directories().len()),
        piece: usize::try_from(config.get(keys::REPLICA_FETCH_MAX_BYTES)).unwrap_or(1).max(1),
        backoff: config.millis(keys::REPLICA_FETCH_BACKOFF_MS),
    };
    let node = BrokerId(config.node().id);
    let tell = directories::telling(controller.clone(), node, runtimes.first());
    let settings = settings.clone();
    let per_second = Box::new(move || {
        settings.current().get(keys::REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND)
    });
    Moves::new(store.clone(), limits, per_second, machine.clock.clone(), tell)
}

fn dispatcher(parts: &Arc<BrokerParts>) -> Arc<Dispatcher> {
    let parts = parts.clone();
    Arc::new(move |connection, frame| handlers::handle(&parts, connection, frame))
}

fn serve(listeners: Vec<Listener>, shared: &Arc<Shared>) -> Result<Vec<Serving>, StartError> {
    let serve = |listener: Listener| {
        let name = listener.info().name.clone();
        info!("Awaiting socket connections on {name} at {}", listener.local_address());
        listener.serve(shared.clone())
    };
    listeners.into_iter().map(serve).collect::<Result<_, _>>().map_err(StartError::Thread)
}

fn follow(
    parts: &Arc<BrokerParts>,
    descriptors: usize,
    admissions: &Arc<Admissions>,
    runtimes: &Runtimes,
) -> Result<Follower, StartError> {
    let (following, runtime) = (parts.clone(), runtimes.first());
    let admissions = admissions.clone();
    let apply = move |delta: &ClusterDelta, image: &ClusterImage| {
        let _tasks_go_there = runtime.enter();
        if apply_settings(&following.config, following.node_id, delta, image) {
            admissions.set_limits(listeners::limits(&following.config.current(), descriptors));
        }
        following.partitions.apply(delta, image);
        for change in &delta.changed_partitions {
            let name = TopicPartition::new(change.topic.clone(), change.partition);
            following.moves.resume(&following.partitions, &name);
        }
        let misplaced =
            directories::misplaced(delta, image, following.node_id, &following.log_store);
        if !misplaced.is_empty() {
            runtime.spawn(directories::assign(
                following.controller.clone(),
                following.node_id,
                misplaced,
            ));
        }
        following.groups.apply(image, &following.partitions);
        if !delta.deleted_topics.is_empty() {
            let deleted = delta.deleted_topics.iter();
            let deleted = deleted.map(|topic| (topic.name.clone(), topic.id)).collect();
            let groups = following.groups.clone();
            runtime.spawn(async move { groups.topics_deleted(deleted).await });
        }
        following.image.send_replace(Arc::new(image.clone()));
    };
    Follower::start(parts.controller.watch(), Box::new(apply), runtimes.first())
        .map_err(StartError::Thread)
}

/// Registers the broker, sets its heartbeats going, and waits until its own
/// registration has taken effect here.
async fn register(
    parts: &Arc<BrokerParts>,
    store: &LogStore,
    endpoints: &[Endpoint],
    follower: &Follower,
    failure: &Failure,
    runtimes: &Runtimes,
) -> Result<LifecycleHandle, StartError> {
    let config = parts.config.current();
    let registration = RegisterBroker {
        id: parts.node_id,
        cluster_id: parts.cluster_id.clone(),
        incarnation_id: parts.random.uuid(),
        endpoints: endpoints.iter().map(listeners::registered).collect(),
        features: parts.features.clone(),
        rack: config.node().rack.as_deref().map(Into::into),
        directories: store.online().map(|directory| directory.id()).collect(),
        previous_epoch: store.previous_broker_epoch(),
    };
    let (controller, applied) = (parts.controller.clone(), follower.applied.clone());
    let intervals = Intervals::of(&config);
    let failed = failure.directories();
    let registering =
        lifecycle::register(controller, registration, intervals, applied, failed, &parts.clock);
    let (lifecycle, handle) = registering.await.map_err(StartError::Unregistered)?;
    runtimes.first().spawn(lifecycle.run());
    if !handle.reaches(BrokerState::Recovery, handle.patience()).await {
        return Err(StartError::StaysFenced);
    }
    Ok(handle)
}
