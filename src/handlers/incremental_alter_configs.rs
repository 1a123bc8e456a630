//! IncrementalAlterConfigs: single settings are set, taken back, appended to,
//! subtracted from (KIP-339).

use super::RequestContext;
use super::alteration::{
    after_changes, check_broker_name, check_dynamic, check_keys, kept_by_controller,
};
use super::controller_call::code_and_text;
use super::each_resource::each_resource;
use crate::cluster::{ConfigResource, ResourceType};
use crate::controller::{AlterSettings, ApiError, SettingChange};
use crate::protocol::ErrorCode;
use crate::protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use crate::protocol::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};

/// The operation that takes a setting back, and so needs no value.
const DELETE: i8 = 1;

/// Changes settings, or only says whether it would.
pub async fn handle(
    context: &RequestContext<'_>,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let controller = &context.broker.controller;
    let results = each_resource(
        context,
        &request.resources,
        |resource| (resource.resource_type, resource.resource_name.clone()),
        |resource| command(context, resource),
        |wanted| controller.incremental_alter_configs(wanted, request.validate_only),
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
    IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}

fn command(
    context: &RequestContext<'_>,
    resource: &AlterConfigsResource,
) -> Result<AlterSettings, ApiError> {
    let keys = resource.configs.iter();
    check_keys(keys.map(|c| (&*c.name, c.config_operation == DELETE || c.value.is_some())))?;
    let kind = kept_by_controller(resource.resource_type)?;
    let changes = resource.configs.iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let name = &*resource.resource_name;
    let target = ConfigResource::new(kind, name);
    if kind == ResourceType::Broker {
        check_broker_name(name, context.broker.node_id)?;
        let image = context.image();
        let before = image.settings(&target).cloned().unwrap_or_default();
        let after = after_changes(&before, &changes)?;
        check_dynamic(&after, name.is_empty(), &context.broker.config.current())?;
    }
    Ok(AlterSettings { resource: target, changes })
}

fn change(config: &AlterableConfig) -> Result<(String, SettingChange), ApiError> {
    let value = config.value.as_deref().unwrap_or_default().to_owned();
    let change = match config.config_operation {
        0 => SettingChange::Set(value),
        DELETE => SettingChange::Delete,
        2 => SettingChange::Append(value),
        3 => SettingChange::Subtract(value),
        other => {
            let text = format!("Unknown operations type {other}");
            return Err(ApiError::new(ErrorCode::InvalidRequest, text));
        }
    };
    Ok((config.name.to_string(), change))
}
