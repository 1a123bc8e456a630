//! Compaction of whole logs: what stays, what goes, and what a crash leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::log::CleanupPolicy;
use crate::log::batch_builder::BatchOptions;
use crate::log::compaction::cleaner::{CleanerLimits, CleaningError, CleaningReport, Pace, clean};
use crate::log::compression::{Codec, Compression, stored_records};
use crate::log::control::EndTransactionMarker;
use crate::log::producers::ProducerContext;
use crate::log::record::Records;
use crate::sys::cold::IfCold;
use crate::sys::disk::Disk as _;
use crate::sys::memory_disk::Fault;
use crate::sys::random::Random;

const LIMITS: CleanerLimits =
    CleanerLimits { map_bytes: 1 << 20, load_factor: 0.9, buffer_bytes: 300 };

/// Goes on for so many times.
struct Steps(u64);

impl Pace for Steps {
    fn moved(&mut self, _: u64) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

fn bench() -> Bench {
    Bench::new(LogConfig {
        segment_bytes: 600,
        index_interval_bytes: 100,
        delete_retention_ms: 1000,
        min_cleanable_dirty_ratio: 0.0,
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..LogConfig::default()
    })
}

type Pair<'p> = (&'p str, Option<&'p str>);

fn pairs(options: BatchOptions, timestamp: Timestamp, pairs: &[Pair<'_>]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for (key, value) in pairs {
        builder.append(timestamp, Some(key.as_bytes()), value.map(str::as_bytes));
    }
    builder.build().unwrap()
}

fn put(log: &mut Log, given: &[Pair<'_>]) {
    append(log, pairs(BatchOptions::default(), START, given)).unwrap();
    commit(log);
}

fn commit(log: &mut Log) {
    log.high_watermark_advanced(log.log_end_offset());
}

/// Ends the active segment, so that what is in it can be cleaned.
fn roll(log: &mut Log) {
    log.roll_to(log.log_end_offset()).unwrap();
}

fn compact_with(
    bench: &Bench,
    log: &mut Log,
    limits: &CleanerLimits,
    pace: &mut dyn Pace,
) -> Result<CleaningReport, CleaningError> {
    let candidate = log.cleaning_candidate()?.expect("something is in the log");
    let job = log.begin_cleaning(candidate);
    let report = clean(&job, limits, &*bench.clock, pace, &mut |compacted, originals| {
        log.replace_segments(&job, compacted, originals)
    })?;
    log.marks().set_cleaned_to(report.end);
    Ok(report)
}

fn compact(bench: &Bench, log: &mut Log) -> CleaningReport {
    compact_with(bench, log, &LIMITS, &mut Steps(u64::MAX)).unwrap()
}

type Found = (i64, String, Option<String>);

/// All records, each batch checked.
fn contents(log: &Log) -> Vec<Found> {
    let mut found = Vec::new();
    let mut next = log.log_start_offset();
    while next < log.log_end_offset() {
        let slice = log.read(next, log.log_end_offset(), 300, true).unwrap();
        if slice.is_empty() {
            break;
        }
        for batch in batches(&slice.read().unwrap()) {
            let batch = batch.unwrap();
            batch.check_crc().unwrap();
            if batch.header().attributes.is_control() {
                continue;
            }
            let plain = stored_records(&batch).unwrap();
            for record in Records::new(batch.header(), &plain) {
                let record = record.unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                if record.offset >= next {
                    found.push((
                        record.offset.0,
                        text(record.key.unwrap()),
                        record.value.map(text),
                    ));
                }
            }
        }
        assert!(slice.end_offset > next);
        next = slice.end_offset;
    }
    assert!(found.is_sorted_by(|(a, ..), (b, ..)| a < b));
    found
}

/// What a reader knows in the end: the last value of each key that has one.
fn table(found: &[Found]) -> BTreeMap<String, (i64, String)> {
    let mut table = BTreeMap::new();
    for (offset, key, value) in found {
        match value {
            Some(value) => table.insert(key.clone(), (*offset, value.clone())),
            None => table.remove(key),
        };
    }
    table
}

fn batch_headers(log: &Log) -> Vec<BatchHeader> {
    let file = |segment: &Segment| {
        let bytes = segment.file().unwrap().read_to_end_at(0, 1 << 20).unwrap();
        headers(&bytes)
    };
    log.segments().flat_map(file).collect()
}

/// Records of few keys, in batches of three, over many segments.
fn fill_keys(log: &mut Log, rounds: i64) {
    for round in 0..rounds {
        let values =
            (0..3).map(|at| (format!("k{}", (round * 5 + at) % 7), format!("v{round}.{at}")));
        let values = values.collect::<Vec<_>>();
        let given = values.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
        put(log, &given.collect::<Vec<_>>());
    }
}

#[test]
fn the_last_record_of_each_key_stays_where_it_was() {
    let bench = bench();
    let (mut log, _) = bench.open();
    fill_keys(&mut log, 40);
    roll(&mut log);
    let before = contents(&log);
    let (size, count) = (log.size(), log.segments().count());
    let report = compact(&bench, &mut log);
    assert_eq!(table(&contents(&log)), table(&before));
    assert_eq!((report.end, report.records.kept), (log.log_end_offset(), 7));
    assert!(log.size() < size / 4);
    // Segments that have become small become one the next time.
    put(&mut log, &[("k0", Some("again"))]);
    roll(&mut log);
    compact(&bench, &mut log);
    let after = contents(&log);
    assert_eq!(after.len(), 7, "one record for each key");
    assert!(log.segments().count() < count / 2);
    assert_eq!(log.log_start_offset(), Offset(0));
    assert!(log.cleaning_candidate().unwrap().is_none_or(|candidate| !candidate.is_due(0.0)));
    // What reads the old files still does, and later they go.
    assert!(bench.names().iter().any(|name| name.ends_with(".log.deleted")));
    assert!(!bench.names().iter().any(|name| name.contains("cleaned") || name.contains("swap")));
    bench.clock.advance(Duration::from_secs(61));
    log.remove_doomed().unwrap();
    assert!(!bench.names().iter().any(|name| name.ends_with("deleted")));
    let snapshots = bench.names().iter().filter(|name| name.ends_with("snapshot")).count();
    assert!(snapshots <= log.segments().count() + 1, "{:?}", bench.names());
    log.close_clean().unwrap();
    drop(log);
    let (log, report) = bench.open_clean();
    assert_eq!((report, contents(&log)), (RecoveryReport::default(), after.clone()));
    drop(log);
    let (log, report) = bench.open();
    assert!(report.bytes_cut == 0 && report.segments_checked > 0);
    assert_eq!(contents(&log), after);
    for from in 0..log.log_end_offset().0 {
        let first = after.iter().find(|(offset, ..)| *offset >= from);
        let slice = log.read(Offset(from), log.log_end_offset(), 1, true).unwrap();
        assert_eq!(slice.is_empty(), first.is_none());
    }
}

#[test]
fn only_what_is_dirty_is_mapped_and_everything_is_filtered_by_it() {
    let bench = bench();
    let (mut log, _) = bench.open();
    fill_keys(&mut log, 20);
    roll(&mut log);
    compact(&bench, &mut log);
    let first = contents(&log);
    put(&mut log, &[("k1", Some("new")), ("other", Some("x"))]);
    roll(&mut log);
    let candidate = log.cleaning_candidate().unwrap().unwrap();
    assert_eq!(candidate.first_dirty, Offset(60));
    let report = compact(&bench, &mut log);
    assert!(report.mapped_bytes < report.read_bytes);
    let after = contents(&log);
    assert_eq!(after.len(), first.len() + 1);
    assert_eq!(table(&after)["k1"].1, "new");
    // The active segment is nobody's business.
    put(&mut log, &[("k1", Some("newer"))]);
    compact(&bench, &mut log);
    assert_eq!(contents(&log).iter().filter(|(_, key, _)| key == "k1").count(), 2);
}

#[test]
fn compressed_batches_are_rebuilt_with_their_codec() {
    for codec in Codec::ALL {
        let bench = bench();
        let (mut log, _) = bench.open();
        let options = BatchOptions {
            compression: Compression::of(codec),
            log_append_time: None,
            ..BatchOptions::default()
        };
        for round in 0..10 {
            let value = format!("value {round}");
            let given = [("a", Some(value.as_str())), ("b", Some("same")), ("c", Some(&value))];
            let given = if round < 9 { &given[..] } else { &given[1..2] };
            append(&mut log, pairs(options, Timestamp(START.0 + round), given)).unwrap();
        }
        commit(&mut log);
        roll(&mut log);
        let before = contents(&log);
        compact(&bench, &mut log);
        assert_eq!(table(&contents(&log)), table(&before), "{codec:?}");
        let kept = batch_headers(&log);
        assert_eq!(kept.len(), 2, "{codec:?}");
        assert!(kept.iter().all(|header| header.codec() == Some(codec)));
        // Two of three records: offsets and times are those of before.
        assert_eq!((kept[0].base_offset, kept[0].last_offset_delta), (Offset(24), 2));
        assert_eq!((kept[0].record_count, kept[0].max_timestamp.0), (2, START.0 + 8));
        assert_eq!(kept[0].base_timestamp.0, START.0 + 8);
    }
}

#[test]
fn a_tombstone_stays_until_its_horizon() {
    let bench = bench();
    let (mut log, _) = bench.open();
    put(&mut log, &[("a", Some("1")), ("b", Some("2"))]);
    put(&mut log, &[("a", None), ("c", Some("3"))]);
    roll(&mut log);
    compact(&bench, &mut log);
    let found = |log: &Log| {
        let keys =
            contents(log).into_iter().map(|(offset, key, value)| (offset, key, value.is_some()));
        keys.map(|(offset, key, full)| format!("{offset}{key}{}", if full { "" } else { "-" }))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&log), ["1b", "2a-", "3c"]);
    let horizon = START.0 + 1000;
    assert_eq!(batch_headers(&log)[1].delete_horizon(), Some(Timestamp(horizon)));
    assert_eq!(batch_headers(&log)[0].delete_horizon(), None);
    let stamps = {
        let slice = log.read(Offset(2), Offset(4), 1000, true).unwrap().read().unwrap();
        let view = batches(&slice).next().unwrap().unwrap();
        view.records().unwrap().map(|record| record.unwrap().timestamp).collect::<Vec<_>>()
    };
    assert_eq!(stamps, [START, START], "the records keep their times");
    bench.clock.advance(Duration::from_millis(999));
    put(&mut log, &[("d", Some("4"))]);
    roll(&mut log);
    compact(&bench, &mut log);
    assert_eq!(found(&log), ["1b", "2a-", "3c", "4d"]);
    bench.clock.advance(Duration::from_millis(1));
    put(&mut log, &[("e", Some("5"))]);
    roll(&mut log);
    compact(&bench, &mut log);
    assert_eq!(found(&log), ["1b", "3c", "4d", "5e"]);
    assert_eq!(batch_headers(&log)[1].delete_horizon(), Some(Timestamp(horizon)), "it stays set");
}

fn transactional(log: &mut Log, producer: i64, sequence: i32, given: &[Pair<'_>]) {
    let options = BatchOptions {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        transactional: true,
        ..BatchOptions::default()
    };
    let context = ProducerContext {
        verification_required: false,
        ..ProducerContext::of(AppendOrigin::Client)
    };
    let rules = AppendRules::of(log.config());
    let bytes = pairs(options, START, given);
    let plan = validate::validate(&bytes, AppendOrigin::Client, &rules, START).unwrap();
    log.append_plan(plan, LeaderEpoch(0), &context).unwrap();
    commit(log);
}

fn end_transaction(log: &mut Log, producer: i64, committed: bool) {
    let marker = EndTransactionMarker { committed, coordinator_epoch: 0 };
    let producer = (ProducerId(producer), ProducerEpoch(0));
    let bytes = marker.batch(Offset(0), LeaderEpoch(0), START, producer).unwrap();
    let rules = AppendRules::of(log.config());
    log.append_as_leader(bytes, LeaderEpoch(0), AppendOrigin::Coordinator, &rules).unwrap();
    commit(log);
}

fn controls(log: &Log) -> Vec<(i64, i32)> {
    let controls = batch_headers(log).into_iter().filter(|header| header.attributes.is_control());
    controls.map(|header| (header.base_offset.0, header.record_count)).collect()
}

#[test]
fn aborted_records_go_and_markers_after_them() {
    let bench = bench();
    let (mut log, _) = bench.open();
    transactional(&mut log, 1, 0, &[("a", Some("kept"))]);
    transactional(&mut log, 2, 0, &[("a", Some("aborted")), ("b", Some("aborted"))]);
    end_transaction(&mut log, 1, true);
    roll(&mut log);
    transactional(&mut log, 2, 2, &[("c", Some("aborted"))]);
    end_transaction(&mut log, 2, false);
    for producer in [1, 2] {
        let sequence = if producer == 1 { 1 } else { 3 };
        transactional(&mut log, producer, sequence, &[("z", Some("last"))]);
        end_transaction(&mut log, producer, true);
    }
    // Its beginning must not be cleaned as long as it is not decided.
    roll(&mut log);
    transactional(&mut log, 3, 0, &[("a", Some("open"))]);
    let open = log.producers().first_unstable_offset().unwrap();
    roll(&mut log);
    assert!(log.cleaning_candidate().unwrap().unwrap().first_uncleanable <= open);
    end_transaction(&mut log, 3, false);
    roll(&mut log);
    let aborted_before =
        log.aborted_transactions(Offset(0), log.log_end_offset(), IfCold::Wait).unwrap().unwrap();
    assert_eq!(aborted_before.len(), 2);
    let markers = controls(&log);
    assert_eq!(markers.len(), 5);
    compact(&bench, &mut log);
    let keys = contents(&log).into_iter().map(|(_, key, value)| (key, value.unwrap()));
    let expected = [("a", "kept"), ("z", "last")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    // Markers stay as long as a batch of theirs was there when they were met.
    assert_eq!(controls(&log), markers);
    let aborted =
        log.aborted_transactions(Offset(0), log.log_end_offset(), IfCold::Wait).unwrap().unwrap();
    assert_eq!(aborted, aborted_before);
    // The second time nothing is left of the second producer's aborted records: its
    // marker gets a horizon, and the third time it goes. The third producer's last
    // batch stays as a header, and with it its marker.
    for (round, left) in [(1, 5), (2, 4), (3, 4)] {
        put(&mut log, &[(&format!("round {round}"), Some("x"))]);
        roll(&mut log);
        compact(&bench, &mut log);
        assert_eq!(controls(&log).iter().filter(|(_, count)| *count > 0).count(), left, "{round}");
        bench.clock.advance(Duration::from_secs(2));
    }
    let aborted =
        log.aborted_transactions(Offset(0), log.log_end_offset(), IfCold::Wait).unwrap().unwrap();
    assert_eq!(aborted, aborted_before[1..]);
    drop(log);
    let (log, _) = bench.open();
    assert!(log.producers().first_undecided_offset().is_none());
    assert_eq!(contents(&log).iter().filter(|(_, key, _)| key == "a").count(), 1);
}

#[test]
fn a_producers_last_batch_stays_as_a_header() {
    let bench = bench();
    let (mut log, _) = bench.open();
    let options = |sequence| BatchOptions {
        producer_id: ProducerId(5),
        producer_epoch: ProducerEpoch(1),
        base_sequence: sequence,
        ..BatchOptions::default()
    };
    for sequence in 0..9 {
        append(&mut log, pairs(options(sequence), START, &[("k", Some("v"))])).unwrap();
    }
    put(&mut log, &[("k", Some("by somebody else"))]);
    roll(&mut log);
    compact(&bench, &mut log);
    let kept = batch_headers(&log);
    let outline = kept.iter().map(|header| (header.base_offset.0, header.record_count));
    assert_eq!(outline.collect::<Vec<_>>(), [(8, 0), (9, 1)]);
    assert_eq!((kept[0].base_sequence, kept[0].producer_id), (8, ProducerId(5)));
    put(&mut log, &[("l", Some("x"))]);
    roll(&mut log);
    compact(&bench, &mut log);
    assert_eq!(batch_headers(&log)[0].record_count, 0, "and again");
    drop(log);
    for name in bench.names().iter().filter(|name| name.ends_with(".snapshot")) {
        bench.disk.remove_file(&bench.path(name)).unwrap();
    }
    let (mut log, _) = bench.open();
    assert!(append(&mut log, pairs(options(8), START, &[("k", Some("v"))])).unwrap().duplicate);
    append(&mut log, pairs(options(9), START, &[("k", Some("v"))])).unwrap();
}

#[test]
fn lags_and_ratio_say_when() {
    let mut bench = bench();
    bench.config.min_compaction_lag_ms = 1000;
    bench.config.max_compaction_lag_ms = 5000;
    bench.config.min_cleanable_dirty_ratio = 1.0;
    let (mut log, _) = bench.open();
    fill_keys(&mut log, 10);
    roll(&mut log);
    let candidate = |log: &Log| log.cleaning_candidate().unwrap();
    assert_eq!(candidate(&log).map(|c| c.cleanable_bytes), None, "all is too young");
    bench.clock.advance(Duration::from_millis(1000));
    let young = candidate(&log).unwrap();
    assert!(young.cleanable_bytes > 0 && !young.is_due(1.0) && young.is_due(0.9));
    bench.clock.advance(Duration::from_millis(4001));
    assert!(candidate(&log).unwrap().is_due(1.0), "it cannot wait");
    // A compacted log rolls in time for that.
    put(&mut log, &[("a", Some("x"))]);
    let rolled = log.segments().count();
    let later = Timestamp(START.0 + 5001);
    append(&mut log, pairs(BatchOptions::default(), later, &[("a", Some("y"))])).unwrap();
    assert_eq!(log.segments().count(), rolled + 1);
}

#[test]
fn a_small_map_needs_more_rounds() {
    let bench = bench();
    let (mut log, _) = bench.open();
    let keys = (0..60).map(|at| format!("key {}", at % 20)).collect::<Vec<_>>();
    keys.iter().for_each(|key| put(&mut log, &[(key.as_str(), Some("v"))]));
    roll(&mut log);
    let before = table(&contents(&log));
    let limits = CleanerLimits { map_bytes: 8 * 24, ..LIMITS };
    let mut rounds = 0;
    while log.marks().cleaned_to() != Some(log.log_end_offset()) {
        let from = log.marks().cleaned_to();
        let report = compact_with(&bench, &mut log, &limits, &mut Steps(u64::MAX)).unwrap();
        assert!(Some(report.end) > from && report.utilization <= 0.9);
        assert_eq!(table(&contents(&log)), before);
        rounds += 1;
        assert!(rounds < 60);
    }
    assert!(rounds > 5);
    assert_eq!(contents(&log).len(), 20);
}

#[test]
fn a_log_that_was_cut_meanwhile_is_left_as_it_is() {
    let bench = bench();
    let (mut log, _) = bench.open();
    fill_keys(&mut log, 30);
    roll(&mut log);
    let cut = log.segments().nth(3).unwrap().base();
    let mut before = contents(&log);
    before.retain(|(offset, ..)| *offset < cut.0);
    let job = log.begin_cleaning(log.cleaning_candidate().unwrap().unwrap());
    let done = clean(&job, &LIMITS, &*bench.clock, &mut Steps(u64::MAX), &mut |new, old| {
        log.truncate_to(cut).unwrap();
        log.replace_segments(&job, new, old)
    });
    assert!(matches!(done, Err(CleaningError::GivenUp)), "{done:?}");
    assert_eq!(contents(&log), before);
    assert!(!bench.names().iter().any(|name| name.contains("cleaned")), "{:?}", bench.names());
    // The same when it is deleted, when the cleaner is stopped, and when a batch is
    // damaged: then it is not touched at all.
    fill_keys(&mut log, 30);
    roll(&mut log);
    for steps in [1, 5, 40] {
        let stopped = compact_with(&bench, &mut log, &LIMITS, &mut Steps(steps));
        assert!(matches!(stopped, Err(CleaningError::GivenUp)));
        assert!(!bench.names().iter().any(|name| name.contains("cleaned")));
    }
    let base = log.segments().find(|segment| segment.size() > 150).unwrap().base();
    bench.disk.tamper(&bench.path(&format!("{:020}.log", base.0)), |bytes| bytes[70] ^= 1);
    let damaged = compact_with(&bench, &mut log, &LIMITS, &mut Steps(u64::MAX));
    assert!(matches!(damaged, Err(CleaningError::Damaged(_))), "{damaged:?}");
    assert!(log.health().is_online());
    log.retire();
    assert!(!job.is_of(&log));
}

#[test]
fn a_log_that_is_not_to_be_compacted_any_more_keeps_what_it_has() {
    let bench = bench();
    let (mut log, _) = bench.open();
    fill_keys(&mut log, 30);
    roll(&mut log);
    let before = contents(&log);
    let job = log.begin_cleaning(log.cleaning_candidate().unwrap().unwrap());
    let done = clean(&job, &LIMITS, &*bench.clock, &mut Steps(u64::MAX), &mut |new, old| {
        let cleanup_policy = CleanupPolicy { delete: true, compact: false };
        log.set_config(Arc::new(LogConfig { cleanup_policy, ..LogConfig::clone(log.config()) }));
        log.replace_segments(&job, new, old)
    });
    assert!(matches!(done, Err(CleaningError::GivenUp)), "{done:?}");
    assert_eq!(contents(&log), before);
}

/// What was written, and how much of it was acknowledged.
#[derive(Default)]
struct Written {
    records: Vec<Found>,
    acknowledged: usize,
}

/// Fills, compacts, fills and compacts again, until the disk stops.
fn work(bench: &Bench, written: &mut Written) -> Result<(), ()> {
    let (mut log, _) = bench.open_with(bench.options()).map_err(drop)?;
    for half in 0..2 {
        for round in 0..14 {
            let value = format!("{half}.{round}");
            let key = format!("k{}", round % 4);
            let deleted = half == 1 && round == 13;
            let value = Some(value).filter(|_| !deleted);
            let bytes = pairs(BatchOptions::default(), START, &[(&key, value.as_deref())]);
            written.records.push((log.log_end_offset().0, key, value));
            append(&mut log, bytes).map_err(drop)?;
            written.acknowledged += 1;
        }
        commit(&mut log);
        log.roll_to(log.log_end_offset()).map_err(drop)?;
        log.flush(log.log_end_offset()).map_err(drop)?;
        bench.checkpoint.write();
        compact_with(bench, &mut log, &LIMITS, &mut Steps(u64::MAX)).map_err(drop)?;
        bench.clock.advance(Duration::from_secs(61));
        log.remove_doomed().map_err(drop)?;
    }
    Ok(())
}

/// Opens what is left, compares it with what was written, and compacts it again.
fn check(bench: &Bench, written: &Written, safe: usize, what: &str) {
    let (mut log, _) = bench.open_with(bench.options()).expect(what);
    let end = log.log_end_offset().0 as usize;
    assert!(end >= safe, "{what}: ends at {end}, {safe} was promised");
    let found = contents(&log);
    let known = &written.records[..end];
    assert!(found.iter().all(|record| known.contains(record)), "{what}");
    // What was not synced may have gaps.
    if safe >= written.acknowledged || end == safe {
        assert_eq!(table(&found), table(known), "{what}");
    }
    if log.size() > 0 {
        commit(&mut log);
        roll(&mut log);
        compact(bench, &mut log);
        assert_eq!(table(&contents(&log)), table(&found), "{what}");
    }
}

#[test]
fn the_last_value_of_each_key_survives_a_crash_at_any_step() {
    for power in [false, true] {
        let mut point = 0;
        loop {
            let bench = bench();
            let mut written = Written::default();
            bench.disk.break_with(Fault::stop(point));
            let done = work(&bench, &mut written).is_ok();
            let mut safe = written.acknowledged;
            if power {
                bench.disk.power_lost(&Random::from_seed(point));
                safe = safe.min(bench.options().recovery_point.0 as usize);
            } else {
                bench.disk.process_killed();
            }
            check(&bench, &written, safe, &format!("stopped at {point}, power lost: {power}"));
            if done {
                break;
            }
            point += 1;
        }
        assert!(point > 100, "{point} crash points");
    }
}
