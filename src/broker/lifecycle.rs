//! The broker's standing with the controller: registered, caught up, unfenced,
//! and at the end let go.
//!
//! ```text
//! STARTING ──caught up──▶ RECOVERY ──unfenced──▶ RUNNING
//!     │                      │                      │ stop is wanted
//!     └──────────┬───────────┘                      ▼
//!                │ stop is wanted      PENDING_CONTROLLED_SHUTDOWN
//!                ▼                                  │ the controller lets it go
//!          SHUTTING_DOWN ◀──────────────────────────┘
//! ```
//!
//! A broker says by heartbeats that it lives and how far it has followed the
//! metadata log. While it starts it wants to stay fenced, hidden from clients.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{Config, keys};
use crate::controller::{BrokerHeartbeat, Controller, HeartbeatReply, RegisterBroker};
use crate::sys::clock::{Clock, sleep, within};
use crate::types::{BrokerId, DirectoryId, Offset};

/// Kafka's names, without their underscores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerState {
    /// Not yet registered, or its own registration is not yet applied here.
    Starting,
    /// Logs and metadata are in order; still fenced.
    Recovery,
    /// Serves clients.
    Running,
    /// Hands its partitions over.
    PendingControlledShutdown,
    /// Nothing holds it any more.
    ShuttingDown,
}

impl BrokerState {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "STARTING",
            Self::Recovery => "RECOVERY",
            Self::Running => "RUNNING",
            Self::PendingControlledShutdown => "PENDING_CONTROLLED_SHUTDOWN",
            Self::ShuttingDown => "SHUTTING_DOWN",
        }
    }
}

/// What the broker wants of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Stay hidden: not everything is in place.
    Fence,
    /// Serve clients.
    Serve,
    /// Stop, after its partitions have found other leaders.
    Stop,
}

/// Between heartbeats while the state is about to change.
const HURRY: Duration = Duration::from_millis(10);

/// Between attempts to register.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often the broker is to be heard of, and how long it may try to register.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// `broker.heartbeat.interval.ms`
    heartbeat: Duration,
    /// `initial.broker.registration.timeout.ms`
    registration: Duration,
}

impl Intervals {
    /// As the settings say.
    pub fn of(config: &Config) -> Self {
        Self {
            heartbeat: config.millis(keys::BROKER_HEARTBEAT_INTERVAL_MS),
            registration: config.millis(keys::INITIAL_BROKER_REGISTRATION_TIMEOUT_MS),
        }
    }
}

/// Registers, then sends heartbeats until the controller lets the broker go.
pub struct Lifecycle {
    controller: Controller,
    node: BrokerId,
    epoch: i64,
    intervals: Intervals,
    applied: watch::Receiver<Offset>,
    failed: watch::Receiver<Vec<DirectoryId>>,
    wish: watch::Receiver<Wish>,
    state: watch::Sender<BrokerState>,
}

/// The other end of a [`Lifecycle`]. Letting it go lets the broker go at once.
#[derive(Debug)]
pub struct LifecycleHandle {
    wish: watch::Sender<Wish>,
    state: watch::Receiver<BrokerState>,
    /// The epoch of this registration.
    pub epoch: i64,
    patience: Duration,
}

impl LifecycleHandle {
    /// Asks the controller for it, from the next heartbeat on.
    pub fn wish(&self, wish: Wish) {
        self.wish.send_replace(wish);
    }

    /// Waits for a state, at most for `patience`; false when it did not come.
    pub async fn reaches(&self, wanted: BrokerState, patience: Duration) -> bool {
        let mut state = self.state.clone();
        let reached = state.wait_for(|state| *state == wanted);
        within(patience, reached).await.is_some_and(|outcome| outcome.is_ok())
    }

    /// How long a change of state at the start may take.
    pub fn patience(&self) -> Duration {
        self.patience
    }
}

/// Registers the broker, trying again while there is no active controller; then
/// the heartbeats are [`Lifecycle::run`]. `applied` is the last metadata record
/// that took effect here, `failed` are the log directories that have failed.
pub async fn register(
    controller: Controller,
    registration: RegisterBroker,
    intervals: Intervals,
    applied: watch::Receiver<Offset>,
    failed: watch::Receiver<Vec<DirectoryId>>,
    clock: &Arc<dyn Clock>,
) -> Result<(Lifecycle, LifecycleHandle), String> {
    let deadline = clock.monotonic() + intervals.registration;
    let node = registration.id;
    let mut pause = FIRST_PAUSE;
    let epoch = loop {
        match controller.register_broker(registration.clone()).await {
            Ok(epoch) => break epoch,
            Err(error) if clock.monotonic() >= deadline => return Err(error.to_string()),
            Err(error) => info!("Registration of broker {node} is tried again: {error}"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    info!("[BrokerLifecycleManager id={node}] Registered broker {node} with epoch {epoch}");
    let (wish_sender, wish) = watch::channel(Wish::Fence);
    let (state, state_receiver) = watch::channel(BrokerState::Starting);
    let lifecycle = Lifecycle { controller, node, epoch, intervals, applied, failed, wish, state };
    let patience = intervals.registration;
    Ok((lifecycle, LifecycleHandle { wish: wish_sender, state: state_receiver, epoch, patience }))
}

impl Lifecycle {
    /// Sends heartbeats until the controller lets the broker go, or the handle is
    /// gone.
    pub async fn run(mut self) {
        loop {
            let wish = *self.wish.borrow_and_update();
            let heartbeat = self.heartbeat(wish);
            match self.controller.broker_heartbeat(heartbeat).await {
                Ok(reply) => self.answered(wish, reply),
                Err(error) => warn!("[BrokerLifecycleManager id={}] {error}", self.node),
            }
            if *self.state.borrow() == BrokerState::ShuttingDown {
                return;
            }
            let pause =
                if self.is_about_to_change(wish) { HURRY } else { self.intervals.heartbeat };
            if !self.pause(pause).await {
                return;
            }
        }
    }

    /// Waits for the next heartbeat's time, or for a reason to send it now; false
    /// when nobody wants the broker any more.
    async fn pause(&mut self, pause: Duration) -> bool {
        let is_starting = *self.state.borrow() == BrokerState::Starting;
        let reason = async {
            tokio::select! {
                wish = self.wish.changed() => wish.is_ok(),
                applied = self.applied.changed(), if is_starting => applied.is_ok(),
                Ok(()) = self.failed.changed() => true,
            }
        };
        within(pause, reason).await.unwrap_or(true)
    }

    fn heartbeat(&mut self, wish: Wish) -> BrokerHeartbeat {
        BrokerHeartbeat {
            id: self.node,
            epoch: self.epoch,
            metadata_offset: *self.applied.borrow_and_update(),
            want_fence: wish == Wish::Fence,
            want_shut_down: wish == Wish::Stop,
            offline_directories: self.failed.borrow_and_update().clone(),
            cordoned_directories: None,
        }
    }

    fn answered(&self, wish: Wish, reply: HeartbeatReply) {
        use BrokerState::{PendingControlledShutdown, Recovery, Running, ShuttingDown, Starting};
        let state = *self.state.borrow();
        let next = match state {
            Starting | Recovery if wish == Wish::Stop => ShuttingDown,
            Starting if reply.is_caught_up => Recovery,
            Recovery if !reply.is_fenced => Running,
            Running if wish == Wish::Stop && reply.should_shut_down => ShuttingDown,
            Running if wish == Wish::Stop => PendingControlledShutdown,
            PendingControlledShutdown if reply.should_shut_down => ShuttingDown,
            same => same,
        };
        if next == state {
            return;
        }
        let (node, from, to) = (self.node, state.name(), next.name());
        let what = match next {
            Recovery => "The broker has caught up. ",
            Running => "The broker has been unfenced. ",
            ShuttingDown => "The broker may shut down now. ",
            _ => "",
        };
        info!("[BrokerLifecycleManager id={node}] {what}Transitioning from {from} to {to}.");
        self.state.send_replace(next);
    }

    /// True while the next heartbeat is likely to bring another state.
    fn is_about_to_change(&self, wish: Wish) -> bool {
        match *self.state.borrow() {
            BrokerState::Starting | BrokerState::PendingControlledShutdown => true,
            BrokerState::Recovery => wish == Wish::Serve,
            BrokerState::Running => wish == Wish::Stop,
            BrokerState::ShuttingDown => false,
        }
    }
}
