//! Tells the controller in which log directory each replica lies, where that is
//! not what the metadata log says (KIP-858): new replicas of a broker with several
//! directories, and logs that were moved while it was down.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::{debug, warn};

use crate::cluster::records::level;
use crate::cluster::{ClusterDelta, ClusterImage};
use crate::controller::{Controller, DirectoryAssignment};
use crate::log::store::LogStore;
use crate::partition::moves::Tell;
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
        // It is about to go there.
        if store.future_of(&name).is_some_and(|future| future.directory().id() == told) {
            return None;
        }
        let (topic_id, partition) = (change.topic_id, change.partition);
        Some(DirectoryAssignment { topic_id, partition, directory })
    });
    changed.collect()
}

/// Tells the controller, trying again while it cannot be reached.
pub async fn assign(controller: Controller, node: BrokerId, misplaced: Vec<DirectoryAssignment>) {
    for some in misplaced.chunks(AT_ONCE) {
        let mut pause = FIRST_PAUSE;
        while let Err(reason) = try_assign(&controller, node, some).await {
            debug!("Log directories of {} replicas are told again: {reason}", some.len());
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// True when the controller has noted all of them.
async fn try_assign(
    controller: &Controller,
    node: BrokerId,
    some: &[DirectoryAssignment],
) -> Result<bool, String> {
    let registration = controller.image().broker(node).map(|broker| broker.epoch);
    let epoch = registration.ok_or("the broker is not registered")?;
    let answers = controller.assign_replicas_to_dirs(node, epoch, some.to_vec());
    let mut all = true;
    for (assignment, answer) in some.iter().zip(answers.await.map_err(|error| error.to_string())?) {
        if let Err(error) = answer {
            let DirectoryAssignment { topic_id, partition, directory } = assignment;
            all = false;
            warn!("{topic_id}-{partition} stays without directory {directory}: {error}");
        }
    }
    Ok(all)
}

/// Tells the controller of single replicas that move: see
/// [`crate::partition::moves`].
pub fn telling(controller: Controller, node: BrokerId, runtime: Handle) -> Box<Tell> {
    Box::new(move |topic_id, partition, directory| {
        let (heard, receiver) = mpsc::channel();
        let controller = controller.clone();
        runtime.spawn(async move {
            let one = [DirectoryAssignment { topic_id, partition, directory }];
            let mut pause = FIRST_PAUSE;
            while controller.image().metadata_version() >= level::DIRECTORY_ASSIGNMENT {
                match try_assign(&controller, node, &one).await {
                    Ok(true) => break,
                    Ok(false) => return,
                    Err(reason) => debug!("A log directory is told again: {reason}"),
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            let _ = heard.send(());
        });
        receiver
    })
}
