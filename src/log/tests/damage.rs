//! Damage anywhere in a segment: the log opens, and what came before is served.

use super::*;
use crate::log::batch::MAGIC_V2;
use crate::log::producers::ProducerContext;

/// A log of some segments with batches of one and two records.
fn filled() -> (Bench, Vec<(i64, String)>) {
    let bench = Bench::new(LogConfig {
        segment_bytes: 400,
        index_interval_bytes: 100,
        ..LogConfig::default()
    });
    let (mut log, _) = bench.open();
    for at in 0..12 {
        let values = [format!("a{at}"), format!("b{at}")];
        let values = values.iter().map(String::as_str).collect::<Vec<_>>();
        append(&mut log, batch(&values[..1 + at % 2])).unwrap();
    }
    log.close_clean().unwrap();
    let all = read_all(&log_of(&bench, true));
    (bench, all)
}

fn log_of(bench: &Bench, clean: bool) -> Log {
    bench.open_with(LogOptions { clean, ..bench.options() }).unwrap().0
}

/// Every file with its bytes, to start anew from.
fn saved(bench: &Bench) -> Vec<(String, Vec<u8>)> {
    bench
        .names()
        .into_iter()
        .map(|name| (name.clone(), bench.disk.bytes(&bench.path(&name))))
        .collect()
}

fn restore(bench: &Bench, files: &[(String, Vec<u8>)]) {
    let disk = bench.disk.shared();
    for name in bench.names() {
        disk.remove_file(&bench.path(&name)).unwrap();
    }
    for (name, contents) in files {
        put(bench, name, contents);
    }
}

fn put(bench: &Bench, name: &str, contents: &[u8]) {
    bench.disk.shared().open(&bench.path(name), crate::sys::disk::Open::Create).unwrap();
    bench.disk.tamper(&bench.path(name), |bytes| *bytes = contents.to_vec());
}

/// The offset up to which nothing is damaged when byte `at` of a segment is.
fn sound_before(segment: &[u8], at: usize) -> i64 {
    let mut position = 0;
    for header in headers(segment) {
        position += header.total_len;
        if at < position {
            return header.base_offset.0;
        }
    }
    unreachable!("every byte belongs to a batch")
}

#[test]
fn any_damaged_byte_costs_at_most_what_comes_behind_it() {
    let (bench, all) = filled();
    let files = saved(&bench);
    let segments = files.iter().filter(|(name, _)| name.ends_with(".log")).collect::<Vec<_>>();
    assert!(segments.len() >= 3);
    for (name, contents) in segments {
        for (at, flip) in (0..contents.len()).flat_map(|at| [(at, 0x01), (at, 0x80)]) {
            let sound = sound_before(contents, at);
            for clean in [false, true] {
                restore(&bench, &files);
                bench.disk.tamper(&bench.path(name), |bytes| bytes[at] ^= flip);
                let log = log_of(&bench, clean);
                assert!(log.health().is_online());
                let what = format!("{name} byte {at}, clean: {clean}");
                assert!(log.log_end_offset().0 >= sound, "{what}");
                let before = all.iter().filter(|(offset, _)| *offset < sound);
                for wanted in before {
                    let from = Offset(wanted.0);
                    let slice = log.read(from, log.log_end_offset(), 1, true).expect(&what);
                    let bytes = slice.read().unwrap();
                    let view = batches(&bytes).next().unwrap().unwrap();
                    let mut records = view.records().unwrap().map(|record| record.unwrap());
                    let found = records.find(|record| record.offset == from).expect(&what);
                    assert_eq!(found.value.unwrap(), wanted.1.as_bytes(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_base_offset_is_cut_where_it_stands() {
    let (bench, all) = filled();
    let files = saved(&bench);
    let (name, contents) = files.iter().find(|(name, _)| name.ends_with("0000.log")).unwrap();
    let second = headers(contents)[0].total_len;
    let next = headers(contents)[1].base_offset.0;
    for wrong in [next + 1, next + 2, 0, -1, i64::MIN, i64::MAX, 1 << 31, 1 << 40] {
        restore(&bench, &files);
        bench.disk.tamper(&bench.path(name), |bytes| {
            bytes[second..second + 8].copy_from_slice(&wrong.to_be_bytes());
        });
        let log = log_of(&bench, false);
        assert_eq!(log.log_end_offset(), Offset(next), "{wrong}");
        assert_eq!(read_all(&log), all[..next as usize], "{wrong}");
    }
}

#[test]
fn a_segment_that_overflows_becomes_several() {
    const FAR: i64 = 1 << 33;
    let (bench, _) = filled();
    let one = |base: i64, value: &str| {
        let options = BatchOptions {
            base_offset: Offset(base),
            leader_epoch: LeaderEpoch(0),
            ..BatchOptions::default()
        };
        built(options, START, &[value])
    };
    let contents = [(7, "a"), (9, "b"), (FAR, "c"), (FAR + 3, "d"), (2 * FAR, "e")]
        .map(|(base, value)| one(base, value))
        .concat();
    let last = one(3 * FAR, "f");
    let files = vec![
        (format!("{:020}.log", 7), contents.clone()),
        (format!("{:020}.log", 3 * FAR), last.to_vec()),
    ];
    let expected = [(7, "a"), (9, "b"), (FAR, "c"), (FAR + 3, "d"), (2 * FAR, "e"), (3 * FAR, "f")]
        .map(|(offset, value)| (offset, value.to_owned()));
    let mut point = 0;
    loop {
        restore(&bench, &files);
        bench.disk.break_with(crate::sys::memory_disk::Fault::stop(point));
        let opened = bench.open_with(bench.options());
        bench.disk.process_killed();
        let log = log_of(&bench, false);
        assert_eq!(read_all(&log), expected, "stopped at {point}");
        let bases = log.segments().map(|segment| segment.base().0).collect::<Vec<_>>();
        assert_eq!(bases, [7, FAR, 2 * FAR, 3 * FAR], "stopped at {point}");
        if opened.is_ok() {
            break;
        }
        point += 1;
    }
    assert!(point > 20);
    // After a clean stop each part is looked through, too, for what its index needs.
    restore(&bench, &files);
    let options = LogOptions { clean: true, ..bench.options() };
    let (log, report) = bench.open_with(options).unwrap();
    assert_eq!((read_all(&log).as_slice(), report.segments_checked), (&expected[..], 4));
    drop(log);
    // In the last segment, to which brokers never append so far, it is damage.
    restore(&bench, &[(format!("{:020}.log", 7), contents)]);
    assert_eq!(read_all(&log_of(&bench, false)), expected[..2]);
}

#[test]
fn a_damaged_segment_that_nobody_checks_does_not_keep_the_log_shut() {
    let (bench, _) = filled();
    let (mut log, _) = bench.open();
    let end = log.log_end_offset();
    for sequence in 0..8 {
        append(&mut log, produced(5, 0, sequence, &["x"])).unwrap();
    }
    let plan = validate::validate(
        &produced(5, 0, 8, &["x"]),
        AppendOrigin::Client,
        &AppendRules::of(log.config()),
        START,
    );
    log.append_plan(plan.unwrap(), LeaderEpoch(0), &ProducerContext::of(AppendOrigin::Client))
        .unwrap();
    log.close_clean().unwrap();
    drop(log);
    // Without snapshots, producers are looked for in all segments.
    for name in bench.names().iter().filter(|name| name.ends_with(".snapshot")).skip(1) {
        bench.disk.tamper(&bench.path(name), |bytes| bytes.truncate(3));
    }
    let names = bench.names();
    let logs = names.iter().filter(|name| name.ends_with(".log")).collect::<Vec<_>>();
    let damaged = logs[logs.len() - 3];
    bench.disk.tamper(&bench.path(damaged), |bytes| {
        assert_eq!(bytes[16], MAGIC_V2 as u8);
        bytes[16] = 9;
    });
    let log = log_of(&bench, true);
    assert!(log.log_end_offset() > end);
    assert!(log.producers().get(ProducerId(5)).is_some());
}
