//! Appending, reading, rolling, cutting.

use super::*;
use crate::log::control::EndTransactionMarker;
use crate::log::producers::ProducerError;
use crate::sys::cold::IfCold;
use crate::sys::memory_disk::Fault;

#[test]
fn what_is_appended_is_read_across_segments() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    assert!(log.segments().count() > 3);
    assert_eq!(read_all(&log), values(0..60));
    for from in 0..60 {
        assert_eq!(read_from(&log, Offset(from)), values(from..60));
    }
    let segments = log.segments().map(|segment| segment.base().0).collect::<Vec<_>>();
    assert!(segments.is_sorted() && log.segments().all(|segment| segment.size() <= 1000));
}

#[test]
fn offsets_and_epoch_are_stamped_and_the_rest_stays() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    append(&mut log, batch(&["a", "b", "c"])).unwrap();
    let sent = batch(&["d", "e"]);
    let info = append_in(&mut log, sent.clone(), LeaderEpoch(7)).unwrap();
    assert_eq!((info.first_offset, info.last_offset), (Offset(3), Offset(4)));
    assert!(!info.duplicate);
    let bytes = log.read(Offset(3), Offset(5), 1000, true).unwrap().read().unwrap();
    assert_eq!(bytes[16..], sent[16..]);
    assert_eq!(bytes[..8], 3_i64.to_be_bytes());
    assert_eq!(bytes[12..16], 7_i32.to_be_bytes());
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(0)), Some((LeaderEpoch(0), Offset(3))));
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(7)), Some((LeaderEpoch(7), Offset(5))));
    let checkpoint = bench.disk.bytes(&bench.path("leader-epoch-checkpoint"));
    assert_eq!(checkpoint, b"0\n2\n0 0\n7 3\n");
}

#[test]
fn reads_keep_to_their_bounds_and_to_whole_batches() {
    let bench = Bench::new(LogConfig::default());
    let (mut log, _) = bench.open();
    append(&mut log, batch(&["a", "b"])).unwrap();
    append(&mut log, batch(&["c"])).unwrap();
    append(&mut log, batch(&["d", "e"])).unwrap();
    let sizes = {
        let bytes = log.read(Offset(0), Offset(5), 10_000, false).unwrap().read().unwrap();
        headers(&bytes).iter().map(|header| header.total_len).collect::<Vec<_>>()
    };
    let read = |from, up_to, max, least| {
        let slice = log.read(Offset(from), Offset(up_to), max, least).unwrap();
        (slice.len(), slice.first_offset.0, slice.end_offset.0)
    };
    assert_eq!(read(1, 5, 10_000, false), (sizes.iter().sum(), 0, 5));
    assert_eq!(read(0, 5, sizes[0] + sizes[1], false), (sizes[0] + sizes[1], 0, 3));
    assert_eq!(read(0, 5, sizes[0] + sizes[1] + sizes[2] - 1, false).0, sizes[0] + sizes[1]);
    assert_eq!(read(0, 5, 1, false), (0, 0, 0));
    assert_eq!(read(0, 5, 1, true), (sizes[0], 0, 2));
    assert_eq!(read(0, 3, 10_000, true), (sizes[0] + sizes[1], 0, 3));
    // A batch that reaches over the bound is not given.
    assert_eq!(read(0, 1, 10_000, true), (0, 0, 0));
    assert_eq!(read(5, 5, 10_000, true), (0, 5, 5));
    let beyond = log.read(Offset(6), Offset(9), 1, true);
    assert!(matches!(beyond, Err(ReadError::OffsetOutOfRange { log_end: Offset(5), .. })));
    log.delete_records_before(Offset(2)).unwrap();
    assert!(log.read(Offset(1), Offset(5), 1, true).is_err());
}

#[test]
fn a_segment_rolls_by_record_time_and_by_a_full_index() {
    let mut bench = Bench::new(LogConfig { segment_ms: 1000, ..LogConfig::default() });
    let (mut log, _) = bench.open();
    append(&mut log, batch_at(START, &["a"])).unwrap();
    append(&mut log, batch_at(Timestamp(START.0 + 1000), &["b"])).unwrap();
    assert_eq!(log.segments().count(), 1);
    append(&mut log, batch_at(Timestamp(START.0 + 1001), &["c"])).unwrap();
    assert_eq!(log.segments().count(), 2);
    drop(log);

    bench = Bench::new(LogConfig {
        segment_index_bytes: 36,
        index_interval_bytes: 0,
        ..LogConfig::default()
    });
    let (mut log, _) = bench.open();
    for at in 0..20 {
        append(&mut log, batch_at(Timestamp(START.0 + at), &["a"])).unwrap();
    }
    // Room for three entries of the time index, one of them kept for closing.
    assert!(log.segments().count() >= 6);
    assert_eq!(
        offset_for(&log, OffsetSpec::Timestamp(Timestamp(START.0 + 11))).unwrap().offset,
        Offset(11)
    );
}

#[test]
fn truncation_takes_whole_segments_and_parts_and_goes_on() {
    for target in [0, 1, 13, 29, 30, 59, 60] {
        let bench = Bench::small();
        let (mut log, _) = bench.open();
        fill(&mut log, 60);
        assert_eq!(log.truncate_to(Offset(target)).unwrap(), target < 60);
        assert_eq!(log.log_end_offset(), Offset(target));
        assert_eq!(read_all(&log), values(0..target));
        fill(&mut log, 70);
        assert_eq!(read_all(&log), values(0..70));
        bench.clock.advance(std::time::Duration::from_secs(61));
        log.remove_doomed().unwrap();
        assert!(bench.names().iter().all(|name| !name.ends_with(".deleted")));
        drop(log);
        assert_eq!(read_all(&bench.open().0), values(0..70));
    }
}

#[test]
fn a_log_that_starts_anew_forgets_everything() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 30);
    log.truncate_fully_and_start_at(Offset(100)).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(100)));
    assert!(log.epochs().is_empty() && log.producers().is_empty());
    fill(&mut log, 110);
    assert_eq!(read_all(&log), values(100..110));
    drop(log);
    let (log, _) = bench.open();
    assert_eq!(read_all(&log), values(100..110));
}

#[test]
fn deleted_records_cannot_be_read_and_their_segments_go() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    log.delete_records_before(Offset(35)).unwrap();
    assert_eq!(read_all(&log), values(35..60));
    let before = log.segments().count();
    assert!(log.run_retention(Offset(60)).unwrap() > 0);
    assert!(log.segments().count() < before && log.segments().next().unwrap().base() <= Offset(35));
    assert_eq!(read_all(&log), values(35..60));
    let start = log.log_start_offset();
    drop(log);
    let (log, _) = bench.open_with(LogOptions { log_start: start, ..bench.options() }).unwrap();
    assert_eq!(read_all(&log), values(35..60));
}

#[test]
fn retention_by_size_and_age_spares_what_is_not_committed() {
    let mut bench = Bench::small();
    bench.config.retention_bytes = 2500;
    bench.config.retention_ms = -1;
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    assert_eq!(log.run_retention(Offset(0)).unwrap(), 0);
    assert!(log.run_retention(Offset(60)).unwrap() > 0);
    assert!(log.size() >= 2500 && log.size() < 3500);
    let config = LogConfig { retention_ms: 1000, ..bench.config.clone() };
    log.set_config(Arc::new(config));
    bench.clock.advance(std::time::Duration::from_secs(2));
    log.run_retention(Offset(60)).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(60), Offset(60)));
    assert_eq!(log.segments().count(), 1);
    fill(&mut log, 65);
    assert_eq!(read_all(&log), values(60..65));
}

#[test]
fn a_follower_takes_the_leaders_offsets_and_refuses_what_it_has() {
    let (leader, follower) = (Bench::small(), Bench::small());
    let (mut from, _) = leader.open();
    let (mut to, _) = follower.open();
    fill(&mut from, 10);
    append_in(&mut from, batch(&["value 10"]), LeaderEpoch(3)).unwrap();
    while to.log_end_offset() < from.log_end_offset() {
        let slice = from.read(to.log_end_offset(), Offset(99), 400, true).unwrap();
        to.append_as_follower(slice.read().unwrap(), LeaderEpoch(3)).unwrap();
    }
    assert_eq!(read_all(&to), values(0..11));
    assert_eq!(to.epochs(), from.epochs());
    let again = from.read(Offset(5), Offset(99), 100, true).unwrap().read().unwrap();
    let refused = to.append_as_follower(again, LeaderEpoch(3));
    assert!(matches!(refused, Err(AppendError::UnexpectedOffset { first: Offset(5), .. })));
    // A gap, as compaction leaves it, is no error.
    let options = BatchOptions {
        base_offset: Offset(50),
        leader_epoch: LeaderEpoch(3),
        ..BatchOptions::default()
    };
    to.append_as_follower(built(options, START, &["far"]), LeaderEpoch(3)).unwrap();
    assert_eq!(read_from(&to, Offset(20)), [(50, "far".to_owned())]);
    // What a later leader wrote is not for one who follows an earlier.
    let options = BatchOptions {
        base_offset: Offset(51),
        leader_epoch: LeaderEpoch(4),
        ..BatchOptions::default()
    };
    let info = to.append_as_follower(built(options, START, &["x"]), LeaderEpoch(3)).unwrap();
    assert_eq!((info.last_offset, to.log_end_offset()), (Offset::NONE, Offset(51)));
}

#[test]
fn a_repeated_batch_gets_its_old_offsets() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    for sequence in 0..7 {
        append(&mut log, produced(5, 0, sequence, &["x"])).unwrap();
    }
    let again = append(&mut log, produced(5, 0, 4, &["x"])).unwrap();
    assert!(again.duplicate && again.first_offset == Offset(4) && again.last_offset == Offset(4));
    assert_eq!(log.log_end_offset(), Offset(7));
    let gap = append(&mut log, produced(5, 0, 9, &["x"]));
    let Err(AppendError::Producer(error)) = gap else { panic!("{gap:?}") };
    assert!(matches!(error, ProducerError::OutOfOrderSequence { sequence: 9, last: 6, .. }));
    log.close_clean().unwrap();
    drop(log);
    // The snapshot holds the last batch of each producer.
    let (mut log, report) = bench.open_clean();
    assert_eq!(report, RecoveryReport::default());
    assert!(append(&mut log, produced(5, 0, 6, &["x"])).unwrap().duplicate);
    append(&mut log, produced(5, 0, 7, &["x"])).unwrap();
    drop(log);
    let (mut log, _) = bench.open();
    assert!(append(&mut log, produced(5, 0, 7, &["x"])).unwrap().duplicate);
}

#[test]
fn an_aborted_transaction_holds_back_and_is_found_again() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    append(&mut log, batch(&["before"])).unwrap();
    let options = BatchOptions {
        producer_id: ProducerId(9),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: true,
        ..BatchOptions::default()
    };
    let rules = AppendRules::of(log.config());
    let data =
        validate::validate(&built(options, START, &["t"]), AppendOrigin::Client, &rules, START);
    let unverified =
        log.append_plan(data.unwrap(), LeaderEpoch(0), &ProducerContext::of(AppendOrigin::Client));
    assert!(matches!(
        unverified,
        Err(AppendError::Producer(ProducerError::InvalidTxnState { .. }))
    ));
    let context = ProducerContext {
        verification_required: false,
        ..ProducerContext::of(AppendOrigin::Client)
    };
    let data =
        validate::validate(&built(options, START, &["t"]), AppendOrigin::Client, &rules, START);
    log.append_plan(data.unwrap(), LeaderEpoch(0), &context).unwrap();
    assert_eq!(log.producers().first_unstable_offset(), Some(Offset(1)));
    let marker = EndTransactionMarker { committed: false, coordinator_epoch: 3 };
    let marker =
        marker.batch(Offset(0), LeaderEpoch(0), START, (ProducerId(9), ProducerEpoch(0))).unwrap();
    log.append_as_leader(marker, LeaderEpoch(0), AppendOrigin::Coordinator, &rules).unwrap();
    log.high_watermark_advanced(Offset(3));
    assert_eq!(log.producers().first_unstable_offset(), None);
    let aborted = log.aborted_transactions(Offset(0), Offset(3), IfCold::Wait).unwrap().unwrap();
    let expected = AbortedTransaction {
        producer_id: ProducerId(9),
        first_offset: Offset(1),
        last_offset: Offset(2),
        last_stable_offset: Offset(3),
    };
    assert_eq!(aborted, [expected]);
    drop(log);
    // Recovery writes the transaction index anew.
    let (log, report) = bench.open();
    assert_eq!(report.segments_checked, 1);
    assert_eq!(
        log.aborted_transactions(Offset(0), Offset(3), IfCold::Wait).unwrap().unwrap(),
        [expected]
    );
}

#[test]
fn a_read_that_may_not_wait_names_what_is_cold_until_it_is_not() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 400);
    log.close_clean().unwrap();
    drop(log);
    let (log, _) = bench.open_clean();
    let end = log.log_end_offset();
    for from in (0..400).step_by(37).map(Offset) {
        let expected = log.read(from, end, 500, true).unwrap();
        for name in bench.names() {
            bench.disk.evict(&bench.path(&name));
        }
        let mut colds = 0;
        let slice = loop {
            match log.try_read(from, end, 500, true, IfCold::Refuse).unwrap() {
                Ok(slice) => break slice,
                Err(cold) => cold.bring_in().unwrap(),
            }
            colds += 1;
            assert!(colds < 8);
        };
        assert!(colds > 0);
        assert_eq!(slice.first_offset, expected.first_offset);
        assert_eq!(slice.end_offset, expected.end_offset);
        assert_eq!(slice.read().unwrap(), expected.read().unwrap());
    }
    assert!(log.health().is_online());
}

#[test]
fn retention_that_may_not_wait_names_what_is_cold_and_lets_nothing_go_before() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    log.close_clean().unwrap();
    drop(log);
    bench.clock.advance(std::time::Duration::from_millis(bench.config.retention_ms as u64 + 1));
    let (mut log, _) = bench.open_clean();
    for name in bench.names() {
        bench.disk.evict(&bench.path(&name));
    }
    let (segments, mut colds) = (log.segments().count(), 0);
    let gone = loop {
        match log.try_retention(Offset(60), IfCold::Refuse).unwrap() {
            Ok(gone) => break gone,
            Err(cold) => cold.bring_in().unwrap(),
        }
        assert_eq!(log.segments().count(), segments);
        colds += 1;
        assert!(colds <= segments);
    };
    assert!(colds > 0 && gone == segments);
}

#[test]
fn a_truncation_that_runs_out_of_descriptors_leaves_a_log_that_recovers() {
    let (mut untouched, mut offline, mut done) = (0, 0, 0);
    for most in 0..8 {
        let bench = Bench::small();
        let (mut log, _) = bench.open();
        fill(&mut log, 60);
        log.close_clean().unwrap();
        drop(log);
        let (mut log, _) = bench.open_clean();
        bench.disk.allow_open(most);
        let truncated = log.truncate_to(Offset(30));
        bench.disk.allow_open(usize::MAX);
        let online = log.health().is_online();
        if truncated.is_err() && online {
            untouched += 1;
            assert_eq!(read_all(&log), values(0..60));
            continue;
        }
        // What is half done is not gone on with.
        assert_eq!(truncated.is_ok(), online);
        *if online { &mut done } else { &mut offline } += 1;
        drop(log);
        let (log, _) = bench.open();
        let left = read_all(&log);
        assert_eq!(left, values(0..left.len() as i64));
        assert!(left.len() == 30 || !online && left.len() > 30);
    }
    assert!(untouched > 0 && offline > 0 && done > 0, "{untouched} {offline} {done}");
}

#[test]
fn a_full_disk_in_the_middle_of_an_append_leaves_no_trace() {
    for point in 0..6 {
        let bench = Bench::small();
        let (mut log, _) = bench.open();
        fill(&mut log, 12);
        bench.disk.break_with(Fault::full(point));
        let mut failed = false;
        for _ in 0..12 {
            let end = log.log_end_offset();
            let value = format!("value {end}");
            if append(&mut log, batch(&[&value])).is_err() {
                failed = true;
                assert_eq!(log.log_end_offset(), end);
                assert!(!log.health().is_online());
                break;
            }
        }
        assert!(failed);
        assert!(matches!(
            append(&mut log, batch(&["x"])),
            Err(AppendError::Log(LogError::Offline { .. }))
        ));
        bench.disk.heal();
        log.health().repaired();
        fill(&mut log, 40);
        assert_eq!(read_all(&log), values(0..40));
        drop(log);
        assert_eq!(read_all(&bench.open().0), values(0..40));
    }
}

#[test]
fn a_disk_that_cannot_be_written_still_serves_reads() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 30);
    log.close_clean().unwrap();
    drop(log);
    bench.disk.break_with(Fault::read_only());
    let (mut log, _) = bench.open_clean();
    assert_eq!(read_all(&log), values(0..30));
    assert!(append(&mut log, batch(&["x"])).is_err());
}

#[test]
fn the_newest_batch_is_found_without_a_look_into_the_file() {
    let bench = Bench::new(LogConfig::default());
    let (mut log, _) = bench.open();
    append(&mut log, batch(&["a", "b"])).unwrap();
    append(&mut log, batch(&["c", "d"])).unwrap();
    let find = |log: &Log, from| {
        let slice = log.read(Offset(from), log.log_end_offset(), 1000, true)?;
        Ok::<_, ReadError>((slice.first_offset.0, slice.end_offset.0))
    };
    let texts = |log: &Log, from| {
        read_from(log, Offset(from)).into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    };
    bench.disk.break_with(Fault::stop(0));
    assert_eq!(find(&log, 2).unwrap(), (2, 4));
    assert_eq!(find(&log, 3).unwrap(), (2, 4));
    assert!(find(&log, 1).is_err());
    bench.disk.heal();
    // What is cut off is not remembered, and what takes its place is.
    let (mut log, _) = bench.open();
    append(&mut log, batch(&["e"])).unwrap();
    log.truncate_to(Offset(4)).unwrap();
    assert_eq!(find(&log, 3).unwrap(), (2, 4));
    assert_eq!(texts(&log, 2), ["c", "d"]);
    append(&mut log, batch(&["f", "g"])).unwrap();
    assert_eq!(find(&log, 4).unwrap(), (4, 6));
    assert_eq!(texts(&log, 4), ["f", "g"]);
}

#[test]
fn the_machines_disk_does_what_the_one_in_memory_does() {
    let machine = tempfile::tempdir().unwrap();
    let bench = Bench::small();
    let open = |recovery_point| {
        let options = LogOptions {
            files: OpenFiles::new(crate::sys::real_disk::RealDisk::shared(), 2),
            recovery_point,
            ..bench.options()
        };
        Log::open(&machine.path().join("t-0"), options).unwrap().0
    };
    let mut log = open(Offset(0));
    fill(&mut log, 40);
    let slice = log.read(Offset(30), Offset(40), 1000, true).unwrap();
    assert!(slice.regions[0].file.descriptor().is_some());
    log.flush(Offset(20)).unwrap();
    log.truncate_to(Offset(35)).unwrap();
    fill(&mut log, 50);
    drop(log);
    let mut log = open(Offset(20));
    assert_eq!(read_all(&log), values(0..50));
    log.close_clean().unwrap();
    drop(log);
    let newest = std::fs::read_dir(machine.path().join("t-0")).unwrap();
    let newest = newest
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .max()
        .unwrap();
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &whole[..whole.len() - 7]).unwrap();
    let mut log = open(Offset(20));
    assert_eq!(read_all(&log), values(0..49));
    fill(&mut log, 60);
    assert_eq!(read_all(&log), values(0..60));
}

#[test]
fn another_topic_of_the_same_name_is_refused() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 1);
    drop(log);
    let text = bench.disk.bytes(&bench.path("partition.metadata"));
    assert_eq!(text, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAD6A");
    let options = LogOptions { topic_id: Some(TopicId::from_u128(1001)), ..bench.options() };
    assert!(matches!(bench.open_with(options), Err(LogError::InconsistentTopicId { .. })));
}

#[test]
fn a_retired_log_does_nothing_any_more() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 3);
    log.retire();
    assert!(matches!(
        append(&mut log, batch(&["x"])),
        Err(AppendError::Log(LogError::Offline { .. }))
    ));
    assert!(log.read(Offset(0), Offset(3), 10, true).is_err());
}
