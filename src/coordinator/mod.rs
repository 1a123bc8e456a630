//! Groups and transactions: machines sharded over the partitions of internal
//! topics.
//!
//! Whoever leads a partition of `__consumer_offsets` coordinates the groups that
//! hash to it. When leadership comes, the shard is loaded by replaying the
//! partition; until it has, and once leadership is gone, requests are told so
//! with Kafka's error codes.

pub mod group;
mod journal;
mod load;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{error, info, warn};
use uuid::Uuid;

use self::group::command::{Answer, Command, Listing};
use self::group::{GroupConfig, GroupMachine};
use self::journal::{GroupJournal, Unobserved};
use crate::cluster::ClusterImage;
use crate::partition::table::PartitionTable;
use crate::partition::{Partition, PartitionError};
use crate::protocol::ErrorCode;
use crate::replicated::{Handle, Now, Runtime};
use crate::sys::clock::{Clock, sleep};
use crate::types::{BrokerId, LeaderEpoch, Offset};

/// Before a shard that could not be loaded for want of descriptors or memory is loaded
/// again.
const PAUSE: Duration = Duration::from_secs(1);

/// The topic that keeps groups and their offsets.
pub const GROUP_TOPIC: &str = "__consumer_offsets";

/// Coordinates the groups of this broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GroupCoordinator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    local: BrokerId,
    config: GroupConfig,
    clock: Arc<dyn Clock>,
    shards: Mutex<HashMap<i32, Shard>>,
    /// Offset of the image that `shards` follows.
    applied: watch::Sender<Offset>,
}

/// The groups of one partition.
#[derive(Debug)]
struct Shard {
    /// Of the leadership that this shard serves under.
    epoch: LeaderEpoch,
    state: watch::Receiver<ShardState>,
}

#[derive(Clone, Debug)]
enum ShardState {
    Loading,
    Active(Handle<Command, Answer>),
    Failed,
}

impl GroupCoordinator {
    /// A coordinator without shards; [`Self::apply`] gives it some.
    pub fn new(local: BrokerId, config: GroupConfig, clock: Arc<dyn Clock>) -> Self {
        let shards = Mutex::new(HashMap::new());
        let (applied, _) = watch::channel(Offset::NONE);
        Self { shared: Arc::new(Shared { local, config, clock, shards, applied }) }
    }

    /// Takes up the shards that the image gives this broker and drops those that
    /// it takes away. To be called once the partitions have their new roles.
    pub fn apply(&self, image: &ClusterImage, table: &PartitionTable) {
        let mut shards = self.shared.shards.lock();
        let partitions =
            image.topic(GROUP_TOPIC).map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        let mut index = 0;
        for registration in partitions {
            let leads = registration.leader == Some(self.shared.local);
            let serves = shards.get(&index).map(|shard| shard.epoch);
            if !leads {
                shards.remove(&index);
            } else if serves != Some(registration.leader_epoch)
                && let Ok(partition) = table.get(GROUP_TOPIC, index)
            {
                shards.insert(index, self.elected(partition, registration.leader_epoch));
            }
            index += 1;
        }
        shards.retain(|partition, _| *partition < index);
        drop(shards);
        self.shared.applied.send_replace(image.offset);
    }

    /// Begins to load a shard.
    fn elected(&self, partition: Arc<Partition>, epoch: LeaderEpoch) -> Shard {
        let (sender, state) = watch::channel(ShardState::Loading);
        let (config, clock) = (self.shared.config.clone(), self.shared.clock.clone());
        tokio::spawn(async move {
            let name = partition.name().clone();
            let started = loop {
                match start(partition.clone(), config.clone(), clock.clone()).await {
                    Err(load::LoadError::Partition(error)) if error.passes() => {
                        warn!("Coordinator of {name} is loaded again in a moment: {error}");
                        tokio::select! {
                            () = sleep(PAUSE) => {}
                            // The shard is another's by now.
                            () = sender.closed() => return,
                        }
                    }
                    started => break started,
                }
            };
            match started {
                Ok((runtime, handle)) => {
                    sender.send_replace(ShardState::Active(handle));
                    if let Err(reason) = runtime.run().await {
                        error!("Coordinator of {name} has stopped: {reason}");
                        sender.send_replace(ShardState::Failed);
                    }
                }
                Err(load::LoadError::Partition(PartitionError::NotLeaderOrFollower)) => {
                    // Leadership comes, or is confirmed, with another epoch.
                    sender.send_replace(ShardState::Failed);
                }
                Err(reason) => {
                    error!("Coordinator of {name} cannot be loaded: {reason}");
                    sender.send_replace(ShardState::Failed);
                }
            }
        });
        Shard { epoch, state }
    }

    /// Submits a command to the group's shard.
    ///
    /// Errors: [`ErrorCode::CoordinatorNotAvailable`] while there is no topic for
    /// groups, [`ErrorCode::NotCoordinator`] when another broker leads the shard,
    /// [`ErrorCode::CoordinatorLoadInProgress`] until it has been replayed.
    pub async fn submit(
        &self,
        image: &ClusterImage,
        group: &str,
        command: Command,
    ) -> Result<Answer, ErrorCode> {
        let count = image.topic(GROUP_TOPIC).map_or(0, |topic| topic.partitions.len());
        let shard = shard_of(group, count).ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let state = self.shared.shards.lock().get(&shard).map(|shard| shard.state.borrow().clone());
        let handle = whom_to_ask(state, self.leads(image, shard))?;
        handle.submit(command).await.map_err(|_| ErrorCode::NotCoordinator)
    }

    fn leads(&self, image: &ClusterImage, shard: i32) -> bool {
        let registration = image.partition(GROUP_TOPIC, shard);
        registration.is_some_and(|registration| registration.leader == Some(self.shared.local))
    }

    /// All groups that this broker coordinates.
    pub async fn list(&self) -> Result<Vec<Listing>, ErrorCode> {
        let states: Vec<ShardState> =
            self.shared.shards.lock().values().map(|shard| shard.state.borrow().clone()).collect();
        let mut groups = Vec::new();
        for state in states {
            let handle = match state {
                ShardState::Active(handle) => handle,
                ShardState::Loading => return Err(ErrorCode::CoordinatorLoadInProgress),
                ShardState::Failed => continue,
            };
            if let Ok(Answer::Listed(listed)) = handle.submit(Command::List).await {
                groups.extend(listed);
            }
        }
        Ok(groups)
    }

    /// Forgets what anybody committed for topics that are gone.
    pub async fn topics_deleted(&self, topics: Vec<(Arc<str>, Uuid)>) {
        let handles: Vec<Handle<Command, Answer>> = {
            let shards = self.shared.shards.lock();
            let active = shards.values().filter_map(|shard| match &*shard.state.borrow() {
                ShardState::Active(handle) => Some(handle.clone()),
                _ => None,
            });
            active.collect()
        };
        for handle in handles {
            // A shard that stopped meanwhile has nothing to forget any more.
            let _ = handle.submit(Command::TopicsDeleted(topics.clone())).await;
        }
    }

    /// Waits until the image has been applied and the group's shard has been
    /// loaded or cannot be; no longer when it is another broker's.
    pub async fn loaded(&self, image: &ClusterImage, group: &str) {
        let _ = self.shared.applied.subscribe().wait_for(|applied| *applied >= image.offset).await;
        let count = image.topic(GROUP_TOPIC).map_or(0, |topic| topic.partitions.len());
        let Some(shard) = shard_of(group, count) else { return };
        let state = self.shared.shards.lock().get(&shard).map(|shard| shard.state.clone());
        if let Some(mut state) = state {
            let _ = state.wait_for(|state| !matches!(state, ShardState::Loading)).await;
        }
    }
}

/// Whom to ask when a shard is in that state, or has not been taken up yet. `leads`
/// says whether this broker is to serve it.
fn whom_to_ask(
    state: Option<ShardState>,
    leads: bool,
) -> Result<Handle<Command, Answer>, ErrorCode> {
    match state {
        Some(ShardState::Active(handle)) => Ok(handle),
        Some(ShardState::Loading) => Err(ErrorCode::CoordinatorLoadInProgress),
        None if leads => Err(ErrorCode::CoordinatorLoadInProgress),
        Some(ShardState::Failed) | None => Err(ErrorCode::NotCoordinator),
    }
}

type GroupRuntime = Runtime<GroupMachine, GroupJournal, Unobserved>;

/// Replays a partition into a machine and makes it live.
async fn start(
    partition: Arc<Partition>,
    config: GroupConfig,
    clock: Arc<dyn Clock>,
) -> Result<(GroupRuntime, Handle<Command, Answer>), load::LoadError> {
    let (mut machine, end) = load::replay(partition.clone(), GroupMachine::new(config)).await?;
    machine.go_live(now(&*clock, end));
    if end > Offset::ZERO {
        info!("Loaded {} up to offset {end}", partition.name());
    }
    let journal = GroupJournal::new(partition, end, clock.clone());
    Ok(Runtime::new(machine, journal, Unobserved, clock))
}

fn now(clock: &dyn Clock, next_offset: Offset) -> Now {
    Now { wall: clock.wall(), monotonic: clock.monotonic(), next_offset }
}

/// The partition of an internal topic that a key belongs to: Java's hash of the
/// key's UTF-16, made positive. None when there are no partitions.
pub fn shard_of(key: &str, count: usize) -> Option<i32> {
    let count = i32::try_from(count).ok().filter(|count| *count > 0)?;
    let hash = key
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    Some(hash.checked_abs().unwrap_or(0) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_while_a_shard_is_loaded_shall_ask_again() {
        let refused = |state, leads| whom_to_ask(state, leads).err();
        let loading = Some(ErrorCode::CoordinatorLoadInProgress);
        assert_eq!(refused(Some(ShardState::Loading), true), loading);
        assert_eq!(refused(None, true), loading);
        let not_here = Some(ErrorCode::NotCoordinator);
        assert_eq!(refused(None, false), not_here);
        assert_eq!(refused(Some(ShardState::Failed), true), not_here);
    }

    #[test]
    fn keys_hash_as_in_java() {
        assert_eq!(shard_of("", 50), Some(0));
        assert_eq!(shard_of("a", 50), Some(97 % 50));
        // "polygenelubricants" is the word whose hash is -2^31.
        assert_eq!(shard_of("polygenelubricants", 50), Some(0));
        assert_eq!(shard_of("my-group", 50), Some(1_906_497_762 % 50));
        assert_eq!(shard_of("any", 0), None);
    }
}
