//! DescribeQuorum: who leads the metadata log, and how far its voters are (KIP-836).

use super::RequestContext;
use crate::controller::{METADATA_TOPIC, QuorumView, Voter, VoterProgress};
use crate::protocol::messages::describe_quorum_request::DescribeQuorumRequest;
use crate::protocol::messages::describe_quorum_response::{
    DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState, TopicData,
};
use crate::protocol::{ErrorCode, Str};
use crate::types::{DirectoryId, Timestamp};

/// First version that tells errors in words, directories and endpoints (KIP-853).
const TELLS_NODES: i16 = 2;

/// Answers for the one partition that has a quorum. Nobody follows the log while
/// a node is its only voter, so there are no observers.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeQuorumRequest,
) -> DescribeQuorumResponse {
    let topics = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (&*topic.topic_name, partition.partition_index))
    });
    if topics.collect::<Vec<_>>() != [(METADATA_TOPIC, 0)] {
        return unknown_partitions(&request);
    }
    let Some(quorum) = context.broker.controller.quorum() else {
        let text = "For requests intended only for the leader, this error indicates that the \
                    broker is not the current leader. For requests intended for any replica, this \
                    error indicates that the broker is not a replica of the topic partition.";
        return metadata_partition(refusal(0, ErrorCode::NotLeaderOrFollower, text));
    };
    let mut partition = partition(&quorum, context.broker.clock.wall());
    if context.api_version < TELLS_NODES {
        for voter in &mut partition.current_voters {
            voter.replica_directory_id = DirectoryId::default();
        }
        return metadata_partition(partition);
    }
    let nodes = quorum.voters.iter().map(|voter| node(&voter.voter)).collect();
    DescribeQuorumResponse { nodes, ..metadata_partition(partition) }
}

fn metadata_partition(partition: PartitionData) -> DescribeQuorumResponse {
    let topic_name = METADATA_TOPIC.into();
    let topic = TopicData { topic_name, partitions: vec![partition], ..Default::default() };
    DescribeQuorumResponse { topics: vec![topic], ..Default::default() }
}

fn partition(quorum: &QuorumView, now: Timestamp) -> PartitionData {
    let voters = quorum.voters.iter().map(|voter| replica(voter, quorum, now));
    PartitionData {
        leader_id: quorum.leader.0,
        leader_epoch: quorum.epoch.0,
        high_watermark: quorum.high_watermark.0,
        current_voters: voters.collect(),
        ..Default::default()
    }
}

/// The leader is caught up with itself at any time.
fn replica(progress: &VoterProgress, quorum: &QuorumView, now: Timestamp) -> ReplicaState {
    let key = progress.voter.key;
    let heard = if key.id == quorum.leader { now } else { Timestamp::NONE };
    ReplicaState {
        replica_id: key.id.0,
        replica_directory_id: key.directory.unwrap_or_default(),
        log_end_offset: progress.log_end.0,
        last_fetch_timestamp: heard.0,
        last_caught_up_timestamp: heard.0,
        ..Default::default()
    }
}

fn node(voter: &Voter) -> Node {
    let listeners = voter.endpoints.iter().map(|endpoint| Listener {
        name: endpoint.name.as_str().into(),
        host: endpoint.host.as_str().into(),
        port: endpoint.port,
        ..Default::default()
    });
    Node { node_id: voter.key.id.0, listeners: listeners.collect(), ..Default::default() }
}

fn unknown_partitions(request: &DescribeQuorumRequest) -> DescribeQuorumResponse {
    let text = "This server does not host this topic-partition.";
    let unknown = |index| refusal(index, ErrorCode::UnknownTopicOrPartition, text);
    let topics = request.topics.iter().map(|topic| TopicData {
        topic_name: topic.topic_name.clone(),
        partitions: topic.partitions.iter().map(|part| unknown(part.partition_index)).collect(),
        ..Default::default()
    });
    DescribeQuorumResponse { topics: topics.collect(), ..Default::default() }
}

fn refusal(partition_index: i32, error: ErrorCode, text: &str) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: error.code(),
        error_message: Some(Str::from(text)),
        ..Default::default()
    }
}
