//! Time: what o'clock it is, and waiting until later.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::types::Timestamp;

/// Tells the time. Shared by everything that stamps or expires.
pub trait Clock: Send + Sync + Debug + 'static {
    /// Wall clock, for what is stamped on records and files.
    fn wall(&self) -> Timestamp;

    /// Time since an arbitrary start, never going backwards: for deadlines.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// The machine's clock; its monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the door to the machine's clock")]
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self { start: std::time::Instant::now() })
    }
}

/// The machine's wall clock, for what has no [`Clock`] at hand: lines of the log.
#[expect(clippy::disallowed_methods, reason = "this is the door to the machine's clock")]
pub fn wall_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        wall_now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<(Timestamp, Duration)>,
}

impl ManualClock {
    /// A clock that shows `wall` and monotonic zero.
    pub fn starting_at(wall: Timestamp) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new((wall, Duration::ZERO)) })
    }

    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock();
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        *now = (Timestamp(now.0.0.saturating_add(millis)), now.1 + by);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.now.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.now.lock().1
    }
}

/// Waits for `duration` on the runtime's timer.
#[expect(clippy::disallowed_methods, reason = "this is the door to the runtime's timer")]
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits for `future`, at most for `duration`; `None` when time ran out first.
#[expect(clippy::disallowed_methods, reason = "this is the door to the runtime's timer")]
pub async fn within<F: Future>(duration: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(duration, future).await.ok()
}
