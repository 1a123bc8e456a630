//! Writes batches: what coordinators, the metadata log, compaction and
//! recompression put on disk. `[P]`

use bytes::Bytes;

use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::batch::{Attributes, BatchHeader, HEADER_LEN, MAGIC_V2, TimestampType};
use super::compression::{Compression, CompressionError, compress};
use super::record::{Record, write_record};

/// What a batch says of all its records.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Epoch of the leader that appends it.
    pub leader_epoch: LeaderEpoch,
    /// What the records are compressed with.
    pub compression: Compression,
    /// The leader's clock, when that is what readers shall see.
    pub log_append_time: Option<Timestamp>,
    /// Producer, or none.
    pub producer_id: ProducerId,
    /// Incarnation of the producer, or -1.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// Holds control records.
    pub control: bool,
}

impl Default for BatchOptions {
    /// An uncompressed batch at offset 0 without epoch or producer.
    fn default() -> Self {
        Self {
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            compression: Compression::NONE,
            log_append_time: None,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch(-1),
            base_sequence: -1,
            transactional: false,
            control: false,
        }
    }
}

/// Collects records into one batch.
///
/// The first record's timestamp becomes the base timestamp.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    records: Vec<u8>,
    count: i32,
    last_offset_delta: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
}

impl BatchBuilder {
    /// An empty batch.
    pub fn new(options: BatchOptions) -> Self {
        Self {
            options,
            records: Vec::new(),
            count: 0,
            last_offset_delta: -1,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
        }
    }

    /// Adds a record without headers at the next offset.
    pub fn append(&mut self, timestamp: Timestamp, key: Option<&[u8]>, value: Option<&[u8]>) {
        let delta = self.last_offset_delta.saturating_add(1);
        self.append_at(delta, timestamp, key, value, std::iter::empty());
    }

    /// Adds a record with headers at the next offset.
    pub fn append_with_headers<'h>(
        &mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    ) {
        let delta = self.last_offset_delta.saturating_add(1);
        self.append_at(delta, timestamp, key, value, headers);
    }

    /// Adds a copy of a record at the next offset.
    pub fn append_record(&mut self, record: &Record<'_>) {
        let headers = record.headers.iter();
        self.append_with_headers(record.timestamp, record.key, record.value, headers);
    }

    /// Adds a record at `offset_delta` from the base offset, which must be above
    /// that of the record before: compaction leaves holes.
    pub fn append_at<'h>(
        &mut self,
        offset_delta: i32,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    ) {
        debug_assert!(offset_delta > self.last_offset_delta, "offsets must grow");
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        let timestamp_delta = timestamp.0.wrapping_sub(self.base_timestamp.0);
        write_record(&mut self.records, offset_delta, timestamp_delta, key, value, headers);
        self.count += 1;
        self.last_offset_delta = offset_delta;
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    /// Records so far.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Bytes of the batch if nothing is added and nothing compressed.
    pub fn plain_len(&self) -> usize {
        HEADER_LEN + self.records.len()
    }

    /// Largest timestamp so far, -1 for none.
    pub fn max_timestamp(&self) -> Timestamp {
        self.options.log_append_time.unwrap_or(self.max_timestamp)
    }

    /// The batch's bytes, checksum included. An empty one is a bare header.
    pub fn build(self) -> Result<Bytes, CompressionError> {
        let options = &self.options;
        let codec = options.compression.codec;
        let payload = match codec {
            super::compression::Codec::None => self.records,
            _ => compress(options.compression, &self.records)?,
        };
        let kind = match options.log_append_time {
            Some(_) => TimestampType::LogAppendTime,
            None => TimestampType::CreateTime,
        };
        let header = BatchHeader {
            base_offset: options.base_offset,
            total_len: HEADER_LEN + payload.len(),
            leader_epoch: options.leader_epoch,
            magic: MAGIC_V2,
            crc: 0,
            attributes: Attributes::new(codec, kind, options.transactional, options.control),
            last_offset_delta: self.last_offset_delta.max(0),
            base_timestamp: self.base_timestamp,
            max_timestamp: options.log_append_time.unwrap_or(self.max_timestamp),
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.count,
        };
        let mut out = Vec::with_capacity(header.total_len);
        out.extend_from_slice(&header.write_with_crc(&payload));
        out.extend_from_slice(&payload);
        Ok(Bytes::from(out))
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::BatchView;
    use super::super::compression::{Codec, decompress};
    use super::super::record::Records;
    use super::*;

    /// Kafka 4.4.0's own builder wrote these, all from the same three records.
    const GOLDEN: [(Codec, &str); 5] = [
        (
            Codec::None,
            concat!(
                "00000000000000640000007b0000000902b0f3cd0400100000000200000000000003e8000000",
                "00000003f2000000000000004d0003000000050000000366000000066b65794676616c756520",
                "76616c75652076616c75652076616c75652076616c75652076616c7565040268027802680118",
                "001302010c7365636f6e640010001404046b330100",
            ),
        ),
        (
            Codec::Gzip,
            concat!(
                "00000000000000640000007400000009021af31cdb00110000000200000000000003e8000000",
                "00000003f2000000000000004d000300000005000000031f8b08000000000000ff4b63606060",
                "cb4ead742b4bcc294d55c04bb2306530553065304a30083331f214a726e7e7a530083088b0b0",
                "641b33320000c7b6fa544a000000",
            ),
        ),
        (
            Codec::Snappy,
            concat!(
                "0000000000000064000000780000000902568e634300120000000200000000000003e8000000",
                "00000003f2000000000000004d0003000000050000000382534e415050590000000001000000",
                "01000000334a3866000000066b65794676616c75652072060074040268027802680118001302",
                "010c7365636f6e640010001404046b330100",
            ),
        ),
        (
            Codec::Lz4,
            concat!(
                "0000000000000064000000740000000902ffb7b78500130000000200000000000003e8000000",
                "00000003f2000000000000004d0003000000050000000304224d1860408234000000ff006600",
                "0000066b65794676616c75652006000af00f040268027802680118001302010c7365636f6e64",
                "0010001404046b33010000000000",
            ),
        ),
        (
            Codec::Zstd,
            concat!(
                "00000000000000640000007100000009023ee1d70600140000000200000000000003e8000000",
                "00000003f2000000000000004d0003000000050000000328b52ffd0058a40100d40266000000",
                "066b65794676616c756520040268027802680118001302010c7365636f6e640010001404046b",
                "3301000100b94b1d010000",
            ),
        ),
    ];

    fn from_hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn build(codec: Codec) -> Bytes {
        let mut builder = BatchBuilder::new(BatchOptions {
            base_offset: Offset(100),
            leader_epoch: LeaderEpoch(9),
            compression: Compression::of(codec),
            producer_id: ProducerId(77),
            producer_epoch: ProducerEpoch(3),
            base_sequence: 5,
            transactional: true,
            ..BatchOptions::default()
        });
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"x")), (b"h", None)];
        let value = "value ".repeat(6);
        let value = value.trim_end().as_bytes();
        builder.append_with_headers(
            Timestamp(1000),
            Some(b"key"),
            Some(value),
            headers.into_iter(),
        );
        builder.append(Timestamp(990), None, Some(b"second"));
        builder.append(Timestamp(1010), Some(b"k3"), None);
        builder.build().unwrap()
    }

    #[test]
    fn kafkas_batches_are_read_and_ours_are_like_them() {
        let plain = from_hex(GOLDEN[0].1);
        assert_eq!(build(Codec::None), plain);
        for (codec, golden) in GOLDEN {
            let golden = from_hex(golden);
            let theirs = BatchView::parse(&golden).unwrap();
            theirs.check_crc().unwrap();
            assert_eq!(theirs.header().codec(), Some(codec));
            let unfolded = decompress(codec, theirs.payload(), 200).unwrap();
            assert_eq!(unfolded, plain[HEADER_LEN..], "{codec:?}");

            let built = build(codec);
            let ours = BatchView::parse(&built).unwrap();
            ours.check_crc().unwrap();
            let (total_len, crc) = (ours.header().total_len, ours.header().crc);
            assert_eq!(*ours.header(), BatchHeader { total_len, crc, ..*theirs.header() });
            assert_eq!(decompress(codec, ours.payload(), 200).unwrap(), unfolded, "{codec:?}");
        }
    }

    #[test]
    fn append_time_is_the_leaders() {
        let options = BatchOptions { log_append_time: Some(Timestamp(5)), ..Default::default() };
        let mut builder = BatchBuilder::new(options);
        builder.append(Timestamp(1000), None, None);
        assert_eq!((builder.max_timestamp(), builder.count()), (Timestamp(5), 1));
        assert_eq!(builder.plain_len(), builder.clone().build().unwrap().len());
        let bytes = builder.build().unwrap();
        let batch = BatchView::parse(&bytes).unwrap();
        let record = batch.records().unwrap().next().unwrap().unwrap();
        assert_eq!((batch.header().max_timestamp, record.timestamp), (Timestamp(5), Timestamp(5)));
    }

    #[test]
    fn holes_and_emptiness_as_compaction_leaves_them() {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        builder.append_at(3, Timestamp(1), None, None, std::iter::empty());
        builder.append_at(7, Timestamp(1), None, None, std::iter::empty());
        let bytes = builder.build().unwrap();
        let batch = BatchView::parse(&bytes).unwrap();
        assert_eq!((batch.header().record_count, batch.header().last_offset()), (2, Offset(7)));
        let records = Records::new(batch.header(), batch.payload());
        let offsets = records.map(|record| record.unwrap().offset.0).collect::<Vec<_>>();
        assert_eq!(offsets, [3, 7]);
        let empty = BatchBuilder::new(BatchOptions::default()).build().unwrap();
        assert_eq!(empty.len(), HEADER_LEN);
        let batch = BatchView::parse(&empty).unwrap();
        batch.check_crc().unwrap();
        assert_eq!(batch.records().unwrap().count(), 0);
    }
}
