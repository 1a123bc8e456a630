//! log

pub mod batch;
pub mod batch_builder;
pub mod compression;
pub mod control;
pub mod record;
mod snappy;
