//! Bad input over a real socket: what each gets, and that good clients are served
//! after it as if nothing had been.
//!
//! `answers.script` holds what each gets. With KAFKA_ADDRESS=127.0.0.1:9092 the
//! tests go to a broker that runs there and has no topics yet, Apache Kafka for
//! one; with UPDATE=1 besides, its answers are written down.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use ottla::{Broker, Config};
use ottla_protocol as protocol;
use ottla_protocol::apis::Api;
use ottla_protocol::messages::api_versions_request::ApiVersionsRequest;
use ottla_protocol::messages::api_versions_response::ApiVersionsResponse;
use tokio::runtime::Runtime;

mod batches;
#[path = "../../src/testing/client.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod client;
#[path = "../../src/testing/script.rs"]
mod script;
mod victim;
#[path = "../../src/protocol/tests/wire/mod.rs"]
mod wire;

use client::Client;
use victim::Victim;
use wire::Choices;

/// Runs a test against a broker of its own, or the one that is asked for.
fn with_broker(test: impl FnOnce(&mut Victim)) {
    if let Ok(address) = std::env::var("KAFKA_ADDRESS") {
        return test(&mut Victim::at(address.parse().unwrap()));
    }
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let broker = start(&runtime, dir.path().to_str().unwrap());
    test(&mut Victim::at(broker.addresses()[0]));
    runtime.block_on(broker.stop());
}

fn start(runtime: &Runtime, dir: &str) -> Broker {
    let listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0";
    // As Kafka does in any case.
    let check = ("ottla.compressed.records.check.enable", "true");
    let config = Config::from_overrides(&[("log.dirs", dir), ("listeners", listeners), check]);
    let config = config.unwrap();
    runtime.block_on(Broker::start(config)).unwrap()
}

#[test]
fn bad_input_gets_its_error() {
    with_broker(|victim| {
        script::run("../tests/bad_input/answers.script", |line| victim.step(line));
    });
}

/// Kafka unfolds whatever it is sent. We need not do the same, but must not fall
/// over it.
#[test]
fn bombs_are_survived() {
    with_broker(|victim| {
        assert_eq!(victim.step("create bombed 1 1"), "NONE");
        for kind in ["bomb-gzip", "bomb-zstd"] {
            let outcome = victim.step(&format!("produce bombed 0 {kind}"));
            assert_ne!(outcome, "closed", "{kind}");
        }
    });
}

/// What the broker says it serves.
fn served(address: SocketAddr) -> Vec<(Api, i16, i16)> {
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let answer: ApiVersionsResponse = Client::connect(address).call(3, &request);
    let known = answer.api_keys.iter().filter_map(|range| {
        Some((Api::from_key(range.api_key)?, range.min_version, range.max_version))
    });
    known.collect()
}

/// A request from its API's key to the last byte of its body, as a frame.
fn frame(api: Api, version: i16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(api.key().to_be_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 3, b'b', b'a', b'd']);
    if api.is_flexible(version) {
        bytes.push(0);
    }
    bytes.extend(body);
    [&(bytes.len() as i32).to_be_bytes()[..], &bytes].concat()
}

#[test]
fn versions_that_are_not_served_close_the_connection() {
    with_broker(|victim| {
        for (api, low, high) in served(victim.address) {
            for version in [i16::MIN, -1, low - 1, high + 1, i16::MAX] {
                let outcome = victim.send_raw(&frame(api, version, &[0; 64]));
                let answered = outcome.starts_with("answered");
                // Only ApiVersions tells what it would understand (KIP-511).
                assert_eq!(answered, api == Api::ApiVersions, "{api} {version}: {outcome}");
            }
        }
        victim.serves_good_clients();
    });
}

/// Every array of every request claims 2,147,483,647 elements.
#[test]
fn huge_arrays_close_the_connection() {
    let schemas: BTreeMap<String, wire::Message> =
        wire::schemas().into_iter().map(|schema| (schema.name.clone(), schema)).collect();
    with_broker(|victim| {
        let mut arrays = 0;
        for (api, low, high) in served(victim.address) {
            let schema = &schemas[&format!("{api}Request")];
            for version in low.max(*api.versions().start())..=high.min(*api.versions().end()) {
                let claim: &[u8] = if api.is_flexible(version) {
                    b"\xff\xff\xff\xff\x07"
                } else {
                    b"\x7f\xff\xff\xff"
                };
                for before in wire::up_to_each_count(schema, version) {
                    let body = [&before, claim, &[1; 100]].concat();
                    let outcome = victim.send_raw(&frame(api, version, &body));
                    assert_eq!(outcome, "closed", "{api} {version} {before:02x?}");
                    arrays += 1;
                }
            }
        }
        victim.serves_good_clients();
        assert!(arrays > 100, "only {arrays} arrays");
    });
}

/// Requests that can be read but make no sense, of every API and version: no
/// handler panics over them.
#[test]
fn senseless_requests_are_survived() {
    static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.lock().unwrap().push(info.to_string());
        before(info);
    }));
    with_broker(|victim| {
        for schema in wire::schemas().iter().filter(|schema| schema.kind == "request") {
            let Some((api, low, high)) = served(victim.address)
                .into_iter()
                .find(|(api, ..)| format!("{api}Request") == schema.name)
            else {
                continue;
            };
            for version in low.max(*api.versions().start())..=high {
                for case in 0..4 {
                    let choices = wire::random(case * 31 + version as u64, 40 << case);
                    let body = wire::generate(schema, version, &mut Choices::new(&choices));
                    let mut stream = TcpStream::connect(victim.address).unwrap();
                    stream.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
                    stream.write_all(&frame(api, version, &body)).unwrap();
                    // Some wait long for others; their patience is not ours.
                    let _ = stream.read(&mut [0; 4096]);
                }
            }
        }
        victim.serves_good_clients();
        assert!(PANICS.lock().unwrap().is_empty(), "{:#?}", PANICS.lock().unwrap());
    });
}
