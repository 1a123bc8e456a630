//! Control records: what brokers tell each other and clients' machinery in the
//! log itself. `[P]`
//!
//! The key of a control record is an i16 version and an i16 type; the value is
//! the type's own. In data logs a control batch holds one record.

use bytes::Bytes;

use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::batch::BatchView;
use super::batch_builder::{BatchBuilder, BatchOptions};
use super::compression::CompressionError;
use super::record::Record;

/// What a control record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// A transaction's records are to be ignored (KIP-98).
    Abort,
    /// A transaction's records count (KIP-98).
    Commit,
    /// First record of a Raft epoch (KIP-595).
    LeaderChange,
    /// First record of a snapshot (KIP-630).
    SnapshotHeader,
    /// Last record of a snapshot (KIP-630).
    SnapshotFooter,
    /// Level of `kraft.version` (KIP-853).
    KRaftVersion,
    /// The voters (KIP-853).
    KRaftVoters,
    /// One that came after this was written; readers step over it.
    Unknown(i16),
}

impl ControlType {
    const KNOWN: [Self; 7] = [
        Self::Abort,
        Self::Commit,
        Self::LeaderChange,
        Self::SnapshotHeader,
        Self::SnapshotFooter,
        Self::KRaftVersion,
        Self::KRaftVoters,
    ];

    /// Its number.
    pub fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        }
    }

    /// The type with this number.
    pub fn from_id(id: i16) -> Self {
        Self::KNOWN.into_iter().find(|kind| kind.id() == id).unwrap_or(Self::Unknown(id))
    }

    /// Reads a control record's key; `None` when it is too short or its version
    /// negative. Later versions may be longer.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (version, rest) = key.split_first_chunk()?;
        let (id, _) = rest.split_first_chunk()?;
        (i16::from_be_bytes(*version) >= 0).then(|| Self::from_id(i16::from_be_bytes(*id)))
    }

    /// The key of a control record of this type.
    pub fn key(self) -> [u8; 4] {
        let [high, low] = self.id().to_be_bytes();
        [0, 0, high, low]
    }
}

/// The end of a producer's transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// Committed, or aborted.
    pub committed: bool,
    /// Epoch of the coordinator that wrote it.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// Reads a marker; `None` when the record is none. Values of later versions
    /// are longer and read alike.
    pub fn from_record(record: &Record<'_>) -> Option<Self> {
        let committed = match ControlType::from_key(record.key?)? {
            ControlType::Commit => true,
            ControlType::Abort => false,
            _ => return None,
        };
        let (version, rest) = record.value?.split_first_chunk()?;
        let (epoch, _) = rest.split_first_chunk()?;
        (i16::from_be_bytes(*version) >= 0)
            .then(|| Self { committed, coordinator_epoch: i32::from_be_bytes(*epoch) })
    }

    /// The marker in a control batch; `None` for other batches and for one whose
    /// record compaction took.
    pub fn from_batch(batch: &BatchView<'_>) -> Option<(Self, Timestamp)> {
        if !batch.header().attributes.is_control() {
            return None;
        }
        let record = batch.records().ok()?.next()?.ok()?;
        Some((Self::from_record(&record)?, record.timestamp))
    }

    /// The value of the marker's record.
    pub fn value(&self) -> [u8; 6] {
        let [a, b, c, d] = self.coordinator_epoch.to_be_bytes();
        [0, 0, a, b, c, d]
    }

    /// The control batch that carries it.
    pub fn batch(
        &self,
        base_offset: Offset,
        leader_epoch: LeaderEpoch,
        timestamp: Timestamp,
        producer: (ProducerId, ProducerEpoch),
    ) -> Result<Bytes, CompressionError> {
        let (producer_id, producer_epoch) = producer;
        let mut builder = BatchBuilder::new(BatchOptions {
            base_offset,
            leader_epoch,
            producer_id,
            producer_epoch,
            transactional: true,
            control: true,
            ..BatchOptions::default()
        });
        let kind = if self.committed { ControlType::Commit } else { ControlType::Abort };
        builder.append(timestamp, Some(&kind.key()), Some(&self.value()));
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_kafkas_to_the_byte() {
        // As Kafka 4.4.0 writes it.
        let golden = concat!(
            "00000000000000370000004200000004024f96577d003000000000000000000001e240000000",
            "000001e240000000000000004d0003ffffffff00000001200000000800000000",
            "0c00000000000700",
        );
        let marker = EndTransactionMarker { committed: false, coordinator_epoch: 7 };
        let producer = (ProducerId(77), ProducerEpoch(3));
        let bytes = marker.batch(Offset(55), LeaderEpoch(4), Timestamp(123_456), producer).unwrap();
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex, golden);
        let batch = BatchView::parse(&bytes).unwrap();
        let read = EndTransactionMarker::from_batch(&batch);
        assert_eq!(read, Some((marker, Timestamp(123_456))));
    }

    #[test]
    fn keys_of_all_types() {
        for id in -1..9 {
            let kind = ControlType::from_id(id);
            assert_eq!(kind.id(), id);
            assert_eq!(matches!(kind, ControlType::Unknown(_)), !(0..7).contains(&id));
            assert_eq!(ControlType::from_key(&kind.key()), Some(kind));
        }
        assert_eq!(ControlType::from_key(&[0, 5, 0, 1, 9, 9]), Some(ControlType::Commit));
        for key in [&[][..], &[0, 0, 0], &[0xff, 0xff, 0, 1]] {
            assert_eq!(ControlType::from_key(key), None, "{key:?}");
        }
    }

    #[test]
    fn what_is_no_marker() {
        let record = |key, value| Record {
            offset: Offset::ZERO,
            offset_delta: 0,
            timestamp: Timestamp::NONE,
            key,
            value,
            headers: crate::log::record::Headers::default(),
            size: 0,
        };
        let commit: Option<&[u8]> = Some(&[0, 0, 0, 1]);
        let good = record(commit, Some(&[0, 1, 0, 0, 0, 9, 1, 1]));
        let marker = EndTransactionMarker { committed: true, coordinator_epoch: 9 };
        assert_eq!(EndTransactionMarker::from_record(&good), Some(marker));
        let others = [
            record(None, Some(&[0; 6])),
            record(Some(&[0, 0, 0, 2]), Some(&[0; 6])),
            record(commit, None),
            record(commit, Some(&[0; 5])),
            record(commit, Some(&[0xff; 6])),
        ];
        for record in others {
            assert_eq!(EndTransactionMarker::from_record(&record), None, "{record:?}");
        }
    }
}
