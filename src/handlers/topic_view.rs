//! How topics, partitions and brokers look to a client of one listener. `[P]`

use crate::cluster::{BrokerRegistration, ClusterImage, PartitionRegistration};
use crate::sys::random::Random;
use crate::types::BrokerId;

/// "No leader" on the wire.
pub const NO_LEADER: i32 = -1;

/// Operations on a topic that are allowed while nobody authorizes: all that a
/// topic has, as a bit field of Kafka's operation codes (KIP-430).
pub const TOPIC_OPERATIONS: i32 = operations(&[3, 4, 5, 6, 7, 8, 10, 11]);

/// The same for the cluster.
pub const CLUSTER_OPERATIONS: i32 = operations(&[5, 7, 8, 9, 10, 11, 12]);

const fn operations(codes: &[i32]) -> i32 {
    let (mut bits, mut index) = (0, 0);
    while index < codes.len() {
        bits |= 1 << codes[index];
        index += 1;
    }
    bits
}

/// Topics that Kafka keeps for itself.
pub fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

/// The cluster as clients of one listener see it: brokers that do not have the
/// listener are not there for them.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What is committed.
    pub image: &'a ClusterImage,
    /// The listener that the client came through.
    pub listener: &'a str,
}

impl<'a> View<'a> {
    /// Brokers that the client can connect to, in order of their ids.
    pub fn brokers(self) -> impl Iterator<Item = (&'a BrokerRegistration, &'a str, i32)> {
        self.image.unfenced_brokers().filter_map(move |broker| {
            let endpoint = broker.endpoint(self.listener)?;
            Some((&**broker, &*endpoint.host, i32::from(endpoint.port)))
        })
    }

    /// Any broker that is not fenced; -1 when there is none. Clients cannot reach
    /// controllers, so one of the brokers, which all know the way, is told as
    /// controller (KIP-590).
    pub fn any_broker(self, random: &Random) -> i32 {
        let count = self.image.unfenced_brokers().count();
        let pick = usize::try_from(random.below(count as u64)).unwrap_or(0);
        self.image.unfenced_brokers().nth(pick).map_or(-1, |broker| broker.id.0)
    }

    /// Who leads, if the client can reach it.
    pub fn leader(self, partition: &PartitionRegistration) -> Option<BrokerId> {
        let leader = partition.leader?;
        self.image.broker(leader)?.endpoint(self.listener)?;
        Some(leader)
    }

    /// True when the leader is a broker that merely lacks the client's listener.
    pub fn leader_lacks_listener(self, partition: &PartitionRegistration) -> bool {
        let leader = partition.leader.and_then(|id| self.image.broker(id));
        leader.is_some_and(|broker| broker.endpoint(self.listener).is_none())
    }

    /// True when the client can reach the broker.
    pub fn is_alive(self, id: BrokerId) -> bool {
        let broker = self.image.broker(id);
        broker.is_some_and(|broker| !broker.fenced && broker.endpoint(self.listener).is_some())
    }

    /// Replicas that the client cannot reach, or whose directory has failed.
    pub fn offline_replicas(self, partition: &PartitionRegistration) -> Vec<i32> {
        let is_online = |id: BrokerId| {
            let Some(broker) = self.image.broker(id).filter(|_| self.is_alive(id)) else {
                return false;
            };
            partition.directory_of(id).is_none_or(|dir| broker.has_online_directory(dir))
        };
        let offline = partition.replicas.iter().filter(|id| !is_online(**id));
        offline.map(|id| id.0).collect()
    }
}

/// Broker ids as they stand on the wire.
pub fn ids(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|id| id.0).collect()
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::cluster::{Endpoint, SecurityProtocol, Topic, directory};

    /// Brokers 1 and 2 with a listener `PLAINTEXT`, broker 3 with another, 2 fenced.
    pub fn image() -> ClusterImage {
        let mut image = ClusterImage::empty("cluster");
        for (id, listener, fenced) in
            [(1, "PLAINTEXT", false), (2, "PLAINTEXT", true), (3, "OTHER", false)]
        {
            let broker = BrokerRegistration {
                id: BrokerId(id),
                epoch: 0,
                incarnation_id: Uuid::nil(),
                endpoints: vec![Endpoint {
                    listener: listener.into(),
                    host: format!("host{id}").into(),
                    port: 9092,
                    security_protocol: SecurityProtocol::Plaintext,
                }],
                features: std::collections::BTreeMap::new(),
                rack: None,
                fenced,
                in_controlled_shutdown: false,
                directories: vec![Uuid::from_u128(1000)],
                cordoned_directories: None,
            };
            image.brokers.insert(BrokerId(id), Arc::new(broker));
        }
        image
    }

    /// Adds a topic with one partition for each leader, replicas on 1, 2 and 3.
    pub fn add_topic(image: &mut ClusterImage, name: &str, leaders: &[Option<i32>]) -> Uuid {
        let id = Uuid::from_u128(2000 + image.topics.len() as u128);
        let partition = |leader: &Option<i32>| {
            Arc::new(PartitionRegistration {
                replicas: vec![BrokerId(1), BrokerId(2), BrokerId(3)],
                directories: vec![directory::UNASSIGNED; 3],
                isr: vec![BrokerId(1)],
                leader: leader.map(BrokerId),
                ..PartitionRegistration::default()
            })
        };
        let partitions = leaders.iter().map(partition).collect();
        let topic = Topic { name: name.into(), id, partitions };
        image.topics.insert(name.into(), Arc::new(topic));
        image.topic_names.insert(id, name.into());
        id
    }

    #[test]
    fn a_client_sees_only_what_its_listener_reaches() {
        let mut image = image();
        add_topic(&mut image, "t", &[Some(1), Some(3), None]);
        let view = View { image: &image, listener: "PLAINTEXT" };
        let hosts: Vec<_> = view.brokers().map(|(broker, host, _)| (broker.id.0, host)).collect();
        assert_eq!(hosts, [(1, "host1")]);
        let partition = |n| image.partition("t", n).unwrap();
        assert_eq!(view.leader(partition(0)), Some(BrokerId(1)));
        assert_eq!(view.leader(partition(1)), None);
        assert!(view.leader_lacks_listener(partition(1)));
        assert!(!view.leader_lacks_listener(partition(2)));
        assert_eq!(view.offline_replicas(partition(0)), [2, 3]);
    }

    #[test]
    fn operations_are_kafkas_bit_fields() {
        assert_eq!((TOPIC_OPERATIONS, CLUSTER_OPERATIONS), (3576, 8096));
    }
}
