//! `.txnindex`: the transactions that were aborted in a segment.
//!
//! ```text
//! i16 version 0 | i64 producer id | i64 first offset | i64 last offset | i64 last stable offset
//! ```
//! The last offset is the abort marker's and grows strictly. The last stable
//! offset is what it was once this transaction was done: a search for what
//! concerns the offsets below some bound may stop at an entry that has it at or
//! above. The file exists only in segments with an abort.

use std::io;
use std::sync::Arc;

use super::file_names::FileKind;
use super::files::{FileSlot, Folder};
use crate::sys::cold::IfCold;
use crate::sys::disk::DiskFile;
use crate::types::{Offset, ProducerId};

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 34;
/// Entries read at once.
const PAGE: usize = 120;

/// One aborted transaction of one producer on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: ProducerId,
    /// Its first record.
    pub first_offset: Offset,
    /// Its abort marker.
    pub last_offset: Offset,
    /// The last stable offset once the marker was written.
    pub last_stable_offset: Offset,
}

impl AbortedTransaction {
    fn write(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        let fields = [self.producer_id.0, self.first_offset.0, self.last_offset.0];
        let fields = fields.into_iter().chain([self.last_stable_offset.0]);
        let (_, into) = bytes.as_mut_slice().split_at_mut(2);
        for (into, field) in into.chunks_exact_mut(8).zip(fields) {
            into.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> io::Result<Self> {
        let (version, rest) = bytes.split_at_checked(2).unwrap_or_default();
        if version != [0, 0] {
            return Err(damaged("unknown version of an entry"));
        }
        let mut fields = rest
            .chunks_exact(8)
            .map(|field| i64::from_be_bytes(field.try_into().unwrap_or_default()));
        let mut next = || fields.next().ok_or_else(|| damaged("entry is cut off"));
        Ok(Self {
            producer_id: ProducerId(next()?),
            first_offset: Offset(next()?),
            last_offset: Offset(next()?),
            last_stable_offset: Offset(next()?),
        })
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("transaction index: {what}"))
}

/// The transaction index of one segment.
#[derive(Debug)]
pub struct TransactionIndex {
    slot: FileSlot,
    /// Bytes of whole entries in the file.
    len: u64,
}

impl TransactionIndex {
    /// The index of the segment at `base`, its file `len` bytes long (0 when missing).
    pub fn new(folder: &Arc<Folder>, base: Offset, len: u64) -> Self {
        Self { slot: FileSlot::new(folder, base, FileKind::TxnIndex), len }
    }

    /// The file.
    pub fn slot(&mut self) -> &mut FileSlot {
        &mut self.slot
    }

    /// True when nothing was aborted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// `InvalidData` unless every entry is whole and not before `base`.
    pub fn check(&self, base: Offset) -> io::Result<()> {
        if !self.len.is_multiple_of(ENTRY_LEN as u64) {
            return Err(damaged("an entry is cut off"));
        }
        let mut sound = true;
        self.walk(IfCold::Wait, |_, entry| {
            sound &= entry.last_offset >= base;
            sound
        })?;
        if sound { Ok(()) } else { Err(damaged("an entry lies before the segment")) }
    }

    /// Adds an entry behind all others.
    pub fn append(&mut self, entry: &AbortedTransaction) -> io::Result<()> {
        let file = self.slot.created()?;
        if let Err(error) = file.write_at(&entry.write(), self.len) {
            let _ = file.set_len(self.len);
            return Err(error);
        }
        self.len += ENTRY_LEN as u64;
        Ok(())
    }

    /// Collects what concerns the offsets from `from` up to below `upper`; true
    /// when later segments need not be asked.
    pub fn collect(
        &self,
        from: Offset,
        upper: Offset,
        if_cold: IfCold,
        into: &mut Vec<AbortedTransaction>,
    ) -> io::Result<bool> {
        let mut complete = false;
        self.walk(if_cold, |_, entry| {
            if entry.last_offset >= from && entry.first_offset < upper {
                into.push(*entry);
            }
            complete = entry.last_stable_offset >= upper;
            !complete
        })?;
        Ok(complete)
    }

    /// Forgets the first entry that ends at `offset` or later, and all after it.
    pub fn truncate_to(&mut self, offset: Offset) -> io::Result<()> {
        let mut kept = self.len;
        self.walk(IfCold::Wait, |position, entry| {
            let before = entry.last_offset < offset;
            if !before {
                kept = position;
            }
            before
        })?;
        self.cut(kept)
    }

    /// Forgets everything.
    pub fn clear(&mut self) -> io::Result<()> {
        self.cut(0)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        if len < self.len {
            self.slot.existing()?.set_len(len)?;
            self.len = len;
        }
        Ok(())
    }

    /// The open file; `None` when there is no entry.
    pub fn file(&self) -> io::Result<Option<Arc<dyn DiskFile>>> {
        if self.len == 0 { Ok(None) } else { self.slot.existing().map(Some) }
    }

    /// Shows the entries in order with their positions, while `more` says so.
    fn walk(
        &self,
        if_cold: IfCold,
        mut more: impl FnMut(u64, &AbortedTransaction) -> bool,
    ) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let file = self.slot.existing()?;
        let mut page = [0; PAGE * ENTRY_LEN];
        let mut position = 0;
        while position < self.len {
            let wanted = usize::try_from(self.len - position).unwrap_or(usize::MAX).min(page.len());
            let bytes = page.get_mut(..wanted).unwrap_or_default();
            if_cold.read_exact_at(&file, bytes, position)?;
            for entry in bytes.chunks_exact(ENTRY_LEN) {
                if !more(position, &AbortedTransaction::read(entry)?) {
                    return Ok(());
                }
                position += ENTRY_LEN as u64;
            }
            if wanted < ENTRY_LEN {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::files::testing::folder;
    use crate::sys::disk::{Disk as _, Open};
    use crate::sys::memory_disk::MemoryDisk;

    fn aborted(producer: i64, first: i64, last: i64, stable: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: ProducerId(producer),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        }
    }

    #[test]
    fn collects_what_overlaps_and_knows_when_it_is_complete() {
        let disk = MemoryDisk::new();
        let mut index = TransactionIndex::new(&folder(&disk), Offset(0), 0);
        let entries = [aborted(1, 0, 10, 11), aborted(2, 5, 20, 21), aborted(3, 30, 40, 41)];
        entries.iter().for_each(|entry| index.append(entry).unwrap());
        let collect = |index: &TransactionIndex, from, upper| {
            let mut found = Vec::new();
            let complete =
                index.collect(Offset(from), Offset(upper), IfCold::Wait, &mut found).unwrap();
            (found, complete)
        };
        assert_eq!(collect(&index, 0, 100), (entries.to_vec(), false));
        assert_eq!(collect(&index, 11, 21), (vec![entries[1]], true));
        assert_eq!(collect(&index, 21, 30), (vec![], true));
        index.check(Offset(0)).unwrap();
        assert!(index.check(Offset(11)).is_err());
        index.truncate_to(Offset(20)).unwrap();
        assert_eq!(collect(&index, 0, 100).0, entries[..1]);
        let bytes = disk.bytes(Path::new("/d/00000000000000000000.txnindex"));
        assert_eq!(bytes.len(), ENTRY_LEN);
        assert_eq!(bytes[..10], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_cut_off_or_foreign_entry_is_damage() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        let index = TransactionIndex::new(&folder, Offset(0), 33);
        assert_eq!(index.check(Offset(0)).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let path = Path::new("/d/00000000000000000001.txnindex");
        disk.open(path, Open::Create).unwrap();
        disk.tamper(path, |bytes| *bytes = vec![1; 34]);
        let index = TransactionIndex::new(&folder, Offset(1), 34);
        assert_eq!(index.check(Offset(0)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
