//! The frame of the Rust rows: the operations in order, one line for each, `operation TAB ok|skip|FAIL TAB detail`.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::time::Duration;

/// How long one operation may take.
pub const LIMIT: Duration = Duration::from_secs(60);
/// All operations, in order.
pub const OPERATIONS: [&str; 21] = [
    "connect",
    "create-topic",
    "describe",
    "acks",
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
    "idempotent",
    "records",
    "seek",
    "add-partitions",
    "configs",
    "delete-records",
    "delete-topic",
    "group-consume",
    "group-rebalance",
    "static-member",
    "cooperative-sticky",
    "groups-admin",
];

/// Why an operation has no detail.
#[derive(Debug)]
pub enum Failure {
    /// The client lacks it.
    Skip(&'static str),
    /// It went wrong.
    Wrong(String),
}

/// What an operation saw.
pub type Outcome<T = String> = Result<T, Failure>;

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Wrong(error.to_string())
    }
}

/// Runs all operations and prints their lines.
pub async fn run<F: Future<Output = Outcome>>(operation: impl Fn(&'static str) -> F) {
    for name in OPERATIONS {
        let (status, detail) = match tokio::time::timeout(LIMIT, operation(name)).await {
            Ok(Ok(detail)) => ("ok", detail),
            Ok(Err(Failure::Skip(reason))) => ("skip", reason.to_owned()),
            Ok(Err(Failure::Wrong(reason))) => ("FAIL", reason),
            Err(_) => ("FAIL", format!("not done within {LIMIT:?}")),
        };
        println!("{name}\t{status}\t{}", detail.split_whitespace().collect::<Vec<_>>().join(" "));
    }
}

/// Fails the operation when a value is not what it must be.
pub fn expect<T: Debug + PartialEq>(what: &str, seen: T, wanted: T) -> Outcome<()> {
    let short = |value: &T| format!("{value:?}").chars().take(200).collect::<String>();
    if seen == wanted {
        Ok(())
    } else {
        Err(Failure::Wrong(format!("{what}: {} instead of {}", short(&seen), short(&wanted))))
    }
}

/// Texts that a codec can shrink, each different.
pub fn values(label: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{label}-{number} ").repeat(20)).collect()
}

/// Now, in milliseconds.
pub fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_millis() as i64)
}
