//! Kafka's messages and records: bytes to typed messages and back. `[P]`
//!
//! `schemas/` holds one file per message, in the notation of schemas/NOTATION.md;
//! the build script turns each into a module of [`messages`]. This crate knows no
//! socket, no disk and no other part of the broker. It is a crate of its own so
//! that a change elsewhere does not compile the messages again.
//!
//! Bytes come from anybody: no length or count reserves more memory than the
//! bytes that are left can justify, and nothing here panics on any input.

pub mod apis;
pub mod catalogue;
mod codec;
mod error_code;
mod reader;
pub mod request;
pub mod response;
mod values;
mod writer;

pub use codec::{DecodeError, EncodeError, Field, Message, Nullable};
pub use error_code::ErrorCode;
pub use reader::Reader;
pub use values::{RawTaggedField, Records, Region, RegionFile, Str};
pub use writer::{Chunk, Writer};

/// The generated messages, a module each.
#[expect(clippy::all, reason = "written by the build script, read by nobody")]
pub mod messages {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}
