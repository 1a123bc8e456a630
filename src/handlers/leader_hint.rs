//! Where the leader is, for clients that asked the wrong broker (KIP-951). `[P]`

use crate::cluster::{BrokerRegistration, ClusterImage};
use crate::types::{BrokerId, LeaderEpoch};

/// The leader of a partition as the metadata log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHint {
    /// The leader; -1 when there is none or the partition is unknown.
    pub leader: BrokerId,
    /// Its epoch; -1 when the partition is unknown.
    pub epoch: LeaderEpoch,
}

/// Where clients reach a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// The broker.
    pub id: BrokerId,
    /// As advertised on the listener.
    pub host: &'a str,
    /// As advertised on the listener.
    pub port: u16,
    /// `broker.rack`.
    pub rack: Option<&'a str>,
}

/// The leader of a partition.
pub fn leader_of(image: &ClusterImage, topic: &str, partition: i32) -> LeaderHint {
    match image.partition(topic, partition) {
        Some(partition) => LeaderHint {
            leader: partition.leader.unwrap_or(BrokerId(-1)),
            epoch: partition.leader_epoch,
        },
        None => LeaderHint { leader: BrokerId(-1), epoch: LeaderEpoch::NONE },
    }
}

/// The endpoints of brokers on the listener that the client came in by; those
/// that are unknown or fenced, or do not have the listener, are left out.
pub fn nodes<'a>(
    image: &'a ClusterImage,
    listener: &'a str,
    mut brokers: Vec<BrokerId>,
) -> impl Iterator<Item = Node<'a>> {
    brokers.sort_unstable();
    brokers.dedup();
    brokers.into_iter().filter_map(move |id| node(image.broker(id)?, listener))
}

fn node<'a>(broker: &'a BrokerRegistration, listener: &str) -> Option<Node<'a>> {
    if broker.fenced {
        return None;
    }
    let endpoint = broker
        .endpoints
        .iter()
        .find(|endpoint| endpoint.listener.eq_ignore_ascii_case(listener))?;
    let rack = broker.rack.as_deref();
    Some(Node { id: broker.id, host: &endpoint.host, port: endpoint.port, rack })
}
