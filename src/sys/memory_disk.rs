//! A disk in memory for tests: it loses and tears what was not synced, breaks at
//! any operation that a test names, fills up, turns read-only, and keeps those waiting
//! who want what is not in its cache.
//!
//! What a crash may do is what POSIX allows, not what ext4 happens to do:
//! * of each file, any 512-byte sector written since its last sync is old or
//!   new, and its length is anything between the old and the new;
//! * of each directory, the names created, renamed and removed since its last
//!   `sync_dir` happened up to some point, in order (a rename is one step).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::disk::{Disk, DiskFile, DiskLock, Entry, Open};
use super::random::Random;

const SECTOR: usize = 512;
/// What is cached and evicted as one.
const PAGE: usize = 4096;
/// A test that waits for so long is one that has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file system in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    volume: Arc<Mutex<Volume>>,
    /// Told when the disk is no longer stalled.
    resumed: Arc<Condvar>,
}

/// What goes wrong, once it does.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Mutating operations that still succeed; the next one fails.
    pub after: u64,
    /// Only operations on paths below this one count and fail.
    pub under: PathBuf,
    /// The error that they get.
    pub kind: io::ErrorKind,
    /// Writes that fail leave part of their bytes behind.
    pub tears: bool,
    /// Reads fail too, as when the process is gone or the device is.
    pub reads: bool,
}

impl Fault {
    /// The process or machine stops at the operation after `after` more.
    pub fn stop(after: u64) -> Self {
        Self { after, under: PathBuf::new(), kind: io::ErrorKind::Other, tears: true, reads: true }
    }

    /// The volume is full after `after` more operations; reading goes on.
    pub fn full(after: u64) -> Self {
        Self { reads: false, kind: io::ErrorKind::StorageFull, ..Self::stop(after) }
    }

    /// Nothing can be changed any more; reading goes on.
    pub fn read_only() -> Self {
        let kind = io::ErrorKind::ReadOnlyFilesystem;
        Self { reads: false, tears: false, kind, ..Self::stop(0) }
    }

    /// The same, only for paths below `path`.
    pub fn under(self, path: impl Into<PathBuf>) -> Self {
        Self { under: path.into(), ..self }
    }
}

#[derive(Debug, Default)]
struct Volume {
    /// Directory contents by path: those that the process sees.
    directories: BTreeMap<PathBuf, Directory>,
    operations: u64,
    fault: Option<Fault>,
    clock: i64,
    /// What is read is not kept in memory.
    forgetful: bool,
    stalled: bool,
    /// Reads that had to wait until it is not.
    waits: usize,
    locks: Vec<PathBuf>,
    /// Each open file has one.
    open: Arc<()>,
    most_open: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Directory {
    files: BTreeMap<String, Arc<Mutex<Contents>>>,
    /// States of `files` since the last sync, oldest first: what a crash may
    /// go back to.
    history: Vec<BTreeMap<String, Arc<Mutex<Contents>>>>,
}

#[derive(Debug, Default)]
struct Contents {
    now: Vec<u8>,
    synced: Vec<u8>,
    modified: i64,
    read_only: bool,
    /// Pages that are not in memory.
    cold: BTreeSet<usize>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same disk as the code under test wants it.
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Mutating operations so far: the crash points that a test can try.
    pub fn operations(&self) -> u64 {
        self.volume.lock().operations
    }

    /// Lets something go wrong from some operation on.
    pub fn break_with(&self, fault: Fault) {
        self.volume.lock().fault = Some(fault);
    }

    /// Descriptors run out when so many files are open.
    pub fn allow_open(&self, most: usize) {
        self.volume.lock().most_open = Some(most);
    }

    /// Ends the fault; what it did stays done.
    pub fn heal(&self) {
        self.volume.lock().fault = None;
    }

    /// The process died: nothing that it wrote is lost. Ends the fault and all locks.
    pub fn process_killed(&self) {
        let mut volume = self.volume.lock();
        volume.fault = None;
        volume.locks.clear();
    }

    /// The power failed: what was not synced is lost or torn, by these dice.
    /// Ends the fault and all locks.
    pub fn power_lost(&self, dice: &Random) {
        self.process_killed();
        let mut volume = self.volume.lock();
        for directory in volume.directories.values_mut() {
            let states = directory.history.len() as u64;
            if let Some(state) = directory.history.get(dice.below(states + 1) as usize) {
                directory.files = state.clone();
            }
            directory.history.clear();
            for contents in directory.files.values() {
                contents.lock().lose(dice);
            }
        }
    }

    /// Takes what a file holds now out of memory.
    pub fn evict(&self, path: &Path) {
        let contents = self.volume.lock().file(path).unwrap();
        let mut contents = contents.lock();
        contents.cold = (0..contents.now.len().div_ceil(PAGE)).collect();
    }

    /// What is read from now on is evicted before anybody can read it again.
    pub fn forget_at_once(&self) {
        self.volume.lock().forgetful = true;
    }

    /// Whoever reads what is not in memory waits until [`Self::resume`].
    pub fn stall(&self) {
        self.volume.lock().stalled = true;
    }

    /// Reads that had to wait, or still do.
    pub fn waits(&self) -> usize {
        self.volume.lock().waits
    }

    /// Ends [`Self::stall`].
    pub fn resume(&self) {
        self.volume.lock().stalled = false;
        self.resumed.notify_all();
    }

    /// Changes a file behind everybody's back.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let contents = self.volume.lock().file(path).unwrap();
        let mut contents = contents.lock();
        change(&mut contents.now);
        contents.sync();
    }

    /// A file's bytes as a process sees them.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let contents = self.volume.lock().file(path).unwrap();
        contents.lock().now.clone()
    }
}

impl Contents {
    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
    }

    fn pages(position: u64, len: usize) -> std::ops::Range<usize> {
        let start = position as usize;
        start / PAGE..(start + len).div_ceil(PAGE)
    }

    fn is_cold(&self, position: u64, len: usize) -> bool {
        self.cold.range(Self::pages(position, len)).next().is_some()
    }

    fn lose(&mut self, dice: &Random) {
        let (short, long) =
            (self.synced.len().min(self.now.len()), self.synced.len().max(self.now.len()));
        let len = match dice.below(4) {
            0 => self.synced.len(),
            1 => self.now.len(),
            _ => short + dice.below((long - short) as u64 + 1) as usize,
        };
        let mut survived = vec![0; len];
        for (index, sector) in survived.chunks_mut(SECTOR).enumerate() {
            let source = if dice.below(3) == 0 { &self.synced } else { &self.now };
            let rest = source.get(index * SECTOR..).unwrap_or_default();
            let count = rest.len().min(sector.len());
            sector[..count].copy_from_slice(&rest[..count]);
        }
        self.synced.clone_from(&survived);
        self.now = survived;
    }
}

impl Volume {
    /// Counts a mutating operation; an error when it must fail, with whether a
    /// write leaves part of itself behind.
    fn mutate(&mut self, path: &Path) -> Result<(), (io::Error, bool)> {
        self.clock += 1;
        if let Some(fault) = self.fault.as_mut().filter(|fault| path.starts_with(&fault.under)) {
            if fault.after == 0 {
                return Err((fault.kind.into(), fault.tears));
            }
            fault.after -= 1;
        }
        self.operations += 1;
        Ok(())
    }

    fn mutate_name(&mut self, path: &Path) -> io::Result<()> {
        self.mutate(path).map_err(|(error, _)| error)
    }

    fn look(&self, path: &Path) -> io::Result<()> {
        match self.fault.as_ref().filter(|fault| path.starts_with(&fault.under)) {
            Some(fault) if fault.reads && fault.after == 0 => Err(fault.kind.into()),
            _ => Ok(()),
        }
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<Contents>>> {
        let (parent, name) = split(path)?;
        let found = self.directories.get(&parent).and_then(|directory| directory.files.get(&name));
        found.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The directory, with its present state kept as one a crash may go back to.
    fn change(&mut self, path: &Path) -> io::Result<&mut Directory> {
        let directory = self.directories.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        directory.history.push(directory.files.clone());
        Ok(directory)
    }

    fn has_subdirectories(&self, path: &Path) -> bool {
        self.directories.keys().any(|at| at != path && at.starts_with(path))
    }

    fn rename_directory(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.directories.get(to).is_some_and(|at| !at.files.is_empty())
            || self.has_subdirectories(to)
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let moved: Vec<_> =
            self.directories.keys().filter(|at| at.starts_with(from)).cloned().collect();
        for old in moved {
            let rest = old.strip_prefix(from).map_err(|_| io::ErrorKind::NotFound)?;
            let new = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            if let Some(directory) = self.directories.remove(&old) {
                self.directories.insert(new, directory);
            }
        }
        Ok(())
    }
}

fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let path = normal(path);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    Ok((path.parent().map(Path::to_owned).unwrap_or_default(), name))
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let path = normal(path);
        let mut volume = self.volume.lock();
        volume.look(&path)?;
        let open = volume.open.clone();
        if volume.most_open.is_some_and(|most| Arc::strong_count(&open) - 2 >= most) {
            return Err(rustix::io::Errno::MFILE.into());
        }
        let contents = match (volume.file(&path), how) {
            (Ok(_), Open::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(contents), how) => {
                if how != Open::Read && contents.lock().read_only {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                contents
            }
            (Err(error), Open::Read | Open::Write) => return Err(error),
            (Err(_), Open::Create | Open::CreateNew) => {
                volume.mutate_name(&path)?;
                let (parent, name) = split(&path)?;
                let modified = volume.clock;
                let contents = Arc::new(Mutex::new(Contents { modified, ..Contents::default() }));
                volume.change(&parent)?.files.insert(name, contents.clone());
                contents
            }
        };
        let writable = how != Open::Read;
        let (volume, resumed) = (self.volume.clone(), self.resumed.clone());
        Ok(Arc::new(MemoryFile { volume, resumed, path, contents, writable, _open: open }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = normal(path);
        let mut volume = self.volume.lock();
        if volume.directories.contains_key(&path) {
            return Ok(());
        }
        volume.mutate_name(&path)?;
        for ancestor in path.ancestors() {
            volume.directories.entry(ancestor.to_owned()).or_default();
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let path = normal(path);
        let volume = self.volume.lock();
        volume.look(&path)?;
        let directory = volume.directories.get(&path).ok_or(io::ErrorKind::NotFound)?;
        let files = directory.files.iter().map(|(name, contents)| Entry {
            name: name.clone(),
            is_dir: false,
            len: contents.lock().now.len() as u64,
        });
        let below = volume.directories.keys().filter(|at| at.parent() == Some(&*path));
        let directories = below.filter_map(|at| {
            let name = at.file_name()?.to_string_lossy().into_owned();
            Some(Entry { name, is_dir: true, len: 0 })
        });
        Ok(files.chain(directories).collect())
    }

    fn exists(&self, path: &Path) -> bool {
        let volume = self.volume.lock();
        volume.directories.contains_key(&normal(path)) || volume.file(path).is_ok()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normal(from), normal(to));
        let mut volume = self.volume.lock();
        volume.mutate_name(&from)?;
        if volume.directories.contains_key(&from) {
            return volume.rename_directory(&from, &to);
        }
        let (old_parent, old) = split(&from)?;
        let (new_parent, new) = split(&to)?;
        let contents = volume.file(&from)?;
        if !volume.directories.contains_key(&new_parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        volume.change(&old_parent)?.files.remove(&old);
        if old_parent != new_parent {
            volume.change(&new_parent)?;
        }
        let target = volume.directories.get_mut(&new_parent).ok_or(io::ErrorKind::NotFound)?;
        target.files.insert(new, contents);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut volume = self.volume.lock();
        volume.file(path)?;
        volume.mutate_name(&normal(path))?;
        let (parent, name) = split(path)?;
        volume.change(&parent)?.files.remove(&name);
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = normal(path);
        let mut volume = self.volume.lock();
        if !volume.directories.contains_key(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        volume.mutate_name(&path)?;
        volume.directories.retain(|at, _| !at.starts_with(&path));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = normal(path);
        let mut volume = self.volume.lock();
        volume.mutate_name(&path)?;
        volume.directories.get_mut(&path).ok_or(io::ErrorKind::NotFound)?.history.clear();
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<(u64, u64)> {
        Ok((1 << 40, 1 << 39))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.open(path, Open::Create)?;
        let path = normal(path);
        let mut volume = self.volume.lock();
        if volume.locks.contains(&path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        volume.locks.push(path.clone());
        Ok(Box::new(MemoryLock { volume: self.volume.clone(), path }))
    }
}

#[derive(Debug)]
struct MemoryLock {
    volume: Arc<Mutex<Volume>>,
    path: PathBuf,
}

impl DiskLock for MemoryLock {
    fn sync_all_beside(&self) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(&self.path);
        let mut volume = self.volume.lock();
        // What is broken further down breaks this, too.
        let broken = volume.fault.as_ref().map(|fault| fault.under.clone());
        let broken = broken.filter(|under| under.starts_with(directory));
        volume.mutate_name(broken.as_deref().unwrap_or(directory))?;
        for (at, below) in &mut volume.directories {
            if at.starts_with(directory) {
                below.history.clear();
                below.files.values().for_each(|contents| contents.lock().sync());
            }
        }
        Ok(())
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.volume.lock().locks.retain(|held| *held != self.path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    volume: Arc<Mutex<Volume>>,
    resumed: Arc<Condvar>,
    path: PathBuf,
    contents: Arc<Mutex<Contents>>,
    writable: bool,
    _open: Arc<()>,
}

impl MemoryFile {
    fn mutate(&self) -> Result<i64, (io::Error, bool)> {
        if !self.writable {
            return Err((io::ErrorKind::PermissionDenied.into(), false));
        }
        let mut volume = self.volume.lock();
        volume.mutate(&self.path)?;
        Ok(volume.clock)
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.volume.lock().look(&self.path)?;
        Ok(self.contents.lock().now.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut volume = self.volume.lock();
        while volume.stalled && self.contents.lock().is_cold(position, into.len()) {
            volume.waits += 1;
            let waited = self.resumed.wait_for(&mut volume, PATIENCE);
            if waited.timed_out() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        volume.look(&self.path)?;
        let mut contents = self.contents.lock();
        if !volume.forgetful {
            let pages = Contents::pages(position, into.len());
            contents.cold.retain(|page| !pages.contains(page));
        }
        drop(volume);
        let rest = contents.now.get(position as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn try_read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        if self.contents.lock().is_cold(position, into.len()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.read_at(into, position)
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let failed = match self.mutate() {
            Ok(now) => {
                self.contents.lock().modified = now;
                None
            }
            Err((error, tears)) => {
                bytes.truncate(if tears { bytes.len() / 2 } else { 0 });
                Some(error)
            }
        };
        let mut contents = self.contents.lock();
        let (start, end) = (position as usize, position as usize + bytes.len());
        if !bytes.is_empty() {
            let len = contents.now.len().max(end);
            contents.now.resize(len, 0);
            contents.now[start..end].copy_from_slice(&bytes);
        }
        failed.map_or(Ok(()), Err)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.mutate().map_err(|(error, _)| error)?;
        self.contents.lock().now.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // A file that was opened to read may be synced all the same, as in POSIX.
        self.volume.lock().mutate(&self.path).map_err(|(error, _)| error)?;
        self.contents.lock().sync();
        Ok(())
    }

    fn modified(&self) -> io::Result<i64> {
        Ok(self.contents.lock().modified)
    }

    fn set_modified(&self, millis: i64) -> io::Result<()> {
        self.mutate().map_err(|(error, _)| error)?;
        self.contents.lock().modified = millis;
        Ok(())
    }

    fn set_read_only(&self) -> io::Result<()> {
        self.mutate().map_err(|(error, _)| error)?;
        self.contents.lock().read_only = true;
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::disk::{read_small_file, replace_file};

    fn disk_with_dir() -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        disk
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() {
        let path = Path::new("/d/f");
        let (mut lost, mut kept) = (false, false);
        for seed in 0..64 {
            let disk = disk_with_dir();
            let file = disk.open(path, Open::Create).unwrap();
            file.write_at(&[1; 600], 0).unwrap();
            file.sync().unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            file.write_at(&[2; 600], 600).unwrap();
            disk.power_lost(&Random::from_seed(seed));
            let bytes = disk.bytes(path);
            assert!(bytes.len() >= 600 && bytes[..600] == [1; 600]);
            lost |= bytes.len() < 1200;
            kept |= bytes.len() == 1200 && bytes[600..] == [2; 600];
        }
        assert!(lost && kept);
    }

    #[test]
    fn a_name_without_a_synced_directory_may_vanish() {
        let mut vanished = false;
        for seed in 0..16 {
            let disk = disk_with_dir();
            disk.open(Path::new("/d/f"), Open::Create).unwrap().sync().unwrap();
            disk.power_lost(&Random::from_seed(seed));
            vanished |= !disk.exists(Path::new("/d/f"));
        }
        assert!(vanished);
    }

    #[test]
    fn all_that_is_below_a_directory_can_be_synced_at_once() {
        for seed in 0..16 {
            let disk = disk_with_dir();
            disk.create_dir_all(Path::new("/d/e")).unwrap();
            disk.create_dir_all(Path::new("/other")).unwrap();
            let below = |path| disk.lock(Path::new(path)).unwrap();
            let (here, elsewhere) = (below("/d/.lock"), below("/other/.lock"));
            for path in ["/d/f", "/d/e/g"] {
                let file = disk.open(Path::new(path), Open::Create).unwrap();
                file.write_at(&[1; 600], 0).unwrap();
            }
            disk.break_with(Fault::read_only().under("/d/e"));
            here.sync_all_beside().unwrap_err();
            elsewhere.sync_all_beside().unwrap();
            disk.heal();
            here.sync_all_beside().unwrap();
            disk.power_lost(&Random::from_seed(seed));
            assert_eq!(disk.bytes(Path::new("/d/f")), [1; 600]);
            assert_eq!(disk.bytes(Path::new("/d/e/g")), [1; 600]);
        }
    }

    #[test]
    fn a_replaced_file_is_old_or_new_whatever_breaks_when() {
        let path = Path::new("/d/f");
        for point in 0..8 {
            for seed in 0..8 {
                let disk = disk_with_dir();
                replace_file(&disk, path, b"old").unwrap();
                disk.break_with(Fault::stop(point));
                let done = replace_file(&disk, path, b"new, longer").is_ok();
                disk.power_lost(&Random::from_seed(seed));
                let bytes = read_small_file(&disk, path, 100).unwrap().unwrap();
                assert!(bytes == b"new, longer" || (bytes == b"old" && !done), "{point} {seed}");
            }
        }
    }

    #[test]
    fn a_full_disk_tears_writes_and_still_reads() {
        let disk = disk_with_dir();
        let file = disk.open(Path::new("/d/f"), Open::Create).unwrap();
        disk.break_with(Fault::full(1));
        file.write_at(b"1234", 0).unwrap();
        let error = file.write_at(b"5678", 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.len().unwrap(), 6);
        disk.heal();
        file.set_len(4).unwrap();
        assert_eq!(disk.bytes(Path::new("/d/f")), b"1234");
    }
}
