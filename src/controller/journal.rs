//! The metadata log as the machine's journal.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cluster::METADATA_VERSION;
use crate::cluster::records::MetadataRecord;
use crate::protocol::EncodeError;
use crate::raft::{Raft, RaftError};
use crate::replicated::{Appended, Journal};
use crate::sys::clock::Clock;
use crate::types::Offset;

/// Appends metadata records in the format of the finalized `metadata.version`.
#[derive(Debug)]
pub struct RaftJournal {
    raft: Arc<Raft>,
    clock: Arc<dyn Clock>,
    metadata_version: i16,
}

/// Why the metadata log takes no more records.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A record cannot be written in the format.
    #[error("a metadata record cannot be written: {0}")]
    Encode(#[from] EncodeError),
    /// The log failed, or this node does not lead any more.
    #[error(transparent)]
    Raft(#[from] RaftError),
}

impl RaftJournal {
    /// The journal of a log whose records so far finalize `metadata_version`.
    pub fn new(raft: Arc<Raft>, clock: Arc<dyn Clock>, metadata_version: i16) -> Self {
        Self { raft, clock, metadata_version }
    }
}

impl Journal for RaftJournal {
    type Record = MetadataRecord;
    type Error = JournalError;

    fn append(&mut self, records: &[MetadataRecord]) -> Result<Appended, JournalError> {
        let mut values = Vec::with_capacity(records.len());
        for record in records {
            values.push(record.encode(self.metadata_version)?);
            if let MetadataRecord::FeatureLevel(level) = record
                && level.name == *METADATA_VERSION
            {
                self.metadata_version = level.feature_level;
            }
        }
        let first_offset = self.raft.append(&values, self.clock.wall())?;
        let count = i64::try_from(records.len()).unwrap_or(i64::MAX);
        Ok(Appended { first_offset, last_offset: first_offset + (count - 1) })
    }

    fn next_offset(&self) -> Offset {
        self.raft.log_end()
    }

    fn committed(&self) -> watch::Receiver<Offset> {
        self.raft.committed()
    }
}
