//! `quorum-state`: epoch and vote on disk, one line of JSON as Kafka writes it.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::node::ElectionState;
use super::voters::{ReplicaKey, VoterSet};
use crate::log::file_names;
use crate::sys::disk::{self, Disk};
use crate::types::{BrokerId, LeaderEpoch, parse_uuid, uuid_text};

/// Bytes of the file, at most: what is longer was not written by Kafka.
const MAX_LENGTH: usize = 1024 * 1024;

/// `kraft.version` 0: the voters stand in the configuration, and here.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionZero {
    cluster_id: String,
    leader_id: i32,
    leader_epoch: i32,
    voted_id: i32,
    applied_offset: i64,
    current_voters: Option<Vec<VoterId>>,
    #[serde(rename = "data_version")]
    data_version: i16,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct VoterId {
    voter_id: i32,
}

/// `kraft.version` 1: the voters stand in the log.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionOne {
    leader_id: i32,
    leader_epoch: i32,
    voted_id: i32,
    voted_directory_id: String,
    #[serde(rename = "data_version")]
    data_version: i16,
}

/// The state in `dir`; [`ElectionState::NONE`] when there is no file yet.
///
/// # Errors
/// `InvalidData` when the file is not what Kafka writes.
pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<ElectionState> {
    let path = dir.join(file_names::QUORUM_STATE);
    let Some(bytes) = disk::read_small_file(disk, &path, MAX_LENGTH)? else {
        return Ok(ElectionState::NONE);
    };
    parse(&bytes).map_err(|error| {
        let text = format!("{}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Writes the state, durably, in the version that goes with `kraft_version`.
pub fn write(
    disk: &dyn Disk,
    dir: &Path,
    state: &ElectionState,
    kraft_version: i16,
    voters: &VoterSet,
) -> io::Result<()> {
    let text = render(state, kraft_version, voters).map_err(io::Error::other)?;
    disk::replace_file(disk, &dir.join(file_names::QUORUM_STATE), text.as_bytes())
}

fn parse(bytes: &[u8]) -> Result<ElectionState, serde_json::Error> {
    use serde::de::Error as _;
    #[derive(Deserialize)]
    struct Version {
        data_version: i16,
    }
    let id = |id: i32| (id >= 0).then_some(BrokerId(id));
    match serde_json::from_slice::<Version>(bytes)?.data_version {
        0 => {
            let state: VersionZero = serde_json::from_slice(bytes)?;
            let voted = id(state.voted_id).map(|id| ReplicaKey { id, directory: None });
            let (epoch, leader) = (LeaderEpoch(state.leader_epoch), id(state.leader_id));
            Ok(ElectionState { epoch, leader, voted })
        }
        1 => {
            let state: VersionOne = serde_json::from_slice(bytes)?;
            let directory = parse_uuid(&state.voted_directory_id)
                .ok_or_else(|| serde_json::Error::custom("votedDirectoryId is not a UUID"))?;
            let directory = Some(directory).filter(|id| !id.is_nil());
            let voted = id(state.voted_id).map(|id| ReplicaKey { id, directory });
            let (epoch, leader) = (LeaderEpoch(state.leader_epoch), id(state.leader_id));
            Ok(ElectionState { epoch, leader, voted })
        }
        other => Err(serde_json::Error::custom(format!(
            "data_version ({other}) is not within the min (0) and max (1) supported version"
        ))),
    }
}

fn render(
    state: &ElectionState,
    kraft_version: i16,
    voters: &VoterSet,
) -> Result<String, serde_json::Error> {
    let id = |id: Option<BrokerId>| id.map_or(-1, |id| id.0);
    let leader_id = id(state.leader);
    let voted_id = id(state.voted.map(|voted| voted.id));
    let leader_epoch = state.epoch.0;
    if kraft_version == 0 {
        let ids = voters.iter().map(|voter| VoterId { voter_id: voter.key.id.0 });
        return serde_json::to_string(&VersionZero {
            cluster_id: String::new(),
            leader_id,
            leader_epoch,
            voted_id,
            applied_offset: 0,
            current_voters: Some(ids.collect()),
            data_version: 0,
        });
    }
    let directory = state.voted.and_then(|voted| voted.directory).unwrap_or(Uuid::nil());
    serde_json::to_string(&VersionOne {
        leader_id,
        leader_epoch,
        voted_id,
        voted_directory_id: uuid_text(directory),
        data_version: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::Voter;

    fn sole_voter() -> VoterSet {
        let key = ReplicaKey { id: BrokerId(1), directory: None };
        VoterSet::new([Voter { key, endpoints: Vec::new(), kraft_versions: (0, 1) }])
    }

    #[test]
    fn both_versions_are_written_as_kafka_writes_them_and_read_again() {
        let leads = ElectionState { epoch: LeaderEpoch(4), leader: Some(BrokerId(1)), voted: None };
        let voted = ElectionState {
            epoch: LeaderEpoch(2),
            leader: None,
            voted: Some(ReplicaKey { id: BrokerId(1), directory: Some(Uuid::from_u128(1 << 100)) }),
        };
        let cases = [
            (
                &leads,
                0,
                r#"{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#,
            ),
            (
                &leads,
                1,
                r#"{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#,
            ),
            (
                &voted,
                1,
                r#"{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"AAAAEAAAAAAAAAAAAAAAAA","data_version":1}"#,
            ),
        ];
        for (state, kraft_version, text) in cases {
            assert_eq!(render(state, kraft_version, &sole_voter()).unwrap(), text);
            assert_eq!(&parse(text.as_bytes()).unwrap(), state);
        }
    }

    #[test]
    fn what_kafka_does_not_write_is_refused() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"data_version":2}"#,
            r#"{"leaderId":1,"leaderEpoch":4,"votedId":-1,"data_version":1}"#,
            r#"{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"x","data_version":1}"#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
