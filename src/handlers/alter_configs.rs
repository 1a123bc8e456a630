//! AlterConfigs: all settings of a resource are replaced. Superseded by
//! IncrementalAlterConfigs, but still sent by older clients.

use super::RequestContext;
use super::alteration::{
    check_broker_name, check_dynamic, check_keys, kept_by_controller, named_twice,
};
use super::controller_call::code_and_text;
use super::once::Named;
use crate::cluster::{ConfigResource, ResourceType};
use crate::controller::{ApiError, ReplaceSettings};
use crate::protocol::ErrorCode;
use crate::protocol::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use crate::protocol::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};

/// Replaces settings, or only says whether it would.
pub async fn handle(
    context: &RequestContext<'_>,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let keys = request.resources.iter().map(|r| (r.resource_type, r.resource_name.clone()));
    let keys: Named<_> = keys.collect();
    let mut results = Vec::with_capacity(request.resources.len());
    let mut wanted = Vec::new();
    for resource in &request.resources {
        let key = (resource.resource_type, resource.resource_name.clone());
        let checked =
            if keys.is_repeated(&key) { Err(named_twice()) } else { command(context, resource) };
        results.push(checked.map(|command| wanted.push(command)));
    }
    let mut answers = ask(context, wanted, request.validate_only).await.into_iter();
    let responses = request.resources.into_iter().zip(results).map(|(resource, checked)| {
        let unanswered = || Err(ApiError::bare(ErrorCode::UnknownServerError));
        let result = checked.and_then(|()| answers.next().unwrap_or_else(unanswered));
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

async fn ask(
    context: &RequestContext<'_>,
    wanted: Vec<ReplaceSettings>,
    validate_only: bool,
) -> Vec<Result<(), ApiError>> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let count = wanted.len();
    match context.broker.controller.alter_configs(wanted, validate_only).await {
        Ok(results) => {
            context.caught_up().await;
            results
        }
        Err(error) => vec![Err(error); count],
    }
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
