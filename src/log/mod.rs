//! log

pub mod batch;
pub mod batch_builder;
pub mod compression;
mod config;
pub mod control;
mod entry_file;
pub mod files;
pub mod offset_index;
pub mod record;
mod scan;
pub mod segment;
mod snappy;
pub mod time_index;
pub mod txn_index;

pub use self::config::{CleanupPolicy, LogConfig};
