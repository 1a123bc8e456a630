//! Several logs in several directories: identity, placement, failure, deletion,
//! clean and unclean stops.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::log::compaction::cleaner::{CleanerLimits, Pace};
use crate::log::meta_properties::MetaProperties;
use crate::log::store::{LogHolder, LogStore, Place, StoreError, StoreOptions};
use crate::log::store_loading::LoadReport;
use crate::sys::disk::{Disk as _, Open};
use crate::sys::memory_disk::Fault;
use crate::sys::random::Random;
use crate::types::{BrokerId, DirectoryId, TopicPartition};

/// The owner of a log, as a partition is one.
#[derive(Debug)]
pub(super) struct Held(pub(super) Mutex<Log>);

impl LogHolder for Held {
    fn with_log(&self, act: &mut dyn FnMut(&mut Log)) {
        act(&mut self.0.lock());
    }
}

/// A disk with formatted directories.
pub(super) struct Site {
    pub(super) disk: MemoryDisk,
    clock: Arc<ManualClock>,
    dirs: Vec<PathBuf>,
}

pub(super) const TOPIC: TopicId = TopicId::from_u128(7777);

pub(super) fn name(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

impl Site {
    pub(super) fn new(dirs: &[&str]) -> Self {
        let disk = MemoryDisk::new();
        for (at, dir) in dirs.iter().enumerate() {
            disk.create_dir_all(Path::new(dir)).unwrap();
            identity(1000 + at as u128).write(&disk, Path::new(dir)).unwrap();
        }
        let dirs = dirs.iter().map(PathBuf::from).collect();
        Self { disk, clock: ManualClock::starting_at(START), dirs }
    }

    pub(super) fn open(&self) -> Result<Arc<LogStore>, StoreError> {
        let options = StoreOptions {
            disk: self.disk.shared(),
            clock: self.clock.clone(),
            random: Random::from_seed(1),
            log_dirs: self.dirs.clone(),
            metadata_log_dir: self.dirs[0].clone(),
            node_id: BrokerId(1),
            recovery_threads_per_dir: 2,
            producer_expiration_ms: 86_400_000,
            open_files: 4,
        };
        LogStore::open(options).map(Arc::new)
    }

    pub(super) fn loaded(&self) -> (Arc<LogStore>, LoadReport) {
        let store = self.open().unwrap();
        let report = store.load(&|_| small(), &|_, topic| topic != TOPIC, &|_| None).unwrap();
        (store, report)
    }

    pub(super) fn text(&self, path: &str) -> String {
        String::from_utf8(self.disk.bytes(Path::new(path))).unwrap()
    }

    pub(super) fn entries(&self, dir: &str) -> BTreeSet<String> {
        let entries = self.disk.list(Path::new(dir)).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }
}

pub(super) const ANYWHERE: Place = Place::Preferably(DirectoryId::nil());

pub(super) fn small() -> Arc<LogConfig> {
    Arc::new(LogConfig { segment_bytes: 1000, index_interval_bytes: 100, ..LogConfig::default() })
}

fn identity(directory: u128) -> MetaProperties {
    MetaProperties {
        cluster_id: "some-cluster".to_owned(),
        node_id: BrokerId(1),
        directory_id: Some(TopicId::from_u128(directory)),
    }
}

pub(super) fn take(store: &LogStore, partition: i32) -> Arc<Held> {
    let log = store.open_log(&name(partition), TOPIC, small(), ANYWHERE).unwrap();
    let held = Arc::new(Held(Mutex::new(log)));
    let weak: Weak<Held> = Arc::downgrade(&held);
    store.attach(&name(partition), weak);
    held
}

#[test]
fn logs_are_spread_closed_and_found_again() {
    let site = Site::new(&["/a", "/b"]);
    let (store, _) = site.loaded();
    assert_eq!((store.cluster_id(), store.previous_broker_epoch()), ("some-cluster", -1));
    let held = (0..4).map(|partition| take(&store, partition)).collect::<Vec<_>>();
    for directory in store.directories() {
        assert_eq!(directory.log_count(), 2);
    }
    fill(&mut held[1].0.lock(), 30);
    held[1].0.lock().high_watermark_advanced(Offset(25));
    store.run_high_watermark_checkpoint();
    let b = site.text("/b/replication-offset-checkpoint");
    assert_eq!(b, "0\n2\nt 1 25\nt 3 0\n");
    store.close_clean(42);
    drop((held, store));
    assert_eq!(site.text("/a/.kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":42}"#);
    assert_eq!(site.text("/b/recovery-point-offset-checkpoint"), "0\n2\nt 1 30\nt 3 0\n");

    let (store, report) = site.loaded();
    assert_eq!(store.previous_broker_epoch(), 42);
    assert_eq!((report.logs, report.recovered, report.strays), (4, 0, 0));
    assert!(!site.disk.exists(Path::new("/a/.kafka_cleanshutdown")));
    let log = store.open_log(&name(1), TOPIC, small(), ANYWHERE).unwrap();
    assert_eq!(read_all(&log), values(0..30));
    assert_eq!(log.marks().high_watermark(), Offset(25));
}

#[test]
fn a_log_whose_directory_is_not_there_is_not_replaced_by_an_empty_one() {
    let site = Site::new(&["/a", "/b"]);
    let (store, _) = site.loaded();
    let gone = DirectoryId::from_u128(0xdead);
    let open = |place| store.open_log(&name(0), TOPIC, small(), place).map(drop);
    assert!(matches!(open(Place::Only(gone)), Err(LogError::Offline { .. })));
    assert_eq!(store.directory_of(&name(0)), None);
    let b = store.directories()[1].id();
    open(Place::Only(b)).unwrap();
    assert_eq!(store.directory_of(&name(0)), Some(b));
}

#[test]
fn after_an_unclean_stop_logs_are_recovered_from_the_checkpoint() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    fill(&mut held.0.lock(), 1);
    store.run_flush();
    fill(&mut held.0.lock(), 40);
    let rolled = held.0.lock().segments().last().unwrap().base();
    store.run_flush();
    assert_eq!(held.0.lock().recovery_point(), rolled);
    store.run_recovery_point_checkpoint();
    let expected = format!("0\n1\nt 0 {rolled}\n");
    assert_eq!(site.text("/a/recovery-point-offset-checkpoint"), expected);
    drop((held, store));
    site.disk.process_killed();
    let (store, report) = site.loaded();
    assert_eq!((report.logs, report.recovered), (1, 1));
    assert_eq!(read_all(&take(&store, 0).0.lock()), values(0..40));
}

#[test]
fn what_is_not_due_yet_is_looked_at_again() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    let config = LogConfig { flush_ms: 1000, retention_bytes: 500, ..LogConfig::clone(&small()) };
    held.0.lock().set_config(Arc::new(config));
    fill(&mut held.0.lock(), 1);
    store.run_flush();
    fill(&mut held.0.lock(), 3);
    let flushed_to = || {
        store.run_flush();
        held.0.lock().recovery_point()
    };
    assert_eq!((flushed_to(), flushed_to()), (Offset(1), Offset(1)));
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(flushed_to(), Offset(3));
    fill(&mut held.0.lock(), 40);
    held.0.lock().run_retention(Offset(43)).unwrap();
    let given_up = || {
        store.run_removals();
        site.entries("/a/t-0").iter().filter(|name| name.ends_with(".deleted")).count()
    };
    assert!(given_up() > 0 && given_up() > 0);
    site.clock.advance(Duration::from_secs(61));
    assert_eq!(given_up(), 0);
}

#[test]
fn retention_holds_no_log_while_it_waits_for_the_disk() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    let config = LogConfig { retention_ms: 1000, ..LogConfig::clone(&small()) };
    fill(&mut held.0.lock(), 40);
    store.close_clean(7);
    drop((held, store));
    site.disk.process_killed();
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    held.0.lock().set_config(Arc::new(config));
    held.0.lock().high_watermark_advanced(Offset(40));
    // What an append must know of the last segment is in memory from now on.
    fill(&mut held.0.lock(), 41);
    site.clock.advance(Duration::from_secs(2));
    for name in site.entries("/a/t-0") {
        site.disk.evict(&Path::new("/a/t-0").join(name));
    }
    site.disk.stall();
    std::thread::scope(|scope| {
        scope.spawn(|| store.run_retention());
        while site.disk.waits() == 0 {
            std::thread::yield_now();
        }
        fill(&mut held.0.lock(), 42);
        site.disk.resume();
    });
    let log = held.0.lock();
    assert_eq!(log.log_end_offset(), Offset(42));
    assert!(log.log_start_offset() > Offset::ZERO);
}

#[test]
fn a_kill_at_any_moment_of_the_stop_loses_nothing() {
    for point in 0.. {
        assert!(point < 500, "the stop never ends");
        let site = Site::new(&["/a", "/b"]);
        let (store, _) = site.loaded();
        let held = [take(&store, 0), take(&store, 1)];
        held.iter().for_each(|held| fill(&mut held.0.lock(), 12));
        site.disk.break_with(Fault::stop(point));
        store.close_clean(7);
        let stopped = store.directories().iter().all(|d| d.health().is_online());
        drop((held, store));
        site.disk.process_killed();
        let (store, report) = site.loaded();
        assert_eq!(report.logs, 2);
        for partition in 0..2 {
            assert_eq!(read_all(&take(&store, partition).0.lock()), values(0..12), "{point}");
        }
        if stopped {
            break;
        }
    }
}

#[test]
fn a_torn_topic_id_costs_a_new_log_its_place_and_keeps_another_shut() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = [take(&store, 0), take(&store, 1)];
    fill(&mut held[1].0.lock(), 3);
    store.run_flush();
    store.run_recovery_point_checkpoint();
    fill(&mut held[0].0.lock(), 3);
    drop((held, store));
    site.disk.process_killed();
    for log in ["/a/t-0", "/a/t-1"] {
        site.disk.tamper(&Path::new(log).join("partition.metadata"), |bytes| bytes.truncate(20));
    }
    let (store, report) = site.loaded();
    assert_eq!((report.logs, report.strays, report.unusable.len()), (0, 1, 1));
    assert_eq!(report.unusable[0].0, name(1));
    assert_eq!(take(&store, 0).0.lock().log_end_offset(), Offset(0));
}

#[test]
fn the_first_records_are_safe_after_the_next_sync() {
    for seed in 0..30 {
        let site = Site::new(&["/a"]);
        let (store, _) = site.loaded();
        let held = [take(&store, 0), take(&store, 1)];
        fill(&mut held[0].0.lock(), 3);
        assert_eq!(held[0].0.lock().recovery_point(), Offset(0), "nobody waited for the disk");
        store.run_flush();
        fill(&mut held[1].0.lock(), 3);
        drop((held, store));
        site.disk.power_lost(&Random::from_seed(seed));
        let (store, report) = site.loaded();
        assert!(report.unusable.is_empty(), "{seed}: {:?}", report.unusable);
        assert_eq!(read_all(&take(&store, 0).0.lock()), values(0..3), "{seed}");
    }
}

#[test]
fn a_kill_before_the_first_sync_does_not_make_the_next_one_forget_the_topic() {
    for seed in 0..30 {
        let site = Site::new(&["/a"]);
        let (store, _) = site.loaded();
        let held = take(&store, 0);
        fill(&mut held.0.lock(), 3);
        drop((held, store));
        site.disk.process_killed();
        let (store, _) = site.loaded();
        let held = take(&store, 0);
        match seed % 2 {
            0 => store.close_clean(7),
            _ => held.0.lock().flush(Offset(3)).unwrap(),
        }
        drop((held, store));
        site.disk.power_lost(&Random::from_seed(seed));
        let (store, report) = site.loaded();
        assert!(report.unusable.is_empty() && report.strays == 0, "{seed}: {report:?}");
        assert_eq!(read_all(&take(&store, 0).0.lock()), values(0..3), "{seed}");
    }
}

#[test]
fn an_append_to_a_new_log_is_news() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    store.run_flush();
    fill(&mut held.0.lock(), 3);
    store.run_flush();
    assert_eq!(held.0.lock().recovery_point(), Offset(3));
}

#[test]
fn logs_that_are_not_due_do_not_keep_others_from_being_synced() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = (0..120).map(|partition| take(&store, partition)).collect::<Vec<_>>();
    held.iter().for_each(|held| fill(&mut held.0.lock(), 1));
    let synced = |to| held.iter().filter(|h| h.0.lock().recovery_point() == Offset(to)).count();
    store.run_flush();
    assert!(synced(1) < 120, "a look has a limit");
    store.run_flush();
    assert_eq!(synced(1), 120);
    for held in &held {
        let config = LogConfig { flush_ms: 1000, ..LogConfig::clone(&small()) };
        held.0.lock().set_config(Arc::new(config));
        fill(&mut held.0.lock(), 2);
    }
    for at in (0..120).step_by(10) {
        let mut log = held[at].0.lock();
        fill(&mut log, 40);
        let rolled = log.segments().last().unwrap().base();
        drop(log);
        store.run_flush();
        assert_eq!(held[at].0.lock().recovery_point(), rolled);
    }
}

#[test]
fn a_power_failure_at_any_moment_of_the_stop_breaks_no_promise() {
    // Few logs are synced one by one, many at once.
    for logs in [3, 20] {
        for point in 0.. {
            assert!(point < 1000, "the stop never ends");
            let site = Site::new(&["/a"]);
            let (store, _) = site.loaded();
            let held = (0..logs).map(|partition| take(&store, partition)).collect::<Vec<_>>();
            fill(&mut held[0].0.lock(), 12);
            fill(&mut held[1].0.lock(), 5);
            held[1].0.lock().flush(Offset(5)).unwrap();
            site.disk.break_with(Fault::stop(point));
            store.close_clean(7);
            let stopped = store.directories()[0].health().is_online();
            drop((held, store));
            site.disk.power_lost(&Random::from_seed(point));
            let (store, report) = site.loaded();
            assert!(report.unusable.is_empty(), "{point}: {:?}", report.unusable);
            if stopped || store.previous_broker_epoch() == 7 {
                assert_eq!((report.recovered, report.strays), (0, 0), "{point}");
                assert_eq!(report.logs, logs as usize);
                assert_eq!(read_all(&take(&store, 0).0.lock()), values(0..12), "{point}");
            }
            assert_eq!(read_all(&take(&store, 1).0.lock()), values(0..5), "{point}");
            if stopped {
                break;
            }
        }
    }
}

#[test]
fn a_directory_in_use_or_of_somebody_else_is_refused() {
    let site = Site::new(&["/a", "/b"]);
    let store = site.open().unwrap();
    assert!(matches!(site.open(), Err(StoreError::Locked(path)) if path == Path::new("/a")));
    drop(store);
    let refused = |site: &Site| match site.open() {
        Err(StoreError::Identity { path, .. }) => path,
        other => panic!("{other:?}"),
    };
    let b = Path::new("/b");
    let mut other = identity(1001);
    other.cluster_id = "other".to_owned();
    other.write(&site.disk, b).unwrap();
    assert_eq!(refused(&site), b);
    identity(1000).write(&site.disk, b).unwrap();
    assert_eq!(refused(&site), b);
    identity(3).write(&site.disk, b).unwrap();
    assert_eq!(refused(&site), b);
    let mut other = identity(1001);
    other.node_id = BrokerId(2);
    other.write(&site.disk, b).unwrap();
    assert_eq!(refused(&site), b);
    identity(1001).write(&site.disk, b).unwrap();
    site.disk.create_dir_all(Path::new("/b/__cluster_metadata-0")).unwrap();
    assert_eq!(refused(&site), b);
    site.disk.remove_dir_all(Path::new("/b/__cluster_metadata-0")).unwrap();
    site.disk.remove_file(Path::new("/b/meta.properties")).unwrap();
    assert!(matches!(site.open(), Err(StoreError::NotFormatted(path)) if path == b));
    // A directory that is not there wants the same.
    let a = Path::new("/a");
    site.disk.remove_dir_all(a).unwrap();
    assert!(matches!(site.open(), Err(StoreError::NotFormatted(path)) if path == a));
}

#[test]
fn a_directory_without_an_id_gets_one() {
    let site = Site::new(&["/a"]);
    MetaProperties { directory_id: None, ..identity(0) }
        .write(&site.disk, Path::new("/a"))
        .unwrap();
    let store = site.open().unwrap();
    let written = MetaProperties::read(&site.disk, Path::new("/a")).unwrap().unwrap();
    assert_eq!(written.directory_id, Some(store.directories()[0].id()));
}

#[test]
fn what_is_no_partition_or_there_twice_stops_the_start() {
    let site = Site::new(&["/a", "/b"]);
    let load = |site: &Site| site.open().unwrap().load(&|_| small(), &|_, _| false, &|_| None);
    site.disk.create_dir_all(Path::new("/a/lost+found")).unwrap();
    load(&site).unwrap();
    site.disk.create_dir_all(Path::new("/a/my-backup")).unwrap();
    assert!(matches!(load(&site), Err(StoreError::UnknownDirectory(_))));
    site.disk.remove_dir_all(Path::new("/a/my-backup")).unwrap();
    site.disk.create_dir_all(Path::new("/a/t-0")).unwrap();
    site.disk.create_dir_all(Path::new("/b/t-0")).unwrap();
    assert!(matches!(load(&site), Err(StoreError::Duplicate(..))));
}

#[test]
fn one_directory_fails_and_the_others_go_on() {
    let site = Site::new(&["/a", "/b"]);
    let (store, _) = site.loaded();
    let held = [take(&store, 0), take(&store, 1)];
    let failures = Arc::new(Mutex::new(Vec::new()));
    let heard = failures.clone();
    store.on_failure(move |failure| heard.lock().push((failure.path.clone(), failure.fatal)));
    site.disk.break_with(Fault::full(0).under("/b"));
    fill(&mut held[0].0.lock(), 5);
    assert!(append(&mut held[1].0.lock(), batch(&["x"])).is_err());
    assert_eq!(*failures.lock(), [(PathBuf::from("/b"), false)]);
    fill(&mut held[0].0.lock(), 9);
    assert_eq!(read_all(&held[0].0.lock()), values(0..9));
    // New logs go where there is a disk.
    let log = take(&store, 2);
    assert!(log.0.lock().dir().starts_with("/a"));
    assert!(store.describe()[1].failure.is_some() && store.describe()[0].failure.is_none());
    store.close_clean(1);
    assert!(site.disk.exists(Path::new("/a/.kafka_cleanshutdown")));
    assert!(!site.disk.exists(Path::new("/b/.kafka_cleanshutdown")));
    site.disk.break_with(Fault::full(0));
    store.directories()[0].health().fail(Path::new("/a"), &io::ErrorKind::StorageFull.into());
    assert_eq!(failures.lock().last(), Some(&(PathBuf::from("/a"), true)));
}

#[test]
fn a_deleted_log_goes_later_and_its_name_starts_anew() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    fill(&mut held.0.lock(), 20);
    let slice = held.0.lock().read(Offset(0), Offset(20), 200, true).unwrap();
    let end = held.0.lock().log_end_offset();
    held.0.lock().flush(end).unwrap();
    store.run_recovery_point_checkpoint();
    store.delete(&[name(0)]).unwrap();
    assert_eq!(site.text("/a/recovery-point-offset-checkpoint"), "0\n0\n");
    assert!(append(&mut held.0.lock(), batch(&["x"])).is_err());
    assert!(!slice.read().unwrap().is_empty(), "who was reading goes on");
    let deleted = |site: &Site| site.entries("/a").iter().any(|name| name.ends_with("-delete"));
    assert!(deleted(&site));
    let again = take(&store, 0);
    assert_eq!(again.0.lock().log_end_offset(), Offset(0));
    store.run_removals();
    assert!(deleted(&site));
    site.clock.advance(Duration::from_secs(61));
    store.run_removals();
    assert!(!deleted(&site) && site.disk.exists(Path::new("/a/t-0")));
    // What an earlier run left to be removed is removed as well.
    site.disk.create_dir_all(Path::new("/a/t-9.0123456789abcdef0123456789abcdef-delete")).unwrap();
    drop((held, again, store));
    let (store, _) = site.loaded();
    site.clock.advance(Duration::from_secs(61));
    store.run_removals();
    assert!(!deleted(&site));
}

#[test]
fn logs_that_the_metadata_do_not_know_are_put_aside() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let other = TopicId::from_u128(8888);
    let log = store.open_log(&name(1), other, small(), ANYWHERE).unwrap();
    let unknown = Arc::new(Held(Mutex::new(log)));
    let weak: Weak<Held> = Arc::downgrade(&unknown);
    store.attach(&name(1), weak);
    let known = take(&store, 0);
    fill(&mut unknown.0.lock(), 3);
    fill(&mut known.0.lock(), 3);
    drop(store.open_log(&name(2), TOPIC, small(), ANYWHERE).unwrap());
    store.close_clean(1);
    drop((unknown, known, store));
    // Nothing was ever written to t-2, and the file that names its topic was lost.
    site.disk.remove_file(Path::new("/a/t-2/partition.metadata")).unwrap();
    let (store, report) = site.loaded();
    assert_eq!((report.logs, report.strays), (1, 2));
    let strays = site.entries("/a").into_iter().filter(|name| name.ends_with("-stray"));
    assert_eq!(strays.count(), 2);
    assert_eq!(take(&store, 1).0.lock().log_end_offset(), Offset(0));
    assert_eq!(read_all(&take(&store, 0).0.lock()), values(0..3));
}

#[test]
fn where_a_log_begins_is_remembered_from_its_checkpoint_on() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    fill(&mut held.0.lock(), 20);
    held.0.lock().high_watermark_advanced(Offset(20));
    held.0.lock().delete_records_before(Offset(7)).unwrap();
    store.run_log_start_checkpoint();
    assert_eq!(site.text("/a/log-start-offset-checkpoint"), "0\n1\nt 0 7\n");
    drop((held, store));
    let (store, _) = site.loaded();
    assert_eq!(take(&store, 0).0.lock().log_start_offset(), Offset(7));
}

#[test]
fn a_truncation_is_in_the_checkpoint_before_anything_is_appended_again() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    fill(&mut held.0.lock(), 20);
    held.0.lock().flush(Offset(20)).unwrap();
    store.run_recovery_point_checkpoint();
    assert_eq!(site.text("/a/recovery-point-offset-checkpoint"), "0\n1\nt 0 20\n");
    held.0.lock().truncate_to(Offset(11)).unwrap();
    assert_eq!(site.text("/a/recovery-point-offset-checkpoint"), "0\n1\nt 0 11\n");
}

#[test]
fn a_flush_that_a_truncation_overtakes_counts_for_nothing() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    let mut log = held.0.lock();
    fill(&mut log, 20);
    let flush = log.begin_flush(Offset(20)).unwrap().unwrap();
    log.truncate_to(Offset(5)).unwrap();
    fill(&mut log, 25);
    flush.run().unwrap();
    log.finish_flush(&flush);
    assert_eq!(log.recovery_point(), Offset(0));
}

#[test]
fn directories_can_be_left_damaged_checkpoints() {
    let site = Site::new(&["/a"]);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    fill(&mut held.0.lock(), 20);
    store.run_recovery_point_checkpoint();
    store.run_high_watermark_checkpoint();
    drop((held, store));
    site.disk.process_killed();
    for file in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
        let path = Path::new("/a").join(file);
        site.disk.open(&path, Open::Create).unwrap();
        site.disk.tamper(&path, |bytes| *bytes = b"0\n5\nt 0".to_vec());
    }
    let (store, report) = site.loaded();
    assert_eq!((report.logs, report.recovered), (1, 1));
    assert_eq!(read_all(&take(&store, 0).0.lock()), values(0..20));
}

/// Goes on for ever.
struct Unhurried;

impl Pace for Unhurried {
    fn moved(&mut self, _: u64) -> bool {
        true
    }
}

#[test]
fn the_dirtiest_log_is_cleaned_first_and_how_far_is_remembered() {
    let site = Site::new(&["/a", "/b"]);
    let compacted = Arc::new(LogConfig {
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..LogConfig::clone(&small())
    });
    let limits = CleanerLimits { map_bytes: 1 << 20, load_factor: 0.9, buffer_bytes: 1000 };
    let (store, _) = site.loaded();
    assert!(!store.clean_dirtiest(&limits, &mut Unhurried), "there is nothing");
    let held = (0..3).map(|partition| take(&store, partition)).collect::<Vec<_>>();
    let full = |held: &Held, count| {
        let mut log = held.0.lock();
        let end = log.log_end_offset().0 + count;
        fill(&mut log, end);
        log.high_watermark_advanced(Offset(end));
    };
    held.iter().for_each(|held| full(held, 40));
    assert!(!store.clean_dirtiest(&limits, &mut Unhurried), "nor do they want it");
    held[1..].iter().for_each(|held| held.0.lock().set_config(compacted.clone()));
    let cleaned = || held.iter().map(|held| held.0.lock().marks().cleaned_to()).collect::<Vec<_>>();
    // Both are wholly dirty: one, then the other.
    assert!(store.clean_dirtiest(&limits, &mut Unhurried));
    assert_eq!(cleaned().iter().flatten().count(), 1);
    assert!(store.clean_dirtiest(&limits, &mut Unhurried));
    let ends = held.iter().map(|held| held.0.lock().segments().last().unwrap().base());
    let ends = ends.collect::<Vec<_>>();
    assert_eq!(cleaned(), [None, Some(ends[1]), Some(ends[2])]);
    assert!(!store.clean_dirtiest(&limits, &mut Unhurried), "they are clean");
    let left = read_all(&held[1].0.lock());
    assert_eq!(left.iter().filter(|(offset, _)| *offset < ends[1].0).count(), 1);
    let lines = ["/a", "/b"].map(|dir| {
        let path = format!("{dir}/cleaner-offset-checkpoint");
        if site.disk.exists(Path::new(&path)) { site.text(&path) } else { String::new() }
    });
    assert!(lines.concat().contains(&format!("t 1 {}\n", ends[1])), "{lines:?}");
    store.close_clean(1);
    drop((held, store));
    let (store, _) = site.loaded();
    let held = take(&store, 1);
    held.0.lock().set_config(compacted.clone());
    assert_eq!(held.0.lock().marks().cleaned_to(), Some(ends[1]));
    assert!(!store.clean_dirtiest(&limits, &mut Unhurried));
    // A log that was cut is dirty from there on; one that is gone is forgotten.
    held.0.lock().truncate_to(Offset(20)).unwrap();
    assert_eq!(held.0.lock().marks().cleaned_to(), Some(Offset(20)));
    store.delete(&[name(1)]).unwrap();
    let lines = ["/a", "/b"].map(|dir| {
        let path = format!("{dir}/cleaner-offset-checkpoint");
        if site.disk.exists(Path::new(&path)) { site.text(&path) } else { String::new() }
    });
    assert!(!lines.concat().contains("t 1 ") && lines.concat().contains("t 2 "), "{lines:?}");
}

#[test]
fn a_disk_that_fails_while_it_cleans_takes_its_directory_offline() {
    let site = Site::new(&["/a"]);
    let compacted = Arc::new(LogConfig {
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..LogConfig::clone(&small())
    });
    let limits = CleanerLimits { map_bytes: 1 << 20, load_factor: 0.9, buffer_bytes: 1000 };
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    fill(&mut held.0.lock(), 40);
    held.0.lock().high_watermark_advanced(Offset(40));
    held.0.lock().set_config(compacted);
    let before = read_all(&held.0.lock());
    let base = held.0.lock().segments().next().unwrap().base();
    let path = format!("/a/t-0/{base:020}.log", base = base.0);
    site.disk.tamper(Path::new(&path), |bytes| bytes[80] ^= 1);
    // A damaged log is left alone, and others would have their turn.
    assert!(store.clean_dirtiest(&limits, &mut Unhurried));
    assert!(!store.clean_dirtiest(&limits, &mut Unhurried));
    assert!(store.online().count() == 1);
    site.disk.tamper(Path::new(&path), |bytes| bytes[80] ^= 1);
    assert_eq!(read_all(&held.0.lock()), before);
    drop(held);
    drop(store);
    let (store, _) = site.loaded();
    let held = take(&store, 0);
    let config = held.0.lock().config().clone();
    held.0.lock().set_config(Arc::new(LogConfig {
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        ..LogConfig::clone(&config)
    }));
    held.0.lock().high_watermark_advanced(Offset(40));
    site.disk.break_with(Fault::full(3));
    assert!(!store.clean_dirtiest(&limits, &mut Unhurried));
    assert_eq!(store.online().count(), 0);
}
