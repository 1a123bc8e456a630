//! One replica of one partition: its log, its role, and who waits for it.

pub mod replicas;
pub mod waiters;
