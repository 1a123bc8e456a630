//! The settings of one log, as plain numbers. `[P]`
//!
//! Topic-level settings under Kafka's names, with Kafka's defaults. Whoever
//! knows topics and brokers builds it from keys and values; a log gets a new one
//! whenever they change.

use super::batch::TimestampType;
use super::compression::CompressionType;

/// What becomes of old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Whole segments go by age and size.
    pub delete: bool,
    /// Of each key only the newest record is kept.
    pub compact: bool,
}

/// Settings of one log. Sizes in bytes, times in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`
    pub segment_bytes: u64,
    /// `segment.ms`
    pub segment_ms: i64,
    /// `segment.jitter.ms`: up to this much sooner, so that not all roll at once.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`
    pub segment_index_bytes: u64,
    /// `index.interval.bytes`
    pub index_interval_bytes: u64,
    /// `flush.messages`: records after which an append syncs.
    pub flush_messages: i64,
    /// `flush.ms`
    pub flush_ms: i64,
    /// `retention.bytes`; negative: no limit.
    pub retention_bytes: i64,
    /// `retention.ms`; negative: no limit.
    pub retention_ms: i64,
    /// `max.message.bytes`: of a batch, as stored.
    pub max_message_bytes: usize,
    /// `file.delete.delay.ms`
    pub file_delete_delay_ms: i64,
    /// `delete.retention.ms`: how long compaction keeps tombstones.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`
    pub max_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`
    pub min_cleanable_dirty_ratio: f64,
    /// `cleanup.policy`
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type` with the level for its codec.
    pub compression_type: CompressionType,
    /// `ottla.compressed.records.check.enable`: compressed batches are unfolded and
    /// each record is looked at, as Kafka does.
    pub check_compressed_records: bool,
    /// `preallocate`: accepted; files grow as they are written.
    pub preallocate: bool,
    /// `message.timestamp.type`
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub message_timestamp_after_max_ms: i64,
    /// `min.insync.replicas`
    pub min_insync_replicas: i32,
    /// `unclean.leader.election.enable`
    pub unclean_leader_election_enable: bool,
}

const HOUR_MS: i64 = 60 * 60 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;

impl LogConfig {
    /// When a segment rolls by age: of a compacted log also in time for
    /// `max.compaction.lag.ms`, since the active segment is never cleaned.
    pub fn roll_ms(&self) -> i64 {
        if self.cleanup_policy.compact && self.max_compaction_lag_ms > 0 {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            retention_bytes: -1,
            retention_ms: 7 * DAY_MS,
            max_message_bytes: (1 << 20) + 12,
            file_delete_delay_ms: 60_000,
            delete_retention_ms: DAY_MS,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            cleanup_policy: CleanupPolicy { delete: true, compact: false },
            compression_type: CompressionType::Producer,
            check_compressed_records: false,
            preallocate: false,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: HOUR_MS,
            min_insync_replicas: 1,
            unclean_leader_election_enable: false,
        }
    }
}
