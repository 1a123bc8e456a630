//! How fast replicas are copied to other log directories, all of them together. `[P]`

use std::time::Duration;

/// What was copied faster than the limit allows: it has to be waited for.
#[derive(Debug, Default)]
pub struct MovePace {
    owed: f64,
    since: Duration,
}

impl MovePace {
    /// So many bytes were copied.
    pub fn copied(&mut self, bytes: usize) {
        self.owed += bytes as f64;
    }

    /// How long nothing more may be copied, at so many bytes a second. A limit of none
    /// at all is taken for one byte; without a limit nothing is owed.
    pub fn pause(&mut self, per_second: Option<i64>, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.since).as_secs_f64();
        self.since = now;
        let Some(per_second) = per_second else {
            self.owed = 0.0;
            return None;
        };
        let per_second = per_second.max(1) as f64;
        self.owed = (self.owed - passed * per_second).max(0.0);
        let pause = Duration::try_from_secs_f64(self.owed / per_second).unwrap_or(Duration::MAX);
        (!pause.is_zero()).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_copied_is_waited_for_and_a_rest_is_not_saved_up() {
        let mut pace = MovePace::default();
        assert_eq!(pace.pause(Some(100), at(10)), None);
        pace.copied(1000);
        assert_eq!(pace.pause(Some(100), at(10)), Some(at(10)));
        assert_eq!(pace.pause(Some(100), at(14)), Some(at(6)));
        // The rest of it at another rate.
        assert_eq!(pace.pause(Some(200), at(14)), Some(at(3)));
        assert_eq!(pace.pause(Some(200), at(60)), None);
        pace.copied(100);
        assert_eq!(pace.pause(Some(0), at(60)), Some(at(100)));
        assert_eq!(pace.pause(Some(i64::MAX), at(60)), None);
        assert_eq!(pace.pause(None, at(60)), None);
    }

    #[test]
    fn without_a_limit_nothing_is_owed_later() {
        let mut pace = MovePace::default();
        pace.copied(usize::MAX);
        assert_eq!(pace.pause(None, at(0)), None);
        assert_eq!(pace.pause(Some(1), at(0)), None);
    }
}
