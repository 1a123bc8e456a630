//! The list of Kafka's APIs: key, versions served, where they turn flexible, and
//! on which listeners Kafka has them. `[P]`
//!
//! The versions are those of Kafka 4.4, stable ones only, and downwards all that
//! carry record batches of magic 2: what Kafka 4.0 dropped for age alone is still
//! here. Message sets of magic 0 and 1 (Produce below 3, Fetch below 4) are not.
//! Whether an API is advertised is not told here: that takes a handler.

use std::fmt;
use std::ops::RangeInclusive;

/// Listeners of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Where clients and brokers talk to brokers.
    Broker,
    /// Where brokers and controllers talk to controllers.
    Controller,
}

macro_rules! apis {
    ($($name:ident $key:literal, $low:literal..=$high:literal, flexible $flexible:literal, $($listener:ident)+;)*) => {
        /// One of Kafka's APIs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum Api {
            $(#[doc = concat!("Key ", $key, ".")] $name = $key,)*
        }

        impl Api {
            /// Every API, ascending by key.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The API of that key.
            pub fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The versions that can be served.
            pub fn versions(self) -> RangeInclusive<i16> {
                match self {
                    $(Self::$name => $low..=$high,)*
                }
            }

            /// True when that version of request and response is flexible; versions
            /// too new to be known are, as far as the header goes.
            pub fn is_flexible(self, version: i16) -> bool {
                match self {
                    $(Self::$name => version >= $flexible,)*
                }
            }

            /// True when Kafka has this API on listeners of that kind.
            pub fn is_on(self, kind: ListenerKind) -> bool {
                match self {
                    $(Self::$name => [$(ListenerKind::$listener),+].contains(&kind),)*
                }
            }
        }
    };
}

apis! {
    Produce 0, 3..=13, flexible 9, Broker;
    Fetch 1, 4..=18, flexible 12, Broker Controller;
    ListOffsets 2, 0..=11, flexible 6, Broker;
    Metadata 3, 0..=13, flexible 9, Broker;
    OffsetCommit 8, 0..=10, flexible 8, Broker;
    OffsetFetch 9, 0..=10, flexible 6, Broker;
    FindCoordinator 10, 0..=6, flexible 3, Broker;
    JoinGroup 11, 0..=9, flexible 6, Broker;
    Heartbeat 12, 0..=4, flexible 4, Broker;
    LeaveGroup 13, 0..=5, flexible 4, Broker;
    SyncGroup 14, 0..=5, flexible 4, Broker;
    DescribeGroups 15, 0..=6, flexible 5, Broker;
    ListGroups 16, 0..=5, flexible 3, Broker;
    SaslHandshake 17, 0..=1, flexible 32767, Broker Controller;
    ApiVersions 18, 0..=5, flexible 3, Broker Controller;
    CreateTopics 19, 0..=7, flexible 5, Broker Controller;
    DeleteTopics 20, 0..=6, flexible 4, Broker Controller;
    DeleteRecords 21, 0..=2, flexible 2, Broker;
    InitProducerId 22, 0..=5, flexible 2, Broker;
    OffsetForLeaderEpoch 23, 0..=4, flexible 4, Broker;
    AddPartitionsToTxn 24, 0..=5, flexible 3, Broker;
    AddOffsetsToTxn 25, 0..=4, flexible 3, Broker;
    EndTxn 26, 0..=5, flexible 3, Broker;
    WriteTxnMarkers 27, 1..=2, flexible 1, Broker;
    TxnOffsetCommit 28, 0..=6, flexible 3, Broker;
    DescribeAcls 29, 0..=3, flexible 2, Broker Controller;
    CreateAcls 30, 0..=3, flexible 2, Broker Controller;
    DeleteAcls 31, 0..=3, flexible 2, Broker Controller;
    DescribeConfigs 32, 0..=4, flexible 4, Broker Controller;
    AlterConfigs 33, 0..=2, flexible 2, Broker Controller;
    AlterReplicaLogDirs 34, 0..=2, flexible 2, Broker;
    DescribeLogDirs 35, 0..=5, flexible 2, Broker;
    SaslAuthenticate 36, 0..=2, flexible 2, Broker Controller;
    CreatePartitions 37, 0..=3, flexible 2, Broker Controller;
    CreateDelegationToken 38, 0..=3, flexible 2, Broker Controller;
    RenewDelegationToken 39, 0..=2, flexible 2, Broker Controller;
    ExpireDelegationToken 40, 0..=2, flexible 2, Broker Controller;
    DescribeDelegationToken 41, 0..=3, flexible 2, Broker Controller;
    DeleteGroups 42, 0..=3, flexible 2, Broker;
    ElectLeaders 43, 0..=2, flexible 2, Broker Controller;
    IncrementalAlterConfigs 44, 0..=1, flexible 1, Broker Controller;
    AlterPartitionReassignments 45, 0..=1, flexible 0, Broker Controller;
    ListPartitionReassignments 46, 0..=0, flexible 0, Broker Controller;
    OffsetDelete 47, 0..=0, flexible 32767, Broker;
    DescribeClientQuotas 48, 0..=1, flexible 1, Broker;
    AlterClientQuotas 49, 0..=1, flexible 1, Broker Controller;
    DescribeUserScramCredentials 50, 0..=0, flexible 0, Broker Controller;
    AlterUserScramCredentials 51, 0..=0, flexible 0, Broker Controller;
    Vote 52, 0..=2, flexible 0, Controller;
    BeginQuorumEpoch 53, 0..=1, flexible 1, Controller;
    EndQuorumEpoch 54, 0..=1, flexible 1, Controller;
    DescribeQuorum 55, 0..=2, flexible 0, Broker Controller;
    AlterPartition 56, 2..=3, flexible 0, Controller;
    UpdateFeatures 57, 0..=2, flexible 0, Broker Controller;
    Envelope 58, 0..=0, flexible 0, Controller;
    FetchSnapshot 59, 0..=1, flexible 0, Controller;
    DescribeCluster 60, 0..=2, flexible 0, Broker Controller;
    DescribeProducers 61, 0..=0, flexible 0, Broker;
    BrokerRegistration 62, 0..=4, flexible 0, Controller;
    BrokerHeartbeat 63, 0..=2, flexible 0, Controller;
    UnregisterBroker 64, 0..=0, flexible 0, Broker Controller;
    DescribeTransactions 65, 0..=0, flexible 0, Broker;
    ListTransactions 66, 0..=2, flexible 0, Broker;
    AllocateProducerIds 67, 0..=0, flexible 0, Controller;
    ConsumerGroupHeartbeat 68, 0..=1, flexible 0, Broker;
    ConsumerGroupDescribe 69, 0..=1, flexible 0, Broker;
    ControllerRegistration 70, 0..=0, flexible 0, Controller;
    GetTelemetrySubscriptions 71, 0..=0, flexible 0, Broker;
    PushTelemetry 72, 0..=0, flexible 0, Broker;
    AssignReplicasToDirs 73, 0..=0, flexible 0, Controller;
    ListConfigResources 74, 0..=1, flexible 0, Broker;
    DescribeTopicPartitions 75, 0..=0, flexible 0, Broker;
    ShareGroupHeartbeat 76, 1..=1, flexible 0, Broker;
    ShareGroupDescribe 77, 1..=1, flexible 0, Broker;
    ShareFetch 78, 1..=2, flexible 0, Broker;
    ShareAcknowledge 79, 1..=2, flexible 0, Broker;
    AddRaftVoter 80, 0..=1, flexible 0, Broker Controller;
    RemoveRaftVoter 81, 0..=0, flexible 0, Broker Controller;
    UpdateRaftVoter 82, 0..=0, flexible 0, Controller;
    InitializeShareGroupState 83, 0..=0, flexible 0, Broker;
    ReadShareGroupState 84, 0..=0, flexible 0, Broker;
    WriteShareGroupState 85, 0..=1, flexible 0, Broker;
    DeleteShareGroupState 86, 0..=0, flexible 0, Broker;
    ReadShareGroupStateSummary 87, 0..=1, flexible 0, Broker;
    StreamsGroupHeartbeat 88, 0..=1, flexible 0, Broker;
    StreamsGroupDescribe 89, 0..=1, flexible 0, Broker;
    DescribeShareGroupOffsets 90, 0..=1, flexible 0, Broker;
    AlterShareGroupOffsets 91, 0..=0, flexible 0, Broker;
    DeleteShareGroupOffsets 92, 0..=0, flexible 0, Broker;
    StreamsGroupTopologyDescriptionUpdate 93, 0..=0, flexible 0, Broker;
    UnregisterController 94, 0..=0, flexible 0, Broker Controller;
}

impl Api {
    /// The number in the request header.
    pub fn key(self) -> i16 {
        self as i16
    }

    /// The range that ApiVersions tells. Produce is told from 0 although 0 to 2 are
    /// refused: librdkafka takes a higher minimum for "no compression"
    /// (KAFKA-18659).
    pub fn advertised(self) -> RangeInclusive<i16> {
        match self {
            Self::Produce => 0..=*self.versions().end(),
            _ => self.versions(),
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Kind;
    use crate::messages::CATALOGUE;

    #[test]
    fn the_list_agrees_with_the_schemas() {
        for kind in [Kind::Request, Kind::Response] {
            let entries: Vec<_> = CATALOGUE.iter().filter(|entry| entry.kind == kind).collect();
            assert_eq!(entries.len(), Api::ALL.len());
            for entry in entries {
                let api = Api::from_key(entry.key.unwrap()).unwrap();
                let suffix = if kind == Kind::Request { "Request" } else { "Response" };
                assert_eq!(format!("{api}{suffix}"), entry.name);
                let (low, high) = entry.versions;
                let stable = if entry.newest_unstable { high - 1 } else { high };
                assert!(*api.versions().start() >= low, "{api}");
                assert!(*api.versions().end() == stable || kind == Kind::Response, "{api}");
                for version in low..=high {
                    assert_eq!(
                        (entry.is_flexible)(version),
                        api.is_flexible(version),
                        "{api} {version}"
                    );
                }
            }
        }
    }
}
