//! Where new replicas go. `[P]`
//!
//! Replicas go round the racks, each partition starting one rack further than
//! the one before, and round the brokers within a rack. Brokers that are fenced
//! are taken only when the rack has no others left for this partition, and never
//! as the first replica. After as many partitions as there are unfenced brokers
//! everything is shuffled, so that the same neighbours do not meet for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sys::random::Random;
use crate::types::BrokerId;

/// A broker that may take replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableBroker {
    /// Its `node.id`.
    pub id: BrokerId,
    /// Its `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Fenced brokers take replicas only where no others are left.
    pub fenced: bool,
}

/// Why replicas cannot be placed, as Kafka words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No replicas at all.
    #[error("Invalid replication factor {0}: the replication factor must be positive.")]
    NotPositive(i16),
    /// Nobody could lead.
    #[error("All brokers are currently fenced, or have all their log directories cordoned.")]
    NoneUsable,
    /// More replicas than brokers.
    #[error(
        "The target replication factor of {wanted} cannot be reached because only {brokers} \
         broker(s) are registered or some brokers have all their log directories cordoned."
    )]
    TooFewBrokers {
        /// Replicas wanted.
        wanted: i16,
        /// Brokers that may take some.
        brokers: usize,
    },
}

/// Chooses the replicas of `partitions` new partitions; the first of each leads.
pub fn place(
    dice: &Random,
    brokers: &[UsableBroker],
    partitions: usize,
    replication_factor: i16,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    let wanted = usize::try_from(replication_factor).unwrap_or(0);
    if wanted == 0 {
        return Err(PlacementError::NotPositive(replication_factor));
    }
    if brokers.iter().all(|broker| broker.fenced) {
        return Err(PlacementError::NoneUsable);
    }
    if wanted > brokers.len() {
        let brokers = brokers.len();
        return Err(PlacementError::TooFewBrokers { wanted: replication_factor, brokers });
    }
    let mut racks = Racks::new(dice, brokers);
    Ok((0..partitions).map(|_| racks.place(dice, wanted)).collect())
}

/// Brokers of one kind in one rack, gone round from partition to partition.
#[derive(Default)]
struct Circle {
    brokers: Vec<BrokerId>,
    /// Where this partition's round begins.
    start: usize,
    /// How many this partition has taken.
    taken: usize,
}

impl Circle {
    fn next(&mut self) -> Option<BrokerId> {
        if self.taken == self.brokers.len() {
            return None;
        }
        let at = (self.start + self.taken) % self.brokers.len();
        self.taken += 1;
        self.brokers.get(at).copied()
    }

    /// Makes ready for the next partition.
    fn turn(&mut self) {
        self.taken = 0;
        self.start = (self.start + 1) % self.brokers.len().max(1);
    }
}

#[derive(Default)]
struct Rack {
    unfenced: Circle,
    fenced: Circle,
}

struct Racks {
    racks: Vec<Rack>,
    /// The rack where the next partition begins.
    start: usize,
    unfenced_brokers: usize,
    /// Partitions placed since the last shuffle.
    placed: usize,
}

impl Racks {
    fn new(dice: &Random, brokers: &[UsableBroker]) -> Self {
        let mut racks: BTreeMap<Option<&str>, Rack> = BTreeMap::new();
        for broker in brokers {
            let rack = racks.entry(broker.rack.as_deref()).or_default();
            let circle = if broker.fenced { &mut rack.fenced } else { &mut rack.unfenced };
            circle.brokers.push(broker.id);
        }
        let mut racks: Vec<Rack> = racks.into_values().collect();
        for rack in &mut racks {
            for circle in [&mut rack.unfenced, &mut rack.fenced] {
                circle.brokers.sort_unstable();
                circle.start = below(dice, circle.brokers.len());
            }
        }
        let start = below(dice, racks.len());
        let unfenced_brokers = brokers.iter().filter(|broker| !broker.fenced).count();
        Self { racks, start, unfenced_brokers, placed: 0 }
    }

    /// Replicas of one partition. There are enough brokers, and one of them is
    /// unfenced: `place` has seen to it.
    fn place(&mut self, dice: &Random, wanted: usize) -> Vec<BrokerId> {
        if self.placed == self.unfenced_brokers && self.unfenced_brokers > 1 {
            self.shuffle(dice);
            self.placed = 0;
        }
        let count = self.racks.len();
        let mut replicas = Vec::with_capacity(wanted);
        let mut first_rack = None;
        for step in 0..count {
            let at = (self.start + step) % count;
            if let Some(first) = self.racks.get_mut(at).and_then(|rack| rack.unfenced.next()) {
                replicas.push(first);
                first_rack = Some(at);
                break;
            }
        }
        let mut at = self.start;
        while replicas.len() < wanted {
            // The rack that gave the first replica sits out one turn.
            if first_rack == Some(at) {
                first_rack = None;
            } else if let Some(rack) = self.racks.get_mut(at) {
                replicas.extend(rack.unfenced.next().or_else(|| rack.fenced.next()));
            }
            at = (at + 1) % count;
        }
        self.placed += 1;
        self.start = (self.start + 1) % count;
        for rack in &mut self.racks {
            rack.unfenced.turn();
            rack.fenced.turn();
        }
        replicas
    }

    fn shuffle(&mut self, dice: &Random) {
        shuffle(dice, &mut self.racks);
        for rack in &mut self.racks {
            shuffle(dice, &mut rack.unfenced.brokers);
            shuffle(dice, &mut rack.fenced.brokers);
        }
    }
}

fn below(dice: &Random, end: usize) -> usize {
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    usize::try_from(dice.below(end)).unwrap_or(0)
}

fn shuffle<T>(dice: &Random, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(dice, last + 1));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn broker(id: i32, rack: Option<&str>, fenced: bool) -> UsableBroker {
        UsableBroker { id: BrokerId(id), rack: rack.map(Arc::from), fenced }
    }

    #[test]
    fn a_partition_never_has_a_broker_twice_and_a_fenced_one_never_leads() {
        let brokers: Vec<_> = (0..7)
            .map(|id| broker(id, [None, Some("a"), Some("b")][id as usize % 3], id % 3 == 2))
            .collect();
        for seed in 0..50 {
            let placed = place(&Random::from_seed(seed), &brokers, 40, 5).unwrap();
            for replicas in placed {
                let distinct: BTreeSet<_> = replicas.iter().collect();
                assert_eq!((replicas.len(), distinct.len()), (5, 5));
                assert!(replicas.first().unwrap().0 % 3 != 2);
            }
        }
    }

    #[test]
    fn racks_are_striped_and_brokers_share_evenly() {
        let racks = ["a", "b", "c"];
        let brokers: Vec<_> =
            (0..9).map(|id| broker(id, Some(racks[id as usize / 3]), false)).collect();
        let placed = place(&Random::from_seed(7), &brokers, 9, 3).unwrap();
        let mut count = BTreeMap::new();
        for replicas in &placed {
            let racks: BTreeSet<_> = replicas.iter().map(|id| id.0 / 3).collect();
            assert_eq!(racks.len(), 3);
            for id in replicas {
                *count.entry(id.0).or_insert(0) += 1;
            }
        }
        assert_eq!(count.into_values().collect::<BTreeSet<_>>(), BTreeSet::from([3]));
    }

    #[test]
    fn refusals_are_worded_as_kafka_words_them() {
        let dice = Random::from_seed(1);
        let fenced = [broker(1, None, true)];
        assert_eq!(place(&dice, &fenced, 1, 1), Err(PlacementError::NoneUsable));
        let one = [broker(1, None, false)];
        let too_few = place(&dice, &one, 1, 3).unwrap_err();
        assert_eq!(
            too_few.to_string(),
            "The target replication factor of 3 cannot be reached because only 1 broker(s) are \
             registered or some brokers have all their log directories cordoned."
        );
        assert_eq!(place(&dice, &one, 3, 1).unwrap(), vec![vec![BrokerId(1)]; 3]);
    }
}
