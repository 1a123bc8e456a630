//! All producers of one partition: duplicates, sequences, epochs, open
//! transactions, and the first offset that is not yet decided. `[P]`
//!
//! An append goes through twice: [`Producers::prepare`] checks it before it is
//! written, [`Producers::apply`] takes it in afterwards. Replay does both.
//!
//! ```text
//! data batch ──▶ ongoing ──marker──▶ unreplicated ──high watermark passes──▶ gone
//!                └────────── first unstable offset ──────────┘
//! ```

use std::collections::{BTreeMap, HashMap};

use crate::types::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::append_plan::{AppendOrigin, BatchFacts};
use super::producer_entry::{PendingProducer, Verification};
use super::snapshot::SnapshotEntry;

pub use super::producer_entry::{
    CACHED_BATCHES, CachedBatch, CompletedTransaction, ProducerEntry, ProducerError,
};

/// Proof that the coordinator was asked about a transaction, and that nothing has
/// ended it since. [`Self::NONE`] proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerificationGuard(u64);

impl VerificationGuard {
    /// No question was asked.
    pub const NONE: Self = Self(0);
}

/// What an append brings besides its batches.
#[derive(Clone, Copy, Debug)]
pub struct ProducerContext {
    /// Who appends.
    pub origin: AppendOrigin,
    /// Given when the coordinator was asked.
    pub guard: VerificationGuard,
    /// `transaction.version` of the markers' sender; for data it does not matter.
    pub transaction_version: i16,
    /// `transaction.partition.verification.enable`
    pub verification_required: bool,
}

impl ProducerContext {
    /// An append of that origin without guard, markers of version 0.
    pub fn of(origin: AppendOrigin) -> Self {
        Self {
            origin,
            guard: VerificationGuard::NONE,
            transaction_version: 0,
            verification_required: true,
        }
    }
}

/// What comes of checking an append.
#[derive(Debug)]
pub enum Prepared {
    /// The producer has sent this batch before: it is answered with what it got
    /// then, and not appended.
    Duplicate(CachedBatch),
    /// It may be appended; then [`Producers::apply`] wants this.
    Update(ProducersUpdate),
}

/// The change that an append makes, once it is written.
#[derive(Debug, Default)]
pub struct ProducersUpdate {
    pending: Vec<PendingProducer>,
    completed: Vec<CompletedTransaction>,
    verified: Vec<ProducerId>,
}

impl ProducersUpdate {
    /// What replicated batches would have been refused for, to be logged.
    pub fn suppressed(&self) -> impl Iterator<Item = ProducerError> {
        self.pending.iter().filter_map(|pending| pending.suppressed)
    }
}

/// A completed transaction and the last stable offset after it: an entry of the
/// transaction index, when it was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedTransaction {
    /// The transaction.
    pub transaction: CompletedTransaction,
    /// First offset of the oldest other open one, or the offset after the marker.
    pub last_stable_offset: Offset,
}

#[derive(Clone, Copy, Debug)]
struct Unreplicated {
    last_offset: Offset,
}

/// The producers of one partition.
#[derive(Debug, Default)]
pub struct Producers {
    entries: HashMap<ProducerId, ProducerEntry>,
    verifications: HashMap<ProducerId, Verification>,
    last_guard: u64,
    ongoing: BTreeMap<Offset, ProducerId>,
    unreplicated: BTreeMap<Offset, Unreplicated>,
    end_offset: Offset,
    snapshot_offset: Offset,
}

impl Producers {
    /// Checks an append whose batches have their offsets.
    pub fn prepare<'b>(
        &self,
        batches: impl IntoIterator<Item = &'b BatchFacts>,
        context: &ProducerContext,
    ) -> Result<Prepared, ProducerError> {
        let mut update = ProducersUpdate::default();
        for facts in batches.into_iter().filter(|facts| facts.header.has_producer_id()) {
            let header = &facts.header;
            let entry = self.entries.get(&header.producer_id);
            if context.origin == AppendOrigin::Client
                && let Some(batch) = entry.and_then(|entry| entry.duplicate_of(header))
            {
                return Ok(Prepared::Duplicate(batch));
            }
            self.check_transaction(facts, entry, context)?;
            self.prepare_batch(facts, context, &mut update)?;
        }
        Ok(Prepared::Update(update))
    }

    /// The first batch of a transaction needs the coordinator's word for it.
    fn check_transaction(
        &self,
        facts: &BatchFacts,
        entry: Option<&ProducerEntry>,
        context: &ProducerContext,
    ) -> Result<(), ProducerError> {
        let BatchFacts { header, .. } = facts;
        let (producer_id, epoch) = (header.producer_id, header.producer_epoch);
        let asked = matches!(context.origin, AppendOrigin::Client | AppendOrigin::Coordinator);
        let begins = header.attributes.is_transactional()
            && !self.has_ongoing_transaction(producer_id, epoch);
        if !asked || !begins {
            return Ok(());
        }
        if let Some(entry) = entry
            && epoch < entry.epoch
        {
            let current = entry.epoch;
            return Err(ProducerError::InvalidProducerEpoch { producer_id, epoch, current });
        }
        let marker = header.attributes.is_control();
        if context.verification_required && !marker && !self.verifies(producer_id, context.guard) {
            return Err(ProducerError::InvalidTxnState { producer_id });
        }
        Ok(())
    }

    fn prepare_batch(
        &self,
        facts: &BatchFacts,
        context: &ProducerContext,
        update: &mut ProducersUpdate,
    ) -> Result<(), ProducerError> {
        let BatchFacts { header, .. } = facts;
        let producer_id = header.producer_id;
        let verification = self.verifications.get(&producer_id).copied();
        let at = update.pending.iter().position(|pending| pending.producer_id == producer_id);
        let at = at.unwrap_or_else(|| {
            let current = self.entries.get(&producer_id).copied().unwrap_or_default();
            let pending = PendingProducer::new(producer_id, context.origin, current, verification);
            update.pending.push(pending);
            update.pending.len() - 1
        });
        if let Some(pending) = update.pending.get_mut(at) {
            update.completed.extend(pending.append(facts, context.transaction_version)?);
        }
        // A marker of version 2 may come after its producer has begun the next
        // transaction with the marker's epoch: the question about that one stands.
        let next_has_begun = header.attributes.is_control()
            && verification.is_some_and(|verification| {
                verification.supports_epoch_bump && verification.epoch == header.producer_epoch
            });
        if header.attributes.is_transactional() && verification.is_some() && !next_has_begun {
            update.verified.push(producer_id);
        }
        Ok(())
    }

    /// Takes in an append that has been written up to `end_offset`.
    ///
    /// The transactions that it decided come back in order; those aborted belong
    /// into the transaction index.
    pub fn apply(
        &mut self,
        update: ProducersUpdate,
        end_offset: Offset,
    ) -> Vec<DecidedTransaction> {
        for producer_id in update.verified {
            self.verifications.remove(&producer_id);
        }
        for pending in update.pending {
            let producer_id = pending.producer_id;
            self.entries.entry(producer_id).or_default().update(&pending.updated);
            self.ongoing.extend(pending.started.iter().map(|start| (*start, producer_id)));
        }
        self.end_offset = end_offset;
        update.completed.into_iter().map(|completed| self.complete(completed)).collect()
    }

    fn complete(&mut self, transaction: CompletedTransaction) -> DecidedTransaction {
        let CompletedTransaction { producer_id, first_offset, last_offset, .. } = transaction;
        let other = self.ongoing.iter().find(|(_, producer)| **producer != producer_id);
        let last_stable_offset = other.map_or(last_offset + 1, |(start, _)| *start);
        self.ongoing.remove(&first_offset);
        self.unreplicated.insert(first_offset, Unreplicated { last_offset });
        DecidedTransaction { transaction, last_stable_offset }
    }

    /// Takes in batches that are in the log already: while loading, or as a
    /// follower. Refusals are not for them, except a contradiction in the log.
    pub fn replay(&mut self, facts: &BatchFacts) -> Result<Vec<DecidedTransaction>, ProducerError> {
        let context = ProducerContext::of(AppendOrigin::Replication);
        match self.prepare([facts], &context)? {
            Prepared::Update(update) => Ok(self.apply(update, facts.header.next_offset())),
            Prepared::Duplicate(_) => Ok(Vec::new()),
        }
    }

    // ── transactions ────────────────────────────────────────────────────────

    /// True when this incarnation has a transaction open here.
    pub fn has_ongoing_transaction(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|entry| entry.epoch == epoch && entry.transaction_start.is_some())
    }

    /// The first offset that is not decided, or decided by a marker that the high
    /// watermark has not passed: nothing from there on is stable.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let ongoing = self.ongoing.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        ongoing.into_iter().chain(unreplicated).min().copied()
    }

    /// The first offset of an open transaction.
    pub fn first_undecided_offset(&self) -> Option<Offset> {
        self.ongoing.keys().next().copied()
    }

    /// When the oldest open transaction was last written to.
    pub fn oldest_transaction_timestamp(&self) -> Option<Timestamp> {
        let (_, producer_id) = self.ongoing.first_key_value()?;
        self.entries.get(producer_id).map(|entry| entry.last_timestamp)
    }

    /// Markers below the high watermark are replicated: their transactions no
    /// longer hold back the last stable offset.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.unreplicated.retain(|_, transaction| transaction.last_offset >= high_watermark);
    }

    // ── questions to the coordinator (KIP-890) ──────────────────────────────

    /// Before the coordinator is asked: what the append must bring along.
    /// [`VerificationGuard::NONE`] when a transaction is open and nobody needs to
    /// be asked.
    pub fn begin_verification(
        &mut self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        sequence: i32,
        supports_epoch_bump: bool,
        now: Timestamp,
    ) -> VerificationGuard {
        if self.has_ongoing_transaction(producer_id, epoch) {
            return VerificationGuard::NONE;
        }
        let verification = self.verifications.entry(producer_id).or_insert_with(|| {
            self.last_guard += 1;
            Verification {
                guard: self.last_guard,
                since: now,
                lowest_sequence: sequence,
                epoch,
                supports_epoch_bump,
            }
        });
        verification.saw(sequence, epoch);
        VerificationGuard(verification.guard)
    }

    fn verifies(&self, producer_id: ProducerId, guard: VerificationGuard) -> bool {
        let verification = self.verifications.get(&producer_id);
        guard != VerificationGuard::NONE
            && verification.is_some_and(|verification| verification.guard == guard.0)
    }

    // ── the map as a whole ──────────────────────────────────────────────────

    /// What is known of a producer.
    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerEntry> {
        self.entries.get(&producer_id)
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerEntry)> {
        self.entries.iter().map(|(producer_id, entry)| (*producer_id, entry))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when no producer is known and no transaction waits for replication.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unreplicated.is_empty()
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`.
    pub fn remove_expired(&mut self, now: Timestamp, expiration_ms: i64) {
        self.entries.retain(|_, entry| !entry.is_expired(now, expiration_ms));
        self.verifications
            .retain(|_, verification| now.0.saturating_sub(verification.since.0) < expiration_ms);
    }

    /// The offset that the state reaches (exclusive).
    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }

    /// The log goes on to `end` without producers.
    pub fn advance_to(&mut self, end: Offset) {
        self.end_offset = end;
    }

    /// Records below `start` are gone; `latest_snapshot` is the newest file left.
    pub fn on_log_start_incremented(&mut self, start: Offset, latest_snapshot: Option<Offset>) {
        self.on_high_watermark(start);
        self.end_offset = self.end_offset.max(start);
        self.snapshot_offset = latest_snapshot.unwrap_or(start);
    }

    /// Forgets everything; the log is empty and begins at `offset`.
    pub fn reset(&mut self, offset: Offset) {
        self.entries.clear();
        self.ongoing.clear();
        self.unreplicated.clear();
        self.snapshot_offset = Offset::ZERO;
        self.end_offset = offset;
    }

    // ── snapshots ───────────────────────────────────────────────────────────

    /// Starts anew from a snapshot that reaches `offset`; what follows in the log
    /// is to be replayed. Producers that have expired are left out. Without a
    /// snapshot: no entries, and the log start.
    pub fn load(
        &mut self,
        entries: &[SnapshotEntry],
        offset: Offset,
        now: Timestamp,
        expiration_ms: i64,
    ) {
        self.reset(offset);
        self.snapshot_offset = offset;
        for snapshot in entries {
            let entry = ProducerEntry::from_snapshot(snapshot);
            if entry.is_expired(now, expiration_ms) {
                continue;
            }
            self.ongoing.extend(entry.transaction_start.map(|start| (start, snapshot.producer_id)));
            self.entries.insert(snapshot.producer_id, entry);
        }
    }

    /// What a snapshot at [`Self::end_offset`] holds; sorted, so that equal state
    /// gives equal files.
    pub fn to_snapshot(&self) -> Vec<SnapshotEntry> {
        let mut entries = self
            .iter()
            .map(|(producer_id, entry)| entry.to_snapshot(producer_id))
            .collect::<Vec<_>>();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// True when the state has moved since the last snapshot.
    pub fn wants_snapshot(&self) -> bool {
        self.end_offset > self.snapshot_offset
    }

    /// A snapshot that reaches `offset` has been written.
    pub fn snapshot_written(&mut self, offset: Offset) {
        self.snapshot_offset = offset;
    }
}
