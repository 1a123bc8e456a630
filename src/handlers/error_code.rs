//! Which code a client gets for an error of the layers below. `[P]`
//!
//! Each mapping is one `match` without a default: a new kind of error does not
//! compile until it has a code.

use crate::log::append_plan::{ErrorKind, ValidateError};
use crate::log::producers::ProducerError;
use crate::log::{AppendError, LogError};
use crate::partition::moves::AlterDirError;
use crate::partition::{CommitError, PartitionError};
use crate::protocol::ErrorCode;

/// Of what a partition cannot do.
pub fn partition_error(error: &PartitionError) -> ErrorCode {
    match error {
        PartitionError::NotLeaderOrFollower => ErrorCode::NotLeaderOrFollower,
        PartitionError::Gone => ErrorCode::UnknownTopicOrPartition,
        PartitionError::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        PartitionError::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
        PartitionError::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
        PartitionError::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
        PartitionError::PolicyViolation => ErrorCode::PolicyViolation,
        PartitionError::Append(error) => append_error(error),
        PartitionError::Log(error) => log_error(error),
    }
}

/// Of an append that a log refuses.
pub fn append_error(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Invalid(error) => validate_error(error),
        AppendError::Producer(error) => producer_error(error),
        AppendError::TooLargeForSegment { .. } => ErrorCode::RecordListTooLarge,
        AppendError::UnexpectedOffset { .. } => ErrorCode::UnknownServerError,
        AppendError::Log(error) => log_error(error),
    }
}

/// Of a batch that is not acceptable.
pub fn validate_error(error: &ValidateError) -> ErrorCode {
    match error.kind() {
        ErrorKind::CorruptMessage => ErrorCode::CorruptMessage,
        ErrorKind::MessageTooLarge => ErrorCode::MessageTooLarge,
        ErrorKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
        ErrorKind::UnsupportedCompressionType => ErrorCode::UnsupportedCompressionType,
        ErrorKind::InvalidRecord => ErrorCode::InvalidRecord,
        ErrorKind::Unexpected => ErrorCode::UnknownServerError,
    }
}

/// Of a batch that does not fit what its producer sent before.
pub fn producer_error(error: &ProducerError) -> ErrorCode {
    match error {
        ProducerError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ProducerError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
        ProducerError::TransactionCoordinatorFenced { .. } => {
            ErrorCode::TransactionCoordinatorFenced
        }
    }
}

/// Of a log that cannot be read or written.
pub fn log_error(error: &LogError) -> ErrorCode {
    match error {
        LogError::Storage { .. } | LogError::Offline { .. } => ErrorCode::KafkaStorageError,
        LogError::Corrupt { .. } => ErrorCode::CorruptMessage,
        LogError::InconsistentTopicId { .. } => ErrorCode::InconsistentTopicId,
    }
}

/// Of a replica that is not moved to another log directory.
pub fn alter_dir_error(error: &AlterDirError) -> ErrorCode {
    match error {
        AlterDirError::NameTooLong => ErrorCode::InvalidTopicException,
        AlterDirError::UnknownDirectory => ErrorCode::LogDirNotFound,
        AlterDirError::Offline => ErrorCode::KafkaStorageError,
        AlterDirError::Cordoned => ErrorCode::InvalidReplicaAssignment,
        AlterDirError::NotHere => ErrorCode::ReplicaNotAvailable,
        AlterDirError::Partition(error) => partition_error(error),
    }
}

/// Of an append that is not known to be committed.
pub fn commit_error(error: CommitError) -> ErrorCode {
    match error {
        CommitError::NotLeaderOrFollower => ErrorCode::NotLeaderOrFollower,
        CommitError::NotEnoughReplicas => ErrorCode::NotEnoughReplicasAfterAppend,
    }
}
