//! What a leader accepts, and what it makes of it before it is written. `[P]`
//!
//! Checking is apart from numbering: [`validate`] looks at every byte without
//! any lock, [`AppendPlan::stamp`] sets the offsets when the log is held.
//!
//! Uncompressed records are always walked. Compressed ones are unfolded and
//! walked, too, as Kafka does, unless [`AppendRules::deep_check`] is off; then
//! only their batch's header is looked at, which saves most of a produce's CPU.
//! In one point this is stricter than Kafka: offset deltas must be 0, 1, 2, …
//! also where Kafka stores (uncompressed) or trips over (compressed) others.

use std::borrow::Cow;

use bytes::Bytes;

use crate::types::{LeaderEpoch, ProducerId, Timestamp};

use super::append_plan::{
    AppendOrigin, AppendPlan, BatchFacts, BatchProblem, GivenBatches, PlannedBatch, RecordProblem,
    RecordProblemKind, ValidateError,
};
use super::batch::{BatchError, BatchHeader, BatchView, MAGIC_V2, TimestampType, batches};
use super::batch_builder::{BatchBuilder, BatchOptions};
use super::compression::{Codec, Compression, CompressionType, Decoder, decompress};
use super::config::LogConfig;
use super::record::Records;
use super::record_stream::{RecordOutline, RecordStream, StreamError};

/// What one batch may unfold to, unless the caller says otherwise. Kafka has no
/// such bound; a 1 MiB batch of real records stays far below it.
const MAX_UNFOLDED_BYTES: usize = 256 << 20;

/// What the topic asks of batches.
#[derive(Clone, Copy, Debug)]
pub struct AppendRules {
    /// `max.message.bytes`
    pub max_message_bytes: usize,
    /// `compression.type` with its level.
    pub compression_type: CompressionType,
    /// `cleanup.policy` has `compact`: records need keys.
    pub compacted: bool,
    /// `message.timestamp.type`
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub timestamp_after_max_ms: i64,
    /// Unfold compressed batches and look at every record, as Kafka does.
    pub deep_check: bool,
    /// Bytes that one batch may unfold to.
    pub max_unfolded_bytes: usize,
}

impl AppendRules {
    /// The rules that a topic's settings make, with the deep check.
    pub fn of(config: &LogConfig) -> Self {
        Self {
            max_message_bytes: config.max_message_bytes,
            compression_type: config.compression_type,
            compacted: config.cleanup_policy.compact,
            timestamp_type: config.message_timestamp_type,
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
            deep_check: true,
            max_unfolded_bytes: MAX_UNFOLDED_BYTES,
        }
    }
}

/// What a Produce request of this version (3 or later) may carry for a
/// partition: exactly one batch, magic 2, and zstd only from version 7 on.
pub fn check_produced(records: &[u8], version: i16) -> Result<(), ValidateError> {
    let mut batches = batches(records);
    let first = match batches.next() {
        None | Some(Err(BatchError::Truncated { .. })) => return Err(BatchProblem::Missing.into()),
        Some(first) => *first?.header(),
    };
    if first.magic != MAGIC_V2 {
        return Err(BatchProblem::Magic(first.magic).into());
    }
    if version < 7 && first.codec() == Some(Codec::Zstd) {
        return Err(ValidateError::UnsupportedCodec);
    }
    match batches.next() {
        None | Some(Err(BatchError::Truncated { .. })) => Ok(()),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(_)) => Err(BatchProblem::TooMany.into()),
    }
}

/// Checks batches that are to be given offsets, and says what to write.
///
/// A cut-off batch at the end is dropped, as Kafka does; without any batch the
/// plan is empty.
pub fn validate(
    records: &Bytes,
    origin: AppendOrigin,
    rules: &AppendRules,
    now: Timestamp,
) -> Result<AppendPlan, ValidateError> {
    let append_time = rules.timestamp_type == TimestampType::LogAppendTime;
    let mut plan = AppendPlan {
        batches: Vec::with_capacity(1),
        offset_count: 0,
        max_timestamp: Timestamp::NONE,
        log_append_time: append_time.then_some(now),
    };
    for batch in whole_batches(records) {
        let batch = batch?;
        check_envelope(&batch, origin, rules)?;
        if !plan.batches.is_empty() && origin == AppendOrigin::Client {
            return Err(BatchProblem::TooMany.into());
        }
        check_header(batch.header(), origin)?;
        let planned = Validation { rules, now, batch, whole: records }.plan()?;
        plan.offset_count += i64::from(planned.header().last_offset_delta) + 1;
        plan.max_timestamp = plan.max_timestamp.max(planned.header().max_timestamp);
        plan.batches.push(planned);
    }
    Ok(plan)
}

/// Checks batches that carry their offsets: what a follower fetched, or the
/// leader of the metadata log appends, at `leader_epoch`.
///
/// A follower drops what comes from a later epoch than it asked for, and all
/// behind it. `None` when nothing is left.
pub fn check_given(
    records: &Bytes,
    origin: AppendOrigin,
    leader_epoch: LeaderEpoch,
    max_message_bytes: Option<usize>,
) -> Result<Option<GivenBatches>, ValidateError> {
    let mut facts = Vec::<BatchFacts>::new();
    let mut len = 0;
    let mut max_timestamp = Timestamp::NONE;
    for batch in whole_batches(records) {
        let batch = batch?;
        let header = batch.header();
        if origin == AppendOrigin::RaftLeader && header.leader_epoch != leader_epoch {
            return Err(BatchProblem::LeaderEpoch(header.leader_epoch).into());
        }
        if origin == AppendOrigin::Replication && header.leader_epoch > leader_epoch {
            break;
        }
        if let Some(last) = facts.last().map(|facts| facts.header.last_offset())
            && last >= header.last_offset()
        {
            return Err(ValidateError::OffsetsOutOfOrder { last, next: header.last_offset() });
        }
        check_size(header.total_len, max_message_bytes.unwrap_or(usize::MAX))?;
        batch.check_crc()?;
        max_timestamp = max_timestamp.max(header.max_timestamp);
        len += header.total_len;
        facts.push(BatchFacts::of(&batch));
    }
    let given = GivenBatches { facts, bytes: records.slice(..len), max_timestamp };
    Ok((len > 0).then_some(given))
}

/// The batches of a buffer; a cut-off one at the end is left out.
fn whole_batches(records: &[u8]) -> impl Iterator<Item = Result<BatchView<'_>, BatchError>> {
    batches(records).take_while(|batch| !matches!(batch, Err(BatchError::Truncated { .. })))
}

fn check_size(size: usize, limit: usize) -> Result<(), ValidateError> {
    if size > limit { Err(ValidateError::TooLarge { size, limit }) } else { Ok(()) }
}

/// What is checked before the contents are believed at all.
fn check_envelope(
    batch: &BatchView<'_>,
    origin: AppendOrigin,
    rules: &AppendRules,
) -> Result<(), ValidateError> {
    let header = batch.header();
    if header.magic != MAGIC_V2 {
        return Err(BatchProblem::Magic(header.magic).into());
    }
    if origin == AppendOrigin::Client && header.base_offset.0 != 0 {
        return Err(BatchProblem::BaseOffset(header.base_offset).into());
    }
    check_size(header.total_len, rules.max_message_bytes)?;
    Ok(batch.check_crc()?)
}

fn check_header(header: &BatchHeader, origin: AppendOrigin) -> Result<(), BatchProblem> {
    let BatchHeader { record_count, last_offset_delta, base_sequence, .. } = *header;
    if record_count <= 0 || i64::from(last_offset_delta) + 1 != i64::from(record_count) {
        return Err(BatchProblem::Count { record_count, last_offset_delta });
    }
    if origin != AppendOrigin::Client {
        return Ok(());
    }
    if header.attributes.is_control() {
        return Err(BatchProblem::Control);
    }
    if header.producer_id > ProducerId::NONE && base_sequence < 0 {
        return Err(BatchProblem::Sequence(base_sequence));
    }
    Ok(())
}

/// The check of one batch whose header is sound.
struct Validation<'a> {
    rules: &'a AppendRules,
    now: Timestamp,
    batch: BatchView<'a>,
    whole: &'a Bytes,
}

impl Validation<'_> {
    fn plan(&self) -> Result<PlannedBatch, ValidateError> {
        let header = self.batch.header();
        let source = header.codec().ok_or(ValidateError::UnsupportedCodec)?;
        let target = self.rules.compression_type.target(source);
        let control = header.attributes.is_control() && source == Codec::None;
        if target.codec != source && !control {
            return self.rewrite(source, target);
        }
        let max_timestamp = match source {
            Codec::None => self.walk(Records::new(header, self.batch.payload()))?,
            _ if self.rules.deep_check || self.rules.compacted => self.walk_stream(source)?,
            _ => self.trust_header()?,
        };
        Ok(self.keep(max_timestamp))
    }

    /// The batch as it came, with the timestamps that the leader wants.
    fn keep(&self, max_timestamp: Timestamp) -> PlannedBatch {
        let header = self.batch.header();
        let wanted = match self.rules.timestamp_type {
            TimestampType::CreateTime => (TimestampType::CreateTime, max_timestamp),
            TimestampType::LogAppendTime => (TimestampType::LogAppendTime, self.now),
        };
        let whole = self.whole.slice_ref(self.batch.bytes());
        if wanted == (header.attributes.timestamp_type(), header.max_timestamp) {
            PlannedBatch::kept(BatchFacts::of(&self.batch), &whole)
        } else {
            PlannedBatch::restamped(&self.batch, &whole, wanted.0, wanted.1)
        }
    }

    fn walk(&self, records: Records<'_>) -> Result<Timestamp, ValidateError> {
        let mut check = RecordCheck::new(self);
        for record in records {
            let record = record?;
            check.record(RecordOutline {
                offset_delta: record.offset_delta,
                timestamp: record.timestamp,
                has_key: record.key.is_some(),
            })?;
        }
        check.finish()
    }

    fn walk_stream(&self, codec: Codec) -> Result<Timestamp, ValidateError> {
        let limit = self.rules.max_unfolded_bytes;
        let decoder = Decoder::new(codec, self.batch.payload(), limit)?;
        let mut stream = RecordStream::new(self.batch.header(), decoder);
        let mut check = RecordCheck::new(self);
        loop {
            match stream.next_record() {
                Ok(Some(record)) => check.record(record)?,
                Ok(None) => return check.finish(),
                Err(StreamError::Record(error)) => return Err(error.into()),
                Err(StreamError::Source(error)) => {
                    return Err(stream.source().explain(&error).into());
                }
            }
        }
    }

    /// Without unfolding, the header's timestamps stand for those of all records.
    fn trust_header(&self) -> Result<Timestamp, ValidateError> {
        let max_timestamp = self.batch.header().max_timestamp;
        let mut check = RecordCheck::new(self);
        check.record(RecordOutline { offset_delta: 0, timestamp: max_timestamp, has_key: true })?;
        check.finish()
    }

    /// Checks the records and writes them anew with another codec.
    fn rewrite(&self, source: Codec, target: Compression) -> Result<PlannedBatch, ValidateError> {
        let header = self.batch.header();
        let plain = match source {
            Codec::None => Cow::Borrowed(self.batch.payload()),
            _ => {
                let limit = self.rules.max_unfolded_bytes;
                Cow::Owned(decompress(source, self.batch.payload(), limit)?)
            }
        };
        self.walk(Records::new(header, &plain))?;
        let append_time = self.rules.timestamp_type == TimestampType::LogAppendTime;
        let mut builder = BatchBuilder::new(BatchOptions {
            compression: target,
            log_append_time: append_time.then_some(self.now),
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            transactional: header.attributes.is_transactional(),
            control: header.attributes.is_control(),
            ..BatchOptions::default()
        });
        for record in Records::new(header, &plain) {
            builder.append_record(&record?);
        }
        let rebuilt = builder.build()?;
        check_size(rebuilt.len(), self.rules.max_message_bytes)?;
        let view = BatchView::parse(&rebuilt)?;
        Ok(PlannedBatch::kept(BatchFacts::of(&view), &rebuilt))
    }
}

/// Looks at records one after another and gathers what is wrong with them.
struct RecordCheck<'a> {
    rules: &'a AppendRules,
    now: Timestamp,
    batch_has_append_time: bool,
    seen: i32,
    max_timestamp: Timestamp,
    problems: Vec<RecordProblem>,
}

impl<'a> RecordCheck<'a> {
    fn new(validation: &Validation<'a>) -> Self {
        let kind = validation.batch.header().attributes.timestamp_type();
        Self {
            rules: validation.rules,
            now: validation.now,
            batch_has_append_time: kind == TimestampType::LogAppendTime,
            seen: 0,
            max_timestamp: Timestamp::NONE,
            problems: Vec::new(),
        }
    }

    fn record(&mut self, record: RecordOutline) -> Result<(), BatchProblem> {
        let batch_index = self.seen;
        self.seen = self.seen.saturating_add(1);
        if record.offset_delta != batch_index {
            let offset_delta = record.offset_delta;
            return Err(BatchProblem::OffsetDelta { batch_index, offset_delta });
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        if let Some(kind) = self.problem(record) {
            self.problems.push(RecordProblem { batch_index, kind });
        }
        Ok(())
    }

    fn problem(&self, record: RecordOutline) -> Option<RecordProblemKind> {
        if self.rules.compacted && !record.has_key {
            return Some(RecordProblemKind::MissingKey);
        }
        let create_time = self.rules.timestamp_type == TimestampType::CreateTime;
        if create_time && record.timestamp != Timestamp::NONE {
            return self.out_of_range(record.timestamp);
        }
        self.batch_has_append_time.then_some(RecordProblemKind::AppendTimeFromProducer)
    }

    fn out_of_range(&self, timestamp: Timestamp) -> Option<RecordProblemKind> {
        let (before, after) =
            (self.rules.timestamp_before_max_ms, self.rules.timestamp_after_max_ms);
        let age = i128::from(self.now.0) - i128::from(timestamp.0);
        let outside = age > i128::from(before) || -age > i128::from(after);
        outside.then_some(RecordProblemKind::TimestampOutOfRange {
            timestamp,
            earliest: Timestamp(self.now.0.saturating_sub(before)),
            latest: Timestamp(self.now.0.saturating_add(after)),
        })
    }

    fn finish(self) -> Result<Timestamp, ValidateError> {
        if self.problems.is_empty() {
            Ok(self.max_timestamp)
        } else {
            Err(ValidateError::Refused(self.problems))
        }
    }
}
