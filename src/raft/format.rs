//! Formatting: the snapshot that a new metadata directory begins with.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::snapshot_file::{SnapshotError, SnapshotWriter};
use super::snapshots::SnapshotId;
use super::voters::VoterSet;
use crate::log::file_names::METADATA_LOG;
use crate::sys::disk::Disk;
use crate::types::Timestamp;

/// What a new metadata directory begins with.
#[derive(Clone, Debug)]
pub struct FormatRequest<'a> {
    /// Values of the records that the first leader will write into the log.
    pub records: &'a [Bytes],
    /// The first voters; none where the configuration names them
    /// (`controller.quorum.voters`), or where this node will join later.
    pub voters: Option<&'a VoterSet>,
    /// Level of `kraft.version`: 1 where voters stand in log and snapshots.
    pub kraft_version: i16,
    /// Now.
    pub now: Timestamp,
}

/// Writes the bootstrap snapshot into the log directory `directory`, which need
/// not exist yet. A snapshot that is there is replaced.
pub fn format(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    request: &FormatRequest<'_>,
) -> Result<(), SnapshotError> {
    let dir = directory.join(METADATA_LOG);
    let failed = |source| SnapshotError::Disk { path: dir.clone(), source };
    disk.create_dir_all(&dir).map_err(failed)?;
    let FormatRequest { records, voters, kraft_version, now } = *request;
    let mut writer = SnapshotWriter::create(
        disk,
        &dir,
        SnapshotId::BOOTSTRAP,
        (now, now),
        (kraft_version, voters),
    )?;
    for record in records {
        writer.append(record.clone())?;
    }
    writer.finish()?;
    disk.sync_dir(directory).map_err(failed)
}
