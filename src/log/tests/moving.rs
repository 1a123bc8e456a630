//! Logs that move to another directory: the swap, and a crash at each of its steps.

use super::stores::{ANYWHERE, Held, Site, TOPIC, name, small, take};
use super::*;
use crate::log::store::{FutureLog, LogStore, Place, StoreError};
use crate::sys::disk::Disk as _;
use crate::sys::memory_disk::Fault;
use crate::sys::random::Random;
use crate::types::TopicPartition;

const A: &str = "/a";
const B: &str = "/b";

/// The second directory, as the controller was told.
fn told(store: &LogStore) -> crate::types::DirectoryId {
    store.directories()[1].id()
}

fn reload(site: &Site) -> Arc<LogStore> {
    let store = site.open().unwrap();
    let b = told(&store);
    store.load(&|_| small(), &|_, topic| topic != TOPIC, &|_| Some(b)).unwrap();
    store
}

/// A log in the first directory, synced, and all of it in a copy in the second.
fn copied(store: &Arc<LogStore>) -> (Arc<Held>, Arc<FutureLog>) {
    let held = take(store, 0);
    let future = {
        let mut log = held.0.lock();
        fill(&mut log, 30);
        log.high_watermark_advanced(Offset(25));
        log.marks().set_cleaned_to(Offset(4));
        let end = log.log_end_offset();
        log.flush(end).unwrap();
        store.create_future(&name(0), &log, &store.directories()[1]).unwrap()
    };
    copy(&held.0.lock(), &future);
    (held, future)
}

fn copy(log: &Log, future: &FutureLog) {
    let mut copy = future.lock();
    while copy.log_end_offset() < log.log_end_offset() {
        let slice = log.read(copy.log_end_offset(), log.log_end_offset(), 300, true).unwrap();
        copy.append_as_follower(slice.read().unwrap(), LeaderEpoch(9)).unwrap();
    }
}

fn logs(site: &Site, of: &TopicPartition) -> usize {
    let named = |dir| usize::from(site.entries(dir).contains(&of.to_string()));
    named(A) + named(B)
}

fn ending(site: &Site, dir: &str, end: &str) -> usize {
    site.entries(dir).iter().filter(|name| name.ends_with(end)).count()
}

#[test]
fn a_copy_takes_the_place_of_its_log() {
    let site = Site::new(&[A, B]);
    let (store, _) = site.loaded();
    let (held, future) = copied(&store);
    assert_eq!(ending(&site, B, "-future"), 1);
    let described = store.describe();
    assert_eq!(described[1].logs[0].future, Some(Some(0)));
    assert_eq!(described[0].logs[0].future, None);
    {
        let mut log = held.0.lock();
        log.assign_epoch(LeaderEpoch(12), Offset(30)).unwrap();
        let new = store.promote(&name(0), &mut log, &future).unwrap();
        *log = new;
        assert_eq!(read_all(&log), values(0..30));
        assert_eq!(log.epochs().latest().unwrap().epoch, LeaderEpoch(12));
        assert_eq!(log.marks().cleaned_to(), Some(Offset(4)));
    }
    assert_eq!(store.directory_of(&name(0)), Some(told(&store)));
    assert!(store.future_of(&name(0)).is_none());
    assert_eq!((logs(&site, &name(0)), ending(&site, A, "-delete")), (1, 1));
    assert_eq!(site.text("/a/recovery-point-offset-checkpoint"), "0\n0\n");
    assert!(!site.disk.exists(Path::new("/a/cleaner-offset-checkpoint")));
    assert_eq!(site.text("/b/recovery-point-offset-checkpoint"), "0\n1\nt 0 30\n");
    assert_eq!(site.text("/b/replication-offset-checkpoint"), "0\n1\nt 0 25\n");
    assert_eq!(site.text("/b/cleaner-offset-checkpoint"), "0\n1\nt 0 4\n");
    fill(&mut held.0.lock(), 33);
    assert_eq!(held.0.lock().log_end_offset(), Offset(33));
}

#[test]
fn a_crash_at_any_moment_of_the_swap_loses_nothing_and_leaves_one_log() {
    for power in [false, true] {
        for point in 0.. {
            assert!(point < 500, "the swap never ends");
            let site = Site::new(&[A, B]);
            let (store, _) = site.loaded();
            let (held, future) = copied(&store);
            store.run_recovery_point_checkpoint();
            site.disk.break_with(Fault::stop(point));
            let _ = store.promote(&name(0), &mut held.0.lock(), &future);
            let done = store.directories().iter().all(|dir| dir.health().is_online());
            drop((held, future, store));
            if power {
                site.disk.power_lost(&Random::from_seed(point));
            } else {
                site.disk.process_killed();
            }
            let store = reload(&site);
            assert_eq!(logs(&site, &name(0)), 1, "{point} {power}");
            let log = store.open_log(&name(0), TOPIC, small(), ANYWHERE).unwrap();
            assert_eq!(read_all(&log), values(0..30), "{point} {power}");
            if done {
                assert_eq!(store.directory_of(&name(0)), Some(told(&store)));
                break;
            }
        }
    }
}

#[test]
fn a_directory_that_fails_during_the_swap_takes_nothing_with_it() {
    for broken in [A, B] {
        for point in 0.. {
            assert!(point < 500, "the swap never ends");
            let site = Site::new(&["/m", A, B]);
            let store = site.open().unwrap();
            store.load(&|_| small(), &|_, _| false, &|_| None).unwrap();
            let a = Place::Only(store.directories()[1].id());
            let mut log = store.open_log(&name(0), TOPIC, small(), a).unwrap();
            fill(&mut log, 12);
            let future = store.create_future(&name(0), &log, &store.directories()[2]).unwrap();
            copy(&log, &future);
            site.disk.break_with(Fault::stop(point).under(broken));
            match store.promote(&name(0), &mut log, &future) {
                Ok(new) => assert_eq!(read_all(&new), values(0..12), "{broken} {point}"),
                Err(error) => {
                    assert_eq!(broken, B, "{error}");
                    assert_eq!(read_all(&log), values(0..12), "{point}");
                }
            }
            if store.directories().iter().all(|dir| dir.health().is_online()) {
                break;
            }
        }
    }
}

#[test]
fn a_copy_is_gone_on_with_after_a_start() {
    let site = Site::new(&[A, B]);
    let (store, _) = site.loaded();
    let (held, future) = copied(&store);
    fill(&mut held.0.lock(), 35);
    drop((held, future, store));
    site.disk.process_killed();
    let store = reload(&site);
    assert_eq!(store.directory_of(&name(0)), Some(store.directories()[0].id()));
    let held = take(&store, 0);
    let future = store.future_of(&name(0)).unwrap();
    assert_eq!(future.lock().log_end_offset(), Offset(30));
    copy(&held.0.lock(), &future);
    let log = store.promote(&name(0), &mut held.0.lock(), &future).unwrap();
    assert_eq!(log.log_end_offset(), Offset(35));
}

#[test]
fn a_copy_alone_is_the_log_unless_a_directory_is_missing() {
    for missing in [false, true] {
        let site = Site::new(&["/m", A, B]);
        let store = site.open().unwrap();
        let b = store.directories()[2].id();
        store.load(&|_| small(), &|_, _| false, &|_| None).unwrap();
        let held = take(&store, 0);
        fill(&mut held.0.lock(), 9);
        let future =
            store.create_future(&name(0), &held.0.lock(), &store.directories()[2]).unwrap();
        copy(&held.0.lock(), &future);
        drop((held, future, store));
        site.disk.process_killed();
        site.disk.remove_dir_all(Path::new("/m/t-0")).unwrap();
        if missing {
            site.disk.break_with(Fault::stop(0).under(A));
        }
        let store = site.open().unwrap();
        store.load(&|_| small(), &|_, _| false, &|_| Some(b)).unwrap();
        let opened = store.open_log(&name(0), TOPIC, small(), ANYWHERE);
        match opened {
            Ok(log) => assert_eq!((missing, read_all(&log)), (false, values(0..9))),
            Err(error) => assert!(missing && matches!(error, LogError::Offline { .. }), "{error}"),
        }
    }
}

#[test]
fn copies_go_with_their_log_or_alone() {
    let site = Site::new(&[A, B]);
    let (store, _) = site.loaded();
    let (held, future) = copied(&store);
    store.drop_future(&name(0), &future);
    assert_eq!((ending(&site, B, "-future"), ending(&site, B, "-delete")), (0, 1));
    assert!(future.lock().check_online().is_err());
    assert_eq!(site.text("/b/recovery-point-offset-checkpoint"), "0\n0\n");
    let again = store.create_future(&name(0), &held.0.lock(), &store.directories()[1]).unwrap();
    store.delete(&[name(0)]).unwrap();
    assert!(again.lock().check_online().is_err());
    assert_eq!((ending(&site, B, "-delete"), ending(&site, A, "-delete")), (2, 1));
    assert_eq!(logs(&site, &name(0)), 0);
}

#[test]
fn two_logs_of_a_partition_that_the_metadata_place_elsewhere_stop_the_start() {
    let site = Site::new(&[A, B]);
    let (store, _) = site.loaded();
    drop((take(&store, 0), store));
    site.disk.create_dir_all(Path::new("/b/t-0")).unwrap();
    let store = site.open().unwrap();
    let loaded = store.load(&|_| small(), &|_, _| false, &|_| None);
    assert!(matches!(loaded, Err(StoreError::Duplicate(..))));
}
