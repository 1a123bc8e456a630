//! Formatting: the records that a new cluster begins with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::cluster::features::{self, FEATURES, KRAFT_VERSION};
use crate::cluster::records::MetadataRecord;
use crate::cluster::{METADATA_VERSION, feature_level};
use crate::protocol::EncodeError;
use crate::raft::{self, FormatRequest, SnapshotError, VoterSet};
use crate::sys::disk::Disk;
use crate::types::Timestamp;

/// Feature levels by name.
pub type Levels = BTreeMap<String, i16>;

/// Why a directory cannot be formatted.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A feature that does not exist.
    #[error("Unsupported feature: {name}. Supported features are: {known}")]
    UnknownFeature {
        /// As asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A level that is not served.
    #[error("Feature {name} level {level} is not supported; the levels are {min} to {max}.")]
    UnsupportedLevel {
        /// The feature.
        name: String,
        /// As asked for.
        level: i16,
        /// Lowest level.
        min: i16,
        /// Highest level.
        max: i16,
    },
    /// The level goes with other flags than those given.
    #[error("{0}")]
    KraftVersion(&'static str),
    /// A record cannot be written.
    #[error("a bootstrap record: {0}")]
    Encode(#[from] EncodeError),
    /// The directory cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// The levels that a cluster is formatted with: those asked for, else those of a
/// fresh one. `dynamic` says that the voters are written into the directory.
pub fn levels(asked: &Levels, dynamic: bool) -> Result<Levels, FormatError> {
    for (name, level) in asked {
        let feature = features::find(name).ok_or_else(|| {
            let known: Vec<_> = FEATURES.iter().map(|feature| feature.name).collect();
            FormatError::UnknownFeature { name: name.clone(), known: known.join(", ") }
        })?;
        if !feature.served.contains(*level) {
            let (min, max) = (feature.served.min, feature.served.max);
            let name = name.clone();
            return Err(FormatError::UnsupportedLevel { name, level: *level, min, max });
        }
    }
    match asked.get(KRAFT_VERSION) {
        Some(0) if dynamic => {
            return Err(FormatError::KraftVersion(
                "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of \
                 the flags --standalone, --initial-controllers, or --no-initial-controllers is used.",
            ));
        }
        Some(1..) if !dynamic => {
            return Err(FormatError::KraftVersion(
                "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one \
                 of the flags --standalone, --initial-controllers, or --no-initial-controllers is \
                 used.",
            ));
        }
        _ => {}
    }
    let level = |name: &str, fresh| match name {
        KRAFT_VERSION => i16::from(dynamic),
        name => asked.get(name).copied().unwrap_or(fresh),
    };
    let all = FEATURES
        .iter()
        .map(|feature| (feature.name.to_owned(), level(feature.name, feature.fresh)));
    Ok(all.collect())
}

/// The records that finalize these levels: `metadata.version` first, then those
/// above 0 by name; never `kraft.version`, which stands in control records.
pub fn records(levels: &Levels) -> Vec<MetadataRecord> {
    let first = levels.get_key_value(METADATA_VERSION);
    let others = levels
        .iter()
        .filter(|(name, level)| **level > 0 && *name != METADATA_VERSION && *name != KRAFT_VERSION);
    first
        .into_iter()
        .chain(others)
        .map(|(name, level)| feature_level(name, *level).into())
        .collect()
}

/// What a log begins with whose directory says nothing of it.
pub(super) fn default_records() -> Vec<MetadataRecord> {
    records(&levels(&Levels::new(), false).unwrap_or_default())
}

/// Formats a metadata directory: levels as of [`levels`]; the voters where they
/// are to stand in log and snapshots (`--standalone`, `--initial-controllers`).
/// `meta.properties` is written by whoever calls this, afterwards: a directory
/// counts as formatted only with it.
pub fn format_metadata(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    levels: &Levels,
    voters: Option<&VoterSet>,
    now: Timestamp,
) -> Result<(), FormatError> {
    let metadata_version = levels.get(METADATA_VERSION).copied().unwrap_or(0);
    let values = records(levels)
        .iter()
        .map(|record| record.encode(metadata_version))
        .collect::<Result<Vec<Bytes>, _>>()?;
    let kraft_version = levels.get(KRAFT_VERSION).copied().unwrap_or(0);
    let request = FormatRequest { records: &values, voters, kraft_version, now };
    Ok(raft::format(disk, directory, &request)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_cluster_has_the_newest_format_and_nothing_that_is_not_served() {
        let fresh = levels(&Levels::new(), true).unwrap();
        assert_eq!((fresh.get(METADATA_VERSION), fresh.get(KRAFT_VERSION)), (Some(&33), Some(&1)));
        assert_eq!(records(&fresh), [feature_level(METADATA_VERSION, 33).into()]);
        let level = levels(&Levels::from([(METADATA_VERSION.to_owned(), 25)]), false).unwrap();
        assert_eq!((level.get(METADATA_VERSION), level.get(KRAFT_VERSION)), (Some(&25), Some(&0)));
    }

    #[test]
    fn what_is_not_served_cannot_be_asked_for() {
        let ask = |name: &str, level, dynamic| {
            levels(&Levels::from([(name.to_owned(), level)]), dynamic).unwrap_err().to_string()
        };
        assert!(ask("no.version", 1, true).starts_with("Unsupported feature: no.version. Supp"));
        assert!(ask(METADATA_VERSION, 34, true).contains("the levels are 7 to 33"));
        assert!(ask("streams.version", 1, true).contains("the levels are 0 to 0"));
        assert!(ask(KRAFT_VERSION, 0, true).starts_with("Cannot set kraft.version to 0"));
        assert!(ask(KRAFT_VERSION, 1, false).starts_with("Cannot set kraft.version to 1"));
    }
}
