//! CreatePartitions: topics grow.

use super::RequestContext;
use super::controller_call::{code_and_text, within};
use super::once::Named;
use crate::controller::CreatePartitions;
use crate::protocol::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use crate::protocol::messages::create_partitions_response::{
    CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use crate::protocol::{ErrorCode, Str};
use crate::types::BrokerId;

/// Adds partitions, or only says whether it would.
pub async fn handle(
    context: &RequestContext<'_>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let (wanted, mut answers) = sort_out(&request.topics);
    let names: Vec<String> = wanted.iter().map(|topic| topic.topic.clone()).collect();
    let controller = &context.broker.controller;
    let growing = controller.create_partitions(wanted, request.validate_only);
    let results = match within(context, request.timeout_ms, growing).await {
        Ok(results) => results,
        Err(error) => names.iter().map(|_| Err(error.clone())).collect(),
    };
    answers.extend(names.iter().zip(&results).map(|(name, result)| {
        let (error_code, error_message) = code_and_text(result);
        CreatePartitionsTopicResult {
            name: name.as_str().into(),
            error_code,
            error_message,
            ..Default::default()
        }
    }));
    CreatePartitionsResponse { results: answers, ..Default::default() }
}

/// Topics for the controller, and answers to those named twice.
fn sort_out(
    topics: &[CreatePartitionsTopic],
) -> (Vec<CreatePartitions>, Vec<CreatePartitionsTopicResult>) {
    let names: Named<_> = topics.iter().map(|topic| topic.name.clone()).collect();
    let refuse = |name: &Str| CreatePartitionsTopicResult {
        name: name.clone(),
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: Some("Duplicate topic name.".into()),
        ..Default::default()
    };
    let refused = names.repeated().map(refuse).collect();
    let wanted = topics.iter().filter(|topic| !names.is_repeated(&topic.name));
    (wanted.map(command).collect(), refused)
}

fn command(topic: &CreatePartitionsTopic) -> CreatePartitions {
    let brokers = |ids: &Vec<i32>| ids.iter().copied().map(BrokerId).collect();
    CreatePartitions {
        topic: topic.name.to_string(),
        count: topic.count,
        assignments: topic
            .assignments
            .as_ref()
            .map(|all| all.iter().map(|one| brokers(&one.broker_ids)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_named_twice_is_refused_once() {
        let topic = |name: &str| CreatePartitionsTopic { name: name.into(), ..Default::default() };
        let (wanted, refused) = sort_out(&["a", "b", "a"].map(topic));
        assert_eq!(wanted.len(), 1);
        assert_eq!((refused.len(), refused[0].error_code), (1, 42));
    }
}
