//! Groups over real sockets: several clients at once, each step a request, and who
//! is answered what by it.
//!
//! `answers.script` was written by hand, `histories.script` by dice; both hold what
//! Apache Kafka 4.4.0 answers. With KAFKA_ADDRESS=127.0.0.1:9092 the steps go to a
//! broker that runs there with the settings below and has no groups yet; with
//! UPDATE=1 besides, its answers are written down.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests of a real broker")]

use std::net::SocketAddr;
use std::path::Path;

use ottla::{Broker, Config};
use ottla_protocol as protocol;
use tokio::runtime::Runtime;

mod cast;
#[path = "../../src/testing/client.rs"]
mod client;
mod dice;
mod requests;
mod restarts;
#[path = "../../src/testing/script.rs"]
mod script;

use cast::Cast;

/// What the scripts take for granted.
const SETTINGS: [(&str, &str); 5] = [
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "6000"),
    ("group.max.session.timeout.ms", "1800000"),
    ("group.max.size", "4"),
    ("offset.metadata.max.bytes", "16"),
];

/// Runs a test against a broker of its own, or the one that is asked for.
fn with_broker(test: impl FnOnce(SocketAddr)) {
    if let Ok(address) = std::env::var("KAFKA_ADDRESS") {
        return test(address.parse().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let mut settings = SETTINGS.to_vec();
    settings.push(("log.dirs", dir.path().to_str().unwrap()));
    settings.push(("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"));
    let config = Config::from_overrides(&settings).unwrap();
    let runtime = Runtime::new().unwrap();
    let broker = runtime.block_on(Broker::start(config)).unwrap();
    test(broker.addresses()[0]);
    runtime.block_on(broker.stop());
}

/// Runs a test against a broker whose files are in a directory that may have some.
fn with_broker_in(dir: &Path, test: impl FnOnce(SocketAddr)) {
    let config = Config::from_overrides(&[
        // Long enough for all to come to the first rebalance.
        ("group.initial.rebalance.delay.ms", "1000"),
        ("log.dirs", dir.to_str().unwrap()),
        ("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"),
    ]);
    let runtime = Runtime::new().unwrap();
    let broker = runtime.block_on(Broker::start(config.unwrap())).unwrap();
    test(broker.addresses()[0]);
    runtime.block_on(broker.stop());
}

#[test]
fn each_gets_its_answer() {
    with_broker(|address| {
        let mut cast = Cast::at(address);
        script::run_knowing("../tests/groups/answers.script", |line, expected| {
            cast.step(line, expected)
        });
    });
}

#[test]
fn histories_go_as_in_kafka() {
    if let Ok(seeds) = std::env::var("HISTORIES") {
        dice::write("tests/groups/histories.script", seeds.parse().unwrap());
    }
    with_broker(|address| {
        let mut cast = Cast::at(address);
        script::run_knowing("../tests/groups/histories.script", |line, expected| {
            cast.step(line, expected)
        });
    });
}
