//! Pieces of an answer: bytes in memory, or a range of a file that goes to the
//! socket without passing through the broker.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::Bytes;

/// A file that ranges of it can be sent from.
pub trait RegionFile: Send + Sync + Debug {
    /// Fills as much of `into` as the file holds from `position`; the count.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// The descriptor for sendfile; none for a file in memory.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// A range of a file.
#[derive(Clone, Debug)]
pub struct Region {
    /// Kept open for as long as the range is wanted.
    pub file: Arc<dyn RegionFile>,
    /// First byte.
    pub position: u64,
    /// Bytes.
    pub len: usize,
}

/// A piece of an answer.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a file.
    Region(Region),
}

impl Chunk {
    /// Bytes that it puts on the wire.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(region) => region.len,
        }
    }
}
