//! Metadata: which brokers there are, which topics, and who leads their partitions.

use std::sync::Arc;

use uuid::Uuid;

use super::metadata_answers::Question;
use super::once::Named;
use super::topic_view::{CLUSTER_OPERATIONS, NO_LEADER, TOPIC_OPERATIONS, View, ids, is_internal};
use super::{Outcome, RequestContext, auto_creation};
use crate::cluster::{ClusterImage, PartitionRegistration, Topic};
use crate::config::keys;
use crate::controller::invalid_name;
use crate::protocol::messages::metadata_request::MetadataRequest;
use crate::protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use crate::protocol::{ErrorCode, Message as _, Str, Writer};
use crate::types::BrokerId;

/// First version in which an empty list means no topic instead of all.
const EMPTY_IS_NONE: i16 = 1;
/// First version that tells a leader without the client's listener from none.
const TELLS_MISSING_LISTENER: i16 = 6;
/// First version that may ask by topic id (KIP-516).
const ASKS_BY_ID: i16 = 12;

/// Answers from the image, or as the last one was answered who asked the same of it;
/// topics that do not exist yet are created by the way.
pub async fn handle(
    context: &RequestContext<'_>,
    request: MetadataRequest,
) -> Outcome<MetadataResponse> {
    let image = context.image();
    let view = View { image: &image, listener: &context.connection.listener.name };
    let (version, listener) = (context.api_version, &context.connection.listener);
    let controller = view.any_broker(&context.broker.random);
    let question = Question::new(&request, version, listener, controller);
    let kept = &context.broker.metadata_answers;
    if let Some(body) = question.as_ref().and_then(|question| kept.get(&image, question)) {
        return Outcome::Encoded(body);
    }
    let asked = match asked(&request, version, &image) {
        Ok(asked) => asked,
        Err(error) => return Outcome::Answer(refusal(&request, error)),
    };
    let (mut topics, unknown) = describe(view, version, asked);
    let is_of_image_alone = unknown.is_empty();
    if !is_of_image_alone {
        create(context, &request, &unknown);
        topics.extend(unknown.into_iter().map(unknown_topic));
    }
    let mut response = answer(context, view, &request, topics);
    response.controller_id = controller;
    let Some(question) = question.filter(|_| is_of_image_alone) else {
        return Outcome::Answer(response);
    };
    let mut body = Writer::new();
    // What cannot be encoded is reported by those who try it next.
    if response.encode(&mut body, version).is_err() {
        return Outcome::Answer(response);
    }
    let body = body.into_bytes();
    kept.keep(&image, question, &body);
    Outcome::Encoded(body)
}

/// Has those of the topics created that may be.
fn create(context: &RequestContext<'_>, request: &MetadataRequest, unknown: &[Str]) {
    let creates = request.allow_auto_topic_creation
        && context.broker.config.current().get(keys::AUTO_CREATE_TOPICS_ENABLE);
    let legal = unknown.iter().filter(|name| invalid_name(name).is_none());
    let legal: Vec<String> = legal.map(ToString::to_string).collect();
    if creates && !legal.is_empty() {
        auto_creation::start(context, legal);
    }
}

/// What the client wants to know about.
enum Asked {
    All,
    Names(Vec<Str>),
    /// Topics found by their ids, and ids that are nobody's.
    Ids(Vec<Arc<str>>, Vec<Uuid>),
}

fn asked(
    request: &MetadataRequest,
    version: i16,
    image: &ClusterImage,
) -> Result<Asked, ErrorCode> {
    let Some(topics) = &request.topics else { return Ok(Asked::All) };
    if topics.is_empty() && version < EMPTY_IS_NONE {
        return Ok(Asked::All);
    }
    let by_id = topics.iter().any(|topic| !topic.topic_id.is_nil());
    if version < ASKS_BY_ID && by_id {
        return Err(ErrorCode::InvalidRequest);
    }
    if by_id {
        let ids = topics.iter().map(|topic| topic.topic_id).filter(|id| !id.is_nil());
        let ids = ids.collect::<Named<_>>().distinct();
        let (mut names, mut unknown) = (Vec::new(), Vec::new());
        for id in ids {
            match image.topic_names.get(&id) {
                Some(name) => names.push(Arc::clone(name)),
                None => unknown.push(id),
            }
        }
        return Ok(Asked::Ids(names, unknown));
    }
    let names = topics.iter().map(|topic| topic.name.clone().ok_or(ErrorCode::InvalidRequest));
    let names: Named<Str> = names.collect::<Result<_, _>>()?;
    Ok(Asked::Names(names.distinct()))
}

/// The topics that are there, and the names of those that are not.
fn describe(view: View<'_>, version: i16, asked: Asked) -> (Vec<MetadataResponseTopic>, Vec<Str>) {
    let of = |topic: &Topic| describe_topic(view, version, topic);
    match asked {
        Asked::All => (view.image.topics.values().map(|topic| of(topic)).collect(), Vec::new()),
        Asked::Ids(names, unknown) => {
            let unknown = unknown.into_iter().map(|id| MetadataResponseTopic {
                error_code: ErrorCode::UnknownTopicId.code(),
                name: None,
                topic_id: id,
                ..Default::default()
            });
            let known =
                names.iter().filter_map(|name| view.image.topic(name)).map(|topic| of(topic));
            (unknown.chain(known).collect(), Vec::new())
        }
        Asked::Names(names) => {
            let (mut known, mut unknown) = (Vec::with_capacity(names.len()), Vec::new());
            for name in names {
                match view.image.topic(&name) {
                    Some(topic) => known.push(of(topic)),
                    None => unknown.push(name),
                }
            }
            (known, unknown)
        }
    }
}

fn describe_topic(view: View<'_>, version: i16, topic: &Topic) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.partitions);
    MetadataResponseTopic {
        name: Some((&topic.name).into()),
        topic_id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: partitions.map(|(n, p)| describe_partition(view, version, n, p)).collect(),
        ..Default::default()
    }
}

fn describe_partition(
    view: View<'_>,
    version: i16,
    partition_index: i32,
    partition: &PartitionRegistration,
) -> MetadataResponsePartition {
    // Version 0 leaves out replicas that cannot be reached, and says so.
    let reachable = |replicas: &[BrokerId]| match version {
        0 => replicas.iter().filter(|id| view.is_alive(**id)).map(|id| id.0).collect(),
        _ => ids(replicas),
    };
    let (replica_nodes, isr_nodes) = (reachable(&partition.replicas), reachable(&partition.isr));
    let leader = view.leader(partition);
    let complete =
        replica_nodes.len() == partition.replicas.len() && isr_nodes.len() == partition.isr.len();
    let error = match leader {
        Some(_) if complete => ErrorCode::None,
        Some(_) => ErrorCode::ReplicaNotAvailable,
        None if version >= TELLS_MISSING_LISTENER && view.leader_lacks_listener(partition) => {
            ErrorCode::ListenerNotFound
        }
        None => ErrorCode::LeaderNotAvailable,
    };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index,
        leader_id: leader.map_or(NO_LEADER, |id| id.0),
        leader_epoch: partition.leader_epoch.0,
        replica_nodes,
        isr_nodes,
        offline_replicas: view.offline_replicas(partition),
        ..Default::default()
    }
}

fn unknown_topic(name: Str) -> MetadataResponseTopic {
    let error = match invalid_name(&name) {
        Some(_) => ErrorCode::InvalidTopicException,
        None => ErrorCode::UnknownTopicOrPartition,
    };
    MetadataResponseTopic {
        error_code: error.code(),
        is_internal: is_internal(&name),
        name: Some(name),
        ..Default::default()
    }
}

fn answer(
    context: &RequestContext<'_>,
    view: View<'_>,
    request: &MetadataRequest,
    mut topics: Vec<MetadataResponseTopic>,
) -> MetadataResponse {
    let brokers = view.brokers().map(|(broker, host, port)| MetadataResponseBroker {
        node_id: broker.id.0,
        host: host.into(),
        port,
        rack: broker.rack.as_ref().map(Into::into),
        ..Default::default()
    });
    if request.include_topic_authorized_operations {
        for topic in topics.iter_mut().filter(|topic| topic.name.is_some()) {
            topic.topic_authorized_operations = TOPIC_OPERATIONS;
        }
    }
    let mut response = MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some((&context.broker.cluster_id).into()),
        topics,
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    response
}

fn refusal(request: &MetadataRequest, error: ErrorCode) -> MetadataResponse {
    let topics = request.topics.iter().flatten();
    let topics = topics.map(|topic| MetadataResponseTopic {
        error_code: error.code(),
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    MetadataResponse { topics: topics.collect(), error_code: error.code(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::super::topic_view::tests::{add_topic, image};
    use super::*;
    use crate::protocol::messages::metadata_request::MetadataRequestTopic;

    fn request(names: &[&str]) -> MetadataRequest {
        let topic =
            |name: &&str| MetadataRequestTopic { name: Some((*name).into()), ..Default::default() };
        MetadataRequest { topics: Some(names.iter().map(topic).collect()), ..Default::default() }
    }

    fn names_of(image: &ClusterImage, request: &MetadataRequest, version: i16) -> Vec<String> {
        let view = View { image, listener: "PLAINTEXT" };
        let (known, unknown) =
            describe(view, version, asked(request, version, image).ok().unwrap());
        let known = known.into_iter().map(|topic| topic.name.unwrap_or_default().to_string());
        known.chain(unknown.iter().map(ToString::to_string)).collect()
    }

    #[test]
    fn an_empty_list_means_all_only_in_version_0() {
        let mut image = image();
        add_topic(&mut image, "a", &[Some(1)]);
        add_topic(&mut image, "b", &[Some(1)]);
        assert_eq!(names_of(&image, &request(&[]), 0), ["a", "b"]);
        assert!(names_of(&image, &request(&[]), 1).is_empty());
        let all = MetadataRequest { topics: None, ..Default::default() };
        assert_eq!(names_of(&image, &all, 9), ["a", "b"]);
        assert_eq!(names_of(&image, &request(&["b", "c", "b"]), 9), ["b", "c"]);
    }

    #[test]
    fn ids_are_asked_for_from_version_12_on() {
        let mut image = image();
        let id = add_topic(&mut image, "a", &[Some(1)]);
        let by_id = |id| MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                topic_id: id,
                name: None,
                ..Default::default()
            }]),
            ..Default::default()
        };
        assert_eq!(names_of(&image, &by_id(id), 12), ["a"]);
        assert!(asked(&by_id(id), 11, &image).is_err());
        assert!(asked(&by_id(Uuid::nil()), 12, &image).is_err(), "neither name nor id");
        let view = View { image: &image, listener: "PLAINTEXT" };
        let unknown = Uuid::from_u128(7);
        let (topics, _) = describe(view, 12, asked(&by_id(unknown), 12, &image).ok().unwrap());
        assert_eq!(topics[0].error_code, ErrorCode::UnknownTopicId.code());
        assert_eq!((topics[0].topic_id, topics[0].name.clone()), (unknown, None));
    }

    #[test]
    fn each_version_words_missing_leaders_and_replicas_its_way() {
        let mut image = image();
        add_topic(&mut image, "t", &[Some(1), Some(3), None]);
        let view = View { image: &image, listener: "PLAINTEXT" };
        let errors = |version| {
            let topic = describe_topic(view, version, image.topic("t").unwrap());
            topic.partitions.iter().map(|partition| partition.error_code).collect::<Vec<_>>()
        };
        let (replica, leader, listener) = (9, 5, 72);
        assert_eq!(errors(0), [replica, leader, leader]);
        assert_eq!(errors(5), [0, leader, leader]);
        assert_eq!(errors(6), [0, listener, leader]);
        let topic = describe_topic(view, 0, image.topic("t").unwrap());
        assert_eq!(topic.partitions[0].replica_nodes, [1]);
    }

    #[test]
    fn illegal_and_unknown_names_differ() {
        assert_eq!(unknown_topic("a b".into()).error_code, 17);
        assert_eq!(unknown_topic("a".into()).error_code, 3);
    }
}
