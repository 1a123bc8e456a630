//! Runs a machine: one task owns the machine and the answers that wait.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tracing::warn;

use super::{Decision, Journal, Machine, Now, Refusal, Ticket};
use crate::sys::clock::{self, Clock};
use crate::types::Offset;

/// Commands that may wait for the machine; more make their senders wait.
const QUEUED_COMMANDS: usize = 1024;

/// Commands taken at once: all of them share one flush of the journal.
const COMMANDS_AT_ONCE: usize = 256;

/// The machine has ended: it lost the right to decide, or its journal failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state machine has stopped")]
pub struct Stopped;

/// Sends commands to a running machine. Cheap to clone.
#[derive(Debug)]
pub struct Handle<C, A> {
    commands: mpsc::Sender<(C, oneshot::Sender<A>)>,
}

impl<C, A> Clone for Handle<C, A> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone() }
    }
}

impl<C, A> Handle<C, A> {
    /// Submits a command; its answer, once what it rests on is committed.
    pub async fn submit(&self, command: C) -> Result<A, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands.send((command, reply)).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}

/// Watches a machine go on.
pub trait Observer<M>: Send {
    /// The machine has replayed everything before `next_offset`.
    fn replayed(&mut self, machine: &M, next_offset: Offset);
    /// Everything before `high_watermark` is committed.
    fn committed(&mut self, high_watermark: Offset);
}

/// A machine, its journal, and the answers that wait for commit.
#[derive(Debug)]
pub struct Runtime<M: Machine, J, O> {
    machine: M,
    journal: J,
    observer: O,
    clock: Arc<dyn Clock>,
    commands: mpsc::Receiver<(M::Command, oneshot::Sender<M::Answer>)>,
    committed: watch::Receiver<Offset>,
    last_ticket: u64,
    /// Commands not yet decided to the end.
    open: HashMap<Ticket, oneshot::Sender<M::Answer>>,
    /// Decided, in the order of the offsets that must be committed first.
    parked: VecDeque<Parked<M::Answer>>,
}

#[derive(Debug)]
struct Parked<A> {
    /// Everything before this must be committed.
    waits_for: Offset,
    reply: oneshot::Sender<A>,
    answer: A,
}

impl<M, J, O> Runtime<M, J, O>
where
    M: Machine,
    J: Journal<Record = M::Record>,
    O: Observer<M>,
{
    /// A runtime for a machine that has replayed all that the journal holds,
    /// and the handle to it.
    pub fn new(
        machine: M,
        journal: J,
        observer: O,
        clock: Arc<dyn Clock>,
    ) -> (Self, Handle<M::Command, M::Answer>) {
        let (sender, commands) = mpsc::channel(QUEUED_COMMANDS);
        let committed = journal.committed();
        let runtime = Self {
            machine,
            journal,
            observer,
            clock,
            commands,
            committed,
            last_ticket: 0,
            open: HashMap::new(),
            parked: VecDeque::new(),
        };
        (runtime, Handle { commands: sender })
    }

    /// Carries out what the machine wants done before any command: call it
    /// before [`Runtime::run`].
    pub fn begin(
        &mut self,
        decide: impl FnOnce(&mut M, Now) -> Decision<M::Record, M::Answer>,
    ) -> Result<(), RunError<M::Error, J::Error>> {
        self.observer.replayed(&self.machine, self.journal.next_offset());
        let now = self.now();
        let decision = decide(&mut self.machine, now);
        self.carry_out(decision)
    }

    /// Serves commands until every handle is gone or the journal fails. What
    /// waits for an answer then gets [`Stopped`].
    pub async fn run(mut self) -> Result<(), RunError<M::Error, J::Error>> {
        let mut batch = Vec::with_capacity(COMMANDS_AT_ONCE);
        self.observer.replayed(&self.machine, self.journal.next_offset());
        self.release();
        loop {
            let sleep = self.until_deadline();
            tokio::select! {
                biased;
                changed = self.committed.changed() => {
                    changed.map_err(|_| RunError::JournalClosed)?;
                    self.release();
                }
                taken = self.commands.recv_many(&mut batch, COMMANDS_AT_ONCE) => {
                    if taken == 0 {
                        return Ok(());
                    }
                    for (command, reply) in batch.drain(..) {
                        self.decide(command, reply)?;
                    }
                }
                () = sleep => {
                    let decision = self.machine.expire(self.now());
                    self.carry_out(decision)?;
                }
            }
        }
    }

    /// Ends when the machine's next deadline has come; never without one.
    fn until_deadline(&self) -> impl Future<Output = ()> + use<M, J, O> {
        let wait = self.machine.deadline().map(|at| at.saturating_sub(self.clock.monotonic()));
        async move {
            match wait {
                Some(Duration::ZERO) => {}
                Some(wait) => clock::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            wall: self.clock.wall(),
            monotonic: self.clock.monotonic(),
            next_offset: self.journal.next_offset(),
        }
    }

    fn decide(
        &mut self,
        command: M::Command,
        reply: oneshot::Sender<M::Answer>,
    ) -> Result<(), RunError<M::Error, J::Error>> {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.open.insert(ticket, reply);
        let decision = self.machine.decide(self.now(), ticket, command);
        self.carry_out(decision)
    }

    fn carry_out(
        &mut self,
        decision: Decision<M::Record, M::Answer>,
    ) -> Result<(), RunError<M::Error, J::Error>> {
        let mut rest = decision.records.as_slice();
        while !rest.is_empty() {
            let at_once = if decision.atomic { rest.len() } else { self.journal.at_once(rest) };
            let (records, later) = rest.split_at(at_once.clamp(1, rest.len()));
            let appended = match self.journal.append(records) {
                Ok(appended) => appended,
                Err(error) => match self.journal.refusal(&error) {
                    Some(refusal) => return self.refused(decision, refusal, &error),
                    None => return Err(RunError::Journal(error)),
                },
            };
            for (count, record) in (0..).zip(records) {
                let offset = appended.first_offset + count;
                self.machine.replay(offset, record).map_err(RunError::Replay)?;
            }
            self.observer.replayed(&self.machine, self.journal.next_offset());
            rest = later;
        }
        self.answer(decision.answers);
        Ok(())
    }

    /// Does what the machine wants instead of a decision that was refused.
    fn refused(
        &mut self,
        decision: Decision<M::Record, M::Answer>,
        refusal: Refusal,
        error: &J::Error,
    ) -> Result<(), RunError<M::Error, J::Error>> {
        warn!("Records of a state machine cannot be appended: {error}");
        let tickets: Vec<Ticket> = decision.answers.iter().map(|(ticket, _)| *ticket).collect();
        let now = self.now();
        let instead = self.machine.refused(now, decision, refusal);
        for ticket in tickets {
            if !instead.answers.iter().any(|(answered, _)| *answered == ticket) {
                self.open.remove(&ticket);
            }
        }
        self.carry_out(instead)
    }

    fn answer(&mut self, answers: Vec<(Ticket, M::Answer)>) {
        let waits_for = self.journal.next_offset();
        for (ticket, answer) in answers {
            if let Some(reply) = self.open.remove(&ticket) {
                self.parked.push_back(Parked { waits_for, reply, answer });
            }
        }
        self.release();
    }

    /// Lets out what rests on nothing but committed records.
    fn release(&mut self) {
        let high_watermark = *self.committed.borrow_and_update();
        self.observer.committed(high_watermark);
        while self.parked.front().is_some_and(|parked| parked.waits_for <= high_watermark) {
            let Some(parked) = self.parked.pop_front() else { return };
            // Whoever asked may have gone; then nobody misses the answer.
            let _ = parked.reply.send(parked.answer);
        }
    }
}

/// Why a machine's runtime ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError<M: std::error::Error, J: std::error::Error> {
    /// The journal refused an append.
    #[error("cannot append: {0}")]
    Journal(J),
    /// The journal can commit nothing more.
    #[error("the journal has closed")]
    JournalClosed,
    /// A record that the machine itself decided does not fit its state.
    #[error("cannot replay: {0}")]
    Replay(M),
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::replicated::Appended;
    use crate::sys::clock::ManualClock;
    use crate::types::Timestamp;

    /// Adds numbers up; answers with the sum it will have.
    #[derive(Default)]
    struct Adder {
        sum: i64,
        due: Option<Duration>,
    }

    impl Machine for Adder {
        type Command = Vec<i64>;
        type Record = i64;
        type Answer = i64;
        type Error = Infallible;

        fn decide(&mut self, _: Now, ticket: Ticket, add: Vec<i64>) -> Decision<i64, i64> {
            let sum = self.sum + add.iter().sum::<i64>();
            Decision::atomic(add, ticket, sum)
        }

        fn replay(&mut self, _: Offset, record: &i64) -> Result<(), Infallible> {
            self.sum += record;
            Ok(())
        }

        fn deadline(&self) -> Option<Duration> {
            self.due
        }

        fn expire(&mut self, _: Now) -> Decision<i64, i64> {
            self.due = None;
            Decision { records: vec![1000], ..Decision::nothing() }
        }
    }

    struct Memory {
        end: Offset,
        committed: watch::Receiver<Offset>,
    }

    impl Journal for Memory {
        type Record = i64;
        type Error = Infallible;

        fn append(&mut self, records: &[i64]) -> Result<Appended, Infallible> {
            let first_offset = self.end;
            self.end += i64::try_from(records.len()).unwrap();
            Ok(Appended { first_offset, last_offset: self.end + -1 })
        }

        fn next_offset(&self) -> Offset {
            self.end
        }

        fn committed(&self) -> watch::Receiver<Offset> {
            self.committed.clone()
        }
    }

    /// Tells what the machine's sum was at each offset.
    struct Sums(mpsc::UnboundedSender<(Offset, i64)>);

    impl Observer<Adder> for Sums {
        fn replayed(&mut self, machine: &Adder, next_offset: Offset) {
            self.0.send((next_offset, machine.sum)).unwrap();
        }
        fn committed(&mut self, _: Offset) {}
    }

    struct Rig {
        handle: Handle<Vec<i64>, i64>,
        committed: watch::Sender<Offset>,
        sums: mpsc::UnboundedReceiver<(Offset, i64)>,
    }

    fn start(machine: Adder) -> Rig {
        let (committed, receiver) = watch::channel(Offset::ZERO);
        let journal = Memory { end: Offset::ZERO, committed: receiver };
        let (sender, sums) = mpsc::unbounded_channel();
        let clock = ManualClock::starting_at(Timestamp(0));
        let (runtime, handle) = Runtime::new(machine, journal, Sums(sender), clock);
        tokio::spawn(runtime.run());
        Rig { handle, committed, sums }
    }

    #[tokio::test]
    async fn an_answer_waits_until_its_records_are_committed() {
        let mut rig = start(Adder::default());
        assert_eq!(rig.sums.recv().await, Some((Offset(0), 0)));
        let answer = tokio::spawn({
            let handle = rig.handle.clone();
            async move { handle.submit(vec![2, 3]).await }
        });
        assert_eq!(rig.sums.recv().await, Some((Offset(2), 5)));
        rig.committed.send_replace(Offset(1));
        tokio::task::yield_now().await;
        assert!(!answer.is_finished());
        rig.committed.send_replace(Offset(2));
        assert_eq!(answer.await.unwrap(), Ok(5));
    }

    #[tokio::test]
    async fn an_answer_without_records_waits_for_what_it_rests_on() {
        let mut rig = start(Adder::default());
        let first = tokio::spawn({
            let handle = rig.handle.clone();
            async move { handle.submit(vec![1]).await }
        });
        while rig.sums.recv().await != Some((Offset(1), 1)) {}
        let second = tokio::spawn({
            let handle = rig.handle.clone();
            async move { handle.submit(vec![]).await }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        rig.committed.send_replace(Offset(1));
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(1), Ok(1)));
    }

    #[tokio::test]
    async fn what_is_due_is_done() {
        let mut rig = start(Adder { due: Some(Duration::ZERO), ..Adder::default() });
        while rig.sums.recv().await != Some((Offset(1), 1000)) {}
    }

    #[tokio::test]
    async fn who_waits_is_told_when_the_journal_closes() {
        let mut rig = start(Adder::default());
        let answer = tokio::spawn({
            let handle = rig.handle.clone();
            async move { handle.submit(vec![1]).await }
        });
        while rig.sums.recv().await != Some((Offset(1), 1)) {}
        drop(rig.committed);
        assert_eq!(answer.await.unwrap(), Err(Stopped));
    }
}
