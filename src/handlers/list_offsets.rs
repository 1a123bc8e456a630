//! ListOffsets: which offset a timestamp names, the special ones among them.

use std::collections::HashMap;

use super::RequestContext;
use super::error_code::partition_error;
use crate::log::OffsetSpec;
use crate::partition::LookupError;
use crate::partition::table::Missing;
use crate::partition::waiters::Isolation;
use crate::protocol::ErrorCode;
use crate::protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use crate::protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use crate::types::LeaderEpoch;

/// Replica id of consumers.
const CONSUMER: i32 = -1;
/// Replica id of tools that may ask any replica.
const DEBUGGER: i32 = -2;
/// First version that knows OFFSET_NOT_AVAILABLE (KIP-207).
const KNOWS_NOT_AVAILABLE: i16 = 5;
/// First version that is told the offset's leader epoch.
const TELLS_EPOCH: i16 = 4;

/// Answers a ListOffsets.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let mut times: HashMap<(&str, i32), usize> = HashMap::new();
    for topic in &request.topics {
        for part in &topic.partitions {
            *times.entry((&topic.name, part.partition_index)).or_default() += 1;
        }
    }
    let isolation = (request.replica_id == CONSUMER).then_some(match request.isolation_level {
        1 => Isolation::LastStable,
        _ => Isolation::HighWatermark,
    });
    let leader_only = request.replica_id != DEBUGGER;
    let answer = |topic: &str, part: &ListOffsetsPartition| {
        let twice = times.get(&(topic, part.partition_index)).is_some_and(|times| *times > 1);
        let found = match twice {
            true => Err(ErrorCode::InvalidRequest),
            false => look_up(context, topic, part, isolation, leader_only),
        };
        found.unwrap_or_else(|error| ListOffsetsPartitionResponse {
            partition_index: part.partition_index,
            error_code: error.code(),
            ..Default::default()
        })
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(|part| answer(&topic.name, part)).collect(),
            ..Default::default()
        })
        .collect();
    ListOffsetsResponse { topics, ..Default::default() }
}

fn look_up(
    context: &RequestContext<'_>,
    topic: &str,
    part: &ListOffsetsPartition,
    isolation: Option<Isolation>,
    leader_only: bool,
) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    let spec = spec(part.timestamp, context.api_version)?;
    let hosted = context.broker.partitions.get(topic, part.partition_index);
    let partition = hosted.map_err(|missing| match missing {
        Missing::Offline => ErrorCode::KafkaStorageError,
        Missing::NotHere => super::not_here(context, topic, part.partition_index),
    })?;
    let epoch = LeaderEpoch(part.current_leader_epoch);
    let found =
        partition.offset_for(spec, isolation, epoch, leader_only).map_err(|error| match error {
            LookupError::Partition(error) => partition_error(&error),
            LookupError::OffsetNotAvailable if context.api_version >= KNOWS_NOT_AVAILABLE => {
                ErrorCode::OffsetNotAvailable
            }
            LookupError::OffsetNotAvailable => ErrorCode::LeaderNotAvailable,
        })?;
    let mut answer = ListOffsetsPartitionResponse {
        partition_index: part.partition_index,
        ..Default::default()
    };
    if let Some(found) = found {
        answer.timestamp = found.timestamp.0;
        answer.offset = found.offset.0;
        if context.api_version >= TELLS_EPOCH {
            answer.leader_epoch = found.leader_epoch.unwrap_or(LeaderEpoch::NONE).0;
        }
    }
    Ok(answer)
}

/// What a timestamp asks for; some are special from a version on, other negative
/// ones are for versions to come.
fn spec(timestamp: i64, version: i16) -> Result<OffsetSpec, ErrorCode> {
    let since = match timestamp {
        -3 => 7,
        -4 => 8,
        -5 => 9,
        -6 => 11,
        _ => 1,
    };
    if version < since {
        return Err(ErrorCode::UnsupportedVersion);
    }
    OffsetSpec::from_timestamp(timestamp).ok_or(ErrorCode::UnsupportedVersion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Timestamp;

    #[test]
    fn special_timestamps_are_known_from_their_version_on() {
        for (timestamp, version) in [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)] {
            let known = OffsetSpec::from_timestamp(timestamp).unwrap();
            assert_eq!(spec(timestamp, version), Ok(known));
            if version > 1 {
                assert_eq!(spec(timestamp, version - 1), Err(ErrorCode::UnsupportedVersion));
            }
        }
        assert_eq!(spec(5, 1), Ok(OffsetSpec::Timestamp(Timestamp(5))));
        assert_eq!(spec(-9, 11), Err(ErrorCode::UnsupportedVersion));
    }
}
