//! Producing at a fixed rate while the same records are read at the end of the log:
//! how long until they are acknowledged, how long until they are read.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use hdrhistogram::Histogram;
use ottla_protocol::messages::fetch_request::FetchRequest;
use ottla_protocol::messages::fetch_response::FetchResponse;
use serde_json::json;

use crate::Outcome;
use crate::batch::{Batch, next_batch};
use crate::bulk::Reading;
use crate::connection::{Connection, body, framed};
use crate::load::{Clock, Schedule};
use crate::requests::{FETCH, create_topic, fetch, produce};

/// What is produced and read.
#[derive(Args, Debug)]
pub struct Options {
    /// The topic, created if it is not there.
    #[arg(long, default_value = "tail")]
    topic: String,
    /// Its partitions, one after the other, all in one fetch session.
    #[arg(long, default_value_t = 1)]
    partitions: i32,
    /// Batches in a second.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Records in a batch.
    #[arg(long, default_value_t = 1)]
    records: usize,
    /// Bytes of a record.
    #[arg(long, default_value_t = 1000)]
    size: usize,
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Not counted at the beginning.
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Requests under way.
    #[arg(long, default_value_t = 5)]
    depth: usize,
    /// After the warm-up, read this topic from its beginning, too; what is measured
    /// ends when that ends, or after `--seconds`.
    #[arg(long)]
    beside: Option<String>,
    /// Partitions of that topic.
    #[arg(long, default_value_t = 1)]
    beside_partitions: i32,
}

/// The reading side: one session over all partitions.
struct Reader<'o> {
    options: &'o Options,
    connection: Connection,
    session: (i32, i32),
    read: u64,
    latency: Histogram<u64>,
}

impl Reader<'_> {
    /// Opens a session over all partitions from their ends, which are their
    /// beginnings: the topic is new.
    fn open(broker: SocketAddr, options: &Options) -> Result<Reader<'_>, String> {
        let connection = Connection::open(broker)?;
        let latency = crate::histogram();
        let mut reader = Reader { options, connection, session: (0, 0), read: 0, latency };
        let from: Vec<_> = (0..options.partitions).map(|partition| (partition, 0)).collect();
        reader.ask(&from, 0)?;
        Ok(reader)
    }

    fn ask(&mut self, moved: &[(i32, i64)], max_wait_ms: i32) -> Result<(), String> {
        let mut request: FetchRequest = fetch(&self.options.topic, moved, max_wait_ms, 1 << 20);
        (request.session_id, request.session_epoch) = self.session;
        if moved.is_empty() {
            request.topics.clear();
        }
        self.connection.push(&framed(FETCH, &request)?, 0);
        self.connection.send()
    }

    fn step(&mut self, clock: &Clock, batch: &Batch, warm: u64) -> Result<(), String> {
        self.connection.send()?;
        let Some((frame, _)) = self.connection.receive()? else { return Ok(()) };
        let now = clock.now();
        let response: FetchResponse = body(FETCH, frame)?;
        if response.error_code != 0 {
            return Err(format!("Fetch was refused with {}", response.error_code));
        }
        self.session = (response.session_id, self.session.1 + 1);
        let mut moved = Vec::new();
        for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
            let Some(records) = partition.records.as_ref().and_then(|records| records.bytes())
            else {
                continue;
            };
            let (mut at, mut next) = (0, -1);
            while let Some((length, after)) = next_batch(&records[at..]) {
                let stamp = batch.read_stamp(&records[at..]).unwrap_or(0);
                if stamp >= warm {
                    self.latency.saturating_record(now.saturating_sub(stamp));
                }
                self.read += 1;
                (at, next) = (at + length, after);
            }
            if next >= 0 {
                moved.push((partition.partition_index, next));
            }
        }
        self.ask(&moved, 500)
    }
}

/// Runs it.
pub fn run(broker: SocketAddr, options: &Options) -> Outcome {
    create_topic(broker, &options.topic, options.partitions)?;
    let mut producer = Connection::open(broker)?;
    let mut reader = Reader::open(broker, options)?;
    let mut batch = Batch::new(options.records, options.size);
    let clock = Clock::start();
    let mut schedule = Schedule::new(options.rate);
    let warm = Duration::from_secs_f64(options.warm_up).as_nanos() as u64;
    let mut end = warm + Duration::from_secs_f64(options.seconds).as_nanos() as u64;
    let mut beside = None;
    let (mut acked, mut sent, mut waiting) = (crate::histogram(), 0_u64, VecDeque::new());
    let mut partition = 0;
    // What was due is sent, however late: the late ones are what percentiles are for.
    while clock.now() < end
        || !waiting.is_empty()
        || reader.read < sent
        || !producer.under_way.is_empty()
    {
        let now = clock.now();
        if now > end + Duration::from_secs(60).as_nanos() as u64 {
            return Err(format!("{sent} batches were sent, {} were read", reader.read));
        }
        if now < end {
            waiting.extend(std::iter::from_fn(|| schedule.due(now)));
        }
        while producer.under_way.len() < options.depth {
            let Some(due) = waiting.pop_front() else { break };
            batch.stamp(due);
            producer.push(&produce(&options.topic, partition..partition + 1, -1, &batch)?, due);
            // A walk that visits all partitions and does not follow their order.
            partition = (partition + 7919) % options.partitions;
            sent += 1;
        }
        producer.send()?;
        while let Some((answer, due)) = producer.receive()? {
            let at = 4 + 4 + 2 + options.topic.len() + 4 + 4;
            if answer.get(at..at + 2) != Some(&[0, 0]) {
                return Err(format!("Produce was refused with {:?}", answer.get(at..at + 2)));
            }
            if due >= warm {
                acked.saturating_record(clock.now().saturating_sub(due));
            }
        }
        reader.step(&clock, &batch, warm)?;
        if let Some(topic) = options.beside.as_ref().filter(|_| now >= warm && now < end) {
            let reading = match &mut beside {
                Some(reading) => reading,
                none => {
                    none.insert(Reading::begin(broker, topic, options.beside_partitions, 1 << 20)?)
                }
            };
            if !reading.step()? {
                end = now;
            }
        }
    }
    if reader.latency.is_empty() {
        return Err("nothing was read after the warm-up".to_owned());
    }
    Ok(json!({
        "beside_bytes": beside.map_or(0, |reading| reading.bytes),
        "beside_seconds": (end - warm) as f64 / 1e9,
        "batches": sent,
        "bytes": sent * (options.records * options.size) as u64,
        "ack_us": crate::percentiles(&acked),
        "end_to_end_us": crate::percentiles(&reader.latency),
    }))
}
