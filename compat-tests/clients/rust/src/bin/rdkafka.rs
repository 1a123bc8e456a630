//! Row rdkafka (MIT) on librdkafka (BSD-2-Clause).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use compat_clients::{Failure, Outcome, expect, now, run, values};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigEntry, ConfigSource, NewPartitions, NewTopic,
    ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const WAIT: Duration = Duration::from_secs(30);
type Sent =
    (i32, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(&'static str, Option<&'static str>)>, Option<i64>);

fn plain(partition: i32, value: &str) -> Sent {
    (partition, None, Some(value.into()), Vec::new(), None)
}

/// The name of the error with which a call ends.
fn refusal<T>(answer: KafkaResult<T>) -> String {
    match answer {
        Ok(_) => "NoError".to_owned(),
        Err(error) => {
            error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| format!("{code:?}"))
        }
    }
}

/// The one answer about the one thing that was asked for.
fn only<T, N>(
    answers: KafkaResult<Vec<Result<T, (N, rdkafka::types::RDKafkaErrorCode)>>>,
) -> KafkaResult<T> {
    answers?.remove(0).map_err(|(_, code)| KafkaError::AdminOp(code))
}

/// Notes what a member of a group is given and what is taken from it.
#[derive(Clone, Default)]
struct Changes(Arc<Mutex<Vec<String>>>);

impl Changes {
    fn text(&self) -> String {
        self.0.lock().map(|all| all.join(" ")).unwrap_or_default()
    }
}

impl ClientContext for Changes {}

impl ConsumerContext for Changes {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let text = match rebalance {
            Rebalance::Assign(given) if given.count() > 0 => format!("+{}", given.count()),
            Rebalance::Revoke(taken) if taken.count() > 0 => format!("-{}", taken.count()),
            Rebalance::Assign(_) | Rebalance::Revoke(_) => return,
            Rebalance::Error(error) => error.to_string(),
        };
        if let Ok(mut all) = self.0.lock() {
            all.push(text);
        }
    }
}

struct Member {
    consumer: BaseConsumer<Changes>,
    changes: Changes,
}

impl Member {
    /// A moment of work: what it read, as (partition, offset).
    fn poll(&self) -> Outcome<Vec<(i32, i64)>> {
        let mut seen = Vec::new();
        while let Some(message) = self.consumer.poll(Duration::from_millis(50)) {
            let message = message?;
            seen.push((message.partition(), message.offset()));
            if seen.len() == 1000 {
                break;
            }
        }
        Ok(seen)
    }

    fn owned(&self) -> Outcome<BTreeSet<(String, i32)>> {
        Ok(self
            .consumer
            .assignment()?
            .elements()
            .iter()
            .map(|each| (each.topic().to_owned(), each.partition()))
            .collect())
    }

    fn commit(&self, topic: &str, offsets: &[(i32, i64)]) -> Outcome {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        }
        Ok(refusal(self.consumer.commit(&list, CommitMode::Sync)))
    }

    fn read(&self, count: usize) -> Outcome<Vec<(i32, i64)>> {
        let (mut seen, begun) = (Vec::new(), Instant::now());
        while seen.len() < count && begun.elapsed() < WAIT {
            seen.extend(self.poll()?);
        }
        seen.sort_unstable();
        Ok(seen)
    }
}

/// Lets the members work until they own so many partitions each, none of them twice.
fn settle(members: &[&Member], counts: &[usize]) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < WAIT {
        for member in members {
            member.poll()?;
        }
        let owned = members.iter().map(|member| member.owned()).collect::<Outcome<Vec<_>>>()?;
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

struct Row {
    config: ClientConfig,
    admin: AdminClient<DefaultClientContext>,
    options: AdminOptions,
}

impl Row {
    fn new(address: &str) -> KafkaResult<Self> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", address)
            .set("broker.address.family", "v4")
            .set("log_level", "2");
        Ok(Self {
            admin: config.create()?,
            options: AdminOptions::new().request_timeout(Some(WAIT)),
            config,
        })
    }

    async fn make(&self, topic: NewTopic<'_>) -> KafkaResult<String> {
        only(self.admin.create_topics([&topic], &self.options).await)
    }

    async fn create(&self, topic: &str, partitions: i32) -> Outcome<()> {
        self.make(NewTopic::new(topic, partitions, TopicReplication::Fixed(1))).await?;
        Ok(())
    }

    /// Sends all and returns the offsets, or the first error.
    async fn produce(
        &self,
        topic: &str,
        sent: &[Sent],
        settings: &[(&str, &str)],
    ) -> Outcome<KafkaResult<Vec<i64>>> {
        let mut config = self.config.clone();
        config.set("linger.ms", "20").set("message.max.bytes", "2000000");
        for (key, value) in settings {
            config.set(*key, *value);
        }
        let producer: FutureProducer = config.create()?;
        let mut deliveries = Vec::new();
        for (partition, key, value, headers, timestamp) in sent {
            let mut record = FutureRecord::<[u8], [u8]>::to(topic).partition(*partition);
            (record.key, record.payload, record.timestamp) =
                (key.as_deref(), value.as_deref(), *timestamp);
            if !headers.is_empty() {
                record.headers =
                    Some(headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
                        all.insert(Header { key, value: *value })
                    }));
            }
            deliveries.push(producer.send_result(record).map_err(|(error, _)| error)?);
        }
        producer.flush(WAIT)?;
        let mut offsets = Vec::new();
        for delivery in deliveries {
            match delivery.await? {
                Ok(delivered) => offsets.push(delivered.offset),
                Err((error, _)) => return Ok(Err(error)),
            }
        }
        Ok(Ok(offsets))
    }

    async fn fill(&self, topic: &str, partitions: i32, count: usize) -> Outcome<()> {
        self.create(topic, partitions).await?;
        let texts = values(topic, count);
        let sent: Vec<Sent> = (0..partitions)
            .flat_map(|partition| texts.iter().map(move |value| plain(partition, value)))
            .collect();
        self.produce(topic, &sent, &[]).await??;
        Ok(())
    }

    fn reader(&self, topic: &str, partition: i32, offset: i64) -> Outcome<BaseConsumer> {
        let mut config = self.config.clone();
        let consumer: BaseConsumer = config
            .set("group.id", "none")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        consumer.assign(&list)?;
        Ok(consumer)
    }

    fn read(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        count: usize,
    ) -> Outcome<Vec<OwnedMessage>> {
        let consumer = self.reader(topic, partition, offset)?;
        let mut seen = Vec::new();
        while seen.len() < count {
            match consumer.poll(WAIT) {
                Some(message) => seen.push(message?.detach()),
                None => return Err(Failure::Wrong(format!("read {} of {count}", seen.len()))),
            }
        }
        Ok(seen)
    }

    fn payloads(&self, topic: &str, partition: i32, count: usize) -> Outcome<Vec<String>> {
        Ok(self
            .read(topic, partition, 0, count)?
            .iter()
            .map(|seen| String::from_utf8_lossy(seen.payload().unwrap_or_default()).into_owned())
            .collect())
    }

    fn member(&self, group: &str, topics: &[&str], more: &[(&str, &str)]) -> Outcome<Member> {
        let mut config = self.config.clone();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("heartbeat.interval.ms", "200");
        config.set("session.timeout.ms", "20000").set("partition.assignment.strategy", "range");
        for (key, value) in more {
            config.set(*key, *value);
        }
        let changes = Changes::default();
        let consumer: BaseConsumer<Changes> = config.create_with_context(changes.clone())?;
        consumer.subscribe(topics)?;
        Ok(Member { consumer, changes })
    }

    // ---- operations

    fn connect(&self) -> Outcome {
        let metadata = self.admin.inner().fetch_metadata(None, WAIT)?;
        let nodes: Vec<i32> = metadata.brokers().iter().map(|broker| broker.id()).collect();
        Ok(format!("nodes {nodes:?}"))
    }

    async fn create_topic(&self) -> Outcome {
        let topic = |name, partitions, replicas| {
            NewTopic::new(name, partitions, TopicReplication::Fixed(replicas))
        };
        self.make(topic("matrix", 3, 1).set("retention.ms", "3600000")).await?;
        let mut refused = Vec::new();
        for bad in [
            topic("matrix", 3, 1),
            topic("too.many", 1, 3),
            topic("bad name", 1, 1),
            topic("config", 1, 1).set("retention.ms", "soon"),
            topic("key", 1, 1).set("no.such.key", "1"),
        ] {
            refused.push(refusal(self.make(bad).await));
        }
        Ok(format!("refused {}", refused.join(" ")))
    }

    fn describe(&self) -> Outcome {
        let metadata = self.admin.inner().fetch_metadata(Some("matrix"), WAIT)?;
        let topic = metadata.topics().first().ok_or("no topic")?;
        Ok(topic
            .partitions()
            .iter()
            .map(|each| {
                format!(
                    "{} leader {} replicas {:?} isr {:?}",
                    each.id(),
                    each.leader(),
                    each.replicas(),
                    each.isr()
                )
            })
            .collect::<Vec<_>>()
            .join("; "))
    }

    async fn acks(&self) -> Outcome {
        self.create("acks", 1).await?;
        let mut wanted = Vec::new();
        for acks in ["all", "1", "0"] {
            let texts = values(acks, 10);
            self.produce(
                "acks",
                &texts.iter().map(|value| plain(0, value)).collect::<Vec<_>>(),
                &[("acks", acks)],
            )
            .await??;
            wanted.extend(texts);
        }
        expect("read", self.payloads("acks", 0, 30)?, wanted)?;
        Ok("30 records".to_owned())
    }

    async fn codec(&self, codec: &'static str) -> Outcome {
        self.create(codec, 1).await?;
        let texts = values(codec, 1000);
        let offsets = self
            .produce(
                codec,
                &texts.iter().map(|value| plain(0, value)).collect::<Vec<_>>(),
                &[("compression.type", codec)],
            )
            .await??;
        expect("offsets", offsets, (0..1000).collect())?;
        expect("read", self.payloads(codec, 0, 1000)?, texts)?;
        Ok("1000 records".to_owned())
    }

    async fn idempotent(&self) -> Outcome {
        self.create("idempotent", 3).await?;
        let sent: Vec<Sent> =
            (0..10_000).map(|number| plain(number % 3, &number.to_string())).collect();
        self.produce("idempotent", &sent, &[("enable.idempotence", "true")]).await??;
        for partition in 0..3 {
            let wanted: Vec<String> = (0..10_000)
                .filter(|number| number % 3 == partition)
                .map(|number| number.to_string())
                .collect();
            expect("read", self.payloads("idempotent", partition, wanted.len())?, wanted)?;
        }
        Ok("10000 records, none twice, in order".to_owned())
    }

    async fn records(&self) -> Outcome {
        self.create("records", 1).await?;
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let sent: Vec<Sent> = vec![
            (0, bytes("key"), bytes("value"), vec![], None),
            (
                0,
                bytes("headers"),
                bytes("value"),
                vec![("a", Some("1")), ("a", Some("2")), ("null", None), ("empty", Some(""))],
                None,
            ),
            (0, None, bytes("no key"), vec![], None),
            (0, bytes("no value"), None, vec![], None),
            (0, bytes("ключ"), bytes("значение"), vec![], None),
            (0, bytes("large"), bytes(&"x".repeat(1_000_000)), vec![], None),
        ];
        self.produce("records", &sent, &[]).await??;
        for (seen, (_, key, value, headers, _)) in
            self.read("records", 0, 0, sent.len())?.iter().zip(&sent)
        {
            expect("key", seen.key(), key.as_deref())?;
            expect("value", seen.payload(), value.as_deref())?;
            let all: Vec<(&str, Option<&[u8]>)> = seen
                .headers()
                .map(|all| all.iter().map(|each| (each.key, each.value)).collect())
                .unwrap_or_default();
            expect(
                "headers",
                all,
                headers.iter().map(|(key, value)| (*key, value.map(str::as_bytes))).collect(),
            )?;
        }
        let large = self.produce("records", &[plain(0, &"x".repeat(1_100_000))], &[]).await?;
        Ok(format!("{} records, too large: {}", sent.len(), refusal(large)))
    }

    async fn seek(&self) -> Outcome {
        self.create("seek", 1).await?;
        let first = now() / 1000 * 1000 - 3_600_000;
        let sent: Vec<Sent> = (0..100)
            .map(|number| (0, None, Some(b"x".to_vec()), vec![], Some(first + number * 1000)))
            .collect();
        self.produce("seek", &sent, &[]).await??;
        let consumer = self.reader("seek", 0, 50)?;
        let at = consumer.poll(WAIT).ok_or("nothing at 50")??.timestamp().to_millis();
        expect("at 50", at, Some(first + 50_000))?;
        let mut looked = vec![format!("{:?}", consumer.fetch_watermarks("seek", 0, WAIT)?)];
        for time in [0, first + 49_001, first + 99_000, first + 99_001] {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset("seek", 0, Offset::Offset(time))?;
            looked.push(format!(
                "{:?}",
                consumer
                    .offsets_for_times(list, WAIT)?
                    .elements()
                    .first()
                    .ok_or("no answer")?
                    .offset()
            ));
        }
        consumer.seek("seek", 0, Offset::Offset(1000), WAIT)?;
        let reset = consumer.poll(WAIT).ok_or("no reset")??.offset();
        Ok(format!("looked up {}, out of range {reset}", looked.join(" ")))
    }

    async fn add_partitions(&self) -> Outcome {
        let mut outcomes = Vec::new();
        for count in [5, 5, 2] {
            outcomes.push(refusal(only(
                self.admin
                    .create_partitions([&NewPartitions::new("matrix", count)], &self.options)
                    .await,
            )));
        }
        self.produce("matrix", &[plain(4, "fifth")], &[]).await??;
        expect("read", self.payloads("matrix", 4, 1)?, vec!["fifth".to_owned()])?;
        Ok(outcomes.join(" "))
    }

    /// The settings of the topic matrix that `keep` keeps, in order.
    async fn settings(&self, keep: impl Fn(&ConfigEntry) -> bool) -> Outcome {
        let matrix = ResourceSpecifier::Topic("matrix");
        let described = self.admin.describe_configs([&matrix], &self.options).await?.remove(0)?;
        let mut entries: Vec<String> = described
            .entries
            .iter()
            .filter(|each| keep(each))
            .map(|each| {
                format!(
                    "{}={}/{:?}",
                    each.name,
                    each.value.clone().unwrap_or_default(),
                    each.source
                )
            })
            .collect();
        entries.sort();
        Ok(entries.join(" "))
    }

    async fn configs(&self) -> Outcome {
        let matrix = ResourceSpecifier::Topic("matrix");
        let mut outcomes = Vec::new();
        for (key, value) in
            [("max.message.bytes", "2000000"), ("retention.ms", "soon"), ("no.such.key", "1")]
        {
            // This client does not pass on that a change is refused, so what the topic has then is looked at.
            let change = AlterConfig::new(matrix).set(key, value);
            only(self.admin.alter_configs([&change], &self.options).await)?;
            let own = self.settings(|each| each.source == ConfigSource::DynamicTopic).await?;
            outcomes.push(format!("{key}={value} then {own}"));
        }
        Ok(format!("{}; topic {}", outcomes.join("; "), self.settings(|_| true).await?))
    }

    async fn delete_records(&self) -> Outcome {
        self.fill("delete.records", 1, 100).await?;
        let mut outcomes = Vec::new();
        for before in [Offset::Offset(40), Offset::Offset(1000), Offset::End] {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset("delete.records", 0, before)?;
            let answer = self.admin.delete_records(&list, &self.options).await?;
            let partition =
                answer.elements().first().map(|each| (each.offset(), refusal(each.error())));
            outcomes.push(format!("{before:?} {partition:?}"));
        }
        Ok(outcomes.join("; "))
    }

    async fn delete_topic(&self) -> Outcome {
        only(self.admin.delete_topics(&["matrix"], &self.options).await)?;
        let again = refusal(only(self.admin.delete_topics(&["matrix"], &self.options).await));
        self.create("matrix", 1).await?;
        let offsets = self.produce("matrix", &[plain(0, "new")], &[]).await??;
        Ok(format!("again {again}, created anew, first offset {offsets:?}"))
    }

    async fn group_consume(&self) -> Outcome {
        let topic = "group.consume";
        self.fill(topic, 3, 100).await?;
        let first = self.member("consume", &[topic], &[])?;
        expect(
            "read",
            first.read(300)?,
            (0..3).flat_map(|partition| (0..100).map(move |offset| (partition, offset))).collect(),
        )?;
        let mut commits = vec![first.commit(topic, &[(0, 40), (1, 50), (2, 100)])?];
        drop(first);
        let second = self.member("consume", &[topic], &[])?;
        expect(
            "read again",
            second.read(110)?,
            (40..100)
                .map(|offset| (0, offset))
                .chain((50..100).map(|offset| (1, offset)))
                .collect(),
        )?;
        commits.push(second.commit(topic, &[(0, 100), (1, 99)])?);
        let committed = second.consumer.committed(WAIT)?;
        let offsets: Vec<String> =
            committed.elements().iter().map(|each| format!("{:?}", each.offset())).collect();
        Ok(format!(
            "300 read, resumed at 40 50 100, commits {}, committed {}",
            commits.join(" "),
            offsets.join(" ")
        ))
    }

    async fn group_rebalance(&self, topic: &str, group: &str, strategy: &str) -> Outcome {
        self.fill(topic, 4, 10).await?;
        let settings = [("partition.assignment.strategy", strategy)];
        let one = self.member(group, &[topic], &settings)?;
        settle(&[&one], &[4])?;
        let other = self.member(group, &[topic], &settings)?;
        settle(&[&one, &other], &[2, 2])?;
        let changes = other.changes.clone();
        drop(other);
        settle(&[&one], &[4])?;
        Ok(format!(
            "alone 4, shared 2 and 2, alone again 4; changes {}, {}",
            one.changes.text(),
            changes.text()
        ))
    }

    async fn static_member(&self) -> Outcome {
        let topic = "static.member";
        self.fill(topic, 4, 10).await?;
        let member = |instance| self.member("static", &[topic], &[("group.instance.id", instance)]);
        let stays = member("stays")?;
        settle(&[&stays], &[4])?;
        let leaves = member("leaves")?;
        settle(&[&stays, &leaves], &[2, 2])?;
        let (before, changes) = (leaves.owned()?, stays.changes.text());
        drop(leaves);
        let back = member("leaves")?;
        settle(&[&stays, &back], &[2, 2])?;
        for _ in 0..10 {
            stays.poll()?;
            back.poll()?;
        }
        expect("partitions after the return", back.owned()?, before.clone())?;
        expect("changes of the other", stays.changes.text(), changes)?;
        let usurper = member("leaves")?;
        settle(&[&stays, &usurper], &[2, 2])?;
        let fenced = back.commit(topic, &[(before.first().map_or(0, |first| first.1), 1)])?;
        Ok(format!("came back to its 2 of 4, no rebalance; commit of the one replaced: {fenced}"))
    }

    async fn groups_admin(&self) -> Outcome {
        let group = "admin";
        self.fill("admin.one", 1, 10).await?;
        self.fill("admin.two", 1, 10).await?;
        let member = self.member(group, &["admin.one", "admin.two"], &[])?;
        settle(&[&member], &[2])?;
        member.commit("admin.one", &[(0, 3)])?;
        let listed = || -> Outcome {
            let list = self.admin.inner().fetch_group_list(Some(group), WAIT)?;
            Ok(list
                .groups()
                .iter()
                .map(|each| {
                    format!(
                        "{} {} {} members {}",
                        each.state(),
                        each.protocol_type(),
                        each.protocol(),
                        each.members().len()
                    )
                })
                .collect())
        };
        let mut seen = vec![
            format!("active {}", listed()?),
            refusal(only(self.admin.delete_groups(&[group], &self.options).await)),
        ];
        drop(member);
        seen.push(format!("left {}", listed()?));
        for _ in 0..2 {
            seen.push(refusal(only(self.admin.delete_groups(&[group], &self.options).await)));
        }
        seen.push(format!("gone {}", listed()?));
        Ok(seen.join("; "))
    }

    async fn run(&self, name: &'static str) -> Outcome {
        match name {
            "connect" => self.connect(),
            "create-topic" => self.create_topic().await,
            "describe" => self.describe(),
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
                self.group_rebalance("group.rebalance", "rebalance", "range").await
            }
            "static-member" => self.static_member().await,
            "cooperative-sticky" => {
                self.group_rebalance("cooperative.sticky", "cooperative", "cooperative-sticky")
                    .await
            }
            "groups-admin" => self.groups_admin().await,
            codec => self.codec(codec).await,
        }
    }
}

#[tokio::main]
async fn main() -> KafkaResult<()> {
    let row = Row::new(&std::env::args().nth(1).unwrap_or_default())?;
    run(|name| row.run(name)).await;
    Ok(())
}
