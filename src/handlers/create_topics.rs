//! CreateTopics: the controller decides; the answer shows what the topics got.

use super::RequestContext;
use super::config_view::topic_entries;
use super::controller_call::{code_and_text, within};
use super::once::Named;
use crate::config::Config;
use crate::controller::{ApiError, CreateTopic, CreatedTopic, METADATA_TOPIC};
use crate::protocol::ErrorCode;
use crate::protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use crate::protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use crate::types::BrokerId;

/// Creates topics, or only says what would come of it.
pub async fn handle(
    context: &RequestContext<'_>,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let (topics, mut refused) = sort_out(request.topics);
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let controller = &context.broker.controller;
    let results = within(
        context,
        request.timeout_ms,
        controller.create_topics(topics, request.validate_only),
    )
    .await;
    let config = context.broker.config.current();
    let mut answers: Vec<_> = match results {
        Ok(results) => names.iter().zip(results).map(|(n, r)| answer(n, &r, &config)).collect(),
        Err(error) => {
            let failed = Err(error);
            names.iter().map(|name| answer(name, &failed, &config)).collect()
        }
    };
    answers.append(&mut refused);
    CreateTopicsResponse { topics: answers, ..Default::default() }
}

/// Topics for the controller, and answers to those that do not get there.
fn sort_out(topics: Vec<CreatableTopic>) -> (Vec<CreateTopic>, Vec<CreatableTopicResult>) {
    let names: Named<_> = topics.iter().map(|topic| topic.name.clone()).collect();
    let refuse = |name: &str, text: String| CreatableTopicResult {
        name: name.into(),
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: Some(text.into()),
        ..Default::default()
    };
    let mut refused: Vec<_> =
        names.repeated().map(|name| refuse(name, "Duplicate topic name.".into())).collect();
    let mut wanted = Vec::new();
    for topic in topics.into_iter().filter(|topic| !names.is_repeated(&topic.name)) {
        if &*topic.name == METADATA_TOPIC {
            let text = format!("Creation of internal topic {METADATA_TOPIC} is prohibited.");
            refused.push(refuse(METADATA_TOPIC, text));
        } else {
            wanted.push(command(topic));
        }
    }
    (wanted, refused)
}

fn command(topic: CreatableTopic) -> CreateTopic {
    let assignments = topic.assignments.into_iter().map(|assignment| {
        (assignment.partition_index, assignment.broker_ids.into_iter().map(BrokerId).collect())
    });
    let settings =
        topic.configs.into_iter().map(|c| (c.name.to_string(), c.value.map(|v| v.to_string())));
    CreateTopic {
        name: topic.name.to_string(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        settings: settings.collect(),
    }
}

fn answer(
    name: &str,
    result: &Result<CreatedTopic, ApiError>,
    config: &Config,
) -> CreatableTopicResult {
    let (error_code, error_message) = code_and_text(result);
    let mut answer =
        CreatableTopicResult { name: name.into(), error_code, error_message, ..Default::default() };
    if let Ok(created) = result {
        answer.topic_id = created.id;
        answer.num_partitions = created.partitions;
        answer.replication_factor = created.replication_factor;
        let entries = topic_entries(&created.settings, config).into_iter();
        let shown = entries.map(|entry| CreatableTopicConfigs {
            config_source: entry.source().code(),
            name: entry.name.into(),
            value: entry.value.map(Into::into),
            read_only: false,
            is_sensitive: entry.is_sensitive,
            ..Default::default()
        });
        answer.configs = Some(shown.collect());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_topics_and_the_metadata_log_do_not_get_to_the_controller() {
        let topic = |name: &str| CreatableTopic { name: name.into(), ..Default::default() };
        let topics = ["a", "b", "a", METADATA_TOPIC, "a"].map(topic).to_vec();
        let (wanted, refused) = sort_out(topics);
        let wanted: Vec<_> = wanted.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(wanted, ["b"]);
        let refused: Vec<_> = refused.iter().map(|r| (r.name.as_str(), r.error_code)).collect();
        assert_eq!(refused, [("a", 42), (METADATA_TOPIC, 42)]);
    }
}
