//! Row krafka (MIT or Apache-2.0): a client with producers, groups and administration that is Rust throughout.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use compat_clients::{Failure, Outcome, expect, now, run, values};
use futures::future::{join_all, try_join_all};
use krafka::admin::{
    AdminClient, ConfigEntry, ConfigOp, ConfigResource, NewTopic, OffsetSpec, TopicPartition,
};
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerBuilder, ConsumerRebalanceListener, OffsetAndMetadata,
    PartitionAssignmentStrategy,
};
use krafka::producer::{Acks, ProducerBuilder};
use krafka::{Compression, ConsumerRecord, Kafka, KrafkaError, Record};

const WAIT: Duration = Duration::from_secs(30);
const TOPIC_CONFIG: i8 = 1;

fn plain(topic: &str, partition: i32, value: impl Into<String>) -> Record {
    Record::new(topic, value.into()).partition(partition)
}

/// The name and text of the error with which a call ends.
fn refusal<T>(answer: krafka::Result<T>) -> String {
    match answer {
        Ok(_) => "NoError".to_owned(),
        Err(KrafkaError::Broker { code, message }) => format!("{code:?} {message}"),
        Err(error) => error.to_string(),
    }
}

/// The one answer about the one thing that was asked for.
fn only<K, T>(answers: impl IntoIterator<Item = (K, krafka::Result<T>)>) -> krafka::Result<T> {
    match answers.into_iter().next() {
        Some((_, answer)) => answer,
        None => Err(KrafkaError::illegal_state("no answer")),
    }
}

/// Notes what a member of a group is given and what is taken from it.
#[derive(Clone, Default)]
struct Changes(Arc<Mutex<Vec<String>>>);

impl Changes {
    fn note(&self, sign: char, partitions: &[TopicPartition]) {
        if let (false, Ok(mut all)) = (partitions.is_empty(), self.0.lock()) {
            all.push(format!("{sign}{}", partitions.len()));
        }
    }

    fn text(&self) -> String {
        self.0.lock().map(|all| all.join(" ")).unwrap_or_default()
    }
}

impl ConsumerRebalanceListener for Changes {
    async fn on_partitions_assigned(&self, partitions: &[TopicPartition]) {
        self.note('+', partitions);
    }

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        self.note('-', partitions);
    }

    async fn on_partitions_lost(&self, partitions: &[TopicPartition]) {
        self.note('!', partitions);
    }
}

struct Member {
    consumer: Consumer,
    changes: Changes,
}

impl Member {
    /// A moment of work: what it read, as (partition, offset). It is long enough for the group to come to terms in it,
    /// for a heartbeat that waits behind its own member's JoinGroup is of the generation before, and a poll that begins
    /// between its refusal and the end of the rebalance takes all that the member owns for lost.
    async fn poll(&self) -> Outcome<Vec<(i32, i64)>> {
        let records = self.consumer.poll(Duration::from_secs(1)).await?;
        Ok(records.iter().map(|each| (each.partition, each.offset)).collect())
    }

    async fn owned(&self) -> BTreeSet<(String, i32)> {
        self.consumer
            .assignment()
            .await
            .into_iter()
            .flat_map(|(topic, all)| all.into_iter().map(move |each| (topic.clone(), each)))
            .collect()
    }

    async fn commit(&self, topic: &str, offsets: &[(i32, i64)]) -> String {
        let offsets = offsets.iter().map(|(partition, offset)| {
            (TopicPartition::new(topic, *partition), OffsetAndMetadata::new(*offset))
        });
        refusal(self.consumer.commit_offsets(offsets).await)
    }

    async fn read(&self, count: usize) -> Outcome<Vec<(i32, i64)>> {
        let (mut seen, begun) = (Vec::new(), Instant::now());
        while seen.len() < count && begun.elapsed() < WAIT {
            seen.extend(self.poll().await?);
        }
        seen.sort_unstable();
        Ok(seen)
    }
}

/// Lets the members work, all at the same time, until they own so many partitions each, none of them twice.
async fn settle(members: &[&Member], counts: &[usize]) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < WAIT {
        try_join_all(members.iter().map(|member| member.poll())).await?;
        let owned = join_all(members.iter().map(|member| member.owned())).await;
        let all: BTreeSet<_> = owned.iter().flatten().collect();
        if owned.iter().map(BTreeSet::len).eq(counts.iter().copied())
            && all.len() == counts.iter().sum::<usize>()
        {
            return Ok(());
        }
    }
    Err(Failure::Wrong(format!(
        "not settled: {:?}",
        members.iter().map(|member| member.changes.text()).collect::<Vec<_>>()
    )))
}

async fn connected(address: &str) -> krafka::Result<Kafka> {
    Kafka::builder(address).connect().await
}

struct Row {
    address: String,
    kafka: Kafka,
    admin: AdminClient,
}

impl Row {
    async fn make(&self, topic: NewTopic) -> krafka::Result<()> {
        only(self.admin.create_topics([topic], Default::default()).await?)
    }

    async fn create(&self, topic: &str, partitions: i32) -> Outcome<()> {
        Ok(self.make(NewTopic::new(topic, partitions, 1)?).await?)
    }

    /// Sends all and returns the offsets, or the first error.
    async fn produce(
        &self,
        sent: Vec<Record>,
        settings: impl FnOnce(ProducerBuilder) -> ProducerBuilder,
    ) -> krafka::Result<Vec<i64>> {
        let builder = self.kafka.producer().linger(Duration::from_millis(20));
        let producer = settings(builder.max_request_size(2_000_000)).build().await?;
        let mut deliveries = Vec::new();
        for record in sent {
            deliveries.push(producer.enqueue(record).await?);
        }
        let mut offsets = Vec::new();
        for delivery in deliveries {
            offsets.push(delivery.await.map(|delivered| delivered.offset));
        }
        producer.close().await?;
        offsets.into_iter().collect()
    }

    async fn fill(&self, topic: &str, partitions: i32, count: usize) -> Outcome<()> {
        self.create(topic, partitions).await?;
        let sent = (0..partitions)
            .flat_map(|partition| {
                values(topic, count).into_iter().map(move |value| plain(topic, partition, value))
            })
            .collect();
        self.produce(sent, |producer| producer).await?;
        Ok(())
    }

    async fn reader(&self, topic: &str, partition: i32, offset: i64) -> Outcome<Consumer> {
        let builder = self.kafka.consumer_without_group();
        let consumer = builder.auto_offset_reset(AutoOffsetReset::Earliest).build().await?;
        consumer.assign(topic, vec![partition]).await?;
        consumer.seek(topic, partition, offset).await?;
        Ok(consumer)
    }

    async fn read(
        &self,
        topic: &str,
        partition: i32,
        count: usize,
    ) -> Outcome<Vec<ConsumerRecord>> {
        let (consumer, begun) = (self.reader(topic, partition, 0).await?, Instant::now());
        let mut seen = Vec::new();
        while seen.len() < count {
            if begun.elapsed() > WAIT {
                return Err(Failure::Wrong(format!("read {} of {count}", seen.len())));
            }
            seen.extend(consumer.poll(Duration::from_secs(1)).await?);
        }
        consumer.close().await?;
        Ok(seen)
    }

    async fn payloads(&self, topic: &str, partition: i32, count: usize) -> Outcome<Vec<String>> {
        let seen = self.read(topic, partition, count).await?;
        Ok(seen.iter().map(|each| each.value_str().unwrap_or_default().to_owned()).collect())
    }

    /// A member with connections of its own: all clients of one `Kafka` share theirs, where a member's JoinGroup, which
    /// waits for the other, would hold up the heartbeats by which the other is to hear of it.
    async fn member(
        &self,
        group: &str,
        topics: &[&str],
        settings: impl FnOnce(ConsumerBuilder) -> ConsumerBuilder,
    ) -> Outcome<Member> {
        let changes = Changes::default();
        let kafka = connected(&self.address).await?;
        let builder = kafka
            .consumer(group)
            .enable_auto_commit(false)
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .heartbeat_interval(Duration::from_secs(1))
            .session_timeout(Duration::from_secs(20))
            .partition_assignment_strategy(PartitionAssignmentStrategy::Range)
            .rebalance_listener(changes.clone());
        let consumer = settings(builder).build().await?;
        consumer.subscribe(topics).await?;
        Ok(Member { consumer, changes })
    }

    // ---- operations

    async fn connect(&self) -> Outcome {
        let cluster = self.admin.describe_cluster(Default::default()).await?;
        let nodes: Vec<i32> = cluster.brokers.iter().map(|broker| broker.id).collect();
        Ok(format!("cluster {}, nodes {nodes:?}", cluster.cluster_id))
    }

    async fn create_topic(&self) -> Outcome {
        self.make(NewTopic::new("matrix", 3, 1)?.with_config("retention.ms", "3600000")).await?;
        let mut refused = Vec::new();
        for bad in [
            NewTopic::new("matrix", 3, 1)?,
            NewTopic::new("too.many", 1, 3)?,
            NewTopic::new("config", 1, 1)?.with_config("retention.ms", "soon"),
            NewTopic::new("key", 1, 1)?.with_config("no.such.key", "1"),
        ] {
            refused.push(refusal(self.make(bad).await));
        }
        Ok(format!("refused {}", refused.join("; ")))
    }

    async fn describe(&self) -> Outcome {
        let matrix = only(self.admin.describe_topics(["matrix"], Default::default()).await?)?;
        let nowhere = only(self.admin.describe_topics(["nowhere"], Default::default()).await?);
        let partitions: Vec<String> = matrix
            .partitions
            .iter()
            .map(|each| {
                format!(
                    "{} leader {:?} epoch {:?} replicas {:?} isr {:?}",
                    each.partition, each.leader, each.leader_epoch, each.replicas, each.isr
                )
            })
            .collect();
        Ok(format!("{}; nowhere {}", partitions.join("; "), refusal(nowhere)))
    }

    async fn acks(&self) -> Outcome {
        self.create("acks", 1).await?;
        let mut wanted = Vec::new();
        for (name, acks) in [("all", Acks::All), ("1", Acks::Leader), ("0", Acks::None)] {
            let texts = values(name, 10);
            let sent = texts.iter().map(|value| plain("acks", 0, value)).collect();
            self.produce(sent, |producer| producer.acks(acks).idempotent(false)).await?;
            wanted.extend(texts);
        }
        expect("read", self.payloads("acks", 0, 30).await?, wanted)?;
        Ok("30 records".to_owned())
    }

    async fn codec(&self, codec: &'static str) -> Outcome {
        let compression = match codec {
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        };
        self.create(codec, 1).await?;
        let texts = values(codec, 1000);
        let sent = texts.iter().map(|value| plain(codec, 0, value)).collect();
        let offsets = self.produce(sent, |producer| producer.compression(compression)).await?;
        expect("offsets", offsets, (0..1000).collect())?;
        expect("read", self.payloads(codec, 0, 1000).await?, texts)?;
        Ok("1000 records".to_owned())
    }

    async fn idempotent(&self) -> Outcome {
        let topic = "idempotent";
        self.create(topic, 3).await?;
        let sent = (0..10_000).map(|number| plain(topic, number % 3, number.to_string())).collect();
        self.produce(sent, |producer| producer.idempotent(true)).await?;
        for partition in 0..3 {
            let wanted: Vec<String> = (0..10_000)
                .filter(|number| number % 3 == partition)
                .map(|number| number.to_string())
                .collect();
            expect("read", self.payloads(topic, partition, wanted.len()).await?, wanted)?;
        }
        Ok("10000 records, none twice, in order".to_owned())
    }

    async fn records(&self) -> Outcome {
        let topic = "records";
        self.create(topic, 1).await?;
        let sent = vec![
            plain(topic, 0, "value").key("key"),
            plain(topic, 0, "value")
                .key("headers")
                .header("a", "1")
                .header("a", "2")
                .null_header("null")
                .header("empty", ""),
            plain(topic, 0, "no key"),
            Record::tombstone(topic, "no value").partition(0),
            plain(topic, 0, "").key(""),
            plain(topic, 0, "значение").key("ключ"),
            plain(topic, 0, "x".repeat(1_000_000)).key("large"),
        ];
        self.produce(sent.clone(), |producer| producer).await?;
        for (seen, sent) in self.read(topic, 0, sent.len()).await?.iter().zip(&sent) {
            expect("key", &seen.key, &sent.key)?;
            expect("value", &seen.value, &sent.value)?;
            expect("headers", &seen.headers, &sent.headers)?;
        }
        let large = self.produce(vec![plain(topic, 0, "x".repeat(1_100_000))], |p| p).await;
        Ok(format!("{} records, too large: {}", sent.len(), refusal(large)))
    }

    async fn seek(&self) -> Outcome {
        let topic = "seek";
        self.create(topic, 1).await?;
        let first = now() / 1000 * 1000 - 3_600_000;
        let sent =
            (0..100).map(|number| plain(topic, 0, "x").timestamp(first + number * 1000)).collect();
        self.produce(sent, |producer| producer).await?;
        let consumer = self.reader(topic, 0, 50).await?;
        let seen = consumer.poll(WAIT).await?;
        let at = seen.first().map(|record| (record.offset, record.timestamp));
        expect("at 50", at, Some((50, first + 50_000)))?;
        let mut looked = vec![format!("{:?}", consumer.fetch_watermarks(topic, 0).await?)];
        for time in [0, first + 49_001, first + 99_000, first + 99_001] {
            let answers = consumer.offsets_for_times(&[(topic, 0)], time).await;
            looked.push(format!("{:?}", only(answers)?));
        }
        // It asks where the epoch ends and goes there, and does not reset: nothing is to be read from then on.
        consumer.seek(topic, 0, 1000).await?;
        let beyond = consumer.poll(Duration::from_secs(1)).await?.len();
        let position = consumer.position(topic, 0).await;
        consumer.close().await?;
        Ok(format!(
            "looked up {}, beyond the end {beyond} records, then at {position:?}",
            looked.join(" ")
        ))
    }

    async fn add_partitions(&self) -> Outcome {
        let mut outcomes = Vec::new();
        for count in [5, 5, 2] {
            let answers = self.admin.create_partitions([("matrix", count)], Default::default());
            outcomes.push(refusal(only(answers.await?)));
        }
        self.produce(vec![plain("matrix", 4, "fifth")], |producer| producer).await?;
        expect("read", self.payloads("matrix", 4, 1).await?, vec!["fifth".to_owned()])?;
        Ok(outcomes.join("; "))
    }

    /// The settings of the topic matrix that `keep` keeps, in order.
    async fn settings(&self, keep: impl Fn(&ConfigEntry) -> bool) -> Outcome {
        let matrix = ConfigResource::topic("matrix");
        let described = only(self.admin.describe_configs([matrix], Default::default()).await?)?;
        let mut entries: Vec<String> = described
            .iter()
            .filter(|each| keep(each))
            .map(|each| {
                let value = each.value.clone().unwrap_or_default();
                format!("{}={value}/{}/{}", each.name, each.config_source, each.config_type)
            })
            .collect();
        entries.sort();
        Ok(entries.join(" "))
    }

    async fn configs(&self) -> Outcome {
        let mut outcomes = Vec::new();
        for change in [
            ConfigOp::set("max.message.bytes", "2000000"),
            ConfigOp::set("retention.ms", "soon"),
            ConfigOp::set("no.such.key", "1"),
            ConfigOp::delete("max.message.bytes"),
        ] {
            let changes = [(ConfigResource::topic("matrix"), vec![change.clone()])];
            let answers = self.admin.incremental_alter_configs(changes, Default::default()).await?;
            let own = self.settings(|each| each.config_source == TOPIC_CONFIG).await?;
            outcomes.push(format!("{} then {own}", refusal(only(answers))));
        }
        Ok(format!("{}; topic {}", outcomes.join("; "), self.settings(|_| true).await?))
    }

    async fn delete_records(&self) -> Outcome {
        let topic = "delete.records";
        self.fill(topic, 1, 100).await?;
        let partition = || TopicPartition::new(topic, 0);
        let mut outcomes = Vec::new();
        for before in [40, 1000, -1] {
            let answers =
                self.admin.delete_records([(partition(), before)], Default::default()).await?;
            let earliest = [(partition(), OffsetSpec::Earliest)];
            let earliest = only(self.admin.list_offsets(earliest, Default::default()).await?)?;
            outcomes.push(format!(
                "{before} {} earliest {}",
                only(answers)
                    .map_or_else(|error| refusal(Err::<i64, _>(error)), |low| low.to_string()),
                earliest.offset
            ));
        }
        Ok(outcomes.join("; "))
    }

    async fn delete_topic(&self) -> Outcome {
        only(self.admin.delete_topics(["matrix"], Default::default()).await?)?;
        let again = refusal(only(self.admin.delete_topics(["matrix"], Default::default()).await?));
        self.create("matrix", 1).await?;
        let offsets = self.produce(vec![plain("matrix", 0, "new")], |producer| producer).await?;
        Ok(format!("again {again}, created anew, first offset {offsets:?}"))
    }

    async fn group_consume(&self) -> Outcome {
        let topic = "group.consume";
        self.fill(topic, 3, 100).await?;
        let first = self.member("consume", &[topic], |member| member).await?;
        expect(
            "read",
            first.read(300).await?,
            (0..3).flat_map(|partition| (0..100).map(move |offset| (partition, offset))).collect(),
        )?;
        let mut commits = vec![first.commit(topic, &[(0, 40), (1, 50), (2, 100)]).await];
        first.consumer.close().await?;
        let second = self.member("consume", &[topic], |member| member).await?;
        expect(
            "read again",
            second.read(110).await?,
            (40..100)
                .map(|offset| (0, offset))
                .chain((50..100).map(|offset| (1, offset)))
                .collect(),
        )?;
        commits.push(second.commit(topic, &[(0, 100), (1, 99)]).await);
        let committed = second.consumer.committed(&[(topic, 0), (topic, 1), (topic, 2)]).await?;
        let offsets: Vec<String> =
            (0..3).map(|each| format!("{:?}", committed.get(&(topic.to_owned(), each)))).collect();
        second.consumer.close().await?;
        Ok(format!(
            "300 read, resumed at 40 50 100, commits {}, committed {}",
            commits.join(" "),
            offsets.join(" ")
        ))
    }

    async fn group_rebalance(
        &self,
        topic: &str,
        group: &str,
        strategy: PartitionAssignmentStrategy,
    ) -> Outcome {
        self.fill(topic, 4, 10).await?;
        let topics = [topic];
        let member = |heartbeat| {
            self.member(group, &topics, move |member| {
                member
                    .partition_assignment_strategy(strategy)
                    .heartbeat_interval(Duration::from_millis(heartbeat))
            })
        };
        // Who waits for the other to rejoin, which it does at its heartbeat, beats less often.
        let one = member(1000).await?;
        settle(&[&one], &[4]).await?;
        let other = member(100).await?;
        settle(&[&one, &other], &[2, 2]).await?;
        other.consumer.close().await?;
        settle(&[&one], &[4]).await?;
        one.consumer.close().await?;
        Ok(format!(
            "alone 4, shared 2 and 2, alone again 4; changes {}, {}",
            one.changes.text(),
            other.changes.text()
        ))
    }

    async fn static_member(&self) -> Outcome {
        let topic = "static.member";
        self.fill(topic, 4, 10).await?;
        let topics = [topic];
        let member = |instance: &'static str| {
            self.member("static", &topics, move |member| member.group_instance_id(instance))
        };
        let stays = member("stays").await?;
        settle(&[&stays], &[4]).await?;
        let leaves = member("leaves").await?;
        settle(&[&stays, &leaves], &[2, 2]).await?;
        let (before, changes) = (leaves.owned().await, stays.changes.text());
        leaves.consumer.close().await?;
        let back = member("leaves").await?;
        settle(&[&stays, &back], &[2, 2]).await?;
        try_join_all([stays.poll(), back.poll()]).await?;
        expect("partitions after the return", back.owned().await, before.clone())?;
        expect("changes of the other", stays.changes.text(), changes)?;
        let usurper = member("leaves").await?;
        settle(&[&stays, &usurper], &[2, 2]).await?;
        // Which partitions are its own is up to the order in which the group lists its members; any will do here.
        let fenced = back.commit(topic, &[(0, 1)]).await;
        Ok(format!("came back to its 2 of 4, no rebalance; commit of the one replaced: {fenced}"))
    }

    /// The groups of that name and what they are, as each broker lists them.
    async fn listed(&self, group: &str) -> Outcome {
        let mut seen = Vec::new();
        for (_, groups) in self.admin.list_consumer_groups(Default::default()).await? {
            seen.extend(groups?.into_iter().filter(|each| each.group_id == group).map(|each| {
                format!("{} {:?} {:?}", each.protocol_type, each.state, each.group_type)
            }));
        }
        Ok(seen.join(", "))
    }

    async fn groups_admin(&self) -> Outcome {
        let (group, admin) = ("admin", &self.admin);
        self.fill("admin.one", 1, 10).await?;
        self.fill("admin.two", 1, 10).await?;
        let member = self.member(group, &["admin.one", "admin.two"], |member| member).await?;
        settle(&[&member], &[2]).await?;
        member.commit("admin.one", &[(0, 3)]).await;
        let mut seen = vec![format!("active {}", self.listed(group).await?)];
        let description = only(admin.describe_consumer_groups([group], Default::default()).await?)?;
        seen.push(format!(
            "described {} {:?} members {}",
            description.state,
            description.assignor,
            description.members.len()
        ));
        let (one, two) = (TopicPartition::new("admin.one", 0), TopicPartition::new("admin.two", 0));
        let lag = admin.consumer_group_lag(group, Default::default()).await?;
        let lag = lag.get(&one).cloned().ok_or("no lag")??;
        seen.push(format!("lag {:?} of {}", lag.lag, lag.end_offset));
        let altered =
            admin.alter_consumer_group_offsets(group, [(two.clone(), 4)], Default::default());
        seen.push(format!("altered while active {}", refusal(only(altered.await?))));
        seen.push(refusal(only(admin.delete_consumer_groups([group], Default::default()).await?)));
        member.consumer.close().await?;
        let altered = admin.alter_consumer_group_offsets(group, [(two, 4)], Default::default());
        seen.push(format!("altered {}", refusal(only(altered.await?))));
        let deleted = admin.delete_consumer_group_offsets(group, [one], Default::default());
        seen.push(format!("offset deleted {}", refusal(only(deleted.await?))));
        let offsets = admin.list_consumer_group_offsets(group, Default::default()).await?;
        let mut offsets: Vec<String> = offsets
            .into_iter()
            .map(|(partition, offset)| Ok(format!("{} {:?}", partition.topic, offset?.offset)))
            .collect::<Outcome<_>>()?;
        offsets.sort();
        seen.push(format!("left {} with {}", self.listed(group).await?, offsets.join(", ")));
        for _ in 0..2 {
            let answers = admin.delete_consumer_groups([group], Default::default()).await?;
            seen.push(refusal(only(answers)));
        }
        seen.push(format!("gone {}", self.listed(group).await?));
        Ok(seen.join("; "))
    }

    async fn run(&self, name: &'static str) -> Outcome {
        match name {
            "connect" => self.connect().await,
            "create-topic" => self.create_topic().await,
            "describe" => self.describe().await,
            "acks" => self.acks().await,
            "idempotent" => self.idempotent().await,
            "records" => self.records().await,
            "seek" => self.seek().await,
            "add-partitions" => self.add_partitions().await,
            "configs" => self.configs().await,
            "delete-records" => self.delete_records().await,
            "delete-topic" => self.delete_topic().await,
            "group-consume" => self.group_consume().await,
            "group-rebalance" => {
                let strategy = PartitionAssignmentStrategy::Range;
                self.group_rebalance("group.rebalance", "rebalance", strategy).await
            }
            "static-member" => self.static_member().await,
            "cooperative-sticky" => {
                let strategy = PartitionAssignmentStrategy::CooperativeSticky;
                self.group_rebalance("cooperative.sticky", "cooperative", strategy).await
            }
            "groups-admin" => self.groups_admin().await,
            codec => self.codec(codec).await,
        }
    }
}

#[tokio::main]
async fn main() -> krafka::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_default();
    let kafka = connected(&address).await?;
    let row = Row { admin: kafka.admin(), kafka, address };
    run(|name| row.run(name)).await;
    Ok(())
}
