//! Produce: appends one batch to each partition and waits as `acks` says.
//!
//! Partitions are judged one by one: a bad batch fails its partition and no
//! other. With acks=0 nothing is answered; an error closes the connection, the
//! only way to tell the client (it then asks for metadata).

use std::sync::Arc;
use std::time::Duration;

use super::error_code::{commit_error, partition_error, validate_error};
use super::produce_answer::{self, PartOutcome, TopicOutcomes};
use super::{Outcome, RequestContext};
use crate::cluster::ClusterImage;
use crate::log::batch::BatchHeader;
use crate::log::validate::check_produced;
use crate::log::{AppendOrigin, ProducerContext};
use crate::partition::table::Missing;
use crate::partition::{Partition, PartitionError};
use crate::protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use crate::protocol::messages::produce_response::ProduceResponse;
use crate::protocol::{ErrorCode, Records};
use crate::sys::clock::within;

/// First version that names topics by id (KIP-516).
const BY_TOPIC_ID: i16 = 13;
/// The client id under which Kafka's own tools may write to internal topics.
const ADMIN_CLIENT: &str = "__admin_client";
/// Topics that only coordinators write to.
const INTERNAL_TOPICS: [&str; 3] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Handles a Produce.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ProduceRequest,
) -> Outcome<ProduceResponse> {
    let all_acks = request.acks == -1;
    let acks = request.acks;
    let mut topics = append_all(context, &request);
    if all_acks {
        let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
        wait_for_all(context, &mut topics, context.received + timeout).await;
    }
    if acks == 0 {
        return close_on_error(context, &topics);
    }
    Outcome::Answer(produce_answer::response(context, topics))
}

fn close_on_error(
    context: &RequestContext<'_>,
    topics: &[TopicOutcomes],
) -> Outcome<ProduceResponse> {
    let failed = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |part| (topic, part)))
        .find(|(_, part)| part.error != ErrorCode::None);
    let Some((topic, part)) = failed else { return Outcome::Silence };
    let (topic, index) = (topic.shown(), part.partition);
    Outcome::Close(format!(
        "produce request with acks=0 from {} failed on {topic}-{index}: {}",
        context.client_id, part.error
    ))
}

/// Appends to every partition of the request.
fn append_all(context: &RequestContext<'_>, request: &ProduceRequest) -> Vec<TopicOutcomes> {
    if has_unauthorized_transaction(request) {
        let refused = ErrorCode::TransactionalIdAuthorizationFailed;
        return all(request, |part| PartOutcome::failed(part, refused));
    }
    let image = context.image();
    let appends = request.topic_data.iter().map(|topic| {
        let name = topic_name(&image, context.api_version, topic);
        let partitions = topic.partition_data.iter().map(|part| {
            let Some(name) = &name else {
                return PartOutcome::failed(part, ErrorCode::UnknownTopicId);
            };
            match append(context, request, &image, name, part) {
                Ok(outcome) => outcome,
                Err(error) => PartOutcome::failed(part, error),
            }
        });
        TopicOutcomes::new(topic, name.as_ref().map(Arc::clone), partitions.collect())
    });
    appends.collect()
}

fn all(
    request: &ProduceRequest,
    outcome: impl Fn(&PartitionProduceData) -> PartOutcome,
) -> Vec<TopicOutcomes> {
    let topics = request.topic_data.iter();
    topics
        .map(|topic| {
            let partitions = topic.partition_data.iter().map(&outcome).collect();
            TopicOutcomes::new(topic, None, partitions)
        })
        .collect()
}

/// The topic's name; `None` when its id is unknown. An unknown name stands as it
/// is.
fn topic_name(image: &ClusterImage, version: i16, topic: &TopicProduceData) -> Option<Arc<str>> {
    if version >= BY_TOPIC_ID {
        image.topic_names.get(&topic.topic_id).map(Arc::clone)
    } else {
        let known = image.topic(&topic.name).map(|topic| Arc::clone(&topic.name));
        Some(known.unwrap_or_else(|| topic.name.as_str().into()))
    }
}

/// Judges one partition's batch and appends it.
fn append(
    context: &RequestContext<'_>,
    request: &ProduceRequest,
    image: &ClusterImage,
    topic: &str,
    part: &PartitionProduceData,
) -> Result<PartOutcome, ErrorCode> {
    let known = image.partition(topic, part.index).is_some();
    let hosted = context.broker.partitions.get(topic, part.index);
    if !known && hosted.is_err() {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    let records = part.records.as_ref().and_then(Records::bytes);
    let records = records.ok_or(ErrorCode::InvalidRecord)?;
    check_produced(records, context.api_version).map_err(|error| validate_error(&error))?;
    if !matches!(request.acks, -1..=1) {
        return Err(ErrorCode::InvalidRequiredAcks);
    }
    if is_internal(topic) && context.client_id != ADMIN_CLIENT {
        return Err(ErrorCode::InvalidTopicException);
    }
    if is_transactional(records) {
        // The partition's part in the transaction cannot be verified while no
        // transaction coordinator is to be had; producers retry on this code.
        return Err(ErrorCode::NotEnoughReplicas);
    }
    let partition = hosted.map_err(|missing| match missing {
        Missing::Offline => ErrorCode::KafkaStorageError,
        Missing::NotHere => ErrorCode::NotLeaderOrFollower,
    })?;
    let appended =
        partition.append(records, &ProducerContext::of(AppendOrigin::Client), request.acks == -1);
    Ok(match appended {
        Ok(appended) => PartOutcome::appended(part, partition, appended),
        Err(error) => refused(part, &partition, &error),
    })
}

fn refused(
    part: &PartitionProduceData,
    partition: &Partition,
    error: &PartitionError,
) -> PartOutcome {
    let code = partition_error(error);
    let mut outcome = PartOutcome::failed(part, code);
    if !is_plain(code) {
        outcome.log_start = partition.extent().log_start;
    }
    if let PartitionError::Append(error) = error {
        outcome.explain(error);
    }
    outcome
}

/// Errors that Kafka answers without the log start offset.
fn is_plain(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        code,
        E::UnknownTopicOrPartition
            | E::NotLeaderOrFollower
            | E::MessageTooLarge
            | E::RecordListTooLarge
            | E::CorruptMessage
            | E::KafkaStorageError
            | E::UnknownTopicId
    )
}

/// True for topics that only coordinators write to.
pub fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

fn is_transactional(records: &[u8]) -> bool {
    BatchHeader::parse(records).is_ok_and(|header| header.attributes.is_transactional())
}

/// True when a batch is part of a transaction and the request names none.
fn has_unauthorized_transaction(request: &ProduceRequest) -> bool {
    request.transactional_id.is_none()
        && request.topic_data.iter().flat_map(|topic| &topic.partition_data).any(|part| {
            part.records.as_ref().and_then(Records::bytes).is_some_and(|all| is_transactional(all))
        })
}

/// Waits until all that was appended is committed, or the deadline.
async fn wait_for_all(
    context: &RequestContext<'_>,
    topics: &mut [TopicOutcomes],
    deadline: Duration,
) {
    for part in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        let Some((partition, required)) = part.pending.take() else { continue };
        let left = deadline.saturating_sub(context.broker.clock.monotonic());
        part.error = match within(left, partition.committed(required)).await {
            Some(Ok(())) => ErrorCode::None,
            Some(Err(error)) => commit_error(error),
            None => ErrorCode::RequestTimedOut,
        };
    }
}
