//! DescribeCluster: who the cluster is and which brokers it has (KIP-700).

use super::RequestContext;
use super::topic_view::{CLUSTER_OPERATIONS, View};
use crate::protocol::ErrorCode;
use crate::protocol::messages::describe_cluster_request::DescribeClusterRequest;
use crate::protocol::messages::describe_cluster_response::{
    DescribeClusterBroker, DescribeClusterResponse,
};

/// The kind of endpoint that brokers tell (KIP-919).
const BROKERS: i8 = 1;
/// The kind that only controllers tell.
const CONTROLLERS: i8 = 2;

/// Answers from the image.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    if request.endpoint_type != BROKERS {
        return refusal(request.endpoint_type);
    }
    let image = context.image();
    let view = View { image: &image, listener: &context.connection.listener.name };
    let brokers =
        image.brokers.values().filter(|broker| !broker.fenced || request.include_fenced_brokers);
    let brokers = brokers.filter_map(|broker| {
        let endpoint = broker.endpoint(view.listener)?;
        Some(DescribeClusterBroker {
            broker_id: broker.id.0,
            host: (&endpoint.host).into(),
            port: i32::from(endpoint.port),
            rack: broker.rack.as_ref().map(Into::into),
            is_fenced: broker.fenced,
            ..Default::default()
        })
    });
    let mut response = DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: (&context.broker.cluster_id).into(),
        controller_id: view.any_broker(&context.broker.random),
        brokers: brokers.collect(),
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    response
}

fn refusal(endpoint_type: i8) -> DescribeClusterResponse {
    let (error, text) = match endpoint_type {
        CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type \
             CONTROLLER"
                .to_owned(),
        ),
        other => {
            (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}"))
        }
    };
    DescribeClusterResponse {
        error_code: error.code(),
        error_message: Some(text.into()),
        ..Default::default()
    }
}
