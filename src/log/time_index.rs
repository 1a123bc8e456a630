//! `.timeindex`: from timestamps to offsets, sparse.
//!
//! Entries of twelve bytes: i64 timestamp, i32 offset relative to the segment's
//! base. An entry says: up to and with the batch that ends with this offset the
//! largest timestamp is this one, first seen in that batch.

use std::io;
use std::sync::Arc;

use super::entry_file::{EntryFile, IndexEntry};
use super::file_names::FileKind;
use super::files::{FileSlot, Folder};
use crate::sys::cold::IfCold;
use crate::types::{Offset, Timestamp};

/// Bytes of an entry.
pub const ENTRY_LEN: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    timestamp: i64,
    relative: i32,
}

impl IndexEntry for Entry {
    const LEN: usize = ENTRY_LEN as usize;

    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.timestamp.to_be_bytes());
        into.extend_from_slice(&self.relative.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        let (timestamp, relative) = bytes.split_at_checked(8).unwrap_or_default();
        Self {
            timestamp: i64::from_be_bytes(timestamp.try_into().unwrap_or_default()),
            relative: i32::from_be_bytes(relative.try_into().unwrap_or_default()),
        }
    }
}

/// A timestamp and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The largest so far; none in an empty index.
    pub timestamp: Timestamp,
    /// Last offset of the batch where it was first seen; the segment's base in
    /// an empty index.
    pub offset: Offset,
}

/// The time index of one segment.
#[derive(Debug)]
pub struct TimeIndex {
    base: Offset,
    entries: EntryFile<Entry>,
    /// The newest entry, once known: most appends only compare with it.
    newest: Option<TimestampOffset>,
}

impl TimeIndex {
    /// The index of the segment at `base`, its file `len` bytes long (0 when missing).
    pub fn new(folder: &Arc<Folder>, base: Offset, len: u64) -> Self {
        Self {
            base,
            entries: EntryFile::new(FileSlot::new(folder, base, FileKind::TimeIndex), len),
            newest: None,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The file.
    pub fn slot(&mut self) -> &mut FileSlot {
        self.entries.slot()
    }

    /// The last entry with a timestamp not above `target`, or the segment's start.
    pub fn lookup(&self, target: Timestamp, if_cold: IfCold) -> io::Result<TimestampOffset> {
        let before = |entry: &Entry| entry.timestamp <= target.0;
        Ok(self.place(self.entries.search(before, if_cold)?.1))
    }

    /// The newest entry, or the segment's start.
    pub fn last(&self, if_cold: IfCold) -> io::Result<TimestampOffset> {
        match self.newest {
            Some(newest) => Ok(newest),
            None => Ok(self.place(self.entries.last(if_cold)?)),
        }
    }

    fn place(&self, entry: Option<Entry>) -> TimestampOffset {
        let entry = entry.unwrap_or(Entry { timestamp: Timestamp::NONE.0, relative: 0 });
        let offset = self.base + i64::from(entry.relative);
        TimestampOffset { timestamp: Timestamp(entry.timestamp), offset }
    }

    /// Adds an entry when its timestamp is above the newest one's.
    pub fn maybe_append(&mut self, entry: TimestampOffset) -> io::Result<()> {
        let newest = self.last(IfCold::Wait)?;
        if entry.timestamp > newest.timestamp
            && let Ok(relative) = i32::try_from(entry.offset - self.base)
        {
            self.entries.push(Entry { timestamp: entry.timestamp.0, relative });
            self.newest = Some(entry);
        }
        Ok(())
    }

    /// Forgets the entries with an offset of `offset` or more.
    pub fn truncate_to(&mut self, offset: Offset) -> io::Result<()> {
        let relative = offset - self.base;
        let kept = |entry: &Entry| i64::from(entry.relative) < relative;
        let kept = self.entries.search(kept, IfCold::Wait)?.0;
        self.entries.truncate(kept);
        self.newest = None;
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.truncate(0);
        self.newest = None;
    }

    /// Brings the file up to date, creating it when missing.
    pub fn write_out(&mut self) -> io::Result<()> {
        self.entries.write_out()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::files::testing::folder;
    use crate::sys::memory_disk::MemoryDisk;

    #[test]
    fn keeps_only_growing_timestamps_and_finds_the_one_at_or_before() {
        let disk = MemoryDisk::new();
        let mut index = TimeIndex::new(&folder(&disk), Offset(100), 0);
        let at = |timestamp, offset| TimestampOffset {
            timestamp: Timestamp(timestamp),
            offset: Offset(offset),
        };
        assert_eq!(index.last(IfCold::Wait).unwrap(), at(-1, 100));
        for entry in [at(50, 105), at(50, 110), at(40, 112), at(60, 120)] {
            index.maybe_append(entry).unwrap();
        }
        assert_eq!(index.len(), 2);
        assert_eq!(index.lookup(Timestamp(49), IfCold::Wait).unwrap(), at(-1, 100));
        assert_eq!(index.lookup(Timestamp(59), IfCold::Wait).unwrap(), at(50, 105));
        assert_eq!(index.lookup(Timestamp(60), IfCold::Wait).unwrap(), at(60, 120));
        index.truncate_to(Offset(120)).unwrap();
        assert_eq!(index.last(IfCold::Wait).unwrap(), at(50, 105));
        index.write_out().unwrap();
        let bytes = disk.bytes(Path::new("/d/00000000000000000100.timeindex"));
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 5]);
    }
}
