//! Tells the controller in which log directory each replica lies, where that is
//! not what the metadata log says (KIP-858): new replicas of a broker with several
//! directories, and logs that were moved while it was down.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use crate::cluster::records::level;
use crate::cluster::{ClusterDelta, ClusterImage};
use crate::controller::DirectoryAssignment;
use crate::handlers::BrokerParts;
use crate::log::store::LogStore;
use crate::sys::clock::sleep;
use crate::types::{BrokerId, TopicPartition};

/// Between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Replicas that the controller is told of in one step.
const AT_ONCE: usize = 2_000;

/// The changed partitions whose log lies elsewhere than the image says.
pub fn misplaced(
    delta: &ClusterDelta,
    image: &ClusterImage,
    node: BrokerId,
    store: &LogStore,
) -> Vec<DirectoryAssignment> {
    if image.metadata_version() < level::DIRECTORY_ASSIGNMENT {
        return Vec::new();
    }
    let changed = delta.changed_partitions.iter().filter_map(|change| {
        let told = change.after.directory_of(node)?;
        let name = TopicPartition::new(Arc::clone(&change.topic), change.partition);
        let directory = store.directory_of(&name).filter(|actual| *actual != told)?;
        let (topic_id, partition) = (change.topic_id, change.partition);
        Some(DirectoryAssignment { topic_id, partition, directory })
    });
    changed.collect()
}

/// Tells the controller, trying again while it cannot be reached.
pub async fn assign(parts: Arc<BrokerParts>, misplaced: Vec<DirectoryAssignment>) {
    for some in misplaced.chunks(AT_ONCE) {
        let mut pause = FIRST_PAUSE;
        while let Err(reason) = try_assign(&parts, some).await {
            debug!("Log directories of {} replicas are told again: {reason}", some.len());
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

async fn try_assign(parts: &BrokerParts, some: &[DirectoryAssignment]) -> Result<(), String> {
    let registration = parts.controller.image().broker(parts.node_id).map(|broker| broker.epoch);
    let epoch = registration.ok_or("the broker is not registered")?;
    let answers = parts.controller.assign_replicas_to_dirs(parts.node_id, epoch, some.to_vec());
    for (assignment, answer) in some.iter().zip(answers.await.map_err(|error| error.to_string())?) {
        if let Err(error) = answer {
            let DirectoryAssignment { topic_id, partition, directory } = assignment;
            warn!("{topic_id}-{partition} stays without directory {directory}: {error}");
        }
    }
    Ok(())
}
