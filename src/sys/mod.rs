//! The only doors to the machine: time, randomness, disk.
//!
//! Everything above takes what it needs through these, so that a test can put
//! its own clock, its own dice and a disk that breaks in their place.

pub mod clock;
pub mod disk;
pub mod random;
