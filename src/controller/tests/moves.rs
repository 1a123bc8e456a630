//! Elections that somebody asks for, and replicas that move.

use super::*;
use crate::controller::command::{AlterQuota, ElectionKind, PartitionRef, Reassignment};
use crate::types::TopicId;

/// Three brokers, and topic `a` with one partition on the first two.
fn three_brokers() -> Rig {
    let mut rig = Rig::new();
    for id in 1..=3 {
        rig.start(id, 7 + u128::from(id.unsigned_abs()));
    }
    let assignments = vec![(0, brokers(&[1, 2]))];
    rig.create(CreateTopic { assignments, ..topic("a", -1) }).unwrap();
    rig
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn at(topic: &str, partition: i32) -> PartitionRef {
    PartitionRef { topic: topic.into(), partition }
}

impl Rig {
    /// What the command wrote, or why its only item was refused.
    fn outcome(&mut self, command: Command) -> String {
        match self.ask(command) {
            Answer::Each(results) => match results.as_slice() {
                [Ok(())] => self.written(),
                [Err(error)] => error.to_string(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn elect(&mut self, kind: ElectionKind, topic: &str, partition: i32) -> String {
        self.outcome(Command::ElectLeaders(kind, vec![at(topic, partition)]))
    }

    fn reassign(&mut self, replicas: Option<&[i32]>, may_change_factor: bool) -> String {
        let wanted = Reassignment { at: at("a", 0), replicas: replicas.map(brokers) };
        self.outcome(Command::AlterReassignments(vec![wanted], may_change_factor))
    }

    fn topic_id(&self) -> TopicId {
        self.machine.image().topic("a").unwrap().id
    }

    /// Fences a broker and lets it come back.
    fn bounce(&mut self, id: i32) {
        self.stop(id);
        let offset = self.machine.image().offset;
        let epoch = self.epoch(id);
        self.beat(id, epoch, |beat| beat.metadata_offset = offset);
    }

    fn stop(&mut self, id: i32) {
        let epoch = self.epoch(id);
        self.beat(id, epoch, |beat| beat.want_fence = true);
    }

    /// Puts brokers in sync, as their leader would report.
    fn in_sync(&mut self, isr: &[i32]) {
        use crate::protocol::messages::partition_change_record::PartitionChangeRecord;
        let topic_id = self.topic_id();
        let isr = Some(isr.to_vec());
        let record = PartitionChangeRecord { topic_id, partition_id: 0, isr, ..Default::default() };
        let offset = self.machine.image().offset + 1;
        self.machine.replay(offset, &record.into()).unwrap();
    }
}

#[test]
fn the_preferred_leader_leads_again_when_it_is_asked_for_and_in_sync() {
    let mut rig = three_brokers();
    let preferred = ElectionKind::Preferred;
    assert_eq!(
        rig.elect(preferred, "a", 0),
        "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."
    );
    rig.bounce(1);
    assert_eq!(
        rig.elect(preferred, "a", 0),
        "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."
    );
    rig.in_sync(&[2, 1]);
    assert_eq!(rig.elect(preferred, "a", 0), "change 0 leader 1\n");
    assert_eq!(rig.elect(preferred, "b", 0), "UNKNOWN_TOPIC_OR_PARTITION: No such topic as b");
    assert_eq!(
        rig.elect(preferred, "a", 1),
        "UNKNOWN_TOPIC_OR_PARTITION: No such partition as a-1"
    );
}

#[test]
fn an_unclean_election_takes_who_is_there() {
    let mut rig = three_brokers();
    let unclean = ElectionKind::Unclean;
    assert!(rig.elect(unclean, "a", 0).starts_with("ELECTION_NOT_NEEDED"));
    rig.stop(2);
    rig.stop(1);
    assert_eq!(
        rig.elect(unclean, "a", 0),
        "ELIGIBLE_LEADERS_NOT_AVAILABLE: Eligible topic partition leaders are not available."
    );
    let (offset, epoch) = (rig.machine.image().offset, rig.epoch(2));
    rig.beat(2, epoch, |beat| beat.metadata_offset = offset);
    assert_eq!(rig.elect(unclean, "a", 0), "change 0 leader 2 isr [2]\n");
}

#[test]
fn a_reassignment_waits_for_what_is_added() {
    let mut rig = three_brokers();
    assert_eq!(
        rig.reassign(Some(&[3, 2]), true),
        "change 0 leader -2 in [\"d003\", \"d002\", \"d001\"] replicas [3, 2, 1] adding [3] \
         removing [1]\n"
    );
    rig.in_sync(&[1, 2, 3]);
    assert_eq!(
        rig.reassign(Some(&[3, 2]), true),
        "change 0 leader 3 isr [2, 3] in [\"d003\", \"d002\"] replicas [3, 2] adding [] removing []\n"
    );
    assert_eq!(rig.reassign(Some(&[3, 2]), true), "");
}

#[test]
fn another_order_and_fewer_replicas_are_done_at_once() {
    let mut rig = three_brokers();
    assert_eq!(
        rig.reassign(Some(&[2, 1]), true),
        "change 0 leader -2 in [\"d002\", \"d001\"] replicas [2, 1]\n"
    );
    assert_eq!(
        rig.reassign(Some(&[2]), false),
        "INVALID_REPLICATION_FACTOR: The replication factor is changed from 2 to 1"
    );
    assert_eq!(
        rig.reassign(Some(&[2]), true),
        "change 0 leader 2 isr [2] in [\"d002\"] replicas [2]\n"
    );
}

#[test]
fn reassignments_that_cannot_be_are_refused_in_kafkas_words() {
    let mut rig = three_brokers();
    assert_eq!(
        rig.reassign(Some(&[1, 9]), true),
        "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9, but no \
         such broker is registered."
    );
    assert!(rig.reassign(Some(&[]), true).ends_with("an empty replica list."));
    assert!(rig.reassign(Some(&[1, 1]), true).ends_with("the broker 1 more than once."));
    assert_eq!(rig.reassign(None, true), "NO_REASSIGNMENT_IN_PROGRESS");
    let mut other = |topic: &str, partition| {
        let replicas = Some(brokers(&[1]));
        let wanted = Reassignment { at: at(topic, partition), replicas };
        rig.outcome(Command::AlterReassignments(vec![wanted], true))
    };
    assert_eq!(other("b", 0), "UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named b.");
    assert_eq!(other("a", 1), "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition a:1.");
}

#[test]
fn a_reassignment_that_is_given_up_leaves_the_replicas_from_before() {
    let mut rig = three_brokers();
    rig.reassign(Some(&[3, 2]), true);
    assert_eq!(
        rig.reassign(None, true),
        "change 0 leader 1 in [\"d002\", \"d001\"] replicas [2, 1] adding [] removing []\n"
    );

    rig.reassign(Some(&[3]), true);
    rig.in_sync(&[3]);
    assert_eq!(
        rig.reassign(None, true),
        "INVALID_REPLICA_ASSIGNMENT: Unable to revert partition assignment for a:0 because it \
         would require an unclean leader election."
    );
}

#[test]
fn quotas_are_kept_and_only_changes_are_written() {
    let mut rig = Rig::new();
    let entity = |parts: &[(&str, Option<&str>)]| {
        parts.iter().map(|(kind, name)| ((*kind).into(), name.map(Into::into))).collect()
    };
    let alter = |rig: &mut Rig, parts: &[(&str, Option<&str>)], key: &str, value: Option<f64>| {
        let changes = vec![(key.into(), value)];
        let wanted = AlterQuota { entity: entity(parts), changes, is_host_known: false };
        rig.outcome(Command::AlterQuotas(vec![wanted], false))
    };
    let user = [("user", Some("a")), ("client-id", None)];
    assert_eq!(alter(&mut rig, &user, "producer_byte_rate", Some(10.0)), "type 14\n");
    assert_eq!(alter(&mut rig, &user, "producer_byte_rate", Some(10.0)), "");
    assert_eq!(rig.machine.image().security.client_quotas.len(), 1);
    assert_eq!(alter(&mut rig, &user, "request_percentage", None), "");
    assert_eq!(alter(&mut rig, &user, "producer_byte_rate", None), "type 14\n");
    assert!(rig.machine.image().security.client_quotas.is_empty());

    let mut refused = |parts: &[(&str, Option<&str>)], key: &str, value: f64| {
        let text = alter(&mut rig, parts, key, Some(value));
        text.strip_prefix("INVALID_REQUEST: ").unwrap().to_owned()
    };
    let rate = "producer_byte_rate";
    assert_eq!(refused(&[], rate, 1.0), "Invalid empty client quota entity");
    assert_eq!(refused(&[("x", None)], rate, 1.0), "Unhandled client quota entity type: x");
    assert_eq!(refused(&[("user", Some(""))], rate, 1.0), "Empty user not supported");
    assert_eq!(refused(&user, "no_rate", 1.0), "Invalid configuration key no_rate");
    assert_eq!(refused(&user, rate, 0.0), "Quota producer_byte_rate must be greater than 0");
    assert!(refused(&user, rate, 1.5).ends_with("cannot be a fractional value."));
    assert!(refused(&user, rate, 1e19).ends_with("is too large for a LONG."));
    let address = [("ip", Some("nowhere"))];
    assert!(refused(&address, "connection_creation_rate", 1.0).starts_with("nowhere is not a"));
    assert!(refused(&[user[0], address[0]], rate, 1.0).starts_with("Invalid quota entity comb"));

    let wanted = AlterQuota { entity: entity(&user), changes: Vec::new(), is_host_known: true };
    let answer = rig.ask(Command::AlterQuotas(vec![wanted.clone(), wanted], false));
    let Answer::Each(results) = answer else { panic!("{answer:?}") };
    assert_eq!(
        refusal(results[1].clone()),
        "INVALID_REQUEST: Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, \
         user=a})"
    );
}
