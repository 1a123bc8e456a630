//! Kafka's own message classes as judge: what the schemas say, as random bytes,
//! they must read and write as our codec does. This covers what kafka-protocol
//! lacks: records of the metadata log and of coordinators, files, the versions
//! that Kafka 4.0 dropped and those that came after 4.1.
//!
//! It needs Java and Kafka's jars, so it is ignored unless asked for;
//! `compat-tests/codec/check.py` fetches both and runs it. The variable
//! KAFKA_CLASSES holds the commands that answer for Kafka, newest first, one a
//! line; see compat-tests/codec/Classes.java for what they are asked.

#![expect(clippy::unwrap_used, reason = "a judge that does not answer must stop the test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bytes::Bytes;
use ottla_protocol::DecodeError;
use ottla_protocol::catalogue::ReencodeError;
use ottla_protocol::messages::CATALOGUE;

mod wire;

use wire::{Choices, damage, random};

/// A running Kafka of some release.
struct Kafka {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    versions: BTreeMap<&'static str, Option<(i16, i16)>>,
}

impl Kafka {
    fn start(command: &str) -> Self {
        let mut words = command.split(' ');
        let mut process = Command::new(words.next().unwrap())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = process.stdin.take().unwrap();
        let from = BufReader::new(process.stdout.take().unwrap());
        Self { process, to, from, versions: BTreeMap::new() }
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.to, "{question}").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "no answer to {question}");
        answer.trim_end().to_owned()
    }

    fn has(&mut self, name: &'static str, version: i16) -> bool {
        if !self.versions.contains_key(name) {
            let answer = self.ask(&format!("versions {name}"));
            let range = answer
                .split_once(' ')
                .map(|(low, high)| (low.parse().unwrap(), high.parse().unwrap()));
            self.versions.insert(name, range);
        }
        self.versions[name].is_some_and(|(low, high)| (low..=high).contains(&version))
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks Kafka about random messages of every version there is; `judge` tells
/// what is wrong with an answer, given the message's name and version.
fn with_every_version(
    cases: u64,
    change: impl Fn(u64, &mut Vec<u8>),
    judge: impl Fn(&str, Result<(Bytes, usize), ReencodeError>, &Bytes) -> bool,
) -> (usize, Vec<String>) {
    let commands = std::env::var("KAFKA_CLASSES").expect("KAFKA_CLASSES is set");
    let mut kafkas: Vec<Kafka> = commands.lines().map(Kafka::start).collect();
    let (mut judged, mut wrong) = (0, Vec::new());
    for schema in wire::schemas() {
        let ours = CATALOGUE.iter().find(|ours| ours.name == schema.name).unwrap();
        for version in ours.versions.0..=ours.versions.1 {
            let Some(at) = kafkas.iter_mut().position(|kafka| kafka.has(ours.name, version)) else {
                wrong.push(format!("{} {version}: no Kafka has it", ours.name));
                continue;
            };
            judged += 1;
            for case in 0..cases {
                let choices = random(case, case as usize * 16);
                let mut bytes = wire::generate(&schema, version, &mut Choices::new(&choices));
                change(case, &mut bytes);
                let bytes = Bytes::from(bytes);
                let question = format!("{} {version} {}", ours.name, hex(&bytes));
                let answer = kafkas[at].ask(&format!("bytes {question}"));
                let found = (ours.reencode)(bytes.clone(), version);
                if !judge(&answer, found.clone(), &bytes) {
                    let text = kafkas[at].ask(&format!("text {question}"));
                    let ours = found.map(|(bytes, left)| (hex(&bytes), left));
                    wrong
                        .push(format!("{question}\n  Kafka: {answer}\n  {text}\n  ours: {ours:?}"));
                    break;
                }
            }
        }
    }
    (judged, wrong)
}

#[test]
#[ignore = "needs Java and Kafka's jars: run compat-tests/codec/check.py"]
fn kafkas_classes_read_and_write_the_same_bytes() {
    let (judged, wrong) = with_every_version(
        60,
        |_, _| {},
        |answer, found, bytes| answer == hex(bytes) && found == Ok((bytes.clone(), 0)),
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(judged > 800, "only {judged} versions of messages were judged");
}

/// One byte changed, gone or too many: we read what Kafka reads, and refuse what
/// Kafka refuses. Tag buffers are the exception. Kafka does not look at the size
/// of a tagged field that it knows, and refuses one that comes in a version
/// before its own; nobody sends either. Kafka also reads tags that do not
/// ascend, but cannot write them.
#[test]
#[ignore = "needs Java and Kafka's jars: run compat-tests/codec/check.py"]
fn damaged_messages_fare_as_with_kafkas_classes() {
    let (_, wrong) = with_every_version(60, damage, |answer, found, _| match found {
        Ok((bytes, left)) => {
            let ours =
                if left > 0 { format!("left {left} ") } else { String::new() } + &hex(&bytes);
            answer == ours
                || answer.starts_with("unwritable")
                || answer.contains("is not valid for version")
        }
        Err(ReencodeError::Decode(DecodeError::TagSize { .. } | DecodeError::Truncated)) => true,
        Err(_) => answer.starts_with("refused") || answer.starts_with("unwritable"),
    });
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
