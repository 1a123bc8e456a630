//! How many bytes lie between two offsets near the end of a log. `[P]`
//!
//! A waiting fetch counts the bytes that became readable, and they become
//! readable when the high watermark or the last stable offset moves, which may
//! be long after they were appended. So the leader remembers where each batch
//! ends until both have passed it. On a partition with one replica and no
//! transactions they pass at once, and nothing is remembered.

use std::collections::VecDeque;

use crate::types::Offset;

/// Batches remembered at most. Beyond that neighbours are merged: their bytes
/// are then counted late, when the end of the last of them is reached.
const LIMIT: usize = 4096;

/// The ends of appended batches that are not readable by everyone yet.
#[derive(Debug, Default)]
pub struct ByteMarks {
    /// End offset of a batch, and bytes appended up to there.
    marks: VecDeque<(Offset, u64)>,
    /// Bytes up to the last mark that was dropped.
    passed: u64,
    appended: u64,
}

impl ByteMarks {
    /// Notes an append of `bytes` that made the log end at `end`.
    pub fn appended(&mut self, end: Offset, bytes: usize) {
        self.appended += bytes as u64;
        if self.marks.len() >= LIMIT {
            self.marks.pop_back();
        }
        self.marks.push_back((end, self.appended));
    }

    /// Bytes up to `offset`, counted from some fixed point: only differences
    /// mean something.
    pub fn up_to(&self, offset: Offset) -> u64 {
        let below = self.marks.partition_point(|(end, _)| *end <= offset);
        match below.checked_sub(1).and_then(|last| self.marks.get(last)) {
            Some((_, bytes)) => *bytes,
            None => self.passed,
        }
    }

    /// Forgets what everyone can read.
    pub fn passed(&mut self, offset: Offset) {
        while self.marks.front().is_some_and(|(end, _)| *end <= offset) {
            if let Some((_, bytes)) = self.marks.pop_front() {
                self.passed = bytes;
            }
        }
    }

    /// Forgets all: the log was cut, or another leads.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.passed = self.appended;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_between_offsets() {
        let mut marks = ByteMarks::default();
        marks.appended(Offset(10), 100);
        marks.appended(Offset(15), 50);
        marks.appended(Offset(30), 7);
        assert_eq!(marks.up_to(Offset(15)) - marks.up_to(Offset(10)), 50);
        assert_eq!(marks.up_to(Offset(29)), 150, "inside the last batch");
        marks.passed(Offset(15));
        assert_eq!(marks.marks.len(), 1);
        assert_eq!(marks.up_to(Offset(30)) - marks.up_to(Offset(15)), 7);
        marks.clear();
        assert_eq!(marks.up_to(Offset(99)), 157);
    }

    #[test]
    fn memory_is_bounded_and_the_sum_right() {
        let mut marks = ByteMarks::default();
        for end in 1..=10_000 {
            marks.appended(Offset(end), 1);
        }
        assert_eq!(marks.marks.len(), LIMIT);
        assert_eq!(marks.up_to(Offset(10_000)), 10_000);
    }
}
