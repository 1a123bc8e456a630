//! From a metadata directory to a running controller.

use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use uuid::Uuid;

use super::bootstrap::default_records;
use super::configs::ConfigRules;
use super::journal::RaftJournal;
use super::machine::{ControllerMachine, ControllerOptions};
use super::publisher::{Publisher, Screens, SnapshotRules};
use super::{ApiError, Controller, RegisterController, not_controller};
use crate::cluster::records::{MetadataRecord, RecordError, level};
use crate::cluster::{ClusterImage, Endpoint, SecurityProtocol, features};
use crate::raft::{
    Loaded, MetadataLog, MetadataLogOptions, OpenError, Raft, RaftError, ReplicaKey, VoterEndpoint,
};
use crate::replicated::{Machine as _, Runtime};
use crate::sys::random::Random;
use crate::types::{BrokerId, Offset};

/// What a controller is started with.
#[derive(Debug)]
pub struct ControllerStart {
    /// Where the metadata log is, and how it is kept.
    pub log: MetadataLogOptions,
    /// This node and its metadata directory.
    pub me: ReplicaKey,
    /// The controller listeners, as others reach them.
    pub endpoints: Vec<VoterEndpoint>,
    /// Identity of the cluster.
    pub cluster_id: Arc<str>,
    /// What it decides by.
    pub options: ControllerOptions,
    /// What is known of settings.
    pub rules: Arc<dyn ConfigRules>,
    /// When snapshots are written.
    pub snapshots: SnapshotRules,
    /// Dice, for topic ids and placement.
    pub random: Random,
}

/// Why a controller does not start.
#[derive(Debug, thiserror::Error)]
pub enum ControllerStartError {
    /// The metadata log cannot be opened or read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What formatting left does not read.
    #[error("the bootstrap snapshot: {0}")]
    Bootstrap(#[from] RecordError),
    /// This node cannot take the lead.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// The first records cannot be written.
    #[error("the controller cannot begin: {0}")]
    Begin(String),
}

/// Serves the controller until it fails or everybody has let go of it; why it
/// ended, when that was a failure.
pub type Serving = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A controller that leads, and what must be run for it to answer.
pub struct ActiveController {
    /// The handle for everybody.
    pub controller: Controller,
    /// To be run on a runtime.
    pub serving: Serving,
    raft: Arc<Raft>,
    /// Once this is committed, the log is bootstrapped.
    began_at: Offset,
}

impl std::fmt::Debug for ActiveController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActiveController").field("controller", &self.controller).finish()
    }
}

/// Closes the metadata log once nobody uses the controller any more.
#[derive(Debug)]
pub struct ControllerCloser {
    raft: Arc<Raft>,
    began_at: Offset,
}

impl ActiveController {
    /// Opens and reads the metadata log of a formatted directory and takes the
    /// lead. Reads and writes files; the answers come once `serving` runs.
    pub fn start(start: ControllerStart) -> Result<Self, ControllerStartError> {
        let ControllerStart {
            log: log_options,
            me,
            endpoints,
            cluster_id,
            options,
            rules,
            snapshots,
            random,
        } = start;
        let clock = Arc::clone(&log_options.clock);
        let incarnation_id = random.uuid();
        let listeners = endpoints.iter().map(listener).collect();
        let empty = ClusterImage::empty(cluster_id);
        let mut machine = ControllerMachine::new(empty, options, rules, random);
        let mut log = MetadataLog::open(log_options)?;
        let bootstrap = load(&mut log, &mut machine)?;
        let inherited = machine.image().offset;
        let metadata_version = machine.image().metadata_version();
        let raft = Arc::new(Raft::lead(log, me, endpoints)?);
        tracing::info!(
            "[QuorumController id={}] Becoming the active controller at epoch {}, next write \
             offset {}.",
            me.id,
            raft.epoch(),
            raft.log_end()
        );

        // Shown to nobody until the first commit: what was read may be ahead of it.
        let nothing = Arc::new(ClusterImage::empty(Arc::clone(&machine.image().cluster_id)));
        let image = Arc::new(ArcSwap::new(Arc::clone(&nothing)));
        let (sender, published) = watch::channel(nothing);
        let screens = Screens { image: Arc::clone(&image), published: sender };
        let journal = RaftJournal::new(Arc::clone(&raft), Arc::clone(&clock), metadata_version);
        let publisher =
            Publisher::new(screens, Arc::clone(&raft), Arc::clone(&clock), snapshots, inherited);
        let (mut runtime, handle) = Runtime::new(machine, journal, publisher, clock);
        let began = runtime.begin(|machine, now| machine.activate(now, &bootstrap));
        began.map_err(|error| ControllerStartError::Begin(error.to_string()))?;
        let began_at = raft.log_end();
        let controller =
            Controller { machine: handle, image, published, raft: Arc::downgrade(&raft) };
        let registering = register(controller.clone(), me.id, incarnation_id, listeners);
        let serving = async move {
            let (served, ()) = tokio::join!(runtime.run(), registering);
            served.map_err(|error| error.to_string())
        };
        Ok(Self { controller, serving: Box::pin(serving), raft, began_at })
    }

    /// The handle, the future to run, and what closes the log at the end.
    pub fn into_parts(self) -> (Controller, Serving, ControllerCloser) {
        let closer = ControllerCloser { raft: self.raft, began_at: self.began_at };
        (self.controller, self.serving, closer)
    }
}

impl ControllerCloser {
    /// Waits until everything that the log held at the start, and what an empty
    /// one begins with, is committed; the image of it. Needs `serving` to run.
    pub async fn caught_up(&self, controller: &Controller) -> Result<Arc<ClusterImage>, ApiError> {
        let mut committed = self.raft.committed();
        let began_at = self.began_at;
        let reached = committed.wait_for(|high_watermark| *high_watermark >= began_at).await;
        reached.map_err(|_| not_controller())?;
        let mut published = controller.watch();
        let image = published.wait_for(|image| image.metadata_version() > 0).await;
        image.map(|image| Arc::clone(&image)).map_err(|_| not_controller())
    }

    /// Syncs and closes the metadata log: after everybody has let go of the
    /// controller. Waits for the disk.
    pub fn close(&self) {
        self.raft.close();
    }
}

/// Registers this controller once the log is bootstrapped, in formats that know
/// of controllers (KIP-919).
async fn register(
    controller: Controller,
    id: BrokerId,
    incarnation_id: Uuid,
    endpoints: Vec<Endpoint>,
) {
    let mut published = controller.watch();
    let image = match published.wait_for(|image| image.metadata_version() > 0).await {
        Ok(image) => Arc::clone(&image),
        Err(_gone) => return,
    };
    drop(published);
    if image.metadata_version() < level::CONTROLLER_REGISTRATION {
        return;
    }
    let features = features::supported(&image);
    let request = RegisterController { id, incarnation_id, endpoints, features };
    if let Err(error) = controller.register_controller(request).await {
        tracing::warn!("[ControllerRegistrationManager id={id}] {error}");
    }
}

/// Controller listeners are not protected so far.
fn listener(endpoint: &VoterEndpoint) -> Endpoint {
    Endpoint {
        listener: endpoint.name.as_str().into(),
        host: endpoint.host.as_str().into(),
        port: endpoint.port,
        security_protocol: SecurityProtocol::Plaintext,
    }
}

/// Reads the log into the machine; the records that an empty log begins with.
fn load(
    log: &mut MetadataLog,
    machine: &mut ControllerMachine,
) -> Result<Vec<MetadataRecord>, ControllerStartError> {
    let bootstrap = log.load(|loaded| {
        match loaded {
            Loaded::Snapshot(id, value) => {
                machine.replay(id.end_offset + -1, &MetadataRecord::decode(value)?)?;
            }
            Loaded::SnapshotEnd(id, at) => machine.set_origin(|image| {
                image.offset = id.end_offset + -1;
                (image.epoch, image.timestamp) = (id.epoch, at);
            }),
            Loaded::Record { offset, epoch, timestamp, value } => {
                machine.replay(offset, &MetadataRecord::decode(value)?)?;
                machine.set_origin(|image| (image.epoch, image.timestamp) = (epoch, timestamp));
            }
        }
        Ok(())
    })?;
    let kraft_version = log.kraft_version();
    machine.set_origin(|image| image.kraft_version = kraft_version);
    if bootstrap.records.is_empty() {
        return Ok(default_records());
    }
    let records = bootstrap.records.iter().map(|value| MetadataRecord::decode(value));
    Ok(records.collect::<Result<_, _>>()?)
}
