//! What the handlers of groups have in common.

use std::sync::Arc;

use super::RequestContext;
use crate::cluster::ClusterImage;
use crate::coordinator::group::command::{Answer, Command, Identity};
use crate::protocol::{ErrorCode, Str};

/// The generation of no group.
pub const NO_GROUP: i32 = -1;

impl RequestContext<'_> {
    /// Asks a group's coordinator, if that is this broker.
    pub async fn submit_to_group(
        &self,
        group: &Arc<str>,
        command: Command,
    ) -> Result<Answer, ErrorCode> {
        self.broker.groups.submit(&self.image(), group, command).await
    }
}

/// Who speaks, copied out of the request.
pub fn identity(group: &Str, member: &Str, instance: Option<&Str>, generation: i32) -> Identity {
    Identity {
        group: Arc::from(group),
        member: Arc::from(member),
        instance: instance.map(Arc::from),
        generation,
    }
}

/// Where a client connects from, as Kafka's tools show it.
pub fn client_host(context: &RequestContext<'_>) -> Arc<str> {
    format!("/{}", context.connection.peer.ip().to_canonical()).into()
}

/// The name of a topic, by id where the request has none.
pub fn topic_name(image: &ClusterImage, name: &Str, id: uuid::Uuid) -> Option<Arc<str>> {
    if id.is_nil() {
        Some(Arc::from(name))
    } else {
        image.topic_by_id(id).map(|topic| topic.name.clone())
    }
}
