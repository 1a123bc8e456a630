//! Partitions on a disk in memory: who may write and read what, and who is woken.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::replicas::Assignment;
use super::role::Leadership;
use super::waiters::{FetchWaiter, Isolation};
use super::*;
use crate::log::batch_builder::{BatchBuilder, BatchOptions};
use crate::log::control::EndTransactionMarker;
use crate::log::files::OpenFiles;
use crate::log::{
    AppendOrigin, CleanupPolicy, DirectoryHealth, LogKind, LogOptions, OffsetFor, OffsetSpec,
    ProducerContext, TimestampAndOffset,
};
use crate::sys::clock::ManualClock;
use crate::sys::cold::IfCold;
use crate::sys::memory_disk::{Fault, MemoryDisk};
use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp, TopicId};

const ME: BrokerId = BrokerId(1);
const CONSUMER: Reader =
    Reader { isolation: Isolation::HighWatermark, leader_only: true, follower: None };

fn partition_with(config: LogConfig) -> Arc<Partition> {
    partition_on(&MemoryDisk::new(), config)
}

fn partition_on(disk: &MemoryDisk, config: LogConfig) -> Arc<Partition> {
    let clock = ManualClock::starting_at(Timestamp(1_000_000));
    let topic_id = TopicId::from_u128(7);
    let options = LogOptions {
        config: Arc::new(config),
        kind: LogKind::Partition,
        topic_id: Some(topic_id),
        clean: true,
        recovery_point: Offset::ZERO,
        log_start: Offset::ZERO,
        high_watermark: Offset::ZERO,
        producer_expiration_ms: 86_400_000,
        files: OpenFiles::new(disk.shared(), 10),
        clock: clock.clone(),
        health: DirectoryHealth::sound(),
        rewound: None,
    };
    let (log, _) = Log::open(Path::new("/data/t-0"), options).unwrap();
    Partition::new(TopicPartition::new("t", 0), ME, clock, log)
}

fn news(leader: i32, epoch: i32, replicas: &[i32], isr: &[i32]) -> Leadership {
    let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    Leadership {
        leader: Some(BrokerId(leader)),
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: epoch,
        assignment: Assignment { replicas: brokers(replicas), isr: brokers(isr) },
        max_lag: Duration::from_secs(30),
    }
}

/// The only replica, and leader in epoch 5.
fn alone() -> Arc<Partition> {
    let partition = partition_with(LogConfig::default());
    partition.lead_or_follow(&news(1, 5, &[1], &[1])).unwrap();
    partition
}

/// Leader of two replicas, the other in sync but silent so far.
fn with_follower() -> Arc<Partition> {
    let partition = partition_with(LogConfig::default());
    partition.lead_or_follow(&news(1, 5, &[1, 2], &[1, 2])).unwrap();
    partition
}

fn batch_with(options: BatchOptions, records: usize) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for number in 0..records {
        builder.append(Timestamp(1_000 + number as i64), Some(b"k"), Some(b"value"));
    }
    builder.build().unwrap()
}

fn batch(records: usize) -> Bytes {
    batch_with(BatchOptions::default(), records)
}

fn append(partition: &Partition, records: usize) -> Appended {
    partition.append(&batch(records), &client(), true).unwrap()
}

fn client() -> ProducerContext {
    ProducerContext::of(AppendOrigin::Client)
}

fn at(offset: i64) -> Position {
    Position {
        fetch_offset: Offset(offset),
        current_leader_epoch: LeaderEpoch::NONE,
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start: Offset::NONE,
    }
}

const ALL: Limits = Limits { max_bytes: 1 << 20, at_least_one: true, if_cold: IfCold::Wait };

fn follower_fetches(partition: &Partition, offset: i64) {
    let end = partition.extent().log_end;
    let position = Position { log_start: Offset::ZERO, ..at(offset) };
    partition.follower_fetched(BrokerId(2), &position, end);
}

fn read_len(partition: &Partition, reader: &Reader, offset: i64) -> usize {
    let readable = partition.read(reader, &at(offset), ALL).unwrap();
    readable.slice.map_or(0, |slice| slice.len())
}

#[test]
fn alone_an_append_is_committed_and_readable_at_once() {
    let partition = alone();
    let bytes = batch(3);
    let first = partition.append(&bytes, &client(), true).unwrap();
    let second = append(&partition, 2);
    assert_eq!((first.info.first_offset, second.info.first_offset), (Offset(0), Offset(3)));
    assert!(first.committed && second.committed);
    assert_eq!(second.required, Offset(5));
    assert_eq!(read_len(&partition, &CONSUMER, 0), bytes.len() + batch(2).len());
    let extent = partition.extent();
    assert_eq!((extent.high_watermark, extent.log_end), (Offset(5), Offset(5)));
}

#[test]
fn only_the_leader_takes_appends_and_answers_consumers() {
    let partition = partition_with(LogConfig::default());
    let appended = partition.append(&batch(1), &client(), false);
    assert!(matches!(appended, Err(PartitionError::NotLeaderOrFollower)));
    partition.lead_or_follow(&news(2, 3, &[1, 2], &[1, 2])).unwrap();
    let appended = partition.append(&batch(1), &client(), false);
    assert!(matches!(appended, Err(PartitionError::NotLeaderOrFollower)));
    let read = partition.read(&CONSUMER, &at(0), ALL);
    assert!(matches!(read, Err(PartitionError::NotLeaderOrFollower)));
    let anywhere = Reader { leader_only: false, ..CONSUMER };
    assert_eq!(read_len(&partition, &anywhere, 0), 0, "a follower serves newer consumers");
}

#[test]
fn leader_epochs_are_compared_when_the_client_gives_one() {
    let partition = alone();
    let read = |epoch| {
        let position = Position { current_leader_epoch: LeaderEpoch(epoch), ..at(0) };
        partition.read(&CONSUMER, &position, ALL)
    };
    assert!(read(5).is_ok());
    assert!(matches!(read(4), Err(PartitionError::FencedLeaderEpoch)));
    assert!(matches!(read(6), Err(PartitionError::UnknownLeaderEpoch)));
    let end = |claimed, epoch| partition.end_of_epoch(LeaderEpoch(claimed), LeaderEpoch(epoch));
    append(&partition, 4);
    assert_eq!(end(-1, 5).unwrap(), Some((LeaderEpoch(5), Offset(4))));
    assert_eq!(end(5, 9).unwrap(), None);
    assert!(matches!(end(4, 5), Err(PartitionError::FencedLeaderEpoch)));
}

#[test]
fn offsets_outside_the_log_are_refused() {
    let partition = alone();
    append(&partition, 2);
    assert_eq!(read_len(&partition, &CONSUMER, 2), 0, "the end is a place to wait");
    for offset in [-1, 3] {
        let read = partition.read(&CONSUMER, &at(offset), ALL);
        assert!(matches!(read, Err(PartitionError::OffsetOutOfRange)), "{offset}");
    }
}

#[test]
fn a_consumer_sees_only_what_followers_hold_too() {
    let partition = with_follower();
    let appended = append(&partition, 4);
    assert!(!appended.committed);
    assert_eq!(read_len(&partition, &CONSUMER, 0), 0);
    let follower =
        Reader { isolation: Isolation::LogEnd, leader_only: true, follower: Some(BrokerId(2)) };
    assert!(read_len(&partition, &follower, 0) > 0);
    follower_fetches(&partition, 4);
    assert!(read_len(&partition, &CONSUMER, 0) > 0);
    let stranger = Reader { follower: Some(BrokerId(3)), ..follower };
    let read = partition.read(&stranger, &at(0), ALL);
    assert!(matches!(read, Err(PartitionError::NotLeaderOrFollower)));
}

#[tokio::test]
async fn acks_all_waits_for_the_followers() {
    let partition = with_follower();
    let required = append(&partition, 4).required;
    let waiting = tokio::spawn({
        let partition = partition.clone();
        async move { partition.committed(required).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    follower_fetches(&partition, 4);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(partition.committed(required).await, Ok(()), "nothing left to wait for");
}

#[tokio::test]
async fn losing_leadership_ends_all_waits() {
    let partition = with_follower();
    let required = append(&partition, 1).required;
    let waiting = tokio::spawn({
        let partition = partition.clone();
        async move { partition.committed(required).await }
    });
    tokio::task::yield_now().await;
    let waiter = Arc::<FetchWaiter>::default();
    partition.watch(&waiter, 0, Isolation::HighWatermark, Some(partition.extent()));
    partition.lead_or_follow(&news(2, 6, &[1, 2], &[1, 2])).unwrap();
    assert_eq!(waiting.await.unwrap(), Err(CommitError::NotLeaderOrFollower));
    waiter.enough(1_000_000).await;
}

#[test]
fn too_few_in_sync_replicas_refuse_acks_all_only() {
    let config = LogConfig { min_insync_replicas: 2, ..LogConfig::default() };
    let partition = partition_with(config);
    partition.lead_or_follow(&news(1, 5, &[1, 2], &[1])).unwrap();
    let refused = partition.append(&batch(1), &client(), true);
    let (in_sync, min_in_sync) = (1, 2);
    assert!(
        matches!(refused, Err(PartitionError::NotEnoughReplicas { in_sync: a, min_in_sync: b })
            if (a, b) == (in_sync, min_in_sync))
    );
    let appended = partition.append(&batch(1), &client(), false).unwrap();
    assert!(!appended.committed, "nor does the high watermark move");
}

#[test]
fn older_news_change_nothing() {
    let partition = alone();
    partition.lead_or_follow(&news(2, 4, &[1, 2], &[2])).unwrap();
    assert!(partition.is_leader());
}

#[tokio::test]
async fn a_fetch_that_watches_wakes_for_the_bytes_it_needs() {
    let partition = alone();
    let bytes = batch(1).len() as u64;
    let waiter = Arc::<FetchWaiter>::default();
    partition.watch(&waiter, 3, Isolation::HighWatermark, Some(partition.extent()));
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.enough(2 * bytes).await }
    });
    tokio::task::yield_now().await;
    append(&partition, 1);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    append(&partition, 1);
    waiting.await.unwrap();
    assert_eq!(waiter.take_dirty(), [3]);
    partition.unwatch(&waiter, 3);
    append(&partition, 1);
    assert!(waiter.take_dirty().is_empty());
}

#[tokio::test]
async fn what_was_appended_between_the_look_and_the_watch_wakes_at_once() {
    let partition = alone();
    let seen = partition.extent();
    append(&partition, 1);
    let waiter = Arc::<FetchWaiter>::default();
    partition.watch(&waiter, 0, Isolation::HighWatermark, Some(seen));
    waiter.enough(1).await;
    assert_eq!(waiter.take_dirty(), [0]);
}

#[test]
fn an_idempotent_batch_sent_twice_is_stored_once() {
    let partition = alone();
    let send = |sequence| {
        let options = BatchOptions {
            producer_id: ProducerId(9),
            producer_epoch: ProducerEpoch(0),
            base_sequence: sequence,
            ..BatchOptions::default()
        };
        partition.append(&batch_with(options, 2), &client(), true)
    };
    assert_eq!(send(0).unwrap().info.first_offset, Offset(0));
    assert_eq!(send(2).unwrap().info.first_offset, Offset(2));
    let again = send(0).unwrap();
    assert!(again.info.duplicate && again.committed);
    assert_eq!((again.info.first_offset, again.required), (Offset(0), Offset(2)));
    assert_eq!(partition.extent().log_end, Offset(4));
    assert!(matches!(send(9), Err(PartitionError::Append(AppendError::Producer(_)))));
}

#[test]
fn read_committed_stops_at_an_open_transaction_and_learns_what_was_aborted() {
    let partition = alone();
    append(&partition, 1);
    let options = BatchOptions {
        producer_id: ProducerId(9),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: true,
        ..BatchOptions::default()
    };
    let origin = AppendOrigin::Coordinator;
    let origin = &ProducerContext { verification_required: false, ..ProducerContext::of(origin) };
    partition.append(&batch_with(options, 2), origin, true).unwrap();
    let committed = Reader { isolation: Isolation::LastStable, ..CONSUMER };
    assert_eq!(partition.extent().last_stable, Offset(1));
    let readable = partition.read(&committed, &at(0), ALL).unwrap();
    assert_eq!(readable.slice.unwrap().end_offset, Offset(1));
    assert_eq!(read_len(&partition, &committed, 1), 0);
    assert!(read_len(&partition, &CONSUMER, 1) > 0);

    let waiter = Arc::<FetchWaiter>::default();
    partition.watch(&waiter, 0, Isolation::LastStable, Some(partition.extent()));
    let marker = EndTransactionMarker { committed: false, coordinator_epoch: 0 };
    let producer = (ProducerId(9), ProducerEpoch(0));
    let marker = marker.batch(Offset::ZERO, LeaderEpoch::NONE, Timestamp(5), producer).unwrap();
    partition.append(&marker, origin, true).unwrap();
    assert_eq!(waiter.take_dirty(), [0]);
    assert_eq!(partition.extent().last_stable, Offset(4));
    let readable = partition.read(&committed, &at(1), ALL).unwrap();
    let aborted: Vec<_> =
        readable.aborted.iter().map(|txn| (txn.producer_id, txn.first_offset)).collect();
    assert_eq!(aborted, [(ProducerId(9), Offset(1))]);
}

#[tokio::test]
async fn delete_records_moves_the_log_start_within_the_high_watermark() {
    let partition = alone();
    append(&partition, 5);
    let beyond = partition.delete_records(Some(Offset(6)));
    assert!(matches!(beyond, Err(PartitionError::OffsetOutOfRange)));
    assert_eq!(partition.delete_records(Some(Offset(3))).unwrap(), Offset(3));
    assert_eq!(partition.deleted(Offset(3)).await.unwrap(), Offset(3));
    assert_eq!(partition.delete_records(Some(Offset(2))).unwrap(), Offset(2), "done already");
    assert_eq!(partition.extent().log_start, Offset(3));
    assert_eq!(partition.delete_records(None).unwrap(), Offset(5));
    let read = partition.read(&CONSUMER, &at(4), ALL);
    assert!(matches!(read, Err(PartitionError::OffsetOutOfRange)));
}

#[tokio::test]
async fn delete_records_waits_for_followers_to_say_that_they_deleted() {
    let partition = with_follower();
    append(&partition, 5);
    follower_fetches(&partition, 5);
    assert_eq!(partition.delete_records(None).unwrap(), Offset(5));
    let waiting = tokio::spawn({
        let partition = partition.clone();
        async move { partition.deleted(Offset(5)).await.unwrap() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let position = Position { log_start: Offset(5), ..at(5) };
    partition.follower_fetched(BrokerId(2), &position, Offset(5));
    assert_eq!(waiting.await.unwrap(), Offset(5));
}

#[test]
fn compacted_topics_keep_their_records() {
    let cleanup_policy = CleanupPolicy { delete: false, compact: true };
    let partition = partition_with(LogConfig { cleanup_policy, ..LogConfig::default() });
    partition.lead_or_follow(&news(1, 5, &[1], &[1])).unwrap();
    append(&partition, 1);
    let deleted = partition.delete_records(None);
    assert!(matches!(deleted, Err(PartitionError::PolicyViolation)));
}

fn question(spec: OffsetSpec, isolation: Option<Isolation>) -> OffsetQuestion {
    let current_leader_epoch = LeaderEpoch::NONE;
    OffsetQuestion { spec, isolation, current_leader_epoch, leader_only: true }
}

fn offset_for(
    partition: &Partition,
    question: &OffsetQuestion,
) -> Result<Option<TimestampAndOffset>, LookupError> {
    match partition.offset_for(question, IfCold::Wait)? {
        OffsetFor::Known(found) => Ok(found),
        OffsetFor::Search(search) => {
            Ok(partition.offset_found(question, &search, search.run())?.unwrap())
        }
        OffsetFor::Cold(cold) => panic!("{cold}"),
    }
}

#[test]
fn offsets_by_timestamp() {
    let partition = alone();
    append(&partition, 3);
    let find = |spec| {
        let question = question(spec, Some(Isolation::HighWatermark));
        offset_for(&partition, &question)
            .unwrap()
            .map(|found| (found.offset.0, found.timestamp.0, found.leader_epoch))
    };
    let epoch = Some(LeaderEpoch(5));
    assert_eq!(find(OffsetSpec::Latest), Some((3, -1, epoch)));
    assert_eq!(find(OffsetSpec::Earliest), Some((0, -1, epoch)));
    assert_eq!(find(OffsetSpec::Timestamp(Timestamp(1_001))), Some((1, 1_001, epoch)));
    assert_eq!(find(OffsetSpec::MaxTimestamp), Some((2, 1_002, epoch)));
    assert_eq!(find(OffsetSpec::Timestamp(Timestamp(2_000))), None);
}

#[test]
fn a_new_leader_tells_no_latest_offset_before_its_high_watermark_has_caught_up() {
    let partition = with_follower();
    append(&partition, 3);
    partition.lead_or_follow(&news(1, 6, &[1, 2], &[1, 2])).unwrap();
    let find = |spec, isolation| offset_for(&partition, &question(spec, isolation));
    let consumer = Some(Isolation::HighWatermark);
    assert!(matches!(find(OffsetSpec::Latest, consumer), Err(LookupError::OffsetNotAvailable)));
    assert!(find(OffsetSpec::Earliest, consumer).is_ok());
    let replica = find(OffsetSpec::Latest, None).unwrap().unwrap();
    assert_eq!(replica.offset, Offset(3));
    follower_fetches(&partition, 3);
    assert!(find(OffsetSpec::Latest, consumer).is_ok());
}

#[test]
fn a_follower_that_parted_is_told_where() {
    let partition = alone();
    append(&partition, 3);
    partition.lead_or_follow(&news(1, 7, &[1, 2], &[1])).unwrap();
    append(&partition, 2);
    let follower =
        Reader { isolation: Isolation::LogEnd, leader_only: true, follower: Some(BrokerId(2)) };
    let read = |offset, epoch| {
        let position = Position { last_fetched_epoch: LeaderEpoch(epoch), ..at(offset) };
        partition.read(&follower, &position, ALL)
    };
    assert_eq!(read(4, 5).unwrap().diverging, Some((LeaderEpoch(5), Offset(3))));
    assert_eq!(read(5, 6).unwrap().diverging, Some((LeaderEpoch(5), Offset(3))));
    assert_eq!(read(3, 5).unwrap().diverging, None);
    assert_eq!(read(5, 7).unwrap().diverging, None);
    assert!(matches!(read(3, 9), Err(PartitionError::OffsetOutOfRange)));
}

#[test]
fn a_retired_partition_answers_nothing() {
    let partition = alone();
    partition.retire();
    assert!(matches!(partition.read(&CONSUMER, &at(0), ALL), Err(PartitionError::Gone)));
    let appended = partition.append(&batch(1), &client(), false);
    assert!(matches!(appended, Err(PartitionError::Gone)));
    partition.lead_or_follow(&news(1, 9, &[1], &[1])).unwrap();
    assert!(!partition.is_leader());
}

#[test]
fn what_flush_messages_asks_for_is_synced_before_anybody_hears_of_it() {
    let disk = MemoryDisk::new();
    let config = LogConfig { flush_messages: 3, ..LogConfig::default() };
    let partition = partition_on(&disk, config);
    partition.lead_or_follow(&news(1, 5, &[1], &[1])).unwrap();
    let recovery_point = || partition.state.lock().log.recovery_point();
    assert!(append(&partition, 2).committed);
    assert_eq!(recovery_point(), Offset(0));
    assert!(append(&partition, 1).committed);
    assert_eq!(recovery_point(), Offset(3));
    // The write succeeds, the sync does not.
    disk.break_with(Fault::full(1));
    assert!(partition.append(&batch(3), &client(), true).is_err());
    let extent = partition.extent();
    assert_eq!((extent.log_end, extent.high_watermark), (Offset(6), Offset(3)));
    assert_eq!(recovery_point(), Offset(3));
    disk.heal();
    assert!(partition.append(&batch(1), &client(), true).is_err(), "the directory is offline");
}

#[test]
fn an_append_that_finds_no_descriptor_fails_and_the_next_one_succeeds() {
    let disk = MemoryDisk::new();
    let partition = partition_on(&disk, LogConfig::default());
    partition.lead_or_follow(&news(1, 5, &[1], &[1])).unwrap();
    disk.allow_open(0);
    let error = partition.append(&batch(3), &client(), true).unwrap_err();
    assert!(error.passes(), "{error}");
    disk.allow_open(usize::MAX);
    assert!(append(&partition, 3).committed);
    assert_eq!(partition.extent().log_end, Offset(3));
}

#[test]
fn a_read_that_may_not_wait_leaves_the_partition_to_others_while_the_disk_is_slow() {
    let disk = MemoryDisk::new();
    let partition = partition_on(&disk, LogConfig::default());
    partition.lead_or_follow(&news(1, 5, &[1], &[1])).unwrap();
    append(&partition, 3);
    append(&partition, 1);
    let expected = partition.read(&CONSUMER, &at(0), ALL).unwrap().slice.unwrap();
    disk.evict(Path::new("/data/t-0/00000000000000000000.log"));
    disk.stall();
    let limits = Limits { if_cold: IfCold::Refuse, ..ALL };
    let readable = partition.read(&CONSUMER, &at(0), limits).unwrap();
    assert!(readable.slice.is_none());
    let cold = readable.cold.unwrap();
    append(&partition, 2);
    disk.resume();
    cold.bring_in().unwrap();
    let slice = partition.read(&CONSUMER, &at(0), limits).unwrap().slice.unwrap();
    assert_eq!((slice.first_offset, slice.end_offset), (Offset(0), Offset(6)));
    assert!(slice.read().unwrap().starts_with(&expected.read().unwrap()));
}

#[test]
fn a_search_by_time_leaves_the_partition_to_others_while_the_disk_is_slow() {
    let disk = MemoryDisk::new();
    let partition = partition_on(&disk, LogConfig::default());
    partition.lead_or_follow(&news(1, 5, &[1], &[1])).unwrap();
    append(&partition, 3);
    append(&partition, 1);
    disk.evict(Path::new("/data/t-0/00000000000000000000.log"));
    disk.stall();
    let question = question(OffsetSpec::Timestamp(Timestamp(1_002)), None);
    let OffsetFor::Search(search) = partition.offset_for(&question, IfCold::Refuse).unwrap() else {
        panic!("the indexes are in memory");
    };
    let found = std::thread::scope(|scope| {
        let found = scope.spawn(|| search.run());
        while disk.waits() == 0 {
            std::thread::yield_now();
        }
        append(&partition, 2);
        disk.resume();
        found.join().unwrap()
    });
    let found = partition.offset_found(&question, &search, found).unwrap();
    assert_eq!(found.unwrap().unwrap().offset, Offset(2));
    // What was found before records were deleted is not told.
    partition.delete_records(Some(Offset(3))).unwrap();
    assert!(partition.offset_found(&question, &search, search.run()).unwrap().is_none());
    assert_eq!(offset_for(&partition, &question).unwrap(), None);
}
