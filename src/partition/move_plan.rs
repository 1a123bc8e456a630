//! What the next step of a copy is, and what a wish to move a log comes to. `[P]`
//!
//! A copy follows its log as a follower follows its leader: where their epochs part
//! it is cut, what it lacks is read and appended, and when the log has lost what
//! would come next it begins anew.

use crate::types::{DirectoryId, LeaderEpoch, Offset};

/// The log that is being copied, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// First offset that may be read.
    pub log_start: Offset,
    /// The next offset to be assigned.
    pub log_end: Offset,
    /// The newest epoch not above the copy's newest, and where it ends; `None` when
    /// nothing is known of it.
    pub shared: Option<(LeaderEpoch, Offset)>,
}

/// The copy so far.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// True when nothing is in it.
    pub is_empty: bool,
    /// The next offset to be copied.
    pub log_end: Offset,
    /// Its newest epoch.
    pub epoch: Option<LeaderEpoch>,
    /// Where the epoch that it shares with the log ends in it.
    pub shared_end: Offset,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Cut the copy there: what follows is not in the log.
    Truncate(Offset),
    /// Read the log from there on.
    Read(Offset),
    /// Nothing: both end at the same offset.
    CaughtUp,
}

/// Compares the two.
pub fn next_step(source: &Source, copy: &Copied) -> Step {
    if let (Some((epoch, end)), Some(newest)) = (source.shared, copy.epoch)
        && (epoch < newest || end < copy.log_end)
    {
        return Step::Truncate(end.min(copy.shared_end));
    }
    if copy.log_end > source.log_end {
        return Step::Truncate(source.log_end);
    }
    if copy.log_end == source.log_end {
        return Step::CaughtUp;
    }
    Step::Read(copy.log_end.max(source.log_start))
}

/// Where the copy must begin anew to take in what was read from `from` on, whose
/// first batch begins at `first`; `None` when it simply follows.
pub fn restart_at(copy: &Copied, from: Offset, first: Offset) -> Option<Offset> {
    // The log start may lie within a batch; and offsets that compaction took away
    // are no gap.
    let follows = first >= copy.log_end && from == copy.log_end;
    let begins = copy.is_empty && first != copy.log_end;
    (begins || !follows).then_some(first)
}

/// What a wish comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The copy that is being made is given up.
    pub drop: bool,
    /// One is made in the wanted directory.
    pub create: bool,
}

/// What has to be done for a log in `current`, of which a copy is made in
/// `future`, to go to `wanted`.
pub fn change(current: DirectoryId, future: Option<DirectoryId>, wanted: DirectoryId) -> Change {
    let there = future == Some(wanted);
    Change { drop: future.is_some() && !there, create: !there && current != wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(start: i64, end: i64, shared: Option<(i32, i64)>) -> Source {
        let shared = shared.map(|(epoch, end)| (LeaderEpoch(epoch), Offset(end)));
        Source { log_start: Offset(start), log_end: Offset(end), shared }
    }

    fn copy(end: i64, epoch: Option<i32>, shared_end: i64) -> Copied {
        Copied {
            is_empty: end == 0,
            log_end: Offset(end),
            epoch: epoch.map(LeaderEpoch),
            shared_end: Offset(shared_end),
        }
    }

    #[test]
    fn a_copy_follows_its_log() {
        let step = |source, copy| next_step(&source, &copy);
        assert_eq!(step(source(0, 0, None), copy(0, None, 0)), Step::CaughtUp);
        assert_eq!(step(source(5, 9, None), copy(0, None, 0)), Step::Read(Offset(5)));
        assert_eq!(step(source(0, 9, Some((2, 9))), copy(7, Some(2), 7)), Step::Read(Offset(7)));
        assert_eq!(step(source(0, 9, Some((2, 9))), copy(9, Some(2), 9)), Step::CaughtUp);
        // The log was cut after a crash and went on in another epoch.
        let cut = source(0, 9, Some((2, 6)));
        assert_eq!(step(cut, copy(8, Some(2), 8)), Step::Truncate(Offset(6)));
        // The log knows nothing of the copy's newest epoch.
        let other = source(0, 9, Some((1, 9)));
        assert_eq!(step(other, copy(9, Some(2), 4)), Step::Truncate(Offset(4)));
        assert_eq!(step(source(0, 3, None), copy(5, None, 5)), Step::Truncate(Offset(3)));
    }

    #[test]
    fn a_copy_begins_anew_where_the_log_has_lost_what_comes_next() {
        let at = |copy: &Copied, from, first| restart_at(copy, Offset(from), Offset(first));
        assert_eq!(at(&copy(7, Some(2), 7), 7, 7), None);
        assert_eq!(at(&copy(7, Some(2), 7), 7, 9), None, "compaction leaves gaps");
        assert_eq!(at(&copy(7, Some(2), 7), 20, 18), Some(Offset(18)));
        assert_eq!(at(&copy(0, None, 0), 5, 3), Some(Offset(3)), "the start is within a batch");
        assert_eq!(at(&copy(0, None, 0), 0, 0), None);
    }

    #[test]
    fn a_wish_ends_what_goes_elsewhere() {
        let [a, b, c] = [1, 2, 3].map(DirectoryId::from_u128);
        let change = |future, wanted| {
            let Change { drop, create } = change(a, future, wanted);
            (drop, create)
        };
        assert_eq!(change(None, a), (false, false));
        assert_eq!(change(None, b), (false, true));
        assert_eq!(change(Some(b), b), (false, false));
        assert_eq!(change(Some(b), a), (true, false));
        assert_eq!(change(Some(b), c), (true, true));
    }
}
