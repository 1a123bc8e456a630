//! Files and directories: the machine's, or a disk in memory that tears and
//! loses what was not synced.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Must exist; only read.
    Read,
    /// Must exist; read and written.
    Write,
    /// Created when missing; read and written.
    Create,
    /// Must not exist yet; read and written.
    CreateNew,
}

/// What a directory lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name within its directory.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// Bytes of a file; 0 for a directory.
    pub len: u64,
}

/// A file system. Paths are as the configuration gives them.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Opens or creates a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a directory and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Names, kinds and sizes in a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// True when the path names a file or directory.
    fn exists(&self, path: &Path) -> bool;
    /// Moves a file or directory over `to`, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes one file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes names created, renamed and removed in this directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Total and usable bytes of the volume that holds the path.
    fn space(&self, path: &Path) -> io::Result<(u64, u64)>;
    /// Takes an exclusive lock on a file (created when missing) that ends with
    /// the returned guard or the process; `WouldBlock` when another holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
}

/// An open file, read and written at positions.
pub trait DiskFile: Send + Sync + Debug + 'static {
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// Fills as much of `into` as the file holds from `position`; the count.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes all slices one after another from `position`.
    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Cuts or zero-extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the contents durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Milliseconds since 1970 of the last modification.
    fn modified(&self) -> io::Result<i64>;
    /// The descriptor, for sendfile and memory maps; none in memory.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
