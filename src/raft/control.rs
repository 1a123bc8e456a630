//! Control records of the metadata log and its snapshots. `[P]`
//!
//! The value is a message whose first field is its own version; unlike metadata
//! records there is no frame before it.

use bytes::Bytes;

use super::voters::VoterSet;
use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::log::control::ControlType;
use crate::log::record::Record;
use crate::protocol::messages::{
    k_raft_version_record::KRaftVersionRecord,
    leader_change_message::{self, LeaderChangeMessage},
    snapshot_footer_record::SnapshotFooterRecord,
    snapshot_header_record::SnapshotHeaderRecord,
    voters_record::VotersRecord,
};
use crate::protocol::{DecodeError, EncodeError, Message, Reader, Writer};
use crate::types::{BrokerId, LeaderEpoch, Offset, Timestamp};

/// What a control record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// An epoch begins: its leader, and who votes. All voted for it.
    LeaderChange(BrokerId, Vec<BrokerId>),
    /// A snapshot begins; when the last record that went into it was appended.
    SnapshotHeader(Timestamp),
    /// A snapshot is complete.
    SnapshotFooter,
    /// Level of `kraft.version`.
    KRaftVersion(i16),
    /// The voters.
    Voters(VoterSet),
    /// Something of transactions, or that came later: means nothing here.
    Other,
}

/// Why a control record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Key or value is missing or too short.
    #[error("a control record without key or value")]
    Incomplete,
    /// The value does not read.
    #[error("a control record's value: {0}")]
    Malformed(#[from] DecodeError),
}

impl Control {
    /// Reads a control record.
    pub fn read(record: &Record<'_>) -> Result<Self, ControlError> {
        let key = record.key.and_then(ControlType::from_key).ok_or(ControlError::Incomplete)?;
        let value = record.value.ok_or(ControlError::Incomplete)?;
        Ok(match key {
            ControlType::LeaderChange => {
                let change: LeaderChangeMessage = message(value)?;
                let voters = change.voters.iter().map(|voter| BrokerId(voter.voter_id)).collect();
                Self::LeaderChange(BrokerId(change.leader_id), voters)
            }
            ControlType::SnapshotHeader => {
                let header: SnapshotHeaderRecord = message(value)?;
                Self::SnapshotHeader(Timestamp(header.last_contained_log_timestamp))
            }
            ControlType::SnapshotFooter => {
                message::<SnapshotFooterRecord>(value)?;
                Self::SnapshotFooter
            }
            ControlType::KRaftVersion => {
                Self::KRaftVersion(message::<KRaftVersionRecord>(value)?.k_raft_version)
            }
            ControlType::KRaftVoters => {
                Self::Voters(VoterSet::from_record(&message::<VotersRecord>(value)?))
            }
            _ => Self::Other,
        })
    }

    fn kind(&self) -> ControlType {
        match self {
            Self::LeaderChange(..) => ControlType::LeaderChange,
            Self::SnapshotHeader(_) => ControlType::SnapshotHeader,
            Self::SnapshotFooter => ControlType::SnapshotFooter,
            Self::KRaftVersion(_) => ControlType::KRaftVersion,
            Self::Voters(_) => ControlType::KRaftVoters,
            Self::Other => ControlType::Unknown(-1),
        }
    }

    fn value(&self) -> Result<Bytes, EncodeError> {
        match self {
            Self::LeaderChange(leader, voters) => {
                let voter = |id: &BrokerId| leader_change_message::Voter {
                    voter_id: id.0,
                    ..Default::default()
                };
                bytes(&LeaderChangeMessage {
                    leader_id: leader.0,
                    voters: voters.iter().map(voter).collect(),
                    granting_voters: voters.iter().map(voter).collect(),
                    ..Default::default()
                })
            }
            Self::SnapshotHeader(timestamp) => bytes(&SnapshotHeaderRecord {
                last_contained_log_timestamp: timestamp.0,
                ..Default::default()
            }),
            Self::SnapshotFooter => bytes(&SnapshotFooterRecord::default()),
            Self::KRaftVersion(level) => {
                bytes(&KRaftVersionRecord { k_raft_version: *level, ..Default::default() })
            }
            Self::Voters(voters) => bytes(&voters.to_record()),
            Self::Other => Ok(Bytes::new()),
        }
    }
}

/// One batch of control records.
pub fn control_batch(
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    now: Timestamp,
    records: &[Control],
) -> Result<Bytes, EncodeError> {
    let options =
        BatchOptions { base_offset, leader_epoch, control: true, ..BatchOptions::default() };
    let mut builder = BatchBuilder::new(options);
    for record in records {
        builder.append(now, Some(&record.kind().key()), Some(&record.value()?));
    }
    builder.build().map_err(|_| EncodeError::TooLong)
}

/// One batch of records whose values are `values`.
pub fn data_batch(
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    now: Timestamp,
    values: &[Bytes],
) -> Result<Bytes, EncodeError> {
    let options = BatchOptions { base_offset, leader_epoch, ..BatchOptions::default() };
    let mut builder = BatchBuilder::new(options);
    for value in values {
        builder.append(now, None, Some(value));
    }
    builder.build().map_err(|_| EncodeError::TooLong)
}

fn message<T: Message>(value: &[u8]) -> Result<T, DecodeError> {
    T::decode(&mut Reader::new(Bytes::copy_from_slice(value)), 0)
}

fn bytes<T: Message>(message: &T) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    message.encode(&mut writer, 0)?;
    Ok(writer.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::batch::BatchView;
    use crate::raft::{ReplicaKey, Voter, VoterEndpoint};
    use crate::types::DirectoryId;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(hex(&Control::SnapshotFooter.value().unwrap()), "000000");
        let header = Control::SnapshotHeader(Timestamp(0));
        assert_eq!(hex(&header.value().unwrap()), "0000000000000000000000");
        assert_eq!(hex(&Control::KRaftVersion(1).value().unwrap()), "0000000100");
        let endpoint = VoterEndpoint { name: "CONTROLLER".into(), host: "h".into(), port: 9093 };
        let key = ReplicaKey { id: BrokerId(1), directory: Some(DirectoryId::from_u128(0xd1)) };
        let voter = Voter { key, endpoints: vec![endpoint], kraft_versions: (0, 1) };
        let voters = Control::Voters(VoterSet::new([voter])).value().unwrap();
        let name = hex(b"CONTROLLER");
        assert_eq!(
            hex(&voters),
            format!("00000200000001{:032x}020b{name}0268238500{}0000", 0xd1, "0000000100")
        );
    }

    #[test]
    fn a_batch_of_control_records_reads_back() {
        let records = vec![
            Control::LeaderChange(BrokerId(1), vec![BrokerId(1)]),
            Control::KRaftVersion(1),
            Control::SnapshotHeader(Timestamp(7)),
            Control::SnapshotFooter,
        ];
        let bytes = control_batch(Offset(5), LeaderEpoch(2), Timestamp(9), &records).unwrap();
        let batch = BatchView::parse(&bytes).unwrap();
        batch.check_crc().unwrap();
        assert!(batch.header().attributes.is_control());
        assert_eq!((batch.header().base_offset, batch.header().leader_epoch.0), (Offset(5), 2));
        let read = batch.records().unwrap().map(|record| Control::read(&record.unwrap()).unwrap());
        assert_eq!(read.collect::<Vec<_>>(), records);
    }
}
