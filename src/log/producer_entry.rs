//! One producer's state in one partition, and what a batch of its must satisfy
//! (KIP-98, KIP-360, KIP-890). `[P]`
//!
//! ```text
//!            data, epoch e, sequence s            marker, epoch e'
//!  unknown ──────────────────────────▶ known(e) ─────────────────▶ known(e')
//!            any s is taken               │  ▲    no cached batches
//!                                         └──┘
//!                    epoch e: s = last + 1, or one of the last five again
//!                    epoch > e: s = 0
//!                    epoch < e: fenced
//! ```
//!
//! A transaction is open from its first batch to its marker.

use crate::types::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::append_plan::{AppendOrigin, BatchFacts};
use super::batch::BatchHeader;
use super::control::EndTransactionMarker;
use super::snapshot::SnapshotEntry;

/// Batches of which a repetition is recognised.
pub const CACHED_BATCHES: usize = 5;

/// A batch that was appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedBatch {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its offsets, minus one.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: Timestamp,
}

impl CachedBatch {
    /// Sequence of its first record; counts back over the wrap.
    pub fn first_sequence(&self) -> i32 {
        let first = i64::from(self.last_sequence) - i64::from(self.offset_delta);
        let wrapped = if first < 0 { first + i64::from(i32::MAX) + 1 } else { first };
        i32::try_from(wrapped).unwrap_or(0)
    }

    /// Offset of its first record.
    pub fn first_offset(&self) -> Offset {
        self.last_offset + -i64::from(self.offset_delta)
    }
}

/// The last batches of a producer, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RecentBatches {
    batches: [CachedBatch; CACHED_BATCHES],
    count: usize,
}

impl RecentBatches {
    fn as_slice(&self) -> &[CachedBatch] {
        self.batches.get(..self.count).unwrap_or_default()
    }

    fn push(&mut self, batch: CachedBatch) {
        if self.count == CACHED_BATCHES {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        self.batches[self.count] = batch;
        self.count += 1;
    }
}

/// What a partition knows of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerEntry {
    /// Newest incarnation seen, -1 before the first.
    pub epoch: ProducerEpoch,
    /// Epoch of the coordinator that wrote the last marker, -1 for none.
    pub coordinator_epoch: i32,
    /// Largest timestamp of the last batch, or that of the last marker.
    pub last_timestamp: Timestamp,
    /// First offset of the open transaction.
    pub transaction_start: Option<Offset>,
    recent: RecentBatches,
}

impl Default for ProducerEntry {
    /// A producer never heard of.
    fn default() -> Self {
        Self {
            epoch: ProducerEpoch(-1),
            coordinator_epoch: -1,
            last_timestamp: Timestamp::NONE,
            transaction_start: None,
            recent: RecentBatches::default(),
        }
    }
}

impl ProducerEntry {
    /// The cached batches, oldest first; at most [`CACHED_BATCHES`].
    pub fn batches(&self) -> &[CachedBatch] {
        self.recent.as_slice()
    }

    /// Sequence of the last record, -1 when none is known.
    pub fn last_sequence(&self) -> i32 {
        self.batches().last().map_or(-1, |batch| batch.last_sequence)
    }

    /// The cached batch that this one repeats.
    pub fn duplicate_of(&self, header: &BatchHeader) -> Option<CachedBatch> {
        let (first, last) = (header.base_sequence, header.last_sequence());
        let mut batches = self.batches().iter().copied();
        batches.find(|batch| {
            header.producer_epoch == self.epoch
                && batch.first_sequence() == first
                && batch.last_sequence == last
        })
    }

    /// As a snapshot keeps it.
    pub fn to_snapshot(self, producer_id: ProducerId) -> SnapshotEntry {
        let last = self.batches().last();
        SnapshotEntry {
            producer_id,
            epoch: self.epoch,
            last_sequence: self.last_sequence(),
            last_offset: last.map_or(Offset::NONE, |batch| batch.last_offset),
            offset_delta: last.map_or(0, |batch| batch.offset_delta),
            timestamp: self.last_timestamp,
            coordinator_epoch: self.coordinator_epoch,
            transaction_start: self.transaction_start,
        }
    }

    /// As a snapshot has kept it.
    pub fn from_snapshot(snapshot: &SnapshotEntry) -> Self {
        let mut entry = Self {
            epoch: snapshot.epoch,
            coordinator_epoch: snapshot.coordinator_epoch,
            last_timestamp: snapshot.timestamp,
            transaction_start: snapshot.transaction_start,
            recent: RecentBatches::default(),
        };
        if snapshot.last_offset >= Offset::ZERO {
            entry.recent.push(CachedBatch {
                last_sequence: snapshot.last_sequence,
                last_offset: snapshot.last_offset,
                offset_delta: snapshot.offset_delta,
                timestamp: snapshot.timestamp,
            });
        }
        entry
    }

    /// True when nothing has been heard for that long and no transaction is open.
    pub fn is_expired(&self, now: Timestamp, expiration_ms: i64) -> bool {
        let silence = now.0.saturating_sub(self.last_timestamp.0);
        self.transaction_start.is_none() && silence >= expiration_ms
    }

    /// Takes over what a [`PendingProducer`] has become.
    pub(super) fn update(&mut self, updated: &Self) {
        self.set_epoch(updated.epoch);
        for batch in updated.batches() {
            self.recent.push(*batch);
        }
        self.coordinator_epoch = updated.coordinator_epoch;
        self.transaction_start = updated.transaction_start;
        self.last_timestamp = updated.last_timestamp;
    }

    /// A new epoch forgets the batches of the old one.
    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.recent = RecentBatches::default();
            self.epoch = epoch;
        }
    }
}

/// Why a batch is refused on account of its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// INVALID_PRODUCER_EPOCH: an incarnation that a newer one has replaced.
    #[error("producer {producer_id} writes with epoch {epoch} after epoch {current}")]
    InvalidProducerEpoch {
        /// Whose batch.
        producer_id: ProducerId,
        /// The batch's epoch.
        epoch: ProducerEpoch,
        /// The newest seen.
        current: ProducerEpoch,
    },
    /// OUT_OF_ORDER_SEQUENCE_NUMBER: something before it is missing.
    #[error("producer {producer_id} writes sequence {sequence} after {last}")]
    OutOfOrderSequence {
        /// Whose batch.
        producer_id: ProducerId,
        /// The batch's first sequence.
        sequence: i32,
        /// The last one seen, -1 for none.
        last: i32,
    },
    /// INVALID_TXN_STATE: a batch of no transaction while one is open, or of one
    /// that the coordinator does not know.
    #[error("producer {producer_id} is not in the state of a transaction that allows this batch")]
    InvalidTxnState {
        /// Whose batch.
        producer_id: ProducerId,
    },
    /// TRANSACTION_COORDINATOR_FENCED: a marker from a coordinator that another
    /// one has replaced.
    #[error("coordinator epoch {epoch} after {current} for producer {producer_id}")]
    TransactionCoordinatorFenced {
        /// Whose transaction.
        producer_id: ProducerId,
        /// The marker's coordinator epoch.
        epoch: i32,
        /// The newest seen.
        current: i32,
    },
}

/// What asking the coordinator about a transaction has left here (KIP-890).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verification {
    pub(super) guard: u64,
    pub(super) since: Timestamp,
    pub(super) lowest_sequence: i32,
    pub(super) epoch: ProducerEpoch,
    /// The producer gets a new epoch with every transaction (version 2).
    pub(super) supports_epoch_bump: bool,
}

impl Verification {
    pub(super) fn saw(&mut self, sequence: i32, epoch: ProducerEpoch) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.lowest_sequence = sequence;
        } else if epoch == self.epoch {
            self.lowest_sequence = self.lowest_sequence.min(sequence);
        }
    }
}

/// A transaction that a marker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTransaction {
    /// Whose.
    pub producer_id: ProducerId,
    /// Offset of its first record.
    pub first_offset: Offset,
    /// Offset of its marker.
    pub last_offset: Offset,
    /// Its records do not count.
    pub aborted: bool,
}

/// What a producer becomes by an append that is not written yet.
#[derive(Clone, Debug)]
pub(super) struct PendingProducer {
    pub(super) producer_id: ProducerId,
    origin: AppendOrigin,
    current: ProducerEntry,
    /// Like `current` at first, without its batches.
    pub(super) updated: ProducerEntry,
    verification: Option<Verification>,
    /// Where transactions begin in this append.
    pub(super) started: Vec<Offset>,
    /// What a replicated batch would have been refused for.
    pub(super) suppressed: Option<ProducerError>,
}

impl PendingProducer {
    pub(super) fn new(
        producer_id: ProducerId,
        origin: AppendOrigin,
        current: ProducerEntry,
        verification: Option<Verification>,
    ) -> Self {
        let updated = ProducerEntry { recent: RecentBatches::default(), ..current };
        let started = Vec::new();
        Self { producer_id, origin, current, updated, verification, started, suppressed: None }
    }

    /// Checks a batch and takes it in. A marker that ends a transaction says so.
    pub(super) fn append(
        &mut self,
        facts: &BatchFacts,
        transaction_version: i16,
    ) -> Result<Option<CompletedTransaction>, ProducerError> {
        match &facts.marker {
            Some((marker, timestamp)) => {
                let header = &facts.header;
                self.append_marker(header, *marker, *timestamp, transaction_version)
            }
            // An empty control batch: compaction took the whole transaction.
            None if facts.header.attributes.is_control() => Ok(None),
            None => self.append_data(&facts.header).map(|()| None),
        }
    }

    fn append_data(&mut self, header: &BatchHeader) -> Result<(), ProducerError> {
        if header.producer_epoch < self.updated.epoch {
            self.refuse(self.fenced(header.producer_epoch))?;
        }
        if self.origin == AppendOrigin::Client {
            self.check_sequence(header.producer_epoch, header.base_sequence)?;
        }
        let transactional = header.attributes.is_transactional();
        match self.updated.transaction_start {
            Some(_) if !transactional => {
                return Err(ProducerError::InvalidTxnState { producer_id: self.producer_id });
            }
            None if transactional => {
                self.updated.transaction_start = Some(header.base_offset);
                self.started.push(header.base_offset);
            }
            _ => {}
        }
        self.updated.set_epoch(header.producer_epoch);
        self.updated.recent.push(CachedBatch {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        self.updated.last_timestamp = header.max_timestamp;
        Ok(())
    }

    fn check_sequence(&self, epoch: ProducerEpoch, sequence: i32) -> Result<(), ProducerError> {
        let last = if self.updated.batches().is_empty() && epoch == self.current.epoch {
            self.current.last_sequence()
        } else {
            self.updated.last_sequence()
        };
        let producer_id = self.producer_id;
        let out_of_order = ProducerError::OutOfOrderSequence { producer_id, sequence, last };
        if let Some(verification) = &self.verification {
            let unknown = self.current.batches().is_empty();
            let gap = verification.supports_epoch_bump && sequence != 0 && unknown;
            if gap || sequence > verification.lowest_sequence {
                return Err(out_of_order);
            }
        }
        // Without a known epoch (never seen, or its records are gone) any will do.
        let known = self.updated.epoch != ProducerEpoch(-1);
        let in_order = if epoch != self.updated.epoch {
            sequence == 0 || !known
        } else {
            self.current.epoch == ProducerEpoch(-1) || follows(last, sequence)
        };
        if in_order { Ok(()) } else { Err(out_of_order) }
    }

    fn append_marker(
        &mut self,
        header: &BatchHeader,
        marker: EndTransactionMarker,
        timestamp: Timestamp,
        transaction_version: i16,
    ) -> Result<Option<CompletedTransaction>, ProducerError> {
        if !self.accepts_marker(header.producer_epoch, transaction_version) {
            self.refuse(self.fenced(header.producer_epoch))?;
        }
        if marker.coordinator_epoch < self.updated.coordinator_epoch {
            self.refuse(ProducerError::TransactionCoordinatorFenced {
                producer_id: self.producer_id,
                epoch: marker.coordinator_epoch,
                current: self.updated.coordinator_epoch,
            })?;
        }
        let start = self.updated.transaction_start.take();
        self.updated.set_epoch(header.producer_epoch);
        self.updated.coordinator_epoch = marker.coordinator_epoch;
        self.updated.last_timestamp = timestamp;
        Ok(start.map(|first_offset| CompletedTransaction {
            producer_id: self.producer_id,
            first_offset,
            last_offset: header.base_offset,
            aborted: !marker.committed,
        }))
    }

    /// Since version 2 the coordinator raises the epoch before it writes markers:
    /// one of the current epoch is late, unless no transaction is open (then it is
    /// a repetition and does no harm) or the epoch cannot be raised any further.
    fn accepts_marker(&self, epoch: ProducerEpoch, transaction_version: i16) -> bool {
        let current = self.updated.epoch;
        let repeated = self.updated.transaction_start.is_none() || epoch.0 == i16::MAX;
        epoch > current || (epoch == current && (transaction_version < 2 || repeated))
    }

    fn fenced(&self, epoch: ProducerEpoch) -> ProducerError {
        let (producer_id, current) = (self.producer_id, self.updated.epoch);
        ProducerError::InvalidProducerEpoch { producer_id, epoch, current }
    }

    /// What the leader has written stands, whatever this replica thinks of it.
    fn refuse(&mut self, error: ProducerError) -> Result<(), ProducerError> {
        if self.origin == AppendOrigin::Replication {
            self.suppressed = Some(error);
            return Ok(());
        }
        Err(error)
    }
}

fn follows(last: i32, next: i32) -> bool {
    i64::from(next) == i64::from(last) + 1 || (next == 0 && last == i32::MAX)
}
