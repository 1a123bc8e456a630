//! Small requests: how many in a second, and how long each takes.

use std::net::SocketAddr;
use std::ops::Range;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use ottla_protocol::Records;
use ottla_protocol::messages::api_versions_request::ApiVersionsRequest;
use ottla_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use ottla_protocol::messages::create_topics_response::CreateTopicsResponse;
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use ottla_protocol::messages::fetch_response::FetchResponse;
use ottla_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use ottla_protocol::messages::metadata_response::MetadataResponse;
use ottla_protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use serde_json::json;

use crate::Outcome;
use crate::batch::Batch;
use crate::connection::{Connection, framed};
use crate::load::{self, Pace};

/// Versions without compact fields: an answer's error stands at a fixed place.
pub const PRODUCE: i16 = 8;
pub const FETCH: i16 = 11;
const METADATA: i16 = 8;

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Produce, `--records` of `--size` bytes in each.
    Produce,
    /// Fetch at the end of the log, not waiting.
    Fetch,
    /// Metadata of one topic.
    Metadata,
    /// ApiVersions.
    ApiVersions,
}

/// See [`Kind`].
#[derive(Args, Debug)]
pub struct Options {
    /// What is sent.
    #[arg(value_enum)]
    pub kind: Kind,
    #[command(flatten)]
    pub pace: Pace,
    /// The topic, created if it is not there.
    #[arg(long, default_value = "load")]
    pub topic: String,
    /// Its partitions; each connection uses the next `--wide` of them.
    #[arg(long, default_value_t = 1)]
    pub partitions: i32,
    /// Partitions in a Produce, with a batch for each.
    #[arg(long, default_value_t = 1)]
    pub wide: i32,
    /// Records in a batch.
    #[arg(long, default_value_t = 1)]
    pub records: usize,
    /// Bytes of a record.
    #[arg(long, default_value_t = 100)]
    pub size: usize,
    /// Compress the batches.
    #[arg(long)]
    pub gzip: bool,
    /// 0, 1 or -1.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub acks: i16,
}

/// Runs it.
pub fn run(broker: SocketAddr, options: &Options) -> Outcome {
    create_topic(broker, &options.topic, options.partitions)?;
    let pace = &options.pace;
    let mut connections =
        (0..pace.connections).map(|_| Connection::open(broker)).collect::<Result<Vec<_>, _>>()?;
    let batch = if options.gzip {
        Batch::gzip(options.records, options.size).map_err(|error| error.to_string())?
    } else {
        Batch::new(options.records, options.size)
    };
    let mut frames = Vec::new();
    for index in 0..connections.len() {
        let first = index as i32 * options.wide % options.partitions.max(1);
        frames.push(frame(options, &batch, first)?);
    }
    let error_at = error_position(options);
    let judge = |answer: &[u8]| match error_at.map(|at| answer.get(at..at + 2)) {
        None | Some(Some([0, 0])) => Ok(()),
        Some(other) => Err(format!("refused with {other:?}")),
    };
    let counted = load::run(pace, &mut connections, |index| frames[index].clone(), judge)?;
    let requests = counted.latency.len();
    Ok(json!({
        "requests": requests,
        "seconds": counted.seconds,
        "requests_per_second": requests as f64 / counted.seconds,
        "bytes": requests * options.wide as u64 * (options.records * options.size) as u64,
        "latency_us": crate::percentiles(&counted.latency),
    }))
}

fn frame(options: &Options, batch: &Batch, partition: i32) -> Result<Vec<u8>, String> {
    match options.kind {
        Kind::Produce => {
            produce(&options.topic, partition..partition + options.wide, options.acks, batch)
        }
        Kind::Fetch => framed(FETCH, &fetch(&options.topic, &[(partition, 0)], 0, 1 << 10)),
        Kind::Metadata => {
            let topic = MetadataRequestTopic {
                name: Some(options.topic.as_str().into()),
                ..Default::default()
            };
            framed(METADATA, &MetadataRequest { topics: Some(vec![topic]), ..Default::default() })
        }
        Kind::ApiVersions => framed(2, &ApiVersionsRequest::default()),
    }
}

/// A Produce of the same batch to each of some partitions.
pub fn produce(
    topic: &str,
    partitions: Range<i32>,
    acks: i16,
    batch: &Batch,
) -> Result<Vec<u8>, String> {
    let records = Bytes::from(batch.bytes.clone());
    let partition = |index| PartitionProduceData {
        index,
        records: Some(Records::Bytes(records.clone())),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: topic.into(),
        partition_data: partitions.map(partition).collect(),
        ..Default::default()
    };
    let request =
        ProduceRequest { acks, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
    framed(PRODUCE, &request)
}

/// A Fetch of partitions from offsets, each up to `most` bytes.
pub fn fetch(topic: &str, from: &[(i32, i64)], max_wait_ms: i32, most: i32) -> FetchRequest {
    let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: most,
        ..Default::default()
    };
    let partitions: Vec<_> = from.iter().map(partition).collect();
    let topic = FetchTopic { topic: topic.into(), partitions, ..Default::default() };
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![topic],
        ..Default::default()
    }
}

/// Where the error of the one partition (or the request) stands in an answer.
fn error_position(options: &Options) -> Option<usize> {
    match options.kind {
        // correlation id, topics, name, partitions, index
        Kind::Produce => Some(4 + 4 + 2 + options.topic.len() + 4 + 4),
        // correlation id, throttle time
        Kind::Fetch => Some(4 + 4),
        Kind::Metadata => None,
        Kind::ApiVersions => Some(4),
    }
}

/// Creates a topic, unless it is there, and waits until it is led.
pub fn create_topic(broker: SocketAddr, name: &str, partitions: i32) -> Result<(), String> {
    let mut connection = Connection::open(broker)?;
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
    let response: CreateTopicsResponse = connection.call(4, &request)?;
    let code = response.topics.first().map_or(-1, |topic| topic.error_code);
    if code != 0 && code != 36 {
        return Err(format!("creating {name} was refused with {code}"));
    }
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    loop {
        let response: MetadataResponse = connection.call(METADATA, &request)?;
        let led = response.topics.first().is_some_and(|topic| {
            topic.error_code == 0
                && topic.partitions.len() >= partitions as usize
                && topic.partitions.iter().all(|partition| partition.error_code == 0)
        });
        if led {
            return until_served(&mut connection, name, partitions);
        }
    }
}

/// Metadata may be ahead of the broker's partitions.
fn until_served(connection: &mut Connection, name: &str, partitions: i32) -> Result<(), String> {
    let from: Vec<_> = (0..partitions).map(|partition| (partition, 0)).collect();
    loop {
        let response: FetchResponse = connection.call(FETCH, &fetch(name, &from, 0, 1))?;
        let mut all = response.responses.iter().flat_map(|topic| &topic.partitions);
        // Not led here yet.
        if !all.any(|partition| matches!(partition.error_code, 3 | 6)) {
            return Ok(());
        }
    }
}
