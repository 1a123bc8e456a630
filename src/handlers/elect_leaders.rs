//! ElectLeaders: the preferred replica leads again, or anyone at all (KIP-460).

use super::RequestContext;
use super::controller_call::{code_and_text, within};
use crate::controller::{ApiError, ElectionKind, PartitionRef, Results, check_count};
use crate::protocol::ErrorCode;
use crate::protocol::messages::elect_leaders_request::ElectLeadersRequest;
use crate::protocol::messages::elect_leaders_response::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};

/// A topic, and partitions of it.
type Wanted = (String, Vec<i32>);

/// Elects for the partitions that are named; without any name, for all that are
/// not led as they should be.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    let all = request.topic_partitions.is_none();
    let named = request.topic_partitions.unwrap_or_default();
    if let Err(error) = check_count(named.iter().map(|topic| topic.partitions.len()).sum()) {
        return refused(&[], &error);
    }
    let mut wanted: Vec<Wanted> =
        named.iter().map(|topic| (topic.topic.to_string(), topic.partitions.clone())).collect();
    let Some(kind) = ElectionKind::from_code(request.election_type) else {
        let text = format!("Unknown election type {}", request.election_type);
        return refused(&wanted, &ApiError::new(ErrorCode::InvalidRequest, text));
    };
    if all {
        wanted = everything(context);
    }
    let electing = context.broker.controller.elect_leaders(kind, flat(&wanted));
    match within(context, request.timeout_ms, electing).await {
        Ok(results) => answer(&wanted, &results, all),
        Err(error) => refused(&wanted, &error),
    }
}

fn everything(context: &RequestContext<'_>) -> Vec<Wanted> {
    let image = context.broker.controller.image();
    let topics = image.topics.values().map(|topic| {
        let partitions = (0..).zip(&topic.partitions).map(|(number, _)| number);
        (topic.name.to_string(), partitions.collect())
    });
    topics.collect()
}

fn flat(wanted: &[Wanted]) -> Vec<PartitionRef> {
    let partitions = wanted.iter().flat_map(|(topic, partitions)| {
        partitions.iter().map(|number| PartitionRef { topic: topic.clone(), partition: *number })
    });
    partitions.collect()
}

/// When all were asked for, those that need no election are left out.
fn answer(wanted: &[Wanted], results: &Results<()>, all: bool) -> ElectLeadersResponse {
    let mut results = results.iter();
    let topics = wanted.iter().map(|(topic, partitions)| {
        let results = partitions.iter().zip(results.by_ref()).map(|(number, result)| {
            let (error_code, error_message) = code_and_text(result);
            PartitionResult {
                partition_id: *number,
                error_code,
                error_message,
                ..Default::default()
            }
        });
        let needless = ErrorCode::ElectionNotNeeded.code();
        let shown = results.filter(|result| !all || result.error_code != needless);
        ReplicaElectionResult {
            topic: topic.as_str().into(),
            partition_result: shown.collect(),
            ..Default::default()
        }
    });
    ElectLeadersResponse { replica_election_results: topics.collect(), ..Default::default() }
}

fn refused(wanted: &[Wanted], error: &ApiError) -> ElectLeadersResponse {
    let results = wanted.iter().flat_map(|(_, partitions)| partitions);
    let results = results.map(|_| Err(error.clone())).collect();
    ElectLeadersResponse { error_code: error.code.code(), ..answer(wanted, &results, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_all_is_not_told_of_those_that_are_right() {
        let wanted = vec![("a".to_owned(), vec![0, 1]), ("b".to_owned(), vec![0])];
        let needless = Err(ApiError::bare(ErrorCode::ElectionNotNeeded));
        let results = vec![needless.clone(), Ok(()), needless];
        let shown = |all| {
            let topics = answer(&wanted, &results, all).replica_election_results;
            let partitions = |topic: &ReplicaElectionResult| {
                topic.partition_result.iter().map(|part| part.partition_id).collect::<Vec<_>>()
            };
            topics.iter().map(partitions).collect::<Vec<_>>()
        };
        assert_eq!(shown(false), [vec![0, 1], vec![0]]);
        assert_eq!(shown(true), [vec![1], vec![]]);
    }
}
