//! A file of equally long entries in ascending order, as all indexes are.
//!
//! The newest entries are kept in memory and reach the file in runs: what a
//! crash loses of the active segment's indexes is rebuilt from its batches
//! anyway, and writing eight bytes at a time would double the number of system
//! calls of a produce request. A full run in memory is bounded, whatever the
//! segment's size; entries before it are read from the file: mostly a page where
//! the search before this one ended. A memory map would keep the index resident.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::files::FileSlot;
use crate::sys::cold::IfCold;

/// Entries in memory at which a run goes to the file; half of them stay.
const RUN: usize = 512;
/// Entries that a search reads at once.
const PAGE: usize = 512;
/// So many of them before the place where the search before this one ended: who reads
/// a log from front to back looks up one place after another.
const BEHIND: usize = 64;
/// Bytes of the longest entry of any index.
const LONGEST: usize = 12;

/// A fixed number of bytes that mean something.
pub trait IndexEntry: Copy + std::fmt::Debug {
    /// Bytes of an entry.
    const LEN: usize;
    /// Appends the bytes.
    fn write(&self, into: &mut Vec<u8>);
    /// Reads them; `bytes` is `LEN` long.
    fn read(bytes: &[u8]) -> Self;
}

/// Entries in a file and, the newest, in memory.
#[derive(Debug)]
pub struct EntryFile<E> {
    slot: FileSlot,
    /// Entries in the file that hold.
    written: usize,
    /// The entries from `first_recent` on.
    recent: Vec<E>,
    first_recent: usize,
    /// Where the last search of the file ended.
    found: AtomicUsize,
    /// The file may be longer than `written` entries.
    untrimmed: bool,
}

impl<E: IndexEntry> EntryFile<E> {
    /// Entries of the file, which is `len` bytes long (0 also when there is
    /// none). A broken entry at the end does not count.
    pub fn new(slot: FileSlot, len: u64) -> Self {
        let written = usize::try_from(len).unwrap_or(usize::MAX) / E::LEN;
        Self {
            slot,
            written,
            recent: Vec::new(),
            first_recent: written,
            found: AtomicUsize::new(0),
            untrimmed: !len.is_multiple_of(E::LEN as u64),
        }
    }

    /// The file.
    pub fn slot(&mut self) -> &mut FileSlot {
        &mut self.slot
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.first_recent + self.recent.len()
    }

    /// Entry number `at`; `None` beyond the end.
    fn get(&self, at: usize, if_cold: IfCold) -> io::Result<Option<E>> {
        if let Some(index) = at.checked_sub(self.first_recent) {
            return Ok(self.recent.get(index).copied());
        }
        let mut bytes = [0; 64];
        let bytes = bytes.get_mut(..E::LEN).unwrap_or_default();
        if_cold.read_exact_at(&self.slot.existing()?, bytes, (at * E::LEN) as u64)?;
        Ok(Some(E::read(bytes)))
    }

    /// The newest entry.
    pub fn last(&self, if_cold: IfCold) -> io::Result<Option<E>> {
        self.len().checked_sub(1).map_or(Ok(None), |at| self.get(at, if_cold))
    }

    /// Number of entries at the front for which `before` holds, and the last of them;
    /// it must hold for none after the first for which it does not.
    pub fn search(
        &self,
        before: impl Fn(&E) -> bool,
        if_cold: IfCold,
    ) -> io::Result<(usize, Option<E>)> {
        match self.recent.first() {
            Some(first) if before(first) => {
                let count = self.recent.partition_point(before);
                let last = count.checked_sub(1).and_then(|at| self.recent.get(at));
                return Ok((self.first_recent + count, last.copied()));
            }
            _ if self.first_recent == 0 => return Ok((0, None)),
            _ => {}
        }
        let file = self.slot.existing()?;
        let mut page = [0; PAGE * LONGEST];
        // It holds for all before `low`, the last of which is `last`, and not for `high`.
        let (mut low, mut last, mut high) = (0, None, self.first_recent);
        let mut near = self.found.load(Ordering::Relaxed);
        loop {
            let start = near.saturating_sub(BEHIND).min(high.saturating_sub(PAGE)).max(low);
            let end = high.min(start + PAGE);
            let bytes = page.get_mut(..(end - start) * E::LEN).unwrap_or_default();
            if_cold.read_exact_at(&file, bytes, (start * E::LEN) as u64)?;
            let (count, newest) = search_page(bytes, &before);
            last = newest.or(last);
            if count == 0 && start > low {
                high = start;
            } else if count == end - start && end < high {
                low = end;
            } else {
                self.found.store(start + count, Ordering::Relaxed);
                return Ok((start + count, last));
            }
            near = low + (high - low) / 2;
        }
    }

    /// Adds the newest entry. The file follows later; when it cannot, the entry
    /// stays in memory and [`Self::write_out`] will tell.
    pub fn push(&mut self, entry: E) {
        if self.recent.len() >= RUN && self.write_out().is_ok() {
            self.recent.drain(..RUN / 2);
            self.first_recent += RUN / 2;
        }
        self.recent.push(entry);
    }

    /// Keeps the first `count` entries.
    pub fn truncate(&mut self, count: usize) {
        if count >= self.len() {
            return;
        }
        self.recent.truncate(count.saturating_sub(self.first_recent));
        self.first_recent = self.first_recent.min(count);
        if self.written > count {
            self.written = count;
            self.untrimmed = true;
        }
    }

    /// Brings the file to exactly the entries that there are; creates it when
    /// it is missing.
    pub fn write_out(&mut self) -> io::Result<()> {
        let len = self.len();
        let file = self.slot.created()?;
        if self.untrimmed {
            file.set_len((self.written * E::LEN) as u64)?;
            self.untrimmed = false;
        }
        let unwritten = self.recent.get(self.written.saturating_sub(self.first_recent)..);
        let unwritten = unwritten.unwrap_or_default();
        if unwritten.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(unwritten.len() * E::LEN);
        unwritten.iter().for_each(|entry| entry.write(&mut bytes));
        // A write that fails half-way must not leave a longer file behind.
        self.untrimmed = true;
        file.write_at(&bytes, (self.written * E::LEN) as u64)?;
        self.untrimmed = false;
        self.written = len;
        Ok(())
    }
}

/// As [`EntryFile::search`], in some entries.
fn search_page<E: IndexEntry>(bytes: &[u8], before: impl Fn(&E) -> bool) -> (usize, Option<E>) {
    let (mut low, mut last, mut high) = (0, None, bytes.len() / E::LEN);
    while low < high {
        let middle = low + (high - low) / 2;
        let entry = E::read(bytes.get(middle * E::LEN..(middle + 1) * E::LEN).unwrap_or_default());
        if before(&entry) {
            (low, last) = (middle + 1, Some(entry));
        } else {
            high = middle;
        }
    }
    (low, last)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::file_names::FileKind;
    use crate::log::files::testing::folder;
    use crate::sys::memory_disk::{Fault, MemoryDisk};
    use crate::types::Offset;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Number(u32);

    impl IndexEntry for Number {
        const LEN: usize = 4;
        fn write(&self, into: &mut Vec<u8>) {
            into.extend_from_slice(&self.0.to_be_bytes());
        }
        fn read(bytes: &[u8]) -> Self {
            Self(u32::from_be_bytes(bytes.try_into().unwrap()))
        }
    }

    const PATH: &str = "/d/00000000000000000007.index";

    fn numbers(disk: &MemoryDisk) -> EntryFile<Number> {
        EntryFile::new(FileSlot::new(&folder(disk), Offset(7), FileKind::OffsetIndex), 0)
    }

    #[test]
    fn searches_agree_with_a_plain_list_in_file_and_memory() {
        let disk = MemoryDisk::new();
        let mut file = numbers(&disk);
        for number in 0..3000 {
            file.push(Number(number * 2));
        }
        assert!(file.first_recent > 2000 && disk.bytes(Path::new(PATH)).len() >= 2048 * 4);
        // From front to back, and back and forth.
        for wanted in (0..6100).step_by(7).chain((0..6100).map(|at| at * 977 % 6101)) {
            let (count, last) = file.search(|entry| entry.0 <= wanted, IfCold::Wait).unwrap();
            assert_eq!(count, (wanted as usize / 2 + 1).min(3000), "{wanted}");
            assert_eq!(last, Some(Number(count as u32 * 2 - 2)));
        }
        assert_eq!(file.search(|_| false, IfCold::Wait).unwrap(), (0, None));
        for at in [0, 1, 255, 2047, 2048, 2999] {
            assert_eq!(file.get(at, IfCold::Wait).unwrap(), Some(Number(at as u32 * 2)));
        }
        assert_eq!(file.get(3000, IfCold::Wait).unwrap(), None);
    }

    #[test]
    fn truncation_reaches_into_the_file() {
        let disk = MemoryDisk::new();
        let mut file = numbers(&disk);
        (0..2000).for_each(|number| file.push(Number(number)));
        file.truncate(10);
        file.push(Number(77));
        assert_eq!((file.len(), file.last(IfCold::Wait).unwrap()), (11, Some(Number(77))));
        file.write_out().unwrap();
        let bytes = disk.bytes(Path::new(PATH));
        assert_eq!(bytes.len(), 44);
        let slot = FileSlot::new(&folder(&disk), Offset(7), FileKind::OffsetIndex);
        let again = EntryFile::<Number>::new(slot, 44);
        assert_eq!(
            again.search(|entry| entry.0 < 77, IfCold::Wait).unwrap(),
            (10, Some(Number(9)))
        );
    }

    #[test]
    fn a_full_disk_leaves_the_entries_in_memory() {
        let disk = MemoryDisk::new();
        let mut file = numbers(&disk);
        disk.break_with(Fault::full(0));
        (0..2000).for_each(|number| file.push(Number(number)));
        assert!(file.write_out().is_err());
        assert_eq!(file.search(|entry| entry.0 < 1500, IfCold::Wait).unwrap().0, 1500);
        disk.heal();
        file.write_out().unwrap();
        assert_eq!(disk.bytes(Path::new(PATH)).len(), 8000);
    }
}
