//! What a majority holds. `[P]`

use crate::types::Offset;

/// The offset up to which a majority holds the log, given where each voter's
/// copy ends; `None` without voters.
pub fn majority_end(mut ends: Vec<Offset>) -> Option<Offset> {
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends.get(ends.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_decides() {
        let cases: [(&[i64], Option<i64>); 5] = [
            (&[], None),
            (&[7], Some(7)),
            (&[7, 3], Some(3)),
            (&[1, 9, 5], Some(5)),
            (&[1, 9, 5, 4], Some(4)),
        ];
        for (ends, expected) in cases {
            let ends = ends.iter().copied().map(Offset).collect();
            assert_eq!(majority_end(ends), expected.map(Offset));
        }
    }
}
