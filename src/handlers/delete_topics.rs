//! DeleteTopics, by name or by id.

use std::collections::HashSet;

use uuid::Uuid;

use super::RequestContext;
use super::controller_call::{code_and_text, within};
use super::once::Named;
use crate::cluster::ClusterImage;
use crate::config::keys;
use crate::controller::{ApiError, TopicRef};
use crate::protocol::messages::delete_topics_request::DeleteTopicsRequest;
use crate::protocol::messages::delete_topics_response::{
    DeletableTopicResult, DeleteTopicsResponse,
};
use crate::protocol::{ErrorCode, Str};

/// First version that knows a code of its own for "deletion is switched off".
const TELLS_DISABLED: i16 = 3;

/// Deletes topics, each for itself.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    if !context.broker.config.current().get(keys::DELETE_TOPIC_ENABLE) {
        return disabled(context.api_version, &request);
    }
    let (wanted, mut answers) = sort_out(&request, &context.image());
    let controller = &context.broker.controller;
    let results =
        within(context, request.timeout_ms, controller.delete_topics(wanted.clone())).await;
    match results {
        Ok(results) => {
            for (topic, result) in wanted.iter().zip(results) {
                let mut answer = answer(topic, &result);
                if let Ok(deleted) = result {
                    answer.name = Some((&deleted.name).into());
                    answer.topic_id = deleted.id;
                }
                answers.push(answer);
            }
        }
        Err(error) => {
            let failed = Err::<(), _>(error);
            answers.extend(wanted.iter().map(|topic| answer(topic, &failed)));
        }
    }
    DeleteTopicsResponse { responses: answers, ..Default::default() }
}

fn answer<T>(topic: &TopicRef, result: &Result<T, ApiError>) -> DeletableTopicResult {
    let (error_code, error_message) = code_and_text(result);
    let (name, topic_id) = match topic {
        TopicRef::Name(name) => (Some(Str::from(name.as_str())), Uuid::nil()),
        TopicRef::Id(id) => (None, *id),
    };
    DeletableTopicResult { name, topic_id, error_code, error_message, ..Default::default() }
}

fn refuse(name: Option<Str>, topic_id: Uuid, text: &str) -> DeletableTopicResult {
    DeletableTopicResult {
        name,
        topic_id,
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: Some(text.into()),
        ..Default::default()
    }
}

/// Topics for the controller, and answers to what is asked for wrongly.
fn sort_out(
    request: &DeleteTopicsRequest,
    image: &ClusterImage,
) -> (Vec<TopicRef>, Vec<DeletableTopicResult>) {
    let (mut names, mut ids, mut refused) = (Named::new(), Named::new(), Vec::new());
    for name in &request.topic_names {
        names.add(name.clone());
    }
    for topic in &request.topics {
        match (&topic.name, topic.topic_id) {
            (None, id) if id.is_nil() => {
                refused.push(refuse(None, id, "Neither topic name nor id were specified."));
            }
            (None, id) => ids.add(id),
            (Some(name), id) if id.is_nil() => names.add(name.clone()),
            (name, id) => {
                let text = "You may not specify both topic name and topic id.";
                refused.push(refuse(name.clone(), id, text));
            }
        }
    }
    for name in names.repeated() {
        refused.push(refuse(Some(name.clone()), Uuid::nil(), "Duplicate topic name."));
    }
    for id in ids.repeated() {
        refused.push(refuse(None, *id, "Duplicate topic id."));
    }
    // A name and an id of the same topic: neither is followed.
    let (mut by_name, mut twice) = (Vec::new(), HashSet::new());
    for name in names.once() {
        match image.topic(name).map(|topic| topic.id) {
            Some(id) if ids.has(&id) => {
                let text = "The provided topic name maps to an ID that was already supplied.";
                refused.push(refuse(Some(name.clone()), id, text));
                twice.insert(id);
            }
            _ => by_name.push(TopicRef::Name(name.to_string())),
        }
    }
    let by_id = ids.once().filter(|id| !twice.contains(*id)).map(|id| TopicRef::Id(*id));
    (by_name.into_iter().chain(by_id).collect(), refused)
}

fn disabled(version: i16, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
    let error = if version < TELLS_DISABLED {
        let text = "This version does not support topic deletion.";
        ApiError::new(ErrorCode::InvalidRequest, text)
    } else {
        ApiError::new(ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled.")
    };
    let names = request.topic_names.iter().map(|name| TopicRef::Name(name.to_string()));
    let others = request.topics.iter().map(|topic| match &topic.name {
        Some(name) => TopicRef::Name(name.to_string()),
        None => TopicRef::Id(topic.topic_id),
    });
    let failed = Err::<(), _>(error);
    let responses = names.chain(others).map(|topic| answer(&topic, &failed)).collect();
    DeleteTopicsResponse { responses, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::super::topic_view::tests::{add_topic, image};
    use super::*;
    use crate::protocol::messages::delete_topics_request::DeleteTopicState;

    #[test]
    fn each_topic_is_named_once_by_name_or_by_id() {
        let mut image = image();
        let id = add_topic(&mut image, "t", &[Some(1)]);
        let by = |name: Option<&str>, topic_id| DeleteTopicState {
            name: name.map(Into::into),
            topic_id,
            ..Default::default()
        };
        let topics = vec![
            by(None, Uuid::nil()),
            by(Some("x"), Uuid::from_u128(9)),
            by(Some("a"), Uuid::nil()),
            by(Some("a"), Uuid::nil()),
            by(Some("t"), Uuid::nil()),
            by(None, id),
            by(Some("b"), Uuid::nil()),
            by(None, Uuid::from_u128(5)),
        ];
        let request = DeleteTopicsRequest { topics, ..Default::default() };
        let (wanted, refused) = sort_out(&request, &image);
        assert_eq!(wanted, [TopicRef::Name("b".into()), TopicRef::Id(Uuid::from_u128(5))]);
        let texts: Vec<_> = refused.iter().filter_map(|r| r.error_message.as_deref()).collect();
        assert_eq!(
            texts,
            [
                "Neither topic name nor id were specified.",
                "You may not specify both topic name and topic id.",
                "Duplicate topic name.",
                "The provided topic name maps to an ID that was already supplied.",
            ]
        );
    }

    #[test]
    fn switched_off_deletion_has_a_code_from_version_3_on() {
        let request = DeleteTopicsRequest { topic_names: vec!["a".into()], ..Default::default() };
        assert_eq!(disabled(2, &request).responses[0].error_code, 42);
        assert_eq!(disabled(3, &request).responses[0].error_code, 73);
    }
}
