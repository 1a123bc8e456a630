//! Threads, and runtimes that live on one thread each.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How much a thread minds waiting for the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Requests wait for it.
    Normal,
    /// Nobody waits: flushing, cleaning, checkpoints.
    Background,
}

/// Kafka's processes have nice 0; background threads give way to them.
const BACKGROUND_NICENESS: i32 = 10;

/// Starts a thread.
pub fn spawn(
    name: &str,
    priority: Priority,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if priority == Priority::Background {
            // On Linux this is the calling thread's own niceness. Where it is not
            // allowed the work is done all the same.
            let _ = rustix::process::setpriority_process(None, BACKGROUND_NICENESS);
        }
        work();
    })
}

/// Threads with a single-threaded runtime each. What is put on one of them stays
/// there: waking another thread costs more than most requests.
#[derive(Debug)]
pub struct Runtimes {
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    handle: Handle,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// How long blocking work of a runtime may outlive it.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Threads beside each runtime for what waits for disks. What finds none free waits
/// for one; more would only have a disk seek between more places.
const BLOCKING: usize = 8;

impl Runtimes {
    /// Starts `count` threads, at least one, named `name-0` and so on.
    pub fn start(name: &str, count: usize) -> io::Result<Self> {
        let worker = |index| Worker::start(&format!("{name}-{index}"));
        let workers = (0..count.max(1)).map(worker).collect::<io::Result<_>>()?;
        Ok(Self { workers })
    }

    /// One for each processor that this process may use.
    pub fn one_per_core(name: &str) -> io::Result<Self> {
        Self::start(name, std::thread::available_parallelism().map_or(1, Into::into))
    }

    /// Where tasks can be put.
    pub fn handles(&self) -> Vec<Handle> {
        self.workers.iter().map(|worker| worker.handle.clone()).collect()
    }

    /// The first of them.
    pub fn first(&self) -> Handle {
        // There is at least one: `start` sees to it.
        self.workers[0].handle.clone()
    }

    /// Ends all tasks at their next await and joins the threads. Must not be
    /// called on one of them.
    pub fn stop(self) {
        let (stops, threads): (Vec<_>, Vec<_>) =
            self.workers.into_iter().map(|worker| (worker.stop, worker.thread)).unzip();
        drop(stops);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn start(name: &str) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(BLOCKING).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = spawn(name, Priority::Normal, move || {
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(LAST_WORDS);
        })?;
        Ok(Self { handle, stop, thread })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tasks_stay_on_their_thread_and_end_with_it() {
        let runtimes = Runtimes::start("test", 2).unwrap();
        let (sender, receiver) = mpsc::channel();
        for handle in runtimes.handles() {
            let sender = sender.clone();
            handle.spawn(async move {
                sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
                std::future::pending::<()>().await;
                drop(sender);
            });
        }
        drop(sender);
        let mut names: Vec<_> = receiver.iter().take(2).flatten().collect();
        names.sort();
        assert_eq!(names, ["test-0", "test-1"]);
        runtimes.stop();
        assert!(receiver.recv().is_err(), "the tasks were dropped");
    }
}
