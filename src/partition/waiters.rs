//! Waking those who wait for an offset to move. Where Kafka keeps delayed
//! operations in a purgatory, here each is a future that awaits its turn.
//!
//! Two kinds wait. A producer or DeleteRecords waits for one offset to be
//! reached ([`OffsetWaiters`]). A fetch waits until enough bytes have become
//! readable over all its partitions ([`FetchWaiter`]): each partition that moves
//! puts its slot on the fetch's dirty list once and adds the bytes to a counter,
//! and only when the counter reaches what the fetch needs is its task woken. So
//! an idle fetch over a thousand partitions costs nothing, and a busy one looks
//! only at those partitions that moved.
//!
//! All of this is called under a partition's lock; the waiter's own lock is
//! always the inner one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::types::Offset;

/// Which offset bounds what a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Followers: everything in the log.
    LogEnd,
    /// READ_UNCOMMITTED: what is replicated.
    HighWatermark,
    /// READ_COMMITTED: what is replicated and whose transactions are decided.
    LastStable,
}

/// One fetch (or fetch session) that watches many partitions, each under a slot
/// number of the fetch's own choice.
#[derive(Debug, Default)]
pub struct FetchWaiter {
    moved: Mutex<Moved>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Moved {
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    bytes: u64,
    needed: Option<u64>,
    interrupted: bool,
}

impl FetchWaiter {
    /// Says that something a reader may want to know changed in `slot`, and
    /// that `bytes` more can be read there.
    pub fn touch(&self, slot: u32, bytes: u64) {
        let mut moved = self.moved.lock();
        moved.mark(slot);
        moved.bytes = moved.bytes.saturating_add(bytes);
        if moved.is_enough() {
            moved.needed = None;
            drop(moved);
            self.wake.notify_one();
        }
    }

    /// Says that `slot` can no longer be read as before (leadership moved, the
    /// topic is gone): the fetch answers at once.
    pub fn interrupt(&self, slot: u32) {
        let mut moved = self.moved.lock();
        moved.mark(slot);
        moved.interrupted = true;
        let waiting = moved.needed.take().is_some();
        drop(moved);
        if waiting {
            self.wake.notify_one();
        }
    }

    /// Takes the slots that changed since the last call and starts counting
    /// bytes from zero. To be called before those partitions are read.
    pub fn take_dirty(&self) -> Vec<u32> {
        let mut moved = self.moved.lock();
        moved.bytes = 0;
        moved.interrupted = false;
        let dirty = std::mem::take(&mut moved.dirty);
        for &slot in &dirty {
            moved.is_dirty[slot as usize] = false;
        }
        dirty
    }

    /// Waits until `needed` bytes were counted since [`Self::take_dirty`], or
    /// an interruption. Dropping the future disarms nothing that matters: a
    /// wake-up that nobody awaits is used up by the next wait.
    pub async fn enough(&self, needed: u64) {
        loop {
            {
                let mut moved = self.moved.lock();
                moved.needed = Some(needed);
                if moved.is_enough() {
                    moved.needed = None;
                    return;
                }
            }
            self.wake.notified().await;
        }
    }
}

impl Moved {
    fn mark(&mut self, slot: u32) {
        let index = slot as usize;
        if self.is_dirty.len() <= index {
            self.is_dirty.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_dirty[index], true) {
            self.dirty.push(slot);
        }
    }

    fn is_enough(&self) -> bool {
        self.needed.is_some_and(|needed| self.interrupted || self.bytes >= needed)
    }
}

/// The fetches that watch one partition.
#[derive(Debug, Default)]
pub struct Watchers {
    watching: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    waiter: Arc<FetchWaiter>,
    slot: u32,
    isolation: Isolation,
}

/// By how many bytes what readers see grew, per isolation; `None` where
/// nothing changed that a reader of that isolation is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// For followers.
    pub log_end: Option<u64>,
    /// For READ_UNCOMMITTED.
    pub high_watermark: Option<u64>,
    /// For READ_COMMITTED.
    pub last_stable: Option<u64>,
}

impl Watchers {
    /// Lets `waiter` know of this partition's moves under `slot`.
    pub fn add(&mut self, waiter: Arc<FetchWaiter>, slot: u32, isolation: Isolation) {
        self.watching.push(Watcher { waiter, slot, isolation });
    }

    /// Ends what [`Self::add`] began.
    pub fn remove(&mut self, waiter: &Arc<FetchWaiter>, slot: u32) {
        let found = self
            .watching
            .iter()
            .position(|watcher| watcher.slot == slot && Arc::ptr_eq(&watcher.waiter, waiter));
        if let Some(index) = found {
            self.watching.swap_remove(index);
        }
    }

    /// Tells each watcher what changed for it.
    pub fn grew(&self, growth: Growth) {
        for watcher in &self.watching {
            let bytes = match watcher.isolation {
                Isolation::LogEnd => growth.log_end,
                Isolation::HighWatermark => growth.high_watermark,
                Isolation::LastStable => growth.last_stable,
            };
            if let Some(bytes) = bytes {
                watcher.waiter.touch(watcher.slot, bytes);
            }
        }
    }

    /// Tells all that they must look again.
    pub fn interrupt(&self) {
        for watcher in &self.watching {
            watcher.waiter.interrupt(watcher.slot);
        }
    }

    /// True when nobody watches.
    pub fn is_empty(&self) -> bool {
        self.watching.is_empty()
    }
}

/// Those who wait for one offset to be reached, in the order of their offsets.
#[derive(Debug, Default)]
pub struct OffsetWaiters {
    waiting: VecDeque<(Offset, oneshot::Sender<()>)>,
}

impl OffsetWaiters {
    /// Waits for `offset`; the receiver fails when the wait became pointless.
    pub fn add(&mut self, offset: Offset) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        // Appends come in order, so nearly always this is the end.
        let at = self.waiting.partition_point(|(other, _)| *other <= offset);
        self.waiting.insert(at, (offset, sender));
        receiver
    }

    /// Wakes all who wait for `reached` or less.
    pub fn reached(&mut self, reached: Offset) {
        while self.waiting.front().is_some_and(|(offset, _)| *offset <= reached) {
            if let Some((_, sender)) = self.waiting.pop_front() {
                // Whoever ran out of time has dropped the other end.
                let _ = sender.send(());
            }
        }
    }

    /// Lets all go empty-handed.
    pub fn fail(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    #[test]
    fn a_fetch_wakes_when_its_partitions_together_have_enough() {
        let waiter = Arc::new(FetchWaiter::default());
        let mut enough = pin!(waiter.enough(100));
        assert!(!is_ready(enough.as_mut()));
        waiter.touch(3, 60);
        waiter.touch(3, 30);
        assert!(!is_ready(enough.as_mut()));
        waiter.touch(900, 10);
        assert!(is_ready(enough.as_mut()));
        assert_eq!(waiter.take_dirty(), [3, 900]);
        assert!(waiter.take_dirty().is_empty());
    }

    #[test]
    fn bytes_that_came_before_the_wait_count() {
        let waiter = FetchWaiter::default();
        waiter.touch(0, 5);
        assert!(is_ready(pin!(waiter.enough(5))));
        assert_eq!(waiter.take_dirty(), [0]);
        assert!(!is_ready(pin!(waiter.enough(1))), "counted from zero again");
    }

    #[test]
    fn a_change_without_bytes_marks_but_does_not_wake() {
        let waiter = FetchWaiter::default();
        let mut enough = pin!(waiter.enough(1));
        assert!(!is_ready(enough.as_mut()));
        waiter.touch(7, 0);
        assert!(!is_ready(enough.as_mut()));
        waiter.interrupt(8);
        assert!(is_ready(enough.as_mut()));
        assert_eq!(waiter.take_dirty(), [7, 8]);
    }

    #[test]
    fn a_wake_up_left_from_an_abandoned_wait_is_harmless() {
        let waiter = FetchWaiter::default();
        {
            let mut abandoned = pin!(waiter.enough(1));
            assert!(!is_ready(abandoned.as_mut()));
            waiter.touch(1, 1);
        }
        waiter.take_dirty();
        assert!(!is_ready(pin!(waiter.enough(1))));
    }

    #[test]
    fn watchers_hear_of_what_their_isolation_shows() {
        let (follower, consumer) = (Arc::<FetchWaiter>::default(), Arc::<FetchWaiter>::default());
        let mut watchers = Watchers::default();
        watchers.add(follower.clone(), 0, Isolation::LogEnd);
        watchers.add(consumer.clone(), 1, Isolation::HighWatermark);
        watchers.grew(Growth { log_end: Some(9), ..Growth::default() });
        assert_eq!(follower.take_dirty(), [0]);
        assert!(consumer.take_dirty().is_empty());
        watchers.remove(&follower, 0);
        watchers.grew(Growth { log_end: Some(9), high_watermark: Some(9), last_stable: None });
        assert!(follower.take_dirty().is_empty());
        assert_eq!(consumer.take_dirty(), [1]);
    }

    #[test]
    fn offsets_wake_in_order_and_fail_together() {
        let mut waiters = OffsetWaiters::default();
        let mut late = waiters.add(Offset(20));
        let mut early = waiters.add(Offset(10));
        waiters.reached(Offset(9));
        assert_eq!(early.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        waiters.reached(Offset(10));
        assert_eq!(early.try_recv(), Ok(()));
        assert_eq!(late.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        waiters.fail();
        assert_eq!(late.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
