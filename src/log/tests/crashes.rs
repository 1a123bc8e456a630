//! A crash at every operation that changes the disk, in every kind of write.
//!
//! What was not synced when the power failed may be missing in the middle, too:
//! a segment that was rolled a moment ago may have lost its end where the next
//! one has all its bytes. Compaction leaves such gaps as well, so nobody can
//! tell them apart, and like Kafka we keep what is there.

use super::*;
use crate::sys::memory_disk::Fault;
use crate::sys::random::Random;

/// What a run has been promised by the log.
#[derive(Debug, Default)]
struct Promised {
    /// Records that were acknowledged, by offset.
    acknowledged: Vec<(i64, String)>,
    /// Below this offset everything was synced.
    synced: i64,
    /// First offset that was asked to stay.
    log_start: i64,
}

impl Promised {
    fn append(&mut self, log: &mut Log, epoch: i32, sequence: &mut i32) -> Result<(), ()> {
        let end = log.log_end_offset();
        // Also differs between two records that had the same offset by turns.
        let value = format!("value {end} in {epoch}");
        let records = produced(5, 0, *sequence, &[&value]);
        let info = append_in(log, records, LeaderEpoch(epoch)).map_err(drop)?;
        assert_eq!(info.first_offset, end);
        *sequence += 1;
        self.acknowledged.push((end.0, value));
        Ok(())
    }
}

/// All that changes files, one after another, until something fails.
fn work(bench: &Bench, promised: &mut Promised) -> Result<(), ()> {
    let (mut log, _) = bench.open_with(bench.options()).map_err(drop)?;
    let mut sequence = 0;
    for at in 0..22 {
        promised.append(&mut log, at / 9, &mut sequence)?;
        if at % 8 == 5 {
            let up_to = log.log_end_offset();
            log.flush(up_to).map_err(drop)?;
            promised.synced = up_to.0;
            bench.checkpoint.write();
        }
    }
    // From here on what is behind the cut is promised to nobody.
    promised.acknowledged.truncate(17);
    promised.synced = promised.synced.min(17);
    log.truncate_to(Offset(17)).map_err(drop)?;
    sequence = 17;
    for _ in 0..8 {
        promised.append(&mut log, 4, &mut sequence)?;
    }
    log.delete_records_before(Offset(9)).map_err(drop)?;
    promised.log_start = 9;
    log.run_retention(log.log_end_offset()).map_err(drop)?;
    bench.clock.advance(std::time::Duration::from_secs(61));
    log.remove_doomed().map_err(drop)?;
    for _ in 0..3 {
        promised.append(&mut log, 4, &mut sequence)?;
    }
    log.close_clean().map_err(drop)?;
    promised.synced = log.log_end_offset().0;
    bench.checkpoint.write();
    Ok(())
}

fn bench() -> Bench {
    Bench::new(LogConfig { segment_bytes: 600, index_interval_bytes: 100, ..LogConfig::default() })
}

/// Runs until the disk stops at operation `point`; `None` when it never does.
fn crashed_at(point: u64) -> Option<(Bench, Promised)> {
    assert!(point < 2000, "the work fails without any crash");
    let bench = bench();
    let mut promised = Promised::default();
    bench.disk.break_with(Fault::stop(point));
    let done = work(&bench, &mut promised).is_ok();
    (!done).then_some((bench, promised))
}

/// Reopens, checks what was promised below `safe`, goes on, and reopens again.
fn check(bench: &Bench, promised: &Promised, safe: i64, what: &str) {
    let (mut log, _) = bench.open_with(bench.options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let end = log.log_end_offset().0;
    assert!(end >= safe, "{what}: ends at {end}, {safe} was promised");
    let from = log.log_start_offset().0.max(promised.log_start);
    let found = read_from(&log, Offset(from.min(end)));
    let expected = promised.acknowledged.iter().filter(|(at, _)| (from..safe).contains(at));
    for (record, wanted) in found.iter().zip(expected) {
        assert_eq!(record, wanted, "{what}");
    }
    assert!(found.is_sorted_by(|(a, _), (b, _)| a < b), "{what}");
    assert!(found.iter().take_while(|(at, _)| *at < safe).count() as i64 == (safe - from).max(0));
    append_in(&mut log, batch(&["afterwards"]), LeaderEpoch(9)).unwrap();
    log.close_clean().unwrap();
    let all = read_from_closed(bench);
    assert_eq!(all.last(), Some(&(end, "afterwards".to_owned())), "{what}");
}

fn read_from_closed(bench: &Bench) -> Vec<(i64, String)> {
    let (log, _) = bench.open_clean();
    read_all(&log)
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let mut point = 0;
    while let Some((bench, promised)) = crashed_at(point) {
        bench.disk.process_killed();
        let safe = promised.acknowledged.len() as i64;
        check(&bench, &promised, safe, &format!("killed at {point}"));
        point += 1;
    }
    assert!(point > 100, "{point} crash points");
}

#[test]
fn a_power_loss_loses_nothing_that_was_synced() {
    for seed in 0..3 {
        let mut point = 0;
        while let Some((bench, promised)) = crashed_at(point) {
            bench.disk.power_lost(&Random::from_seed(seed * 1000 + point));
            check(
                &bench,
                &promised,
                promised.synced,
                &format!("power lost at {point}, seed {seed}"),
            );
            point += 1;
        }
    }
}

#[test]
fn a_crash_while_recovering_is_no_worse_than_the_first() {
    for point in (0..100).step_by(7) {
        for second in 0..9 {
            let Some((bench, promised)) = crashed_at(point) else { return };
            bench.disk.process_killed();
            bench.disk.break_with(Fault::stop(second));
            drop(bench.open_with(bench.options()));
            bench.disk.process_killed();
            let safe = promised.acknowledged.len() as i64;
            check(&bench, &promised, safe, &format!("killed at {point}, again at {second}"));
        }
    }
}

#[test]
fn producers_survive_every_kill() {
    let mut point = 0;
    while let Some((bench, promised)) = crashed_at(point) {
        bench.disk.process_killed();
        let (mut log, _) = bench.open();
        let next = promised.acknowledged.len() as i32;
        if next > 0 && log.log_end_offset().0 == i64::from(next) {
            let (_, last) = promised.acknowledged.last().unwrap();
            let again = append_in(&mut log, produced(5, 0, next - 1, &[last]), LeaderEpoch(9));
            assert!(again.unwrap().duplicate, "killed at {point}");
            append_in(&mut log, produced(5, 0, next, &["next"]), LeaderEpoch(9)).unwrap();
        }
        point += 1;
    }
}
