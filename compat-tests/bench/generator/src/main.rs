//! Loads a broker from one thread that never sleeps, and says how long it took.
//!
//! With `--rate` the loop is open: request number n is due at n / rate seconds, and
//! its latency counts from then, however late the broker lets it go out. Without, it
//! is closed: each connection keeps `--depth` requests under way. The result is one
//! line of JSON; times are in microseconds.

mod batch;
mod bulk;
mod connection;
mod idle;
mod load;
mod requests;
mod tail;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// What ends a run early: one line for the user.
pub type Outcome = Result<Value, String>;

#[derive(Parser)]
#[command(about = "Loads a Kafka broker and says how long its answers took")]
struct Arguments {
    /// The broker's address and port.
    broker: SocketAddr,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Sends the same small request again and again.
    Requests(requests::Options),
    /// Fetches a topic from its beginning as fast as it comes.
    Consume(bulk::Options),
    /// Produces at a fixed rate and reads the same records at the end of the log.
    Tail(tail::Options),
    /// Opens connections, uses each once and holds them until its input ends.
    Idle(idle::Options),
}

fn main() -> ExitCode {
    let Arguments { broker, what } = Arguments::parse();
    let outcome = match what {
        What::Requests(options) => requests::run(broker, &options),
        What::Consume(options) => bulk::consume(broker, &options),
        What::Tail(options) => tail::run(broker, &options),
        What::Idle(options) => idle::run(broker, &options),
    };
    match outcome {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// As many nines as a run of some seconds can tell.
const CURVE: [f64; 12] =
    [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.995];

/// A histogram of nanoseconds, three digits, up to ten minutes.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(600_000_000_000, 3).expect("the bounds are sound")
}

/// Percentiles in microseconds, some by name and enough of them for a curve.
pub fn percentiles(histogram: &Histogram<u64>) -> Value {
    let at = |percentile| histogram.value_at_percentile(percentile) as f64 / 1000.0;
    json!({
        "count": histogram.len(), "p50": at(50.0), "p90": at(90.0), "p99": at(99.0), "p99.9": at(99.9),
        "max": histogram.max() as f64 / 1000.0,
        "curve": CURVE.map(|percentile| (percentile, at(percentile))),
    })
}
