//! Opening what a stop, clean or not, has left.

use super::*;
use crate::sys::disk::{Disk as _, Open};

#[test]
fn after_a_clean_stop_nothing_is_checked() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    log.close_clean().unwrap();
    assert_eq!(log.recovery_point(), Offset(60));
    drop(log);
    for segment in bench.names().iter().filter(|name| name.ends_with(".log")) {
        let len = bench.disk.bytes(&bench.path(segment)).len();
        let index = bench.disk.bytes(&bench.path(&segment.replace(".log", ".index")));
        let times = bench.disk.bytes(&bench.path(&segment.replace(".log", ".timeindex")));
        assert!(len > 0 && index.len().is_multiple_of(8) && times.len() == 12);
    }
    let operations = bench.disk.operations();
    let (mut log, report) = bench.open_clean();
    assert_eq!(report, RecoveryReport::default());
    assert_eq!(bench.disk.operations(), operations, "a clean start writes nothing");
    assert_eq!(log.log_end_offset(), Offset(60));
    assert_eq!(read_all(&log), values(0..60));
    log.close_clean().unwrap();
    assert_eq!(bench.disk.operations(), operations, "nor does closing what did not change");
}

#[test]
fn a_log_without_records_is_recovered_without_a_trace() {
    let bench = Bench::small();
    drop(bench.open());
    let names = bench.names();
    assert_eq!(names, [format!("{:020}.log", 0)]);
    let operations = bench.disk.operations();
    let (_, report) = bench.open();
    assert_eq!((report.segments_checked, bench.names()), (1, names));
    assert_eq!(bench.disk.operations(), operations);
    // What an index says about batches that are not there is not believed.
    let index = bench.path(&format!("{:020}.index", 0));
    bench.disk.shared().open(&index, Open::Create).unwrap().write_at(&[1; 8], 0).unwrap();
    let (mut log, _) = bench.open();
    assert!(bench.disk.bytes(&index).is_empty());
    fill(&mut log, 60);
    drop(log);
    assert_eq!(read_all(&bench.open().0), values(0..60));
}

#[test]
fn a_sync_of_records_is_one_of_the_directory_only_when_names_in_it_changed() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    let flush = |log: &mut Log| {
        let operations = bench.disk.operations();
        log.flush(log.log_end_offset()).unwrap();
        bench.disk.operations() - operations
    };
    append(&mut log, batch(&["x"])).unwrap();
    assert!(flush(&mut log) > 1);
    append(&mut log, batch(&["x"])).unwrap();
    assert_eq!(flush(&mut log), 1);
    // A leader's epoch goes to a file beside the log.
    append_in(&mut log, batch(&["x"]), LeaderEpoch(7)).unwrap();
    assert_eq!(flush(&mut log), 3);
    append_in(&mut log, batch(&["x"]), LeaderEpoch(7)).unwrap();
    assert_eq!(flush(&mut log), 1);
}

#[test]
fn a_torn_tail_is_cut_and_what_came_before_stays() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 20);
    let last = log.segments().last().unwrap().base();
    drop(log);
    let path = bench.path(&format!("{:020}.log", last.0));
    let whole = bench.disk.bytes(&path);
    let cuts = [&whole[..whole.len() - 1], &whole[..whole.len() - 40]];
    let zeros = [&whole[..], &[0; 5000]].concat();
    let flipped = {
        let mut bytes = whole.clone();
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
        bytes
    };
    let garbage = [&whole[..], &[0x55; 77]].concat();
    for (damaged, kept) in
        [(cuts[0], 19), (cuts[1], 19), (&zeros, 20), (&flipped, 19), (&garbage, 20)]
    {
        bench.disk.tamper(&path, |bytes| *bytes = damaged.to_vec());
        let (mut log, report) = bench.open();
        assert_eq!(log.log_end_offset(), Offset(kept));
        assert!(report.bytes_cut > 0);
        assert_eq!(read_all(&log), values(0..kept));
        fill(&mut log, 25);
        assert_eq!(read_all(&log), values(0..25));
        log.truncate_to(last).unwrap();
        drop(log);
    }
}

#[test]
fn damage_in_the_middle_takes_the_segments_behind_it() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    let bases = log.segments().map(|segment| segment.base().0).collect::<Vec<_>>();
    drop(log);
    bench.disk.tamper(&bench.path(&format!("{:020}.log", bases[2])), |bytes| bytes[150] ^= 1);
    let (log, report) = bench.open();
    assert_eq!(report.segments_deleted, bases.len() - 3);
    assert!(log.log_end_offset().0 > bases[2] && log.log_end_offset().0 < bases[3]);
    assert_eq!(read_all(&log), values(0..log.log_end_offset().0));
    assert_eq!(bench.names().iter().filter(|name| name.ends_with(".log")).count(), 3);
}

#[test]
fn only_segments_from_the_recovery_point_on_are_checked() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    let base = log.segments().last().unwrap().base();
    log.flush(base).unwrap();
    assert_eq!(log.recovery_point(), base);
    bench.checkpoint.write();
    fill(&mut log, 62);
    drop(log);
    let (log, report) = bench.open();
    assert_eq!(report.segments_checked, log.segments().filter(|s| s.base() >= base).count());
    assert_eq!((log.recovery_point(), read_all(&log)), (base, values(0..62)));
}

#[test]
fn missing_and_damaged_indexes_are_rebuilt_to_the_same_bytes() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 60);
    log.close_clean().unwrap();
    drop(log);
    let index_names =
        bench.names().into_iter().filter(|name| name.ends_with("index")).collect::<Vec<_>>();
    assert!(index_names.len() > 8);
    let originals =
        index_names.iter().map(|name| bench.disk.bytes(&bench.path(name))).collect::<Vec<_>>();
    let disk = bench.disk.shared();
    for (name, original) in index_names.iter().zip(&originals) {
        let path = bench.path(name);
        let damages: [Vec<u8>; 3] =
            [vec![0; 1 << 20], original[..original.len() - 1].to_vec(), vec![0xff; 7]];
        for damage in damages {
            bench.disk.tamper(&path, |bytes| *bytes = damage);
            let (log, _) = bench.open_clean();
            assert_eq!(read_all(&log), values(0..60));
            drop(log);
            assert_eq!(bench.disk.bytes(&path), *original, "{name}");
        }
        disk.remove_file(&path).unwrap();
        let (log, _) = bench.open_clean();
        for from in 0..60 {
            assert_eq!(read_from(&log, Offset(from)), values(from..60));
        }
        drop(log);
        if name.ends_with(".index") {
            assert_eq!(bench.disk.bytes(&path), *original, "{name}");
        } else {
            // As Kafka does: only a missing offset index counts as damage.
            bench.disk.shared().open(&path, Open::Create).unwrap();
            bench.disk.tamper(&path, |bytes| *bytes = original.clone());
        }
    }
}

#[test]
fn an_index_that_lies_is_not_believed() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 30);
    log.close_clean().unwrap();
    drop(log);
    let path = bench.path("00000000000000000000.index");
    bench.disk.tamper(&path, |bytes| {
        for entry in bytes.chunks_mut(8) {
            entry[7] ^= 0x13;
        }
    });
    let (log, _) = bench.open_clean();
    for from in 0..30 {
        assert_eq!(read_from(&log, Offset(from)), values(from..30));
    }
}

#[test]
fn damage_after_a_clean_stop_is_cut_as_well() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 30);
    let base = log.segments().last().unwrap().base();
    log.close_clean().unwrap();
    drop(log);
    bench.disk.tamper(&bench.path(&format!("{:020}.log", base.0)), |bytes| {
        bytes.truncate(bytes.len() - 5)
    });
    let (log, report) = bench.open_clean();
    assert!(report.bytes_cut > 0);
    assert_eq!(read_all(&log), values(0..29));
}

#[test]
fn a_damaged_snapshot_is_passed_over() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    for sequence in 0..40 {
        append(&mut log, produced(5, 0, sequence, &["some value"])).unwrap();
    }
    log.close_clean().unwrap();
    drop(log);
    let snapshots =
        bench.names().into_iter().filter(|name| name.ends_with(".snapshot")).collect::<Vec<_>>();
    assert!(snapshots.len() > 2);
    for damaged in 1..=snapshots.len() {
        for name in &snapshots[snapshots.len() - damaged..] {
            if bench.disk.shared().exists(&bench.path(name)) {
                bench.disk.tamper(&bench.path(name), |bytes| bytes.truncate(bytes.len() / 2));
            }
        }
        let (mut log, _) = bench.open_clean();
        assert!(append(&mut log, produced(5, 0, 39, &["some value"])).unwrap().duplicate);
        let gap = append(&mut log, produced(5, 0, 50, &["some value"]));
        assert!(matches!(gap, Err(AppendError::Producer(_))));
        log.close_clean().unwrap();
    }
}

#[test]
fn a_damaged_epoch_file_is_rebuilt_from_the_batches() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    for at in 0..30 {
        append_in(&mut log, batch(&["some value"]), LeaderEpoch(at / 7)).unwrap();
    }
    let epochs = log.epochs().clone();
    log.close_clean().unwrap();
    drop(log);
    bench.disk.tamper(&bench.path("leader-epoch-checkpoint"), |bytes| bytes.truncate(9));
    let (log, report) = bench.open_clean();
    assert!(report.epochs_rebuilt);
    assert_eq!(*log.epochs(), epochs);
}

#[test]
fn what_interrupted_work_left_is_swept() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 40);
    let bases = log.segments().map(|segment| segment.base().0).collect::<Vec<_>>();
    log.close_clean().unwrap();
    drop(log);
    let put = |name: String, contents: Vec<u8>| {
        bench.disk.shared().open(&bench.path(&name), Open::Create).unwrap();
        bench.disk.tamper(&bench.path(&name), |bytes| *bytes = contents);
    };
    put("00000000000000000003.log.deleted".into(), vec![1]);
    put(format!("{:020}.log.cleaned", bases[2]), vec![1]);
    put(format!("{:020}.index.cleaned", bases[2]), vec![1]);
    put(format!("{:020}.log.swap", bases[2]), vec![1]);
    put("00000000000000000777.index".into(), vec![0; 8]);
    put("00000000000000000000-0000000000.checkpoint".into(), vec![1]);
    // Of a finished round the originals may still be there: two segments became one.
    let joined =
        [bases[0], bases[1]].map(|base| bench.disk.bytes(&bench.path(&format!("{base:020}.log"))));
    put(format!("{:020}.log.swap", bases[0]), joined.concat());
    let (log, _) = bench.open_clean();
    assert_eq!(read_all(&log), values(0..40));
    assert_eq!(log.segments().nth(1).unwrap().base().0, bases[2]);
    let names = bench.names();
    assert!(names.iter().all(|name| !name.contains("swap")
        && !name.contains("cleaned")
        && !name.contains("deleted")));
    assert!(names.contains(&"00000000000000000000-0000000000.checkpoint".to_owned()));
    assert!(!names.iter().any(|name| name.contains("777")));
}

#[test]
fn a_log_that_ends_before_its_start_is_emptied() {
    let bench = Bench::small();
    let (mut log, _) = bench.open();
    fill(&mut log, 20);
    log.close_clean().unwrap();
    drop(log);
    let options = LogOptions { log_start: Offset(50), clean: true, ..bench.options() };
    let (mut log, report) = bench.open_with(options).unwrap();
    assert!(report.emptied);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(50), Offset(50)));
    fill(&mut log, 52);
    assert_eq!(read_all(&log), values(50..52));
}

#[test]
fn the_metadata_log_is_checked_whole_and_keeps_its_snapshots() {
    let mut bench = Bench::small();
    bench.kind = LogKind::Metadata;
    let (mut log, _) = bench.open();
    let rules = AppendRules::of(log.config());
    for at in 0..30 {
        let options = BatchOptions {
            base_offset: Offset(at),
            leader_epoch: LeaderEpoch(1),
            ..BatchOptions::default()
        };
        let records = built(options, START, &[&format!("value {at}")]);
        log.append_as_leader(records, LeaderEpoch(1), AppendOrigin::RaftLeader, &rules).unwrap();
        log.flush(log.log_end_offset()).unwrap();
    }
    let wrong = built(
        BatchOptions {
            base_offset: Offset(30),
            leader_epoch: LeaderEpoch(2),
            ..BatchOptions::default()
        },
        START,
        &["x"],
    );
    assert!(log.append_as_leader(wrong, LeaderEpoch(1), AppendOrigin::RaftLeader, &rules).is_err());
    bench.checkpoint.write();
    log.close_clean().unwrap();
    drop(log);
    let options = LogOptions { clean: true, recovery_point: Offset::ZERO, ..bench.options() };
    let (log, report) = bench.open_with(options).unwrap();
    assert_eq!(report.segments_checked, log.segments().count());
    assert_eq!(read_all(&log), values(0..30));
    assert!(bench.names().iter().all(|name| !name.ends_with(".snapshot")));
}

#[test]
fn what_kafka_derived_from_its_batches_is_rebuilt_to_the_same_bytes() {
    // A partition with lz4 batches from an idempotent producer, as Kafka 4.4.0
    // left it after a clean stop.
    const FILES: [(&str, &[u8]); 6] = [
        ("00000000000000000000.log", include_bytes!("kafka/00000000000000000000.log")),
        ("00000000000000000000.index", include_bytes!("kafka/00000000000000000000.index")),
        ("00000000000000000000.timeindex", include_bytes!("kafka/00000000000000000000.timeindex")),
        ("00000000000000001000.snapshot", include_bytes!("kafka/00000000000000001000.snapshot")),
        ("leader-epoch-checkpoint", include_bytes!("kafka/leader-epoch-checkpoint")),
        ("partition.metadata", include_bytes!("kafka/partition.metadata")),
    ];
    let bench = Bench::new(LogConfig::default());
    bench.disk.create_dir_all(&bench.dir()).unwrap();
    let put = |name: &str, contents: &[u8]| {
        bench.disk.open(&bench.path(name), Open::Create).unwrap();
        bench.disk.tamper(&bench.path(name), |bytes| *bytes = contents.to_vec());
    };
    FILES.iter().for_each(|(name, contents)| put(name, contents));
    // The time of the producer's batches, so that it has not expired.
    let written = Timestamp(i64::from_be_bytes(FILES[0].1[35..43].try_into().unwrap()));
    let clock = ManualClock::starting_at(written);
    let options = || LogOptions { topic_id: None, clock: clock.clone(), ..bench.options() };
    let (log, report) = bench.open_with(LogOptions { clean: true, ..options() }).unwrap();
    assert_eq!((report, log.log_end_offset()), (RecoveryReport::default(), Offset(1000)));
    drop(log);
    // Now as after a crash: indexes of their full size, all zeros, and no state.
    put(FILES[1].0, &[0; 10 << 20]);
    put(FILES[2].0, &[0; 10_485_756]);
    bench.disk.remove_file(&bench.path(FILES[3].0)).unwrap();
    put(FILES[4].0, b"0\n0\n");
    let (log, report) = bench.open_with(options()).unwrap();
    assert_eq!((report.segments_checked, log.log_end_offset()), (1, Offset(1000)));
    drop(log);
    for (name, contents) in FILES {
        assert_eq!(bench.disk.bytes(&bench.path(name)), contents, "{name}");
    }
}
