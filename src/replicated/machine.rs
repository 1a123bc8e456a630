//! What a replicated state machine is. `[P]`

use std::time::Duration;

use super::Refusal;
use crate::types::{Offset, Timestamp};

/// State that is a fold over a log. Does no I/O and reads no clock.
pub trait Machine {
    /// What is asked of it.
    type Command;
    /// A fact, as the log keeps it.
    type Record;
    /// What a command is answered with.
    type Answer;
    /// Why a record does not fit the state: the log and the state have parted,
    /// and the process must not go on with either.
    type Error: std::error::Error;

    /// Judges a command. May change soft state (parked tickets, deadlines);
    /// changes nothing that `replay` changes.
    fn decide(
        &mut self,
        now: Now,
        ticket: Ticket,
        command: Self::Command,
    ) -> Decision<Self::Record, Self::Answer>;

    /// Folds the record at `offset` into the state: after an append, on load,
    /// on every replica alike.
    fn replay(&mut self, offset: Offset, record: &Self::Record) -> Result<(), Self::Error>;

    /// The next moment (on the monotonic clock) when `expire` has work to do.
    fn deadline(&self) -> Option<Duration>;

    /// Does what is due by now.
    fn expire(&mut self, now: Now) -> Decision<Self::Record, Self::Answer>;

    /// The journal has refused a decision and goes on: sets right what was changed
    /// with it, and says what is to be done instead. Senders whose commands are not
    /// answered are told that the machine has stopped.
    fn refused(
        &mut self,
        _now: Now,
        _decision: Decision<Self::Record, Self::Answer>,
        _refusal: Refusal,
    ) -> Decision<Self::Record, Self::Answer> {
        Decision::nothing()
    }
}

/// The circumstances of a decision, which the machine cannot find out itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall clock.
    pub wall: Timestamp,
    /// Monotonic clock, for deadlines.
    pub monotonic: Duration,
    /// Where the first record of this decision will stand.
    pub next_offset: Offset,
}

/// Names a command that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What a machine wants done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<R, A> {
    /// To be appended in this order.
    pub records: Vec<R>,
    /// All records or none: they go into one batch.
    pub atomic: bool,
    /// To be given out once the records, and all before them, are committed.
    pub answers: Vec<(Ticket, A)>,
}

impl<R, A> Decision<R, A> {
    /// Nothing to write, nobody to answer.
    pub fn nothing() -> Self {
        Self { records: Vec::new(), atomic: true, answers: Vec::new() }
    }

    /// An answer that changes nothing.
    pub fn answer(ticket: Ticket, answer: A) -> Self {
        Self { records: Vec::new(), atomic: true, answers: vec![(ticket, answer)] }
    }

    /// Records that stand or fall together, and the answer to their command.
    pub fn atomic(records: Vec<R>, ticket: Ticket, answer: A) -> Self {
        Self { records, atomic: true, answers: vec![(ticket, answer)] }
    }
}
