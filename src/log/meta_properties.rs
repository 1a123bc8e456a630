//! `meta.properties`: to which cluster and node a log directory belongs.
//!
//! Written once when the directory is formatted; read and compared at every
//! start, so that a broker never works on another's data.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::file_names::META_PROPERTIES;
use crate::properties;
use crate::sys::disk::{Disk, read_small_file, replace_file};
use crate::types::{BrokerId, DirectoryId, parse_uuid, uuid_text};

/// The file's contents, version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// `cluster.id`: any text, mostly the text of a UUID.
    pub cluster_id: String,
    /// `node.id`
    pub node_id: BrokerId,
    /// `directory.id`; formats before Kafka 3.7 had none.
    pub directory_id: Option<DirectoryId>,
}

/// Why a directory's identity is not known.
#[derive(Debug, thiserror::Error)]
pub enum MetaPropertiesError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is there, but not what it must be.
    #[error("{}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The file is small; more than this was never written by Kafka.
const MAX_LEN: usize = 1 << 20;

impl MetaProperties {
    /// Reads the file of a log directory; `None` when there is none: the
    /// directory is not formatted.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, MetaPropertiesError> {
        let path = dir.join(META_PROPERTIES);
        let malformed = |reason| MetaPropertiesError::Malformed { path: path.clone(), reason };
        let bytes = match read_small_file(disk, &path, MAX_LEN) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => return Err(MetaPropertiesError::Io { path, source }),
        };
        let text = String::from_utf8(bytes).map_err(|error| malformed(error.to_string()))?;
        Self::parse(&text).map(Some).map_err(malformed)
    }

    /// Writes the file durably, in place of one that is there.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        replace_file(disk, &dir.join(META_PROPERTIES), self.to_text().as_bytes())
    }

    /// The assignments, sorted by key: what `info` shows.
    pub fn assignments(&self) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::from([
            ("cluster.id", self.cluster_id.clone()),
            ("node.id", self.node_id.to_string()),
            ("version", "1".to_owned()),
        ]);
        all.extend(self.directory_id.map(|id| ("directory.id", uuid_text(id))));
        all
    }

    fn to_text(&self) -> String {
        let assignments = self.assignments();
        properties::write(assignments.iter().map(|(key, value)| (*key, value.as_str())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all: BTreeMap<_, _> =
            properties::parse(text).into_iter().map(|found| (found.key, found.value)).collect();
        let get = |key: &str| all.get(key).ok_or_else(|| format!("{key} was not found"));
        match all.get("version").map(String::as_str) {
            Some("1") => {}
            None | Some("0") => {
                return Err("this directory belongs to a cluster with ZooKeeper".into());
            }
            Some(other) => return Err(format!("version {other} is not known")),
        }
        let node = get("node.id")?;
        let node_id = node.parse().map_err(|_| format!("node.id {node} is not a number"))?;
        let directory_id = match all.get("directory.id") {
            Some(text) => {
                Some(parse_uuid(text).ok_or_else(|| format!("directory.id {text} is not an id"))?)
            }
            None => None,
        };
        Ok(Self {
            cluster_id: get("cluster.id")?.clone(),
            node_id: BrokerId(node_id),
            directory_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_kafka_wrote_is_read() {
        let text = "#\n#Sun Nov 29 21:00:00 UTC 2026\ncluster.id=5L6g3nShT-eMCtK--X86sw\nversion=1\n\
                    directory.id=JEXY6aqzQY-32P5TStzaFg\nnode.id=1\n";
        let read = MetaProperties::parse(text).unwrap();
        assert_eq!(read.cluster_id, "5L6g3nShT-eMCtK--X86sw");
        assert_eq!(read.node_id, BrokerId(1));
        assert_eq!(read.directory_id.map(uuid_text).as_deref(), Some("JEXY6aqzQY-32P5TStzaFg"));
        assert_eq!(MetaProperties::parse(&read.to_text()), Ok(read));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (text, reason) in [
            ("broker.id=1", "ZooKeeper"),
            ("version=2", "version 2"),
            ("version=1\ncluster.id=a", "node.id was not found"),
            ("version=1\nnode.id=1", "cluster.id was not found"),
            ("version=1\nnode.id=x\ncluster.id=a", "not a number"),
            ("version=1\nnode.id=1\ncluster.id=a\ndirectory.id=x", "not an id"),
        ] {
            let error = MetaProperties::parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn without_a_directory_id_and_with_odd_texts() {
        let odd = MetaProperties {
            cluster_id: " a=b:c#d ".into(),
            node_id: BrokerId(0),
            directory_id: None,
        };
        assert_eq!(MetaProperties::parse(&odd.to_text()), Ok(odd.clone()));
        let with = MetaProperties { directory_id: Some(Uuid::from_u128(1 << 100)), ..odd };
        assert_eq!(MetaProperties::parse(&with.to_text()), Ok(with));
    }
}
