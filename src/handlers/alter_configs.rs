//! AlterConfigs: all settings of a resource are replaced. Superseded by
//! IncrementalAlterConfigs, but still sent by older clients.

use super::RequestContext;
use super::alteration::{check_broker_name, check_dynamic, check_keys, kept_by_controller};
use super::controller_call::code_and_text;
use super::each_resource::each_resource;
use crate::cluster::{ConfigResource, ResourceType};
use crate::controller::{ApiError, ReplaceSettings};
use crate::protocol::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use crate::protocol::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};

/// Replaces settings, or only says whether it would.
pub async fn handle(
    context: &RequestContext<'_>,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let controller = &context.broker.controller;
    let results = each_resource(
        context,
        &request.resources,
        |resource| (resource.resource_type, resource.resource_name.clone()),
        |resource| command(context, resource),
        |wanted| controller.alter_configs(wanted, request.validate_only),
    )
    .await;
    let responses = request.resources.into_iter().zip(results).map(|(resource, result)| {
        let (error_code, error_message) = code_and_text(&result);
        AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            ..Default::default()
        }
    });
    AlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}

fn command(
    context: &RequestContext<'_>,
    resource: &AlterConfigsResource,
) -> Result<ReplaceSettings, ApiError> {
    check_keys(resource.configs.iter().map(|c| (&*c.name, c.value.is_some())))?;
    let kind = kept_by_controller(resource.resource_type)?;
    let name = &*resource.resource_name;
    let pairs = resource.configs.iter();
    let settings: Vec<(String, String)> =
        pairs.filter_map(|c| Some((c.name.to_string(), c.value.as_ref()?.to_string()))).collect();
    if kind == ResourceType::Broker {
        check_broker_name(name, context.broker.node_id)?;
        let after =
            settings.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
        check_dynamic(&after.collect(), name.is_empty(), &context.broker.config.current())?;
    }
    Ok(ReplaceSettings { resource: ConfigResource::new(kind, name), settings })
}
