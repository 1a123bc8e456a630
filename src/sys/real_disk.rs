//! The machine's file system.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::FlockOperation;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::disk::{Disk, DiskFile, DiskLock, Entry, Open};

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The machine's file system, shared.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(Self)
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => {}
            Open::Write => {
                options.write(true);
            }
            Open::Create => {
                options.write(true).create(true);
            }
            Open::CreateNew => {
                options.write(true).create_new(true);
            }
        }
        Ok(Arc::new(RealFile { file: options.open(path)? }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let (is_dir, len) = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                (true, 0)
            } else {
                // Of a link, what it points to counts; what vanished meanwhile is not listed.
                let Ok(metadata) = fs::metadata(entry.path()) else { continue };
                (metadata.is_dir(), if metadata.is_dir() { 0 } else { metadata.len() })
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(Entry { name, is_dir, len });
        }
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // An empty parent is what a relative path of one component has.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(path)?.sync_all()
    }

    fn space(&self, path: &Path) -> io::Result<(u64, u64)> {
        let volume = rustix::fs::statvfs(path)?;
        let unit = volume.f_frsize;
        Ok((volume.f_blocks.saturating_mul(unit), volume.f_bavail.saturating_mul(unit)))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut held = HELD.lock();
        let held = held.get_or_insert_default();
        // Looked at before it is opened: closing any descriptor of the file
        // would drop the lock that this process holds on it.
        if fs::metadata(path).is_ok_and(|at| held.contains(&(at.dev(), at.ino()))) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        match rustix::fs::fcntl_lock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
        let metadata = file.metadata()?;
        let inode = (metadata.dev(), metadata.ino());
        held.insert(inode);
        Ok(Box::new(RealLock { file, inode }))
    }
}

/// Files that this process has locked. POSIX locks, which are what Java takes,
/// exclude only other processes, and a second broker in this one must be
/// excluded too.
static HELD: Mutex<Option<HashSet<(u64, u64)>>> = Mutex::new(None);

/// The lock is let go when its file closes.
#[derive(Debug)]
struct RealLock {
    file: File,
    inode: (u64, u64),
}

impl DiskLock for RealLock {
    fn sync_all_beside(&self) -> io::Result<()> {
        // Since Linux 5.8 it fails when something could not be written since the file
        // was opened, whoever else may have been told of it.
        Ok(rustix::fs::syncfs(&self.file)?)
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        let _ = rustix::fs::fcntl_lock(self.file.as_fd(), FlockOperation::NonBlockingUnlock);
        if let Some(held) = HELD.lock().as_mut() {
            held.remove(&self.inode);
        }
    }
}

/// A file of the machine.
#[derive(Debug)]
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn try_read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let slices = &mut [IoSliceMut::new(rest)];
            match preadv2(&self.file, slices, position + filled as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                // Not every file system can tell.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.read_at(into, position),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut rest = slices;
        let mut position = position;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::pwritev(&self.file, rest, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    position += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn modified(&self) -> io::Result<i64> {
        let modified = self.file.metadata()?.modified()?;
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn set_modified(&self, millis: i64) -> io::Result<()> {
        let since = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        self.file.set_modified(UNIX_EPOCH + since)
    }

    fn set_read_only(&self) -> io::Result<()> {
        let mut permissions = self.file.metadata()?.permissions();
        permissions.set_readonly(true);
        self.file.set_permissions(permissions)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_written_one_after_another_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk.open(&dir.path().join("a"), Open::CreateNew).unwrap();
        let mut slices = [IoSlice::new(b""), IoSlice::new(b"head"), IoSlice::new(b"er, rest")];
        file.write_all_at(&mut slices, 3).unwrap();
        let mut bytes = [9; 20];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 15);
        assert_eq!(&bytes[..15], b"\0\0\0header, rest");
        assert!(RealDisk.open(&dir.path().join("a"), Open::CreateNew).is_err());
        assert!(RealDisk.open(&dir.path().join("b"), Open::Write).is_err());
    }

    #[test]
    fn a_read_that_may_not_wait_gives_the_same_bytes_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk.open(&dir.path().join("a"), Open::CreateNew).unwrap();
        let contents: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
        file.write_at(&contents, 0).unwrap();
        let mut bytes = vec![0; 200_000];
        assert_eq!(file.try_read_at(&mut bytes, 1000).unwrap(), 99_000);
        assert!(bytes.starts_with(&contents[1000..]));
        file.sync().unwrap();
        let descriptor = file.descriptor().unwrap();
        rustix::fs::fadvise(descriptor, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // Not every file system can evict.
        match file.try_read_at(&mut bytes, 0) {
            Ok(count) => assert!(count == 100_000 && bytes.starts_with(&contents)),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 100_000);
        assert!(bytes.starts_with(&contents));
    }

    #[test]
    fn a_lock_excludes_a_second_one_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let first = RealDisk.lock(&path).unwrap();
        assert_eq!(RealDisk.lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        RealDisk.lock(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_read_only_says_so_and_can_go_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = RealDisk.open(&path, Open::Create).unwrap();
        file.write_at(b"1", 0).unwrap();
        file.set_read_only().unwrap();
        assert!(fs::metadata(&path).unwrap().permissions().readonly());
        file.set_modified(1_700_000_000_123).unwrap();
        assert_eq!(file.modified().unwrap(), 1_700_000_000_123);
        RealDisk.remove_file(&path).unwrap();
    }

    #[test]
    fn listing_tells_files_from_directories_and_their_sizes() {
        let dir = tempfile::tempdir().unwrap();
        RealDisk.create_dir_all(&dir.path().join("t-0")).unwrap();
        let file = RealDisk.open(&dir.path().join("f"), Open::Create).unwrap();
        file.write_at(b"12345", 0).unwrap();
        let mut entries = RealDisk.list(dir.path()).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let entry = |name: &str, is_dir, len| Entry { name: name.to_owned(), is_dir, len };
        assert_eq!(entries, [entry("f", false, 5), entry("t-0", true, 0)]);
        let (total, usable) = RealDisk.space(dir.path()).unwrap();
        assert!(total > 0 && usable <= total);
    }
}
