//! Produce, Fetch and the requests about offsets, against a whole broker.

use std::time::Duration;

use bytes::Bytes;

use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use crate::protocol::messages::delete_records_response::DeleteRecordsResponse;
use crate::protocol::messages::describe_producers_request::{
    DescribeProducersRequest, TopicRequest,
};
use crate::protocol::messages::describe_producers_response::DescribeProducersResponse;
use crate::protocol::messages::fetch_request::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic,
};
use crate::protocol::messages::fetch_response::{FetchResponse, PartitionData};
use crate::protocol::messages::init_producer_id_request::InitProducerIdRequest;
use crate::protocol::messages::init_producer_id_response::InitProducerIdResponse;
use crate::protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use crate::protocol::messages::list_offsets_response::ListOffsetsResponse;
use crate::protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use crate::protocol::messages::metadata_response::MetadataResponse;
use crate::protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use crate::protocol::messages::offset_for_leader_epoch_response::OffsetForLeaderEpochResponse;
use crate::protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use crate::protocol::messages::produce_response::{PartitionProduceResponse, ProduceResponse};
use crate::protocol::{ErrorCode, Records};
use crate::sys::clock::SystemClock;
use crate::testing::client::Client;
use crate::testing::node::Node;
use crate::types::{ProducerEpoch, ProducerId, Timestamp, TopicId};

/// One broker with a topic `t` of two partitions, and a client.
struct Bench {
    node: Node,
    client: Client,
    topic_id: TopicId,
}

impl Bench {
    fn start() -> Self {
        let node = Node::start(&[("num.partitions", "2")]);
        let mut client = node.client();
        let topic_id = create(&mut client, "t");
        Self { node, client, topic_id }
    }

    fn produce(&mut self, version: i16, acks: i16, partition: i32, records: Bytes) {
        let request = self.produce_request(version, acks, partition, records);
        self.client.send(version, &request);
    }

    fn produce_request(
        &self,
        version: i16,
        acks: i16,
        index: i32,
        records: Bytes,
    ) -> ProduceRequest {
        let data = PartitionProduceData {
            index,
            records: Some(Records::Bytes(records)),
            ..Default::default()
        };
        let mut topic = TopicProduceData { partition_data: vec![data], ..Default::default() };
        match version {
            ..13 => topic.name = "t".into(),
            _ => topic.topic_id = self.topic_id,
        }
        let topic_data = vec![topic];
        ProduceRequest { acks, timeout_ms: 1000, topic_data, ..Default::default() }
    }

    fn produced(
        &mut self,
        version: i16,
        acks: i16,
        partition: i32,
        records: Bytes,
    ) -> PartitionProduceResponse {
        self.produce(version, acks, partition, records);
        let response: ProduceResponse = self.client.receive(version).unwrap();
        response.responses[0].partition_responses[0].clone()
    }

    fn append(&mut self, partition: i32, count: usize) -> i64 {
        let answer = self.produced(9, -1, partition, batch(count));
        assert_eq!(answer.error_code, 0);
        answer.base_offset
    }

    fn fetch_request(&self, version: i16, partitions: &[(i32, i64)]) -> FetchRequest {
        let partitions = partitions
            .iter()
            .map(|&(partition, fetch_offset)| FetchPartition {
                partition,
                fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            })
            .collect::<Vec<_>>();
        let mut topic = FetchTopic { partitions, ..Default::default() };
        match version {
            ..13 => topic.topic = "t".into(),
            _ => topic.topic_id = self.topic_id,
        }
        let topics = if topic.partitions.is_empty() { vec![] } else { vec![topic] };
        FetchRequest { max_wait_ms: 0, min_bytes: 1, topics, ..Default::default() }
    }

    fn fetched(&mut self, version: i16, request: &FetchRequest) -> FetchResponse {
        self.client.call(version, request)
    }
}

fn create(client: &mut Client, topic: &str) -> TopicId {
    let topics = vec![MetadataRequestTopic { name: Some(topic.into()), ..Default::default() }];
    let request = MetadataRequest { topics: Some(topics), ..Default::default() };
    let clock = SystemClock::shared();
    let begun = clock.monotonic();
    while clock.monotonic() - begun < Duration::from_secs(30) {
        let response: MetadataResponse = client.call(12, &request);
        let topic = &response.topics[0];
        let led = topic.partitions.iter().all(|partition| partition.leader_id >= 0);
        if topic.error_code == 0 && led && !topic.partitions.is_empty() {
            return topic.topic_id;
        }
    }
    panic!("topic does not come into being");
}

fn batch_of(options: BatchOptions, count: usize) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for number in 0..count {
        builder.append(Timestamp(1_000 + number as i64), Some(b"k"), Some(b"value"));
    }
    builder.build().unwrap()
}

fn batch(count: usize) -> Bytes {
    batch_of(BatchOptions::default(), count)
}

fn all_parts(response: &FetchResponse) -> Vec<&PartitionData> {
    response.responses.iter().flat_map(|topic| &topic.partitions).collect()
}

fn len(part: &PartitionData) -> usize {
    part.records.as_ref().map_or(0, Records::len)
}

#[test]
fn what_is_produced_in_any_version_is_fetched_in_any() {
    let mut bench = Bench::start();
    for version in 3..=13 {
        let answer = bench.produced(version, -1, 0, batch(2));
        assert_eq!(answer.error_code, 0, "produce {version}");
        assert_eq!(answer.base_offset, i64::from(version - 3) * 2);
        assert_eq!(answer.log_append_time_ms, -1);
    }
    let stored = 11 * batch(2).len();
    for version in 4..=18 {
        let request = bench.fetch_request(version, &[(0, 0)]);
        let response = bench.fetched(version, &request);
        let parts = all_parts(&response);
        assert_eq!((parts[0].error_code, len(parts[0])), (0, stored), "fetch {version}");
        assert_eq!((parts[0].high_watermark, parts[0].last_stable_offset), (22, 22));
    }
}

#[test]
fn a_node_that_starts_again_has_its_records() {
    let mut bench = Bench::start();
    assert_eq!((bench.append(0, 3), bench.append(0, 4)), (0, 3));
    let Bench { node, topic_id, .. } = bench;
    let node = node.restart(&[]);
    let client = node.client();
    let mut bench = Bench { node, client, topic_id };
    assert_eq!(bench.append(0, 1), 7);
    let request = bench.fetch_request(13, &[(0, 0)]);
    assert_eq!(all_parts(&bench.fetched(13, &request))[0].high_watermark, 8);
}

#[test]
fn unknown_partitions_and_topics_are_told_apart() {
    let mut bench = Bench::start();
    let unknown_partition = bench.produced(9, 1, 7, batch(1));
    assert_eq!(unknown_partition.error_code, ErrorCode::UnknownTopicOrPartition.code());
    bench.topic_id = TopicId::from_u128(0xdead_beef);
    let unknown_topic = bench.produced(13, 1, 0, batch(1));
    assert_eq!(unknown_topic.error_code, ErrorCode::UnknownTopicId.code());
    let request = bench.fetch_request(13, &[(0, 0)]);
    let response = bench.fetched(13, &request);
    assert_eq!(all_parts(&response)[0].error_code, ErrorCode::UnknownTopicId.code());
    let request = bench.fetch_request(12, &[(7, 0)]);
    let response = bench.fetched(12, &request);
    let part = all_parts(&response)[0];
    assert_eq!(part.error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!((part.high_watermark, part.log_start_offset), (-1, -1));
}

#[test]
fn bad_batches_and_acks_are_refused_each_with_its_code() {
    let mut bench = Bench::start();
    let mut code = |version, acks, records: Bytes| {
        let code = bench.produced(version, acks, 0, records).error_code;
        ErrorCode::from_code(code).unwrap()
    };
    assert_eq!(code(9, 2, batch(1)), ErrorCode::InvalidRequiredAcks);
    assert_eq!(code(9, 1, Bytes::new()), ErrorCode::InvalidRecord);
    let mut damaged = batch(1).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(code(9, 1, damaged.into()), ErrorCode::CorruptMessage);
    let two = [batch(1), batch(1)].concat();
    assert_eq!(code(9, 1, two.into()), ErrorCode::InvalidRecord);
    let mut old = batch(1).to_vec();
    old[16] = 1;
    assert_eq!(code(9, 1, old.into()), ErrorCode::InvalidRecord);
    let transactional = BatchOptions {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: true,
        ..BatchOptions::default()
    };
    let refused = code(9, 1, batch_of(transactional, 1));
    assert_eq!(refused, ErrorCode::TransactionalIdAuthorizationFailed);
    assert_eq!(code(9, 1, batch(1)), ErrorCode::None, "and a good one goes on");
}

#[test]
fn without_acks_nothing_is_answered_and_an_error_closes_the_connection() {
    let mut bench = Bench::start();
    bench.produce(9, 0, 0, batch(3));
    assert_eq!(bench.append(0, 1), 3, "the next request is answered");
    bench.produce(9, 0, 99, batch(1));
    assert!(bench.client.is_closed());
}

#[test]
fn an_idempotent_producer_is_answered_with_the_first_offset_again() {
    let mut bench = Bench::start();
    let mut next_id = || {
        let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
        let response: InitProducerIdResponse = bench.client.call(4, &request);
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        response.producer_id
    };
    let id = next_id();
    assert_eq!(next_id(), id + 1);
    let send = |bench: &mut Bench, epoch, sequence| {
        let options = BatchOptions {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: sequence,
            ..BatchOptions::default()
        };
        let answer = bench.produced(9, -1, 0, batch_of(options, 2));
        (answer.error_code, answer.base_offset)
    };
    assert_eq!(send(&mut bench, 0, 0), (0, 0));
    assert_eq!(send(&mut bench, 0, 2), (0, 2));
    assert_eq!(send(&mut bench, 0, 0), (0, 0));
    assert_eq!(send(&mut bench, 0, 8), (ErrorCode::OutOfOrderSequenceNumber.code(), -1));
    assert_eq!(send(&mut bench, 1, 0), (0, 4));
    assert_eq!(send(&mut bench, 0, 4), (ErrorCode::InvalidProducerEpoch.code(), -1));

    let partition_indexes = vec![0, 1, 7];
    let named = |name: &str| {
        let partition_indexes = partition_indexes.clone();
        TopicRequest { name: name.into(), partition_indexes, ..Default::default() }
    };
    let topics = vec![named("t"), named("u"), named("/")];
    let request = DescribeProducersRequest { topics, ..Default::default() };
    let response: DescribeProducersResponse = bench.client.call(0, &request);
    let told = &response.topics[0].partitions;
    let producer = &told[0].active_producers[0];
    assert_eq!((producer.producer_id, producer.producer_epoch), (id, 1));
    assert_eq!((producer.last_sequence, producer.current_txn_start_offset), (1, -1));
    assert_eq!((told[0].active_producers.len(), told[1].active_producers.len()), (1, 0));
    let codes = |topic: usize| response.topics[topic].partitions.iter().map(|part| part.error_code);
    assert_eq!(codes(0).collect::<Vec<_>>(), [0, 0, 3]);
    assert!(codes(1).all(|code| code == ErrorCode::UnknownTopicOrPartition.code()));
    assert!(codes(2).all(|code| code == ErrorCode::InvalidTopicException.code()));
}

#[test]
fn records_that_were_evicted_are_fetched_with_all_others() {
    let mut bench = Bench::start();
    for partition in [0, 1, 0, 1] {
        bench.append(partition, 5000);
    }
    let request = bench.fetch_request(12, &[(0, 5000), (1, 0)]);
    let before = bench.fetched(12, &request);
    for partition in ["t-0", "t-1"] {
        bench.node.evict(partition);
        let after = bench.fetched(12, &request);
        for (before, after) in all_parts(&before).into_iter().zip(all_parts(&after)) {
            assert!(len(after) > 50_000 && before.records == after.records);
        }
    }
}

#[test]
fn a_waiting_fetch_is_answered_when_records_come() {
    let mut bench = Bench::start();
    let mut waiting = bench.node.client();
    let request =
        FetchRequest { max_wait_ms: 60_000, ..bench.fetch_request(12, &[(0, 0), (1, 0)]) };
    waiting.send(12, &request);
    bench.append(1, 1);
    let response: FetchResponse = waiting.receive(12).unwrap();
    let lens: Vec<_> = all_parts(&response).into_iter().map(len).collect();
    assert_eq!(lens, [0, batch(1).len()]);
}

#[test]
fn a_waiting_fetch_counts_the_bytes_of_all_its_partitions() {
    let mut bench = Bench::start();
    let mut waiting = bench.node.client();
    let min_bytes = i32::try_from(2 * batch(1).len()).unwrap();
    let request = bench.fetch_request(12, &[(0, 0), (1, 0)]);
    waiting.send(12, &FetchRequest { max_wait_ms: 60_000, min_bytes, ..request });
    bench.append(0, 1);
    bench.append(1, 1);
    let response: FetchResponse = waiting.receive(12).unwrap();
    assert_eq!(all_parts(&response).into_iter().map(len).sum::<usize>(), 2 * batch(1).len());
}

#[test]
fn a_fetch_for_more_than_there_is_ends_with_its_time() {
    let mut bench = Bench::start();
    bench.append(0, 1);
    let request = bench.fetch_request(12, &[(0, 0)]);
    let request = FetchRequest { max_wait_ms: 30, min_bytes: 1 << 20, ..request };
    let response = bench.fetched(12, &request);
    assert_eq!(len(all_parts(&response)[0]), batch(1).len());
}

#[test]
fn limits_hold_but_for_the_first_batch() {
    let mut bench = Bench::start();
    for partition in [0, 0, 1, 1] {
        bench.append(partition, 5);
    }
    let one = batch(5).len();
    let mut request = bench.fetch_request(12, &[(0, 0), (1, 0)]);
    let mut lens = |request: &FetchRequest| {
        let response = bench.fetched(12, request);
        all_parts(&response).into_iter().map(len).collect::<Vec<_>>()
    };
    request.max_bytes = 1;
    assert_eq!(lens(&request), [one, 0]);
    request.max_bytes = i32::try_from(3 * one).unwrap();
    assert_eq!(lens(&request), [2 * one, one]);
    request.max_bytes = i32::MAX;
    request.topics[0].partitions[0].partition_max_bytes = 1;
    assert_eq!(lens(&request), [one, 2 * one]);
    request.topics[0].partitions[1].partition_max_bytes = 1;
    assert_eq!(lens(&request), [one, 0], "only the first of all");
}

#[test]
fn offsets_beyond_the_log_and_wrong_epochs_are_told() {
    let mut bench = Bench::start();
    bench.append(0, 1);
    let mut code = |offset, epoch| {
        let mut request = bench.fetch_request(12, &[(0, offset)]);
        request.max_wait_ms = 60_000;
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        let response = bench.fetched(12, &request);
        ErrorCode::from_code(all_parts(&response)[0].error_code).unwrap()
    };
    assert_eq!(code(5, -1), ErrorCode::OffsetOutOfRange);
    assert_eq!(code(0, 99), ErrorCode::UnknownLeaderEpoch);
    assert_eq!(code(0, 0), ErrorCode::None);
}

#[test]
fn a_session_tells_only_what_changed() {
    let mut bench = Bench::start();
    bench.append(0, 1);
    let opening = FetchRequest { session_epoch: 0, ..bench.fetch_request(13, &[(0, 0), (1, 0)]) };
    let response = bench.fetched(13, &opening);
    let id = response.session_id;
    assert!(id > 0);
    assert_eq!(all_parts(&response).len(), 2);
    let next = |bench: &Bench, epoch, parts: &[(i32, i64)]| FetchRequest {
        session_id: id,
        session_epoch: epoch,
        ..bench.fetch_request(13, parts)
    };
    let request = next(&bench, 1, &[(0, 1)]);
    let response = bench.fetched(13, &request);
    assert_eq!((response.error_code, response.session_id), (0, id));
    assert!(all_parts(&response).is_empty(), "nothing changed: {response:?}");

    bench.append(1, 2);
    let request = next(&bench, 2, &[]);
    let response = bench.fetched(13, &request);
    let parts = all_parts(&response);
    assert_eq!(parts.len(), 1);
    assert_eq!((parts[0].partition_index, len(parts[0])), (1, batch(2).len()));

    let mut request = next(&bench, 3, &[]);
    let forgotten =
        ForgottenTopic { topic_id: bench.topic_id, partitions: vec![1], ..Default::default() };
    request.forgotten_topics_data = vec![forgotten];
    let response = bench.fetched(13, &request);
    assert!(all_parts(&response).is_empty(), "forgotten with its data: {response:?}");

    let stale = next(&bench, 3, &[]);
    let response = bench.fetched(13, &stale);
    assert_eq!(response.error_code, ErrorCode::InvalidFetchSessionEpoch.code());
    let named = FetchRequest { session_id: id, session_epoch: 4, ..bench.fetch_request(12, &[]) };
    let response = bench.fetched(12, &named);
    assert_eq!(response.error_code, ErrorCode::FetchSessionTopicIdError.code());
    let closing = next(&bench, -1, &[(0, 0)]);
    let response = bench.fetched(13, &closing);
    assert_eq!((response.error_code, response.session_id), (0, 0));
    let gone = next(&bench, 4, &[]);
    let response = bench.fetched(13, &gone);
    assert_eq!(response.error_code, ErrorCode::FetchSessionIdNotFound.code());
}

#[test]
fn a_session_waits_without_naming_its_partitions() {
    let mut bench = Bench::start();
    let mut waiting = bench.node.client();
    let request = FetchRequest { session_epoch: 0, ..bench.fetch_request(13, &[(0, 0), (1, 0)]) };
    let opened: FetchResponse = waiting.call(13, &request);
    let request = FetchRequest {
        session_id: opened.session_id,
        session_epoch: 1,
        max_wait_ms: 60_000,
        ..bench.fetch_request(13, &[])
    };
    waiting.send(13, &request);
    bench.append(1, 1);
    let response: FetchResponse = waiting.receive(13).unwrap();
    let parts = all_parts(&response);
    assert_eq!((parts.len(), parts[0].partition_index), (1, 1));
}

#[test]
fn timestamps_name_offsets() {
    let mut bench = Bench::start();
    bench.append(0, 3);
    let mut find = |version, timestamp| {
        let part = ListOffsetsPartition { timestamp, ..Default::default() };
        let topic =
            ListOffsetsTopic { name: "t".into(), partitions: vec![part], ..Default::default() };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let response: ListOffsetsResponse = bench.client.call(version, &request);
        let part = &response.topics[0].partitions[0];
        (part.error_code, part.offset, part.timestamp)
    };
    for version in 1..=11 {
        assert_eq!(find(version, -1), (0, 3, -1), "{version}");
        assert_eq!(find(version, -2), (0, 0, -1), "{version}");
        assert_eq!(find(version, 1_001), (0, 1, 1_001), "{version}");
        assert_eq!(find(version, 9_999), (0, -1, -1), "{version}");
    }
    assert_eq!(find(7, -3), (0, 2, 1_002));
    assert_eq!(find(8, -4), (0, 0, -1));
    assert_eq!(find(9, -5), (0, -1, -1));
    assert_eq!(find(6, -3).0, ErrorCode::UnsupportedVersion.code());
}

#[test]
fn timestamps_name_offsets_of_records_that_were_evicted() {
    let mut bench = Bench::start();
    bench.append(0, 3);
    bench.append(0, 5000);
    // A new start knows nothing of the segments yet.
    bench.node = bench.node.restart(&[("num.partitions", "2")]);
    bench.client = bench.node.client();
    bench.node.evict("t-0");
    let part = ListOffsetsPartition { timestamp: 5_999, ..Default::default() };
    let topic = ListOffsetsTopic { name: "t".into(), partitions: vec![part], ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let response: ListOffsetsResponse = bench.client.call(7, &request);
    let part = &response.topics[0].partitions[0];
    assert_eq!((part.error_code, part.offset, part.timestamp), (0, 5_002, 5_999));
}

#[test]
fn deleted_records_are_gone() {
    let mut bench = Bench::start();
    bench.append(0, 5);
    let mut delete = |partition_index, offset| {
        let part = DeleteRecordsPartition { partition_index, offset, ..Default::default() };
        let topic =
            DeleteRecordsTopic { name: "t".into(), partitions: vec![part], ..Default::default() };
        let request =
            DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() };
        let response: DeleteRecordsResponse = bench.client.call(2, &request);
        let part = &response.topics[0].partitions[0];
        (part.error_code, part.low_watermark)
    };
    assert_eq!(delete(0, 3), (0, 3));
    assert_eq!(delete(0, -1), (0, 5));
    assert_eq!(delete(0, 6), (ErrorCode::OffsetOutOfRange.code(), -1));
    assert_eq!(delete(9, 0), (ErrorCode::UnknownTopicOrPartition.code(), -1));
    let request = bench.fetch_request(12, &[(0, 4)]);
    let response = bench.fetched(12, &request);
    assert_eq!(all_parts(&response)[0].error_code, ErrorCode::OffsetOutOfRange.code());
}

#[test]
fn epochs_have_ends() {
    let mut bench = Bench::start();
    bench.append(0, 4);
    let mut end = |partition, leader_epoch| {
        let part = OffsetForLeaderPartition { partition, leader_epoch, ..Default::default() };
        let topic = OffsetForLeaderTopic {
            topic: "t".into(),
            partitions: vec![part],
            ..Default::default()
        };
        let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
        let response: OffsetForLeaderEpochResponse = bench.client.call(4, &request);
        let part = &response.topics[0].partitions[0];
        (part.error_code, part.leader_epoch, part.end_offset)
    };
    assert_eq!(end(0, 0), (0, 0, 4));
    assert_eq!(end(0, 5), (0, -1, -1));
    assert_eq!(end(9, 0).0, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn the_description_of_all_topics_is_given_again_until_they_change() {
    let mut bench = Bench::start();
    for number in 0..20 {
        create(&mut bench.client, &format!("a-topic-with-a-name-of-some-length-{number}"));
    }
    let all = MetadataRequest { topics: None, ..Default::default() };
    let first: MetadataResponse = bench.client.call(12, &all);
    let again: MetadataResponse = bench.client.call(12, &all);
    assert_eq!((first.topics.len(), &first), (21, &again));
    let older: MetadataResponse = bench.client.call(9, &all);
    assert!(older.topics.iter().all(|topic| topic.topic_id == TopicId::default()));
    create(&mut bench.client, "another");
    let changed: MetadataResponse = bench.client.call(12, &all);
    assert_eq!(changed.topics.len(), 22);
}
