//! What Fetch says of each partition, and the whole answer put together.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::RequestContext;
use super::fetch_session::{Found, PartitionKey, TopicKey};
use super::leader_hint::{leader_of, nodes};
use crate::log::FileSlice;
use crate::partition::Readable;
use crate::partition::waiters::Isolation;
use crate::protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use crate::protocol::{ErrorCode, Records, Region, RegionFile, Str};
use crate::sys::cold;
use crate::sys::disk::DiskFile;

/// First version that knows KAFKA_STORAGE_ERROR.
const KNOWS_STORAGE_ERROR: i16 = 6;
/// First version that is told where the leader is (KIP-951).
const TELLS_LEADER: i16 = 16;

/// One partition of the answer.
#[derive(Debug)]
pub struct PartitionAnswer {
    key: PartitionKey,
    data: PartitionData,
}

/// A partition that cannot be read.
pub fn failed(key: &PartitionKey, error: ErrorCode) -> PartitionAnswer {
    let data = PartitionData {
        partition_index: key.partition,
        error_code: error.code(),
        high_watermark: -1,
        records: Some(Records::default()),
        ..Default::default()
    };
    PartitionAnswer { key: key.clone(), data }
}

/// A partition that was read, with what a session needs to know of it.
pub fn read(
    key: &PartitionKey,
    readable: Readable,
    isolation: Isolation,
) -> (Found, PartitionAnswer) {
    let Readable { extent, slice, aborted, diverging, undrained, cold: _ } = readable;
    let bytes = slice.as_ref().map_or(0, |slice| slice.len());
    let regions =
        slice.map_or_else(Vec::new, |slice| slice.regions.into_iter().map(region).collect());
    let found = Found {
        bytes,
        undrained,
        high_watermark: extent.high_watermark,
        log_start: extent.log_start,
        error: false,
        redirects: diverging.is_some(),
    };
    let aborted = aborted.into_iter().map(|aborted| AbortedTransaction {
        producer_id: aborted.producer_id.0,
        first_offset: aborted.first_offset.0,
        ..Default::default()
    });
    let data = PartitionData {
        partition_index: key.partition,
        high_watermark: extent.high_watermark.0,
        last_stable_offset: extent.last_stable.0,
        log_start_offset: extent.log_start.0,
        aborted_transactions: (isolation == Isolation::LastStable).then(|| aborted.collect()),
        diverging_epoch: diverging.map_or_else(EpochEndOffset::default, |(epoch, end)| {
            EpochEndOffset { epoch: epoch.0, end_offset: end.0, ..Default::default() }
        }),
        records: Some(Records::Regions(regions)),
        ..Default::default()
    };
    (found, PartitionAnswer { key: key.clone(), data })
}

/// The answer: neighbours of one topic stand together, in the given order.
pub fn response(
    context: &RequestContext<'_>,
    session_id: i32,
    answers: Vec<PartitionAnswer>,
) -> FetchResponse {
    let mut response = FetchResponse { session_id, ..Default::default() };
    let mut leaders = Vec::new();
    let mut last: Option<TopicKey> = None;
    for PartitionAnswer { key, mut data } in answers {
        if data.error_code != 0 {
            explain(context, &key, &mut data, &mut leaders);
        }
        if last.as_ref() != Some(&key.topic) {
            response.responses.push(topic_answer(&key.topic));
        }
        if let Some(topic) = response.responses.last_mut() {
            topic.partitions.push(data);
        }
        last = Some(key.topic);
    }
    if !leaders.is_empty() {
        let image = context.image();
        response.node_endpoints = nodes(&image, &context.connection.listener.name, leaders)
            .map(|node| NodeEndpoint {
                node_id: node.id.0,
                host: node.host.into(),
                port: i32::from(node.port),
                rack: node.rack.map(Str::from),
                ..Default::default()
            })
            .collect();
    }
    response
}

fn topic_answer(topic: &TopicKey) -> FetchableTopicResponse {
    match topic {
        TopicKey::Id(id) => FetchableTopicResponse { topic_id: *id, ..Default::default() },
        TopicKey::Name(name) => FetchableTopicResponse { topic: name.into(), ..Default::default() },
    }
}

/// Puts an error into words that the client's version knows, and tells it who
/// leads.
fn explain(
    context: &RequestContext<'_>,
    key: &PartitionKey,
    data: &mut PartitionData,
    leaders: &mut Vec<crate::types::BrokerId>,
) {
    let error = ErrorCode::from_code(data.error_code);
    if error == Some(ErrorCode::KafkaStorageError) && context.api_version < KNOWS_STORAGE_ERROR {
        data.error_code = ErrorCode::NotLeaderOrFollower.code();
    }
    let moved =
        matches!(error, Some(ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch));
    if !moved || context.api_version < TELLS_LEADER {
        return;
    }
    let image = context.image();
    let name = match &key.topic {
        TopicKey::Id(id) => image.topic_by_id(*id).map(|topic| Arc::clone(&topic.name)),
        TopicKey::Name(name) => Some(Arc::clone(name)),
    };
    let Some(name) = name else { return };
    let hint = leader_of(&image, &name, key.partition);
    data.current_leader = LeaderIdAndEpoch {
        leader_id: hint.leader.0,
        leader_epoch: hint.epoch.0,
        ..Default::default()
    };
    leaders.push(hint.leader);
}

/// A log file as the codec and the network want it.
#[derive(Debug)]
struct LogFile(Arc<dyn DiskFile>);

impl RegionFile for LogFile {
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(into, position)
    }

    fn try_read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.try_read_at(into, position)
    }

    fn is_in_memory(&self, position: u64, len: usize) -> bool {
        cold::is_in_memory(&*self.0, position, len)
    }

    fn bring_in(&self, position: u64, len: usize) -> io::Result<()> {
        cold::bring_in(&*self.0, position, len)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

fn region(slice: FileSlice) -> Region {
    Region { file: Arc::new(LogFile(slice.file)), position: slice.position, len: slice.len }
}
