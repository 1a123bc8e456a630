//! What Produce says of each partition, and the whole answer put together.

use std::sync::Arc;

use super::RequestContext;
use super::leader_hint::{leader_of, nodes};
use crate::log::AppendError;
use crate::log::append_plan::ValidateError;
use crate::partition::{Appended, Partition};
use crate::protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use crate::protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    ProduceResponse, TopicProduceResponse,
};
use crate::protocol::{ErrorCode, Str};
use crate::types::{BrokerId, Offset, Timestamp, TopicId, uuid_text};

/// First version that is told where the leader is (KIP-951).
const TELLS_LEADER: i16 = 10;

/// The partitions of one topic, as the request named it.
#[derive(Debug)]
pub struct TopicOutcomes {
    topic: TopicProduceData,
    resolved: Option<Arc<str>>,
    /// In the order of the request.
    pub partitions: Vec<PartOutcome>,
}

/// What became of one partition's batch.
#[derive(Debug)]
pub struct PartOutcome {
    /// The partition's index.
    pub partition: i32,
    /// `None` where the append succeeded.
    pub error: ErrorCode,
    /// The partition's log start, -1 where the client need not know.
    pub log_start: Offset,
    /// What acks=all still waits for.
    pub pending: Option<(Arc<Partition>, Offset)>,
    base_offset: Offset,
    log_append_time: Timestamp,
    record_errors: Vec<BatchIndexAndErrorMessage>,
    message: Option<Str>,
}

impl TopicOutcomes {
    /// The outcomes for one topic; `resolved` is its name where known.
    pub fn new(
        topic: &TopicProduceData,
        resolved: Option<Arc<str>>,
        partitions: Vec<PartOutcome>,
    ) -> Self {
        // Only how it was named is kept, not its records.
        let named = TopicProduceData {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            ..Default::default()
        };
        Self { topic: named, resolved, partitions }
    }

    /// The topic for a log line.
    pub fn shown(&self) -> String {
        match &self.resolved {
            Some(name) => name.to_string(),
            None if self.topic.topic_id == TopicId::nil() => self.topic.name.to_string(),
            None => uuid_text(self.topic.topic_id),
        }
    }
}

impl PartOutcome {
    /// Nothing was appended.
    pub fn failed(part: &PartitionProduceData, error: ErrorCode) -> Self {
        Self {
            partition: part.index,
            error,
            log_start: Offset::NONE,
            pending: None,
            base_offset: Offset::NONE,
            log_append_time: Timestamp::NONE,
            record_errors: Vec::new(),
            message: None,
        }
    }

    /// The batch is in the log, now or since an earlier try.
    pub fn appended(
        part: &PartitionProduceData,
        partition: Arc<Partition>,
        appended: Appended,
    ) -> Self {
        let info = &appended.info;
        Self {
            log_start: info.log_start_offset,
            base_offset: info.first_offset,
            log_append_time: info.log_append_time,
            pending: Some((partition, appended.required)),
            ..Self::failed(part, ErrorCode::None)
        }
    }

    /// Adds which records of the batch were at fault, and why.
    pub fn explain(&mut self, error: &AppendError) {
        let AppendError::Invalid(ValidateError::Refused(problems)) = error else { return };
        self.message = Some(error.to_string().into());
        self.record_errors = problems
            .iter()
            .map(|problem| BatchIndexAndErrorMessage {
                batch_index: problem.batch_index,
                batch_index_error_message: Some(problem.kind.to_string().into()),
                ..Default::default()
            })
            .collect();
    }
}

/// The answer to acks 1 and -1.
pub fn response(context: &RequestContext<'_>, topics: Vec<TopicOutcomes>) -> ProduceResponse {
    let mut leaders = Vec::new();
    let responses = topics
        .into_iter()
        .map(|topic| TopicProduceResponse {
            name: topic.topic.name.clone(),
            topic_id: topic.topic.topic_id,
            partition_responses: topic
                .partitions
                .into_iter()
                .map(|part| part_answer(context, topic.resolved.as_deref(), part, &mut leaders))
                .collect(),
            ..Default::default()
        })
        .collect();
    let node_endpoints = if leaders.is_empty() {
        Vec::new()
    } else {
        let image = context.image();
        nodes(&image, &context.connection.listener.name, leaders)
            .map(|node| NodeEndpoint {
                node_id: node.id.0,
                host: node.host.into(),
                port: i32::from(node.port),
                rack: node.rack.map(Str::from),
                ..Default::default()
            })
            .collect()
    };
    ProduceResponse { responses, node_endpoints, ..Default::default() }
}

fn part_answer(
    context: &RequestContext<'_>,
    topic: Option<&str>,
    part: PartOutcome,
    leaders: &mut Vec<BrokerId>,
) -> PartitionProduceResponse {
    let mut current_leader = LeaderIdAndEpoch::default();
    if part.error == ErrorCode::NotLeaderOrFollower
        && context.api_version >= TELLS_LEADER
        && let Some(topic) = topic
    {
        let hint = leader_of(&context.image(), topic, part.partition);
        current_leader.leader_id = hint.leader.0;
        current_leader.leader_epoch = hint.epoch.0;
        leaders.push(hint.leader);
    }
    PartitionProduceResponse {
        index: part.partition,
        error_code: part.error.code(),
        base_offset: part.base_offset.0,
        log_append_time_ms: part.log_append_time.0,
        log_start_offset: part.log_start.0,
        record_errors: part.record_errors,
        error_message: part.message,
        current_leader,
        ..Default::default()
    }
}
