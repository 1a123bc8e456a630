//! What a machine's records are written to.

use tokio::sync::watch;

use crate::types::Offset;

/// A log that says what of it is committed.
pub trait Journal: Send {
    /// One record.
    type Record;
    /// Why nothing can be appended any more.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends records as one batch, so that all or none survive a crash.
    /// Does not wait for them to be committed.
    fn append(&mut self, records: &[Self::Record]) -> Result<Appended, Self::Error>;

    /// Where the next record will stand.
    fn next_offset(&self) -> Offset;

    /// The high watermark: everything before it is committed. Its sender goes
    /// when the journal can commit nothing more.
    fn committed(&self) -> watch::Receiver<Offset>;
}

/// Where records came to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
}
