//! Work that nobody waits for, on a thread that gives way to all others.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::sys::clock::Clock;
use crate::sys::thread::{Priority, spawn};

/// Something to be done again and again.
pub struct Job {
    /// First after this time, then this time after each end.
    pub every: Duration,
    /// The work.
    pub work: Box<dyn FnMut() + Send>,
}

impl Job {
    /// Does `work` at intervals of `every`.
    pub fn new(every: Duration, work: impl FnMut() + Send + 'static) -> Self {
        Self { every, work: Box::new(work) }
    }
}

/// The thread that does the jobs.
#[derive(Debug)]
pub struct Background {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts to do `jobs`, one after another.
    pub fn start(jobs: Vec<Job>, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = spawn("background", Priority::Background, move || {
            work_off(jobs, &*clock, &stopped);
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends after the job that is being done.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

fn work_off(jobs: Vec<Job>, clock: &dyn Clock, stopped: &mpsc::Receiver<()>) {
    let began = clock.monotonic();
    let mut due: Vec<(Duration, Job)> =
        jobs.into_iter().map(|job| (began.saturating_add(job.every), job)).collect();
    while let Some((at, job)) = due.iter_mut().min_by_key(|(at, _)| *at) {
        let pause = at.saturating_sub(clock.monotonic());
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        (job.work)();
        *at = clock.monotonic().saturating_add(job.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::SystemClock;

    #[test]
    fn jobs_are_done_at_their_intervals_until_stopped() {
        let (sender, done) = mpsc::channel();
        let job = |name, millis| {
            let sender = sender.clone();
            let work = move || {
                let _ = sender.send(name);
            };
            Job::new(Duration::from_millis(millis), work)
        };
        let jobs = vec![job("often", 1), job("seldom", 1_000_000)];
        let background = Background::start(jobs, SystemClock::shared()).unwrap();
        drop(sender);
        for _ in 0..3 {
            assert_eq!(done.recv(), Ok("often"));
        }
        background.stop();
        assert!(done.iter().all(|name| name == "often"));
    }
}
