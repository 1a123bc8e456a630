//! Row rskafka (MIT or Apache-2.0): a client without groups, which reads and writes single partitions.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use compat_clients::{Failure, Outcome, expect, now, run, values};
use rskafka::client::error::Error;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};

fn record(value: &str, milliseconds: i64) -> Record {
    let timestamp = DateTime::<Utc>::from_timestamp_millis(milliseconds).unwrap_or_default();
    Record {
        key: None,
        value: Some(value.as_bytes().to_vec()),
        headers: BTreeMap::new(),
        timestamp,
    }
}

/// The name of the error with which a call ends.
fn refusal<T>(answer: Result<T, Error>) -> Outcome {
    match answer {
        Ok(_) => Ok("NoError".to_owned()),
        Err(Error::ServerError { protocol_error, error_message, .. }) => {
            Ok(format!("{protocol_error:?} {}", error_message.unwrap_or_default()))
        }
        Err(error) => Err(error.into()),
    }
}

struct Row(Client);

impl Row {
    async fn create(&self, topic: &str, partitions: i32) -> Outcome<()> {
        Ok(self.0.controller_client()?.create_topic(topic, partitions, 1, 5_000).await?)
    }

    async fn partition(&self, topic: &str, partition: i32) -> Outcome<PartitionClient> {
        Ok(self.0.partition_client(topic, partition, UnknownTopicHandling::Retry).await?)
    }

    async fn read(
        &self,
        topic: &str,
        partition: i32,
        mut from: i64,
        count: usize,
    ) -> Outcome<Vec<RecordAndOffset>> {
        let client = self.partition(topic, partition).await?;
        let mut seen = Vec::new();
        while seen.len() < count {
            let (records, _) = client.fetch_records(from, 1..1_000_000, 1_000).await?;
            from = records.last().map_or(from, |last| last.offset + 1);
            seen.extend(records);
        }
        seen.truncate(count);
        Ok(seen)
    }

    async fn connect(&self) -> Outcome {
        Ok(format!("{} topics", self.0.list_topics().await?.len()))
    }

    async fn create_topic(&self) -> Outcome {
        self.create("matrix", 3).await?;
        let controller = self.0.controller_client()?;
        let mut refused = Vec::new();
        for (topic, partitions, replicas) in
            [("matrix", 3, 1), ("too.many", 1, 3), ("bad name", 1, 1), ("none", 0, 1)]
        {
            refused
                .push(refusal(controller.create_topic(topic, partitions, replicas, 5_000).await)?);
        }
        Ok(format!("refused {}", refused.join("; ")))
    }

    async fn describe(&self) -> Outcome {
        let topics = self.0.list_topics().await?;
        Ok(topics
            .iter()
            .map(|topic| format!("{} {:?}", topic.name, topic.partitions))
            .collect::<Vec<_>>()
            .join("; "))
    }

    async fn codec(&self, codec: &'static str) -> Outcome {
        let compression = match codec {
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => Compression::NoCompression,
        };
        self.create(codec, 1).await?;
        let sent: Vec<Record> =
            values(codec, 1000).iter().map(|value| record(value, now())).collect();
        let written = self.partition(codec, 0).await?.produce(sent.clone(), compression).await?;
        expect("offsets", written, (0..1000).collect())?;
        expect(
            "read",
            self.read(codec, 0, 0, 1000).await?.into_iter().map(|seen| seen.record).collect(),
            sent,
        )?;
        Ok("1000 records".to_owned())
    }

    async fn records(&self) -> Outcome {
        self.create("records", 1).await?;
        let headers =
            BTreeMap::from([("a".to_owned(), b"1".to_vec()), ("empty".to_owned(), Vec::new())]);
        let sent = vec![
            Record { key: Some(b"key".to_vec()), ..record("value", now()) },
            Record { key: Some(b"headers".to_vec()), headers, ..record("value", now()) },
            record("no key", now()),
            Record { key: Some(b"no value".to_vec()), value: None, ..record("", now()) },
            Record { key: Some(Vec::new()), ..record("", now()) },
            Record { key: Some("ключ".into()), ..record("значение", now()) },
            record(&"x".repeat(1_000_000), now()),
        ];
        let client = self.partition("records", 0).await?;
        client.produce(sent.clone(), Compression::NoCompression).await?;
        let count = sent.len();
        expect(
            "read",
            self.read("records", 0, 0, count).await?.into_iter().map(|seen| seen.record).collect(),
            sent,
        )?;
        let large = client
            .produce(vec![record(&"x".repeat(1_100_000), now())], Compression::NoCompression)
            .await;
        Ok(format!("{count} records, too large: {}", refusal(large)?))
    }

    async fn seek(&self) -> Outcome {
        self.create("seek", 1).await?;
        let first = now() / 1000 * 1000 - 3_600_000;
        let client = self.partition("seek", 0).await?;
        client
            .produce(
                (0..100).map(|number| record("x", first + number * 1000)).collect(),
                Compression::NoCompression,
            )
            .await?;
        let mut looked = vec![
            client.get_offset(OffsetAt::Earliest).await?,
            client.get_offset(OffsetAt::Latest).await?,
        ];
        for time in [0, first + 49_001, first + 99_000, first + 99_001] {
            looked.push(
                client
                    .get_offset(OffsetAt::Timestamp(
                        DateTime::<Utc>::from_timestamp_millis(time).unwrap_or_default(),
                    ))
                    .await?,
            );
        }
        let at = self.read("seek", 0, 50, 1).await?.remove(0).offset;
        let beyond = refusal(client.fetch_records(1000, 1..1000, 100).await)?;
        Ok(format!("looked up {looked:?}, at 50 {at}, beyond the end {beyond}"))
    }

    async fn delete_records(&self) -> Outcome {
        self.create("delete.records", 1).await?;
        let client = self.partition("delete.records", 0).await?;
        client
            .produce(
                values("delete", 100).iter().map(|value| record(value, now())).collect(),
                Compression::NoCompression,
            )
            .await?;
        let mut outcomes = Vec::new();
        for before in [40, 1000, -1] {
            let outcome = refusal(client.delete_records(before, 5_000).await)?;
            outcomes.push(format!(
                "{before} {outcome} earliest {}",
                client.get_offset(OffsetAt::Earliest).await?
            ));
        }
        Ok(outcomes.join("; "))
    }

    async fn delete_topic(&self) -> Outcome {
        let controller = self.0.controller_client()?;
        controller.delete_topic("matrix", 5_000).await?;
        let again = refusal(controller.delete_topic("matrix", 5_000).await)?;
        self.create("matrix", 1).await?;
        let written = self
            .partition("matrix", 0)
            .await?
            .produce(vec![record("new", now())], Compression::NoCompression)
            .await?;
        Ok(format!("again {again}, created anew, first offset {:?}", written))
    }

    async fn run(&self, name: &'static str) -> Outcome {
        match name {
            "connect" => self.connect().await,
            "create-topic" => self.create_topic().await,
            "describe" => self.describe().await,
            "none" | "gzip" | "snappy" | "lz4" | "zstd" => self.codec(name).await,
            "records" => self.records().await,
            "seek" => self.seek().await,
            "delete-records" => self.delete_records().await,
            "delete-topic" => self.delete_topic().await,
            _ => Err(Failure::Skip("not in this client")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_default();
    let backoff =
        rskafka::BackoffConfig { deadline: Some(compat_clients::LIMIT / 2), ..Default::default() };
    let row = Row(ClientBuilder::new(vec![address]).backoff_config(backoff).build().await?);
    run(|name| row.run(name)).await;
    Ok(())
}
