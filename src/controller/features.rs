//! Finalized feature levels: raised and lowered, all of a request or none. `[P]`

use super::command::{Answer, ApiError, FeatureUpdate, UpgradeType};
use super::machine::{ControllerMachine, Written};
use crate::cluster::records::MetadataRecord;
use crate::cluster::{METADATA_VERSION, METADATA_VERSIONS, VersionRange, feature_level, features};
use crate::protocol::ErrorCode;
use crate::protocol::messages::no_op_record::NoOpRecord;

/// Levels of `metadata.version` that brought another format: going below one of
/// them could lose what only it can say.
const FORMAT_CHANGES: [i16; 11] = [7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33];

/// A feature that a node does not know.
const DISABLED: VersionRange = VersionRange { min: 0, max: 0 };

impl ControllerMachine {
    /// Changes feature levels, or only judges whether it would.
    pub(super) fn update_features(
        &mut self,
        updates: &[FeatureUpdate],
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        let mut records = Vec::new();
        for update in updates {
            records.extend(self.update_feature(update)?);
        }
        if validate_only {
            records.clear();
        }
        Ok(Written::atomic(records, Answer::Done))
    }

    fn update_feature(&self, update: &FeatureUpdate) -> Result<Option<MetadataRecord>, ApiError> {
        let FeatureUpdate { name, level, upgrade } = update;
        let refused = |why: &str| {
            let text = format!("Invalid update version {level} for feature {name}. {why}");
            Err(ApiError::new(ErrorCode::InvalidUpdateVersion, text))
        };
        let current = match name.as_str() {
            features::KRAFT_VERSION => self.image.kraft_version,
            name => self.image.feature_level(name),
        };
        if *upgrade == UpgradeType::Unknown {
            return refused("The controller does not support the given upgrade type.");
        }
        if *level < 0 {
            return refused("A feature version cannot be less than 0.");
        }
        if let Some(reason) = self.reason_not_supported(name, *level) {
            return refused(&reason);
        }
        if *level < current && *upgrade == UpgradeType::Upgrade {
            return refused(
                "Can't downgrade the version of this feature without setting the upgrade type to \
                 either safe or unsafe downgrade.",
            );
        }
        if *level > current && *upgrade != UpgradeType::Upgrade {
            return refused("Can't downgrade to a newer version.");
        }
        match name.as_str() {
            METADATA_VERSION => self.update_metadata_version(*level, *upgrade).map(Some),
            features::KRAFT_VERSION if *level < current => {
                refused("Can't downgrade the version of this feature.")
            }
            features::KRAFT_VERSION if *level > current => {
                refused("A quorum of static voters cannot be made a dynamic one yet.")
            }
            features::KRAFT_VERSION => Ok(Some(NoOpRecord::default().into())),
            name if features::find(name).is_none() => {
                refused(&format!("Feature {name} not found."))
            }
            name => Ok(Some(feature_level(name, *level).into())),
        }
    }

    fn update_metadata_version(
        &self,
        level: i16,
        upgrade: UpgradeType,
    ) -> Result<MetadataRecord, ApiError> {
        let refused = |text: String| Err(ApiError::new(ErrorCode::InvalidUpdateVersion, text));
        let current = self.image.metadata_version();
        if !METADATA_VERSIONS.contains(level) {
            let VersionRange { min, max } = METADATA_VERSIONS;
            let text = format!(
                "Invalid metadata.version {level}. Valid versions are from {min} to {max}."
            );
            return refused(text);
        }
        let loses = FORMAT_CHANGES.iter().any(|change| level < *change && *change <= current);
        if loses {
            let why = if upgrade == UpgradeType::UnsafeDowngrade {
                "Unsafe metadata downgrade is not supported in this version."
            } else {
                "Refusing to perform the requested downgrade because it might delete metadata \
                 information."
            };
            return refused(format!(
                "Unsupported metadata.version downgrade from {current} to {level}. {why}"
            ));
        }
        Ok(feature_level(METADATA_VERSION, level).into())
    }

    /// Why a level cannot be: this controller, a broker or another controller
    /// cannot work with it.
    fn reason_not_supported(&self, name: &str, level: i16) -> Option<String> {
        let supported = features::supported(&self.image);
        let local = (format!("Local controller {}", self.options.node_id), supported.get(name));
        let brokers = self
            .image
            .brokers
            .values()
            .map(|broker| (format!("Broker {}", broker.id), broker.features.get(name)));
        let others = self.image.controllers.values();
        let others = others.filter(|controller| controller.id != self.options.node_id);
        let controllers = others.map(|controller| {
            (format!("Controller {}", controller.id), controller.features.get(name))
        });
        let mut all = std::iter::once(local).chain(brokers).chain(controllers);
        all.find_map(|(who, range)| {
            let range = range.copied().unwrap_or(DISABLED);
            if range.contains(level) {
                None
            } else if range.max == 0 {
                Some(format!("{who} does not support this feature."))
            } else {
                Some(format!("{who} only supports versions {}-{}", range.min, range.max))
            }
        })
    }
}
