//! The only doors to the machine: time, randomness, disk, threads, limits.
//!
//! Everything above takes what it needs through these, so that a test can put
//! its own clock, its own dice and a disk that breaks in their place.

pub mod clock;
pub mod cold;
pub mod descriptors;
pub mod disk;
#[cfg(test)]
pub mod memory_disk;
pub mod random;
pub mod real_disk;
pub mod thread;
