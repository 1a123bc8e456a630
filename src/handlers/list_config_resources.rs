//! ListConfigResources: what has settings (KIP-1142).

use super::RequestContext;
use crate::cluster::{ClusterImage, ResourceType};
use crate::protocol::messages::list_config_resources_request::ListConfigResourcesRequest;
use crate::protocol::messages::list_config_resources_response::{
    ConfigResource, ListConfigResourcesResponse,
};
use crate::protocol::{ErrorCode, Str};

/// Kinds that version 0 knows: it was made for client metrics alone.
const FIRST: [ResourceType; 1] = [ResourceType::ClientMetrics];
/// Kinds that later versions know, in the order of the answer.
const LATER: [ResourceType; 5] = [
    ResourceType::Group,
    ResourceType::ClientMetrics,
    ResourceType::BrokerLogger,
    ResourceType::Broker,
    ResourceType::Topic,
];

/// Answers from the image.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let known: &[ResourceType] = if context.api_version == 0 { &FIRST } else { &LATER };
    let is_known = |code: &i8| known.iter().any(|kind| kind.code() == *code);
    if !request.resource_types.iter().all(is_known) {
        let error_code = ErrorCode::UnsupportedVersion.code();
        return ListConfigResourcesResponse { error_code, ..Default::default() };
    }
    let image = context.image();
    let wanted = known.iter().filter(|kind| {
        request.resource_types.is_empty() || request.resource_types.contains(&kind.code())
    });
    let listener = &context.connection.listener.name;
    let config_resources = wanted.flat_map(|kind| list(&image, listener, *kind)).collect();
    ListConfigResourcesResponse { config_resources, ..Default::default() }
}

fn list(image: &ClusterImage, listener: &str, kind: ResourceType) -> Vec<ConfigResource> {
    let resource = |name: Str| ConfigResource {
        resource_name: name,
        resource_type: kind.code(),
        ..Default::default()
    };
    match kind {
        ResourceType::Topic => image.topics.keys().map(|name| resource(name.into())).collect(),
        ResourceType::Broker | ResourceType::BrokerLogger => {
            let brokers = image.brokers.values().filter(|b| b.endpoint(listener).is_some());
            brokers.map(|broker| resource(broker.id.to_string().into())).collect()
        }
        ResourceType::Group | ResourceType::ClientMetrics => {
            let configured = image.configs.keys().filter(|resource| resource.kind == kind);
            configured.map(|found| resource((&found.name).into())).collect()
        }
    }
}
