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

    /// Whether an append failed on account of these records or of this moment, and
    /// others may succeed; nothing has been appended then. None when the journal is
    /// at its end.
    fn refusal(&self, _error: &Self::Error) -> Option<Refusal> {
        None
    }

    /// How many of these records, at least one, are to go into one batch where they
    /// need not stand or fall together.
    fn at_once(&self, records: &[Self::Record]) -> usize {
        records.len().clamp(1, RECORDS_PER_BATCH)
    }

    /// Where the next record will stand.
    fn next_offset(&self) -> Offset;

    /// The high watermark: everything before it is committed. Its sender goes
    /// when the journal can commit nothing more.
    fn committed(&self) -> watch::Receiver<Offset>;
}

/// Records of one batch, at most, where they need not stand or fall together.
pub const RECORDS_PER_BATCH: usize = 10_000;

/// Why a journal that goes on does not take some records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are too large, or have no place in the format: they never will be taken.
    Unwritable,
    /// Not now.
    Unavailable,
}

/// Where records came to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
}
