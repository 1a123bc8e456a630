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
        let headers = record.headers.iter().collect::<Vec<_>>();
        self.append_with_headers(record.timestamp, record.key, record.value, headers.into_iter());
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

    /// True before the first record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
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
