//! Reading a topic from its beginning.

use std::net::SocketAddr;

use clap::Args;
use ottla_protocol::messages::fetch_response::FetchResponse;
use serde_json::json;

use crate::Outcome;
use crate::batch::next_batch;
use crate::connection::{Connection, body, framed};
use crate::load::Clock;
use crate::requests::{FETCH, fetch};

/// What is read.
#[derive(Args, Debug)]
pub struct Options {
    /// The topic.
    #[arg(long, default_value = "load")]
    topic: String,
    /// Its partitions, all in each Fetch.
    #[arg(long, default_value_t = 1)]
    partitions: i32,
    /// Most bytes of a partition in an answer.
    #[arg(long, default_value_t = 1 << 20)]
    partition_bytes: i32,
    /// Ends after so many bytes; 0: at the end of the log.
    #[arg(long, default_value_t = 0)]
    bytes: u64,
}

/// A reader on its way through a topic, one Fetch at a time.
pub struct Reading {
    connection: Connection,
    topic: String,
    from: Vec<(i32, i64)>,
    partition_bytes: i32,
    /// Of records, so far.
    pub bytes: u64,
    /// Answers, so far.
    pub fetches: u64,
}

impl Reading {
    /// Asks for the beginning of all partitions, of each up to `partition_bytes` at a time.
    pub fn begin(
        broker: SocketAddr,
        topic: &str,
        partitions: i32,
        partition_bytes: i32,
    ) -> Result<Self, String> {
        let mut reading = Self {
            connection: Connection::open(broker)?,
            topic: topic.to_owned(),
            from: (0..partitions).map(|partition| (partition, 0)).collect(),
            partition_bytes,
            bytes: 0,
            fetches: 0,
        };
        reading.ask()?;
        Ok(reading)
    }

    fn ask(&mut self) -> Result<(), String> {
        let request = fetch(&self.topic, &self.from, 100, self.partition_bytes);
        self.connection.push(&framed(FETCH, &request)?, 0);
        self.connection.send()
    }

    /// Takes what has come and asks for more; false at the end of the log.
    pub fn step(&mut self) -> Result<bool, String> {
        self.connection.send()?;
        let Some((frame, _)) = self.connection.receive()? else { return Ok(true) };
        self.fetches += 1;
        let came = take(body(FETCH, frame)?, &mut self.from)?;
        self.bytes += came;
        if came == 0 {
            return Ok(false);
        }
        self.ask()?;
        Ok(true)
    }
}

/// Runs it.
pub fn consume(broker: SocketAddr, options: &Options) -> Outcome {
    let clock = Clock::start();
    let mut reading =
        Reading::begin(broker, &options.topic, options.partitions, options.partition_bytes)?;
    while reading.step()? && (options.bytes == 0 || reading.bytes < options.bytes) {}
    let seconds = clock.now() as f64 / 1e9;
    let Reading { bytes, fetches, .. } = reading;
    Ok(
        json!({ "bytes": bytes, "fetches": fetches, "seconds": seconds, "bytes_per_second": bytes as f64 / seconds }),
    )
}

/// Moves the offsets on; how many bytes came.
fn take(response: FetchResponse, from: &mut [(i32, i64)]) -> Result<u64, String> {
    let mut came = 0;
    for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
        if partition.error_code != 0 {
            return Err(format!("Fetch was refused with {}", partition.error_code));
        }
        let Some(records) = partition.records.as_ref().and_then(|records| records.bytes()) else {
            continue;
        };
        let mut at = 0;
        while let Some((length, next)) = next_batch(&records[at..]) {
            at += length;
            if let Some(place) = from.get_mut(partition.partition_index as usize) {
                place.1 = next;
            }
        }
        came += at as u64;
    }
    Ok(came)
}
