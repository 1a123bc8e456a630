//! The last offset of each key, in bounded memory. `[P]`
//!
//! Keys are told apart by 128 bits of hash, as in Kafka, so that memory depends on
//! their number and not on their length: 24 bytes for each.

use std::hash::{DefaultHasher, Hasher as _};

use crate::types::Offset;

/// Two halves of a hash, and the offset plus one: 0 is an empty place.
type Place = [u64; 3];

/// Bytes that a key takes.
pub const BYTES_PER_KEY: u64 = size_of::<Place>() as u64;

/// See the module.
#[derive(Debug)]
pub struct OffsetMap {
    places: Vec<Place>,
    count: usize,
    most: usize,
    latest: Offset,
}

impl OffsetMap {
    /// A map for up to `records` keys, or for as many as `memory` bytes hold when
    /// they are filled to `load_factor` (`log.cleaner.io.buffer.load.factor`).
    pub fn new(records: u64, memory: u64, load_factor: f64) -> Self {
        let load_factor = load_factor.clamp(0.01, 1.0);
        // One place more than keys, so that a search always ends.
        let wanted = (records as f64 / load_factor) as u64 + 2;
        let places = usize::try_from(wanted.min(memory / BYTES_PER_KEY).max(2)).unwrap_or(2);
        let most = ((places as f64 * load_factor) as usize).clamp(1, places - 1);
        Self { places: vec![[0; 3]; places], count: 0, most, latest: Offset::NONE }
    }

    /// Notes that `key` is at `offset`, which is above all before; false when the
    /// map is full.
    pub fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        if self.count >= self.most {
            return false;
        }
        let hash = hash(key);
        let at = self.find(hash);
        let Some(place) = self.places.get_mut(at) else { return false };
        self.count += usize::from(place[2] == 0);
        *place = [hash[0], hash[1], offset.0.saturating_add(1).cast_unsigned()];
        self.latest = offset;
        true
    }

    /// The last offset of `key`; -1 when it was never put.
    pub fn get(&self, key: &[u8]) -> Offset {
        let place = self.places.get(self.find(hash(key))).copied().unwrap_or_default();
        Offset(place[2].cast_signed() - 1)
    }

    /// All keys up to this offset are in the map.
    pub fn latest(&self) -> Offset {
        self.latest
    }

    /// All keys up to `offset` were seen: of the batch or segment that ends there.
    pub fn reached(&mut self, offset: Offset) {
        self.latest = offset;
    }

    /// How full it is, from 0 to 1.
    pub fn utilization(&self) -> f64 {
        self.count as f64 / self.places.len() as f64
    }

    /// Where a key is, or the empty place where it belongs.
    fn find(&self, hash: [u64; 2]) -> usize {
        let count = self.places.len();
        let scaled = (u128::from(hash[0]) * count as u128) >> 64;
        let first = usize::try_from(scaled).unwrap_or(0);
        let after = self.places.iter().enumerate().skip(first);
        let around = after.chain(self.places.iter().enumerate().take(first));
        let mut suitable = around.filter(|(_, place)| place[2] == 0 || place[..2] == hash);
        suitable.next().map_or(first, |(at, _)| at)
    }
}

fn hash(key: &[u8]) -> [u64; 2] {
    [1, 2].map(|half| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(half);
        hasher.write(key);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_knows_the_last_offset_of_each_key() {
        let mut map = OffsetMap::new(1000, 1 << 20, 0.9);
        let mut expected = HashMap::new();
        for offset in 0..1000_i64 {
            let key = format!("key {}", offset * 7919 % 311);
            assert!(map.put(key.as_bytes(), Offset(offset)));
            expected.insert(key, Offset(offset));
        }
        assert_eq!((map.count, map.latest()), (311, Offset(999)));
        for (key, offset) in &expected {
            assert_eq!(map.get(key.as_bytes()), *offset);
        }
        assert_eq!(map.get(b"another"), Offset::NONE);
        assert_eq!(map.get(b""), Offset::NONE);
    }

    #[test]
    fn it_fills_to_the_load_factor_of_its_memory_and_no_further() {
        let mut map = OffsetMap::new(1 << 40, 100 * BYTES_PER_KEY, 0.9);
        let fitting = (0..200).take_while(|at: &i64| map.put(&at.to_be_bytes(), Offset(*at)));
        assert_eq!(fitting.count(), 90);
        assert_eq!(map.latest(), Offset(89));
        assert!((0..90).all(|at: i64| map.get(&at.to_be_bytes()) == Offset(at)));
        assert_eq!(map.get(&90_i64.to_be_bytes()), Offset::NONE);
        assert!((map.utilization() - 0.9).abs() < 1e-9);
        // Whatever is configured, one key at least fits, and a search ends.
        let mut least = OffsetMap::new(10, 0, 1.0);
        assert!(least.put(b"a", Offset(0)) && !least.put(b"b", Offset(1)));
        assert_eq!(least.get(b"b"), Offset::NONE);
    }
}
