//! The broker's log directories: opened at the start, looked after in the
//! background.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::background::Job;
use crate::cluster::{ClusterImage, ConfigResource};
use crate::config::{Config, keys, topic};
use crate::log::LogConfig;
use crate::log::store::{LogStore, StoreError, StoreOptions};
use crate::sys::clock::Clock;
use crate::sys::disk::Disk;
use crate::sys::random::Random;
use crate::types::{BrokerId, TopicId, TopicPartition};

/// Most files that are kept open beyond those in use.
const OPEN_FILES: usize = 32_768;

/// Files that are kept open beyond those in use, where so many descriptors may be.
pub fn open_files(descriptors: usize) -> usize {
    (descriptors / 2).min(OPEN_FILES)
}

/// How often it is looked whether a segment was rolled and is to be synced, and
/// whether deleted files have had their delay.
const TIDYING: Duration = Duration::from_secs(3);

/// The door to the machine that the store is given.
pub struct Machine {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Dice.
    pub random: Random,
    /// Files and connections that may be open.
    pub descriptors: usize,
}

/// Locks the directories and checks whose they are.
pub fn open(config: &Config, machine: &Machine) -> Result<Arc<LogStore>, StoreError> {
    let node = config.node();
    let options = StoreOptions {
        disk: machine.disk.clone(),
        clock: machine.clock.clone(),
        random: machine.random.clone(),
        log_dirs: node.log_dirs.clone(),
        metadata_log_dir: node.metadata_log_dir.clone(),
        node_id: BrokerId(node.id),
        recovery_threads_per_dir: usize::try_from(
            config.get(keys::NUM_RECOVERY_THREADS_PER_DATA_DIR),
        )
        .unwrap_or(1),
        producer_expiration_ms: config.get(keys::PRODUCER_ID_EXPIRATION_MS).into(),
        open_files: open_files(machine.descriptors),
    };
    LogStore::open(options).map(Arc::new)
}

/// The settings in force for the logs of a topic.
pub fn log_config(config: &Config, image: &ClusterImage, name: &str) -> LogConfig {
    let overrides = image.settings(&ConfigResource::topic(name)).cloned().unwrap_or_default();
    topic::log_config(&overrides, config)
}

/// Opens all logs that the metadata know; the others are put aside.
pub fn load(store: &LogStore, config: &Config, image: &ClusterImage) -> Result<(), StoreError> {
    let config_of = |topic: &str| Arc::new(log_config(config, image, topic));
    let is_stray = |name: &TopicPartition, id: TopicId| is_unknown(image, name, id);
    let node = BrokerId(config.node().id);
    let directory_of = |name: &TopicPartition| {
        image.partition(&name.topic, name.partition).and_then(|told| told.directory_of(node))
    };
    let report = store.load(&config_of, &is_stray, &directory_of)?;
    for (name, reason) in &report.unusable {
        warn!("The log of {name} cannot be used: {reason}");
    }
    info!(
        "Loaded {} logs in {} ms ({} recovered, {} bytes of torn tails cut, {} strays)",
        report.logs,
        report.took.as_millis(),
        report.recovered,
        report.bytes_cut,
        report.strays
    );
    Ok(())
}

fn is_unknown(image: &ClusterImage, name: &TopicPartition, id: TopicId) -> bool {
    let known = image.topic(&name.topic).filter(|topic| topic.id == id);
    known.and_then(|topic| topic.partition(name.partition)).is_none()
}

/// What the directories need from time to time.
pub fn jobs(config: &Config, store: &Arc<LogStore>) -> Vec<Job> {
    let job = |every: Duration, work: fn(&LogStore)| {
        let store = store.clone();
        Job::new(every.max(Duration::from_millis(1)), move || work(&store))
    };
    vec![
        job(TIDYING, LogStore::run_flush),
        job(TIDYING, LogStore::run_removals),
        job(config.millis(keys::LOG_RETENTION_CHECK_INTERVAL_MS), LogStore::run_retention),
        job(
            config.millis(keys::LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS),
            LogStore::run_recovery_point_checkpoint,
        ),
        job(
            config.millis(keys::LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS),
            LogStore::run_log_start_checkpoint,
        ),
        job(
            config.millis(keys::REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS),
            LogStore::run_high_watermark_checkpoint,
        ),
        job(
            config.millis(keys::PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS),
            LogStore::run_producer_expiration,
        ),
    ]
}
