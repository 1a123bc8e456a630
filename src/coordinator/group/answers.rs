//! What a classic group says: answers to its members, and itself as the log has
//! it. `[P]`

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::classic::ClassicGroup;
use super::command::{Answer, Joined, JoinedMember, Synced};
use super::member::Member;
use super::records::GroupRecord;
use crate::protocol::messages::group_metadata_value::{GroupMetadataValue, MemberMetadata};
use crate::protocol::{ErrorCode, Str};
use crate::replicated::{Now, Ticket};

impl ClassicGroup {
    /// The answer to a member that is in this generation.
    pub fn joined(&self, id: &Arc<str>, lists_members: bool, skip_assignment: bool) -> Answer {
        let protocol = self.protocol.clone().unwrap_or_default();
        let members = self.members.values().filter(|_| lists_members).map(|member| JoinedMember {
            member: member.id.clone(),
            instance: member.instance_id.clone(),
            metadata: member.metadata(&protocol),
        });
        Answer::Join(Joined {
            error: ErrorCode::None,
            member: id.clone(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment,
            members: members.collect(),
        })
    }

    /// The answer to a member that gets its assignment.
    pub fn synced(&self, assignment: Bytes) -> Answer {
        Answer::Sync(Synced {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment,
        })
    }

    /// The group as the log shall have it.
    pub fn record(&self) -> GroupRecord {
        let protocol = self.protocol.clone().unwrap_or_default();
        let millis = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
        let members = self.members.values().map(|member| MemberMetadata {
            member_id: Str::from(&member.id),
            group_instance_id: member.instance_id.as_ref().map(Str::from),
            client_id: Str::from(&member.client_id),
            client_host: Str::from(&member.client_host),
            rebalance_timeout: millis(member.rebalance_timeout),
            session_timeout: millis(member.session_timeout),
            subscription: member.metadata(&protocol),
            assignment: member.assignment.clone(),
            ..MemberMetadata::default()
        });
        let value = GroupMetadataValue {
            protocol_type: self.protocol_type.as_ref().map(Str::from).unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.as_ref().map(Str::from),
            leader: self.leader.as_ref().map(Str::from),
            current_state_timestamp: self.state_since.0,
            members: members.collect(),
            ..GroupMetadataValue::default()
        };
        GroupRecord::Group { group: self.id.clone(), value: Some(value) }
    }
}

/// A member as the log has it; its session begins anew.
pub fn load_member(member: &MemberMetadata, protocol: Option<&Arc<str>>, now: Now) -> Member {
    let millis = |millis: i32| Duration::from_millis(u64::try_from(millis).unwrap_or_default());
    let session_timeout = millis(member.session_timeout);
    // Version 0 knew no rebalance timeout: the session's stood for it.
    let rebalance_timeout = if member.rebalance_timeout < 0 {
        session_timeout
    } else {
        millis(member.rebalance_timeout)
    };
    Member {
        id: Arc::from(&member.member_id),
        instance_id: member.group_instance_id.as_ref().map(Arc::from),
        client_id: Arc::from(&member.client_id),
        client_host: Arc::from(&member.client_host),
        rebalance_timeout,
        session_timeout,
        protocols: protocol
            .map(|name| (name.clone(), member.subscription.clone()))
            .into_iter()
            .collect(),
        assignment: member.assignment.clone(),
        joining: None,
        syncing: None,
        is_new: false,
        deadline: now.monotonic + session_timeout,
    }
}

/// The answer to a command whose records were refused.
pub fn failed(answer: Answer, error: ErrorCode) -> Answer {
    match answer {
        Answer::Join(joined) => refuse_join(Ticket(0), &joined.member, error).1,
        Answer::Sync(_) => refuse_sync(error),
        Answer::Done(_) => Answer::Done(error),
        Answer::Left(members) => Answer::Left(vec![error; members.len()]),
        Answer::Offsets { partitions, .. } => {
            Answer::Offsets { error, partitions: vec![error; partitions.len()] }
        }
        other @ (Answer::Fetched(_) | Answer::Described(_) | Answer::Listed(_)) => other,
    }
}

/// A JoinGroup that fails.
pub fn refuse_join(ticket: Ticket, member: &str, error: ErrorCode) -> (Ticket, Answer) {
    let answer = Joined {
        error,
        member: Arc::from(member),
        generation: -1,
        protocol_type: None,
        protocol: None,
        leader: Arc::from(""),
        skip_assignment: false,
        members: Vec::new(),
    };
    (ticket, Answer::Join(answer))
}

/// A SyncGroup that fails.
pub fn refuse_sync(error: ErrorCode) -> Answer {
    Answer::Sync(Synced { error, protocol_type: None, protocol: None, assignment: Bytes::new() })
}
