//! Which leader epoch began at which offset (KIP-101). `[P]`
//!
//! A follower that has records which its leader never had finds the point where
//! the two part by comparing epochs. Epochs and start offsets both grow.

use crate::types::{LeaderEpoch, Offset};

use super::checkpoint_text::{self, CheckpointError};

/// An epoch and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The leader's epoch.
    pub epoch: LeaderEpoch,
    /// The first offset that the leader appended, or would have appended.
    pub start_offset: Offset,
}

/// The epochs of one log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    entries: Vec<EpochEntry>,
}

impl Epochs {
    /// Reads the text of `leader-epoch-checkpoint`. Entries that contradict later
    /// ones are dropped, as when they are assigned one after another.
    pub fn decode(text: &str) -> Result<Self, CheckpointError> {
        let mut epochs = Self::default();
        for (epoch, start_offset) in checkpoint_text::decode_epochs(text)? {
            epochs.assign(epoch, start_offset);
        }
        Ok(epochs)
    }

    /// The text of `leader-epoch-checkpoint`.
    pub fn encode(&self) -> String {
        let entries = self.entries.iter().map(|entry| (entry.epoch, entry.start_offset));
        checkpoint_text::encode_epochs(entries)
    }

    /// All of them, oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// True when no epoch is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The newest.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The oldest.
    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }

    /// Says that `epoch` begins at `start_offset`; true when that was news, and
    /// must be written to disk before it is relied on.
    ///
    /// Entries that contradict it (an epoch or an offset not below) are dropped.
    /// Negative numbers are none and change nothing.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        let known = self
            .latest()
            .is_some_and(|last| last.epoch == epoch && last.start_offset <= start_offset);
        if known || epoch.0 < 0 || start_offset.0 < 0 {
            return false;
        }
        let contradicts =
            |entry: &EpochEntry| entry.epoch >= epoch || entry.start_offset >= start_offset;
        let kept =
            self.entries.len() - self.entries.iter().rev().take_while(|e| contradicts(e)).count();
        self.entries.truncate(kept);
        if self.entries.is_empty() {
            // Most logs have one for long.
            self.entries.reserve_exact(1);
        }
        self.entries.push(EpochEntry { epoch, start_offset });
        true
    }

    /// Where records of `requested` or older epochs end: the largest epoch not
    /// above it, and the offset at which the next one begins. `None` when the
    /// epoch is newer than all, or unknown (-1).
    pub fn end_offset_for(
        &self,
        requested: LeaderEpoch,
        log_end: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        if requested == LeaderEpoch::NONE {
            return None;
        }
        if self.latest().is_some_and(|last| last.epoch == requested) {
            return Some((requested, log_end));
        }
        let above = self.entries.partition_point(|entry| entry.epoch <= requested);
        let end = self.entries.get(above)?.start_offset;
        let floor = above.checked_sub(1).and_then(|at| self.entries.get(at));
        Some((floor.map_or(requested, |floor| floor.epoch), end))
    }

    /// The epoch that an offset belongs to; `None` before the first.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let above = self.entries.partition_point(|entry| entry.start_offset <= offset);
        above.checked_sub(1).and_then(|at| self.entries.get(at)).map(|entry| entry.epoch)
    }

    /// The epoch known before this one.
    pub fn previous_epoch(&self, epoch: LeaderEpoch) -> Option<LeaderEpoch> {
        let at = self.entries.partition_point(|entry| entry.epoch < epoch);
        at.checked_sub(1).and_then(|at| self.entries.get(at)).map(|entry| entry.epoch)
    }

    /// The log now begins at `start`: epochs that ended before it go, the one it
    /// falls into begins there. True when something changed.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let below = self.entries.partition_point(|entry| entry.start_offset <= start);
        let Some(last) = below.checked_sub(1) else { return false };
        self.entries.drain(..last);
        match self.entries.first_mut() {
            Some(first) if last > 0 || first.start_offset != start => first.start_offset = start,
            _ => return false,
        }
        true
    }

    /// The log now ends at `end`: epochs that began there or later go. True when
    /// something changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end);
        let changed = kept < self.entries.len() && end.0 >= 0;
        if changed {
            self.entries.truncate(kept);
        }
        changed
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epochs and start offsets.
    type Pairs = [(i32, i64)];

    fn epochs(entries: &Pairs) -> Epochs {
        let mut epochs = Epochs::default();
        for (epoch, start) in entries {
            epochs.assign(LeaderEpoch(*epoch), Offset(*start));
        }
        epochs
    }

    fn pairs(epochs: &Epochs) -> Vec<(i32, i64)> {
        epochs.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
    }

    #[test]
    fn assigning_keeps_both_columns_growing() {
        let cases: [(&str, (i32, i64), bool, &Pairs); 9] = [
            ("same epoch, later offset", (4, 50), false, &[(1, 0), (2, 10), (4, 20)]),
            ("same epoch, earlier offset", (4, 15), true, &[(1, 0), (2, 10), (4, 15)]),
            ("newer, later", (5, 30), true, &[(1, 0), (2, 10), (4, 20), (5, 30)]),
            ("newer at the same offset", (5, 20), true, &[(1, 0), (2, 10), (5, 20)]),
            ("newer, far earlier", (5, 10), true, &[(1, 0), (5, 10)]),
            ("older, later", (3, 40), true, &[(1, 0), (2, 10), (3, 40)]),
            ("older than all", (0, 0), true, &[(0, 0)]),
            ("no epoch", (-1, 60), false, &[(1, 0), (2, 10), (4, 20)]),
            ("no offset", (9, -1), false, &[(1, 0), (2, 10), (4, 20)]),
        ];
        for (name, (epoch, start), news, expected) in cases {
            let mut epochs = epochs(&[(1, 0), (2, 10), (4, 20)]);
            assert_eq!(epochs.assign(LeaderEpoch(epoch), Offset(start)), news, "{name}");
            assert_eq!(pairs(&epochs), expected, "{name}");
        }
    }

    #[test]
    fn end_offsets() {
        let known = epochs(&[(2, 10), (4, 20), (7, 35)]);
        let cases = [
            (-1, None),
            (0, Some((0, 10))),
            (1, Some((1, 10))),
            (2, Some((2, 20))),
            (3, Some((2, 20))),
            (4, Some((4, 35))),
            (6, Some((4, 35))),
            (7, Some((7, 99))),
            (8, None),
        ];
        for (requested, expected) in cases {
            let found = known.end_offset_for(LeaderEpoch(requested), Offset(99));
            let expected = expected.map(|(epoch, end)| (LeaderEpoch(epoch), Offset(end)));
            assert_eq!(found, expected, "{requested}");
        }
        assert_eq!(Epochs::default().end_offset_for(LeaderEpoch(0), Offset(5)), None);
    }

    #[test]
    fn epoch_of_an_offset() {
        let known = epochs(&[(2, 10), (4, 20)]);
        let cases = [(9, None), (10, Some(2)), (19, Some(2)), (20, Some(4)), (1000, Some(4))];
        for (offset, expected) in cases {
            assert_eq!(known.epoch_for_offset(Offset(offset)), expected.map(LeaderEpoch));
        }
        assert_eq!(known.previous_epoch(LeaderEpoch(4)), Some(LeaderEpoch(2)));
        assert_eq!(known.previous_epoch(LeaderEpoch(2)), None);
    }

    #[test]
    fn truncation_from_both_ends() {
        let all = [(2, 10), (4, 20), (7, 35)];
        let from_start: [(i64, bool, &Pairs); 6] = [
            (9, false, &all),
            (10, false, &all),
            (15, true, &[(2, 15), (4, 20), (7, 35)]),
            (20, true, &[(4, 20), (7, 35)]),
            (34, true, &[(4, 34), (7, 35)]),
            (90, true, &[(7, 90)]),
        ];
        for (start, changed, expected) in from_start {
            let mut epochs = epochs(&all);
            assert_eq!(epochs.truncate_from_start(Offset(start)), changed, "start {start}");
            assert_eq!(pairs(&epochs), expected, "start {start}");
        }
        let from_end: [(i64, bool, &Pairs); 5] = [
            (36, false, &all),
            (35, true, &[(2, 10), (4, 20)]),
            (11, true, &[(2, 10)]),
            (0, true, &[]),
            (-1, false, &all),
        ];
        for (end, changed, expected) in from_end {
            let mut epochs = epochs(&all);
            assert_eq!(epochs.truncate_from_end(Offset(end)), changed, "end {end}");
            assert_eq!(pairs(&epochs), expected, "end {end}");
        }
    }

    #[test]
    fn text_and_back() {
        let known = epochs(&[(0, 0), (3, 17)]);
        assert_eq!(known.encode(), "0\n2\n0 0\n3 17\n");
        assert_eq!(Epochs::decode(&known.encode()), Ok(known));
        let stale = Epochs::decode("0\n3\n0 0\n3 17\n2 5\n").unwrap();
        assert_eq!(pairs(&stale), [(0, 0), (2, 5)]);
    }
}
