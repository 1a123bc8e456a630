//! Memory for large frames, shared by all connections.
//!
//! Room that every connection may have ([`FREE_ROOM`](super::frame::FREE_ROOM)) is
//! not counted; what a frame takes beyond it is taken from the [`Budget`] as its
//! bytes arrive. The number of such frames has a limit, too. When either is used
//! up, connections with large frames wait, except one at a time: it may overdraw
//! until its request is done. So partly read frames can never wait for each other
//! for ever, and memory stays below the limit plus one frame. A connection that
//! stalls while others wait is closed (see `connection.rs`).

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::rooms::{Room, Rooms};

/// Bytes that frames of all connections may take together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    frames: usize,
    state: Mutex<State>,
    freed: Notify,
    rooms: Arc<Rooms>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Leases that hold something.
    frames: usize,
    waiting: usize,
    /// Some lease holds bytes beyond the limit.
    overdrawn: bool,
}

impl Budget {
    /// A budget of `limit` bytes in at most `frames` frames.
    pub fn new(limit: usize, frames: usize) -> Arc<Self> {
        let (state, freed, rooms) = Default::default();
        Arc::new(Self { limit, frames, state, freed, rooms })
    }

    /// A lease that holds nothing yet.
    pub fn lease(self: &Arc<Self>) -> Lease {
        Lease { budget: self.clone(), held: 0, overdraws: false }
    }

    /// Bytes taken now.
    pub fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Rooms that wait for their next frame.
    #[cfg(test)]
    pub fn rooms_kept(&self) -> usize {
        self.rooms.kept_now()
    }

    /// True while connections wait for others to give bytes back.
    pub fn is_short(&self) -> bool {
        let state = self.state.lock();
        state.overdrawn || state.waiting > 0
    }
}

/// One connection's share of the budget; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    budget: Arc<Budget>,
    held: usize,
    overdraws: bool,
}

impl Lease {
    /// Waits until this lease holds `bytes`; true when that took a wait.
    pub async fn grow_to(&mut self, bytes: usize) -> bool {
        let budget = self.budget.clone();
        let mut waiting = None;
        loop {
            let freed = budget.freed.notified();
            if self.try_grow_to(bytes) {
                return waiting.is_some();
            }
            waiting.get_or_insert_with(|| Waiting::enter(&budget));
            freed.await;
        }
    }

    fn try_grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.held);
        let mut state = self.budget.state.lock();
        let first = self.held == 0 && more > 0;
        let fits = state.used.saturating_add(more) <= self.budget.limit
            && !(first && state.frames >= self.budget.frames);
        if !fits && !self.overdraws {
            if state.overdrawn {
                return false;
            }
            state.overdrawn = true;
            self.overdraws = true;
        }
        state.used = state.used.saturating_add(more);
        state.frames += usize::from(first);
        self.held += more;
        true
    }

    /// True when the lease has at least `bytes`: its owner waits for no budget.
    pub fn holds(&self, bytes: usize) -> bool {
        self.held >= bytes
    }

    /// Where a frame of `size` bytes goes. If the lease is for less, the room takes
    /// memory as it is filled and the lease grows.
    pub fn room(&self, size: usize, is_paid: bool) -> io::Result<Room> {
        match is_paid {
            true => self.budget.rooms.take(size),
            false => self.budget.rooms.promised(size),
        }
    }

    /// Gives everything back.
    pub fn release(&mut self) {
        if self.held == 0 {
            return;
        }
        let mut state = self.budget.state.lock();
        state.used = state.used.saturating_sub(self.held);
        state.frames -= 1;
        if self.overdraws {
            state.overdrawn = false;
        }
        drop(state);
        self.held = 0;
        self.overdraws = false;
        self.budget.freed.notify_waiters();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.release();
    }
}

/// Counts a waiter for as long as it waits, also when its wait is given up.
struct Waiting<'a>(&'a Budget);

impl<'a> Waiting<'a> {
    fn enter(budget: &'a Budget) -> Self {
        budget.state.lock().waiting += 1;
        Self(budget)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(future: impl Future<Output = bool>) -> bool {
        let mut future = pin!(future);
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(false)
    }

    #[test]
    fn leases_add_up_and_are_given_back() {
        let budget = Budget::new(100, 10);
        let (mut one, mut two) = (budget.lease(), budget.lease());
        assert!(
            is_ready(one.grow_to(40)) && is_ready(one.grow_to(50)) && is_ready(two.grow_to(50))
        );
        assert_eq!(budget.used(), 100);
        assert!(!budget.is_short());
        one.release();
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn one_lease_at_a_time_overdraws_and_the_others_wait() {
        let budget = Budget::new(100, 10);
        let (mut one, mut two, mut three) = (budget.lease(), budget.lease(), budget.lease());
        assert!(is_ready(one.grow_to(90)) && is_ready(two.grow_to(90)));
        assert!(budget.is_short());
        assert!(is_ready(two.grow_to(500)), "who overdraws may finish");
        assert!(!is_ready(three.grow_to(20)));
        assert!(!is_ready(one.grow_to(120)));
        two.release();
        assert!(is_ready(one.grow_to(120)), "the next one overdraws");
        assert!(!is_ready(three.grow_to(1)));
        drop(one);
        assert!(is_ready(three.grow_to(1)));
        assert!(!budget.is_short());
    }

    #[test]
    fn the_number_of_large_frames_has_a_limit() {
        let budget = Budget::new(1000, 1);
        let (mut one, mut two, mut three) = (budget.lease(), budget.lease(), budget.lease());
        assert!(is_ready(one.grow_to(10)) && is_ready(one.grow_to(20)), "it is one frame");
        assert!(is_ready(two.grow_to(10)), "one at a time goes beyond");
        assert!(!is_ready(three.grow_to(10)));
        assert!(is_ready(three.grow_to(0)), "small frames are free");
        drop((one, two));
        assert!(is_ready(three.grow_to(10)));
    }

    #[tokio::test]
    async fn a_waiting_lease_wakes_when_bytes_come_back() {
        let budget = Budget::new(10, 10);
        let (mut one, mut two) = (budget.lease(), budget.lease());
        one.grow_to(20).await;
        let waiter = tokio::spawn(async move { two.grow_to(5).await });
        while !budget.is_short() || budget.state.lock().waiting == 0 {
            tokio::task::yield_now().await;
        }
        one.release();
        assert!(waiter.await.unwrap(), "it had to wait");
    }
}
