//! UpdateFeatures: feature levels are raised or lowered, all or none.

use super::RequestContext;
use super::controller_call::within;
use crate::controller::{FeatureUpdate, UpgradeType};
use crate::protocol::ErrorCode;
use crate::protocol::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use crate::protocol::messages::update_features_response::{
    UpdatableFeatureResult, UpdateFeaturesResponse,
};

/// From this version on there is no result for each feature.
const WITHOUT_RESULTS: i16 = 2;

/// Updates features, or only says whether it would.
pub async fn handle(
    context: &RequestContext<'_>,
    request: UpdateFeaturesRequest,
) -> UpdateFeaturesResponse {
    let version = context.api_version;
    let updates = request.feature_updates.iter().map(|update| command(update, version)).collect();
    let updating = context.broker.controller.update_features(updates, request.validate_only);
    match within(context, request.timeout_ms, updating).await {
        Ok(()) if version >= WITHOUT_RESULTS => UpdateFeaturesResponse::default(),
        Ok(()) => UpdateFeaturesResponse {
            results: request.feature_updates.iter().map(updated).collect(),
            ..Default::default()
        },
        Err(error) => {
            let reason = error.message.unwrap_or_else(|| error.code.name().to_owned());
            let text = format!(
                "The update failed for all features since the following feature had an error: \
                 {reason}"
            );
            UpdateFeaturesResponse {
                error_code: error.code.code(),
                error_message: Some(text.into()),
                ..Default::default()
            }
        }
    }
}

fn command(update: &FeatureUpdateKey, version: i16) -> FeatureUpdate {
    let upgrade = match (version, update.allow_downgrade) {
        (0, true) => UpgradeType::SafeDowngrade,
        (0, false) => UpgradeType::Upgrade,
        _ => UpgradeType::from_code(update.upgrade_type),
    };
    FeatureUpdate { name: update.feature.to_string(), level: update.max_version_level, upgrade }
}

fn updated(update: &FeatureUpdateKey) -> UpdatableFeatureResult {
    UpdatableFeatureResult {
        feature: update.feature.clone(),
        error_code: ErrorCode::None.code(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_0_has_a_flag_where_later_ones_have_a_kind() {
        let update = FeatureUpdateKey {
            feature: "group.version".into(),
            max_version_level: 0,
            allow_downgrade: true,
            upgrade_type: 3,
            ..Default::default()
        };
        assert_eq!(command(&update, 0).upgrade, UpgradeType::SafeDowngrade);
        assert_eq!(command(&update, 1).upgrade, UpgradeType::UnsafeDowngrade);
        let unknown = FeatureUpdateKey { upgrade_type: 9, ..update };
        assert_eq!(command(&unknown, 2).upgrade, UpgradeType::Unknown);
    }
}
