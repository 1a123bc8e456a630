//! What groups are asked, and what they answer. `[P]`

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::member::Protocols;
use crate::protocol::ErrorCode;
use crate::types::{LeaderEpoch, Offset};

/// A command to the groups of one shard. Strings and bytes are copies: nothing
/// here keeps a request's frame alive.
#[derive(Clone, Debug)]
pub enum Command {
    /// JoinGroup.
    Join(Join),
    /// SyncGroup.
    Sync(Sync),
    /// Heartbeat.
    Heartbeat(Identity),
    /// LeaveGroup, of one or many.
    Leave {
        /// The group.
        group: Arc<str>,
        /// Who leaves.
        members: Vec<Leaver>,
    },
    /// OffsetCommit.
    Commit(Commit),
    /// OffsetFetch of one group.
    FetchOffsets {
        /// The group.
        group: Arc<str>,
        /// Which partitions; all that are committed when there is none.
        partitions: Option<Vec<WantedOffset>>,
    },
    /// DescribeGroups, one group.
    Describe(Arc<str>),
    /// ListGroups.
    List,
    /// DeleteGroups, one group.
    Delete(Arc<str>),
    /// OffsetDelete.
    DeleteOffsets {
        /// The group.
        group: Arc<str>,
        /// Which partitions.
        partitions: Vec<(Arc<str>, i32)>,
    },
    /// Topics are gone: so are the offsets committed for them.
    TopicsDeleted(Vec<(Arc<str>, Uuid)>),
}

/// A partition whose offset is asked for.
#[derive(Clone, Debug)]
pub struct WantedOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// Its id, when the client knows it: what was committed for a topic of that
    /// name before is not meant.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
}

/// Who speaks, and of which generation.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The group.
    pub group: Arc<str>,
    /// The member.
    pub member: Arc<str>,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// The generation it believes in; -1 for none.
    pub generation: i32,
}

/// A request to join.
#[derive(Clone, Debug)]
pub struct Join {
    /// The group.
    pub group: Arc<str>,
    /// The member's id; empty for a newcomer.
    pub member: Arc<str>,
    /// What the newcomer shall be called, made up by the caller since a machine
    /// has no dice.
    pub fresh_id: Uuid,
    /// Its static identity.
    pub instance: Option<Arc<str>>,
    /// Its client's name.
    pub client_id: Arc<str>,
    /// Its address.
    pub client_host: Arc<str>,
    /// How long it may take to join again.
    pub rebalance_timeout: Duration,
    /// How long it may stay silent.
    pub session_timeout: Duration,
    /// `consumer`, `connect`, …
    pub protocol_type: Arc<str>,
    /// Its strategies, the preferred one first.
    pub protocols: Protocols,
    /// A newcomer is first told its id and joins again with it (KIP-394).
    pub member_id_required: bool,
    /// The client knows that a leader may have nothing to assign (KIP-814).
    pub can_skip_assignment: bool,
}

/// A request for the assignment, and from the leader the assignment itself.
#[derive(Clone, Debug)]
pub struct Sync {
    /// Who asks.
    pub identity: Identity,
    /// What the member thinks the group's type is; unchecked when missing.
    pub protocol_type: Option<Arc<str>>,
    /// What the member thinks the strategy is; unchecked when missing.
    pub protocol: Option<Arc<str>>,
    /// From the leader: each member's part.
    pub assignments: Vec<(Arc<str>, Bytes)>,
}

/// Somebody who leaves: by member id, by static identity, or both.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// The member id; empty when only the static identity is known.
    pub member: Arc<str>,
    /// The static identity.
    pub instance: Option<Arc<str>>,
}

/// Offsets to commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Who commits; member empty and generation -1 for one outside the group's
    /// management.
    pub identity: Identity,
    /// The offsets.
    pub offsets: Vec<PartitionCommit>,
    /// How long they shall be kept, from clients that still say so.
    pub retention: Option<Duration>,
    /// What a group that does not exist is answered with: it depends on the
    /// request's version.
    pub unknown_group: ErrorCode,
}

/// The offset of one partition to commit.
#[derive(Clone, Debug)]
pub struct PartitionCommit {
    /// The topic.
    pub topic: Arc<str>,
    /// The topic's id; nil when unknown.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: Offset,
    /// Leader epoch of the last record read.
    pub leader_epoch: LeaderEpoch,
    /// Whatever the client notes down.
    pub metadata: Arc<str>,
}

/// What a group answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To Join.
    Join(Joined),
    /// To Sync.
    Sync(Synced),
    /// To Heartbeat, Delete, TopicsDeleted.
    Done(ErrorCode),
    /// To Leave: for each in the order asked.
    Left(Vec<ErrorCode>),
    /// To Commit and DeleteOffsets: for the whole, and for each in the order
    /// asked.
    Offsets {
        /// The group as a whole.
        error: ErrorCode,
        /// Each partition.
        partitions: Vec<ErrorCode>,
    },
    /// To FetchOffsets.
    Fetched(Vec<FetchedOffset>),
    /// To Describe; none when there is no such group.
    Described(Option<Description>),
    /// To List.
    Listed(Vec<Listing>),
}

/// The answer to a member that joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// The generation that begins, or why none does.
    pub error: ErrorCode,
    /// The member's id from now on.
    pub member: Arc<str>,
    /// The generation; -1 with an error.
    pub generation: i32,
    /// The group's type.
    pub protocol_type: Option<Arc<str>>,
    /// The strategy elected.
    pub protocol: Option<Arc<str>>,
    /// Who assigns.
    pub leader: Arc<str>,
    /// The leader has nothing to assign.
    pub skip_assignment: bool,
    /// For the leader: everybody's subscription.
    pub members: Vec<JoinedMember>,
}

/// One member as the leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMember {
    /// Member id.
    pub member: Arc<str>,
    /// Static identity.
    pub instance: Option<Arc<str>>,
    /// Subscription.
    pub metadata: Bytes,
}

/// The answer to a Sync.
#[derive(Clone, Debug, PartialEq)]
pub struct Synced {
    /// Why there is no assignment.
    pub error: ErrorCode,
    /// The group's type.
    pub protocol_type: Option<Arc<str>>,
    /// The strategy.
    pub protocol: Option<Arc<str>>,
    /// The member's part.
    pub assignment: Bytes,
}

/// A committed offset; -1 where there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub offset: Offset,
    /// Leader epoch of the last record read.
    pub leader_epoch: LeaderEpoch,
    /// What the client noted down.
    pub metadata: Arc<str>,
}

/// A group, as administrators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// `Stable`, `Empty`, …
    pub state: &'static str,
    /// `consumer`, …; empty for a group that only commits.
    pub protocol_type: Arc<str>,
    /// The strategy while stable, else empty.
    pub protocol: Arc<str>,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member, as administrators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedMember {
    /// Member id.
    pub member: Arc<str>,
    /// Static identity.
    pub instance: Option<Arc<str>>,
    /// Its client's name.
    pub client_id: Arc<str>,
    /// Its address.
    pub client_host: Arc<str>,
    /// Subscription, while the group is stable.
    pub metadata: Bytes,
    /// Assignment, the last that it had.
    pub assignment: Bytes,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// Its id.
    pub group: Arc<str>,
    /// `consumer`, …; empty for a group that only commits.
    pub protocol_type: Arc<str>,
    /// `Stable`, `Empty`, …
    pub state: &'static str,
}
