//! Files that are opened when needed and closed when others need the
//! descriptors more.
//!
//! A broker with a hundred thousand partitions may not hold a descriptor for
//! each file of each segment. A [`FileSlot`] knows the path; [`OpenFiles`]
//! keeps the files opened last alive. One that falls out is closed once nobody
//! reads it, and opened again by the next who asks.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::sys::disk::{Disk, DiskFile, Open};

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

/// One file by its path, open or not.
#[derive(Debug)]
pub struct FileSlot {
    files: Arc<OpenFiles>,
    path: PathBuf,
    open: Mutex<Option<Weak<dyn DiskFile>>>,
}

impl FileSlot {
    /// The file at `path`, which need not exist yet.
    pub fn new(files: Arc<OpenFiles>, path: PathBuf) -> Self {
        Self { files, path, open: Mutex::new(None) }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk that it lies on.
    pub fn disk(&self) -> &dyn Disk {
        &**self.files.disk()
    }

    /// The open file; `NotFound` when there is none.
    pub fn existing(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.get(Open::Write)
    }

    /// The open file, created when there is none.
    pub fn created(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.get(Open::Create)
    }

    fn get(&self, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut open = self.open.lock();
        if let Some(file) = open.as_ref().and_then(Weak::upgrade) {
            return Ok(file);
        }
        let file = match self.files.disk().open(&self.path, how) {
            // What may only be read can still be served.
            Err(error) if how == Open::Write && is_write_refused(&error) => {
                self.files.disk().open(&self.path, Open::Read)?
            }
            other => other?,
        };
        *open = Some(Arc::downgrade(&file));
        drop(open);
        self.files.keep(file.clone());
        Ok(file)
    }

    /// Renames the file on disk, if there is one, and follows it.
    pub fn rename(&mut self, to: PathBuf) -> io::Result<()> {
        match self.files.disk().rename(&self.path, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.path = to,
        }
        Ok(())
    }

    /// Removes the file; nothing happens when there is none.
    pub fn remove(&self) -> io::Result<()> {
        *self.open.lock() = None;
        match self.files.disk().remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_write_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
