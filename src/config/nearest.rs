//! Which known name was probably meant. `[P]`

/// The candidate with the fewest edits, when a third of the letters or fewer differ.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= name.len() / 3)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= (name.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements of bytes from one text to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn a_typo_finds_its_key_and_nonsense_does_not() {
        let keys = ["log.dirs", "log.dir", "num.partitions", "listeners"];
        assert_eq!(nearest("num.partition", keys.into_iter()), Some("num.partitions"));
        assert_eq!(nearest("listener", keys.into_iter()), Some("listeners"));
        assert_eq!(nearest("zookeeper.connect", keys.into_iter()), None);
    }
}
