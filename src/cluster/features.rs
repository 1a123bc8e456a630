//! Features with levels: what Kafka 4.4 knows, what is served here, and what a
//! fresh directory begins with. `[P]`
//!
//! This is the one place to raise a level when what it stands for is built.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ClusterImage, METADATA_VERSION, METADATA_VERSIONS, VersionRange};

/// Name of the feature that says how the quorum of controllers is kept.
pub const KRAFT_VERSION: &str = "kraft.version";
/// Name of the feature for eligible leader replicas (KIP-966).
pub const ELR_VERSION: &str = "eligible.leader.replicas.version";

/// A feature with levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Levels that Kafka 4.4 knows.
    pub known: VersionRange,
    /// Levels that are fully served here.
    pub served: VersionRange,
    /// The level of a freshly formatted directory.
    pub fresh: i16,
}

/// Every feature of Kafka 4.4.
pub const FEATURES: [Feature; 7] = [
    Feature {
        name: METADATA_VERSION,
        known: METADATA_VERSIONS,
        served: METADATA_VERSIONS,
        fresh: 33,
    },
    // A fresh directory has 1 when its voters are written into it, else 0.
    feature(KRAFT_VERSION, 1, 1),
    feature("transaction.version", 2, 0),
    feature("group.version", 1, 0),
    feature(ELR_VERSION, 1, 0),
    feature("share.version", 2, 0),
    feature("streams.version", 1, 0),
];

const fn feature(name: &'static str, known: i16, served: i16) -> Feature {
    let (known, served) =
        (VersionRange { min: 0, max: known }, VersionRange { min: 0, max: served });
    Feature { name, known, served, fresh: 0 }
}

/// The feature of this name.
pub fn find(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}

/// What this broker says that it supports: what it serves and, where Kafka
/// itself finalized more before this broker opened the directory, that level
/// too. A level that Kafka 4.4 does not know is never claimed.
pub fn supported(image: &ClusterImage) -> BTreeMap<Arc<str>, VersionRange> {
    let range = |feature: &Feature| {
        let level = image.feature_level(feature.name);
        let max = if feature.known.contains(level) {
            level.max(feature.served.max)
        } else {
            feature.served.max
        };
        (Arc::from(feature.name), VersionRange { min: feature.served.min, max })
    };
    FEATURES.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_kafka_finalized_is_supported_and_an_unknown_one_is_not() {
        let mut image = ClusterImage::empty("c");
        let features = [("group.version", 1), ("share.version", 3)];
        image.features =
            Arc::new(features.into_iter().map(|(name, level)| (Arc::from(name), level)).collect());
        let supported = supported(&image);
        assert_eq!(supported.get("group.version"), Some(&VersionRange { min: 0, max: 1 }));
        assert_eq!(supported.get("share.version"), Some(&VersionRange { min: 0, max: 0 }));
        assert_eq!(supported.get("metadata.version"), Some(&METADATA_VERSIONS));
    }
}
