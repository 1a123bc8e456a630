//! DescribeClientQuotas: the quotas that are kept (KIP-546).

use std::collections::BTreeMap;

use super::RequestContext;
use crate::controller::{ApiError, IP, QUOTA_ENTITY_TYPES, QuotaMatch, matching_quotas};
use crate::protocol::messages::describe_client_quotas_request::{
    ComponentData, DescribeClientQuotasRequest,
};
use crate::protocol::messages::describe_client_quotas_response::{
    DescribeClientQuotasResponse, EntityData, EntryData, ValueData,
};
use crate::protocol::{ErrorCode, Str};

/// Answers from the image.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let filter = match filter(&request.components) {
        Ok(filter) => filter,
        Err(error) => {
            return DescribeClientQuotasResponse {
                error_code: error.code.code(),
                error_message: error.message.map(Str::from),
                entries: None,
                ..Default::default()
            };
        }
    };
    let found = matching_quotas(&context.image().security, &filter, request.strict);
    let entries = found.into_iter().map(|(entity, values)| EntryData {
        entity: (entity.iter())
            .map(|(kind, name)| EntityData {
                entity_type: kind.into(),
                entity_name: name.as_ref().map(Into::into),
                ..Default::default()
            })
            .collect(),
        values: (values.iter())
            .map(|(key, value)| ValueData { key: key.into(), value: *value, ..Default::default() })
            .collect(),
        ..Default::default()
    });
    DescribeClientQuotasResponse { entries: Some(entries.collect()), ..Default::default() }
}

/// What is asked for, or why that cannot be.
fn filter(components: &[ComponentData]) -> Result<BTreeMap<String, QuotaMatch>, ApiError> {
    let mut filter = BTreeMap::new();
    for component in components {
        let kind = component.entity_type.to_string();
        if kind.is_empty() {
            return refuse("Invalid empty entity type.");
        }
        if filter.contains_key(&kind) {
            return refuse(format!(
                "Entity type {kind} cannot appear more than once in the filter."
            ));
        }
        if !QUOTA_ENTITY_TYPES.contains(&kind.as_str()) {
            let text = format!("Unsupported entity type {kind}");
            return Err(ApiError::new(ErrorCode::UnsupportedVersion, text));
        }
        filter.insert(kind, wanted(component)?);
    }
    if filter.contains_key(IP) && filter.len() > 1 {
        return refuse(
            "Invalid entity filter component combination. IP filter component should not be used \
             with user or clientId filter component.",
        );
    }
    Ok(filter)
}

fn wanted(component: &ComponentData) -> Result<QuotaMatch, ApiError> {
    let name = component.r#match.as_ref().map(ToString::to_string);
    match (component.match_type, name) {
        (0, Some(name)) => Ok(QuotaMatch::Exact(Some(name))),
        (0, None) => refuse("Request specified MATCH_TYPE_EXACT, but set match string to null."),
        (1, None) => Ok(QuotaMatch::Exact(None)),
        (2, None) => Ok(QuotaMatch::Any),
        (1, Some(_)) => {
            refuse("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
        }
        (2, Some(_)) => {
            refuse("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
        }
        (other, _) => refuse(format!("Unknown match type {other}")),
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::new(ErrorCode::InvalidRequest, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_cannot_be_are_refused() {
        let component = |kind: &str, match_type, name: Option<&str>| ComponentData {
            entity_type: kind.into(),
            match_type,
            r#match: name.map(Str::from),
            ..Default::default()
        };
        let refusal = |components: &[ComponentData]| {
            let error = filter(components).unwrap_err();
            (error.code, error.message.unwrap())
        };
        let user = component("user", 0, Some("a"));
        assert!(filter(&[user.clone(), component("client-id", 2, None)]).is_ok());
        assert!(refusal(&[user.clone(), user.clone()]).1.contains("more than once"));
        assert!(refusal(&[user, component("ip", 1, None)]).1.contains("combination"));
        assert_eq!(refusal(&[component("", 0, Some("a"))]).1, "Invalid empty entity type.");
        assert_eq!(refusal(&[component("host", 2, None)]).0, ErrorCode::UnsupportedVersion);
        assert!(refusal(&[component("user", 0, None)]).1.contains("to null"));
        assert!(refusal(&[component("user", 1, Some("a"))]).1.contains("MATCH_TYPE_DEFAULT"));
        assert_eq!(refusal(&[component("user", 7, None)]).1, "Unknown match type 7");
    }
}
