//! DescribeProducers: who has written to a partition lately, and with which
//! sequence (KIP-664).

use indexmap::IndexSet;

use super::RequestContext;
use crate::controller::invalid_name;
use crate::log::producers::ProducerEntry;
use crate::partition::table::Missing;
use crate::protocol::messages::describe_producers_request::DescribeProducersRequest;
use crate::protocol::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use crate::protocol::{ErrorCode, Str};
use crate::types::{Offset, ProducerId};

/// Longer than what is said of any legal name.
const LONG_TEXT: usize = 1024;

/// Answers for every replica that is here, whether it leads or not.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let topics = request.topics.iter().map(|topic| {
        let mut refused = refusal(context, &topic.name);
        let partition = |index: &i32| match &mut refused {
            Some((error, text)) => PartitionResponse {
                partition_index: *index,
                error_code: error.code(),
                error_message: Some(told(text)),
                ..Default::default()
            },
            None => partition(context, &topic.name, *index),
        };
        let indexes: IndexSet<_> = topic.partition_indexes.iter().collect();
        TopicResponse {
            name: topic.name.clone(),
            // Each once, however often it is named: an answer is long.
            partitions: indexes.into_iter().map(partition).collect(),
            ..Default::default()
        }
    });
    DescribeProducersResponse { topics: topics.collect(), ..Default::default() }
}

/// A text for one of many partitions. A long one, with a name in it that is longer than
/// names may be, is told once.
fn told(text: &mut String) -> Str {
    let told = Str::from(text.as_str());
    if text.len() > LONG_TEXT {
        text.clear();
    }
    told
}

/// Why nothing can be told of a whole topic.
fn refusal(context: &RequestContext<'_>, topic: &str) -> Option<(ErrorCode, String)> {
    if let Some(reason) = invalid_name(topic) {
        let text = format!("Topic name is invalid: {reason}");
        return Some((ErrorCode::InvalidTopicException, text));
    }
    if context.image().topic(topic).is_none() {
        let text = "This server does not host this topic-partition.".to_owned();
        return Some((ErrorCode::UnknownTopicOrPartition, text));
    }
    None
}

fn partition(context: &RequestContext<'_>, topic: &str, partition_index: i32) -> PartitionResponse {
    let response = PartitionResponse { partition_index, ..Default::default() };
    match context.broker.partitions.get(topic, partition_index) {
        Ok(partition) => {
            let active_producers = partition.producers().iter().map(state).collect();
            PartitionResponse { active_producers, ..response }
        }
        Err(missing) => {
            let error = match missing {
                Missing::Offline => ErrorCode::KafkaStorageError,
                Missing::NotHere => super::not_here(context, topic, partition_index),
            };
            PartitionResponse { error_code: error.code(), ..response }
        }
    }
}

fn state((id, entry): &(ProducerId, ProducerEntry)) -> ProducerState {
    ProducerState {
        producer_id: id.0,
        producer_epoch: i32::from(entry.epoch.0),
        last_sequence: entry.last_sequence(),
        last_timestamp: entry.last_timestamp.0,
        coordinator_epoch: entry.coordinator_epoch,
        current_txn_start_offset: entry.transaction_start.unwrap_or(Offset::NONE).0,
        ..Default::default()
    }
}
