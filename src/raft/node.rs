//! One node of the quorum: its epoch, its role, and what is committed. `[P]`
//!
//! Does no I/O: it says what must be persisted, and is told what was. So far a
//! node leads or does not take part; the other roles come with the protocol.

use std::collections::BTreeMap;

use super::quorum::majority_end;
use super::voters::{ReplicaKey, VoterSet};
use crate::types::{BrokerId, LeaderEpoch, Offset};

/// What a node must not forget: kept in `quorum-state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionState {
    /// The newest epoch that the node has seen.
    pub epoch: LeaderEpoch,
    /// Its leader, where known.
    pub leader: Option<BrokerId>,
    /// Whom the node voted for in it.
    pub voted: Option<ReplicaKey>,
}

impl ElectionState {
    /// Before anything was heard of.
    pub const NONE: Self = Self { epoch: LeaderEpoch(0), leader: None, voted: None };
}

/// What a node is in its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Knows the epoch, and perhaps who leads; has perhaps voted.
    Unattached {
        /// The leader, where known.
        leader: Option<BrokerId>,
        /// Whom it voted for.
        voted: Option<ReplicaKey>,
    },
    /// Asked for votes and has its own.
    Candidate,
    /// Leads.
    Leader(Leader),
    /// Led in this very epoch, and therefore votes for nobody else in it: what
    /// it wrote and lost must not meet other records of the same number.
    Resigned,
}

/// What a leader keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Where the log ended when the epoch began.
    pub epoch_start: Offset,
    /// How far each voter holds the log durably; our own end moves with a sync.
    durable_ends: BTreeMap<BrokerId, Offset>,
    /// Everything before it is committed; unknown until something of this epoch is.
    high_watermark: Option<Offset>,
}

/// Why this node cannot lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// The quorum has other voters, or does not have this node.
    #[error(
        "node {me} is not the only voter of the metadata quorum (voters: {voters:?}); quorums of \
         several controllers are not supported yet"
    )]
    NotOnlyVoter {
        /// This node.
        me: BrokerId,
        /// Those that vote.
        voters: Vec<i32>,
    },
}

/// A node of the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    me: ReplicaKey,
    voters: VoterSet,
    epoch: LeaderEpoch,
    role: Role,
}

impl Node {
    /// The node as it starts: from what it persisted and the last epoch in its log.
    pub fn start(
        me: ReplicaKey,
        voters: VoterSet,
        stored: ElectionState,
        last_epoch: LeaderEpoch,
    ) -> Self {
        let (epoch, role) = if stored.epoch < last_epoch {
            (last_epoch, Role::Unattached { leader: None, voted: None })
        } else if stored.leader == Some(me.id) {
            (stored.epoch, Role::Resigned)
        } else if stored.leader.is_none() && stored.voted.is_some_and(|voted| voted.id == me.id) {
            (stored.epoch, Role::Candidate)
        } else {
            let role = Role::Unattached { leader: stored.leader, voted: stored.voted };
            (stored.epoch, role)
        };
        Self { me, voters, epoch, role }
    }

    /// Its epoch.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Its role.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Those that vote.
    pub fn voters(&self) -> &VoterSet {
        &self.voters
    }

    /// Takes the lead, as the only voter may without asking anybody: as a
    /// candidate of the next epoch, elected by its own vote. The log ends at
    /// `log_end`, of which all is durable.
    ///
    /// What is returned must be persisted before anything is appended.
    pub fn lead_alone(&mut self, log_end: Offset) -> Result<ElectionState, ElectionError> {
        if self.voters.len() != 1 || !self.voters.contains(self.me) {
            let voters = self.voters.iter().map(|voter| voter.key.id.0).collect();
            return Err(ElectionError::NotOnlyVoter { me: self.me.id, voters });
        }
        // A candidate already stands in an epoch of its own.
        if self.role != Role::Candidate {
            self.epoch = LeaderEpoch(self.epoch.0.saturating_add(1));
        }
        self.role = Role::Leader(Leader {
            epoch_start: log_end,
            durable_ends: self.voters.iter().map(|voter| (voter.key.id, log_end)).collect(),
            high_watermark: None,
        });
        Ok(self.election_state())
    }

    /// The leader's own log is durable up to `end`; the high watermark, when it
    /// moved by that.
    pub fn synced(&mut self, end: Offset) -> Option<Offset> {
        let me = self.me.id;
        let Role::Leader(leader) = &mut self.role else { return None };
        let own = leader.durable_ends.get_mut(&me)?;
        *own = end.max(*own);
        leader.advance()
    }

    /// Everything before it is committed, as far as this node knows.
    pub fn high_watermark(&self) -> Option<Offset> {
        match &self.role {
            Role::Leader(leader) => leader.high_watermark,
            _ => None,
        }
    }

    /// How far a voter is known to hold the log durably; unknown to all but the
    /// leader.
    pub fn durable_end(&self, voter: BrokerId) -> Option<Offset> {
        match &self.role {
            Role::Leader(leader) => leader.durable_ends.get(&voter).copied(),
            _ => None,
        }
    }

    /// What must not be forgotten.
    pub fn election_state(&self) -> ElectionState {
        let (leader, voted) = match &self.role {
            Role::Unattached { leader, voted } => (*leader, *voted),
            Role::Candidate => (None, Some(self.me)),
            Role::Leader(_) | Role::Resigned => (Some(self.me.id), None),
        };
        ElectionState { epoch: self.epoch, leader, voted }
    }
}

impl Leader {
    /// A record of an earlier epoch is committed only with one of this epoch on
    /// top of it (figure 8 of the paper), and nothing is ever uncommitted.
    fn advance(&mut self) -> Option<Offset> {
        let ends = self.durable_ends.values().copied().collect();
        let majority = majority_end(ends)?;
        let higher = self.high_watermark.is_none_or(|known| majority > known);
        if majority <= self.epoch_start || !higher {
            return None;
        }
        self.high_watermark = Some(majority);
        self.high_watermark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::Voter;

    const ME: ReplicaKey = ReplicaKey { id: BrokerId(1), directory: None };

    fn voters(ids: &[i32]) -> VoterSet {
        VoterSet::new(ids.iter().map(|id| Voter {
            key: ReplicaKey { id: BrokerId(*id), directory: None },
            endpoints: Vec::new(),
            kraft_versions: (0, 1),
        }))
    }

    fn state(epoch: i32, leader: Option<i32>, voted: Option<i32>) -> ElectionState {
        ElectionState {
            epoch: LeaderEpoch(epoch),
            leader: leader.map(BrokerId),
            voted: voted.map(|id| ReplicaKey { id: BrokerId(id), directory: None }),
        }
    }

    #[test]
    fn a_node_starts_as_it_stopped() {
        let role = |stored: ElectionState, last: i32| {
            let node = Node::start(ME, voters(&[1]), stored, LeaderEpoch(last));
            (node.epoch().0, node.role().clone())
        };
        let unattached =
            |leader: Option<i32>| Role::Unattached { leader: leader.map(BrokerId), voted: None };
        assert_eq!(role(ElectionState::NONE, 0), (0, unattached(None)));
        assert_eq!(role(state(3, Some(1), None), 5), (5, unattached(None)));
        assert_eq!(role(state(5, Some(1), None), 5), (5, Role::Resigned));
        assert_eq!(role(state(6, None, Some(1)), 5), (6, Role::Candidate));
        assert_eq!(role(state(6, Some(2), None), 5), (6, unattached(Some(2))));
    }

    #[test]
    fn the_only_voter_leads_in_an_epoch_that_nobody_had() {
        for (stored, epoch) in [
            (ElectionState::NONE, 1),
            (state(4, Some(1), None), 5),
            (state(4, None, Some(1)), 4),
            (state(4, Some(2), None), 5),
        ] {
            let mut node = Node::start(ME, voters(&[1]), stored, LeaderEpoch(0));
            let persisted = node.lead_alone(Offset(10)).unwrap();
            assert_eq!(persisted, state(epoch, Some(1), None));
        }
    }

    #[test]
    fn with_other_voters_it_does_not_lead_alone() {
        for ids in [&[1, 2][..], &[2], &[]] {
            let mut node = Node::start(ME, voters(ids), ElectionState::NONE, LeaderEpoch(0));
            let error = node.lead_alone(Offset(0)).unwrap_err();
            let voters = ids.to_vec();
            assert_eq!(error, ElectionError::NotOnlyVoter { me: BrokerId(1), voters });
        }
    }

    #[test]
    fn the_high_watermark_follows_the_sync_within_the_own_epoch() {
        let mut node = Node::start(ME, voters(&[1]), ElectionState::NONE, LeaderEpoch(0));
        node.lead_alone(Offset(10)).unwrap();
        assert_eq!(node.synced(Offset(10)), None);
        assert_eq!(node.high_watermark(), None);
        assert_eq!(node.synced(Offset(11)), Some(Offset(11)));
        assert_eq!(node.synced(Offset(11)), None);
        assert_eq!(node.synced(Offset(9)), None);
        assert_eq!(node.high_watermark(), Some(Offset(11)));
    }
}
