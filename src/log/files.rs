//! Files that are opened when needed and closed when others need the
//! descriptors more.
//!
//! A broker with a hundred thousand partitions may not hold a descriptor for
//! each file of each segment. A [`FileSlot`] knows the name; [`OpenFiles`]
//! keeps the files opened last alive. One that falls out is closed once nobody
//! reads it, and opened again by the next who asks.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::file_names::{FileKind, Phase, SegmentFile};
use crate::sys::disk::{Disk, DiskFile, Open};
use crate::types::Offset;

/// The disk, and the files on it that are kept open. Shared by many logs.
#[derive(Debug)]
pub struct OpenFiles {
    disk: Arc<dyn Disk>,
    capacity: usize,
    kept: Mutex<VecDeque<Arc<dyn DiskFile>>>,
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

    fn keep(&self, file: Arc<dyn DiskFile>) {
        let mut kept = self.kept.lock();
        let oldest = if kept.len() >= self.capacity { kept.pop_front() } else { None };
        kept.push_back(file);
        drop(kept);
        // Closing may take a while and needs no lock.
        drop(oldest);
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
    open: Mutex<Option<Weak<dyn DiskFile>>>,
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
        self.folder.changed(self.disk().open(&self.path(), Open::CreateNew)).map(drop)
    }

    fn get(&self, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut open = self.open.lock();
        if let Some(file) = open.as_ref().and_then(Weak::upgrade) {
            return Ok(file);
        }
        let path = self.path();
        let opened = self.disk().open(&path, how);
        let file = match if how == Open::Create { self.folder.changed(opened) } else { opened } {
            // What may only be read can still be served.
            Err(error) if how == Open::Write && is_write_refused(&error) => {
                self.disk().open(&path, Open::Read)?
            }
            other => other?,
        };
        *open = Some(Arc::downgrade(&file));
        drop(open);
        self.folder.files.keep(file.clone());
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
        *self.open.lock() = None;
        match self.folder.changed(self.disk().remove_file(&self.path())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_write_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
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
