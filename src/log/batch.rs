//! One record batch as it lies on disk and on the wire, read in place. `[P]`
//!
//! ```text
//! at  0  base offset      i64   set by the leader, not under the CRC
//! at  8  length           i32   bytes that follow this field
//! at 12  leader epoch     i32   set by the leader, not under the CRC
//! at 16  magic            i8    2; at the same place in the old formats
//! at 17  crc              u32   CRC-32C of all that follows
//! at 21  attributes       i16   bits 0-2 codec, 3 append time, 4 transactional,
//!                               5 control, 6 delete horizon
//! at 23  last offset delta i32  kept when compaction takes records out
//! at 27  base timestamp   i64   or the delete horizon when bit 6 is set
//! at 35  max timestamp    i64
//! at 43  producer id      i64
//! at 51  producer epoch   i16
//! at 53  base sequence    i32
//! at 57  record count     i32
//! at 61  records                one compressed block when the codec is not none
//! ```
//!
//! Batches of magic 0 and 1, which old brokers left behind, are recognised and
//! walked over (length, offset, CRC), not opened.
//!
//! Nothing here trusts a length: every access is checked, nothing is reserved.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::compression::Codec;
use super::crc::{Crc32c, crc32c};
use super::record::{RecordError, Records};

/// Bytes of a batch before its records.
pub const HEADER_LEN: usize = 61;
/// Bytes before the part that `length` counts: base offset and length.
pub const LOG_OVERHEAD: usize = 12;
/// Bytes that suffice to tell length and magic of any format.
pub const MAGIC_END: usize = 17;
/// Bytes at the front that a leader may overwrite without a new CRC.
pub const STAMP_LEN: usize = 16;
/// The magic of the format above.
pub const MAGIC_V2: i8 = 2;

const CRC_AT: usize = 17;
const CRC_START: usize = 21;
/// What `length` must at least say in magic 0 and 1.
const MIN_LENGTH_OLD: [usize; 2] = [14, 22];

const CODEC_MASK: i16 = 0b111;
const APPEND_TIME_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;
const DELETE_HORIZON_BIT: i16 = 1 << 6;

/// Why bytes are not a sound batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does: a torn tail, or a short read.
    #[error("batch needs {needed} bytes, only {available} are there")]
    Truncated {
        /// Bytes the batch takes, as far as known.
        needed: usize,
        /// Bytes at hand.
        available: usize,
    },
    /// The length field names less than a header, or a negative number.
    #[error("batch length {0} is impossible")]
    BadLength(i32),
    /// Neither of the formats 0, 1 and 2.
    #[error("unknown batch magic {0}")]
    UnknownMagic(i8),
    /// The contents are not what the checksum was taken of.
    #[error("stored checksum {stored:#010x} is not the computed {computed:#010x}")]
    BadCrc {
        /// As it stands in the batch.
        stored: u32,
        /// As it should stand.
        computed: u32,
    },
}

/// Whose clock a timestamp is from (KIP-32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    #[default]
    CreateTime,
    /// The leader's, when it appended.
    LogAppendTime,
}

/// The attribute bits of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    /// Bits for the given properties.
    pub fn new(codec: Codec, kind: TimestampType, transactional: bool, control: bool) -> Self {
        let mut bits = codec.id();
        for (bit, on) in [
            (APPEND_TIME_BIT, kind == TimestampType::LogAppendTime),
            (TRANSACTIONAL_BIT, transactional),
            (CONTROL_BIT, control),
        ] {
            if on {
                bits |= bit;
            }
        }
        Self(bits)
    }

    /// The codec; `None` for the ids 5 to 7, which no one has taken yet.
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id(self.0 & CODEC_MASK)
    }

    /// Whose clock the timestamps are from.
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & APPEND_TIME_BIT != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// The same bits with another timestamp type.
    pub fn with_timestamp_type(self, kind: TimestampType) -> Self {
        match kind {
            TimestampType::CreateTime => Self(self.0 & !APPEND_TIME_BIT),
            TimestampType::LogAppendTime => Self(self.0 | APPEND_TIME_BIT),
        }
    }

    /// Part of a transaction, data or marker.
    pub fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL_BIT != 0
    }

    /// Holds a record for brokers and clients' machinery, not for consumers.
    pub fn is_control(self) -> bool {
        self.0 & CONTROL_BIT != 0
    }

    /// The same bits, saying whether the base timestamp is a delete horizon.
    pub fn with_delete_horizon(self, on: bool) -> Self {
        Self(if on { self.0 | DELETE_HORIZON_BIT } else { self.0 & !DELETE_HORIZON_BIT })
    }
}

/// The numbers at the front of a batch.
///
/// For magic 0 and 1 it holds what that format has: base offset = last offset =
/// the (wrapper) message's offset, no producer, count unknown (-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record, compacted away or not.
    pub base_offset: Offset,
    /// Bytes of the whole batch, header included.
    pub total_len: usize,
    /// Epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// Format: 0, 1 or 2.
    pub magic: i8,
    /// Checksum as stored.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// Last offset minus base offset, as stored (may be nonsense from a client).
    pub last_offset_delta: i32,
    /// First record's timestamp, or the delete horizon.
    pub base_timestamp: Timestamp,
    /// Largest timestamp in the batch.
    pub max_timestamp: Timestamp,
    /// Producer, or none.
    pub producer_id: ProducerId,
    /// Incarnation of the producer, or -1.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Records in the batch as declared; -1 unknown (old formats).
    pub record_count: i32,
}

impl BatchHeader {
    /// Bytes to read from the front of a batch before [`Self::parse`] can
    /// succeed; `prefix` must be [`MAGIC_END`] bytes long or `Truncated` comes.
    pub fn header_len(prefix: &[u8]) -> Result<usize, BatchError> {
        let (_, magic) = length_and_magic(prefix)?;
        Ok(match magic {
            0 => LOG_OVERHEAD + 6,
            1 => LOG_OVERHEAD + 14,
            _ => HEADER_LEN,
        })
    }

    /// Reads a header; `bytes` may, but need not, hold the records too.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let (total_len, magic) = length_and_magic(bytes)?;
        if magic != MAGIC_V2 {
            return Self::parse_old(bytes, total_len, magic);
        }
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(BatchError::Truncated { needed: HEADER_LEN, available: bytes.len() });
        };
        Ok(Self {
            base_offset: Offset(i64_at(head, 0)),
            total_len,
            leader_epoch: LeaderEpoch(i32_at(head, 12)),
            magic,
            crc: u32_at(head, CRC_AT),
            attributes: Attributes(i16_at(head, 21)),
            last_offset_delta: i32_at(head, 23),
            base_timestamp: Timestamp(i64_at(head, 27)),
            max_timestamp: Timestamp(i64_at(head, 35)),
            producer_id: ProducerId(i64_at(head, 43)),
            producer_epoch: ProducerEpoch(i16_at(head, 51)),
            base_sequence: i32_at(head, 53),
            record_count: i32_at(head, 57),
        })
    }

    fn parse_old(bytes: &[u8], total_len: usize, magic: i8) -> Result<Self, BatchError> {
        let needed = Self::header_len(bytes)?;
        let Some(head) = bytes.get(..needed) else {
            return Err(BatchError::Truncated { needed, available: bytes.len() });
        };
        let attributes = i16::from(head.get(17).copied().unwrap_or(0));
        let timestamp = if magic == 1 { Timestamp(i64_at(head, 18)) } else { Timestamp::NONE };
        Ok(Self {
            base_offset: Offset(i64_at(head, 0)),
            total_len,
            leader_epoch: LeaderEpoch::NONE,
            magic,
            crc: u32_at(head, LOG_OVERHEAD),
            attributes: Attributes(attributes & (CODEC_MASK | APPEND_TIME_BIT)),
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch(-1),
            base_sequence: -1,
            record_count: -1,
        })
    }

    /// Writes the header of a v2 batch; [`Self::crc`] is written as it stands.
    pub fn write(&self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        let length = i32::try_from(self.total_len.saturating_sub(LOG_OVERHEAD)).unwrap_or(i32::MAX);
        put(&mut head, 0, &self.base_offset.0.to_be_bytes());
        put(&mut head, 8, &length.to_be_bytes());
        put(&mut head, 12, &self.leader_epoch.0.to_be_bytes());
        put(&mut head, 16, &self.magic.to_be_bytes());
        put(&mut head, CRC_AT, &self.crc.to_be_bytes());
        put(&mut head, 21, &self.attributes.0.to_be_bytes());
        put(&mut head, 23, &self.last_offset_delta.to_be_bytes());
        put(&mut head, 27, &self.base_timestamp.0.to_be_bytes());
        put(&mut head, 35, &self.max_timestamp.0.to_be_bytes());
        put(&mut head, 43, &self.producer_id.0.to_be_bytes());
        put(&mut head, 51, &self.producer_epoch.0.to_be_bytes());
        put(&mut head, 53, &self.base_sequence.to_be_bytes());
        put(&mut head, 57, &self.record_count.to_be_bytes());
        head
    }

    /// Writes the header with the checksum that fits it and the given records.
    pub fn write_with_crc(&self, records: &[u8]) -> [u8; HEADER_LEN] {
        let mut head = self.write();
        let covered = head.get(CRC_START..).unwrap_or_default();
        let mut crc = Crc32c::default();
        crc.update(covered);
        crc.update(records);
        put(&mut head, CRC_AT, &crc.finish().to_be_bytes());
        head
    }

    /// Offset of the last record, compacted away or not.
    pub fn last_offset(&self) -> Offset {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The offset after this batch.
    pub fn next_offset(&self) -> Offset {
        self.last_offset() + 1
    }

    /// True when a producer's state goes with the batch.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > ProducerId::NONE
    }

    /// Sequence of the last record; -1 when the batch carries none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        advance_sequence(self.base_sequence, self.last_offset_delta)
    }

    /// When tombstones and markers in it may go; `None` as long as no cleaner has
    /// met it (KIP-534).
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        let set = self.attributes.0 & DELETE_HORIZON_BIT != 0;
        (set && self.magic >= MAGIC_V2).then_some(self.base_timestamp)
    }

    /// Codec of the records, `None` for one that does not exist.
    pub fn codec(&self) -> Option<Codec> {
        self.attributes.codec()
    }
}

/// `sequence + count` where 2^31-1 is followed by 0. `sequence` and `count` are
/// not negative.
pub fn advance_sequence(sequence: i32, count: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(count);
    i32::try_from(sum & i64::from(i32::MAX)).unwrap_or(0)
}

/// One batch within a byte slice: its header, parsed, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// The batch at the front of `bytes`; more may follow. The CRC is not looked
    /// at: see [`Self::check_crc`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        match bytes.get(..header.total_len) {
            Some(bytes) => Ok(Self { header, bytes }),
            None => Err(BatchError::Truncated { needed: header.total_len, available: bytes.len() }),
        }
    }

    /// The numbers at its front.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows the header: records, compressed when there is a codec. Empty
    /// for the old formats.
    pub fn payload(&self) -> &'a [u8] {
        if self.header.magic == MAGIC_V2 {
            self.bytes.get(HEADER_LEN..).unwrap_or_default()
        } else {
            &[]
        }
    }

    /// Compares the stored checksum with the contents.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let computed = if self.header.magic == MAGIC_V2 {
            crc32c(self.bytes.get(CRC_START..).unwrap_or_default())
        } else {
            let mut crc = flate2::Crc::new();
            crc.update(self.bytes.get(LOG_OVERHEAD + 4..).unwrap_or_default());
            crc.sum()
        };
        if computed == self.header.crc {
            Ok(())
        } else {
            Err(BatchError::BadCrc { stored: self.header.crc, computed })
        }
    }

    /// The records of an uncompressed batch of magic 2.
    ///
    /// Compressed ones go through [`super::compression::decompress`] and
    /// [`Records::new`].
    pub fn records(&self) -> Result<Records<'a>, RecordError> {
        match (self.header.magic, self.header.codec()) {
            (MAGIC_V2, Some(Codec::None)) => Ok(Records::new(&self.header, self.payload())),
            (MAGIC_V2, _) => Err(RecordError::Compressed),
            _ => Err(RecordError::OldFormat),
        }
    }

    /// The first 16 bytes with the offset and epoch that the leader gives; what
    /// follows them, and the CRC, stay as they are.
    pub fn stamp(&self, base_offset: Offset, leader_epoch: LeaderEpoch) -> [u8; STAMP_LEN] {
        stamp(self.header.total_len, base_offset, leader_epoch)
    }

    /// The whole header with another timestamp type and largest timestamp, and
    /// the checksum that goes with them. For LogAppendTime readers then take the
    /// largest timestamp for every record.
    pub fn restamp_time(
        &self,
        timestamp_type: TimestampType,
        max_timestamp: Timestamp,
    ) -> [u8; HEADER_LEN] {
        let attributes = self.header.attributes.with_timestamp_type(timestamp_type);
        BatchHeader { attributes, max_timestamp, ..self.header }.write_with_crc(self.payload())
    }
}

/// The first 16 bytes of a batch of `total_len` bytes.
pub fn stamp(total_len: usize, base_offset: Offset, leader_epoch: LeaderEpoch) -> [u8; STAMP_LEN] {
    let mut head = [0; STAMP_LEN];
    let length = i32::try_from(total_len.saturating_sub(LOG_OVERHEAD)).unwrap_or(i32::MAX);
    put(&mut head, 0, &base_offset.0.to_be_bytes());
    put(&mut head, 8, &length.to_be_bytes());
    put(&mut head, 12, &leader_epoch.0.to_be_bytes());
    head
}

/// The batches of a buffer, front to back.
///
/// Ends after the last whole batch or after the first error. A cut-off batch at
/// the end is reported as [`BatchError::Truncated`].
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes, position: 0 }
}

/// See [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
    position: usize,
}

impl Batches<'_> {
    /// Bytes of the batches handed out so far.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let batch = BatchView::parse(self.rest);
        match &batch {
            Ok(batch) => {
                self.rest = self.rest.get(batch.bytes.len()..).unwrap_or_default();
                self.position += batch.bytes.len();
            }
            Err(_) => self.rest = &[],
        }
        Some(batch)
    }
}

fn length_and_magic(bytes: &[u8]) -> Result<(usize, i8), BatchError> {
    let Some(prefix) = bytes.first_chunk::<MAGIC_END>() else {
        return Err(BatchError::Truncated { needed: MAGIC_END, available: bytes.len() });
    };
    let length = i32_at(prefix, 8);
    let magic = i8::from_be_bytes([prefix.last().copied().unwrap_or_default()]);
    let least = match magic {
        0 | 1 => MIN_LENGTH_OLD.get(usize::from(magic == 1)).copied().unwrap_or_default(),
        MAGIC_V2 => HEADER_LEN - LOG_OVERHEAD,
        _ => MIN_LENGTH_OLD.first().copied().unwrap_or_default(),
    };
    match usize::try_from(length) {
        Ok(counted) if counted >= least => match magic {
            0..=MAGIC_V2 => Ok((counted + LOG_OVERHEAD, magic)),
            _ => Err(BatchError::UnknownMagic(magic)),
        },
        _ => Err(BatchError::BadLength(length)),
    }
}

/// `N` bytes from `at`; zeros where there are none (callers have checked).
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(array_at(bytes, at))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array_at(bytes, at))
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = into.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::batch_builder::{BatchBuilder, BatchOptions};
    use super::*;

    /// A batch of one record, by another implementation: compacted (last offset
    /// delta 3), at leader epoch 0.
    const GOLDEN: [u8; 79] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x43, 0, 0, 0, 0, 2, 0x73, 0x6d, 0x29, 0x7b, 0, 0, 0, 0,
        0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0x22, 1, 0xd0, 0x0f, 2, 0x0a, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x0a, 0x77,
        0x6f, 0x72, 0x6c, 0x64, 0,
    ];

    /// A message of magic 1: offset 7, timestamp 5, key null, value "hi".
    fn old_message() -> Vec<u8> {
        let mut body = vec![1, 0];
        body.extend_from_slice(&5i64.to_be_bytes());
        body.extend_from_slice(&(-1i32).to_be_bytes());
        body.extend_from_slice(&2i32.to_be_bytes());
        body.extend_from_slice(b"hi");
        let mut crc = flate2::Crc::new();
        crc.update(&body);
        let mut message = 7i64.to_be_bytes().to_vec();
        message.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
        message.extend_from_slice(&crc.sum().to_be_bytes());
        message.extend_from_slice(&body);
        message
    }

    fn small_batch(base_offset: i64) -> Vec<u8> {
        let base_offset = Offset(base_offset);
        let mut builder = BatchBuilder::new(BatchOptions { base_offset, ..Default::default() });
        builder.append(Timestamp(100), Some(b"k"), Some(b"v"));
        builder.append(Timestamp(90), None, None);
        builder.build().unwrap().to_vec()
    }

    #[test]
    fn golden_batch() {
        let batch = BatchView::parse(&GOLDEN).unwrap();
        batch.check_crc().unwrap();
        let header = batch.header();
        assert_eq!(header.last_offset(), Offset(3));
        assert_eq!((header.record_count, header.max_timestamp), (1, Timestamp(1 << 40)));
        assert_eq!(header.write(), GOLDEN[..HEADER_LEN]);
        let records = batch.records().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].key, Some(b"hello".as_slice()));
        assert_eq!(records[0].value, Some(b"world".as_slice()));
    }

    #[test]
    fn a_message_of_magic_1_is_walked_over() {
        let message = old_message();
        let batch = BatchView::parse(&message).unwrap();
        batch.check_crc().unwrap();
        let header = batch.header();
        assert_eq!((header.magic, header.last_offset()), (1, Offset(7)));
        assert_eq!((header.max_timestamp, header.total_len), (Timestamp(5), message.len()));
        assert!(matches!(batch.records(), Err(RecordError::OldFormat)));
        let mut damaged = message.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(BatchView::parse(&damaged).unwrap().check_crc().is_err());
    }

    #[test]
    fn what_is_no_batch() {
        let with = |at: usize, bytes: &[u8]| {
            let mut batch = GOLDEN.to_vec();
            batch[at..at + bytes.len()].copy_from_slice(bytes);
            batch
        };
        let length = |length: i32| with(8, &length.to_be_bytes());
        let truncated = |needed, available| BatchError::Truncated { needed, available };
        let cases = [
            (vec![], truncated(17, 0)),
            (GOLDEN[..16].to_vec(), truncated(17, 16)),
            (GOLDEN[..60].to_vec(), truncated(61, 60)),
            (GOLDEN[..78].to_vec(), truncated(79, 78)),
            (length(i32::MAX), truncated(i32::MAX as usize + 12, 79)),
            (length(-1), BatchError::BadLength(-1)),
            (length(0), BatchError::BadLength(0)),
            (length(48), BatchError::BadLength(48)),
            (with(16, &[3]), BatchError::UnknownMagic(3)),
            (with(16, &[0xff]), BatchError::UnknownMagic(-1)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(BatchView::parse(&bytes).unwrap_err(), expected);
        }
        let flipped = with(70, &[0]);
        let crc = BatchView::parse(&flipped).unwrap().check_crc();
        assert!(matches!(crc, Err(BatchError::BadCrc { stored: 0x736d_297b, .. })));
    }

    #[test]
    fn stamps_change_only_what_they_name() {
        let bytes = small_batch(0);
        let batch = BatchView::parse(&bytes).unwrap();
        let stamp = batch.stamp(Offset(1000), LeaderEpoch(9));
        let stamped = [&stamp[..], &bytes[STAMP_LEN..]].concat();
        let view = BatchView::parse(&stamped).unwrap();
        view.check_crc().unwrap();
        let expected = BatchHeader {
            base_offset: Offset(1000),
            leader_epoch: LeaderEpoch(9),
            ..*batch.header()
        };
        assert_eq!(*view.header(), expected);

        let head = batch.restamp_time(TimestampType::LogAppendTime, Timestamp(777));
        let restamped = [&head[..], &bytes[HEADER_LEN..]].concat();
        let view = BatchView::parse(&restamped).unwrap();
        view.check_crc().unwrap();
        assert_eq!(view.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
        let times = view.records().unwrap().map(|record| record.unwrap().timestamp);
        assert_eq!(times.collect::<Vec<_>>(), [Timestamp(777); 2]);
    }

    #[test]
    fn batches_end_at_a_torn_tail() {
        let whole = [small_batch(0), small_batch(2), small_batch(4)].concat();
        let cut = &whole[..whole.len() - 1];
        let mut walk = batches(cut);
        let ends = [Offset(1), Offset(3)];
        for end in ends {
            assert_eq!(walk.next().unwrap().unwrap().header().last_offset(), end);
        }
        assert_eq!(walk.position(), whole.len() / 3 * 2);
        assert!(matches!(walk.next(), Some(Err(BatchError::Truncated { .. }))));
        assert!(walk.next().is_none());
        assert_eq!(batches(&whole).filter(Result::is_ok).count(), 3);
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let cases =
            [(0, 0, 0), (5, 4, 9), (i32::MAX, 0, i32::MAX), (i32::MAX, 1, 0), (i32::MAX - 1, 9, 7)];
        for (sequence, count, expected) in cases {
            assert_eq!(advance_sequence(sequence, count), expected);
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes: Vec<u8>, magic in 0u8..4, length in 0u8..120) {
            if bytes.len() >= MAGIC_END {
                bytes[8..11].fill(0);
                bytes[11] = length;
                bytes[16] = magic;
            }
            for batch in batches(&bytes).flatten() {
                let _ = batch.check_crc();
                for record in batch.records().into_iter().flatten().flatten() {
                    prop_assert!(record.headers.iter().count() <= bytes.len());
                }
            }
        }

        #[test]
        fn headers_are_written_as_read(bytes: [u8; HEADER_LEN], length in 49i32..) {
            let mut bytes = bytes;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[16] = 2;
            let header = BatchHeader::parse(&bytes).unwrap();
            prop_assert_eq!(header.write(), bytes);
        }
    }
}
