//! Kafka's error codes, as they stand in every response. `[P]`

use std::fmt;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal,)*) => {
        /// An error code; `None` means success.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code of that number; `None` beyond those of Kafka 4.4.
            pub fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's name, `UNKNOWN_TOPIC_OR_PARTITION`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

error_codes! {
    /// Anything unexpected on the server.
    UnknownServerError = -1 "UNKNOWN_SERVER_ERROR",
    #[default]
    /// Ok.
    None = 0 "NONE",
    /// Offset outside log.
    OffsetOutOfRange = 1 "OFFSET_OUT_OF_RANGE",
    /// Bad CRC/size, or null key on compacted topic (old).
    CorruptMessage = 2 "CORRUPT_MESSAGE",
    /// Topic or partition not known here.
    UnknownTopicOrPartition = 3 "UNKNOWN_TOPIC_OR_PARTITION",
    /// Bad fetch size (unused).
    InvalidFetchSize = 4 "INVALID_FETCH_SIZE",
    /// No leader elected.
    LeaderNotAvailable = 5 "LEADER_NOT_AVAILABLE",
    /// This broker does not lead / cannot serve the replica.
    NotLeaderOrFollower = 6 "NOT_LEADER_OR_FOLLOWER",
    /// Not done in time.
    RequestTimedOut = 7 "REQUEST_TIMED_OUT",
    /// Node shutting down / not available.
    BrokerNotAvailable = 8 "BROKER_NOT_AVAILABLE",
    /// Replica unavailable.
    ReplicaNotAvailable = 9 "REPLICA_NOT_AVAILABLE",
    /// Message too large.
    MessageTooLarge = 10 "MESSAGE_TOO_LARGE",
    /// Old controller epoch (ZK).
    StaleControllerEpoch = 11 "STALE_CONTROLLER_EPOCH",
    /// Commit metadata too long.
    OffsetMetadataTooLarge = 12 "OFFSET_METADATA_TOO_LARGE",
    /// Connection dropped (client side).
    NetworkException = 13 "NETWORK_EXCEPTION",
    /// Coordinator loading.
    CoordinatorLoadInProgress = 14 "COORDINATOR_LOAD_IN_PROGRESS",
    /// No coordinator.
    CoordinatorNotAvailable = 15 "COORDINATOR_NOT_AVAILABLE",
    /// Wrong coordinator.
    NotCoordinator = 16 "NOT_COORDINATOR",
    /// Illegal topic name or operation.
    InvalidTopicException = 17 "INVALID_TOPIC_EXCEPTION",
    /// Batch larger than segment.
    RecordListTooLarge = 18 "RECORD_LIST_TOO_LARGE",
    /// ISR below minimum, not appended.
    NotEnoughReplicas = 19 "NOT_ENOUGH_REPLICAS",
    /// ISR below minimum, appended.
    NotEnoughReplicasAfterAppend = 20 "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    /// Acks not −1/0/1.
    InvalidRequiredAcks = 21 "INVALID_REQUIRED_ACKS",
    /// Wrong generation.
    IllegalGeneration = 22 "ILLEGAL_GENERATION",
    /// No common protocol.
    InconsistentGroupProtocol = 23 "INCONSISTENT_GROUP_PROTOCOL",
    /// Bad group id.
    InvalidGroupId = 24 "INVALID_GROUP_ID",
    /// Unknown member.
    UnknownMemberId = 25 "UNKNOWN_MEMBER_ID",
    /// Session timeout out of range.
    InvalidSessionTimeout = 26 "INVALID_SESSION_TIMEOUT",
    /// Rebalance running.
    RebalanceInProgress = 27 "REBALANCE_IN_PROGRESS",
    /// Commit batch too big.
    InvalidCommitOffsetSize = 28 "INVALID_COMMIT_OFFSET_SIZE",
    /// Topic not authorized.
    TopicAuthorizationFailed = 29 "TOPIC_AUTHORIZATION_FAILED",
    /// Group not authorized.
    GroupAuthorizationFailed = 30 "GROUP_AUTHORIZATION_FAILED",
    /// Cluster not authorized.
    ClusterAuthorizationFailed = 31 "CLUSTER_AUTHORIZATION_FAILED",
    /// Timestamp out of range.
    InvalidTimestamp = 32 "INVALID_TIMESTAMP",
    /// SASL mechanism not enabled.
    UnsupportedSaslMechanism = 33 "UNSUPPORTED_SASL_MECHANISM",
    /// SASL request in wrong state.
    IllegalSaslState = 34 "ILLEGAL_SASL_STATE",
    /// Version or feature not supported.
    UnsupportedVersion = 35 "UNSUPPORTED_VERSION",
    /// Topic exists.
    TopicAlreadyExists = 36 "TOPIC_ALREADY_EXISTS",
    /// Bad partition count.
    InvalidPartitions = 37 "INVALID_PARTITIONS",
    /// Bad replication factor.
    InvalidReplicationFactor = 38 "INVALID_REPLICATION_FACTOR",
    /// Bad replica assignment.
    InvalidReplicaAssignment = 39 "INVALID_REPLICA_ASSIGNMENT",
    /// Bad config.
    InvalidConfig = 40 "INVALID_CONFIG",
    /// Not the active controller.
    NotController = 41 "NOT_CONTROLLER",
    /// Malformed request.
    InvalidRequest = 42 "INVALID_REQUEST",
    /// Message format too old.
    UnsupportedForMessageFormat = 43 "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    /// Policy refused.
    PolicyViolation = 44 "POLICY_VIOLATION",
    /// Sequence gap.
    OutOfOrderSequenceNumber = 45 "OUT_OF_ORDER_SEQUENCE_NUMBER",
    /// Duplicate sequence (unused on wire).
    DuplicateSequenceNumber = 46 "DUPLICATE_SEQUENCE_NUMBER",
    /// Old producer epoch.
    InvalidProducerEpoch = 47 "INVALID_PRODUCER_EPOCH",
    /// Wrong transaction state.
    InvalidTxnState = 48 "INVALID_TXN_STATE",
    /// Producer id does not belong to transactional id.
    InvalidProducerIdMapping = 49 "INVALID_PRODUCER_ID_MAPPING",
    /// Transaction timeout too long.
    InvalidTransactionTimeout = 50 "INVALID_TRANSACTION_TIMEOUT",
    /// Previous transaction still finishing.
    ConcurrentTransactions = 51 "CONCURRENT_TRANSACTIONS",
    /// Old coordinator epoch.
    TransactionCoordinatorFenced = 52 "TRANSACTION_COORDINATOR_FENCED",
    /// Transactional id not authorized.
    TransactionalIdAuthorizationFailed = 53 "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    /// No authorizer configured.
    SecurityDisabled = 54 "SECURITY_DISABLED",
    /// Not tried because another item failed.
    OperationNotAttempted = 55 "OPERATION_NOT_ATTEMPTED",
    /// Disk error.
    KafkaStorageError = 56 "KAFKA_STORAGE_ERROR",
    /// Log dir unknown.
    LogDirNotFound = 57 "LOG_DIR_NOT_FOUND",
    /// Authentication failed.
    SaslAuthenticationFailed = 58 "SASL_AUTHENTICATION_FAILED",
    /// Producer id unknown (unused since 2.x).
    UnknownProducerId = 59 "UNKNOWN_PRODUCER_ID",
    /// Reassignment already running.
    ReassignmentInProgress = 60 "REASSIGNMENT_IN_PROGRESS",
    /// Tokens disabled.
    DelegationTokenAuthDisabled = 61 "DELEGATION_TOKEN_AUTH_DISABLED",
    /// Token not found.
    DelegationTokenNotFound = 62 "DELEGATION_TOKEN_NOT_FOUND",
    /// Not the token's owner.
    DelegationTokenOwnerMismatch = 63 "DELEGATION_TOKEN_OWNER_MISMATCH",
    /// Token API not allowed on this connection.
    DelegationTokenRequestNotAllowed = 64 "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    /// Token not authorized.
    DelegationTokenAuthorizationFailed = 65 "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    /// Token expired.
    DelegationTokenExpired = 66 "DELEGATION_TOKEN_EXPIRED",
    /// Bad principal type.
    InvalidPrincipalType = 67 "INVALID_PRINCIPAL_TYPE",
    /// Group not empty.
    NonEmptyGroup = 68 "NON_EMPTY_GROUP",
    /// Group not found.
    GroupIdNotFound = 69 "GROUP_ID_NOT_FOUND",
    /// Fetch session unknown.
    FetchSessionIdNotFound = 70 "FETCH_SESSION_ID_NOT_FOUND",
    /// Fetch session epoch wrong.
    InvalidFetchSessionEpoch = 71 "INVALID_FETCH_SESSION_EPOCH",
    /// Leader has no such listener.
    ListenerNotFound = 72 "LISTENER_NOT_FOUND",
    /// Topic deletion disabled.
    TopicDeletionDisabled = 73 "TOPIC_DELETION_DISABLED",
    /// Leader epoch too old.
    FencedLeaderEpoch = 74 "FENCED_LEADER_EPOCH",
    /// Leader epoch too new.
    UnknownLeaderEpoch = 75 "UNKNOWN_LEADER_EPOCH",
    /// Codec not allowed.
    UnsupportedCompressionType = 76 "UNSUPPORTED_COMPRESSION_TYPE",
    /// Broker epoch old.
    StaleBrokerEpoch = 77 "STALE_BROKER_EPOCH",
    /// New leader not caught up.
    OffsetNotAvailable = 78 "OFFSET_NOT_AVAILABLE",
    /// Rejoin with given member id.
    MemberIdRequired = 79 "MEMBER_ID_REQUIRED",
    /// Preferred replica not eligible.
    PreferredLeaderNotAvailable = 80 "PREFERRED_LEADER_NOT_AVAILABLE",
    /// Group full.
    GroupMaxSizeReached = 81 "GROUP_MAX_SIZE_REACHED",
    /// Static instance taken over.
    FencedInstanceId = 82 "FENCED_INSTANCE_ID",
    /// No eligible leader.
    EligibleLeadersNotAvailable = 83 "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    /// Leader already right.
    ElectionNotNeeded = 84 "ELECTION_NOT_NEEDED",
    /// No reassignment to cancel.
    NoReassignmentInProgress = 85 "NO_REASSIGNMENT_IN_PROGRESS",
    /// Group subscribes to topic.
    GroupSubscribedToTopic = 86 "GROUP_SUBSCRIBED_TO_TOPIC",
    /// Record failed validation.
    InvalidRecord = 87 "INVALID_RECORD",
    /// Transactional offset pending.
    UnstableOffsetCommit = 88 "UNSTABLE_OFFSET_COMMIT",
    /// Mutation quota exceeded.
    ThrottlingQuotaExceeded = 89 "THROTTLING_QUOTA_EXCEEDED",
    /// Newer producer exists.
    ProducerFenced = 90 "PRODUCER_FENCED",
    /// Resource not found.
    ResourceNotFound = 91 "RESOURCE_NOT_FOUND",
    /// Duplicate resource.
    DuplicateResource = 92 "DUPLICATE_RESOURCE",
    /// Bad credential.
    UnacceptableCredential = 93 "UNACCEPTABLE_CREDENTIAL",
    /// Voter sets differ.
    InconsistentVoterSet = 94 "INCONSISTENT_VOTER_SET",
    /// Stale partition epoch / bad feature level.
    InvalidUpdateVersion = 95 "INVALID_UPDATE_VERSION",
    /// Feature update failed.
    FeatureUpdateFailed = 96 "FEATURE_UPDATE_FAILED",
    /// Principal bytes unreadable.
    PrincipalDeserializationFailure = 97 "PRINCIPAL_DESERIALIZATION_FAILURE",
    /// Snapshot gone.
    SnapshotNotFound = 98 "SNAPSHOT_NOT_FOUND",
    /// Position outside snapshot.
    PositionOutOfRange = 99 "POSITION_OUT_OF_RANGE",
    /// Topic id unknown.
    UnknownTopicId = 100 "UNKNOWN_TOPIC_ID",
    /// Broker id in use.
    DuplicateBrokerRegistration = 101 "DUPLICATE_BROKER_REGISTRATION",
    /// Broker id not registered.
    BrokerIdNotRegistered = 102 "BROKER_ID_NOT_REGISTERED",
    /// Topic id differs from log's.
    InconsistentTopicId = 103 "INCONSISTENT_TOPIC_ID",
    /// Wrong cluster id.
    InconsistentClusterId = 104 "INCONSISTENT_CLUSTER_ID",
    /// Transactional id unknown.
    TransactionalIdNotFound = 105 "TRANSACTIONAL_ID_NOT_FOUND",
    /// Session mixes names and ids.
    FetchSessionTopicIdError = 106 "FETCH_SESSION_TOPIC_ID_ERROR",
    /// Replica may not join ISR.
    IneligibleReplica = 107 "INELIGIBLE_REPLICA",
    /// Leader changed by request.
    NewLeaderElected = 108 "NEW_LEADER_ELECTED",
    /// Offset only in remote tier.
    OffsetMovedToTieredStorage = 109 "OFFSET_MOVED_TO_TIERED_STORAGE",
    /// Member epoch fenced.
    FencedMemberEpoch = 110 "FENCED_MEMBER_EPOCH",
    /// Static instance still held.
    UnreleasedInstanceId = 111 "UNRELEASED_INSTANCE_ID",
    /// Server assignor unknown.
    UnsupportedAssignor = 112 "UNSUPPORTED_ASSIGNOR",
    /// Member epoch stale.
    StaleMemberEpoch = 113 "STALE_MEMBER_EPOCH",
    /// Asked wrong endpoint type.
    MismatchedEndpointType = 114 "MISMATCHED_ENDPOINT_TYPE",
    /// Endpoint type unknown.
    UnsupportedEndpointType = 115 "UNSUPPORTED_ENDPOINT_TYPE",
    /// Controller id unknown.
    UnknownControllerId = 116 "UNKNOWN_CONTROLLER_ID",
    /// Telemetry subscription changed.
    UnknownSubscriptionId = 117 "UNKNOWN_SUBSCRIPTION_ID",
    /// Telemetry payload too big.
    TelemetryTooLarge = 118 "TELEMETRY_TOO_LARGE",
    /// Bad registration.
    InvalidRegistration = 119 "INVALID_REGISTRATION",
    /// Abort and continue.
    TransactionAbortable = 120 "TRANSACTION_ABORTABLE",
    /// Share record not in expected state.
    InvalidRecordState = 121 "INVALID_RECORD_STATE",
    /// Share session unknown.
    ShareSessionNotFound = 122 "SHARE_SESSION_NOT_FOUND",
    /// Share session epoch wrong.
    InvalidShareSessionEpoch = 123 "INVALID_SHARE_SESSION_EPOCH",
    /// Share state epoch old.
    FencedStateEpoch = 124 "FENCED_STATE_EPOCH",
    /// Vote meant for other voter key.
    InvalidVoterKey = 125 "INVALID_VOTER_KEY",
    /// Voter exists.
    DuplicateVoter = 126 "DUPLICATE_VOTER",
    /// Voter missing.
    VoterNotFound = 127 "VOTER_NOT_FOUND",
    /// Bad RE2J regex.
    InvalidRegularExpression = 128 "INVALID_REGULAR_EXPRESSION",
    /// Client should rebootstrap.
    RebootstrapRequired = 129 "REBOOTSTRAP_REQUIRED",
    /// Topology invalid.
    StreamsInvalidTopology = 130 "STREAMS_INVALID_TOPOLOGY",
    /// Topology epoch invalid.
    StreamsInvalidTopologyEpoch = 131 "STREAMS_INVALID_TOPOLOGY_EPOCH",
    /// Topology fenced.
    StreamsTopologyFenced = 132 "STREAMS_TOPOLOGY_FENCED",
    /// Too many share sessions.
    ShareSessionLimitReached = 133 "SHARE_SESSION_LIMIT_REACHED",
    /// Group deletion failed.
    GroupDeletionFailed = 134 "GROUP_DELETION_FAILED",
    /// Topology description not stored.
    StreamsTopologyDescriptionUpdateFailed = 135 "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
    /// Controller id not registered.
    ControllerIdNotRegistered = 136 "CONTROLLER_ID_NOT_REGISTERED",
}

impl ErrorCode {
    /// The number on the wire.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// True for `NONE`.
    pub fn is_ok(self) -> bool {
        self == Self::None
    }
}

impl From<ErrorCode> for i16 {
    fn from(error: ErrorCode) -> Self {
        error.code()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
