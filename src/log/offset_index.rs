//! `.index`: from offsets to positions in the segment, sparse.
//!
//! Entries of eight bytes: i32 offset relative to the segment's base, i32
//! position. The offset is the *last* of a batch, the position where that batch
//! starts. A lookup gives a position at or before the batch that is looked for.

use std::io;
use std::sync::Arc;

use super::entry_file::{EntryFile, IndexEntry};
use super::file_names::FileKind;
use super::files::{FileSlot, Folder};
use crate::sys::cold::IfCold;
use crate::types::Offset;

/// Bytes of an entry.
pub const ENTRY_LEN: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    relative: i32,
    position: u32,
}

impl IndexEntry for Entry {
    const LEN: usize = ENTRY_LEN as usize;

    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.relative.to_be_bytes());
        into.extend_from_slice(&self.position.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        let (relative, position) = bytes.split_at_checked(4).unwrap_or_default();
        Self {
            relative: i32::from_be_bytes(relative.try_into().unwrap_or_default()),
            position: u32::from_be_bytes(position.try_into().unwrap_or_default()),
        }
    }
}

/// Where a batch lies: the last offset in it, and where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Last offset of the batch; the segment's base when there is no entry.
    pub offset: Offset,
    /// Bytes before it in the segment.
    pub position: u64,
}

/// The offset index of one segment.
#[derive(Debug)]
pub struct OffsetIndex {
    base: Offset,
    entries: EntryFile<Entry>,
}

impl OffsetIndex {
    /// The index of the segment at `base`, its file `len` bytes long (0 when missing).
    pub fn new(folder: &Arc<Folder>, base: Offset, len: u64) -> Self {
        Self {
            base,
            entries: EntryFile::new(FileSlot::new(folder, base, FileKind::OffsetIndex), len),
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

    /// True when `offset` can be told from the base in 31 bits.
    pub fn fits(&self, offset: Offset) -> bool {
        (0..=i64::from(i32::MAX)).contains(&(offset - self.base))
    }

    /// The last entry with an offset not above `target`, or the segment's start.
    pub fn lookup(&self, target: Offset, if_cold: IfCold) -> io::Result<OffsetPosition> {
        let relative = target - self.base;
        let before = |entry: &Entry| i64::from(entry.relative) <= relative;
        Ok(self.place(self.entries.search(before, if_cold)?.1))
    }

    /// The last entry with a position not above `position`, or the segment's start.
    pub fn lookup_position(&self, position: u64, if_cold: IfCold) -> io::Result<OffsetPosition> {
        let before = |entry: &Entry| u64::from(entry.position) <= position;
        Ok(self.place(self.entries.search(before, if_cold)?.1))
    }

    /// The newest entry, or the segment's start.
    pub fn last(&self, if_cold: IfCold) -> io::Result<OffsetPosition> {
        Ok(self.place(self.entries.last(if_cold)?))
    }

    fn place(&self, entry: Option<Entry>) -> OffsetPosition {
        let entry = entry.unwrap_or(Entry { relative: 0, position: 0 });
        let offset = self.base + i64::from(entry.relative);
        OffsetPosition { offset, position: u64::from(entry.position) }
    }

    /// Adds that the batch ending with `offset` starts at `position`. Both are
    /// above all before; the caller has seen that `offset` [`Self::fits`].
    pub fn append(&mut self, offset: Offset, position: u64) {
        let relative = i32::try_from(offset - self.base);
        if let (Ok(relative), Ok(position)) = (relative, u32::try_from(position)) {
            self.entries.push(Entry { relative, position });
        }
    }

    /// Forgets the entries with an offset of `offset` or more.
    pub fn truncate_to(&mut self, offset: Offset) -> io::Result<()> {
        let relative = offset - self.base;
        let kept = |entry: &Entry| i64::from(entry.relative) < relative;
        let kept = self.entries.search(kept, IfCold::Wait)?.0;
        self.entries.truncate(kept);
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.truncate(0);
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
    fn finds_the_entry_at_or_before_and_truncates_from_the_offset_on() {
        let disk = MemoryDisk::new();
        let mut index = OffsetIndex::new(&folder(&disk), Offset(100), 0);
        let at = |offset, position| OffsetPosition { offset: Offset(offset), position };
        assert_eq!(index.lookup(Offset(100), IfCold::Wait).unwrap(), at(100, 0));
        index.append(Offset(110), 5000);
        index.append(Offset(120), 10_000);
        assert_eq!(index.lookup(Offset(109), IfCold::Wait).unwrap(), at(100, 0));
        assert_eq!(index.lookup(Offset(110), IfCold::Wait).unwrap(), at(110, 5000));
        assert_eq!(index.lookup(Offset(119), IfCold::Wait).unwrap(), at(110, 5000));
        assert_eq!(index.lookup(Offset(900), IfCold::Wait).unwrap(), at(120, 10_000));
        assert_eq!(index.lookup_position(9999, IfCold::Wait).unwrap(), at(110, 5000));
        assert!(index.fits(Offset(100 + i64::from(i32::MAX))));
        assert!(!index.fits(Offset(101 + i64::from(i32::MAX))) && !index.fits(Offset(99)));
        index.write_out().unwrap();
        let bytes = disk.bytes(Path::new("/d/00000000000000000100.index"));
        assert_eq!(bytes, [0, 0, 0, 10, 0, 0, 0x13, 0x88, 0, 0, 0, 20, 0, 0, 0x27, 0x10]);
        index.truncate_to(Offset(120)).unwrap();
        assert_eq!(index.last(IfCold::Wait).unwrap(), at(110, 5000));
    }
}
