//! The controller's machine in situations: what is asked, what is written.

mod moves;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::cluster::records::MetadataRecord;
use crate::cluster::{ClusterImage, ConfigResource, ResourceType, feature_level, features};
use crate::controller::command::{
    AlterSettings, Answer, ApiError, BrokerHeartbeat, Command, CreatePartitions, CreateTopic,
    FeatureUpdate, RegisterBroker, ReplaceSettings, SettingChange, TopicRef, UpgradeType,
};
use crate::controller::machine::ControllerMachine;
use crate::controller::machine::config_record;
use crate::controller::{ConfigRules, ControllerOptions, DirectoryAssignment};
use crate::protocol::ErrorCode;
use crate::replicated::{Decision, Machine, Now, Ticket};
use crate::sys::random::Random;
use crate::types::{BrokerId, Offset, Timestamp};

/// Knows three keys of topics; `retention.ms` takes numbers.
#[derive(Debug)]
struct FewRules;

impl ConfigRules for FewRules {
    fn is_list(&self, _: ResourceType, key: &str) -> bool {
        key == "cleanup.policy"
    }

    fn default_value(&self, _: ResourceType, key: &str) -> Option<String> {
        (key == "cleanup.policy").then(|| "delete".to_owned())
    }

    fn validate(
        &self,
        _: &ConfigResource,
        settings: &BTreeMap<Arc<str>, Arc<str>>,
        _: &BTreeMap<Arc<str>, Arc<str>>,
    ) -> Result<(), ApiError> {
        for (key, value) in settings {
            let good = match &**key {
                "retention.ms" => value.parse::<i64>().is_ok(),
                "cleanup.policy" | "min.insync.replicas" | "unclean.leader.election.enable" => true,
                _ => {
                    return Err(ApiError::new(
                        ErrorCode::InvalidConfig,
                        format!("Unknown topic config name: {key}"),
                    ));
                }
            };
            if !good {
                return Err(ApiError::new(
                    ErrorCode::InvalidConfig,
                    format!("Invalid value {value}"),
                ));
            }
        }
        Ok(())
    }
}

struct Rig {
    machine: ControllerMachine,
    now: Duration,
    last: Vec<MetadataRecord>,
}

impl Rig {
    /// An active controller over an empty log, bootstrapped with these levels.
    fn with(options: ControllerOptions, levels: &[(&str, i16)]) -> Self {
        let image = ClusterImage::empty("cluster");
        let machine =
            ControllerMachine::new(image, options, Arc::new(FewRules), Random::from_seed(1));
        let mut rig = Self { machine, now: Duration::from_secs(100), last: Vec::new() };
        let bootstrap: Vec<_> =
            levels.iter().map(|(name, level)| feature_level(name, *level).into()).collect();
        let decision = rig.machine.activate(rig.at(), &bootstrap);
        rig.carry_out(decision);
        rig
    }

    fn new() -> Self {
        Self::with(ControllerOptions::default(), &[("metadata.version", 33)])
    }

    fn at(&self) -> Now {
        Now {
            wall: Timestamp(0),
            monotonic: self.now,
            next_offset: self.machine.image().offset + 1,
        }
    }

    fn carry_out(&mut self, decision: Decision<MetadataRecord, Answer>) -> Vec<Answer> {
        for record in &decision.records {
            let offset = self.machine.image().offset + 1;
            // Through bytes, as in the log.
            let bytes = record.encode(33).unwrap();
            let record = MetadataRecord::decode(&bytes).unwrap();
            self.machine.replay(offset, &record).unwrap();
        }
        self.last = decision.records;
        decision.answers.into_iter().map(|(_, answer)| answer).collect()
    }

    fn ask(&mut self, command: Command) -> Answer {
        let decision = self.machine.decide(self.at(), Ticket(1), command);
        self.carry_out(decision).pop().unwrap()
    }

    /// What the last command wrote, a line for each record.
    fn written(&self) -> String {
        let mut text = String::new();
        for record in &self.last {
            let line = match record {
                MetadataRecord::Topic(r) => format!("topic {}", r.name),
                MetadataRecord::Partition(r) => {
                    format!("partition {} {:?} leader {}", r.partition_id, r.replicas, r.leader)
                }
                MetadataRecord::PartitionChange(r) => {
                    let mut line = format!("change {} leader {}", r.partition_id, r.leader);
                    if let Some(isr) = &r.isr {
                        write!(line, " isr {isr:?}").unwrap();
                    }
                    if let Some(directories) = &r.directories {
                        let ids: Vec<_> =
                            directories.iter().map(|id| format!("{:x}", id.as_u128())).collect();
                        write!(line, " in {ids:?}").unwrap();
                    }
                    if let Some(elr) = &r.eligible_leader_replicas {
                        write!(line, " elr {elr:?}").unwrap();
                    }
                    if let Some(replicas) = &r.replicas {
                        write!(line, " replicas {replicas:?}").unwrap();
                    }
                    if let Some(adding) = &r.adding_replicas {
                        write!(line, " adding {adding:?}").unwrap();
                    }
                    if let Some(removing) = &r.removing_replicas {
                        write!(line, " removing {removing:?}").unwrap();
                    }
                    line
                }
                MetadataRecord::Config(r) => {
                    format!(
                        "config {}:{} {}={:?}",
                        r.resource_type, r.resource_name, r.name, r.value
                    )
                }
                MetadataRecord::RegisterBroker(r) => {
                    format!("register {} epoch {} fenced {}", r.broker_id, r.broker_epoch, r.fenced)
                }
                MetadataRecord::BrokerRegistrationChange(r) => format!(
                    "broker {} fenced {} shutdown {}",
                    r.broker_id, r.fenced, r.in_controlled_shutdown
                ),
                MetadataRecord::FeatureLevel(r) => format!("{} {}", r.name, r.feature_level),
                MetadataRecord::ProducerIds(r) => format!("producer ids to {}", r.next_producer_id),
                other => format!("type {}", other.key()),
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn register(&mut self, id: i32, incarnation: u128) -> Answer {
        self.ask(Command::RegisterBroker(registration(id, incarnation, self.machine.image())))
    }

    /// Registers a broker and lets it be heard until it is unfenced.
    fn start(&mut self, id: i32, incarnation: u128) {
        let Answer::BrokerEpoch(epoch) = self.register(id, incarnation) else { panic!() };
        let offset = self.machine.image().offset;
        let answer = self.beat(id, epoch, |beat| beat.metadata_offset = offset);
        let Answer::Heartbeat(reply) = answer else { panic!("{answer:?}") };
        assert!(reply.is_caught_up && !reply.is_fenced);
    }

    fn beat(&mut self, id: i32, epoch: i64, change: impl FnOnce(&mut BrokerHeartbeat)) -> Answer {
        let mut beat = BrokerHeartbeat {
            id: BrokerId(id),
            epoch,
            metadata_offset: Offset(-1),
            want_fence: false,
            want_shut_down: false,
            offline_directories: Vec::new(),
            cordoned_directories: None,
        };
        change(&mut beat);
        self.ask(Command::Heartbeat(beat))
    }

    fn epoch(&self, id: i32) -> i64 {
        self.machine.image().broker(BrokerId(id)).unwrap().epoch
    }

    fn create(&mut self, topic: CreateTopic) -> Result<(), ApiError> {
        let answer = self.ask(Command::CreateTopics(vec![topic], false));
        let Answer::CreatedTopics(mut results) = answer else { panic!("{answer:?}") };
        results.pop().unwrap().map(|_| ())
    }
}

fn registration(id: i32, incarnation: u128, image: &ClusterImage) -> RegisterBroker {
    RegisterBroker {
        id: BrokerId(id),
        cluster_id: "cluster".into(),
        incarnation_id: Uuid::from_u128(incarnation),
        endpoints: Vec::new(),
        features: features::supported(image),
        rack: None,
        directories: vec![Uuid::from_u128(0xd000 + u128::from(id.unsigned_abs()))],
        previous_epoch: -1,
    }
}

fn topic(name: &str, partitions: i32) -> CreateTopic {
    CreateTopic { name: name.into(), partitions, replication_factor: -1, ..CreateTopic::default() }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn an_empty_log_is_bootstrapped_in_a_transaction() {
    let rig = Rig::with(
        ControllerOptions::default(),
        &[("metadata.version", 33), ("eligible.leader.replicas.version", 1)],
    );
    assert_eq!(
        rig.written(),
        "type 23\nmetadata.version 33\neligible.leader.replicas.version 1\n\
         config 4: min.insync.replicas=Some(\"1\")\ntype 24\n"
    );
    assert!(!rig.machine.image().in_transaction());
}

#[test]
fn an_open_transaction_is_aborted_by_the_next_controller() {
    let mut rig = Rig::new();
    let begin = MetadataRecord::from(
        crate::protocol::messages::begin_transaction_record::BeginTransactionRecord::default(),
    );
    rig.machine.replay(Offset(10), &begin).unwrap();
    let decision = rig.machine.activate(rig.at(), &[]);
    rig.carry_out(decision);
    assert_eq!(rig.written(), "type 25\n");
    assert_eq!(rig.machine.image().metadata_version(), 33);
}

#[test]
fn a_broker_comes_up_fenced_and_is_unfenced_when_it_has_caught_up() {
    let mut rig = Rig::new();
    let answer = rig.register(1, 7);
    assert_eq!(rig.written(), "register 1 epoch 3 fenced true\n");
    assert_eq!(answer, Answer::BrokerEpoch(3));
    let Answer::Heartbeat(reply) = rig.beat(1, 3, |_| ()) else { panic!() };
    assert_eq!((reply.is_caught_up, reply.is_fenced), (false, true));
    let Answer::Heartbeat(reply) = rig.beat(1, 3, |beat| beat.metadata_offset = Offset(3)) else {
        panic!()
    };
    assert_eq!((reply.is_caught_up, reply.is_fenced), (true, false));
    assert_eq!(rig.written(), "broker 1 fenced -1 shutdown 0\n");
    let Answer::Refused(error) = rig.beat(1, 2, |_| ()) else { panic!() };
    assert_eq!(error.code, ErrorCode::StaleBrokerEpoch);
}

#[test]
fn registrations_that_cannot_be_are_refused() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    let refused = |rig: &mut Rig, change: &dyn Fn(&mut RegisterBroker)| {
        let mut request = registration(2, 8, rig.machine.image());
        change(&mut request);
        match rig.ask(Command::RegisterBroker(request)) {
            Answer::Refused(error) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let cluster = refused(&mut rig, &|request| request.cluster_id = "other".into());
    assert!(cluster.starts_with("INCONSISTENT_CLUSTER_ID: Expected cluster ID cluster"));
    let twice = refused(&mut rig, &|request| request.id = BrokerId(1));
    assert!(twice.starts_with("DUPLICATE_BROKER_REGISTRATION"));
    let none = refused(&mut rig, &|request| request.directories.clear());
    assert_eq!(none, "INVALID_REGISTRATION: No directories specified in request");
    let taken = refused(&mut rig, &|request| request.directories = vec![Uuid::from_u128(0xd001)]);
    assert!(taken.contains("Broker 1 is already registered with directory"));
    let old = refused(&mut rig, &|request| {
        request.features.get_mut("metadata.version").unwrap().max = 30;
    });
    assert_eq!(
        old,
        "UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized \
         version 33 of metadata.version. The broker wants a version between 7 and 30, inclusive."
    );
    let unsaid = refused(&mut rig, &|request| {
        request.features.remove("metadata.version");
    });
    assert!(unsaid.starts_with("INVALID_REGISTRATION: Request features do not contain"));
}

#[test]
fn topics_are_created_grown_and_deleted() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    let settings = vec![("retention.ms".to_owned(), Some("5".to_owned()))];
    rig.create(CreateTopic { settings, ..topic("a", 2) }).unwrap();
    assert_eq!(
        rig.written(),
        "topic a\nconfig 2:a retention.ms=Some(\"5\")\npartition 0 [1] leader 1\n\
         partition 1 [1] leader 1\n"
    );
    let grow = CreatePartitions { topic: "a".into(), count: 3, assignments: None };
    assert_eq!(rig.ask(Command::CreatePartitions(vec![grow], false)), Answer::Each(vec![Ok(())]));
    assert_eq!(rig.written(), "partition 2 [1] leader 1\n");

    let id = rig.machine.image().topic("a").unwrap().id;
    let delete = vec![TopicRef::Name("a".into()), TopicRef::Id(id), TopicRef::Name("b".into())];
    let Answer::DeletedTopics(results) = rig.ask(Command::DeleteTopics(delete)) else { panic!() };
    let codes: Vec<_> = results.into_iter().map(|r| r.map_err(|e| e.code).err()).collect();
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(codes, [None, Some(ErrorCode::InvalidRequest), unknown]);
    assert_eq!(rig.written(), "type 9\n");
    assert!(rig.machine.image().configs.is_empty());
}

#[test]
fn only_judging_writes_nothing() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    let answer = rig.ask(Command::CreateTopics(vec![topic("a", 4)], true));
    let Answer::CreatedTopics(results) = answer else { panic!() };
    assert_eq!(results.first().unwrap().as_ref().unwrap().partitions, 4);
    assert_eq!(rig.written(), "");
}

#[test]
fn topics_that_cannot_be_are_refused_in_kafkas_words() {
    let mut rig = Rig::new();
    let create = |rig: &mut Rig, topic: CreateTopic| refusal(rig.create(topic));
    assert_eq!(
        create(&mut rig, topic("a", 1)),
        "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 1 time(s): All brokers are \
         currently fenced, or have all their log directories cordoned."
    );
    rig.start(1, 7);
    rig.create(topic("a.b", 1)).unwrap();
    assert_eq!(
        create(&mut rig, topic("a_b", 1)),
        "INVALID_TOPIC_EXCEPTION: Topic 'a_b' collides with existing topic: a.b"
    );
    assert_eq!(
        create(&mut rig, topic("a.b", 1)),
        "TOPIC_ALREADY_EXISTS: Topic 'a.b' already exists."
    );
    assert!(create(&mut rig, topic("ä", 1)).contains("other than ASCII alphanumerics"));
    assert!(create(&mut rig, topic("..", 1)).ends_with("'..' is not allowed"));
    assert!(create(&mut rig, topic(&"x".repeat(250), 1)).contains("max allowed length 249"));
    assert!(create(&mut rig, topic("c", 0)).starts_with("INVALID_PARTITIONS"));
    let rf = |replication_factor| CreateTopic { replication_factor, ..topic("c", 1) };
    assert!(create(&mut rig, rf(0)).starts_with("INVALID_REPLICATION_FACTOR: Replication factor"));
    assert!(create(&mut rig, rf(3)).contains("The target replication factor of 3 cannot be"));
    let settings = vec![("retention.ms".to_owned(), None)];
    assert_eq!(
        create(&mut rig, CreateTopic { settings, ..topic("c", 1) }),
        "INVALID_CONFIG: Null value not supported for topic configs: retention.ms"
    );
    let settings = vec![("retentoin.ms".to_owned(), Some("1".to_owned()))];
    let unknown = create(&mut rig, CreateTopic { settings, ..topic("c", 1) });
    assert_eq!(unknown, "INVALID_CONFIG: Unknown topic config name: retentoin.ms");

    let many = rig.ask(Command::CreateTopics(vec![topic("c", 6000), topic("d", 6000)], false));
    let Answer::Refused(error) = many else { panic!("{many:?}") };
    assert_eq!(error.code, ErrorCode::PolicyViolation);
}

#[test]
fn replicas_can_be_chosen_by_hand() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    let by_hand = |assignments: &[(i32, &[i32])]| CreateTopic {
        assignments: assignments
            .iter()
            .map(|(number, ids)| (*number, ids.iter().copied().map(BrokerId).collect()))
            .collect(),
        ..topic("m", -1)
    };
    let refused = |rig: &mut Rig, topic| refusal(rig.create(topic));
    let both = CreateTopic { partitions: 2, ..by_hand(&[(0, &[1])]) };
    assert_eq!(
        refused(&mut rig, both),
        "INVALID_REQUEST: A manual partition assignment was specified, but numPartitions was not \
         set to -1."
    );
    assert!(refused(&mut rig, by_hand(&[(0, &[])])).ends_with("an empty replica list."));
    assert!(refused(&mut rig, by_hand(&[(0, &[2])])).contains("no such broker is registered"));
    assert!(refused(&mut rig, by_hand(&[(0, &[1, 1])])).ends_with("the broker 1 more than once."));
    assert!(refused(&mut rig, by_hand(&[(1, &[1])])).ends_with("0-based integer sequence"));
    assert!(refused(&mut rig, by_hand(&[(0, &[1]), (0, &[1])])).contains("multiple manual"));
    rig.create(by_hand(&[(1, &[1]), (0, &[1])])).unwrap();
    assert_eq!(rig.written(), "topic m\npartition 0 [1] leader 1\npartition 1 [1] leader 1\n");
}

#[test]
fn growing_must_be_growing() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.create(topic("a", 2)).unwrap();
    let refused = |rig: &mut Rig, name: &str, count, assignments| {
        let request = CreatePartitions { topic: name.into(), count, assignments };
        let Answer::Each(mut results) = rig.ask(Command::CreatePartitions(vec![request], false))
        else {
            panic!()
        };
        refusal(results.pop().unwrap())
    };
    assert_eq!(refused(&mut rig, "b", 3, None), "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(
        refused(&mut rig, "a", 2, None),
        "INVALID_PARTITIONS: Topic already has 2 partition(s)."
    );
    assert_eq!(
        refused(&mut rig, "a", 1, None),
        "INVALID_PARTITIONS: The topic a currently has 2 partition(s); 1 would not be an increase."
    );
    assert_eq!(
        refused(&mut rig, "a", 4, Some(vec![vec![BrokerId(1)]])),
        "INVALID_REPLICA_ASSIGNMENT: Attempted to add 2 additional partition(s), but only 1 \
         assignment(s) were specified."
    );
    assert!(refused(&mut rig, "a", i32::MAX, None).starts_with("POLICY_VIOLATION"));
}

#[test]
fn what_topics_grow_by_together_has_a_limit() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    rig.create(topic("b", 1)).unwrap();
    let grow =
        |name: &str, count| CreatePartitions { topic: name.into(), count, assignments: None };
    let each = vec![grow("a", 6001), grow("b", 6001)];
    let answer = rig.ask(Command::CreatePartitions(each, true));
    let Answer::Refused(error) = answer else { panic!("{answer:?}") };
    assert_eq!(error.code, ErrorCode::PolicyViolation);
    let Answer::Each(results) =
        rig.ask(Command::CreatePartitions(vec![grow("a", 6001), grow("b", 4001)], true))
    else {
        panic!()
    };
    assert!(results.iter().all(Result::is_ok));
}

#[test]
fn settings_are_set_deleted_appended_and_subtracted() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    let alter = |rig: &mut Rig, resource: ConfigResource, key: &str, change: SettingChange| {
        let changes = vec![(key.to_owned(), change)];
        let command = Command::AlterSettings(vec![AlterSettings { resource, changes }], false);
        let Answer::Each(mut results) = rig.ask(command) else { panic!() };
        results.pop().unwrap()
    };
    let a = ConfigResource::topic("a");
    let append = |text: &str| SettingChange::Append(text.into());
    alter(&mut rig, a.clone(), "cleanup.policy", append("compact")).unwrap();
    assert_eq!(rig.written(), "config 2:a cleanup.policy=Some(\"delete,compact\")\n");
    alter(&mut rig, a.clone(), "cleanup.policy", append("compact,delete")).unwrap();
    assert_eq!(rig.written(), "");
    let subtract = SettingChange::Subtract("delete".into());
    alter(&mut rig, a.clone(), "cleanup.policy", subtract).unwrap();
    assert_eq!(rig.written(), "config 2:a cleanup.policy=Some(\"compact\")\n");
    let list = alter(&mut rig, a.clone(), "retention.ms", append("1"));
    assert_eq!(
        refusal(list),
        "INVALID_CONFIG: Can't APPEND to key retention.ms because its type is not LIST."
    );
    alter(&mut rig, a.clone(), "cleanup.policy", SettingChange::Delete).unwrap();
    assert!(rig.machine.image().settings(&a).is_none());

    let set = |text: &str| SettingChange::Set(text.into());
    let unknown = alter(&mut rig, ConfigResource::topic("b"), "retention.ms", set("1"));
    assert_eq!(refusal(unknown), "UNKNOWN_TOPIC_OR_PARTITION: The topic 'b' does not exist.");
    let nobody = alter(&mut rig, ConfigResource::broker(BrokerId(9)), "retention.ms", set("1"));
    assert_eq!(refusal(nobody), "BROKER_ID_NOT_REGISTERED: No node with id 9 found.");
    let name =
        alter(&mut rig, ConfigResource::new(ResourceType::Broker, "x"), "retention.ms", set("1"));
    assert!(refusal(name).starts_with("INVALID_REQUEST: Unable to parse broker name"));
    let long = alter(&mut rig, a, "retention.ms", set(&"1".repeat(40_000)));
    assert!(refusal(long).contains("exceeds the maximum value size of 32767 bytes."));

    // A broker's value is written even if it is the same.
    let all = ConfigResource::all_brokers();
    for _ in 0..2 {
        alter(&mut rig, all.clone(), "retention.ms", set("7")).unwrap();
        assert_eq!(rig.written(), "config 4: retention.ms=Some(\"7\")\n");
    }
}

#[test]
fn replacing_settings_takes_away_what_is_not_named() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    let settings = vec![
        ("retention.ms".to_owned(), Some("5".to_owned())),
        ("cleanup.policy".to_owned(), Some("compact".to_owned())),
    ];
    rig.create(CreateTopic { settings, ..topic("a", 1) }).unwrap();
    let replace = |settings: &[(&str, &str)], validate_only| {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let resource = ConfigResource::topic("a");
        Command::ReplaceSettings(vec![ReplaceSettings { resource, settings }], validate_only)
    };
    rig.ask(replace(&[("retention.ms", "6")], true));
    assert_eq!(rig.written(), "");
    rig.ask(replace(&[("retention.ms", "6")], false));
    assert_eq!(
        rig.written(),
        "config 2:a retention.ms=Some(\"6\")\nconfig 2:a cleanup.policy=None\n"
    );
}

#[test]
fn a_silent_broker_is_fenced_and_its_partitions_lose_their_leader() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    rig.now += Duration::from_secs(9);
    assert!(rig.machine.deadline().unwrap() <= rig.now);
    let decision = rig.machine.expire(rig.at());
    rig.carry_out(decision);
    assert_eq!(rig.written(), "change 0 leader -1\nbroker 1 fenced 1 shutdown 0\ntype 20\n");

    // It comes again: unfenced first, then it leads what nobody led.
    rig.start(1, 8);
    assert_eq!(rig.written(), "broker 1 fenced -1 shutdown 0\nchange 0 leader 1\n");
    let partition = rig.machine.image().partition("a", 0).unwrap();
    assert_eq!((partition.leader_epoch.0, partition.partition_epoch), (2, 2));
}

#[test]
fn a_broker_that_wants_to_stop_hands_over_first() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    let epoch = rig.epoch(1);
    let stop = |rig: &mut Rig| {
        let offset = rig.machine.image().offset;
        let answer = rig.beat(1, epoch, |beat| {
            beat.want_shut_down = true;
            beat.metadata_offset = offset;
        });
        let Answer::Heartbeat(reply) = answer else { panic!("{answer:?}") };
        reply.should_shut_down
    };
    assert!(!stop(&mut rig));
    assert_eq!(rig.written(), "broker 1 fenced 0 shutdown 1\nchange 0 leader -1\n");
    assert!(stop(&mut rig));
    assert_eq!(rig.written(), "broker 1 fenced 1 shutdown 0\n");
}

#[test]
fn two_brokers_hand_over_to_each_other() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.start(2, 8);
    let assignments = vec![(0, vec![BrokerId(1), BrokerId(2)])];
    rig.create(CreateTopic { assignments, ..topic("a", -1) }).unwrap();
    let epoch = rig.epoch(1);
    rig.beat(1, epoch, |beat| beat.want_shut_down = true);
    assert_eq!(rig.written(), "broker 1 fenced 0 shutdown 1\nchange 0 leader 2 isr [2]\n");
    // Broker 2 does not know it yet.
    let Answer::Heartbeat(reply) = rig.beat(1, epoch, |beat| beat.want_shut_down = true) else {
        panic!()
    };
    assert!(!reply.should_shut_down);
    let (offset, other) = (rig.machine.image().offset, rig.epoch(2));
    rig.beat(2, other, |beat| beat.metadata_offset = offset);
    let Answer::Heartbeat(reply) = rig.beat(1, epoch, |beat| beat.want_shut_down = true) else {
        panic!()
    };
    assert!(reply.should_shut_down);
}

#[test]
fn the_broker_of_this_process_need_not_wait_for_its_own_ghost() {
    let options =
        ControllerOptions { local_broker: Some(BrokerId(1)), ..ControllerOptions::default() };
    let mut rig = Rig::with(options, &[("metadata.version", 33)]);
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    rig.start(1, 8);
    assert_eq!(rig.machine.image().partition("a", 0).unwrap().leader, Some(BrokerId(1)));
}

#[test]
fn a_directory_that_fails_costs_its_partitions_their_leader() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    let epoch = rig.epoch(1);
    // The only directory: there is no way to say that none is left.
    let directory = Uuid::from_u128(0xd001);
    rig.beat(1, epoch, |beat| beat.offline_directories = vec![directory]);
    assert!(rig.written().starts_with("change 0 leader -1\n"));
}

#[test]
fn a_broker_with_several_directories_tells_where_its_replicas_are() {
    let mut rig = Rig::new();
    let (first, second) = (Uuid::from_u128(0xd001), Uuid::from_u128(0xd002));
    let mut broker = registration(1, 7, rig.machine.image());
    broker.directories = vec![first, second];
    let Answer::BrokerEpoch(epoch) = rig.ask(Command::RegisterBroker(broker)) else { panic!() };
    let offset = rig.machine.image().offset;
    rig.beat(1, epoch, |beat| beat.metadata_offset = offset);
    rig.create(topic("a", 2)).unwrap();
    let topic_id = rig.machine.image().topic("a").unwrap().id;
    let at = |partition, directory| DirectoryAssignment { topic_id, partition, directory };
    let strange = DirectoryAssignment { topic_id: Uuid::from_u128(1), ..at(0, first) };
    let told = vec![at(0, first), at(1, second), at(2, first), strange];
    let answer = rig.ask(Command::AssignReplicas(BrokerId(1), epoch, told.clone()));
    let codes = |answer| match answer {
        Answer::Each(results) => {
            results.into_iter().map(|r| r.err().map(|e| e.code)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let unknown = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId].map(Some);
    assert_eq!(codes(answer), [None, None, unknown[0], unknown[1]]);
    assert_eq!(
        rig.written(),
        "change 0 leader -2 in [\"d001\"]\nchange 1 leader -2 in [\"d002\"]\n"
    );
    rig.ask(Command::AssignReplicas(BrokerId(1), epoch, told));
    assert_eq!(rig.written(), "", "it is known");

    rig.beat(1, epoch, |beat| beat.offline_directories = vec![second]);
    assert_eq!(rig.written(), "change 1 leader -1\nbroker 1 fenced 0 shutdown 0\n");
    rig.ask(Command::AssignReplicas(BrokerId(1), epoch, vec![at(0, second)]));
    assert_eq!(rig.written(), "change 0 leader -1 in [\"d002\"]\n");
    let stale = rig.ask(Command::AssignReplicas(BrokerId(1), epoch + 1, Vec::new()));
    assert!(matches!(stale, Answer::Refused(error) if error.code == ErrorCode::StaleBrokerEpoch));
}

#[test]
fn with_eligible_leaders_an_unclean_stop_is_remembered() {
    let levels = [("metadata.version", 33), ("eligible.leader.replicas.version", 1)];
    let options =
        ControllerOptions { local_broker: Some(BrokerId(1)), ..ControllerOptions::default() };
    let mut rig = Rig::with(options, &levels);
    rig.start(1, 7);
    rig.create(topic("a", 1)).unwrap();
    rig.register(1, 8);
    let epoch = rig.epoch(1);
    assert_eq!(
        rig.written(),
        format!("change 0 leader -1 isr []\nregister 1 epoch {epoch} fenced true\n")
    );
    let offset = rig.machine.image().offset;
    rig.beat(1, epoch, |beat| beat.metadata_offset = offset);
    assert_eq!(rig.written(), "broker 1 fenced -1 shutdown 0\nchange 0 leader 1 isr [1]\n");

    let denied = AlterSettings {
        resource: ConfigResource::all_brokers(),
        changes: vec![("min.insync.replicas".into(), SettingChange::Delete)],
    };
    let Answer::Each(mut results) = rig.ask(Command::AlterSettings(vec![denied], false)) else {
        panic!()
    };
    assert!(refusal(results.pop().unwrap()).contains("cannot be removed while ELR is enabled"));
}

#[test]
fn producer_ids_come_in_blocks_to_brokers_of_this_epoch() {
    let mut rig = Rig::new();
    rig.start(1, 7);
    let epoch = rig.epoch(1);
    let mut firsts = Vec::new();
    for _ in 0..2 {
        let answer = rig.ask(Command::AllocateProducerIds(BrokerId(1), epoch));
        let Answer::ProducerIds(block) = answer else { panic!("{answer:?}") };
        firsts.push((block.first.0, block.len));
    }
    assert_eq!(firsts, [(0, 1000), (1000, 1000)]);
    assert_eq!(rig.written(), "producer ids to 2000\n");
    let stale = rig.ask(Command::AllocateProducerIds(BrokerId(1), epoch - 1));
    assert!(matches!(stale, Answer::Refused(error) if error.code == ErrorCode::StaleBrokerEpoch));
}

#[test]
fn a_node_without_news_says_so_every_half_second() {
    let mut rig = Rig::new();
    rig.now += Duration::from_millis(499);
    assert!(rig.machine.expire(rig.at()).records.is_empty());
    assert_eq!(rig.machine.deadline(), Some(rig.now + Duration::from_millis(1)));
    rig.now += Duration::from_millis(1);
    let decision = rig.machine.expire(rig.at());
    rig.carry_out(decision);
    assert_eq!(rig.written(), "type 20\n");
    assert_eq!(rig.machine.deadline(), Some(rig.now + Duration::from_millis(500)));
}

#[test]
fn a_setting_record_without_a_value_takes_it_away() {
    let mut rig = Rig::new();
    let resource = ConfigResource::all_brokers();
    for (value, left) in [(Some("1"), 1), (None, 0)] {
        let record = config_record(&resource, "k", value);
        let offset = rig.machine.image().offset + 1;
        rig.machine.replay(offset, &record).unwrap();
        assert_eq!(rig.machine.image().configs.len(), left);
    }
}

#[test]
fn levels_go_down_only_where_nothing_is_lost_and_up_only_where_all_follow() {
    let levels = [("metadata.version", 29), ("streams.version", 1)];
    let mut rig = Rig::with(ControllerOptions::default(), &levels);
    rig.start(1, 7);
    let update = |rig: &mut Rig, name: &str, level, upgrade| {
        let updates = vec![FeatureUpdate { name: name.into(), level, upgrade }];
        match rig.ask(Command::UpdateFeatures(updates, false)) {
            Answer::Done => rig.written(),
            Answer::Refused(error) => {
                assert_eq!(error.code, ErrorCode::InvalidUpdateVersion);
                error.message.unwrap()
            }
            other => panic!("{other:?}"),
        }
    };
    use UpgradeType::{SafeDowngrade, UnsafeDowngrade, Upgrade};
    let version = "metadata.version";
    assert_eq!(update(&mut rig, version, 33, Upgrade), "metadata.version 33\n");
    assert!(update(&mut rig, version, 34, Upgrade).contains("only supports versions 7-33"));
    let lossy = update(&mut rig, version, 31, SafeDowngrade);
    assert!(lossy.starts_with("Unsupported metadata.version downgrade from 33 to 31. Refusing"));
    assert!(update(&mut rig, version, 31, UnsafeDowngrade).contains("Unsafe metadata downgrade"));
    assert!(update(&mut rig, version, 31, Upgrade).contains("Can't downgrade the version"));
    let streams = "streams.version";
    assert!(
        update(&mut rig, "group.version", 1, Upgrade).contains("does not support this feature")
    );
    assert_eq!(update(&mut rig, streams, 0, SafeDowngrade), "streams.version 0\n");
    let unknown = update(&mut rig, "no.such.version", 0, SafeDowngrade);
    assert!(unknown.ends_with("Feature no.such.version not found."), "{unknown}");
    assert_eq!(rig.machine.image().features.get("no.such.version"), None);
    assert_eq!(rig.machine.image().feature_level(streams), 0);
    assert!(update(&mut rig, streams, 1, SafeDowngrade).contains("Local controller 1 does not"));
}
