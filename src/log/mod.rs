//! log

pub mod append_plan;
pub mod batch;
pub mod batch_builder;
pub mod checkpoint_text;
pub mod compression;
mod config;
pub mod control;
mod entry_file;
pub mod epochs;
pub mod file_names;
pub mod files;
pub mod meta_properties;
pub mod offset_index;
mod producer_entry;
pub mod producers;
pub mod record;
pub mod record_stream;
pub mod retention;
mod scan;
pub mod segment;
mod snappy;
pub mod snapshot;
pub mod time_index;
pub mod txn_index;
pub mod validate;

pub use self::config::{CleanupPolicy, LogConfig};
