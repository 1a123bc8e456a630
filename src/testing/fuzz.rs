//! A small fuzzer that runs in `cargo test`: sound examples are damaged, and
//! what reads such bytes must refuse or mend them.
//!
//! The cases follow from a seed, so a run is the same everywhere. FUZZ_TIMES=100
//! runs a hundred times as many, from other seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sys::random::Random;

/// Damages copies of `corpus` and shows each to `check`, `cases` times in all.
pub fn fuzz(cases: u64, corpus: &[Vec<u8>], mut check: impl FnMut(&[u8])) {
    for seed in 0..cases * times() {
        let dice = Random::from_seed(seed);
        let mut bytes = pick(&dice, corpus).clone();
        for _ in 0..=dice.below(4) {
            damage(&dice, &mut bytes, corpus);
        }
        let done = catch_unwind(AssertUnwindSafe(|| check(&bytes)));
        assert!(done.is_ok(), "seed {seed}, bytes {bytes:02x?}");
    }
}

/// How many times the usual number of cases is wanted.
pub fn times() -> u64 {
    std::env::var("FUZZ_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// One of several.
pub fn pick<'a, T>(dice: &Random, among: &'a [T]) -> &'a T {
    &among[dice.below(among.len() as u64) as usize]
}

/// Changes bytes in one of the ways that break readers: bits, numbers at the
/// ends of their ranges, pieces lost, doubled or taken from another example.
pub fn damage(dice: &Random, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = dice.below(bytes.len() as u64) as usize;
    let len = dice.below(1 + (bytes.len() - at).min(64) as u64) as usize;
    match dice.below(10) {
        _ if bytes.is_empty() => bytes.clone_from(pick(dice, corpus)),
        0 | 1 => bytes[at] ^= 1 << dice.below(8),
        2 => bytes[at] = dice.next_u64() as u8,
        3 => overwrite(bytes, at, *pick(dice, &[i64::MIN, -1, 0, 1, i64::MAX])),
        4 => overwrite(bytes, at, len as i64),
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(at..at + len)),
        7 => {
            let piece = bytes[at..at + len].to_vec();
            bytes.splice(at..at, piece);
        }
        8 => bytes.extend(std::iter::repeat_n(0, len)),
        _ => {
            let other = pick(dice, corpus);
            let from = dice.below(other.len() as u64) as usize;
            bytes.splice(at..at, other[from..].iter().copied().take(200));
        }
    }
}

/// Puts the low bytes of a number over what is there: 8, 16, 32 or 64 bits.
fn overwrite(bytes: &mut [u8], at: usize, number: i64) {
    let number = number.to_be_bytes();
    let width = [1, 2, 4, 8][at % 4];
    for (to, from) in bytes.iter_mut().skip(at).zip(&number[8 - width..]) {
        *to = *from;
    }
}
