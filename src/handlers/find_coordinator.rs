//! FindCoordinator (10): which broker serves a group.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use tracing::warn;

use super::RequestContext;
use crate::cluster::ClusterImage;
use crate::config::keys;
use crate::controller::CreateTopic;
use crate::coordinator::{GROUP_TOPIC, shard_of};
use crate::protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use crate::protocol::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use crate::protocol::{ErrorCode, Str};
use crate::sys::clock;

/// From here on many keys in one request (KIP-699).
const BATCHED_FROM: i16 = 4;
/// Kinds of keys.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
/// From here on share keys.
const SHARE_FROM: i16 = 6;
/// How long an answer may wait for a shard that has just been made.
const LOADING_PATIENCE: Duration = Duration::from_millis(500);

/// Answers a FindCoordinator.
pub async fn handle(
    context: &RequestContext<'_>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let kind = request.key_type;
    if context.api_version < BATCHED_FROM {
        let found = find(context, kind, request.key).await;
        return FindCoordinatorResponse {
            error_code: found.error_code,
            error_message: found.error_message,
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..FindCoordinatorResponse::default()
        };
    }
    let mut response = FindCoordinatorResponse::default();
    for key in request.coordinator_keys {
        response.coordinators.push(find(context, kind, key).await);
    }
    response
}

async fn find(context: &RequestContext<'_>, kind: i8, key: Str) -> Coordinator {
    match locate(context, kind, &key).await {
        Ok((node_id, host, port)) => Coordinator {
            key,
            node_id,
            host,
            port,
            error_message: Some(if context.api_version < BATCHED_FROM {
                Str::from_static("NONE")
            } else {
                Str::default()
            }),
            ..Coordinator::default()
        },
        Err(error) => Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: error.code(),
            error_message: Some(explained(context.api_version, kind, error)),
            ..Coordinator::default()
        },
    }
}

/// What the answer says besides the error; nothing in a list, where it is not the
/// request that cannot be understood.
fn explained(version: i16, kind: i8, error: ErrorCode) -> Str {
    let is_known = [GROUP, TRANSACTION, SHARE].contains(&kind);
    Str::from_static(match error {
        ErrorCode::UnsupportedVersion => "Coordinators of this kind are not served yet.",
        _ if version >= BATCHED_FROM && is_known => "",
        ErrorCode::InvalidRequest => "There are no coordinators of this kind.",
        _ => "The coordinator is not available.",
    })
}

/// Kafka's form of a key of share groups, `group:topic id:partition`.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let partition = parts.next().is_some_and(|partition| partition.parse::<i32>().is_ok());
    let topic = parts.next().and_then(|id| URL_SAFE_NO_PAD.decode(id).ok());
    let group = parts.next().is_some_and(|group| !group.trim().is_empty());
    partition && topic.is_some_and(|id| id.len() == 16) && group
}

/// Whether there are coordinators of a kind. Where there are none yet, the answer
/// is final: a client that is told to try again does so until its patience ends.
fn judge(version: i16, kind: i8, key: &str) -> Result<(), ErrorCode> {
    match kind {
        GROUP => Ok(()),
        TRANSACTION => Err(ErrorCode::UnsupportedVersion),
        SHARE if version >= SHARE_FROM && is_share_key(key) => Err(ErrorCode::UnsupportedVersion),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

async fn locate(
    context: &RequestContext<'_>,
    kind: i8,
    key: &str,
) -> Result<(i32, Str, i32), ErrorCode> {
    judge(context.api_version, kind, key)?;
    let image = image_with_groups(context).await?;
    let topic = image.topic(GROUP_TOPIC).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let shard = shard_of(key, topic.partitions.len()).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let leader = topic.partition(shard).and_then(|partition| partition.leader);
    let broker = leader.and_then(|leader| image.broker(leader)).filter(|broker| !broker.fenced);
    let endpoint = broker.and_then(|broker| broker.endpoint(&context.connection.listener.name));
    match (broker, endpoint) {
        (Some(broker), Some(endpoint)) => {
            // A new shard has nothing to load; waiting for it spares the client a
            // round of back-off.
            let loaded = context.broker.groups.loaded(&image, key);
            let _ = clock::within(LOADING_PATIENCE, loaded).await;
            Ok((broker.id.0, Str::from(&endpoint.host), i32::from(endpoint.port)))
        }
        _ => Err(ErrorCode::CoordinatorNotAvailable),
    }
}

/// The image, with the topic of groups in it: it is made when it is asked for
/// first.
async fn image_with_groups(context: &RequestContext<'_>) -> Result<Arc<ClusterImage>, ErrorCode> {
    let image = context.image();
    if image.topic(GROUP_TOPIC).is_some() {
        return Ok(image);
    }
    let config = context.broker.config.current();
    let segment_bytes = config.get(keys::OFFSETS_TOPIC_SEGMENT_BYTES).to_string();
    let settings = [
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("segment.bytes", &segment_bytes),
    ];
    let topic = CreateTopic {
        name: GROUP_TOPIC.to_owned(),
        partitions: config.get(keys::OFFSETS_TOPIC_NUM_PARTITIONS),
        replication_factor: config.get(keys::OFFSETS_TOPIC_REPLICATION_FACTOR),
        settings: settings.map(|(key, value)| (key.to_owned(), Some(value.to_owned()))).into(),
        ..CreateTopic::default()
    };
    match context.broker.controller.create_topics(vec![topic], false).await {
        Ok(mut results) => match results.pop() {
            Some(Err(error)) if error.code != ErrorCode::TopicAlreadyExists => {
                warn!("Topic {GROUP_TOPIC} cannot be made: {error}");
                Err(ErrorCode::CoordinatorNotAvailable)
            }
            _ => Ok(context.image()),
        },
        Err(error) => {
            warn!("Topic {GROUP_TOPIC} cannot be made: {error}");
            Err(ErrorCode::CoordinatorNotAvailable)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_served_is_refused_for_good() {
        let share = "group:AAAAAAAAAAAAAAAAAAAAAA:0";
        for (version, kind, key, judged) in [
            (6, GROUP, "a", Ok(())),
            (1, TRANSACTION, "a", Err(ErrorCode::UnsupportedVersion)),
            (6, TRANSACTION, "a", Err(ErrorCode::UnsupportedVersion)),
            (6, SHARE, share, Err(ErrorCode::UnsupportedVersion)),
            (6, SHARE, "a", Err(ErrorCode::InvalidRequest)),
            (5, SHARE, share, Err(ErrorCode::InvalidRequest)),
            (6, 3, "a", Err(ErrorCode::InvalidRequest)),
        ] {
            assert_eq!(judge(version, kind, key), judged, "{version} {kind} {key}");
        }
    }
}
