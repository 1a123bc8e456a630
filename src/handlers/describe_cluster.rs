//! DescribeCluster: who the cluster is and which brokers it has (KIP-700).

use super::RequestContext;
use super::topic_view::{CLUSTER_OPERATIONS, NO_LEADER, View};
use crate::cluster::ClusterImage;
use crate::protocol::ErrorCode;
use crate::protocol::apis::ListenerKind;
use crate::protocol::messages::describe_cluster_request::DescribeClusterRequest;
use crate::protocol::messages::describe_cluster_response::{
    DescribeClusterBroker, DescribeClusterResponse,
};

/// The kind of endpoint that brokers tell (KIP-919).
const BROKERS: i8 = 1;
/// The kind that controllers tell.
const CONTROLLERS: i8 = 2;

/// Answers from the image: brokers to who asks a broker, controllers to who asks a
/// controller.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let kind = match context.connection.listener.kind {
        ListenerKind::Broker => BROKERS,
        ListenerKind::Controller => CONTROLLERS,
    };
    if request.endpoint_type != kind {
        return refusal(kind, request.endpoint_type);
    }
    let listener = &*context.connection.listener.name;
    let (brokers, controller_id) = if kind == BROKERS {
        let image = context.image();
        let view = View { image: &image, listener };
        let brokers = brokers(&image, listener, request.include_fenced_brokers);
        (brokers, view.any_broker(&context.broker.random))
    } else {
        let leader = context.broker.controller.quorum().map_or(NO_LEADER, |quorum| quorum.leader.0);
        (controllers(&context.broker.controller.image(), listener), leader)
    };
    let mut response = DescribeClusterResponse {
        endpoint_type: kind,
        cluster_id: (&context.broker.cluster_id).into(),
        controller_id,
        brokers,
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    response
}

fn brokers(image: &ClusterImage, listener: &str, fenced_too: bool) -> Vec<DescribeClusterBroker> {
    let brokers = image.brokers.values().filter(|broker| !broker.fenced || fenced_too);
    let brokers = brokers.filter_map(|broker| {
        let endpoint = broker.endpoint(listener)?;
        Some(DescribeClusterBroker {
            broker_id: broker.id.0,
            host: (&endpoint.host).into(),
            port: i32::from(endpoint.port),
            rack: broker.rack.as_ref().map(Into::into),
            is_fenced: broker.fenced,
            ..Default::default()
        })
    });
    brokers.collect()
}

fn controllers(image: &ClusterImage, listener: &str) -> Vec<DescribeClusterBroker> {
    let controllers = image.controllers.values().filter_map(|controller| {
        let mut endpoints = controller.endpoints.iter();
        let endpoint = endpoints.find(|endpoint| &*endpoint.listener == listener)?;
        Some(DescribeClusterBroker {
            broker_id: controller.id.0,
            host: (&endpoint.host).into(),
            port: i32::from(endpoint.port),
            ..Default::default()
        })
    });
    controllers.collect()
}

fn refusal(kind: i8, asked: i8) -> DescribeClusterResponse {
    let name = |kind| if kind == BROKERS { "BROKER" } else { "CONTROLLER" };
    let (error, text) = match asked {
        BROKERS | CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            format!(
                "The request was sent to an endpoint of type {}, but we wanted an endpoint of type \
                 {}",
                name(kind),
                name(asked)
            ),
        ),
        other => (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}")),
    };
    DescribeClusterResponse {
        error_code: error.code(),
        error_message: Some(text.into()),
        ..Default::default()
    }
}
