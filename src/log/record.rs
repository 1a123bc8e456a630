//! Records within a batch of magic 2: reading them in place, writing them. `[P]`
//!
//! ```text
//! varint   length of what follows
//! i8       attributes, 0
//! varlong  timestamp delta, from the batch's base timestamp
//! varint   offset delta, from the batch's base offset
//! varint   key length, -1 for null; key
//! varint   value length, -1 for null; value
//! varint   number of headers; each: varint key length, key, varint value length
//!          (-1 for null), value
//! ```
//!
//! Varints are zig-zag. Key, value and headers are slices of the batch.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::types::{Offset, Timestamp};

use super::batch::{BatchHeader, TimestampType};

/// Why the records of a batch cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A field reaches over the end of the batch or of its record.
    #[error("record ends in the middle of a field")]
    Truncated,
    /// A varint goes on after its last possible byte.
    #[error("variable-length number is too long")]
    BadVarint,
    /// A record's fields do not fill the length that it declares.
    #[error("record declares {declared} bytes and has {actual}")]
    BadLength {
        /// Its length field.
        declared: usize,
        /// Bytes its fields take.
        actual: usize,
    },
    /// A negative record length or number of headers, or a header without key.
    #[error("negative length {0} where none may be")]
    NegativeLength(i32),
    /// The batch declares another number of records than it holds.
    #[error("batch declares {declared} records and does not hold just them")]
    WrongCount {
        /// Its count field.
        declared: i32,
    },
    /// The records are compressed and must be decompressed first.
    #[error("records are compressed")]
    Compressed,
    /// Messages of magic 0 and 1 are not opened here.
    #[error("message format is older than 2")]
    OldFormat,
}

/// One record; the bytes are borrowed from the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Absolute, after the batch's base offset.
    pub offset: Offset,
    /// Minus the batch's base offset, as stored.
    pub offset_delta: i32,
    /// Absolute; the batch's largest timestamp when that is an append time.
    pub timestamp: Timestamp,
    /// Key, `None` for null.
    pub key: Option<&'a [u8]>,
    /// Value, `None` for null (a tombstone).
    pub value: Option<&'a [u8]>,
    /// Headers in order; keys may repeat.
    pub headers: Headers<'a>,
    /// Bytes of the record, its length field included.
    pub size: usize,
}

/// What a check wants to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordOutline {
    /// Minus the batch's base offset.
    pub offset_delta: i32,
    /// Absolute; the batch's largest when that is an append time.
    pub timestamp: Timestamp,
    /// The key is not null.
    pub has_key: bool,
}

/// The headers of a record, checked when the record was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Key and value of each. Keys are meant to be UTF-8 but nobody checks it.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone + use<'a> {
        let mut cursor = Cursor { rest: self.bytes };
        (0..self.count).map_while(move |_| cursor.header().ok())
    }
}

/// The records of one batch, in order. Yields an error once and then ends.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    declared: i32,
    seen: i32,
    base_offset: Offset,
    base_timestamp: Timestamp,
    append_time: Option<Timestamp>,
    failed: bool,
}

impl<'a> Records<'a> {
    /// Over the uncompressed records of the batch with this header.
    pub fn new(header: &BatchHeader, records: &'a [u8]) -> Self {
        let append_time = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        Self {
            cursor: Cursor { rest: records },
            declared: header.record_count,
            seen: 0,
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time: append_time.then_some(header.max_timestamp),
            failed: false,
        }
    }

    fn read(&mut self) -> Result<Option<Record<'a>>, RecordError> {
        if self.seen >= self.declared {
            let whole = self.cursor.rest.is_empty() && self.declared >= 0;
            let error = RecordError::WrongCount { declared: self.declared };
            return if whole { Ok(None) } else { Err(error) };
        }
        if self.cursor.rest.is_empty() {
            return Err(RecordError::WrongCount { declared: self.declared });
        }
        self.seen += 1;
        let raw = self.cursor.record()?;
        Ok(Some(Record {
            offset: self.base_offset + i64::from(raw.offset_delta),
            offset_delta: raw.offset_delta,
            timestamp: self.timestamp(raw.timestamp_delta),
            key: raw.key,
            value: raw.value,
            headers: raw.headers,
            size: raw.size,
        }))
    }

    /// The outline of the next record; `None` after the last, when nothing follows it.
    /// Most of a produce's own time goes here.
    #[inline]
    pub fn next_outline(&mut self) -> Result<Option<RecordOutline>, RecordError> {
        if self.seen < self.declared
            && let Some((raw, rest)) = short_record(self.cursor.rest)
        {
            self.seen += 1;
            self.cursor.rest = rest;
            let timestamp = self.timestamp(raw.timestamp_delta);
            let (offset_delta, has_key) = (raw.offset_delta, raw.has_key);
            return Ok(Some(RecordOutline { offset_delta, timestamp, has_key }));
        }
        let record = self.read()?;
        Ok(record.map(|Record { offset_delta, timestamp, key, .. }| RecordOutline {
            offset_delta,
            timestamp,
            has_key: key.is_some(),
        }))
    }

    fn timestamp(&self, delta: i64) -> Timestamp {
        let created = Timestamp(self.base_timestamp.0.wrapping_add(delta));
        self.append_time.unwrap_or(created)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.read().transpose();
        self.failed = matches!(record, Some(Err(_)));
        record
    }
}

struct ShortRecord {
    timestamp_delta: i64,
    offset_delta: i32,
    has_key: bool,
}

/// The record at the front, and what follows it, when it has the shape of nearly all:
/// numbers of up to three bytes, a key below 64, no headers, and a few bytes behind
/// it. `None` of any other, damaged ones among them.
///
/// Its numbers are taken from a word in a register instead of one by one from memory:
/// a third of the time.
#[inline]
fn short_record(bytes: &[u8]) -> Option<(ShortRecord, &[u8])> {
    let (length, length_bytes) = short_varint(word_at(bytes, 0)?)?;
    let word = word_at(bytes, length_bytes)?;
    // Behind the attributes.
    let (timestamp_delta, timestamp_bytes) = short_varint(word >> 8)?;
    let (offset_delta, offset_bytes) = short_varint(word >> (8 + 8 * timestamp_bytes))?;
    let before_key = 1 + timestamp_bytes + offset_bytes;
    let key = (word >> (8 * before_key)) as u8;
    if key >= 0x80 || length & 1 != 0 {
        return None;
    }
    let has_key = key & 1 == 0;
    let key_len = if has_key { usize::from(key >> 1) } else { 0 };
    let before_value = length_bytes + before_key + 1 + key_len;
    let (value, value_bytes) = short_varint(word_at(bytes, before_value)?)?;
    let value_len = if value & 1 == 0 { value as usize >> 1 } else { 0 };
    let before_headers = before_value + value_bytes + value_len;
    if before_headers + 1 != length_bytes + (length as usize >> 1) {
        return None;
    }
    let (0, rest) = bytes.get(before_headers..)?.split_first()? else { return None };
    let (timestamp_delta, offset_delta) =
        (i64::from(unzigzag(timestamp_delta)), unzigzag(offset_delta));
    Some((ShortRecord { timestamp_delta, offset_delta, has_key }, rest))
}

#[inline]
#[expect(
    clippy::little_endian_bytes,
    reason = "no format's number: the first byte is wanted lowest"
)]
fn word_at(bytes: &[u8], position: usize) -> Option<u64> {
    bytes.get(position..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// A varint of at most three bytes at the low end of a word, zig-zag as it is, and its
/// bytes.
#[inline]
fn short_varint(word: u64) -> Option<(u32, usize)> {
    let one = (word & 0x7f) as u32;
    if word & 0x80 == 0 {
        return Some((one, 1));
    }
    let two = one | (word >> 1) as u32 & 0x3f80;
    if word & 0x8000 == 0 {
        return Some((two, 2));
    }
    let three = two | (word >> 2) as u32 & 0x1f_c000;
    (word & 0x80_0000 == 0).then_some((three, 3))
}

#[inline]
fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

struct RawRecord<'a> {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Headers<'a>,
    size: usize,
}

#[derive(Clone, Debug)]
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    fn record(&mut self) -> Result<RawRecord<'a>, RecordError> {
        let before = self.rest.len();
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| RecordError::NegativeLength(length))?;
        let mut body = Cursor { rest: self.take(length)? };
        let _attributes = body.byte()?;
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = body.nullable()?;
        let value = body.nullable()?;
        let headers = body.headers()?;
        if !body.rest.is_empty() {
            let actual = length - body.rest.len();
            return Err(RecordError::BadLength { declared: length, actual });
        }
        let size = before - self.rest.len();
        Ok(RawRecord { timestamp_delta, offset_delta, key, value, headers, size })
    }

    #[inline]
    fn headers(&mut self) -> Result<Headers<'a>, RecordError> {
        let count = self.varint()?;
        let count = usize::try_from(count).map_err(|_| RecordError::NegativeLength(count))?;
        let bytes = self.rest;
        for _ in 0..count {
            self.header()?;
        }
        let used = bytes.len() - self.rest.len();
        Ok(Headers { count, bytes: bytes.get(..used).unwrap_or_default() })
    }

    fn header(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>), RecordError> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| RecordError::NegativeLength(length))?;
        Ok((self.take(length)?, self.nullable()?))
    }

    #[inline]
    fn nullable(&mut self) -> Result<Option<&'a [u8]>, RecordError> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(RecordError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, RecordError> {
        let (first, rest) = self.rest.split_first().ok_or(RecordError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Nearly all have one byte or two.
    #[inline]
    fn varint(&mut self) -> Result<i32, RecordError> {
        let value = match self.rest {
            [low @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                u32::from(*low)
            }
            [low, high @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                u32::from(*low & 0x7f) | u32::from(*high) << 7
            }
            _ => return unzigzag_32(|| self.byte()),
        };
        Ok(unzigzag(value))
    }

    #[inline]
    fn varlong(&mut self) -> Result<i64, RecordError> {
        unzigzag_64(|| self.byte())
    }
}

/// A zig-zag varint of at most five bytes.
pub(super) fn unzigzag_32<E: From<RecordError>>(
    mut byte: impl FnMut() -> Result<u8, E>,
) -> Result<i32, E> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let next = byte()?;
        value |= u32::from(next & 0x7f).wrapping_shl(shift);
        if next & 0x80 == 0 {
            return Ok(unzigzag(value));
        }
    }
    Err(RecordError::BadVarint.into())
}

/// A zig-zag varlong of at most ten bytes.
pub(super) fn unzigzag_64<E: From<RecordError>>(
    mut byte: impl FnMut() -> Result<u8, E>,
) -> Result<i64, E> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let next = byte()?;
        value |= u64::from(next & 0x7f).wrapping_shl(shift);
        if next & 0x80 == 0 {
            return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    Err(RecordError::BadVarint.into())
}

/// Appends a record to `into` in the form above.
///
/// Lengths over 2^31-1 cannot be written; callers bound batches far below that.
pub fn write_record<'h>(
    into: &mut Vec<u8>,
    offset_delta: i32,
    timestamp_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
) {
    let length = record_body_len(offset_delta, timestamp_delta, key, value, headers.clone());
    write_varlong(into, i64::try_from(length).unwrap_or(i64::MAX));
    into.push(0);
    write_varlong(into, timestamp_delta);
    write_varlong(into, i64::from(offset_delta));
    write_nullable(into, key);
    write_nullable(into, value);
    write_varlong(into, i64::try_from(headers.clone().count()).unwrap_or(i64::MAX));
    for (key, value) in headers {
        write_nullable(into, Some(key));
        write_nullable(into, value);
    }
}

/// Bytes of a record after its length field.
fn record_body_len<'h>(
    offset_delta: i32,
    timestamp_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>,
) -> usize {
    let mut count = 0i64;
    let mut length = 1
        + varlong_len(timestamp_delta)
        + varlong_len(i64::from(offset_delta))
        + nullable_len(key)
        + nullable_len(value);
    for (key, value) in headers {
        count += 1;
        length += nullable_len(Some(key)) + nullable_len(value);
    }
    length + varlong_len(count)
}

fn nullable_len(bytes: Option<&[u8]>) -> usize {
    match bytes {
        None => 1,
        Some(bytes) => varlong_len(i64::try_from(bytes.len()).unwrap_or(i64::MAX)) + bytes.len(),
    }
}

fn write_nullable(into: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => write_varlong(into, -1),
        Some(bytes) => {
            write_varlong(into, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
            into.extend_from_slice(bytes);
        }
    }
}

/// Zig-zag; for values in i32 it is the same bytes as a varint.
fn write_varlong(into: &mut Vec<u8>, value: i64) {
    let mut left = zigzag(value);
    while left >= 0x80 {
        into.push(0x80 | u8::try_from(left & 0x7f).unwrap_or(0));
        left >>= 7;
    }
    into.push(u8::try_from(left).unwrap_or(0));
}

fn varlong_len(value: i64) -> usize {
    let bits = 64 - zigzag(value).leading_zeros();
    usize::try_from(bits.div_ceil(7)).unwrap_or(1).max(1)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::records as theirs;
    use proptest::prelude::*;

    use super::super::batch::BatchView;
    use super::super::batch_builder::{BatchBuilder, BatchOptions};
    use super::super::compression::{Codec, Compression, decompress};
    use super::super::record_stream::RecordStream;
    use super::*;
    use crate::types::{ProducerEpoch, ProducerId};

    type Pair = (Vec<u8>, Option<Vec<u8>>);

    #[derive(Clone, Debug, PartialEq)]
    struct Plain {
        timestamp: i64,
        key: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
        headers: Vec<Pair>,
    }

    fn plain() -> impl Strategy<Value = Plain> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        let header = ("[a-z]{0,3}", prop::option::of(bytes()));
        let header = header.prop_map(|(key, value)| (key.into_bytes(), value));
        let headers = prop::collection::vec(header, 0..4);
        let timestamp = 0..i64::MAX / 2;
        (timestamp, prop::option::of(bytes()), prop::option::of(bytes()), headers)
            .prop_map(|(timestamp, key, value, headers)| Plain { timestamp, key, value, headers })
    }

    fn build(records: &[Plain], codec: Codec) -> Bytes {
        let mut builder = BatchBuilder::new(BatchOptions {
            base_offset: Offset(500),
            compression: Compression::of(codec),
            producer_id: ProducerId(3),
            producer_epoch: ProducerEpoch(4),
            base_sequence: 5,
            ..BatchOptions::default()
        });
        for record in records {
            let headers = record.headers.iter();
            builder.append_with_headers(
                Timestamp(record.timestamp),
                record.key.as_deref(),
                record.value.as_deref(),
                headers.map(|(key, value)| (key.as_slice(), value.as_deref())),
            );
        }
        builder.build().unwrap()
    }

    fn read(batch: &BatchView<'_>) -> Vec<Plain> {
        let codec = batch.header().codec().unwrap();
        let plain = decompress(codec, batch.payload(), 1 << 20).unwrap();
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        Records::new(batch.header(), &plain)
            .map(|record| record.unwrap())
            .map(|record| Plain {
                timestamp: record.timestamp.0,
                key: owned(record.key),
                value: owned(record.value),
                headers: record.headers.iter().map(|(k, v)| (k.to_vec(), owned(v))).collect(),
            })
            .collect()
    }

    /// Uncompressed records of a batch that declares `count` of them.
    fn error_of(records: &[u8], count: i32) -> Option<RecordError> {
        let mut header = *BatchView::parse(&build(&[], Codec::None)).unwrap().header();
        header.record_count = count;
        let walked = Records::new(&header, records).find_map(Result::err);
        // The stream must come to the same end.
        let mut stream = RecordStream::new(&header, records);
        let streamed = loop {
            match stream.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert_eq!(walked.is_some(), streamed, "{records:?}");
        // Outlines tell the same of each record, and come to the very same end.
        let (mut outlines, mut left) = (Records::new(&header, records), records.len());
        for record in Records::new(&header, records) {
            match (record, outlines.next_outline()) {
                (Ok(record), Ok(Some(outline))) => {
                    assert_eq!(outline.offset_delta, record.offset_delta);
                    assert_eq!(outline.timestamp, record.timestamp);
                    assert_eq!(outline.has_key, record.key.is_some());
                    left -= record.size;
                    assert_eq!(outlines.cursor.rest.len(), left);
                }
                (Err(error), Err(other)) => assert_eq!(error, other),
                (record, outline) => panic!("{record:?} {outline:?}"),
            }
        }
        if walked.is_none() {
            assert_eq!(outlines.next_outline(), Ok(None));
        }
        walked
    }

    #[test]
    fn malformed_records() {
        // Length 6: attributes, timestamp, offset, null key, null value, no headers.
        let good = [12, 0, 0, 0, 1, 1, 0];
        assert_eq!(error_of(&good, 1), None);
        let truncated = Some(RecordError::Truncated);
        let count = |declared| Some(RecordError::WrongCount { declared });
        let cases: [(&str, &[u8], i32, Option<RecordError>); 14] = [
            ("more than declared", &[good, good].concat(), 1, count(1)),
            ("fewer than declared", &good, 2, count(2)),
            ("none but declared", &[], 1, count(1)),
            ("negative count", &good, -1, count(-1)),
            ("trailing byte", &[&good[..], &[0]].concat(), 1, count(1)),
            ("cut off", &good[..6], 1, truncated.clone()),
            ("length beyond the end", &[14, 0, 0, 0, 1, 1, 0], 1, truncated.clone()),
            ("field beyond its record", &[10, 0, 0, 0, 1, 1, 0], 1, truncated.clone()),
            ("negative length", &[1, 0, 0, 0, 1, 1, 0], 1, Some(RecordError::NegativeLength(-1))),
            ("key too long", &[12, 0, 0, 0, 200, 1, 0], 1, truncated.clone()),
            ("endless varint", &[0xff; 12], 1, Some(RecordError::BadVarint)),
            (
                "bytes left over",
                &[14, 0, 0, 0, 1, 1, 0, 9],
                1,
                Some(RecordError::BadLength { declared: 7, actual: 6 }),
            ),
            ("negative headers", &[12, 0, 0, 0, 1, 1, 1], 1, Some(RecordError::NegativeLength(-1))),
            (
                "header without key",
                &[16, 0, 0, 0, 1, 1, 2, 1, 1],
                1,
                Some(RecordError::NegativeLength(-1)),
            ),
        ];
        for (name, bytes, declared, expected) in cases {
            assert_eq!(error_of(bytes, declared), expected, "{name}");
        }
    }

    #[test]
    fn a_record_of_two_gigabytes_is_only_a_claim() {
        // Key length 2^31-1, and so many headers.
        let key = [0x7e, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0];
        assert_eq!(error_of(&key, 1), Some(RecordError::Truncated));
        let headers = [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(error_of(&headers, 1), Some(RecordError::Truncated));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in prop::collection::vec(plain(), 1..20), codec in 0i16..5) {
            let codec = Codec::from_id(codec).unwrap();
            let bytes = build(&records, codec);
            let batch = BatchView::parse(&bytes).unwrap();
            batch.check_crc().unwrap();
            let plain = decompress(codec, batch.payload(), 1 << 20).unwrap();
            prop_assert_eq!(error_of(&plain, records.len() as i32), None);
            prop_assert_eq!(read(&batch), records);
        }

        /// kafka-protocol is the second opinion on what we write.
        #[test]
        fn others_read_what_we_write(records in prop::collection::vec(plain(), 1..10)) {
            let mut bytes = build(&records, Codec::None);
            let set = theirs::RecordBatchDecoder::decode(&mut bytes).unwrap();
            prop_assert_eq!(set.records.len(), records.len());
            for (at, (theirs, ours)) in set.records.iter().zip(&records).enumerate() {
                prop_assert_eq!(theirs.offset, 500 + at as i64);
                prop_assert_eq!(theirs.timestamp, ours.timestamp);
                prop_assert_eq!(theirs.key.as_deref(), ours.key.as_deref());
                prop_assert_eq!(theirs.value.as_deref(), ours.value.as_deref());
                prop_assert_eq!(theirs.sequence, 5 + at as i32);
                prop_assert_eq!((theirs.producer_id, theirs.producer_epoch), (3, 4));
            }
        }

        #[test]
        fn random_bytes_end_alike_in_both_readers(bytes: Vec<u8>, declared in -1i32..5) {
            error_of(&bytes, declared);
        }

        #[test]
        fn nearly_good_bytes_end_alike_in_both_readers(
            records in prop::collection::vec(plain(), 1..4),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let bytes = build(&records, Codec::None);
            let mut payload = BatchView::parse(&bytes).unwrap().payload().to_vec();
            let at = at.index(payload.len());
            payload[at] = byte;
            error_of(&payload, records.len() as i32);
        }
    }
}
