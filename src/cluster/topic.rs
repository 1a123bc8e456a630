//! Topics and partitions as the metadata log knows them. `[P]`

use std::sync::Arc;

use crate::types::{BrokerId, DirectoryId, LeaderEpoch, TopicId};

/// A topic with all its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name.
    pub name: Arc<str>,
    /// Its identity: a topic created anew under the same name has another.
    pub id: TopicId,
    /// Partition `n` stands at index `n`.
    pub partitions: Vec<Arc<PartitionRegistration>>,
}

impl Topic {
    /// The partition with this number.
    pub fn partition(&self, partition: i32) -> Option<&PartitionRegistration> {
        self.partitions.get(usize::try_from(partition).ok()?).map(|partition| &**partition)
    }
}

/// Where a partition's replicas are and who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionRegistration {
    /// Replicas; the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each replica, in the order of `replicas`.
    pub directories: Vec<DirectoryId>,
    /// Replicas in sync with the leader.
    pub isr: Vec<BrokerId>,
    /// Replicas that a reassignment will remove.
    pub removing_replicas: Vec<BrokerId>,
    /// Replicas that a reassignment is adding.
    pub adding_replicas: Vec<BrokerId>,
    /// Eligible leader replicas (KIP-966): not in sync, yet hold all that was
    /// acknowledged with enough in-sync replicas.
    pub elr: Vec<BrokerId>,
    /// Who was in `elr` or led before an unclean stop took them out.
    pub last_known_elr: Vec<BrokerId>,
    /// The leader; `None` when no replica may lead.
    pub leader: Option<BrokerId>,
    /// Whether the leader may have lost acknowledged records.
    pub leader_recovery_state: LeaderRecoveryState,
    /// Grows with every change of the leader (KIP-101).
    pub leader_epoch: LeaderEpoch,
    /// Grows with every change of this registration.
    pub partition_epoch: i32,
}

impl PartitionRegistration {
    /// The directory of a broker's replica; `None` when it has no replica.
    pub fn directory_of(&self, broker: BrokerId) -> Option<DirectoryId> {
        let at = self.replicas.iter().position(|replica| *replica == broker)?;
        self.directories.get(at).copied()
    }
}

/// Whether a leader was elected cleanly (KIP-704), with Kafka's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderRecoveryState {
    /// The leader has all acknowledged records.
    #[default]
    Recovered = 0,
    /// The leader came from outside the ISR.
    Recovering = 1,
}

impl LeaderRecoveryState {
    /// The state with Kafka's number; `None` when there is none.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Recovered),
            1 => Some(Self::Recovering),
            _ => None,
        }
    }

    /// Kafka's number.
    pub fn code(self) -> i8 {
        self as i8
    }
}
