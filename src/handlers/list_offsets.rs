//! ListOffsets: which offset a timestamp names, the special ones among them.

use std::collections::HashMap;

use super::RequestContext;
use super::error_code::partition_error;
use crate::log::{OffsetFor, OffsetSpec, TimestampAndOffset};
use crate::partition::table::Missing;
use crate::partition::waiters::Isolation;
use crate::partition::{LookupError, OffsetQuestion, Partition};
use crate::protocol::ErrorCode;
use crate::protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use crate::protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use crate::sys::cold::{IfCold, aside};
use crate::types::LeaderEpoch;

/// Replica id of consumers.
const CONSUMER: i32 = -1;
/// Replica id of tools that may ask any replica.
const DEBUGGER: i32 = -2;
/// First version that knows OFFSET_NOT_AVAILABLE (KIP-207).
const KNOWS_NOT_AVAILABLE: i16 = 5;
/// First version that is told the offset's leader epoch.
const TELLS_EPOCH: i16 = 4;

/// So often a question makes way for the disk; as a rule each segment is read once.
/// What is evicted again and again is waited for then.
const COLD_LOOKS: usize = 10_000;

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
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for part in &topic.partitions {
            let key = (topic.name.as_str(), part.partition_index);
            let found = match times.get(&key).is_some_and(|times| *times > 1) {
                true => Err(ErrorCode::InvalidRequest),
                false => look_up(context, &topic.name, part, isolation, leader_only).await,
            };
            partitions.push(found.unwrap_or_else(|error| ListOffsetsPartitionResponse {
                partition_index: part.partition_index,
                error_code: error.code(),
                ..Default::default()
            }));
        }
        let name = topic.name.clone();
        topics.push(ListOffsetsTopicResponse { name, partitions, ..Default::default() });
    }
    ListOffsetsResponse { topics, ..Default::default() }
}

async fn look_up(
    context: &RequestContext<'_>,
    topic: &str,
    part: &ListOffsetsPartition,
    isolation: Option<Isolation>,
    leader_only: bool,
) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    let spec = spec(part.timestamp, context.api_version)?;
    let current_leader_epoch = LeaderEpoch(part.current_leader_epoch);
    let question = OffsetQuestion { spec, isolation, current_leader_epoch, leader_only };
    let hosted = context.broker.partitions.get(topic, part.partition_index);
    let partition = hosted.map_err(|missing| match missing {
        Missing::Offline => ErrorCode::KafkaStorageError,
        Missing::NotHere => super::not_here(context, topic, part.partition_index),
    })?;
    let found = offset_for(&partition, &question, context.api_version).await?;
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

/// The offset; where the disk must be waited for, this does, and nobody else.
async fn offset_for(
    partition: &Partition,
    question: &OffsetQuestion,
    version: i16,
) -> Result<Option<TimestampAndOffset>, ErrorCode> {
    let refused = |error| match error {
        LookupError::Partition(error) => partition_error(&error),
        LookupError::OffsetNotAvailable if version >= KNOWS_NOT_AVAILABLE => {
            ErrorCode::OffsetNotAvailable
        }
        LookupError::OffsetNotAvailable => ErrorCode::LeaderNotAvailable,
    };
    let mut refusals = 0..COLD_LOOKS;
    loop {
        let if_cold = refusals.next().map_or(IfCold::Wait, |_| IfCold::Refuse);
        match partition.offset_for(question, if_cold).map_err(refused)? {
            OffsetFor::Known(found) => return Ok(found),
            OffsetFor::Cold(cold) => {
                if aside(move || cold.bring_in()).await.is_err() {
                    // The next look waits, meets the same error and tells it.
                    refusals = 0..0;
                }
            }
            OffsetFor::Search(search) => {
                let run = aside(move || {
                    let found = search.run();
                    Ok((search, found))
                });
                let (search, found) = run.await.map_err(|error| {
                    tracing::error!(%error, "a search by time was not finished");
                    ErrorCode::UnknownServerError
                })?;
                let found = partition.offset_found(question, &search, found);
                if let Some(found) = found.map_err(refused)? {
                    return Ok(found);
                }
            }
        }
    }
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
