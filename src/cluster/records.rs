//! Metadata records: bytes of the log to typed records and back. `[P]`
//!
//! The value of a record in the metadata log is a frame version (1), the
//! record's type and version, all three as unsigned varints, and then the
//! message itself. A reader that does not know a type cannot go on: what follows
//! may rest on it.

use bytes::Bytes;

use crate::protocol::messages::{
    abort_transaction_record::AbortTransactionRecord,
    access_control_entry_record::AccessControlEntryRecord,
    begin_transaction_record::BeginTransactionRecord,
    broker_registration_change_record::BrokerRegistrationChangeRecord,
    clear_elr_record::ClearElrRecord, client_quota_record::ClientQuotaRecord,
    config_record::ConfigRecord, delegation_token_record::DelegationTokenRecord,
    end_transaction_record::EndTransactionRecord, feature_level_record::FeatureLevelRecord,
    fence_broker_record::FenceBrokerRecord, no_op_record::NoOpRecord,
    partition_change_record::PartitionChangeRecord, partition_record::PartitionRecord,
    producer_ids_record::ProducerIdsRecord, register_broker_record::RegisterBrokerRecord,
    register_controller_record::RegisterControllerRecord,
    remove_access_control_entry_record::RemoveAccessControlEntryRecord,
    remove_delegation_token_record::RemoveDelegationTokenRecord,
    remove_topic_record::RemoveTopicRecord,
    remove_user_scram_credential_record::RemoveUserScramCredentialRecord,
    topic_record::TopicRecord, unfence_broker_record::UnfenceBrokerRecord,
    unregister_broker_record::UnregisterBrokerRecord,
    unregister_controller_record::UnregisterControllerRecord,
    user_scram_credential_record::UserScramCredentialRecord,
    zk_migration_state_record::ZkMigrationStateRecord,
};
use crate::protocol::{DecodeError, EncodeError, Message, Reader, Writer};

/// The only frame version there is; 0 was a preview's.
const FRAME_VERSION: u32 = 1;

/// Why a value of the metadata log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not the frame that we know.
    #[error("frame version {0} of a metadata record is not supported")]
    FrameVersion(u32),
    /// A type that came after Kafka 4.4.
    #[error("metadata record type {0} is unknown")]
    UnknownType(u32),
    /// A version that came after Kafka 4.4.
    #[error("version {version} of metadata record type {key} is not supported")]
    UnsupportedVersion {
        /// The record's type.
        key: i16,
        /// Its version.
        version: u32,
    },
    /// The message does not read.
    #[error("metadata record of type {key} is malformed: {error}")]
    Malformed {
        /// The record's type.
        key: i16,
        /// What is wrong.
        error: DecodeError,
    },
    /// The value ends within its frame.
    #[error("metadata record without a type: {0}")]
    Frame(DecodeError),
    /// More bytes than the message takes.
    #[error("{bytes} bytes follow a metadata record of type {key}")]
    TrailingBytes {
        /// The record's type.
        key: i16,
        /// How many bytes.
        bytes: usize,
    },
}

macro_rules! metadata_records {
    ($($(#[$doc:meta])* $variant:ident($record:ident),)*) => {
        /// A record of the metadata log, of any type that Kafka 4.4 knows.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MetadataRecord {
            $($(#[$doc])* $variant($record),)*
        }

        $(
            impl From<$record> for MetadataRecord {
                fn from(record: $record) -> Self {
                    Self::$variant(record)
                }
            }
        )*

        impl MetadataRecord {
            /// Kafka's number of the type.
            pub fn key(&self) -> i16 {
                match self {
                    $(Self::$variant(_) => $record::KEY.unwrap_or(-1),)*
                }
            }

            fn encode_message(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
                match self {
                    $(Self::$variant(record) => record.encode(writer, version),)*
                }
            }

            fn decode_message(key: i16, version: u32, reader: &mut Reader) -> Result<Self, RecordError> {
                $(
                    if $record::KEY == Some(key) {
                        let version = known_version::<$record>(key, version)?;
                        return $record::decode(reader, version)
                            .map(Self::$variant)
                            .map_err(|error| RecordError::Malformed { key, error });
                    }
                )*
                Err(RecordError::UnknownType(u32::try_from(key).unwrap_or(u32::MAX)))
            }
        }
    };
}

metadata_records! {
    /// A broker registers, or changes its registration.
    RegisterBroker(RegisterBrokerRecord),
    /// A broker is forgotten.
    UnregisterBroker(UnregisterBrokerRecord),
    /// A topic is created; its settings and partitions follow.
    Topic(TopicRecord),
    /// A partition, whole.
    Partition(PartitionRecord),
    /// A setting; without a value it is taken away.
    Config(ConfigRecord),
    /// What changed of a partition.
    PartitionChange(PartitionChangeRecord),
    /// Before Kafka 3.3: a broker is fenced.
    FenceBroker(FenceBrokerRecord),
    /// Before Kafka 3.3: a broker is unfenced.
    UnfenceBroker(UnfenceBrokerRecord),
    /// A topic goes with its partitions and settings.
    RemoveTopic(RemoveTopicRecord),
    /// A delegation token.
    DelegationToken(DelegationTokenRecord),
    /// A user's SCRAM credential.
    UserScramCredential(UserScramCredentialRecord),
    /// A finalized feature level.
    FeatureLevel(FeatureLevelRecord),
    /// A client's quota.
    ClientQuota(ClientQuotaRecord),
    /// A block of producer ids was handed out.
    ProducerIds(ProducerIdsRecord),
    /// What changed of a broker's registration.
    BrokerRegistrationChange(BrokerRegistrationChangeRecord),
    /// An access control entry.
    AccessControlEntry(AccessControlEntryRecord),
    /// An access control entry goes.
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord),
    /// Nothing; moves the offset on.
    NoOp(NoOpRecord),
    /// Of the way out of ZooKeeper; means nothing any more.
    ZkMigrationState(ZkMigrationStateRecord),
    /// A user's SCRAM credential goes.
    RemoveUserScramCredential(RemoveUserScramCredentialRecord),
    /// What follows is to be seen whole or not at all (KIP-868).
    BeginTransaction(BeginTransactionRecord),
    /// What began may be seen.
    EndTransaction(EndTransactionRecord),
    /// What began never happened.
    AbortTransaction(AbortTransactionRecord),
    /// A delegation token goes.
    RemoveDelegationToken(RemoveDelegationTokenRecord),
    /// A controller registers (KIP-919).
    RegisterController(RegisterControllerRecord),
    /// Eligible leader replicas of a topic, or of all, are forgotten (KIP-966).
    ClearElr(ClearElrRecord),
    /// A controller is forgotten (KIP-1312).
    UnregisterController(UnregisterControllerRecord),
}

impl MetadataRecord {
    /// Reads the value of a record in the metadata log. What the record holds
    /// of it (strings, bytes) is a copy that keeps no larger buffer alive.
    pub fn decode(value: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(Bytes::copy_from_slice(value));
        let frame = reader.unsigned_varint().map_err(RecordError::Frame)?;
        if frame != FRAME_VERSION {
            return Err(RecordError::FrameVersion(frame));
        }
        let key = reader.unsigned_varint().map_err(RecordError::Frame)?;
        let version = reader.unsigned_varint().map_err(RecordError::Frame)?;
        let key = i16::try_from(key).map_err(|_| RecordError::UnknownType(key))?;
        let record = Self::decode_message(key, version, &mut reader)?;
        match reader.remaining() {
            0 => Ok(record),
            bytes => Err(RecordError::TrailingBytes { key, bytes }),
        }
    }

    /// The value of a record in the metadata log, in the version that
    /// `metadata_version` calls for.
    pub fn encode(&self, metadata_version: i16) -> Result<Bytes, EncodeError> {
        let version = self.version(metadata_version);
        let mut writer = Writer::new();
        writer.put_unsigned_varint(FRAME_VERSION);
        writer.put_unsigned_varint(u32::from(self.key().unsigned_abs()));
        writer.put_unsigned_varint(u32::from(version.unsigned_abs()));
        self.encode_message(&mut writer, version)?;
        Ok(writer.into_bytes())
    }

    /// The version that readers of this `metadata.version` are sure to know;
    /// for registration changes the lowest that holds what is set.
    fn version(&self, metadata_version: i16) -> i16 {
        match self {
            Self::RegisterBroker(_) => match metadata_version {
                level::CORDONED_DIRECTORIES.. => 4,
                level::DIRECTORY_ASSIGNMENT.. => 3,
                level::ZK_MIGRATION.. => 2,
                _ => 1,
            },
            Self::Partition(_) | Self::PartitionChange(_) => match metadata_version {
                level::ELIGIBLE_LEADER_REPLICAS.. => 2,
                level::DIRECTORY_ASSIGNMENT.. => 1,
                _ => 0,
            },
            Self::BrokerRegistrationChange(change) => {
                if change.cordoned_log_dirs.is_some() {
                    3
                } else if !change.log_dirs.is_empty() {
                    2
                } else {
                    i16::from(change.in_controlled_shutdown != 0)
                }
            }
            _ => 0,
        }
    }
}

/// The `metadata.version` from which on something exists.
pub mod level {
    /// 3.4-IV0.
    pub const ZK_MIGRATION: i16 = 8;
    /// 3.6-IV1 (KIP-868).
    pub const TRANSACTIONS: i16 = 13;
    /// 3.7-IV0 (KIP-919).
    pub const CONTROLLER_REGISTRATION: i16 = 15;
    /// 3.7-IV2 (KIP-858).
    pub const DIRECTORY_ASSIGNMENT: i16 = 17;
    /// 4.0-IV1 (KIP-966).
    pub const ELIGIBLE_LEADER_REPLICAS: i16 = 23;
    /// 4.3-IV0 (KIP-1066).
    pub const CORDONED_DIRECTORIES: i16 = 30;
}

fn known_version<T: Message>(key: i16, version: u32) -> Result<i16, RecordError> {
    let known = i16::try_from(version).ok().filter(|version| T::VERSIONS.contains(version));
    known.ok_or(RecordError::UnsupportedVersion { key, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn encoded(record: impl Into<MetadataRecord>, metadata_version: i16) -> String {
        let record = record.into();
        let bytes = record.encode(metadata_version).unwrap();
        assert_eq!(MetadataRecord::decode(&bytes).as_ref(), Ok(&record));
        hex(&bytes)
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(encoded(NoOpRecord::default(), 33), "01140000");
        let level = FeatureLevelRecord {
            name: "metadata.version".into(),
            feature_level: 30,
            ..Default::default()
        };
        let name = hex(b"metadata.version");
        assert_eq!(encoded(level, 33), format!("010c0011{name}001e00"));
        let begin =
            BeginTransactionRecord { name: Some("Bootstrap records".into()), ..Default::default() };
        let name = hex(b"Bootstrap records");
        assert_eq!(encoded(begin, 33), format!("01170001001212{name}"));
        assert_eq!(encoded(EndTransactionRecord::default(), 33), "01180000");
        let fence = FenceBrokerRecord { id: 1, epoch: 5, ..Default::default() };
        assert_eq!(encoded(fence, 33), "01070000000001000000000000000500");
    }

    #[test]
    fn a_registration_change_has_the_lowest_version_that_holds_it() {
        let version =
            |change: BrokerRegistrationChangeRecord| MetadataRecord::from(change).version(33);
        let change = BrokerRegistrationChangeRecord { fenced: -1, ..Default::default() };
        assert_eq!(version(change.clone()), 0);
        let change = BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..change };
        assert_eq!(version(change.clone()), 1);
        let change =
            BrokerRegistrationChangeRecord { log_dirs: vec![Default::default()], ..change };
        assert_eq!(version(change.clone()), 2);
        let change = BrokerRegistrationChangeRecord { cordoned_log_dirs: Some(vec![]), ..change };
        assert_eq!(version(change), 3);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert_eq!(MetadataRecord::decode(&[0, 20, 0, 0]), Err(RecordError::FrameVersion(0)));
        assert_eq!(MetadataRecord::decode(&[1, 13, 0, 0]), Err(RecordError::UnknownType(13)));
        let unknown = Err(RecordError::UnknownType(0x3fff * 128 + 127));
        assert_eq!(MetadataRecord::decode(&[1, 0xff, 0xff, 0x7f, 0]), unknown);
        let version = Err(RecordError::UnsupportedVersion { key: 20, version: 9 });
        assert_eq!(MetadataRecord::decode(&[1, 20, 9, 0]), version);
        let trailing = Err(RecordError::TrailingBytes { key: 20, bytes: 1 });
        assert_eq!(MetadataRecord::decode(&[1, 20, 0, 0, 7]), trailing);
        assert!(matches!(MetadataRecord::decode(&[1]), Err(RecordError::Frame(_))));
        assert!(matches!(MetadataRecord::decode(&[1, 20, 0]), Err(RecordError::Malformed { .. })));
    }
}
