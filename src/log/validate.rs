//! What a leader accepts, and what it makes of it before it is written. `[P]`
//!
//! Checking is apart from numbering: [`validate`] looks at every byte without
//! any lock, [`AppendPlan::stamp`] sets the offsets when the log is held.
//!
//! Uncompressed records are always walked. Compressed ones are unfolded and
//! walked, too, as Kafka does, if [`AppendRules::deep_check`] is on, or if a rule
//! needs it: records of a compacted topic have keys, a topic may bound how old
//! they are, and another codec is written anew. Otherwise their checksum and their batch's header are believed, which
//! saves most of a produce's CPU: the producer made both from the same records.
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
use super::record::{RecordOutline, Records};
use super::record_stream::{RecordStream, StreamError};

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
    /// The rules that a topic's settings make.
    pub fn of(config: &LogConfig) -> Self {
        Self {
            max_message_bytes: config.max_message_bytes,
            compression_type: config.compression_type,
            compacted: config.cleanup_policy.compact,
            timestamp_type: config.message_timestamp_type,
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
            deep_check: config.check_compressed_records,
            max_unfolded_bytes: MAX_UNFOLDED_BYTES,
        }
    }

    /// A batch's header does not tell what is asked for: keys, and times that must
    /// not be too long ago (it has the largest, not the smallest).
    fn need_each_record(&self) -> bool {
        let bounded = self.timestamp_before_max_ms < i64::MAX;
        let create_time = self.timestamp_type == TimestampType::CreateTime;
        self.deep_check || self.compacted || (bounded && create_time)
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
            _ if self.rules.need_each_record() => self.walk_stream(source)?,
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

    fn walk(&self, mut records: Records<'_>) -> Result<Timestamp, ValidateError> {
        let mut check = RecordCheck::new(self);
        while let Some(record) = records.next_outline()? {
            check.record(record)?;
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
    /// The timestamps that are allowed.
    earliest: Timestamp,
    latest: Timestamp,
    batch_has_append_time: bool,
    seen: i32,
    max_timestamp: Timestamp,
    problems: Vec<RecordProblem>,
}

impl<'a> RecordCheck<'a> {
    fn new(validation: &Validation<'a>) -> Self {
        let kind = validation.batch.header().attributes.timestamp_type();
        let (rules, now) = (validation.rules, validation.now.0);
        Self {
            rules,
            earliest: Timestamp(now.saturating_sub(rules.timestamp_before_max_ms)),
            latest: Timestamp(now.saturating_add(rules.timestamp_after_max_ms)),
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
        let (earliest, latest) = (self.earliest, self.latest);
        let outside = timestamp < earliest || timestamp > latest;
        outside.then_some(RecordProblemKind::TimestampOutOfRange { timestamp, earliest, latest })
    }

    fn finish(self) -> Result<Timestamp, ValidateError> {
        if self.problems.is_empty() {
            Ok(self.max_timestamp)
        } else {
            Err(ValidateError::Refused(self.problems))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::append_plan::ErrorKind;
    use super::super::batch::HEADER_LEN;
    use super::super::control::{ControlType, EndTransactionMarker};
    use super::*;
    use crate::types::{Offset, ProducerEpoch};

    const NOW: Timestamp = Timestamp(1_000_000);

    fn rules() -> AppendRules {
        AppendRules { deep_check: true, ..AppendRules::of(&LogConfig::default()) }
    }

    fn rules_of(change: impl FnOnce(&mut AppendRules)) -> AppendRules {
        let mut rules = rules();
        change(&mut rules);
        rules
    }

    /// A batch with a record at each of these times, keys "k0", "k1", …
    fn batch_of(codec: Codec, times: &[i64]) -> Bytes {
        let mut builder = BatchBuilder::new(BatchOptions {
            compression: Compression::of(codec),
            ..BatchOptions::default()
        });
        for (at, time) in times.iter().enumerate() {
            let key = format!("k{at}");
            builder.append(Timestamp(*time), Some(key.as_bytes()), Some(b"value"));
        }
        builder.build().unwrap()
    }

    fn small(codec: Codec) -> Bytes {
        batch_of(codec, &[NOW.0 - 5, NOW.0 - 3, NOW.0 - 4])
    }

    /// The batch with its header changed and the checksum right again.
    fn with_header(batch: &Bytes, change: impl FnOnce(&mut BatchHeader)) -> Bytes {
        let view = BatchView::parse(batch).unwrap();
        let mut header = *view.header();
        change(&mut header);
        Bytes::from([&header.write_with_crc(view.payload())[..], view.payload()].concat())
    }

    fn client(records: &Bytes, rules: &AppendRules) -> Result<AppendPlan, ValidateError> {
        validate(records, AppendOrigin::Client, rules, NOW)
    }

    fn kind(records: &Bytes, rules: &AppendRules) -> Option<ErrorKind> {
        client(records, rules).err().map(|error| error.kind())
    }

    #[test]
    fn a_sound_batch_is_kept_and_numbered() {
        for codec in Codec::ALL {
            let records = small(codec);
            let mut plan = client(&records, &rules()).unwrap();
            assert_eq!((plan.offset_count, plan.max_timestamp), (3, Timestamp(NOW.0 - 3)));
            assert_eq!((plan.log_append_time, plan.total_len()), (None, records.len()));
            plan.stamp(Offset(70), LeaderEpoch(2));
            assert_eq!(plan.offset_of_max_timestamp(), Some(Offset(72)));
            let batch = &plan.batches[0];
            assert_eq!(batch.front().len(), 16, "only offset and epoch are rewritten");
            assert_eq!(*batch.rest(), records[16..]);
            let written = plan.pieces().collect::<Vec<_>>().concat();
            let view = BatchView::parse(&written).unwrap();
            view.check_crc().unwrap();
            assert_eq!(view.header(), batch.header());
            assert_eq!(view.header().base_offset, Offset(70));
            assert_eq!(view.header().leader_epoch, LeaderEpoch(2));
        }
    }

    #[test]
    fn headers_that_are_refused() {
        use ErrorKind::{
            CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedCompressionType,
        };
        let good = small(Codec::None);
        let changed = |change: fn(&mut BatchHeader)| with_header(&good, change);
        let mut damaged = good.to_vec();
        damaged[65] ^= 1;
        let mut old = good.to_vec();
        old[16] = 1;
        let cases: [(&str, Bytes, ErrorKind); 14] = [
            ("crc", damaged.into(), CorruptMessage),
            ("magic 1", old.into(), InvalidRecord),
            ("base offset", changed(|h| h.base_offset = Offset(1)), InvalidRecord),
            ("no records", changed(|h| h.record_count = 0), InvalidRecord),
            ("negative count", changed(|h| h.record_count = -3), InvalidRecord),
            ("count over deltas", changed(|h| h.record_count = 4), InvalidRecord),
            ("deltas over count", changed(|h| h.last_offset_delta = 3), InvalidRecord),
            ("negative delta", changed(|h| h.last_offset_delta = -1), InvalidRecord),
            ("delta at the edge", changed(|h| h.last_offset_delta = i32::MAX), InvalidRecord),
            (
                "count and delta lie",
                changed(|h| (h.record_count, h.last_offset_delta) = (4, 3)),
                InvalidRecord,
            ),
            ("control", changed(|h| h.attributes.0 |= 1 << 5), InvalidRecord),
            ("no sequence", changed(|h| h.producer_id = ProducerId(9)), InvalidRecord),
            ("unknown codec", changed(|h| h.attributes.0 |= 7), UnsupportedCompressionType),
            ("two batches", Bytes::from([&good[..], &good[..]].concat()), InvalidRecord),
        ];
        for (name, records, expected) in cases {
            assert_eq!(kind(&records, &rules()), Some(expected), "{name}");
        }
        let small_limit = rules_of(|rules| rules.max_message_bytes = good.len() - 1);
        assert_eq!(kind(&good, &small_limit), Some(MessageTooLarge));
        let just_fits = rules_of(|rules| rules.max_message_bytes = good.len());
        assert_eq!(kind(&good, &just_fits), None);
    }

    #[test]
    fn a_torn_second_batch_is_dropped() {
        let good = small(Codec::None);
        let torn = Bytes::from([&good[..], &good[..50]].concat());
        assert_eq!(client(&torn, &rules()).unwrap().total_len(), good.len());
        assert!(client(&Bytes::new(), &rules()).unwrap().batches.is_empty());
        assert!(client(&good.slice(..40), &rules()).unwrap().batches.is_empty());
    }

    #[test]
    fn offset_deltas_must_count_up() {
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new(BatchOptions {
                compression: Compression::of(codec),
                ..BatchOptions::default()
            });
            builder.append_at(0, NOW, None, None, std::iter::empty());
            builder.append_at(2, NOW, None, None, std::iter::empty());
            let records = with_header(&builder.build().unwrap(), |h| h.last_offset_delta = 1);
            let error = client(&records, &rules()).unwrap_err();
            let expected = BatchProblem::OffsetDelta { batch_index: 1, offset_delta: 2 };
            assert!(
                matches!(error, ValidateError::Batch(problem) if problem == expected),
                "{codec:?}"
            );
        }
    }

    #[test]
    fn the_deep_check_sees_what_the_header_hides() {
        let shallow = rules_of(|rules| rules.deep_check = false);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let lying =
                with_header(&small(codec), |h| (h.record_count, h.last_offset_delta) = (4, 3));
            assert_eq!(kind(&lying, &rules()), Some(ErrorKind::InvalidRecord), "{codec:?}");
            assert_eq!(kind(&lying, &shallow), None, "{codec:?}");
            let mut builder = BatchBuilder::new(BatchOptions {
                compression: Compression::of(codec),
                ..BatchOptions::default()
            });
            builder.append(NOW, None, Some(&[0; 5000]));
            let bomb = builder.build().unwrap();
            let bounded = rules_of(|rules| rules.max_unfolded_bytes = 5000);
            assert_eq!(kind(&bomb, &bounded), Some(ErrorKind::MessageTooLarge), "{codec:?}");
            assert_eq!(kind(&bomb, &rules()), None, "{codec:?}");
            let cut = bomb.len() - 3;
            let cut = with_header(&bomb.slice(..cut).into_cut(), |_| {});
            assert_eq!(kind(&cut, &rules()), Some(ErrorKind::InvalidRecord), "{codec:?}");
        }
    }

    trait IntoCut {
        fn into_cut(self) -> Bytes;
    }

    impl IntoCut for Bytes {
        /// A shorter batch whose length field knows it.
        fn into_cut(self) -> Bytes {
            let mut bytes = self.to_vec();
            let length = i32::try_from(bytes.len() - 12).unwrap();
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes.into()
        }
    }

    #[test]
    fn timestamps_within_the_topics_window() {
        let windowed = rules_of(|rules| {
            rules.timestamp_before_max_ms = 100;
            rules.timestamp_after_max_ms = 10;
        });
        let cases: [(&[i64], &[i32]); 7] = [
            (&[-100, 10], &[]),
            (&[-101, 0], &[0]),
            (&[0, 11, 0, 12], &[1, 3]),
            (&[i64::MIN, 0], &[0]),
            (&[i64::MAX - NOW.0, 0], &[0]),
            (&[-1 - NOW.0], &[]),
            (&[0], &[]),
        ];
        for codec in [Codec::None, Codec::Zstd] {
            for (times, offenders) in cases {
                let times = times.iter().map(|time| NOW.0.wrapping_add(*time)).collect::<Vec<_>>();
                match client(&batch_of(codec, &times), &windowed) {
                    Ok(_) => assert!(offenders.is_empty(), "{times:?}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidTimestamp);
                        let at = error.record_problems().iter().map(|p| p.batch_index);
                        assert_eq!(at.collect::<Vec<_>>(), offenders, "{times:?}");
                    }
                }
            }
        }
        let default_after = batch_of(Codec::None, &[NOW.0 + 3_600_001]);
        assert_eq!(kind(&default_after, &rules()), Some(ErrorKind::InvalidTimestamp));
        let shallow = rules_of(|rules| rules.deep_check = false);
        let late = batch_of(Codec::Lz4, &[NOW.0 + 3_600_001]);
        assert_eq!(kind(&late, &shallow), Some(ErrorKind::InvalidTimestamp));
    }

    #[test]
    fn append_time_overrides_what_the_producer_says() {
        let append_time = rules_of(|rules| rules.timestamp_type = TimestampType::LogAppendTime);
        for codec in Codec::ALL {
            let far_off = batch_of(codec, &[NOW.0 * 1000, 1]);
            let plan = client(&far_off, &append_time).unwrap();
            assert_eq!((plan.log_append_time, plan.max_timestamp), (Some(NOW), NOW));
            assert_eq!(plan.batches[0].front().len(), HEADER_LEN);
            let written = plan.batches[0].to_bytes();
            let view = BatchView::parse(&written).unwrap();
            view.check_crc().unwrap();
            assert_eq!(view.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(view.payload(), &far_off[HEADER_LEN..]);
            let again = client(&written, &append_time).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::InvalidTimestamp);
            assert_eq!(again.record_problems().len(), 2);
        }
    }

    #[test]
    fn a_wrong_largest_timestamp_is_mended() {
        for codec in [Codec::None, Codec::Gzip] {
            let lying = with_header(&small(codec), |h| h.max_timestamp = Timestamp(5));
            let plan = client(&lying, &rules()).unwrap();
            assert_eq!(plan.max_timestamp, Timestamp(NOW.0 - 3));
            assert_eq!(plan.batches[0].to_bytes(), small(codec));
        }
    }

    #[test]
    fn compacted_topics_need_keys() {
        let compacted = rules_of(|rules| {
            rules.compacted = true;
            rules.deep_check = false;
        });
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new(BatchOptions {
                compression: Compression::of(codec),
                ..BatchOptions::default()
            });
            builder.append(NOW, Some(b""), None);
            builder.append(NOW, None, Some(b"x"));
            let records = builder.build().unwrap();
            let error = client(&records, &compacted).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRecord);
            let expected = RecordProblem { batch_index: 1, kind: RecordProblemKind::MissingKey };
            assert_eq!(error.record_problems(), [expected], "{codec:?}");
            assert_eq!(kind(&records, &rules()), None);
            assert_eq!(kind(&small(codec), &compacted), None);
        }
    }

    #[test]
    fn another_codec_of_the_topic_means_writing_anew() {
        for source in Codec::ALL {
            for target in Codec::ALL {
                let to = Compression::of(target);
                let rules = rules_of(|rules| rules.compression_type = CompressionType::Fixed(to));
                let records = with_header(&small(source), |header| {
                    header.producer_id = ProducerId(5);
                    header.producer_epoch = ProducerEpoch(6);
                    header.base_sequence = 7;
                    header.attributes.0 |= 1 << 4;
                });
                let plan = client(&records, &rules).unwrap();
                let written = plan.batches[0].to_bytes();
                let view = BatchView::parse(&written).unwrap();
                view.check_crc().unwrap();
                let header = *view.header();
                assert_eq!(header.codec(), Some(target));
                assert_eq!((header.producer_id.0, header.base_sequence), (5, 7));
                assert!(header.attributes.is_transactional());
                assert_eq!(plan.max_timestamp, Timestamp(NOW.0 - 3));
                let plain = decompress(target, view.payload(), 10_000).unwrap();
                assert_eq!(plain, small(Codec::None)[HEADER_LEN..], "{source:?} {target:?}");
            }
        }
    }

    #[test]
    fn what_grows_by_writing_anew_may_be_too_large() {
        let repeated = batch_of(Codec::Gzip, &[NOW.0; 500]);
        let rules = rules_of(|rules| {
            rules.compression_type = CompressionType::Fixed(Compression::NONE);
            rules.max_message_bytes = repeated.len();
        });
        assert_eq!(kind(&repeated, &rules), Some(ErrorKind::MessageTooLarge));
    }

    #[test]
    fn coordinators_write_markers_and_several_batches() {
        let marker = EndTransactionMarker { committed: true, coordinator_epoch: 7 };
        let producer = (ProducerId(1), ProducerEpoch(2));
        let batch = marker.batch(Offset(0), LeaderEpoch(0), NOW, producer).unwrap();
        let zstd = CompressionType::Fixed(Compression::of(Codec::Zstd));
        let rules = rules_of(|rules| rules.compression_type = zstd);
        let both = Bytes::from([&batch[..], &batch[..]].concat());
        let mut plan = validate(&both, AppendOrigin::Coordinator, &rules, NOW).unwrap();
        plan.stamp(Offset(40), LeaderEpoch(3));
        let offsets = plan.batches.iter().map(|batch| batch.header().base_offset.0);
        assert_eq!(offsets.collect::<Vec<_>>(), [40, 41]);
        assert_eq!(plan.batches[1].facts().marker, Some((marker, NOW)));
        assert_eq!(plan.batches[1].header().codec(), Some(Codec::None));
        let record = BatchView::parse(&batch).unwrap().records().unwrap().next().unwrap().unwrap();
        assert_eq!(record.key, Some(ControlType::Commit.key().as_slice()));
        assert_eq!(record.value, Some([0, 0, 0, 0, 0, 7].as_slice()));
    }

    #[test]
    fn what_a_produce_request_may_carry() {
        let (plain, zstd) = (small(Codec::None), small(Codec::Zstd));
        let two = Bytes::from([&plain[..], &plain[..]].concat());
        let mut old = plain.to_vec();
        old[16] = 0;
        let kind_of = |records: &[u8], version| {
            check_produced(records, version).err().map(|error| error.kind())
        };
        let cases: [(&str, &[u8], i16, Option<ErrorKind>); 7] = [
            ("plain", &plain, 3, None),
            ("nothing", &[], 9, Some(ErrorKind::InvalidRecord)),
            ("two batches", &two, 9, Some(ErrorKind::InvalidRecord)),
            ("old magic", &old, 9, Some(ErrorKind::InvalidRecord)),
            ("zstd too early", &zstd, 6, Some(ErrorKind::UnsupportedCompressionType)),
            ("zstd", &zstd, 7, None),
            ("impossible length", &[0xff; 40], 7, Some(ErrorKind::CorruptMessage)),
        ];
        for (name, records, version, expected) in cases {
            assert_eq!(kind_of(records, version), expected, "{name}");
        }
    }

    /// Three batches of three records each, at these offsets and epochs.
    fn given(batches: &[(i64, i32)]) -> Bytes {
        let batches = batches.iter().map(|(offset, epoch)| {
            with_header(&small(Codec::None), |header| {
                header.base_offset = Offset(*offset);
                header.leader_epoch = LeaderEpoch(*epoch);
            })
        });
        Bytes::from(batches.collect::<Vec<_>>().concat())
    }

    #[test]
    fn followers_take_what_is_of_their_epoch() {
        let check =
            |bytes: &Bytes| check_given(bytes, AppendOrigin::Replication, LeaderEpoch(4), None);
        let all = given(&[(10, 3), (13, 4), (20, 4)]);
        let taken = check(&all).unwrap().unwrap();
        assert_eq!((taken.first_offset(), taken.last_offset()), (Offset(10), Offset(22)));
        assert_eq!((taken.bytes, taken.max_timestamp), (all, Timestamp(NOW.0 - 3)));

        let later = given(&[(10, 3), (13, 5), (20, 4)]);
        let taken = check(&later).unwrap().unwrap();
        assert_eq!((taken.facts.len(), taken.last_offset()), (1, Offset(12)));
        assert!(check(&given(&[(10, 5)])).unwrap().is_none());

        let back = check(&given(&[(10, 3), (9, 3)])).unwrap_err();
        assert_eq!(back.kind(), ErrorKind::Unexpected);
        let mut damaged = given(&[(10, 3), (13, 3)]).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(check(&damaged.into()).unwrap_err().kind(), ErrorKind::CorruptMessage);
    }

    #[test]
    fn the_metadata_leader_writes_only_its_own_epoch() {
        let check = |bytes: &Bytes, limit| {
            check_given(bytes, AppendOrigin::RaftLeader, LeaderEpoch(4), limit).err()
        };
        assert!(check(&given(&[(10, 4), (13, 4)]), None).is_none());
        let kind = check(&given(&[(10, 4), (13, 3)]), None).map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::InvalidRecord));
        let kind = check(&given(&[(10, 4)]), Some(60)).map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::MessageTooLarge));
    }

    proptest! {
        /// Whatever a batch holds, as long as its checksum is right.
        #[test]
        fn hostile_contents_never_panic(
            at: prop::sample::Index,
            bytes in prop::collection::vec(any::<u8>(), 1..8),
            codec in 0i16..5,
            compacted: bool,
        ) {
            let mut hostile = small(Codec::from_id(codec).unwrap()).to_vec();
            let at = 21 + at.index(hostile.len() - 21);
            for (place, byte) in hostile[at..].iter_mut().zip(bytes) {
                *place = byte;
            }
            let hostile = with_header(&hostile.into(), |_| {});
            let rules = rules_of(|rules| {
                rules.compacted = compacted;
                rules.max_unfolded_bytes = 10_000;
            });
            if let Ok(plan) = client(&hostile, &rules) {
                prop_assert_eq!(i64::from(plan.batches[0].header().record_count), plan.offset_count);
            }
            let gzip = CompressionType::Fixed(Compression::of(Codec::Gzip));
            let _ = client(&hostile, &AppendRules { compression_type: gzip, ..rules });
            let _ = check_given(&hostile, AppendOrigin::Replication, LeaderEpoch(0), None);
        }
    }

    #[test]
    fn compressed_records_are_looked_at_when_a_rule_is_about_each() {
        let batch = batch_of(Codec::Gzip, &[NOW.0 - 100, NOW.0]);
        let check = |before_max_ms| {
            let rules = rules_of(|rules| {
                rules.deep_check = false;
                rules.timestamp_before_max_ms = before_max_ms;
            });
            validate(&batch, AppendOrigin::Client, &rules, NOW)
        };
        assert!(check(i64::MAX).is_ok());
        assert!(check(100).is_ok());
        assert!(matches!(check(99), Err(ValidateError::Refused(_))));
    }
}
