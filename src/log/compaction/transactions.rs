//! Transactions as the cleaner meets them, from the first batch of a log on. `[P]`
//!
//! Records of aborted transactions go; a marker goes once nothing of its
//! transaction is left (and its delete horizon has passed: see `filter.rs`).

use std::collections::{HashMap, HashSet};

use crate::log::batch::BatchHeader;
use crate::log::control::ControlType;
use crate::log::txn_index::AbortedTransaction;
use crate::types::ProducerId;

/// Where the cleaner stands among the transactions of a log.
#[derive(Debug, Default)]
pub struct CleanedTransactions {
    /// Those that begin later, the next one last.
    coming: Vec<AbortedTransaction>,
    /// Those that have begun, and whether a batch of theirs was seen.
    aborted: HashMap<ProducerId, (AbortedTransaction, bool)>,
    /// Producers with batches whose marker has not come and will be a commit.
    committed: HashSet<ProducerId>,
}

/// What a marker means for those who clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerFate {
    /// Nothing of its transaction is left.
    pub is_last_trace: bool,
    /// The transaction whose abort it says, if that still matters: its entry
    /// belongs into the index of the segment that holds the marker.
    pub aborts: Option<AbortedTransaction>,
}

impl CleanedTransactions {
    /// Before the first batch; `aborted` are those of the log, in any order.
    pub fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self { coming: aborted, ..Self::default() }
    }

    /// A batch of records; true when they were aborted.
    pub fn on_records(&mut self, header: &BatchHeader) -> bool {
        self.advance(header);
        if !header.attributes.is_transactional() {
            return false;
        }
        if let Some((_, seen)) = self.aborted.get_mut(&header.producer_id) {
            *seen = true;
            return true;
        }
        self.committed.insert(header.producer_id);
        false
    }

    /// A control batch; `kind` is its record's, if it still has one.
    pub fn on_control(&mut self, header: &BatchHeader, kind: Option<ControlType>) -> MarkerFate {
        self.advance(header);
        let producer = header.producer_id;
        match kind {
            Some(ControlType::Abort) => {
                let aborted = self.aborted.remove(&producer);
                let aborts = aborted.filter(|(_, seen)| *seen).map(|(transaction, _)| transaction);
                MarkerFate { is_last_trace: aborts.is_none(), aborts }
            }
            Some(ControlType::Commit) => {
                MarkerFate { is_last_trace: !self.committed.remove(&producer), aborts: None }
            }
            Some(_) => MarkerFate { is_last_trace: false, aborts: None },
            // Emptied before, and kept for its producer's sake.
            None => MarkerFate { is_last_trace: true, aborts: None },
        }
    }

    fn advance(&mut self, header: &BatchHeader) {
        let reached = header.last_offset();
        while let Some(next) = self.coming.pop_if(|next| next.first_offset <= reached) {
            self.aborted.entry(next.producer_id).or_insert((next, false));
        }
    }
}
