//! Which records of a batch stay, and what becomes of the batch. `[P]`
//!
//! A record stays when it is its key's last one, or beyond what the map has seen.
//! A tombstone stays until the delete horizon of its batch: the batch gets that
//! when it first meets the cleaner, in place of its base timestamp (KIP-534).
//! The last batch of each producer stays at least as a header, so that its
//! sequence is not forgotten.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::borrow::Cow;
use std::collections::HashMap;

use super::offset_map::OffsetMap;
use super::transactions::CleanedTransactions;
use crate::log::batch::{Attributes, BatchHeader, BatchView, HEADER_LEN, MAGIC_V2, TimestampType};
use crate::log::compression::{Codec, Compression, compress, stored_records};
use crate::log::control::ControlType;
use crate::log::record::{Record, Records, write_record};
use crate::log::txn_index::AbortedTransaction;
use crate::types::{Offset, ProducerEpoch, ProducerId, Timestamp};

/// The last that a producer has written, as far as the log remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastOfProducer {
    /// Offset of its last record; `None` when only a marker of it is known.
    pub offset: Option<Offset>,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// What a batch becomes.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing stays.
    Gone,
    /// It stays as it is.
    Whole,
    /// These bytes take its place.
    Changed(BatchHeader, Vec<u8>),
}

/// What goes through the cleaner's hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// Records seen.
    pub read: u64,
    /// Records that stay.
    pub kept: u64,
    /// Records without key, which do not belong into a compacted log.
    pub keyless: u64,
}

/// Decides over the batches of a log, from its first one on.
#[derive(Debug)]
pub struct Filter<'m> {
    /// Last offsets by key.
    pub map: &'m OffsetMap,
    /// The log's transactions.
    pub transactions: CleanedTransactions,
    /// Active producers.
    pub producers: &'m HashMap<ProducerId, LastOfProducer>,
    /// A batch that ends here stays: what comes next is known by it.
    pub high_watermark: Offset,
    /// Of this run.
    pub now: Timestamp,
    /// `delete.retention.ms`
    pub delete_retention_ms: i64,
    /// So far.
    pub counts: FilterCounts,
}

impl Filter<'_> {
    /// What the next batch becomes. When it holds an abort marker that stays, its
    /// transaction belongs into the index of the segment.
    ///
    /// # Errors
    /// The batch cannot be read.
    pub fn judge(
        &mut self,
        batch: &BatchView<'_>,
    ) -> Result<(Fate, Option<AbortedTransaction>), String> {
        let header = batch.header();
        if header.magic != MAGIC_V2 {
            // Not opened here, and so not in the map.
            return Ok((Fate::Whole, None));
        }
        if header.attributes.is_control() {
            let marker = self.transactions.on_control(header, kind_of(batch));
            let due = header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
            let fate = self.filter(batch, marker.is_last_trace && due, marker.is_last_trace)?;
            return Ok((fate, marker.aborts));
        }
        let aborted = self.transactions.on_records(header);
        Ok((self.filter(batch, aborted, false)?, None))
    }

    /// `discard`: no record of it stays. `last_trace`: it is a marker that goes once
    /// its horizon has passed.
    fn filter(
        &mut self,
        batch: &BatchView<'_>,
        discard: bool,
        last_trace: bool,
    ) -> Result<Fate, String> {
        let header = batch.header();
        if discard {
            self.counts.read += u64::try_from(header.record_count).unwrap_or(0);
            return Ok(self.without_records(header));
        }
        let plain = stored_records(batch)?;
        // One bit of news for each record: a small batch may unfold to very many.
        let mut stays = Vec::new();
        let (mut kept, mut tombstones) = (0, false);
        for record in Records::new(header, &plain) {
            let record = record.map_err(|error| error.to_string())?;
            let retained = header.attributes.is_control() || self.retains(header, &record);
            stays.push(retained);
            kept += usize::from(retained);
            tombstones |= retained && record.value.is_none();
        }
        self.counts.read += stays.len() as u64;
        self.counts.kept += kept as u64;
        if kept == 0 {
            return Ok(self.without_records(header));
        }
        let sets_horizon = (tombstones || last_trace) && header.delete_horizon().is_none();
        if kept == stays.len() && !sets_horizon {
            return Ok(Fate::Whole);
        }
        let new_horizon = || Timestamp(self.now.0.saturating_add(self.delete_retention_ms));
        let horizon = header.delete_horizon().or_else(|| sets_horizon.then(new_horizon));
        let records = Records::new(header, &plain).zip(&stays);
        let records = records.filter_map(|(record, stays)| record.ok().filter(|_| *stays));
        rebuild(header, records, horizon)
    }

    fn retains(&mut self, header: &BatchHeader, record: &Record<'_>) -> bool {
        if record.offset > self.map.latest() {
            return true;
        }
        let Some(key) = record.key else {
            self.counts.keyless += 1;
            return false;
        };
        let is_last = record.offset >= self.map.get(key);
        let keeps_tombstones = header.delete_horizon().is_none_or(|horizon| self.now < horizon);
        is_last && (record.value.is_some() || keeps_tombstones)
    }

    /// A batch without records: it goes, unless something hangs on its header.
    fn without_records(&self, header: &BatchHeader) -> Fate {
        let last = self.producers.get(&header.producer_id).filter(|_| header.has_producer_id());
        let is_last = last.is_some_and(|last| match last.offset {
            Some(offset) => header.last_offset() == offset,
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        });
        if !is_last && header.next_offset() != self.high_watermark {
            return Fate::Gone;
        }
        if header.record_count == 0 && header.total_len == HEADER_LEN {
            return Fate::Whole;
        }
        let old = header.attributes;
        let attributes = Attributes::new(
            Codec::None,
            old.timestamp_type(),
            old.is_transactional(),
            old.is_control(),
        );
        let header = BatchHeader {
            total_len: HEADER_LEN,
            attributes,
            base_timestamp: Timestamp::NONE,
            record_count: 0,
            ..*header
        };
        Fate::Changed(header, header.write_with_crc(&[]).to_vec())
    }
}

/// What a control batch is about; `None` when its record is gone.
pub(super) fn kind_of(batch: &BatchView<'_>) -> Option<ControlType> {
    let record = batch.records().ok()?.next()?.ok()?;
    ControlType::from_key(record.key?)
}

/// The batch with only these records, under its own codec.
fn rebuild<'r>(
    header: &BatchHeader,
    records: impl Iterator<Item = Record<'r>>,
    horizon: Option<Timestamp>,
) -> Result<Fate, String> {
    let mut records = records.peekable();
    let first = records.peek().map_or(Timestamp::NONE, |record| record.timestamp);
    let base_timestamp = horizon.unwrap_or(first);
    let (mut plain, mut record_count, mut largest) = (Vec::new(), 0_i32, None);
    for record in records {
        record_count = record_count.saturating_add(1);
        largest = largest.max(Some(record.timestamp));
        let delta = record.timestamp.0.wrapping_sub(base_timestamp.0);
        let headers = record.headers.iter();
        write_record(&mut plain, record.offset_delta, delta, record.key, record.value, headers);
    }
    let payload = match header.codec() {
        None => return Err("unknown codec".to_owned()),
        Some(Codec::None) => Cow::Borrowed(&plain),
        Some(codec) => {
            Cow::Owned(compress(Compression::of(codec), &plain).map_err(|error| error.to_string())?)
        }
    };
    let max_timestamp = match header.attributes.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => largest.unwrap_or(Timestamp::NONE),
    };
    let header = BatchHeader {
        total_len: HEADER_LEN + payload.len(),
        attributes: header.attributes.with_delete_horizon(horizon.is_some()),
        base_timestamp,
        max_timestamp,
        record_count,
        ..*header
    };
    let mut bytes = Vec::with_capacity(header.total_len);
    bytes.extend_from_slice(&header.write_with_crc(&payload));
    bytes.extend_from_slice(&payload);
    // As it stands in the bytes, checksum included.
    let header = BatchHeader::parse(&bytes).map_err(|error| error.to_string())?;
    Ok(Fate::Changed(header, bytes))
}
