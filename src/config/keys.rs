//! The broker's keys as typed constants, for [`Config::get`](super::Config::get). `[P]`
//!
//! Only keys that the broker reads by itself; `definition.rs` knows all.

use std::marker::PhantomData;

/// A key whose value is a `T`.
#[derive(Debug)]
pub struct Key<T> {
    /// Its name.
    pub name: &'static str,
    value: PhantomData<fn() -> T>,
}

// Not derived: a key is copied whatever its value's type.
impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> Key<T> {
    const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }
}

macro_rules! keys {
    ($($constant:ident: $rust:ty = $name:literal,)+) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $constant: Key<$rust> = Key::new($name);
        )+

        /// Each key's name, and whether its default reads as its Rust type.
        #[cfg(test)]
        fn read_defaults() -> Vec<(&'static str, bool)> {
            use super::value::{FromValue, Value};
            use super::definition::{Scope, table};
            fn reads<T: FromValue>(name: &str) -> bool {
                let key = table().get(Scope::Broker, name).expect("a key of the table");
                let some = key.default.clone().or_else(|| Value::parse(key.kind, "0").ok());
                some.is_some_and(|value| T::from_value(&value).is_some())
            }
            vec![$(($name, reads::<$rust>($name))),+]
        }
    };
}

keys! {
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS: i32 = "add.partitions.to.txn.retry.backoff.max.ms",
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS: i32 = "add.partitions.to.txn.retry.backoff.ms",
    ADVERTISED_LISTENERS: Option<Vec<String>> = "advertised.listeners",
    ALTER_CONFIG_POLICY_CLASS_NAME: Option<String> = "alter.config.policy.class.name",
    AUTHORIZER_CLASS_NAME: String = "authorizer.class.name",
    AUTO_CREATE_TOPICS_ENABLE: bool = "auto.create.topics.enable",
    AUTO_LEADER_REBALANCE_ENABLE: bool = "auto.leader.rebalance.enable",
    BACKGROUND_THREADS: i32 = "background.threads",
    BROKER_HEARTBEAT_INTERVAL_MS: i32 = "broker.heartbeat.interval.ms",
    BROKER_ID: i32 = "broker.id",
    BROKER_RACK: Option<String> = "broker.rack",
    BROKER_SESSION_TIMEOUT_MS: i32 = "broker.session.timeout.ms",
    CLIENT_QUOTA_CALLBACK_CLASS: Option<String> = "client.quota.callback.class",
    COMPRESSION_GZIP_LEVEL: i32 = "compression.gzip.level",
    COMPRESSION_LZ4_LEVEL: i32 = "compression.lz4.level",
    COMPRESSION_TYPE: String = "compression.type",
    COMPRESSION_ZSTD_LEVEL: i32 = "compression.zstd.level",
    CONFIG_PROVIDERS: Vec<String> = "config.providers",
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS: i32 = "connection.failed.authentication.delay.ms",
    CONNECTIONS_MAX_IDLE_MS: i64 = "connections.max.idle.ms",
    CONNECTIONS_MAX_REAUTH_MS: i64 = "connections.max.reauth.ms",
    CONTROLLED_SHUTDOWN_ENABLE: bool = "controlled.shutdown.enable",
    CONTROLLER_LISTENER_NAMES: Vec<String> = "controller.listener.names",
    CONTROLLER_PERFORMANCE_ALWAYS_LOG_THRESHOLD_MS: i64 = "controller.performance.always.log.threshold.ms",
    CONTROLLER_PERFORMANCE_SAMPLE_PERIOD_MS: i64 = "controller.performance.sample.period.ms",
    CONTROLLER_QUORUM_APPEND_LINGER_MS: i32 = "controller.quorum.append.linger.ms",
    CONTROLLER_QUORUM_AUTO_JOIN_ENABLE: bool = "controller.quorum.auto.join.enable",
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS: Vec<String> = "controller.quorum.bootstrap.servers",
    CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS: i32 = "controller.quorum.election.backoff.max.ms",
    CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS: i32 = "controller.quorum.election.timeout.ms",
    CONTROLLER_QUORUM_FETCH_MAX_BYTES: i32 = "controller.quorum.fetch.max.bytes",
    CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES: i32 = "controller.quorum.fetch.snapshot.max.bytes",
    CONTROLLER_QUORUM_FETCH_TIMEOUT_MS: i32 = "controller.quorum.fetch.timeout.ms",
    CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS: i32 = "controller.quorum.request.timeout.ms",
    CONTROLLER_QUORUM_RETRY_BACKOFF_MS: i32 = "controller.quorum.retry.backoff.ms",
    CONTROLLER_QUORUM_VOTERS: Vec<String> = "controller.quorum.voters",
    CONTROLLER_QUOTA_WINDOW_NUM: i32 = "controller.quota.window.num",
    CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS: i32 = "controller.quota.window.size.seconds",
    CONTROLLER_SOCKET_TIMEOUT_MS: i32 = "controller.socket.timeout.ms",
    CORDONED_LOG_DIRS: Vec<String> = "cordoned.log.dirs",
    CREATE_TOPIC_POLICY_CLASS_NAME: Option<String> = "create.topic.policy.class.name",
    DEFAULT_REPLICATION_FACTOR: i32 = "default.replication.factor",
    DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS: i32 = "delete.records.purgatory.purge.interval.requests",
    DELETE_TOPIC_ENABLE: bool = "delete.topic.enable",
    EARLY_START_LISTENERS: Option<Vec<String>> = "early.start.listeners",
    FETCH_MAX_BYTES: i32 = "fetch.max.bytes",
    FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS: i32 = "fetch.purgatory.purge.interval.requests",
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS: i32 = "group.consumer.assignment.interval.ms",
    GROUP_CONSUMER_ASSIGNOR_OFFLOAD_ENABLE: bool = "group.consumer.assignor.offload.enable",
    GROUP_CONSUMER_ASSIGNORS: Vec<String> = "group.consumer.assignors",
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: i32 = "group.consumer.heartbeat.interval.ms",
    GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS: i32 = "group.consumer.max.assignment.interval.ms",
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS: i32 = "group.consumer.max.heartbeat.interval.ms",
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS: i32 = "group.consumer.max.session.timeout.ms",
    GROUP_CONSUMER_MAX_SIZE: i32 = "group.consumer.max.size",
    GROUP_CONSUMER_MIGRATION_POLICY: String = "group.consumer.migration.policy",
    GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS: i32 = "group.consumer.min.assignment.interval.ms",
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: i32 = "group.consumer.min.heartbeat.interval.ms",
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: i32 = "group.consumer.min.session.timeout.ms",
    GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS: i32 = "group.consumer.regex.refresh.interval.ms",
    GROUP_CONSUMER_SESSION_TIMEOUT_MS: i32 = "group.consumer.session.timeout.ms",
    GROUP_COORDINATOR_APPEND_LINGER_MS: i32 = "group.coordinator.append.linger.ms",
    GROUP_COORDINATOR_BACKGROUND_THREADS: i32 = "group.coordinator.background.threads",
    GROUP_COORDINATOR_CACHED_BUFFER_MAX_BYTES: i32 = "group.coordinator.cached.buffer.max.bytes",
    GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Vec<String> = "group.coordinator.rebalance.protocols",
    GROUP_COORDINATOR_THREADS: i32 = "group.coordinator.threads",
    GROUP_INITIAL_REBALANCE_DELAY_MS: i32 = "group.initial.rebalance.delay.ms",
    GROUP_MAX_SESSION_TIMEOUT_MS: i32 = "group.max.session.timeout.ms",
    GROUP_MAX_SIZE: i32 = "group.max.size",
    GROUP_MIN_SESSION_TIMEOUT_MS: i32 = "group.min.session.timeout.ms",
    INITIAL_BROKER_REGISTRATION_TIMEOUT_MS: i32 = "initial.broker.registration.timeout.ms",
    INTER_BROKER_LISTENER_NAME: Option<String> = "inter.broker.listener.name",
    INTERNAL_METADATA_DELETE_DELAY_MILLIS: i64 = "internal.metadata.delete.delay.millis",
    INTERNAL_METADATA_LOG_SEGMENT_BYTES: Option<i32> = "internal.metadata.log.segment.bytes",
    INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES: i32 = "internal.metadata.max.batch.size.in.bytes",
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: i64 = "leader.imbalance.check.interval.seconds",
    LISTENER_SECURITY_PROTOCOL_MAP: String = "listener.security.protocol.map",
    LISTENERS: Vec<String> = "listeners",
    LOG_CLEANER_BACKOFF_MS: i64 = "log.cleaner.backoff.ms",
    LOG_CLEANER_DEDUPE_BUFFER_SIZE: i64 = "log.cleaner.dedupe.buffer.size",
    LOG_CLEANER_DELETE_RETENTION_MS: i64 = "log.cleaner.delete.retention.ms",
    LOG_CLEANER_ENABLE: bool = "log.cleaner.enable",
    LOG_CLEANER_IO_BUFFER_LOAD_FACTOR: f64 = "log.cleaner.io.buffer.load.factor",
    LOG_CLEANER_IO_BUFFER_SIZE: i32 = "log.cleaner.io.buffer.size",
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND: f64 = "log.cleaner.io.max.bytes.per.second",
    LOG_CLEANER_MAX_COMPACTION_LAG_MS: i64 = "log.cleaner.max.compaction.lag.ms",
    LOG_CLEANER_MIN_CLEANABLE_RATIO: f64 = "log.cleaner.min.cleanable.ratio",
    LOG_CLEANER_MIN_COMPACTION_LAG_MS: i64 = "log.cleaner.min.compaction.lag.ms",
    LOG_CLEANER_THREADS: i32 = "log.cleaner.threads",
    LOG_CLEANUP_POLICY: Vec<String> = "log.cleanup.policy",
    LOG_DIR: Vec<String> = "log.dir",
    LOG_DIR_FAILURE_TIMEOUT_MS: i64 = "log.dir.failure.timeout.ms",
    LOG_DIRS: Option<Vec<String>> = "log.dirs",
    LOG_FLUSH_INTERVAL_MESSAGES: i64 = "log.flush.interval.messages",
    LOG_FLUSH_INTERVAL_MS: Option<i64> = "log.flush.interval.ms",
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: i32 = "log.flush.offset.checkpoint.interval.ms",
    LOG_FLUSH_SCHEDULER_INTERVAL_MS: i64 = "log.flush.scheduler.interval.ms",
    LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS: i32 = "log.flush.start.offset.checkpoint.interval.ms",
    LOG_INDEX_INTERVAL_BYTES: i32 = "log.index.interval.bytes",
    LOG_INDEX_SIZE_MAX_BYTES: i32 = "log.index.size.max.bytes",
    LOG_INITIAL_TASK_DELAY_MS: i64 = "log.initial.task.delay.ms",
    LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS: i64 = "log.message.timestamp.after.max.ms",
    LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS: i64 = "log.message.timestamp.before.max.ms",
    LOG_MESSAGE_TIMESTAMP_TYPE: String = "log.message.timestamp.type",
    LOG_PREALLOCATE: bool = "log.preallocate",
    LOG_RETENTION_BYTES: i64 = "log.retention.bytes",
    LOG_RETENTION_CHECK_INTERVAL_MS: i64 = "log.retention.check.interval.ms",
    LOG_RETENTION_HOURS: i32 = "log.retention.hours",
    LOG_RETENTION_MINUTES: Option<i32> = "log.retention.minutes",
    LOG_RETENTION_MS: Option<i64> = "log.retention.ms",
    LOG_ROLL_HOURS: i32 = "log.roll.hours",
    LOG_ROLL_JITTER_HOURS: i32 = "log.roll.jitter.hours",
    LOG_ROLL_JITTER_MS: Option<i64> = "log.roll.jitter.ms",
    LOG_ROLL_MS: Option<i64> = "log.roll.ms",
    LOG_SEGMENT_BYTES: i32 = "log.segment.bytes",
    LOG_SEGMENT_DELETE_DELAY_MS: i64 = "log.segment.delete.delay.ms",
    MAX_CONNECTION_CREATION_RATE: i32 = "max.connection.creation.rate",
    MAX_CONNECTIONS: i32 = "max.connections",
    MAX_CONNECTIONS_PER_IP: i32 = "max.connections.per.ip",
    MAX_CONNECTIONS_PER_IP_OVERRIDES: String = "max.connections.per.ip.overrides",
    MAX_DECOMPRESSED_MESSAGE_BYTES: i32 = "max.decompressed.message.bytes",
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS: i32 = "max.incremental.fetch.session.cache.slots",
    MAX_REQUEST_PARTITION_SIZE_LIMIT: i32 = "max.request.partition.size.limit",
    MESSAGE_MAX_BYTES: i32 = "message.max.bytes",
    METADATA_LOG_DIR: Option<String> = "metadata.log.dir",
    METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS: i64 = "metadata.log.max.record.bytes.between.snapshots",
    METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS: i64 = "metadata.log.max.snapshot.interval.ms",
    METADATA_LOG_SEGMENT_BYTES: i32 = "metadata.log.segment.bytes",
    METADATA_LOG_SEGMENT_MS: i64 = "metadata.log.segment.ms",
    METADATA_MAX_IDLE_INTERVAL_MS: i32 = "metadata.max.idle.interval.ms",
    METADATA_MAX_RETENTION_BYTES: i64 = "metadata.max.retention.bytes",
    METADATA_MAX_RETENTION_MS: i64 = "metadata.max.retention.ms",
    METRIC_REPORTERS: Vec<String> = "metric.reporters",
    METRICS_NUM_SAMPLES: i32 = "metrics.num.samples",
    METRICS_RECORDING_LEVEL: String = "metrics.recording.level",
    METRICS_SAMPLE_WINDOW_MS: i64 = "metrics.sample.window.ms",
    MIN_INSYNC_REPLICAS: i32 = "min.insync.replicas",
    NODE_ID: i32 = "node.id",
    NUM_IO_THREADS: i32 = "num.io.threads",
    NUM_NETWORK_THREADS: i32 = "num.network.threads",
    NUM_PARTITIONS: i32 = "num.partitions",
    NUM_RECOVERY_THREADS_PER_DATA_DIR: i32 = "num.recovery.threads.per.data.dir",
    NUM_REPLICA_ALTER_LOG_DIRS_THREADS: Option<i32> = "num.replica.alter.log.dirs.threads",
    NUM_REPLICA_FETCHERS: i32 = "num.replica.fetchers",
    OFFSET_METADATA_MAX_BYTES: i32 = "offset.metadata.max.bytes",
    OFFSETS_COMMIT_TIMEOUT_MS: i32 = "offsets.commit.timeout.ms",
    OFFSETS_LOAD_BUFFER_SIZE: i32 = "offsets.load.buffer.size",
    OFFSETS_RETENTION_CHECK_INTERVAL_MS: i64 = "offsets.retention.check.interval.ms",
    OFFSETS_RETENTION_MINUTES: i32 = "offsets.retention.minutes",
    OFFSETS_TOPIC_COMPRESSION_CODEC: i32 = "offsets.topic.compression.codec",
    OFFSETS_TOPIC_NUM_PARTITIONS: i32 = "offsets.topic.num.partitions",
    OFFSETS_TOPIC_REPLICATION_FACTOR: i16 = "offsets.topic.replication.factor",
    OFFSETS_TOPIC_SEGMENT_BYTES: i32 = "offsets.topic.segment.bytes",
    OTTLA_COMPRESSED_RECORDS_CHECK_ENABLE: bool = "ottla.compressed.records.check.enable",
    PRINCIPAL_BUILDER_CLASS: String = "principal.builder.class",
    PROCESS_ROLES: Vec<String> = "process.roles",
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: i32 = "producer.id.expiration.check.interval.ms",
    PRODUCER_ID_EXPIRATION_MS: i32 = "producer.id.expiration.ms",
    PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS: i32 = "producer.purgatory.purge.interval.requests",
    QUEUED_MAX_REQUEST_BYTES: i64 = "queued.max.request.bytes",
    QUEUED_MAX_REQUESTS: i32 = "queued.max.requests",
    REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND: Option<i64> = "replica.alter.log.dirs.io.max.bytes.per.second",
    REPLICA_FETCH_BACKOFF_MS: i32 = "replica.fetch.backoff.ms",
    REPLICA_FETCH_MAX_BYTES: i32 = "replica.fetch.max.bytes",
    REPLICA_FETCH_MIN_BYTES: i32 = "replica.fetch.min.bytes",
    REPLICA_FETCH_RESPONSE_MAX_BYTES: i32 = "replica.fetch.response.max.bytes",
    REPLICA_FETCH_WAIT_MAX_MS: i32 = "replica.fetch.wait.max.ms",
    REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS: i64 = "replica.high.watermark.checkpoint.interval.ms",
    REPLICA_LAG_TIME_MAX_MS: i64 = "replica.lag.time.max.ms",
    REPLICA_SELECTOR_CLASS: Option<String> = "replica.selector.class",
    REPLICA_SOCKET_RECEIVE_BUFFER_BYTES: i32 = "replica.socket.receive.buffer.bytes",
    REPLICA_SOCKET_TIMEOUT_MS: i32 = "replica.socket.timeout.ms",
    REQUEST_TIMEOUT_MS: i32 = "request.timeout.ms",
    SECURITY_INTER_BROKER_PROTOCOL: String = "security.inter.broker.protocol",
    SERVER_MAX_STARTUP_TIME_MS: i64 = "server.max.startup.time.ms",
    SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS: i64 = "socket.connection.setup.timeout.max.ms",
    SOCKET_CONNECTION_SETUP_TIMEOUT_MS: i64 = "socket.connection.setup.timeout.ms",
    SOCKET_LISTEN_BACKLOG_SIZE: i32 = "socket.listen.backlog.size",
    SOCKET_RECEIVE_BUFFER_BYTES: i32 = "socket.receive.buffer.bytes",
    SOCKET_REQUEST_MAX_BYTES: i32 = "socket.request.max.bytes",
    SOCKET_SEND_BUFFER_BYTES: i32 = "socket.send.buffer.bytes",
    TELEMETRY_MAX_BYTES: i32 = "telemetry.max.bytes",
    TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS: i32 = "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    TRANSACTION_MAX_TIMEOUT_MS: i32 = "transaction.max.timeout.ms",
    TRANSACTION_PARTITION_VERIFICATION_ENABLE: bool = "transaction.partition.verification.enable",
    TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS: i32 = "transaction.remove.expired.transaction.cleanup.interval.ms",
    TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE: i32 = "transaction.state.log.load.buffer.size",
    TRANSACTION_STATE_LOG_MIN_ISR: i32 = "transaction.state.log.min.isr",
    TRANSACTION_STATE_LOG_NUM_PARTITIONS: i32 = "transaction.state.log.num.partitions",
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR: i16 = "transaction.state.log.replication.factor",
    TRANSACTION_STATE_LOG_SEGMENT_BYTES: i32 = "transaction.state.log.segment.bytes",
    TRANSACTION_TWO_PHASE_COMMIT_ENABLE: bool = "transaction.two.phase.commit.enable",
    TRANSACTIONAL_ID_EXPIRATION_MS: i32 = "transactional.id.expiration.ms",
    UNCLEAN_LEADER_ELECTION_ENABLE: bool = "unclean.leader.election.enable",
    UNCLEAN_LEADER_ELECTION_INTERVAL_MS: i64 = "unclean.leader.election.interval.ms",
    UNSTABLE_API_VERSIONS_ENABLE: bool = "unstable.api.versions.enable",
    UNSTABLE_FEATURE_VERSIONS_ENABLE: bool = "unstable.feature.versions.enable",
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_constant_has_its_keys_type() {
        for (name, reads) in super::read_defaults() {
            assert!(reads, "{name} is of another type in the table");
        }
    }
}
