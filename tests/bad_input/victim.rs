//! The broker that is put to the test, and the steps of the script: each is a
//! request or some bytes, and gives what came back in few words.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::api_versions_request::ApiVersionsRequest;
use ottla_protocol::messages::api_versions_response::ApiVersionsResponse;
use ottla_protocol::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use ottla_protocol::messages::create_partitions_response::CreatePartitionsResponse;
use ottla_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use ottla_protocol::messages::create_topics_response::CreateTopicsResponse;
use ottla_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use ottla_protocol::messages::delete_records_response::DeleteRecordsResponse;
use ottla_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use ottla_protocol::messages::delete_topics_response::DeleteTopicsResponse;
use ottla_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use ottla_protocol::messages::fetch_response::FetchResponse;
use ottla_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use ottla_protocol::messages::incremental_alter_configs_response::IncrementalAlterConfigsResponse;
use ottla_protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use ottla_protocol::messages::list_offsets_response::ListOffsetsResponse;
use ottla_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use ottla_protocol::messages::metadata_response::MetadataResponse;
use ottla_protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use ottla_protocol::messages::produce_response::ProduceResponse;

use crate::batches::records;
use crate::client::Client;

/// How long a broker may take to answer, or to close a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The broker that is put to the test.
pub struct Victim {
    pub address: SocketAddr,
    good: Client,
}

impl Victim {
    pub fn at(address: SocketAddr) -> Self {
        Self { address, good: Client::connect(address) }
    }

    /// A client that was there all the time, and one that comes now.
    pub fn serves_good_clients(&mut self) {
        for client in [&mut self.good, &mut Client::connect(self.address)] {
            let request = ApiVersionsRequest {
                client_software_name: "good".into(),
                client_software_version: "1".into(),
                ..Default::default()
            };
            let answer: ApiVersionsResponse = client.call(3, &request);
            assert_eq!(answer.error_code, 0);
        }
    }

    /// What becomes of a connection that sends these bytes: an answer, or that it
    /// is closed.
    pub fn send_raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A broker that closes early may do so before all is written.
        let _ = stream.write_all(bytes);
        let mut size = [0; 4];
        match stream.read_exact(&mut size) {
            Ok(()) => "answered".to_owned(),
            Err(error) => unanswered(&error),
        }
    }

    pub fn step(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = match words.as_slice() {
            ["create", name, partitions, factor, configs @ ..] => {
                self.create(name, partitions.parse().unwrap(), factor.parse().unwrap(), configs)
            }
            ["grow", name, count] => self.grow(name, count.parse().unwrap()),
            ["delete", name] => self.delete(name),
            ["alter", kind, name, setting] => self.alter(kind, name, setting),
            ["describe", name] => self.describe(name),
            ["produce", name, partition, kind, options @ ..] => {
                self.produce(name, partition.parse().unwrap(), kind, options)
            }
            ["fetch", name, partition, offset, options @ ..] => {
                self.fetch(name, partition.parse().unwrap(), offset.parse().unwrap(), options)
            }
            ["offsets", name, partition, timestamp] => {
                self.offsets(name, partition.parse().unwrap(), timestamp.parse().unwrap())
            }
            ["delete-records", name, partition, offset] => {
                self.delete_records(name, partition.parse().unwrap(), offset.parse().unwrap())
            }
            ["raw", kind] => self.send_raw(&raw(kind)),
            _ => panic!("no such step: {line}"),
        };
        self.serves_good_clients();
        outcome
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    fn create(&self, name: &str, partitions: i32, factor: i16, configs: &[&str]) -> String {
        let name = topic_name(name);
        let mut topic = CreatableTopic {
            name: name.as_str().into(),
            num_partitions: partitions,
            replication_factor: factor,
            ..Default::default()
        };
        for config in configs {
            if let Some(brokers) = config.strip_prefix("assign:") {
                for (index, brokers) in brokers.split(';').enumerate() {
                    topic.assignments.push(CreatableReplicaAssignment {
                        partition_index: index as i32,
                        broker_ids: brokers.split(',').map(|id| id.parse().unwrap()).collect(),
                        ..Default::default()
                    });
                }
                continue;
            }
            let (key, value) = config.split_once('=').unwrap();
            topic.configs.push(CreatableTopicConfig {
                name: key.into(),
                value: (value != "null").then(|| value.into()),
                ..Default::default()
            });
        }
        let twice = configs.contains(&"twice=");
        topic.configs.retain(|config| config.name != "twice");
        let topics = if twice { vec![topic.clone(), topic] } else { vec![topic] };
        let request = CreateTopicsRequest { topics, timeout_ms: 5000, ..Default::default() };
        let answer: CreateTopicsResponse = self.client().call(7, &request);
        codes(answer.topics.iter().map(|topic| topic.error_code))
    }

    fn grow(&self, name: &str, count: i32) -> String {
        let topic =
            CreatePartitionsTopic { name: topic_name(name).into(), count, ..Default::default() };
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic { assignments: None, ..topic }],
            timeout_ms: 5000,
            ..Default::default()
        };
        let answer: CreatePartitionsResponse = self.client().call(3, &request);
        codes(answer.results.iter().map(|result| result.error_code))
    }

    fn delete(&self, name: &str) -> String {
        let topic = DeleteTopicState { name: Some(topic_name(name).into()), ..Default::default() };
        let request =
            DeleteTopicsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
        let answer: DeleteTopicsResponse = self.client().call(6, &request);
        codes(answer.responses.iter().map(|response| response.error_code))
    }

    /// `setting` is KEY=VALUE to set, KEY+=VALUE to append, KEY to delete.
    fn alter(&self, kind: &str, name: &str, setting: &str) -> String {
        let (operation, (key, value)) = match (setting.split_once("+="), setting.split_once('=')) {
            (Some((key, value)), _) => (2, (key, Some(value))),
            (None, Some((key, value))) => (0, (key, Some(value).filter(|value| *value != "null"))),
            (None, None) => (1, (setting, None)),
        };
        let config = AlterableConfig {
            name: key.into(),
            config_operation: operation,
            value: value.map(Into::into),
            ..Default::default()
        };
        let resource = AlterConfigsResource {
            resource_type: kind.parse().unwrap(),
            resource_name: topic_name(name).into(),
            configs: vec![config],
            ..Default::default()
        };
        let request =
            IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer: IncrementalAlterConfigsResponse = self.client().call(1, &request);
        codes(answer.responses.iter().map(|response| response.error_code))
    }

    /// Metadata that creates nothing.
    fn describe(&self, name: &str) -> String {
        let topic =
            MetadataRequestTopic { name: Some(topic_name(name).into()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer: MetadataResponse = self.client().call(12, &request);
        codes(answer.topics.iter().map(|topic| topic.error_code))
    }

    pub fn produce(&self, name: &str, partition: i32, kind: &str, options: &[&str]) -> String {
        let option = |key: &str| {
            let found =
                options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
            found.map(|value| value.parse::<i16>().unwrap())
        };
        let version = option("version").unwrap_or(9);
        let acks = option("acks").unwrap_or(-1);
        let data = PartitionProduceData {
            index: partition,
            records: records(kind).map(Into::into),
            ..Default::default()
        };
        let topic = TopicProduceData {
            name: topic_name(name).into(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks,
            timeout_ms: 5000,
            topic_data: vec![topic],
            ..Default::default()
        };
        let mut client = self.client();
        if acks != 0 {
            return Self::produced(&mut client, version, &request);
        }
        // There is no answer to it, so ask something else.
        client.send(version, &request);
        client.send(12, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() });
        let answered = client.receive::<MetadataResponse>(12).is_ok();
        if answered { "silence".to_owned() } else { "closed".to_owned() }
    }

    /// Asks again while the partition of a new topic has not got its leader.
    fn produced(client: &mut Client, version: i16, request: &ProduceRequest) -> String {
        let answer = loop {
            client.send(version, request);
            let answer = match client.receive::<ProduceResponse>(version) {
                Ok(answer) => answer,
                Err(error) => return unanswered(&error),
            };
            let mut partitions =
                answer.responses.iter().flat_map(|topic| &topic.partition_responses);
            if !partitions.any(|p| error(p.error_code) == ErrorCode::NotLeaderOrFollower) {
                break answer;
            }
        };
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        let mut lines = Vec::new();
        for partition in partitions {
            let problems =
                partition.record_errors.iter().map(|error| error.batch_index.to_string());
            let problems: Vec<String> = problems.collect();
            let mut line = error(partition.error_code).to_string();
            if partition.error_code == 0 {
                line += &format!(", offset {}", partition.base_offset);
            }
            if !problems.is_empty() {
                line += &format!(", records {}", problems.join(" "));
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    fn fetch(&self, name: &str, partition: i32, offset: i64, options: &[&str]) -> String {
        let option = |key: &str| {
            let found =
                options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
            found.map(|value| value.parse::<i32>().unwrap())
        };
        let wanted = FetchPartition {
            partition,
            fetch_offset: offset,
            partition_max_bytes: option("partition-bytes").unwrap_or(1 << 20),
            current_leader_epoch: option("epoch").unwrap_or(-1),
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: topic_name(name).into(),
            partitions: vec![wanted],
            ..Default::default()
        };
        let request = FetchRequest {
            max_wait_ms: option("wait").unwrap_or(0),
            min_bytes: option("min").unwrap_or(1),
            max_bytes: option("bytes").unwrap_or(1 << 20),
            session_id: option("session").unwrap_or(0),
            session_epoch: option("session-epoch").unwrap_or(-1),
            replica_id: option("replica").unwrap_or(-1),
            topics: vec![topic],
            ..Default::default()
        };
        let mut client = self.client();
        client.send(12, &request);
        let answer = match client.receive::<FetchResponse>(12) {
            Ok(answer) => answer,
            Err(error) => return unanswered(&error),
        };
        let mut lines = vec![error(answer.error_code).to_string()];
        for partition in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            let len = partition.records.as_ref().map_or(0, |records| records.len());
            let bytes = if len > 0 { ", records" } else { "" };
            lines.push(format!(
                "partition {}{bytes}, high watermark {}",
                error(partition.error_code),
                partition.high_watermark
            ));
        }
        lines.join("\n")
    }

    fn offsets(&self, name: &str, partition_index: i32, timestamp: i64) -> String {
        let partition = ListOffsetsPartition { partition_index, timestamp, ..Default::default() };
        let topic = ListOffsetsTopic {
            name: topic_name(name).into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let mut client = self.client();
        client.send(9, &request);
        let answer = match client.receive::<ListOffsetsResponse>(9) {
            Ok(answer) => answer,
            Err(error) => return unanswered(&error),
        };
        let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let lines = partitions.map(|partition| {
            format!("{}, offset {}", error(partition.error_code), partition.offset)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn delete_records(&self, name: &str, partition_index: i32, offset: i64) -> String {
        let partition = DeleteRecordsPartition { partition_index, offset, ..Default::default() };
        let topic = DeleteRecordsTopic {
            name: topic_name(name).into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request =
            DeleteRecordsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
        let answer: DeleteRecordsResponse = self.client().call(2, &request);
        let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let lines = partitions.map(|partition| {
            let code = error(partition.error_code);
            format!("{code}, low watermark {}", partition.low_watermark)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

fn codes(codes: impl Iterator<Item = i16>) -> String {
    codes.map(|code| error(code).to_string()).collect::<Vec<_>>().join("\n")
}

/// Names that a script cannot spell.
fn topic_name(name: &str) -> String {
    match name {
        "<empty>" => String::new(),
        "<249>" => "x".repeat(249),
        "<250>" => "x".repeat(250),
        "<blank>" => "a b".to_owned(),
        "<unicode>" => "tøpic".to_owned(),
        "<nul>" => "a\0b".to_owned(),
        other => other.to_owned(),
    }
}

/// Bytes that are no request.
fn raw(kind: &str) -> Vec<u8> {
    let framed = |bytes: &[u8]| [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat();
    // API key, version, correlation id, client id; then the body.
    let request = |key: i16, version: i16, rest: &[u8]| {
        let (key, version) = (key.to_be_bytes(), version.to_be_bytes());
        framed(&[&key[..], &version, &[0, 0, 0, 1, 0, 1, b'x'], rest].concat())
    };
    match kind {
        "frame-of-0" => vec![0; 4],
        "frame-of-1" => framed(&[0]),
        "frame-of-7" => framed(&[0; 7]),
        "frame-negative" => vec![0xff; 4],
        "frame-most-negative" => vec![0x80, 0, 0, 0],
        "frame-above-the-limit" => (100_i32 * 1024 * 1024 + 1).to_be_bytes().to_vec(),
        "frame-huge" => vec![0x7f, 0xff, 0xff, 0xff],
        "http" => b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        "tls" => [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 64]].concat(),
        "random" => (0..255).map(|number: u8| number.wrapping_mul(167) ^ 0x5a).collect(),
        "api-unknown" => request(999, 0, &[]),
        "api-negative" => request(-1, 0, &[]),
        "api-of-zookeeper-times" => request(4, 0, &[]),
        "client-id-null" => framed(&[0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff]),
        "client-id-too-long" => framed(&[0, 18, 0, 0, 0, 0, 0, 1, 0x7f, 0xff, b'x']),
        "client-id-negative" => framed(&[0, 18, 0, 0, 0, 0, 0, 1, 0x80, 0, b'x']),
        "client-id-not-utf8" => framed(&[0, 18, 0, 0, 0, 0, 0, 1, 0, 2, 0xff, 0xfe]),
        "api-versions-0-trailing" => request(18, 0, &[0; 4]),
        "api-versions-newer" => request(18, 99, &[0, 1, 1, 0]),
        "api-versions-negative" => request(18, -1, &[]),
        "api-versions-3-empty" => request(18, 3, &[]),
        "api-versions-3-bad-name" => request(18, 3, &[0, 2, b'@', 2, b'1', 0]),
        "metadata-0-trailing" => request(3, 0, &[0, 0, 0, 1, 0, 1, b'z', 9, 9, 9]),
        "metadata-1-null-name" => request(3, 1, &[0, 0, 0, 1, 0xff, 0xff]),
        "metadata-1-count-huge" => request(3, 1, &[0x7f, 0xff, 0xff, 0xff]),
        "metadata-1-count-negative" => request(3, 1, &[0xff, 0xff, 0xff, 0xfe]),
        "metadata-9-unknown-tags" => request(3, 9, &[0, 1, 0, 0, 0, 1, 77, 3, 1, 2, 3]),
        "metadata-9-tag-too-long" => request(3, 9, &[0, 1, 0, 0, 0, 1, 77, 30, 1, 2, 3]),
        _ => panic!("no such bytes: {kind}"),
    }
}

/// What a client sees that gets no answer.
fn unanswered(error: &std::io::Error) -> String {
    let waits = error.kind() == std::io::ErrorKind::WouldBlock;
    if waits { "silence".to_owned() } else { "closed".to_owned() }
}
