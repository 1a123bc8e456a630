//! The one pattern of everything replicated: decide, append, replay, answer.
//!
//! A [`Machine`] judges a command and returns records and answers. The
//! [`Runtime`] appends the records to a [`Journal`], replays them into the
//! machine at once, and lets the answers out when the journal says that
//! everything up to there is committed. Loading after a start or a change of
//! leader is the same replay, so the state after a crash is by construction the
//! state before it. Cluster metadata, groups and transactions are three
//! machines on this one runtime.

mod journal;
mod machine;
mod runtime;

pub use self::journal::{Appended, Journal, RECORDS_PER_BATCH, Refusal};
pub use self::machine::{Decision, Machine, Now, Ticket};
pub use self::runtime::{Handle, Observer, Runtime};
