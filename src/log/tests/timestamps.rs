//! Offsets by time, compared with a search through all records.

use super::*;
use crate::log::batch::TimestampType;
use crate::log::compression::{Codec, Compression};
use crate::sys::cold::IfCold;

fn found(log: &Log, spec: OffsetSpec) -> Option<(i64, i64)> {
    offset_for(log, spec).map(|found| (found.timestamp.0, found.offset.0))
}

#[test]
fn the_first_record_at_or_after_a_time_is_found_also_out_of_order() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    // Times that go up and down by turns, two records to a batch.
    let times = (0..80).map(|at: i64| START.0 + (at * 37) % 50 + at / 2).collect::<Vec<_>>();
    for pair in times.chunks(2) {
        let codec = if pair[0] % 3 == 0 { Codec::Lz4 } else { Codec::None };
        let options =
            BatchOptions { compression: Compression::of(codec), ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        for time in pair {
            builder.append(Timestamp(*time), None, Some(b"some value that is not short"));
        }
        append(&mut log, builder.build().unwrap()).unwrap();
    }
    let check = |log: &Log| {
        for target in START.0 - 2..START.0 + 95 {
            let expected = times.iter().position(|time| *time >= target);
            let expected = expected.map(|at| (times[at], at as i64));
            assert_eq!(found(log, OffsetSpec::Timestamp(Timestamp(target))), expected, "{target}");
        }
        let largest = *times.iter().max().unwrap();
        let at = times.iter().position(|time| *time == largest).unwrap();
        assert_eq!(found(log, OffsetSpec::MaxTimestamp), Some((largest, at as i64)));
    };
    assert!(log.segments().count() > 3);
    check(&log);
    log.close_clean().unwrap();
    drop(log);
    check(&bench.open_clean().0);
    check(&bench.open().0);
}

#[test]
fn a_look_that_may_not_wait_names_what_is_cold_until_it_knows_where_to_search() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    for at in 0..400 {
        append(&mut log, batch_at(Timestamp(START.0 + at), &["some value"])).unwrap();
    }
    log.close_clean().unwrap();
    drop(log);
    for target in (0..400).step_by(37) {
        // Nothing is known of its segments yet.
        let (log, _) = bench.open_clean();
        for name in bench.names() {
            bench.disk.evict(&bench.path(&name));
        }
        let spec = OffsetSpec::Timestamp(Timestamp(START.0 + target));
        let mut colds = 0;
        let search = loop {
            match log.offset_for(spec, IfCold::Refuse).unwrap() {
                OffsetFor::Cold(cold) => cold.bring_in().unwrap(),
                OffsetFor::Search(search) => break search,
                OffsetFor::Known(found) => panic!("{found:?}"),
            }
            colds += 1;
            assert!(colds < 4 * log.segments().count());
        };
        assert!(colds > 0);
        assert_eq!(search.run().unwrap().unwrap().offset, Offset(target));
    }
}

#[test]
fn a_search_says_nothing_of_a_log_that_was_cut_meanwhile() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 40);
    let look = |log: &Log| match log.offset_for(OffsetSpec::MaxTimestamp, IfCold::Wait).unwrap() {
        OffsetFor::Search(search) => search,
        other => panic!("{other:?}"),
    };
    let search = look(&log);
    fill(&mut log, 80);
    assert!(!log.was_cut_since(&search));
    log.truncate_to(Offset(60)).unwrap();
    assert!(log.was_cut_since(&search));
    let search = look(&log);
    assert!(!log.was_cut_since(&search));
    log.delete_records_before(Offset(1)).unwrap();
    assert!(log.was_cut_since(&search));
}

#[test]
fn names_for_offsets_give_what_kafka_gives() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    assert_eq!(found(&log, OffsetSpec::MaxTimestamp), None);
    assert_eq!(found(&log, OffsetSpec::Timestamp(Timestamp(0))), None);
    append_in(&mut log, batch(&["a", "b"]), LeaderEpoch(4)).unwrap();
    let epoch = |spec| offset_for(&log, spec).unwrap().leader_epoch;
    assert_eq!(found(&log, OffsetSpec::Earliest), Some((-1, 0)));
    assert_eq!(found(&log, OffsetSpec::EarliestLocal), Some((-1, 0)));
    assert_eq!(found(&log, OffsetSpec::Latest), Some((-1, 2)));
    assert_eq!(found(&log, OffsetSpec::LatestTiered), Some((-1, -1)));
    assert_eq!(found(&log, OffsetSpec::EarliestPendingUpload), Some((-1, -1)));
    assert_eq!(epoch(OffsetSpec::Latest), Some(LeaderEpoch(4)));
    assert_eq!(epoch(OffsetSpec::Earliest), Some(LeaderEpoch(4)));
    assert_eq!(OffsetSpec::from_timestamp(-7), None);
    log.delete_records_before(Offset(1)).unwrap();
    // The record with the time asked for may not be read any more; the next may.
    assert_eq!(found(&log, OffsetSpec::Timestamp(START)), Some((START.0, 1)));
}

#[test]
fn append_time_counts_for_all_records_and_the_last_is_the_largest() {
    let bench = Bench::new(LogConfig {
        message_timestamp_type: TimestampType::LogAppendTime,
        ..LogConfig::default()
    });
    let (mut log, _) = bench.open();
    let info = append(&mut log, batch_at(Timestamp(5), &["a", "b", "c"])).unwrap();
    assert_eq!(info.log_append_time, START);
    assert_eq!(found(&log, OffsetSpec::MaxTimestamp), Some((START.0, 2)));
    assert_eq!(found(&log, OffsetSpec::Timestamp(Timestamp(6))), Some((START.0, 0)));
    assert_eq!(read_all(&log).len(), 3);
}
