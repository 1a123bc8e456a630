//! The numbers and names that the whole house speaks of. `[P]`
//!
//! Every number that has a meaning is a type of its own, under Kafka's name for
//! it, so that an offset never stands where an epoch is wanted.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// A record's position in its partition: 0, 1, 2, … without end.
    Offset(i64)
}
number! {
    /// Counts the leaders of a partition; a record carries the epoch of the
    /// leader that appended it. -1 where unknown (KIP-101).
    LeaderEpoch(i32)
}
number! {
    /// Names a producer for the purpose of sequences; -1 for none (KIP-98).
    ProducerId(i64)
}
number! {
    /// Tells incarnations of one producer id apart; -1 for none (KIP-98).
    ProducerEpoch(i16)
}
number! {
    /// `node.id` of a broker or controller.
    BrokerId(i32)
}
number! {
    /// Milliseconds since 1970-01-01 UTC; -1 for none.
    Timestamp(i64)
}

impl Offset {
    /// "No such offset", as it stands on the wire.
    pub const NONE: Self = Self(-1);
    /// The first offset of every partition.
    pub const ZERO: Self = Self(0);
}

impl Add<i64> for Offset {
    type Output = Self;
    /// Saturates, so that no number from outside can wrap it.
    fn add(self, count: i64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl AddAssign<i64> for Offset {
    fn add_assign(&mut self, count: i64) {
        *self = *self + count;
    }
}

impl Sub for Offset {
    type Output = i64;
    fn sub(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

impl LeaderEpoch {
    /// "Epoch unknown", as it stands on the wire.
    pub const NONE: Self = Self(-1);
}

impl ProducerId {
    /// A batch without producer state.
    pub const NONE: Self = Self(-1);
}

impl Timestamp {
    /// A record or batch that carries no time.
    pub const NONE: Self = Self(-1);
}

/// Identity of a topic through renames of nothing but its own deletion and
/// re-creation (KIP-516).
pub type TopicId = Uuid;

/// Identity of a log directory (KIP-858).
pub type DirectoryId = Uuid;

/// A UUID as Kafka writes it: 22 characters of URL-safe base64, no padding.
pub fn uuid_text(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// Reads Kafka's text form of a UUID; `None` when it is not one.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(Uuid::from_bytes(bytes.try_into().ok()?))
}

/// True for an id that Kafka's random generator may hand out: not one of the
/// first hundred, and its text does not begin with a dash.
pub fn is_ordinary_uuid(id: Uuid) -> bool {
    id.as_u128() >= 100 && !uuid_text(id).starts_with('-')
}

/// A partition of a topic, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name, shared by its partitions.
    pub topic: Arc<str>,
    /// The partition's index, 0 to count - 1.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    /// `topic-partition`, which is also the name of its directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_go_through_text_and_back() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let text = uuid_text(id);
        assert_eq!(text, "ASNFZ4mrze8BI0VniavN7w");
        assert_eq!(parse_uuid(&text), Some(id));
        assert_eq!(parse_uuid("too short"), None);
    }

    #[test]
    fn reserved_and_dashed_uuids_are_not_ordinary() {
        assert!(!is_ordinary_uuid(Uuid::from_u128(99)));
        assert!(
            !is_ordinary_uuid(Uuid::from_u128(u128::MAX))
                || !uuid_text(Uuid::from_u128(u128::MAX)).starts_with('-')
        );
        assert!(!is_ordinary_uuid(Uuid::from_u128(0xf8 << 120)));
    }
}
