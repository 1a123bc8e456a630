//! The loop: which request goes out when, and what its answer is counted as.

use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;

use crate::connection::Connection;

/// How much, how fast, how long.
#[derive(Args, Clone, Debug)]
pub struct Pace {
    /// Requests in a second over all connections; 0: as fast as they are answered.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// How long requests are sent.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Answers of this time at the beginning are not counted.
    #[arg(long, default_value_t = 1.0)]
    pub warm_up: f64,
    /// Connections.
    #[arg(long, default_value_t = 1)]
    pub connections: usize,
    /// Requests under way on each connection.
    #[arg(long, default_value_t = 1)]
    pub depth: usize,
}

/// What was counted.
pub struct Counted {
    /// From the time that a request was due to its answer, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Seconds that were counted.
    pub seconds: f64,
}

/// Nanoseconds since a beginning.
pub struct Clock(Instant);

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since then.
    pub fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Due times: the n-th is n / rate.
pub struct Schedule {
    interval: f64,
    issued: u64,
}

impl Schedule {
    /// `rate` in a second.
    pub fn new(rate: f64) -> Self {
        Self { interval: 1e9 / rate, issued: 0 }
    }

    /// The next due time, if it has come.
    pub fn due(&mut self, now: u64) -> Option<u64> {
        let due = (self.issued as f64 * self.interval) as u64;
        (due <= now).then(|| {
            self.issued += 1;
            due
        })
    }
}

/// Runs the load; `judge` looks at each answer.
pub fn run(
    pace: &Pace,
    connections: &mut [Connection],
    mut request: impl FnMut(usize) -> Vec<u8>,
    judge: impl Fn(&[u8]) -> Result<(), String>,
) -> Result<Counted, String> {
    let frames: Vec<_> = (0..connections.len()).map(&mut request).collect();
    let clock = Clock::start();
    let mut schedule = (pace.rate > 0.0).then(|| Schedule::new(pace.rate));
    let warm = Duration::from_secs_f64(pace.warm_up).as_nanos() as u64;
    let end = warm + Duration::from_secs_f64(pace.seconds).as_nanos() as u64;
    let mut latency = crate::histogram();
    let mut waiting = std::collections::VecDeque::new();
    let mut turn = 0;
    loop {
        let now = clock.now();
        let sending = now < end;
        if let Some(schedule) = schedule.as_mut().filter(|_| sending) {
            waiting.extend(std::iter::from_fn(|| schedule.due(now)));
        }
        let mut under_way = 0;
        for offset in 0..connections.len() {
            let index = (turn + offset) % connections.len();
            let connection = &mut connections[index];
            while let Some((frame, due)) = connection.receive()? {
                judge(&frame)?;
                if due >= warm {
                    latency.saturating_record(clock.now().saturating_sub(due));
                }
            }
            while connection.under_way.len() < pace.depth {
                let due = match schedule {
                    Some(_) => waiting.pop_front(),
                    None => sending.then(|| clock.now()),
                };
                let Some(due) = due else { break };
                connection.push(&frames[index], due);
            }
            connection.send()?;
            under_way += connection.under_way.len();
        }
        turn = (turn + 1) % connections.len().max(1);
        if !sending && under_way == 0 && waiting.is_empty() {
            break;
        }
        if now > end + Duration::from_secs(60).as_nanos() as u64 {
            return Err(format!(
                "{} requests are not answered a minute after the end",
                under_way + waiting.len()
            ));
        }
    }
    let seconds = (clock.now() - warm) as f64 / 1e9;
    Ok(Counted { latency, seconds })
}
