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

/// Runs it.
pub fn consume(broker: SocketAddr, options: &Options) -> Outcome {
    let mut connection = Connection::open(broker)?;
    let mut from: Vec<_> = (0..options.partitions).map(|partition| (partition, 0)).collect();
    let clock = Clock::start();
    let (mut bytes, mut fetches) = (0_u64, 0_u64);
    loop {
        let request = fetch(&options.topic, &from, 100, options.partition_bytes);
        connection.push(&framed(FETCH, &request)?, 0);
        let frame = loop {
            connection.send()?;
            if let Some((frame, _)) = connection.receive()? {
                break frame;
            }
        };
        fetches += 1;
        let came = take(body(FETCH, frame)?, &mut from)?;
        bytes += came;
        if came == 0 || (options.bytes > 0 && bytes >= options.bytes) {
            break;
        }
    }
    let seconds = clock.now() as f64 / 1e9;
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
