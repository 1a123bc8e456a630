//! What the leader is going to write: batches as they came, with new fronts, or
//! batches written anew; and why it refuses. `[P]`

use bytes::Bytes;

use crate::types::{LeaderEpoch, Offset, Timestamp};

use super::batch::{
    BatchError, BatchHeader, BatchView, HEADER_LEN, STAMP_LEN, TimestampType, stamp,
};
use super::compression::CompressionError;
use super::control::EndTransactionMarker;
use super::record::RecordError;

/// Who appends; it decides how much is checked (Kafka's AppendOrigin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer: everything is checked.
    Client,
    /// The group or transaction coordinator of this broker: no sequences.
    Coordinator,
    /// The leader of the metadata quorum: offsets and epoch are set already.
    RaftLeader,
    /// A follower that fetched: its leader has checked.
    Replication,
}

/// A batch's numbers, and its transaction marker when it holds one: what the
/// state beside the log is updated with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFacts {
    /// As stored.
    pub header: BatchHeader,
    /// The end of a transaction, and its record's timestamp.
    pub marker: Option<(EndTransactionMarker, Timestamp)>,
}

impl BatchFacts {
    /// Of a batch in memory.
    pub fn of(batch: &BatchView<'_>) -> Self {
        Self { header: *batch.header(), marker: EndTransactionMarker::from_batch(batch) }
    }
}

/// One batch to be written: a front of its own, then bytes that are shared with
/// whoever sent them.
#[derive(Clone, Debug)]
pub struct PlannedBatch {
    facts: BatchFacts,
    front: [u8; HEADER_LEN],
    front_len: usize,
    rest: Bytes,
}

impl PlannedBatch {
    /// A batch that keeps its contents; only offset and epoch will be set.
    pub(super) fn kept(facts: BatchFacts, whole: &Bytes) -> Self {
        let mut front = [0; HEADER_LEN];
        let stamped =
            stamp(facts.header.total_len, facts.header.base_offset, facts.header.leader_epoch);
        front[..STAMP_LEN].copy_from_slice(&stamped);
        Self { facts, front, front_len: STAMP_LEN, rest: whole.slice(STAMP_LEN..) }
    }

    /// A batch whose timestamps the leader overrides: its header, with the new
    /// checksum, is replaced as a whole.
    pub(super) fn restamped(
        batch: &BatchView<'_>,
        whole: &Bytes,
        timestamp_type: TimestampType,
        max_timestamp: Timestamp,
    ) -> Self {
        let front = batch.restamp_time(timestamp_type, max_timestamp);
        let mut facts = BatchFacts::of(batch);
        // The front is a whole header and parses; the old one stands for the rest.
        facts.header = BatchHeader::parse(&front).unwrap_or(facts.header);
        Self { facts, front, front_len: HEADER_LEN, rest: whole.slice(HEADER_LEN..) }
    }

    /// Its numbers and marker.
    pub fn facts(&self) -> &BatchFacts {
        &self.facts
    }

    /// Its numbers.
    pub fn header(&self) -> &BatchHeader {
        &self.facts.header
    }

    /// The bytes that come first.
    pub fn front(&self) -> &[u8] {
        self.front.get(..self.front_len).unwrap_or(&self.front)
    }

    /// The bytes that follow the front.
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }

    /// Sets offset and epoch.
    pub fn stamp(&mut self, base_offset: Offset, leader_epoch: LeaderEpoch) {
        self.facts.header.base_offset = base_offset;
        self.facts.header.leader_epoch = leader_epoch;
        let stamped = stamp(self.facts.header.total_len, base_offset, leader_epoch);
        self.front[..STAMP_LEN].copy_from_slice(&stamped);
    }

    /// Front and rest in one piece; copies.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from([self.front(), &self.rest].concat())
    }
}

/// Batches that have been checked and wait for their offsets.
///
/// Checking needs no lock; only [`Self::stamp`] and the writing do.
#[derive(Clone, Debug)]
pub struct AppendPlan {
    /// The batches in order.
    pub batches: Vec<PlannedBatch>,
    /// Offsets that they take.
    pub offset_count: i64,
    /// Largest timestamp of all records, -1 for none.
    pub max_timestamp: Timestamp,
    /// The leader's clock, when the topic uses it instead of the producers'.
    pub log_append_time: Option<Timestamp>,
}

impl AppendPlan {
    /// Gives the batches their offsets from `first` on.
    pub fn stamp(&mut self, first: Offset, leader_epoch: LeaderEpoch) {
        let mut next = first;
        for batch in &mut self.batches {
            batch.stamp(next, leader_epoch);
            next = batch.header().next_offset();
        }
    }

    /// Bytes that will be written.
    pub fn total_len(&self) -> usize {
        self.batches.iter().map(|batch| batch.header().total_len).sum()
    }

    /// The last offset of the first batch that holds the largest timestamp: what
    /// goes into the time index. `None` without batches.
    pub fn offset_of_max_timestamp(&self) -> Option<Offset> {
        let mut batches = self.batches.iter().map(PlannedBatch::header);
        batches
            .find(|header| header.max_timestamp >= self.max_timestamp)
            .map(BatchHeader::last_offset)
    }

    /// What is to be written, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.batches.iter().flat_map(|batch| [batch.front(), &batch.rest[..]])
    }
}

/// Batches that carry their offsets: from the leader, or of the metadata log.
#[derive(Clone, Debug)]
pub struct GivenBatches {
    /// Numbers and markers, in order; at least one.
    pub facts: Vec<BatchFacts>,
    /// The batches; a cut-off one at the end, and those of a later leader epoch,
    /// are left out.
    pub bytes: Bytes,
    /// Largest timestamp, -1 for none.
    pub max_timestamp: Timestamp,
}

impl GivenBatches {
    /// Offset of the first record. Of old formats, which do not say, the last
    /// offset of the first batch.
    pub fn first_offset(&self) -> Offset {
        self.facts.first().map_or(Offset::NONE, |facts| facts.header.base_offset)
    }

    /// Offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.facts.last().map_or(Offset::NONE, |facts| facts.header.last_offset())
    }
}

/// Something wrong with one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordProblem {
    /// Which record of its batch, from 0.
    pub batch_index: i32,
    /// What it is.
    pub kind: RecordProblemKind,
}

/// What can be wrong with a record that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordProblemKind {
    /// A null key where the topic is compacted.
    #[error("a compacted topic needs a key in every record")]
    MissingKey,
    /// Further from the leader's clock than the topic allows.
    #[error("timestamp {timestamp} is not within [{earliest}, {latest}]")]
    TimestampOutOfRange {
        /// The record's.
        timestamp: Timestamp,
        /// The smallest that is allowed now.
        earliest: Timestamp,
        /// The largest that is allowed now.
        latest: Timestamp,
    },
    /// Only the leader may say that a timestamp is its own.
    #[error("a producer may not set the timestamp type to LogAppendTime")]
    AppendTimeFromProducer,
}

/// What is wrong with a batch as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchProblem {
    /// None is there.
    #[error("no record batch")]
    Missing,
    /// Several where one may be.
    #[error("more than one record batch")]
    TooMany,
    /// Older than 2.
    #[error("record batches of magic {0} are not accepted")]
    Magic(i8),
    /// A producer's batch must begin at 0; the leader numbers it.
    #[error("base offset is {0}, not 0")]
    BaseOffset(Offset),
    /// Last offset delta and number of records do not fit.
    #[error("{record_count} records and last offset delta {last_offset_delta} do not fit")]
    Count {
        /// As declared.
        record_count: i32,
        /// As declared.
        last_offset_delta: i32,
    },
    /// Control records are the brokers' own.
    #[error("clients may not write control records")]
    Control,
    /// A producer id without a sequence.
    #[error("sequence {0} goes with no producer id")]
    Sequence(i32),
    /// Records are not numbered 0, 1, 2, …
    #[error("record {batch_index} has offset delta {offset_delta}")]
    OffsetDelta {
        /// Which record, from 0.
        batch_index: i32,
        /// What it has.
        offset_delta: i32,
    },
    /// Not of the epoch that its appender leads.
    #[error("batch is of leader epoch {0}")]
    LeaderEpoch(LeaderEpoch),
}

/// Kafka's error code for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// CORRUPT_MESSAGE
    CorruptMessage,
    /// MESSAGE_TOO_LARGE
    MessageTooLarge,
    /// INVALID_TIMESTAMP
    InvalidTimestamp,
    /// UNSUPPORTED_COMPRESSION_TYPE
    UnsupportedCompressionType,
    /// INVALID_RECORD
    InvalidRecord,
    /// UNKNOWN_SERVER_ERROR: offsets that a broker must never send.
    Unexpected,
}

/// Why records are not appended.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// Bytes are damaged.
    #[error("corrupt batch: {0}")]
    Corrupt(#[from] BatchError),
    /// The batch, as it came or as it would be stored, is over the limit.
    #[error("batch of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// `max.message.bytes`.
        limit: usize,
    },
    /// A codec that does not exist, or that the request's version has not.
    #[error("compression type is not supported here")]
    UnsupportedCodec,
    /// The batch as a whole is not acceptable.
    #[error(transparent)]
    Batch(#[from] BatchProblem),
    /// The records are not in their form.
    #[error("unreadable records: {0}")]
    Records(#[from] RecordError),
    /// The records cannot be unfolded, or not written again.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// Single records are not acceptable; all of the batch is refused.
    #[error("{} records of the batch are refused", .0.len())]
    Refused(Vec<RecordProblem>),
    /// Offsets do not grow from batch to batch.
    #[error("offset {next} follows offset {last}")]
    OffsetsOutOfOrder {
        /// Last offset of a batch.
        last: Offset,
        /// Last offset of the batch after it.
        next: Offset,
    },
}

impl ValidateError {
    /// What the client is told.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Corrupt(_) => ErrorKind::CorruptMessage,
            Self::TooLarge { .. } | Self::Compression(CompressionError::TooLarge { .. }) => {
                ErrorKind::MessageTooLarge
            }
            Self::UnsupportedCodec => ErrorKind::UnsupportedCompressionType,
            Self::Refused(problems) if problems.iter().any(|p| p.kind.is_about_time()) => {
                ErrorKind::InvalidTimestamp
            }
            Self::Batch(_) | Self::Records(_) | Self::Compression(_) | Self::Refused(_) => {
                ErrorKind::InvalidRecord
            }
            Self::OffsetsOutOfOrder { .. } => ErrorKind::Unexpected,
        }
    }

    /// The offending records, for RecordErrors of Produce v8 and later.
    pub fn record_problems(&self) -> &[RecordProblem] {
        match self {
            Self::Refused(problems) => problems,
            _ => &[],
        }
    }
}

impl RecordProblemKind {
    fn is_about_time(self) -> bool {
        !matches!(self, Self::MissingKey)
    }
}
