//! From a request to its answer: one file per API, and here the one list of them.
//!
//! [`handle`] reads the header, finds the API, and runs its handler on the task
//! that read the frame. What cannot be served (an API without a handler, a version
//! outside its range, a body that cannot be read) closes the connection, as Kafka
//! does, with a line in the log; only ApiVersions answers an unknown version.
//!
//! A new API is a file here and a line in the list below; that line also makes
//! ApiVersions tell it. A request is dropped when its client hangs up, so a handler
//! must leave sound state at each of its awaits.

mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alteration;
mod api_versions;
mod assign_replicas_to_dirs;
mod auto_creation;
mod config_view;
mod controller_call;
mod create_acls;
mod create_delegation_token;
mod create_partitions;
mod create_topics;
#[cfg(test)]
mod data_tests;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_delegation_token;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_user_scram_credentials;
mod each_resource;
mod elect_leaders;
pub mod error_code;
mod expire_delegation_token;
mod fetch;
mod fetch_answer;
mod fetch_live;
mod fetch_session;
mod find_coordinator;
mod group_answers;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leader_hint;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod metadata_answers;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod once;
mod produce;
mod produce_answer;
mod renew_delegation_token;
mod sync_group;
mod topic_view;
mod unregister_broker;
mod update_features;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tracing::{error, warn};

pub use self::fetch_live::FetchSessions;
pub use self::init_producer_id::ProducerIds;
pub use self::metadata_answers::MetadataAnswers;
use crate::cluster::{ClusterImage, VersionRange};
use crate::config::RuntimeConfig;
use crate::controller::Controller;
use crate::coordinator::GroupCoordinator;
use crate::log::store::LogStore;
use crate::network::{ConnectionInfo, PendingReply, Reply};
use crate::partition::moves::Moves;
use crate::partition::table::PartitionTable;
use crate::protocol::apis::{Api, ListenerKind};
use crate::protocol::request::{RequestError, RequestHeader};
use crate::protocol::{ErrorCode, Message, Reader, response};
use crate::sys::clock::Clock;
use crate::sys::random::Random;
use crate::types::BrokerId;

/// The parts of a running broker that handlers work with.
#[derive(Debug)]
pub struct BrokerParts {
    /// `node.id`.
    pub node_id: BrokerId,
    /// The cluster's id, as `meta.properties` holds it.
    pub cluster_id: Arc<str>,
    /// Settings in force; take `current()` once per request.
    pub config: RuntimeConfig,
    /// The cluster as far as its changes have taken effect on this broker: what
    /// clients are told.
    pub image: watch::Sender<Arc<ClusterImage>>,
    /// Decides on changes of metadata; its image may be a moment ahead.
    pub controller: Controller,
    /// The partitions that have a replica here.
    pub partitions: PartitionTable,
    /// Where the logs are.
    pub log_store: Arc<LogStore>,
    /// Replicas on their way to other log directories.
    pub moves: Arc<Moves>,
    /// What clients of incremental fetches want.
    pub fetch_sessions: FetchSessions,
    /// Coordinates the groups whose shards this broker leads.
    pub groups: GroupCoordinator,
    /// Ids for producers.
    pub producer_ids: ProducerIds,
    /// Answers that many clients are given.
    pub metadata_answers: MetadataAnswers,
    /// Feature levels that this node can work with.
    pub features: BTreeMap<Arc<str>, VersionRange>,
    /// Time for stamps and deadlines.
    pub clock: Arc<dyn Clock>,
    /// Dice, seeded in tests.
    pub random: Random,
}

/// One request: who asks, in which version, and the broker that is asked.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    /// The broker's parts.
    pub broker: &'a BrokerParts,
    /// The connection that the request came in on.
    pub connection: &'a ConnectionInfo,
    /// The client's name for itself; empty when it sent null.
    pub client_id: &'a str,
    /// Version of the request, within what [`crate::protocol::apis`] serves.
    pub api_version: i16,
    /// Monotonic time of arrival: deadlines count from here.
    pub received: Duration,
}

impl RequestContext<'_> {
    /// The cluster as clients are told of it: what it says has taken effect here,
    /// so that a partition that is led by this broker can be written to at once.
    /// Take it once per request.
    pub fn image(&self) -> Arc<ClusterImage> {
        Arc::clone(&self.broker.image.borrow())
    }

    /// Waits until all that is committed by now has taken effect here.
    pub async fn caught_up(&self) {
        let committed = self.broker.controller.image().offset;
        let mut image = self.broker.image.subscribe();
        // The sender lives as long as the broker.
        let _ = image.wait_for(|image| image.offset >= committed).await;
    }
}

/// The error for a partition without a replica here: does the cluster have it?
fn not_here(context: &RequestContext<'_>, topic: &str, partition: i32) -> ErrorCode {
    match context.image().partition(topic, partition) {
        Some(_) => ErrorCode::NotLeaderOrFollower,
        None => ErrorCode::UnknownTopicOrPartition,
    }
}

/// What a handler makes of a request that is not always answered. The others
/// simply return their response.
#[derive(Debug)]
pub enum Outcome<R> {
    /// This answer.
    Answer(R),
    /// This answer, whose body is encoded already.
    Encoded(Bytes),
    /// No answer, and the connection goes on.
    Silence,
    /// No answer, and the connection is closed; why, for the log.
    Close(String),
}

/// Lists the APIs that have a handler: `Api => module, listeners;`. The module has
/// `async fn handle(&RequestContext<'_>, XRequest) -> XResponse`; with `outcome` in
/// front its result is an [`Outcome`].
macro_rules! handlers {
    ($($api:ident => $($kind:ident)? ($module:ident), $($listener:ident)+;)*) => {
        /// True when requests of the API are handled on listeners of that kind.
        pub fn is_served(api: Api, on: ListenerKind) -> bool {
            match api {
                $(Api::$api => [$(ListenerKind::$listener),+].contains(&on),)*
                _ => false,
            }
        }

        fn dispatch(call: Call, mut body: Reader) -> PendingReply {
            match call.header.api {
                $(Api::$api => answer!($($kind)? call, body, $module),)*
                _ => Box::pin(std::future::ready(call.unserved())),
            }
        }
    };
}

macro_rules! answer {
    ($call:ident, $body:ident, $module:ident) => {
        Box::pin(async move {
            match $call.header.body(&mut $body) {
                Ok(request) => $call.reply(&$module::handle(&$call.context(), request).await),
                Err(error) => $call.refuse(&error),
            }
        })
    };
    (outcome $call:ident, $body:ident, $module:ident) => {
        Box::pin(async move {
            match $call.header.body(&mut $body) {
                Ok(request) => match $module::handle(&$call.context(), request).await {
                    Outcome::Answer(response) => $call.reply(&response),
                    Outcome::Encoded(body) => $call.reply_encoded(&body),
                    Outcome::Silence => Reply::Silence,
                    Outcome::Close(reason) => $call.close(&reason),
                },
                Err(error) => $call.refuse(&error),
            }
        })
    };
}

handlers! {
    Produce => outcome (produce), Broker;
    Fetch => (fetch), Broker;
    ListOffsets => (list_offsets), Broker;
    Metadata => outcome (metadata), Broker;
    OffsetCommit => (offset_commit), Broker;
    OffsetFetch => (offset_fetch), Broker;
    FindCoordinator => (find_coordinator), Broker;
    JoinGroup => (join_group), Broker;
    Heartbeat => (heartbeat), Broker;
    LeaveGroup => (leave_group), Broker;
    SyncGroup => (sync_group), Broker;
    DescribeGroups => (describe_groups), Broker;
    ListGroups => (list_groups), Broker;
    ApiVersions => (api_versions), Broker Controller;
    CreateTopics => (create_topics), Broker Controller;
    DeleteTopics => (delete_topics), Broker Controller;
    DeleteRecords => (delete_records), Broker;
    InitProducerId => (init_producer_id), Broker;
    OffsetForLeaderEpoch => (offset_for_leader_epoch), Broker;
    DescribeAcls => outcome (describe_acls), Broker Controller;
    CreateAcls => outcome (create_acls), Broker Controller;
    DeleteAcls => outcome (delete_acls), Broker Controller;
    DescribeConfigs => (describe_configs), Broker Controller;
    AlterConfigs => (alter_configs), Broker Controller;
    AlterReplicaLogDirs => (alter_replica_log_dirs), Broker;
    DescribeLogDirs => (describe_log_dirs), Broker;
    CreatePartitions => (create_partitions), Broker Controller;
    CreateDelegationToken => (create_delegation_token), Broker;
    RenewDelegationToken => (renew_delegation_token), Broker;
    ExpireDelegationToken => (expire_delegation_token), Broker;
    DescribeDelegationToken => (describe_delegation_token), Broker;
    DeleteGroups => (delete_groups), Broker;
    ElectLeaders => (elect_leaders), Broker Controller;
    IncrementalAlterConfigs => (incremental_alter_configs), Broker Controller;
    AlterPartitionReassignments => (alter_partition_reassignments), Broker Controller;
    ListPartitionReassignments => (list_partition_reassignments), Broker Controller;
    OffsetDelete => (offset_delete), Broker;
    DescribeClientQuotas => (describe_client_quotas), Broker;
    AlterClientQuotas => (alter_client_quotas), Broker Controller;
    DescribeUserScramCredentials => (describe_user_scram_credentials), Broker Controller;
    DescribeQuorum => (describe_quorum), Broker Controller;
    DescribeCluster => (describe_cluster), Broker Controller;
    ListConfigResources => (list_config_resources), Broker;
    DescribeProducers => (describe_producers), Broker;
    UpdateFeatures => (update_features), Broker Controller;
    AssignReplicasToDirs => (assign_replicas_to_dirs), Controller;
    DescribeTopicPartitions => (describe_topic_partitions), Broker;
    UnregisterBroker => (unregister_broker), Broker Controller;
}

/// Answers one frame. The dispatcher that listeners are given.
pub fn handle(
    parts: &Arc<BrokerParts>,
    connection: Arc<ConnectionInfo>,
    frame: Bytes,
) -> PendingReply {
    let received = parts.clock.monotonic();
    let mut body = Reader::new(frame);
    let header = match RequestHeader::decode(&mut body) {
        Ok(header) => header,
        Err(error) => {
            warn!("Closing connection from {connection}: {error}");
            return Box::pin(std::future::ready(Reply::Close));
        }
    };
    let call = Call { parts: parts.clone(), connection, header, received };
    if !is_served(call.header.api, call.connection.listener.kind) {
        return Box::pin(std::future::ready(call.unserved()));
    }
    if call.header.api == Api::ApiVersions && !call.has_served_version() {
        return Box::pin(std::future::ready(call.unknown_api_versions()));
    }
    dispatch(call, body)
}

/// A request whose header has been read: what its answer needs.
struct Call {
    parts: Arc<BrokerParts>,
    connection: Arc<ConnectionInfo>,
    header: RequestHeader,
    received: Duration,
}

impl Call {
    fn context(&self) -> RequestContext<'_> {
        RequestContext {
            broker: &self.parts,
            connection: &self.connection,
            client_id: self.header.client_id.as_deref().unwrap_or_default(),
            api_version: self.header.api_version,
            received: self.received,
        }
    }

    fn has_served_version(&self) -> bool {
        self.header.api.versions().contains(&self.header.api_version)
    }

    fn reply<R: Message>(&self, response: &R) -> Reply {
        self.reply_in(self.header.api_version, response)
    }

    fn reply_in<R: Message>(&self, version: i16, response: &R) -> Reply {
        let header = &self.header;
        match response::encode(header.api, version, header.correlation_id, response) {
            Ok(chunks) => Reply::Answer(chunks),
            Err(error) => {
                error!("Answer to {} version {version} cannot be written: {error}", header.api);
                Reply::Close
            }
        }
    }

    fn reply_encoded(&self, body: &Bytes) -> Reply {
        let header = &self.header;
        let mut writer = response::begin(header.api, header.api_version, header.correlation_id);
        writer.put_shared(body);
        Reply::Answer(writer.finish())
    }

    /// KIP-511: a client may not know any version that we know. The answer is one
    /// that every client can read.
    fn unknown_api_versions(&self) -> Reply {
        self.reply_in(0, &api_versions::unsupported_version())
    }

    fn unserved(&self) -> Reply {
        let api = self.header.api;
        self.close(&format!("{api} is not served on this listener"))
    }

    fn refuse(&self, error: &RequestError) -> Reply {
        match error {
            RequestError::Malformed(reason) => {
                let RequestHeader { api, api_version, .. } = self.header;
                self.close(&format!("malformed {api} request of version {api_version}: {reason}"))
            }
            _ => self.close(&error.to_string()),
        }
    }

    fn close(&self, reason: &str) -> Reply {
        let client = self.header.client_id.as_deref().unwrap_or_default();
        warn!("Closing connection from {} (client id {client:?}): {reason}", self.connection);
        Reply::Close
    }
}
