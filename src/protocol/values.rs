//! The values that messages are made of, beyond numbers: strings and record
//! sets that stay slices of the frame they came in. `[P]`

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::Bytes;

/// UTF-8 text, a slice of the frame it was read from.
///
/// It keeps the whole frame alive: copy it before it goes into lasting state.
#[derive(Clone, Default)]
pub struct Str(Bytes);

impl Str {
    /// Text that needs no memory of its own.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// The bytes as text; what is not UTF-8 turns into U+FFFD, as in Kafka, whose
    /// clients put any bytes into names and metadata.
    pub fn from_utf8_lossy(bytes: Bytes) -> Self {
        match String::from_utf8_lossy(&bytes) {
            Cow::Borrowed(_) => Self(bytes),
            Cow::Owned(mended) => Self::from(mended),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Checked where the value was made; asking again costs less than unsafe code.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The text's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Str {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<&Arc<str>> for Str {
    fn from(text: &Arc<str>) -> Self {
        Self::from(&**text)
    }
}

impl From<Str> for String {
    fn from(text: Str) -> Self {
        text.as_str().to_owned()
    }
}

impl From<&Str> for Arc<str> {
    fn from(text: &Str) -> Self {
        Self::from(text.as_str())
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Str {}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialOrd for Str {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Str {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for Str {
    /// As `str` hashes, so that maps keyed by `Str` can be asked with a `&str`.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

/// A file that record sets can be sent from.
pub trait RegionFile: Send + Sync + fmt::Debug {
    /// Fills as much of `into` as the file holds from `position`; the count.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// The same, but `WouldBlock` when it would have to wait for the disk.
    fn try_read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// False when something of the range would have to be read from the disk.
    fn is_in_memory(&self, position: u64, len: usize) -> bool;
    /// Waits until the range is in memory.
    fn bring_in(&self, position: u64, len: usize) -> io::Result<()>;
    /// The descriptor for sendfile; none for a file in memory.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// A piece of a file that goes from the page cache to the socket.
#[derive(Clone, Debug)]
pub struct Region {
    /// The file.
    pub file: Arc<dyn RegionFile>,
    /// First byte.
    pub position: u64,
    /// Bytes; never more than the file holds.
    pub len: usize,
}

/// A set of record batches: in memory, or still in files.
#[derive(Clone, Debug)]
pub enum Records {
    /// What decoding gives: a slice of the frame.
    Bytes(Bytes),
    /// What a fetch answers with.
    Regions(Vec<Region>),
}

impl Records {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Regions(regions) => regions.iter().map(|region| region.len).sum(),
        }
    }

    /// True when there is not one byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are in memory.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Regions(_) => None,
        }
    }
}

impl Default for Records {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl PartialEq for Records {
    /// Regions are never equal to anything but none at all: that would need I/O.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

/// A tagged field that the schema does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTaggedField {
    /// Its number.
    pub tag: u32,
    /// Its payload, without tag and size.
    pub data: Bytes,
}
