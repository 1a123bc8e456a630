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

pub use super::producer_entry::{CachedBatch, CompletedTransaction, ProducerEntry, ProducerError};

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

#[cfg(test)]
mod tests {
    use super::super::batch::{Attributes, BatchHeader, MAGIC_V2, TimestampType};
    use super::super::compression::Codec;
    use super::super::control::EndTransactionMarker;
    use super::*;
    use crate::types::LeaderEpoch;

    const PID: ProducerId = ProducerId(1);
    const OTHER: ProducerId = ProducerId(2);
    const DAY: i64 = 86_400_000;

    fn header(
        producer_id: ProducerId,
        epoch: i16,
        sequence: i32,
        at: i64,
        count: i32,
    ) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(at),
            total_len: 100,
            leader_epoch: LeaderEpoch(0),
            magic: MAGIC_V2,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta: count - 1,
            base_timestamp: Timestamp(at),
            max_timestamp: Timestamp(at),
            producer_id,
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: sequence,
            record_count: count,
        }
    }

    /// An idempotent batch.
    fn data(producer_id: ProducerId, epoch: i16, sequence: i32, at: i64, count: i32) -> BatchFacts {
        BatchFacts { header: header(producer_id, epoch, sequence, at, count), marker: None }
    }

    /// A batch of one record in a transaction.
    fn txn(producer_id: ProducerId, epoch: i16, sequence: i32, at: i64) -> BatchFacts {
        let mut facts = data(producer_id, epoch, sequence, at, 1);
        facts.header.attributes =
            Attributes::new(Codec::None, TimestampType::CreateTime, true, false);
        facts
    }

    fn marker(producer_id: ProducerId, epoch: i16, at: i64, coordinator_epoch: i32) -> BatchFacts {
        let mut facts = data(producer_id, epoch, -1, at, 1);
        facts.header.attributes =
            Attributes::new(Codec::None, TimestampType::CreateTime, true, true);
        let marker = EndTransactionMarker { committed: false, coordinator_epoch };
        facts.marker = Some((marker, Timestamp(at)));
        facts
    }

    fn by(origin: AppendOrigin) -> ProducerContext {
        ProducerContext { verification_required: false, ..ProducerContext::of(origin) }
    }

    /// What an append came to, in a word or two.
    fn append(producers: &mut Producers, facts: &BatchFacts, context: &ProducerContext) -> String {
        match producers.prepare([facts], context) {
            Ok(Prepared::Duplicate(batch)) => {
                format!("duplicate {}-{}", batch.first_offset(), batch.last_offset)
            }
            Ok(Prepared::Update(update)) => {
                producers.apply(update, facts.header.next_offset());
                "ok".to_owned()
            }
            Err(ProducerError::InvalidProducerEpoch { .. }) => "fenced".to_owned(),
            Err(ProducerError::OutOfOrderSequence { .. }) => "out of order".to_owned(),
            Err(ProducerError::InvalidTxnState { .. }) => "transaction state".to_owned(),
            Err(ProducerError::TransactionCoordinatorFenced { .. }) => "coordinator".to_owned(),
        }
    }

    fn run(steps: &[(BatchFacts, &str)]) -> Producers {
        let mut producers = Producers::default();
        for (at, (facts, expected)) in steps.iter().enumerate() {
            let got = append(&mut producers, facts, &by(AppendOrigin::Client));
            assert_eq!(got, *expected, "step {at}");
        }
        producers
    }

    #[test]
    fn sequences_and_epochs_of_one_producer() {
        run(&[
            (data(PID, 0, 7, 0, 2), "ok"), // nothing known: any sequence
            (data(PID, 0, 9, 2, 1), "ok"),
            (data(PID, 0, 11, 3, 1), "out of order"),
            (data(PID, 0, 8, 3, 1), "out of order"),
            (data(PID, 0, 10, 3, 5), "ok"),
            (data(PID, 1, 15, 8, 1), "out of order"), // a new epoch begins at 0
            (data(PID, 1, 0, 8, 1), "ok"),
            (data(PID, 0, 15, 9, 1), "fenced"),
            (data(PID, 0, 10, 9, 5), "fenced"), // batches of the old epoch are forgotten
            (data(OTHER, 5, 3, 9, 1), "ok"),
            (data(PID, 1, 1, 10, 1), "ok"),
            (data(PID, 1, i32::MAX, 11, 1), "out of order"),
        ]);
    }

    #[test]
    fn a_sequence_wraps_to_zero() {
        run(&[
            (data(PID, 0, i32::MAX - 1, 0, 2), "ok"),
            (data(PID, 0, 0, 2, 1), "ok"),
            (data(PID, 0, i32::MAX - 1, 3, 2), "duplicate 0-1"),
        ]);
        run(&[
            (data(PID, 0, i32::MAX, 0, 3), "ok"), // MAX, 0, 1
            (data(PID, 0, i32::MAX, 3, 3), "duplicate 0-2"),
            (data(PID, 0, 2, 3, 1), "ok"),
        ]);
    }

    #[test]
    fn the_last_five_batches_are_recognised() {
        let mut producers = Producers::default();
        for i in 0..7 {
            let batch = data(PID, 0, i * 10, i64::from(i) * 10, 10);
            assert_eq!(append(&mut producers, &batch, &by(AppendOrigin::Client)), "ok");
        }
        let expected = [
            "out of order",
            "out of order",
            "duplicate 20-29",
            "duplicate 30-39",
            "duplicate 40-49",
            "duplicate 50-59",
            "duplicate 60-69",
        ];
        for (i, expected) in (0..).zip(expected) {
            let batch = data(PID, 0, i * 10, 70, 10);
            assert_eq!(append(&mut producers, &batch, &by(AppendOrigin::Client)), expected);
        }
        let other_end = data(PID, 0, 60, 70, 9);
        assert_eq!(append(&mut producers, &other_end, &by(AppendOrigin::Client)), "out of order");
        let entry = producers.get(PID).unwrap();
        let cached = entry.duplicate_of(&header(PID, 0, 60, 99, 10)).unwrap();
        assert_eq!(cached.timestamp, Timestamp(60), "answered with what it got then");
    }

    #[test]
    fn transactions_open_and_close() {
        let mut producers = run(&[
            (data(OTHER, 0, 0, 0, 1), "ok"),
            (txn(PID, 0, 0, 1), "ok"),
            (txn(OTHER, 0, 1, 2), "ok"),
            (data(PID, 0, 1, 3, 1), "transaction state"),
            (txn(PID, 0, 1, 3), "ok"),
        ]);
        assert_eq!(producers.first_unstable_offset(), Some(Offset(1)));
        assert_eq!(producers.oldest_transaction_timestamp(), Some(Timestamp(3)));

        let end = marker(PID, 0, 4, 7);
        let Ok(Prepared::Update(update)) =
            producers.prepare([&end], &by(AppendOrigin::Coordinator))
        else {
            panic!("marker refused");
        };
        let decided = producers.apply(update, Offset(5));
        let transaction = CompletedTransaction {
            producer_id: PID,
            first_offset: Offset(1),
            last_offset: Offset(4),
            aborted: true,
        };
        assert_eq!(decided, [DecidedTransaction { transaction, last_stable_offset: Offset(2) }]);

        // Decided, but its marker is not replicated yet.
        assert_eq!(producers.first_unstable_offset(), Some(Offset(1)));
        assert_eq!(producers.first_undecided_offset(), Some(Offset(2)));
        producers.on_high_watermark(Offset(4));
        assert_eq!(producers.first_unstable_offset(), Some(Offset(1)));
        producers.on_high_watermark(Offset(5));
        assert_eq!(producers.first_unstable_offset(), Some(Offset(2)));

        let decided = producers.replay(&marker(OTHER, 0, 5, 7)).unwrap();
        assert_eq!(decided[0].last_stable_offset, Offset(6));
        producers.on_high_watermark(Offset(6));
        assert_eq!(producers.first_unstable_offset(), None);
        let again = data(PID, 0, 2, 6, 1);
        assert_eq!(append(&mut producers, &again, &by(AppendOrigin::Client)), "ok");
    }

    #[test]
    fn markers_by_transaction_version() {
        // (open transaction, current epoch, marker's epoch, version) → outcome
        let cases = [
            (true, 3, 3, 0, "ok"),
            (true, 3, 2, 0, "fenced"),
            (true, 3, 4, 1, "ok"),
            (true, 3, 3, 2, "fenced"),
            (true, 3, 4, 2, "ok"),
            (true, 3, 2, 2, "fenced"),
            (false, 3, 3, 2, "ok"), // said twice
            (false, 3, 2, 2, "fenced"),
            (true, i16::MAX, i16::MAX, 2, "ok"), // the epoch cannot grow
        ];
        for (open, current, epoch, transaction_version, expected) in cases {
            let first = if open { txn(PID, current, 0, 0) } else { data(PID, current, 0, 0, 1) };
            let mut producers = run(&[(first, "ok")]);
            let context = ProducerContext { transaction_version, ..by(AppendOrigin::Coordinator) };
            let got = append(&mut producers, &marker(PID, epoch, 1, 7), &context);
            assert_eq!(got, expected, "{open} {current} {epoch} version {transaction_version}");
            let followed =
                append(&mut producers, &marker(PID, epoch, 1, 7), &by(AppendOrigin::Replication));
            assert_eq!(followed, "ok", "followers take what the leader wrote");
        }
    }

    #[test]
    fn an_old_coordinator_is_fenced() {
        let mut producers = run(&[(txn(PID, 0, 0, 0), "ok")]);
        let coordinator = by(AppendOrigin::Coordinator);
        assert_eq!(append(&mut producers, &marker(PID, 0, 1, 7), &coordinator), "ok");
        assert_eq!(append(&mut producers, &marker(PID, 0, 2, 6), &coordinator), "coordinator");
        assert_eq!(append(&mut producers, &marker(PID, 0, 2, 7), &coordinator), "ok");
    }

    #[test]
    fn a_marker_of_a_new_epoch_forgets_sequences() {
        let mut producers = run(&[(txn(PID, 0, 0, 0), "ok")]);
        let v2 = ProducerContext { transaction_version: 2, ..by(AppendOrigin::Coordinator) };
        assert_eq!(append(&mut producers, &marker(PID, 1, 1, 7), &v2), "ok");
        assert_eq!(producers.get(PID).unwrap().last_sequence(), -1);
        assert_eq!(
            append(&mut producers, &txn(PID, 1, 5, 2), &by(AppendOrigin::Client)),
            "out of order"
        );
        assert_eq!(append(&mut producers, &txn(PID, 1, 0, 2), &by(AppendOrigin::Client)), "ok");
    }

    #[test]
    fn the_first_batch_of_a_transaction_needs_the_coordinators_word() {
        let mut producers = Producers::default();
        let client = ProducerContext::of(AppendOrigin::Client);
        let first = txn(PID, 0, 0, 0);
        assert_eq!(append(&mut producers, &first, &client), "transaction state");
        let guard = producers.begin_verification(PID, ProducerEpoch(0), 0, false, Timestamp(0));
        assert_ne!(guard, VerificationGuard::NONE);
        assert_eq!(append(&mut producers, &first, &client), "transaction state");
        let wrong = ProducerContext { guard: VerificationGuard(guard.0 + 1), ..client };
        assert_eq!(append(&mut producers, &first, &wrong), "transaction state");
        let with_guard = ProducerContext { guard, ..client };
        assert_eq!(append(&mut producers, &first, &with_guard), "ok");

        // Open: no one needs to be asked until the marker.
        let none = producers.begin_verification(PID, ProducerEpoch(0), 1, false, Timestamp(0));
        assert_eq!(none, VerificationGuard::NONE);
        assert_eq!(append(&mut producers, &txn(PID, 0, 1, 1), &client), "ok");
        producers.replay(&marker(PID, 0, 2, 0)).unwrap();
        assert_eq!(append(&mut producers, &txn(PID, 0, 2, 3), &with_guard), "transaction state");
        let old = ProducerContext { guard, ..client };
        assert_eq!(append(&mut producers, &txn(PID, -1, 2, 3), &old), "fenced");
    }

    #[test]
    fn sequences_seen_while_asking_hold_back_later_ones() {
        let mut producers = Producers::default();
        let context =
            |guard| ProducerContext { guard, ..ProducerContext::of(AppendOrigin::Client) };
        let guard = producers.begin_verification(PID, ProducerEpoch(0), 5, false, Timestamp(0));
        let same = producers.begin_verification(PID, ProducerEpoch(0), 0, false, Timestamp(0));
        assert_eq!(guard, same);
        assert_eq!(append(&mut producers, &txn(PID, 0, 5, 0), &context(guard)), "out of order");
        assert_eq!(append(&mut producers, &txn(PID, 0, 0, 0), &context(guard)), "ok");

        let guard = producers.begin_verification(OTHER, ProducerEpoch(0), 4, true, Timestamp(0));
        assert_eq!(append(&mut producers, &txn(OTHER, 0, 4, 1), &context(guard)), "out of order");
    }

    #[test]
    fn a_late_marker_leaves_the_next_question_standing() {
        let mut producers = run(&[(txn(PID, 0, 0, 0), "ok")]);
        let guard = producers.begin_verification(PID, ProducerEpoch(1), 0, true, Timestamp(0));
        let v2 = ProducerContext { transaction_version: 2, ..by(AppendOrigin::Coordinator) };
        assert_eq!(append(&mut producers, &marker(PID, 1, 1, 0), &v2), "ok");
        let client = ProducerContext { guard, ..ProducerContext::of(AppendOrigin::Client) };
        assert_eq!(append(&mut producers, &txn(PID, 1, 0, 2), &client), "ok");
    }

    #[test]
    fn coordinators_write_without_sequences() {
        let mut producers = Producers::default();
        let coordinator = by(AppendOrigin::Coordinator);
        for at in 0..3 {
            let batch = data(PID, 1, -1, at, 1);
            assert_eq!(append(&mut producers, &batch, &coordinator), "ok");
        }
        assert_eq!(append(&mut producers, &data(PID, 0, -1, 3, 1), &coordinator), "fenced");
    }

    #[test]
    fn several_batches_of_one_append_follow_each_other() {
        let producers = Producers::default();
        let client = by(AppendOrigin::Client);
        let good = [data(PID, 0, 0, 0, 2), data(OTHER, 0, 0, 2, 1), data(PID, 0, 2, 3, 1)];
        assert!(matches!(producers.prepare(&good, &client), Ok(Prepared::Update(_))));
        let marked = [txn(PID, 0, 0, 0), marker(PID, 0, 1, 0), txn(PID, 0, 1, 2)];
        let Ok(Prepared::Update(update)) =
            producers.prepare(&marked, &by(AppendOrigin::Replication))
        else {
            panic!("refused");
        };
        let mut producers = producers;
        assert_eq!(producers.apply(update, Offset(3)).len(), 1);
        assert_eq!(producers.first_unstable_offset(), Some(Offset(0)));
        assert_eq!(producers.first_undecided_offset(), Some(Offset(2)));
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut producers = run(&[(data(PID, 1, 0, 0, 1), "ok"), (txn(OTHER, 0, 0, 1), "ok")]);
        let before = producers.to_snapshot();
        let client = by(AppendOrigin::Client);
        for bad in [data(PID, 0, 1, 2, 1), data(PID, 1, 5, 2, 1), data(OTHER, 0, 1, 2, 1)] {
            assert_ne!(append(&mut producers, &bad, &client), "ok");
        }
        assert_eq!(producers.to_snapshot(), before);
        assert_eq!(producers.end_offset(), Offset(2));
    }

    #[test]
    fn silent_producers_are_forgotten_but_not_in_a_transaction() {
        let mut producers =
            run(&[(data(PID, 0, 0, 1000, 1), "ok"), (txn(OTHER, 0, 0, 1001), "ok")]);
        producers.remove_expired(Timestamp(1000 + DAY - 1), DAY);
        assert_eq!(producers.len(), 2);
        producers.remove_expired(Timestamp(1001 + DAY), DAY);
        assert!(producers.get(PID).is_none());
        assert!(producers.get(OTHER).is_some());
    }

    #[test]
    fn a_snapshot_restores_all_but_old_batches() {
        let mut producers = run(&[
            (data(PID, 3, 0, 0, 10), "ok"),
            (data(PID, 3, 10, 10, 5), "ok"),
            (txn(OTHER, 0, 0, 15), "ok"),
        ]);
        producers.replay(&marker(ProducerId(9), 4, 16, 2)).unwrap();
        assert!(producers.wants_snapshot());
        let snapshot = producers.to_snapshot();
        producers.snapshot_written(producers.end_offset());
        assert!(!producers.wants_snapshot());

        let mut loaded = Producers::default();
        loaded.load(&snapshot, Offset(17), Timestamp(20), DAY);
        assert_eq!(loaded.to_snapshot(), snapshot);
        assert_eq!((loaded.end_offset(), loaded.wants_snapshot()), (Offset(17), false));
        assert_eq!(loaded.first_unstable_offset(), Some(Offset(15)));
        let client = by(AppendOrigin::Client);
        assert_eq!(append(&mut loaded, &data(PID, 3, 10, 17, 5), &client), "duplicate 10-14");
        assert_eq!(append(&mut loaded, &data(PID, 3, 0, 17, 10), &client), "out of order");
        assert_eq!(append(&mut loaded, &data(PID, 3, 15, 17, 1), &client), "ok");
        assert_eq!(append(&mut loaded, &data(ProducerId(9), 3, 0, 18, 1), &client), "fenced");

        loaded.load(&snapshot, Offset(17), Timestamp(20 + DAY), DAY);
        assert_eq!(loaded.len(), 1, "only the open transaction has not expired");
        loaded.reset(Offset(50));
        assert!(loaded.is_empty());
        assert_eq!((loaded.end_offset(), loaded.first_unstable_offset()), (Offset(50), None));
    }

    #[test]
    fn the_log_start_moves_on() {
        let mut producers = run(&[(txn(PID, 0, 0, 5), "ok")]);
        producers.replay(&marker(PID, 0, 6, 0)).unwrap();
        producers.on_log_start_incremented(Offset(7), None);
        assert_eq!(producers.first_unstable_offset(), None);
        assert!(!producers.wants_snapshot());
        producers.on_log_start_incremented(Offset(20), Some(Offset(8)));
        assert_eq!(producers.end_offset(), Offset(20));
        assert!(producers.wants_snapshot());
    }
}
