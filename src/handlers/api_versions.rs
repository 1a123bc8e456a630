//! ApiVersions: which APIs, versions and features this listener serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{RequestContext, is_served};
use crate::cluster::features::KRAFT_VERSION;
use crate::cluster::{ClusterImage, VersionRange};
use crate::network::ClientSoftware;
use crate::protocol::ErrorCode;
use crate::protocol::apis::{Api, ListenerKind};
use crate::protocol::messages::api_versions_request::ApiVersionsRequest;
use crate::protocol::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

/// First version that tells who the client is (KIP-511).
const NAMES_SOFTWARE: i16 = 3;
/// First version whose readers take features with a minimum of 0 (KAFKA-17011).
const TAKES_ZERO_MINIMUM: i16 = 4;
/// First version that says which broker the client means to reach (KIP-1242).
const NAMES_BROKER: i16 = 5;

/// Tells APIs and features, or why the client is wrong here.
pub async fn handle(
    context: &RequestContext<'_>,
    request: ApiVersionsRequest,
) -> ApiVersionsResponse {
    if context.api_version >= NAMES_SOFTWARE {
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        if !is_software_name(name) || !is_software_name(version) {
            return refusal(ErrorCode::InvalidRequest);
        }
        let software = ClientSoftware { name: name.to_string(), version: version.to_string() };
        let _first_one_counts = context.connection.software.set(software);
    }
    if context.api_version >= NAMES_BROKER
        && let Some(error) = wrong_broker(context, &request)
    {
        return refusal(error);
    }
    let features = &context.broker.features;
    answer(context.connection.listener.kind, context.api_version, features, &context.image())
}

/// The answer to a version that we do not know, in version 0: which ones we do.
pub fn unsupported_version() -> ApiVersionsResponse {
    ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: vec![told(Api::ApiVersions)],
        ..Default::default()
    }
}

/// A client that got here by an address that now belongs to another cluster or
/// broker must look for its own anew.
fn wrong_broker(context: &RequestContext<'_>, request: &ApiVersionsRequest) -> Option<ErrorCode> {
    match (&request.cluster_id, request.node_id) {
        (None, -1) => None,
        (None, _) | (Some(_), -1) => Some(ErrorCode::InvalidRequest),
        (Some(cluster), node) => {
            let here = **cluster == *context.broker.cluster_id && node == context.broker.node_id.0;
            (!here).then_some(ErrorCode::RebootstrapRequired)
        }
    }
}

fn refusal(error: ErrorCode) -> ApiVersionsResponse {
    ApiVersionsResponse { error_code: error.code(), ..Default::default() }
}

fn told(api: Api) -> ApiVersion {
    let (min_version, max_version) = api.advertised().into_inner();
    ApiVersion { api_key: api.key(), min_version, max_version, ..Default::default() }
}

fn answer(
    listener: ListenerKind,
    version: i16,
    supported: &BTreeMap<Arc<str>, VersionRange>,
    image: &ClusterImage,
) -> ApiVersionsResponse {
    let served = Api::ALL.iter().filter(|api| is_served(**api, listener));
    let told_of =
        |range: &VersionRange| range.max > 0 && (range.min > 0 || version >= TAKES_ZERO_MINIMUM);
    ApiVersionsResponse {
        api_keys: served.map(|api| told(*api)).collect(),
        supported_features: (supported.iter())
            .filter(|(_, range)| told_of(range))
            .map(|(name, range)| SupportedFeatureKey {
                name: name.as_ref().into(),
                min_version: range.min,
                max_version: range.max,
                ..Default::default()
            })
            .collect(),
        finalized_features_epoch: image.offset.0,
        finalized_features: finalized(supported, image),
        ..Default::default()
    }
}

/// The levels in force of what this node can do. A directory that Apache Kafka
/// wrote may say more; clients must not rely on it here.
fn finalized(
    supported: &BTreeMap<Arc<str>, VersionRange>,
    image: &ClusterImage,
) -> Vec<FinalizedFeatureKey> {
    let kraft: Arc<str> = KRAFT_VERSION.into();
    let kraft = std::iter::once((&kraft, &image.kraft_version)).filter(|(_, level)| **level > 0);
    let in_force = image.features.iter().chain(kraft);
    in_force
        .filter(|(name, _)| supported.get(*name).is_some_and(|range| range.max > 0))
        .map(|(name, level)| FinalizedFeatureKey {
            name: name.as_ref().into(),
            max_version_level: *level,
            min_version_level: *level,
            ..Default::default()
        })
        .collect()
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`
fn is_software_name(text: &str) -> bool {
    let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    ends_well(bytes.first())
        && ends_well(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Offset;

    fn image() -> ClusterImage {
        let features = [("metadata.version".into(), 33), ("transaction.version".into(), 2)];
        let mut image = ClusterImage::empty("cluster");
        image.offset = Offset(17);
        image.features = Arc::new(features.into());
        image
    }

    fn supported() -> BTreeMap<Arc<str>, VersionRange> {
        [
            ("metadata.version".into(), VersionRange { min: 7, max: 33 }),
            ("transaction.version".into(), VersionRange { min: 0, max: 2 }),
            ("share.version".into(), VersionRange { min: 0, max: 0 }),
        ]
        .into()
    }

    fn names(response: &ApiVersionsResponse) -> Vec<&str> {
        response.supported_features.iter().map(|feature| &*feature.name).collect()
    }

    #[test]
    fn only_what_has_a_handler_is_told() {
        let response = answer(ListenerKind::Broker, 4, &supported(), &image());
        assert!(!response.api_keys.is_empty());
        for told in &response.api_keys {
            let api = Api::from_key(told.api_key).unwrap();
            assert!(is_served(api, ListenerKind::Broker), "{api}");
            assert_eq!((told.min_version, told.max_version), api.advertised().into_inner());
        }
        for served in Api::ALL {
            let listener = ListenerKind::Controller;
            assert!(!is_served(*served, listener) || served.is_on(listener), "{served}");
        }
    }

    #[test]
    fn features_with_minimum_zero_are_told_from_version_4_only() {
        let old = answer(ListenerKind::Broker, 3, &supported(), &image());
        assert_eq!(names(&old), ["metadata.version"]);
        let new = answer(ListenerKind::Broker, 4, &supported(), &image());
        assert_eq!(names(&new), ["metadata.version", "transaction.version"]);
        assert_eq!(new.finalized_features_epoch, 17);
        let finalized = &new.finalized_features[0];
        assert_eq!((finalized.max_version_level, finalized.min_version_level), (33, 33));
    }

    #[test]
    fn an_unknown_version_learns_of_api_versions_alone() {
        let response = unsupported_version();
        assert_eq!(response.error_code, 35);
        let [only] = response.api_keys.as_slice() else { panic!("{response:?}") };
        assert_eq!((only.api_key, only.min_version, only.max_version), (18, 0, 5));
    }

    #[test]
    fn software_names_have_letters_digits_dashes_and_dots_inside() {
        for good in ["a", "apache-kafka-java", "4.4.0", "v1.0-rc.1", "A9"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "a_b", "ä", "a\n"] {
            assert!(!is_software_name(bad), "{bad:?}");
        }
    }
}
