//! Who votes. `[P]`

use std::collections::BTreeMap;

use crate::protocol::messages::voters_record::{self, VotersRecord};
use crate::types::{BrokerId, DirectoryId};

/// Names a replica of the metadata log: the node and, from `kraft.version` 1 on,
/// the directory that its log is in, so that a node that lost its disk is
/// somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaKey {
    /// `node.id`.
    pub id: BrokerId,
    /// `directory.id` of its metadata directory, where it is known.
    pub directory: Option<DirectoryId>,
}

/// One listener of a voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterEndpoint {
    /// Name of the listener.
    pub name: String,
    /// Host as advertised.
    pub host: String,
    /// Port as advertised.
    pub port: u16,
}

/// A voter, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Who it is.
    pub key: ReplicaKey,
    /// Its controller listeners.
    pub endpoints: Vec<VoterEndpoint>,
    /// Levels of `kraft.version` that it can work with, both included.
    pub kraft_versions: (i16, i16),
}

/// All voters, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoterSet {
    voters: BTreeMap<BrokerId, Voter>,
}

impl VoterSet {
    /// The set of these voters.
    pub fn new(voters: impl IntoIterator<Item = Voter>) -> Self {
        Self { voters: voters.into_iter().map(|voter| (voter.key.id, voter)).collect() }
    }

    /// All voters in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Voter> {
        self.voters.values()
    }

    /// How many vote.
    pub fn len(&self) -> usize {
        self.voters.len()
    }

    /// True when this replica votes. Where the set knows a directory, it must be
    /// the replica's.
    pub fn contains(&self, replica: ReplicaKey) -> bool {
        self.voters.get(&replica.id).is_some_and(|voter| {
            voter.key.directory.is_none() || voter.key.directory == replica.directory
        })
    }

    /// The voter of this id.
    pub fn get(&self, id: BrokerId) -> Option<&Voter> {
        self.voters.get(&id)
    }

    /// The set with this voter as it describes itself now.
    pub fn updated(&self, voter: Voter) -> Self {
        let mut voters = self.voters.clone();
        voters.insert(voter.key.id, voter);
        Self { voters }
    }

    /// As the log and snapshots hold it.
    pub fn to_record(&self) -> VotersRecord {
        let voter = |voter: &Voter| voters_record::Voter {
            voter_id: voter.key.id.0,
            voter_directory_id: voter.key.directory.unwrap_or_default(),
            endpoints: voter.endpoints.iter().map(endpoint_record).collect(),
            k_raft_version_feature: voters_record::KRaftVersionFeature {
                min_supported_version: voter.kraft_versions.0,
                max_supported_version: voter.kraft_versions.1,
                ..Default::default()
            },
            ..Default::default()
        };
        VotersRecord { version: 0, voters: self.iter().map(voter).collect(), ..Default::default() }
    }

    /// Reads what [`VoterSet::to_record`] wrote.
    pub fn from_record(record: &VotersRecord) -> Self {
        Self::new(record.voters.iter().map(|voter| {
            let directory = Some(voter.voter_directory_id).filter(|id| !id.is_nil());
            let endpoints = voter.endpoints.iter().map(|endpoint| VoterEndpoint {
                name: endpoint.name.to_string(),
                host: endpoint.host.to_string(),
                port: endpoint.port,
            });
            let feature = &voter.k_raft_version_feature;
            Voter {
                key: ReplicaKey { id: BrokerId(voter.voter_id), directory },
                endpoints: endpoints.collect(),
                kraft_versions: (feature.min_supported_version, feature.max_supported_version),
            }
        }))
    }
}

fn endpoint_record(endpoint: &VoterEndpoint) -> voters_record::Endpoint {
    voters_record::Endpoint {
        name: endpoint.name.as_str().into(),
        host: endpoint.host.as_str().into(),
        port: endpoint.port,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voter_who_lost_its_directory_is_not_that_voter() {
        let key = |id, directory| ReplicaKey { id: BrokerId(id), directory };
        let voter = |key| Voter { key, endpoints: Vec::new(), kraft_versions: (0, 1) };
        let here = DirectoryId::from_u128(200);
        let set = VoterSet::new([voter(key(1, Some(here))), voter(key(2, None))]);
        assert!(set.contains(key(1, Some(here))));
        assert!(!set.contains(key(1, Some(DirectoryId::from_u128(201)))));
        assert!(set.contains(key(2, Some(here))));
        assert!(!set.contains(key(3, None)));
        assert_eq!(VoterSet::from_record(&set.to_record()), set);
    }
}
