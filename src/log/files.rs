//! Files that are opened when needed and closed when others need the
//! descriptors more.
//!
//! A broker with a hundred thousand partitions may not hold a descriptor for
//! each file of each segment. A [`FileSlot`] knows the name; [`OpenFiles`]
//! keeps the files opened last alive. One that falls out is closed once nobody
//! reads it, and opened again by the next who asks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::file_names::{FileKind, Phase, SegmentFile};
use crate::sys::disk::{Disk, DiskFile, Open, is_exhaustion};
use crate::types::Offset;

/// The disk, and the files on it that are kept open. Shared by many logs.
#[derive(Debug)]
pub struct OpenFiles {
    disk: Arc<dyn Disk>,
    capacity: usize,
    kept: Mutex<Kept>,
}

/// Files that are kept open, in the order in which they were opened.
#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<u64, Arc<dyn DiskFile>>,
    next: u64,
}

impl OpenFiles {
    /// Keeps at most `capacity` files open beyond those in use.
    pub fn new(disk: Arc<dyn Disk>, capacity: usize) -> Arc<Self> {
        Arc::new(Self { disk, capacity: capacity.max(1), kept: Mutex::default() })
    }

    /// The disk below.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Opens a file. When descriptors have run out, some of those kept are closed for it.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        match self.disk.open(path, how) {
            Err(error) if is_exhaustion(&error) && self.let_go() => self.disk.open(path, how),
            other => other,
        }
    }

    /// Lets go of the half that was opened first; false when there is none.
    fn let_go(&self) -> bool {
        let oldest: Vec<_> = {
            let files = &mut self.kept.lock().files;
            let half = files.len().div_ceil(2);
            std::iter::from_fn(|| files.pop_first()).take(half).collect()
        };
        !oldest.is_empty()
    }

    /// Keeps a file, and gives back the number to forget it by, with a file that is
    /// kept no more: closing it may take a while, and wants no lock.
    fn keep(&self, file: Arc<dyn DiskFile>) -> (u64, Option<Arc<dyn DiskFile>>) {
        let mut kept = self.kept.lock();
        let full = kept.files.len() >= self.capacity;
        let oldest = if full { kept.files.pop_first() } else { None };
        let number = kept.next;
        kept.next += 1;
        kept.files.insert(number, file);
        (number, oldest.map(|(_, file)| file))
    }

    /// Keeps a file no longer: it is gone, and its space with it once nobody reads it.
    fn forget(&self, number: u64) {
        let file = self.kept.lock().files.remove(&number);
        drop(file);
    }
}

/// A directory whose files are opened on demand.
#[derive(Debug)]
pub struct Folder {
    /// Disk and open files.
    pub files: Arc<OpenFiles>,
    /// Where the directory lies.
    pub path: PathBuf,
    /// Counts what may have changed the names in it.
    changes: AtomicU64,
}

impl Folder {
    /// The directory at `path`, with names that may not be durable.
    pub fn new(files: &Arc<OpenFiles>, path: PathBuf) -> Arc<Self> {
        Arc::new(Self { files: files.clone(), path, changes: AtomicU64::new(1) })
    }

    /// Passes on what came of an operation that creates, renames or removes a file:
    /// the directory is to be synced.
    pub fn changed<T>(&self, outcome: T) -> T {
        self.changes.fetch_add(1, Ordering::AcqRel);
        outcome
    }

    /// How often that was; never 0.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

/// One file of a segment, open or not. The path is put together when it is
/// needed: a broker has very many of these.
#[derive(Debug)]
pub struct FileSlot {
    folder: Arc<Folder>,
    base: Offset,
    kind: FileKind,
    phase: Phase,
    /// The file when it was opened last, and by which number it is kept.
    open: Mutex<Option<(u64, Weak<dyn DiskFile>)>>,
}

impl FileSlot {
    /// The file of the segment at `base`, which need not exist yet.
    pub fn new(folder: &Arc<Folder>, base: Offset, kind: FileKind) -> Self {
        let phase = Phase::Live;
        Self { folder: folder.clone(), base, kind, phase, open: Mutex::new(None) }
    }

    /// The file is, or will be, under the name that it has in this phase.
    pub fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.path_in(self.phase)
    }

    fn path_in(&self, phase: Phase) -> PathBuf {
        let file = SegmentFile { offset: self.base, kind: self.kind, phase };
        self.folder.path.join(file.name())
    }

    fn disk(&self) -> &dyn Disk {
        &**self.folder.files.disk()
    }

    /// The open file; `NotFound` when there is none.
    pub fn existing(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.get(Open::Write)
    }

    /// The open file, created when there is none.
    pub fn created(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.get(Open::Create)
    }

    /// Creates the file, which must not be there, and lets go of it.
    pub fn create_new(&self) -> io::Result<()> {
        self.folder.changed(self.folder.files.open(&self.path(), Open::CreateNew)).map(drop)
    }

    fn get(&self, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut open = self.open.lock();
        if let Some(file) = open.as_ref().and_then(|(_, file)| file.upgrade()) {
            return Ok(file);
        }
        let path = self.path();
        let opened = self.folder.files.open(&path, how);
        let file = match if how == Open::Create { self.folder.changed(opened) } else { opened } {
            // What may only be read can still be served.
            Err(error) if how == Open::Write && is_write_refused(&error) => {
                self.folder.files.open(&path, Open::Read)?
            }
            other => other?,
        };
        let (number, oldest) = self.folder.files.keep(file.clone());
        *open = Some((number, Arc::downgrade(&file)));
        drop(open);
        drop(oldest);
        Ok(file)
    }

    /// Renames the file, if there is one, and follows it.
    pub fn rename(&mut self, phase: Phase) -> io::Result<()> {
        let renamed = self.disk().rename(&self.path(), &self.path_in(phase));
        match self.folder.changed(renamed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.phase = phase,
        }
        Ok(())
    }

    /// Removes the file; nothing happens when there is none.
    pub fn remove(&self) -> io::Result<()> {
        let open = self.open.lock().take();
        if let Some((number, _)) = open {
            self.folder.files.forget(number);
        }
        match self.folder.changed(self.disk().remove_file(&self.path())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for FileSlot {
    fn drop(&mut self) {
        if let Some((number, _)) = *self.open.get_mut() {
            self.folder.files.forget(number);
        }
    }
}

fn is_write_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory_disk::MemoryDisk;

    #[test]
    fn what_is_removed_or_given_up_is_not_kept_open() {
        let disk = MemoryDisk::new();
        let folder = testing::folder(&disk);
        let slot = |base| FileSlot::new(&folder, Offset(base), FileKind::Log);
        let (removed, given_up) = (slot(1), slot(2));
        let files = [&removed, &given_up].map(|slot| Arc::downgrade(&slot.created().unwrap()));
        assert!(files.iter().all(|file| file.upgrade().is_some()));
        removed.remove().unwrap();
        drop(given_up);
        assert!(files.iter().all(|file| file.upgrade().is_none()));
        // A file that was opened twice is kept by its last number.
        let again = slot(3);
        let first = Arc::downgrade(&again.created().unwrap());
        let (other, another) = (slot(4), slot(5));
        assert!(other.created().is_ok() && another.created().is_ok());
        assert!(first.upgrade().is_none());
        let second = Arc::downgrade(&again.existing().unwrap());
        again.remove().unwrap();
        assert!(second.upgrade().is_none());
    }

    #[test]
    fn files_kept_open_are_closed_when_descriptors_run_out() {
        let disk = MemoryDisk::new();
        let folder = testing::folder(&disk);
        let slot = |base| FileSlot::new(&folder, Offset(base), FileKind::Log);
        let (first, second) = (slot(1), slot(2));
        let file = Arc::downgrade(&first.created().unwrap());
        disk.allow_open(1);
        assert!(second.created().is_ok());
        assert!(file.upgrade().is_none());
    }
}

#[cfg(test)]
pub mod testing {
    //! A folder on a disk in memory.

    use super::*;
    use crate::sys::memory_disk::MemoryDisk;

    /// The directory `/d` on `disk`, with room for few open files.
    pub fn folder(disk: &MemoryDisk) -> Arc<Folder> {
        disk.create_dir_all("/d".as_ref()).unwrap();
        Folder::new(&OpenFiles::new(disk.shared(), 2), "/d".into())
    }
}
