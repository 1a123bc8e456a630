//! Compaction: of each key only the newest record stays (KIP-58, KIP-354, KIP-534).
//!
//! ```text
//! 0        first dirty            first uncleanable     active
//! ├── clean ──┼──────── dirty ─────────┼── too young or ──┼──────▶
//! │ one record│ its keys go into the   │   undecided      │
//! │ per key   │ map: last offset each  │                  │
//! └───────────┴── rewritten by the map ┘
//! ```
//! What the map says of the dirty section decides over all records up to its end.
//! Segments are rewritten in groups that fit one segment, as `.cleaned`; a whole
//! one becomes `.swap` and takes the place of its originals under the log's lock.
//! A crash at any step is resolved when the log is opened: before or after.
//!
//! First to read: `plan.rs` (which log, how far), `filter.rs` (which records),
//! `cleaner.rs` (how).

pub mod cleaner;
pub mod filter;
pub mod job;
pub mod offset_map;
pub mod plan;
pub mod transactions;
