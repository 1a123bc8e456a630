//! Offsets by time, compared with a search through all records.

use super::*;
use crate::log::batch::TimestampType;
use crate::log::compression::{Codec, Compression};

fn found(log: &Log, spec: OffsetSpec) -> Option<(i64, i64)> {
    log.offset_for(spec).unwrap().map(|found| (found.timestamp.0, found.offset.0))
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
fn names_for_offsets_give_what_kafka_gives() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    assert_eq!(found(&log, OffsetSpec::MaxTimestamp), None);
    assert_eq!(found(&log, OffsetSpec::Timestamp(Timestamp(0))), None);
    append_in(&mut log, batch(&["a", "b"]), LeaderEpoch(4)).unwrap();
    let epoch = |spec| log.offset_for(spec).unwrap().unwrap().leader_epoch;
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
