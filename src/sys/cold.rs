//! Bytes that are not in memory: noticed instead of waited for, and brought in by
//! threads that nobody else waits for.
//!
//! A thread that serves many connections, or holds a lock that producers want,
//! must not wait for a disk. It reads with [`IfCold::Refuse`]; what it is told to
//! be [`Cold`] is read [`aside`], and then it tries again. Between the two the
//! bytes may be evicted once more, so whoever tries again either gets along
//! without them or waits after a few times.

use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::disk::DiskFile;

/// One page in so many bytes is looked at to tell whether a range is in memory:
/// what was written together is evicted together.
const SAMPLE: usize = 256 * 1024;

/// Bytes that are brought in by one read.
const PIECE: usize = 64 * 1024;

/// Around a [`Cold`] place this much is brought in.
const SURROUNDINGS: usize = 1024 * 1024;

/// What a read does where it would have to wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfCold {
    /// Wait.
    Wait,
    /// Fail with a [`Cold`] place.
    Refuse,
}

/// A place in a file that is not in memory.
#[derive(Clone, Debug, thiserror::Error)]
#[error("byte {position} of {file:?} is not in memory")]
pub struct Cold {
    file: Arc<dyn DiskFile>,
    position: u64,
    len: usize,
}

impl IfCold {
    /// Fills as much of `into` as the file holds from `position`; the count.
    pub fn read_at(
        self,
        file: &Arc<dyn DiskFile>,
        into: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        match self {
            Self::Wait => file.read_at(into, position),
            Self::Refuse => file.try_read_at(into, position).map_err(|error| {
                if error.kind() != io::ErrorKind::WouldBlock {
                    return error;
                }
                let (file, len) = (Arc::clone(file), into.len());
                io::Error::new(error.kind(), Cold { file, position, len })
            }),
        }
    }

    /// Fills `into` wholly; `UnexpectedEof` when the file ends first.
    pub fn read_exact_at(
        self,
        file: &Arc<dyn DiskFile>,
        into: &mut [u8],
        position: u64,
    ) -> io::Result<()> {
        if self.read_at(file, into, position)? == into.len() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file is shorter than expected"))
    }
}

impl Cold {
    /// The place that a read with [`IfCold::Refuse`] failed at, or its other error.
    pub fn place(error: io::Error) -> Result<Self, io::Error> {
        error.downcast()
    }

    /// Waits for the disk until all that was to be read and what lies around it are
    /// in memory.
    pub fn bring_in(&self) -> io::Result<()> {
        let before = (self.position % SURROUNDINGS as u64) as usize;
        let len = (before + self.len).next_multiple_of(SURROUNDINGS);
        bring_in(&*self.file, self.position - before as u64, len)
    }
}

/// False when bytes of the range have to be read from the disk. It looks at samples
/// only, and not at the front: whoever asks has read what lies there, or it is what was
/// appended last.
pub fn is_in_memory(file: &dyn DiskFile, position: u64, len: usize) -> bool {
    let ends = (SAMPLE..len).step_by(SAMPLE).chain([len]);
    let mut samples = ends.map(|end| position + end.saturating_sub(1) as u64);
    samples.all(|at| match file.try_read_at(&mut [0], at) {
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        Ok(_) => true,
    })
}

/// Waits until the range is in memory.
///
/// It reads all of it: what the system itself then reads ahead is laid out in larger
/// pages than what it is advised to, and sent at half the cost.
pub fn bring_in(file: &dyn DiskFile, position: u64, len: usize) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min(len)];
    let mut done = 0;
    while done < len {
        let wanted = piece.len().min(len - done);
        match file.read_at(piece.get_mut(..wanted).unwrap_or_default(), position + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(())
}

/// Does work that waits for disks on a thread of the runtime that is there for
/// it. There are few (see [`super::thread`]), and each caller waits for its own;
/// what has not begun when its caller goes never does, so that no more work piles up
/// than there are callers.
pub async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let mut task = Abandoned(tokio::task::spawn_blocking(work));
    (&mut task.0).await.map_err(io::Error::other)?
}

/// Takes work back from the queue when nobody waits for it any more.
struct Abandoned<T>(JoinHandle<T>);

impl<T> Drop for Abandoned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::sys::disk::{Disk as _, Open};
    use crate::sys::memory_disk::MemoryDisk;

    #[test]
    fn what_is_cold_is_refused_until_it_is_brought_in() {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/f"), Open::Create).unwrap();
        file.write_at(&vec![7; 3 * SURROUNDINGS], 0).unwrap();
        assert!(is_in_memory(&*file, 0, 3 * SURROUNDINGS));
        disk.evict(Path::new("/d/f"));
        let place = 5 * SURROUNDINGS as u64 / 2;
        let read = || IfCold::Refuse.read_exact_at(&file, &mut [0; 10], place);
        let cold = Cold::place(read().unwrap_err()).unwrap();
        assert!(!is_in_memory(&*file, place, 10));
        cold.bring_in().unwrap();
        read().unwrap();
        assert!(is_in_memory(&*file, 2 * SURROUNDINGS as u64, SURROUNDINGS));
        assert!(!is_in_memory(&*file, SURROUNDINGS as u64, 2 * SURROUNDINGS));
        assert!(!is_in_memory(&*file, SURROUNDINGS as u64, SURROUNDINGS));
        bring_in(&*file, 0, 9 * SURROUNDINGS).unwrap();
        assert!(is_in_memory(&*file, 0, 9 * SURROUNDINGS));
        disk.evict(Path::new("/d/f"));
        let border = SURROUNDINGS as u64 - 5;
        file.read_at(&mut [0; 5], border).unwrap();
        let read = || IfCold::Refuse.read_exact_at(&file, &mut [0; 10], border);
        Cold::place(read().unwrap_err()).unwrap().bring_in().unwrap();
        read().unwrap();
        bring_in(&*file, 0, 9 * SURROUNDINGS).unwrap();
        let beyond = IfCold::Refuse.read_exact_at(&file, &mut [0; 1], 3 * SURROUNDINGS as u64);
        let error = Cold::place(beyond.unwrap_err()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn work_that_nobody_waits_for_is_not_begun() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.max_blocking_threads(1).build().unwrap().block_on(async {
            let (release, held) = mpsc::channel();
            let first = tokio::spawn(aside(move || held.recv().map_err(io::Error::other)));
            tokio::task::yield_now().await;
            let begun = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&begun);
            let second = tokio::spawn(aside(move || {
                seen.store(true, Ordering::Release);
                Ok(())
            }));
            tokio::task::yield_now().await;
            second.abort();
            assert!(second.await.unwrap_err().is_cancelled());
            release.send(()).unwrap();
            first.await.unwrap().unwrap();
            aside(|| Ok(())).await.unwrap();
            assert!(!begun.load(Ordering::Acquire));
        });
    }
}
