//! Keys and values of `__consumer_offsets`, as Kafka writes them. `[P]`

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::protocol::messages::group_metadata_key::GroupMetadataKey;
use crate::protocol::messages::group_metadata_value::{GroupMetadataValue, MemberMetadata};
use crate::protocol::messages::legacy_offset_commit_value::LegacyOffsetCommitValue;
use crate::protocol::messages::offset_commit_key::OffsetCommitKey;
use crate::protocol::messages::offset_commit_value::OffsetCommitValue;
use crate::protocol::{DecodeError, EncodeError, Message, Reader, Str, Writer};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// Record types, the first two bytes of a key.
const LEGACY_OFFSET_COMMIT: i16 = 0;
const OFFSET_COMMIT: i16 = 1;
const GROUP_METADATA: i16 = 2;

/// Value versions that Kafka 4.4 writes; an explicit expiry only has a place in
/// version 1.
const OFFSET_COMMIT_VERSION: i16 = 4;
const OFFSET_COMMIT_WITH_EXPIRY: i16 = 1;
const GROUP_METADATA_VERSION: i16 = 3;

/// A fact about groups.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecord {
    /// An offset is committed, or forgotten when the value is none.
    Offset {
        /// The group.
        group: Arc<str>,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// What is committed.
        value: Option<CommittedOffset>,
    },
    /// A group as it stands, or its end when the value is none.
    Group {
        /// The group.
        group: Arc<str>,
        /// How it stands.
        value: Option<GroupMetadataValue>,
    },
    /// A record of a kind that this coordinator does not act on; kept out of
    /// its state and never written. Its type.
    Other(i16),
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: Offset,
    /// Leader epoch of the last record read; -1 when unknown.
    pub leader_epoch: LeaderEpoch,
    /// Whatever the client noted down.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub commit_timestamp: Timestamp,
    /// When it expires, from clients that said so.
    pub expire_timestamp: Option<Timestamp>,
    /// The topic's id; nil when unknown.
    pub topic_id: Uuid,
}

impl CommittedOffset {
    /// True unless it is known to be of a topic with another id.
    pub fn is_of(&self, topic_id: Uuid) -> bool {
        self.topic_id.is_nil() || topic_id.is_nil() || self.topic_id == topic_id
    }
}

/// Key and value of a record; no value for a tombstone.
pub type KeyValue = (Bytes, Option<Bytes>);

impl GroupRecord {
    /// The record as it stands in the log; none for one that is never written.
    pub fn encode(&self) -> Result<Option<KeyValue>, EncodeError> {
        match self {
            Self::Other(_) => Ok(None),
            Self::Offset { group, topic, partition, value } => {
                let key = OffsetCommitKey {
                    group: Str::from(group),
                    topic: Str::from(topic),
                    partition: *partition,
                };
                let key = prefixed(OFFSET_COMMIT, &key, 0)?;
                let value = value.as_ref().map(encode_offset).transpose()?;
                Ok(Some((key, value)))
            }
            Self::Group { group, value } => {
                let key =
                    prefixed(GROUP_METADATA, &GroupMetadataKey { group: Str::from(group) }, 0)?;
                let version = GROUP_METADATA_VERSION;
                let value =
                    value.as_ref().map(|value| prefixed(version, value, version)).transpose()?;
                Ok(Some((key, value)))
            }
        }
    }

    /// About how many bytes it has in the log.
    pub fn about_len(&self) -> usize {
        /// What stands around names and numbers.
        const FRAME: usize = 64;
        match self {
            Self::Other(_) => 0,
            Self::Offset { group, topic, value, .. } => {
                let note = value.as_ref().map_or(0, |value| value.metadata.len());
                FRAME + group.len() + topic.len() + note
            }
            Self::Group { group, value } => {
                let members = value.iter().flat_map(|value| &value.members);
                let bytes = members.map(|member| {
                    FRAME
                        + member.member_id.len()
                        + member.subscription.len()
                        + member.assignment.len()
                });
                FRAME + group.len() + bytes.sum::<usize>()
            }
        }
    }

    /// Reads a record of the log; kinds that nobody here knows are `Other`.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Self, DecodeError> {
        let mut key = Reader::new(Bytes::copy_from_slice(key));
        let value = value.map(Bytes::copy_from_slice);
        match key.i16()? {
            kind @ (LEGACY_OFFSET_COMMIT | OFFSET_COMMIT) => {
                let key = OffsetCommitKey::decode(&mut key, 0)?;
                let value = value.map(|value| decode_offset(kind, value)).transpose()?;
                Ok(Self::Offset {
                    group: Arc::from(&key.group),
                    topic: Arc::from(&key.topic),
                    partition: key.partition,
                    value,
                })
            }
            GROUP_METADATA => {
                let key = GroupMetadataKey::decode(&mut key, 0)?;
                let value = value.map(decode_group).transpose()?;
                Ok(Self::Group { group: Arc::from(&key.group), value })
            }
            kind => Ok(Self::Other(kind)),
        }
    }
}

/// A message after its type or version.
fn prefixed<M: Message>(prefix: i16, message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    writer.put(&prefix.to_be_bytes());
    message.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

fn encode_offset(value: &CommittedOffset) -> Result<Bytes, EncodeError> {
    let version = if value.expire_timestamp.is_some() {
        OFFSET_COMMIT_WITH_EXPIRY
    } else {
        OFFSET_COMMIT_VERSION
    };
    let message = OffsetCommitValue {
        offset: value.offset.0,
        leader_epoch: value.leader_epoch.0,
        metadata: Str::from(&value.metadata),
        commit_timestamp: value.commit_timestamp.0,
        expire_timestamp: value.expire_timestamp.unwrap_or(Timestamp::NONE).0,
        topic_id: value.topic_id,
        ..OffsetCommitValue::default()
    };
    prefixed(version, &message, version)
}

fn decode_offset(kind: i16, value: Bytes) -> Result<CommittedOffset, DecodeError> {
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    if kind == LEGACY_OFFSET_COMMIT {
        let legacy = LegacyOffsetCommitValue::decode(&mut reader, version)?;
        return Ok(CommittedOffset {
            offset: Offset(legacy.offset),
            leader_epoch: LeaderEpoch::NONE,
            metadata: noted(&legacy.metadata),
            commit_timestamp: Timestamp(legacy.commit_timestamp),
            expire_timestamp: None,
            topic_id: Uuid::nil(),
        });
    }
    let value = OffsetCommitValue::decode(&mut reader, version)?;
    Ok(CommittedOffset {
        offset: Offset(value.offset),
        leader_epoch: LeaderEpoch(value.leader_epoch),
        metadata: noted(&value.metadata),
        commit_timestamp: Timestamp(value.commit_timestamp),
        expire_timestamp: (value.expire_timestamp >= 0)
            .then_some(Timestamp(value.expire_timestamp)),
        topic_id: value.topic_id,
    })
}

/// Most notes are empty, and all of these are one.
fn noted(metadata: &Str) -> Arc<str> {
    if metadata.is_empty() { Arc::default() } else { Arc::from(metadata) }
}

fn decode_group(value: Bytes) -> Result<GroupMetadataValue, DecodeError> {
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    let mut value = GroupMetadataValue::decode(&mut reader, version)?;
    detach(&mut value.members);
    Ok(value)
}

/// Copies what will live as long as the group, so that it does not keep the
/// whole batch in memory.
fn detach(members: &mut [MemberMetadata]) {
    for member in members {
        member.subscription = Bytes::copy_from_slice(&member.subscription);
        member.assignment = Bytes::copy_from_slice(&member.assignment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_commit_has_kafkas_bytes() {
        let record = GroupRecord::Offset {
            group: "g".into(),
            topic: "t".into(),
            partition: 2,
            value: Some(CommittedOffset {
                offset: Offset(5),
                leader_epoch: LeaderEpoch(1),
                metadata: "m".into(),
                commit_timestamp: Timestamp(7),
                expire_timestamp: None,
                topic_id: Uuid::nil(),
            }),
        };
        let (key, value) = record.encode().unwrap().unwrap();
        assert_eq!(key, &b"\0\x01\0\x01g\0\x01t\0\0\0\x02"[..]);
        assert_eq!(
            value.clone().unwrap(),
            &b"\0\x04\0\0\0\0\0\0\0\x05\0\0\0\x01\x02m\0\0\0\0\0\0\0\x07\0"[..]
        );
        assert_eq!(GroupRecord::decode(&key, value.as_deref()).unwrap(), record);
    }

    #[test]
    fn kinds_of_other_protocols_are_passed_over() {
        let key = b"\0\x05\0\x01g\0\x01m";
        assert_eq!(GroupRecord::decode(key, None), Ok(GroupRecord::Other(5)));
    }
}
