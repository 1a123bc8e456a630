//! Who leads a partition, and what a change of its ISR entails. `[P]`
//!
//! Every change of a partition passes through [`PartitionChange`], which applies
//! the rules in Kafka's order: finish a reassignment, keep eligible leader
//! replicas (KIP-966), elect, and write only what differs.

use std::collections::BTreeSet;

use crate::cluster::records::level;
use crate::cluster::{LeaderRecoveryState, PartitionRegistration};
use crate::protocol::messages::partition_change_record::PartitionChangeRecord;
use crate::types::{BrokerId, DirectoryId, TopicId};

/// `leader` of a change that leaves it alone.
const LEADER_UNCHANGED: i32 = -2;
/// `leader` of a partition that nobody leads.
const NO_LEADER: i32 = -1;
/// From 3.6-IV0 on a smaller ISR alone needs no new leader epoch (KAFKA-15021).
const NO_BUMP_ON_SHRINK: i16 = 12;

/// Whom an election looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// The leader that is, or else the first replica that may lead.
    Online,
    /// The first of all replicas, or else as above.
    Preferred,
    /// As `Online`, and at last anyone, whatever is lost by that.
    Unclean,
}

/// Where a partition's replicas are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// All replicas, while a reassignment lasts also those that will go.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each, in the same order.
    pub directories: Vec<DirectoryId>,
    /// Those that will go.
    pub removing: Vec<BrokerId>,
    /// Those that must be in sync before the reassignment ends.
    pub adding: Vec<BrokerId>,
}

impl Assignment {
    /// A partition's assignment as it is.
    pub fn of(partition: &PartitionRegistration) -> Self {
        Self {
            replicas: partition.replicas.clone(),
            directories: partition.directories.clone(),
            removing: partition.removing_replicas.clone(),
            adding: partition.adding_replicas.clone(),
        }
    }
}

/// A partition, and what is to become of it.
pub struct PartitionChange<'a> {
    /// As it is.
    pub partition: &'a PartitionRegistration,
    /// Its topic.
    pub topic_id: TopicId,
    /// Its number.
    pub number: i32,
    /// Where its replicas shall be.
    pub assignment: Assignment,
    /// Who shall be in sync.
    pub isr: Vec<BrokerId>,
    /// Who may lead: active, on a directory that is online.
    pub may_lead: &'a dyn Fn(BrokerId) -> bool,
    /// Whom to elect.
    pub election: Election,
    /// A broker that lost its page cache, and with it its place in the ELR.
    pub unclean_shutdown: Option<BrokerId>,
    /// Replicas in sync below which acks=all is refused.
    pub min_isr: usize,
    /// Whether eligible leader replicas are kept.
    pub elr_enabled: bool,
    /// Finalized `metadata.version`.
    pub metadata_version: i16,
}

/// The sets that a change works on, before they become a record.
struct Target {
    assignment: Assignment,
    isr: Vec<BrokerId>,
    elr: Vec<BrokerId>,
}

struct Elected {
    leader: Option<BrokerId>,
    unclean: bool,
}

impl PartitionChange<'_> {
    /// The record that does it; `None` when nothing changes.
    pub fn record(self) -> Option<PartitionChangeRecord> {
        let mut target = Target {
            assignment: self.assignment.clone(),
            isr: self.isr.clone(),
            elr: self.partition.elr.clone(),
        };
        target.complete_reassignment();
        self.keep_eligible(&mut target);
        let mut record = PartitionChangeRecord {
            topic_id: self.topic_id,
            partition_id: self.number,
            ..Default::default()
        };
        self.elect(&mut target, &mut record);
        self.write(&target, &mut record);
        let nothing = PartitionChangeRecord {
            topic_id: self.topic_id,
            partition_id: self.number,
            ..Default::default()
        };
        (record != nothing).then_some(record)
    }

    /// Below the minimum, those who leave the ISR stay eligible, but for one
    /// that may have lost what it had.
    fn keep_eligible(&self, target: &mut Target) {
        if !self.elr_enabled {
            return;
        }
        if target.isr.len() >= self.min_isr {
            target.elr.clear();
            return;
        }
        let held: BTreeSet<_> = target.elr.iter().chain(&self.partition.isr).copied().collect();
        let stays = |replica: &BrokerId| {
            !target.isr.contains(replica) && self.unclean_shutdown != Some(*replica)
        };
        target.elr = held.into_iter().filter(stays).collect();
    }

    fn elect(&self, target: &mut Target, record: &mut PartitionChangeRecord) {
        let Elected { leader, unclean } = self.candidate(target);
        if leader == self.partition.leader {
            return;
        }
        record.leader = leader.map_or(NO_LEADER, |leader| leader.0);
        let Some(leader) = leader else { return };
        if target.elr.contains(&leader) {
            target.isr = vec![leader];
            target.elr.retain(|replica| *replica != leader);
        } else if unclean {
            record.isr = Some(vec![leader.0]);
            if self.partition.leader_recovery_state != LeaderRecoveryState::Recovering {
                record.leader_recovery_state = LeaderRecoveryState::Recovering.code();
            }
        }
    }

    /// The preferred leader if that is wanted and may be; the leader that stays if
    /// it may; else the first replica that may lead; else the last known one; else,
    /// if unclean leaders are allowed, anyone.
    fn candidate(&self, target: &Target) -> Elected {
        let valid = |replica: &BrokerId| {
            let in_sync = target.isr.contains(replica)
                || (target.isr.is_empty() && target.elr.contains(replica));
            in_sync && (self.may_lead)(*replica)
        };
        let replicas = &target.assignment.replicas;
        let preferred = replicas.iter().take(usize::from(self.election == Election::Preferred));
        let others = self.partition.leader.iter().chain(replicas);
        let clean = preferred.chain(others).find(|replica| valid(replica));
        if clean.is_some() {
            return Elected { leader: clean.copied(), unclean: false };
        }
        let anyone = || {
            let allowed = replicas.iter().filter(|_| self.election == Election::Unclean);
            allowed.copied().find(|replica| (self.may_lead)(*replica))
        };
        let leader = self.last_known_leader(target).or_else(anyone);
        Elected { leader, unclean: leader.is_some() }
    }

    /// Nobody is in sync or eligible, but it is known who led last.
    fn last_known_leader(&self, target: &Target) -> Option<BrokerId> {
        let [last] = self.partition.last_known_elr.as_slice() else { return None };
        let nobody = self.elr_enabled && target.isr.is_empty() && target.elr.is_empty();
        (nobody && (self.may_lead)(*last)).then_some(*last)
    }

    /// Writes what differs from the partition as it is.
    fn write(&self, target: &Target, record: &mut PartitionChangeRecord) {
        let partition = self.partition;
        let same_leader = partition.leader.map_or(NO_LEADER, |leader| leader.0);
        let dropped = |replica| !target.assignment.replicas.contains(replica);
        if record.leader == LEADER_UNCHANGED && partition.replicas.iter().any(dropped) {
            record.leader = same_leader;
        }
        let unclean = record.isr.is_some();
        let elr = if unclean || !self.elr_enabled { &[] } else { target.elr.as_slice() };
        if elr != partition.elr {
            record.eligible_leader_replicas = Some(ids(elr));
        }
        let may_empty = !target.isr.is_empty() || self.elr_enabled;
        if !unclean && may_empty && target.isr != partition.isr {
            record.isr = Some(ids(&target.isr));
        }
        let shrunk = record
            .isr
            .as_ref()
            .is_some_and(|isr| partition.isr.iter().any(|replica| !isr.contains(&replica.0)));
        let bump = self.metadata_version < NO_BUMP_ON_SHRINK;
        if record.leader == LEADER_UNCHANGED && shrunk && bump {
            record.leader = same_leader;
        }
        self.write_last_known(record);
        self.write_assignment(target, record);
    }

    /// Remembers the leader of a partition that loses it, until it has one again.
    fn write_last_known(&self, record: &mut PartitionChangeRecord) {
        if !self.elr_enabled {
            return;
        }
        let known = &self.partition.last_known_elr;
        if record.leader == NO_LEADER && known.is_empty() {
            record.last_known_elr = Some(ids(self.partition.leader.as_slice()));
        } else if record.leader >= 0 && !known.is_empty() {
            record.last_known_elr = Some(Vec::new());
        }
    }

    fn write_assignment(&self, target: &Target, record: &mut PartitionChangeRecord) {
        let partition = self.partition;
        let Assignment { replicas, directories, removing, adding } = &target.assignment;
        let has_directories = self.metadata_version >= level::DIRECTORY_ASSIGNMENT;
        if has_directories && *directories != partition.directories {
            record.directories = Some(directories.clone());
        }
        let changed = |new: &[BrokerId], old: &[BrokerId]| (new != old).then(|| ids(new));
        record.replicas = changed(replicas, &partition.replicas);
        record.removing_replicas = changed(removing, &partition.removing_replicas);
        record.adding_replicas = changed(adding, &partition.adding_replicas);
    }
}

impl Target {
    /// Ends a reassignment when all that is being added is in sync, and, when
    /// the partition shrinks, all that stays.
    fn complete_reassignment(&mut self) {
        let Assignment { replicas, directories, removing, adding } = &mut self.assignment;
        if removing.is_empty() && adding.is_empty() {
            return;
        }
        let stays = |replica: &&BrokerId| !removing.contains(replica);
        let isr: Vec<_> = self.isr.iter().filter(stays).copied().collect();
        let kept = replicas.iter().zip(&*directories).filter(|(replica, _)| stays(replica));
        let kept: Vec<_> = kept.map(|(replica, directory)| (*replica, *directory)).collect();
        let emptied = !removing.is_empty() && (isr.is_empty() || kept.is_empty());
        let waiting = adding.iter().any(|replica| !isr.contains(replica));
        let shrinks = adding.len() < removing.len();
        let lagging = kept.iter().any(|(replica, _)| !isr.contains(replica));
        if emptied || waiting || (shrinks && lagging) {
            return;
        }
        (*replicas, *directories) = kept.into_iter().unzip();
        self.isr = isr;
        removing.clear();
        adding.clear();
    }
}

fn ids(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LeaderEpoch;

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn partition(isr: &[i32], leader: i32) -> PartitionRegistration {
        PartitionRegistration {
            replicas: brokers(&[1, 2, 3]),
            directories: vec![DirectoryId::from_u128(1); 3],
            isr: brokers(isr),
            leader: (leader >= 0).then_some(BrokerId(leader)),
            leader_epoch: LeaderEpoch(1),
            ..PartitionRegistration::default()
        }
    }

    struct Case {
        partition: PartitionRegistration,
        isr: &'static [i32],
        alive: &'static [i32],
        election: Election,
        elr: bool,
        lost: Option<i32>,
    }

    fn change(case: &Case) -> Option<PartitionChangeRecord> {
        let alive = brokers(case.alive);
        PartitionChange {
            partition: &case.partition,
            topic_id: TopicId::nil(),
            number: 0,
            assignment: Assignment::of(&case.partition),
            isr: brokers(case.isr),
            may_lead: &|broker| alive.contains(&broker),
            election: case.election,
            unclean_shutdown: case.lost.map(BrokerId),
            min_isr: 2,
            elr_enabled: case.elr,
            metadata_version: 33,
        }
        .record()
    }

    fn case(partition: PartitionRegistration, isr: &'static [i32], alive: &'static [i32]) -> Case {
        Case { partition, isr, alive, election: Election::Online, elr: false, lost: None }
    }

    #[test]
    fn the_leader_that_goes_is_followed_by_the_next_in_sync() {
        let record = change(&case(partition(&[1, 3], 1), &[3], &[2, 3])).unwrap();
        assert_eq!((record.leader, record.isr), (3, Some(vec![3])));
    }

    #[test]
    fn a_leader_that_may_stay_stays_without_a_new_epoch() {
        let record = change(&case(partition(&[1, 2], 2), &[2], &[2, 3])).unwrap();
        assert_eq!((record.leader, record.isr), (LEADER_UNCHANGED, Some(vec![2])));
        assert_eq!(change(&case(partition(&[1, 2], 2), &[1, 2], &[1, 2])), None);
    }

    #[test]
    fn the_last_in_sync_stays_in_the_isr_of_a_leaderless_partition() {
        let record = change(&case(partition(&[1], 1), &[], &[2, 3])).unwrap();
        assert_eq!((record.leader, record.isr), (NO_LEADER, None));
        let back = change(&case(partition(&[1], -1), &[1], &[1, 2])).unwrap();
        assert_eq!((back.leader, back.isr), (1, None));
    }

    #[test]
    fn an_unclean_leader_is_alone_and_recovering() {
        let unclean = Case { election: Election::Unclean, ..case(partition(&[1], 1), &[], &[3]) };
        let record = change(&unclean).unwrap();
        assert_eq!((record.leader, record.isr), (3, Some(vec![3])));
        assert_eq!(record.leader_recovery_state, 1);
    }

    #[test]
    fn the_first_replica_leads_when_it_is_preferred_and_may() {
        let preferred = |isr: &'static [i32], alive| Case {
            election: Election::Preferred,
            ..case(partition(isr, 2), isr, alive)
        };
        let record = change(&preferred(&[1, 2], &[1, 2])).unwrap();
        assert_eq!((record.leader, record.isr), (1, None));
        assert_eq!(change(&preferred(&[1, 2], &[2])), None);
        assert_eq!(change(&preferred(&[2, 3], &[1, 2, 3])), None);
        let record = change(&preferred(&[2, 3], &[3])).unwrap();
        assert_eq!(record.leader, 3);
    }

    #[test]
    fn who_leaves_below_the_minimum_stays_eligible() {
        let leaves = Case { elr: true, ..case(partition(&[1, 2], 1), &[2], &[2, 3]) };
        let record = change(&leaves).unwrap();
        assert_eq!(record.leader, 2);
        assert_eq!((record.isr, record.eligible_leader_replicas), (Some(vec![2]), Some(vec![1])));

        let last = Case { elr: true, ..case(partition(&[1], 1), &[], &[]) };
        let record = change(&last).unwrap();
        assert_eq!((record.leader, record.isr), (NO_LEADER, Some(vec![])));
        assert_eq!(record.eligible_leader_replicas, Some(vec![1]));
        assert_eq!(record.last_known_elr, Some(vec![1]));
    }

    #[test]
    fn an_eligible_replica_leads_cleanly_and_one_that_lost_its_cache_does_not() {
        let leaderless = PartitionRegistration {
            elr: brokers(&[1]),
            last_known_elr: brokers(&[1]),
            ..partition(&[], -1)
        };
        let back = Case { elr: true, ..case(leaderless.clone(), &[], &[1]) };
        let record = change(&back).unwrap();
        assert_eq!(
            (record.leader, record.isr, record.leader_recovery_state),
            (1, Some(vec![1]), -1)
        );
        assert_eq!(record.eligible_leader_replicas, Some(vec![]));
        assert_eq!(record.last_known_elr, Some(vec![]));

        let lost = Case { elr: true, lost: Some(1), ..case(leaderless, &[], &[]) };
        let record = change(&lost).unwrap();
        assert_eq!(record.eligible_leader_replicas, Some(vec![]));
        let known = PartitionRegistration { last_known_elr: brokers(&[1]), ..partition(&[], -1) };
        let record = change(&Case { elr: true, ..case(known, &[], &[1]) }).unwrap();
        assert_eq!((record.leader, record.leader_recovery_state), (1, 1));
    }

    #[test]
    fn a_reassignment_ends_when_all_that_is_added_is_in_sync() {
        let moving = PartitionRegistration {
            replicas: brokers(&[3, 1, 2]),
            adding_replicas: brokers(&[3]),
            removing_replicas: brokers(&[1]),
            ..partition(&[1, 2], 1)
        };
        assert_eq!(change(&case(moving.clone(), &[1, 2], &[1, 2, 3])), None);
        let record = change(&case(moving, &[1, 2, 3], &[1, 2, 3])).unwrap();
        assert_eq!((record.replicas, record.isr), (Some(vec![3, 2]), Some(vec![2, 3])));
        assert_eq!((record.leader, record.adding_replicas), (3, Some(vec![])));
    }
}
