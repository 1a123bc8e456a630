//! The thread that compacts logs, one after another (`log.cleaner.*`).

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::info;

use crate::config::{Config, RuntimeConfig, keys};
use crate::log::compaction::cleaner::{CleanerLimits, Pace};
use crate::log::store::LogStore;
use crate::sys::clock::Clock;
use crate::sys::thread::{Priority, spawn};

/// Time over which a rate of bytes is kept, as Kafka measures it.
const RATE_PERIOD: Duration = Duration::from_millis(300);

/// The thread.
#[derive(Debug)]
pub struct LogCleaner {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl LogCleaner {
    /// Starts it; `None` when `log.cleaner.enable` is off.
    pub fn start(
        settings: RuntimeConfig,
        store: Arc<LogStore>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Option<Self>> {
        if !settings.current().get(keys::LOG_CLEANER_ENABLE) {
            return Ok(None);
        }
        info!("Starting the log cleaner");
        let (stop, stopped) = mpsc::channel();
        let thread = spawn("kafka-log-cleaner-thread-0", Priority::Background, move || {
            work(&settings, &store, &*clock, stopped);
        })?;
        Ok(Some(Self { stop, thread }))
    }

    /// Ends it: what it was at is left as it was.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

fn work(
    settings: &RuntimeConfig,
    store: &LogStore,
    clock: &dyn Clock,
    stopped: mpsc::Receiver<()>,
) {
    let mut throttle =
        Throttle { clock, stopped, per_second: 0.0, since: clock.monotonic(), bytes: 0 };
    loop {
        let config = settings.current();
        throttle.per_second = config.get(keys::LOG_CLEANER_IO_MAX_BYTES_PER_SECOND);
        if store.clean_dirtiest(&limits(&config), &mut throttle) {
            continue;
        }
        let backoff = config.millis(keys::LOG_CLEANER_BACKOFF_MS).max(Duration::from_millis(1));
        if !throttle.rest(backoff) {
            return;
        }
    }
}

/// All that is meant for the threads: there is one.
fn limits(config: &Config) -> CleanerLimits {
    let map_bytes = config.get(keys::LOG_CLEANER_DEDUPE_BUFFER_SIZE);
    let buffer = config.get(keys::LOG_CLEANER_IO_BUFFER_SIZE) / 2;
    CleanerLimits {
        map_bytes: u64::try_from(map_bytes).unwrap_or(0).min(i32::MAX as u64),
        load_factor: config.get(keys::LOG_CLEANER_IO_BUFFER_LOAD_FACTOR),
        buffer_bytes: usize::try_from(buffer).unwrap_or(0).max(4096),
    }
}

/// Keeps to `log.cleaner.io.max.bytes.per.second`, and notices the stop.
struct Throttle<'c> {
    clock: &'c dyn Clock,
    stopped: mpsc::Receiver<()>,
    per_second: f64,
    since: Duration,
    bytes: u64,
}

impl Throttle<'_> {
    /// False when it is time to stop.
    fn rest(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}

impl Pace for Throttle<'_> {
    fn moved(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        if self.stopped.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
            return false;
        }
        let worth = Duration::try_from_secs_f64(self.bytes as f64 / self.per_second.max(1.0))
            .unwrap_or(Duration::MAX);
        let took = self.clock.monotonic().saturating_sub(self.since);
        if worth < RATE_PERIOD && took < RATE_PERIOD {
            return true;
        }
        let goes_on = self.rest(worth.saturating_sub(took));
        (self.since, self.bytes) = (self.clock.monotonic(), 0);
        goes_on
    }
}
