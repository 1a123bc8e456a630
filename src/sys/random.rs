//! Randomness, from a seed where a test needs the same run twice.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};
use uuid::Uuid;

use crate::types::is_ordinary_uuid;

/// Dice that can be shared between threads.
#[derive(Clone, Debug)]
pub struct Random {
    dice: Arc<Mutex<StdRng>>,
}

impl Random {
    /// Dice seeded by the operating system.
    pub fn from_system() -> Self {
        Self { dice: Arc::new(Mutex::new(StdRng::from_os_rng())) }
    }

    /// Dice that fall the same way for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self { dice: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    /// Any 64 bits.
    pub fn next_u64(&self) -> u64 {
        self.dice.lock().next_u64()
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_u64() % end }
    }

    /// A random version 4 UUID such as Kafka hands out: not reserved, and its
    /// text does not begin with a dash.
    pub fn uuid(&self) -> Uuid {
        loop {
            let mut bytes = [0; 16];
            self.dice.lock().fill_bytes(&mut bytes);
            let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
            if is_ordinary_uuid(id) {
                return id;
            }
        }
    }
}
