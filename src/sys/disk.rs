//! The shape of a disk: what the house asks of files and directories.
//!
//! `real_disk` is the machine's; `memory_disk` (tests only) is one in memory
//! that tears and loses what was not synced. Everything is positional and
//! blocking: a buffered write costs microseconds, a thread hop costs more.

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
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// Holds a file lock; dropping it lets the lock go.
pub trait DiskLock: Send + Sync + Debug {
    /// Makes all that is below the file's directory durable at once, contents and
    /// names, and with it whatever else the volume holds: for so many files that
    /// syncing them one by one takes longer. Tells of what could not be written since
    /// the lock was taken, too.
    fn sync_all_beside(&self) -> io::Result<()>;
}

/// An open file, read and written at positions.
pub trait DiskFile: Send + Sync + Debug + 'static {
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// Fills as much of `into` as the file holds from `position`; the count.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// The same, but `WouldBlock` when it would have to wait for the disk.
    fn try_read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes all slices one after another from `position`.
    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Cuts or zero-extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the contents durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Milliseconds since 1970 of the last modification.
    fn modified(&self) -> io::Result<i64>;
    /// Sets that time.
    fn set_modified(&self, millis: i64) -> io::Result<()>;
    /// Takes everybody's permission to write away; this handle keeps its own.
    fn set_read_only(&self) -> io::Result<()>;
    /// The descriptor, for sendfile and memory maps; none in memory.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

impl dyn DiskFile {
    /// Fills `into` wholly from `position`; `UnexpectedEof` when the file ends first.
    pub fn read_exact_at(&self, into: &mut [u8], position: u64) -> io::Result<()> {
        if self.read_at(into, position)? == into.len() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file is shorter than expected"))
    }

    /// Reads from `position` to the end, at most `limit` bytes.
    pub fn read_to_end_at(&self, position: u64, limit: usize) -> io::Result<Vec<u8>> {
        let left = self.len()?.saturating_sub(position);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(limit);
        let mut bytes = vec![0; wanted];
        let read = self.read_at(&mut bytes, position)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes one run of bytes at `position`.
    pub fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(&mut [IoSlice::new(bytes)], position)
    }
}

/// True when the system has run out of something that comes back: descriptors
/// or memory. It says nothing about the disk.
pub fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let out_of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| out_of.iter().any(|e| e.raw_os_error() == code))
}

/// Replaces a small file as a whole, so that after a crash it holds either the
/// old contents or the new: `<path>.tmp`, sync, rename, sync of the directory.
/// Leaves no `.tmp` behind when it fails.
pub fn replace_file(disk: &dyn Disk, path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(disk, path, contents, true)?;
    path.parent().map_or(Ok(()), |parent| disk.sync_dir(parent))
}

/// The same without any sync: it holds when the process dies, but when the
/// machine does it may be neither the old nor the new.
pub fn replace_file_unsynced(disk: &dyn Disk, path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(disk, path, contents, false)
}

fn replace(disk: &dyn Disk, path: &Path, contents: &[u8], sync: bool) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = std::path::PathBuf::from(name);
    let written = (|| {
        let file = disk.open(&temporary, Open::Create)?;
        file.set_len(0)?;
        file.write_at(contents, 0)?;
        if sync {
            file.sync()?;
        }
        disk.rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = disk.remove_file(&temporary);
    }
    written
}

/// A small file as a whole, `None` when there is none; `InvalidData` when it is
/// larger than `limit` bytes.
pub fn read_small_file(disk: &dyn Disk, path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = file.read_to_end_at(0, limit.saturating_add(1))?;
    if bytes.len() > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "file is larger than it may be"));
    }
    Ok(Some(bytes))
}
