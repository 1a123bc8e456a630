//! The server as a process: starts a broker, waits for a signal, stops it.

use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use crate::broker::{Broker, StartError};
use crate::config::Config;
use crate::sys::descriptors;

/// Exit code of a start that failed.
const FAILED: u8 = 1;

/// Runs a broker until SIGTERM or SIGINT. 0 after a clean stop, 1 when it does
/// not start or cannot go on.
pub fn run(config: Config) -> ExitCode {
    if let Err((error, limit)) = descriptors::raise_limit() {
        warn!("The limit of open files stays at {limit}: {error}");
    }
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&StartError::Thread(error)),
    };
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> ExitCode {
    // Before the start, so that a signal during it is not lost.
    let mut stop = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return failed(&StartError::Thread(error)),
    };
    for warning in config.warnings() {
        warn!("{warning}");
    }
    let started = tokio::select! {
        started = Broker::start(config) => started,
        name = stop.wait() => {
            info!("Stopped by {name} before the start was done");
            return ExitCode::SUCCESS;
        }
    };
    let broker = match started {
        Ok(broker) => broker,
        Err(error) => return failed(&error),
    };
    // Scripts and test containers wait for this line: requests are served.
    info!("[KafkaRaftServer nodeId={}] Kafka Server started", broker.node_id());
    let code = tokio::select! {
        name = stop.wait() => {
            info!("Terminating process due to signal {name}");
            ExitCode::SUCCESS
        }
        reason = broker.failed() => {
            error!("The broker cannot go on: {reason}");
            ExitCode::from(FAILED)
        }
    };
    broker.stop().await;
    code
}

fn failed(error: &StartError) -> ExitCode {
    error!("The broker does not start: {error}");
    ExitCode::from(FAILED)
}

/// Signals that end the server.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Waits for one; its name.
    async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
