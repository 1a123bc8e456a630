//! Walks over the batches of a file: their headers only, or with all their
//! bytes checked. Uses a bounded buffer whatever lengths the file names.

use std::io;
use std::sync::Arc;

use super::batch::{
    BatchError, BatchHeader, BatchView, HEADER_LEN, LOG_OVERHEAD, MAGIC_END, MAGIC_V2,
};
use super::crc::Crc32c;
use crate::sys::cold::IfCold;
use crate::sys::disk::DiskFile;

/// Bytes read at once where only headers are wanted.
const HEADERS_PAGE: usize = 4096;
/// Bytes read at once where everything is looked at.
const WHOLE_PAGE: usize = 1 << 20;
/// Where the part begins that the checksum of a batch covers.
const CRC_START_V2: u64 = 21;
const CRC_START_OLD: u64 = LOG_OVERHEAD as u64 + 4;

/// A batch's place in a file, and its header.
#[derive(Clone, Copy, Debug)]
pub struct BatchAt {
    /// Bytes before it.
    pub position: u64,
    /// The numbers at its front.
    pub header: BatchHeader,
}

impl BatchAt {
    /// Bytes before the next batch.
    pub fn end(&self) -> u64 {
        self.position + self.header.total_len as u64
    }
}

/// An error for bytes that are not what they should be.
pub fn damaged(position: u64, error: &BatchError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("batch at byte {position}: {error}"))
}

/// The headers of the batches from one position up to another.
#[derive(Debug)]
pub struct HeaderScan<'f> {
    file: &'f Arc<dyn DiskFile>,
    if_cold: IfCold,
    position: u64,
    end: u64,
    page: [u8; HEADERS_PAGE],
    page_start: u64,
    page_len: usize,
}

impl<'f> HeaderScan<'f> {
    /// Starts at `position`, where a batch begins, and ends at `end`.
    pub fn new(file: &'f Arc<dyn DiskFile>, if_cold: IfCold, position: u64, end: u64) -> Self {
        let page = [0; HEADERS_PAGE];
        Self { file, if_cold, position, end, page, page_start: 0, page_len: 0 }
    }

    /// The next batch, `None` at the end. `InvalidData` when there is something
    /// else, or only a part of one.
    pub fn next(&mut self) -> io::Result<Option<BatchAt>> {
        if self.position >= self.end {
            return Ok(None);
        }
        let position = self.position;
        let header =
            BatchHeader::parse(self.front()?).map_err(|error| damaged(position, &error))?;
        let at = BatchAt { position, header };
        if at.end() > self.end {
            let available = usize::try_from(self.end - position).unwrap_or(usize::MAX);
            let error = BatchError::Truncated { needed: header.total_len, available };
            return Err(damaged(position, &error));
        }
        self.position = at.end();
        Ok(Some(at))
    }

    /// The bytes at the present position: at least a header, unless the end comes first.
    fn front(&mut self) -> io::Result<&[u8]> {
        let inside = self.position.checked_sub(self.page_start);
        let inside = inside.and_then(|at| usize::try_from(at).ok());
        let cached = inside.filter(|at| at + HEADER_LEN <= self.page_len);
        let start = if let Some(at) = cached {
            at
        } else {
            let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
            let page = self.page.get_mut(..left.min(HEADERS_PAGE)).unwrap_or_default();
            self.page_len = self.if_cold.read_at(self.file, page, self.position)?;
            self.page_start = self.position;
            0
        };
        Ok(self.page.get(start..self.page_len).unwrap_or_default())
    }
}

/// What [`walk_sound`] shows: a batch whose checksum is right.
#[derive(Debug)]
pub struct SoundBatch<'b> {
    /// Place and header.
    pub at: BatchAt,
    /// All its bytes, when they fit the buffer (small ones always do).
    pub bytes: Option<&'b [u8]>,
}

/// Shows every batch from `start` up to `end` of the file whose structure and
/// checksum are right, and that `visit` accepts; the position after the last.
///
/// Ends at the first other one: that is where a torn tail begins. I/O errors
/// are not taken for a torn tail.
pub fn walk_sound(
    file: &dyn DiskFile,
    start: u64,
    end: u64,
    mut visit: impl FnMut(&SoundBatch<'_>) -> io::Result<bool>,
) -> io::Result<u64> {
    let mut page = vec![0; WHOLE_PAGE.min(usize::try_from(end.saturating_sub(start)).unwrap_or(0))];
    let (mut page_start, mut page_len) = (start, 0);
    let mut position = start;
    while position < end {
        let mut inside = usize::try_from(position - page_start).unwrap_or(usize::MAX);
        // A batch that is cut by the page's end is read anew from its start.
        if !holds_batch(page.get(inside..page_len).unwrap_or_default()) {
            page_len = file.read_at(&mut page, position)?;
            (page_start, inside) = (position, 0);
        }
        let front = page.get(inside..page_len).unwrap_or_default();
        let Ok(header) = BatchHeader::parse(front) else { break };
        let at = BatchAt { position, header };
        if at.end() > end {
            break;
        }
        let bytes = front.get(..header.total_len);
        let sound = match bytes {
            Some(bytes) => is_sound(&header, bytes),
            None => is_sound_in_pieces(file, &at)?,
        };
        if !sound || !visit(&SoundBatch { at, bytes })? {
            break;
        }
        position = at.end();
    }
    Ok(position)
}

/// Shows every batch from `start` up to `end` of the file with all its bytes, until
/// `visit` says that it is enough. Reads `page_len` bytes at once, more only for a
/// larger batch.
///
/// # Errors
/// `InvalidData` where there is something else, or a wrong checksum.
pub fn walk_whole<E: From<io::Error>>(
    file: &dyn DiskFile,
    start: u64,
    end: u64,
    page_len: usize,
    mut visit: impl FnMut(&BatchView<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    let mut page = vec![0; page_len.max(HEADER_LEN)];
    let mut position = start;
    while position < end {
        let left = usize::try_from(end - position).unwrap_or(usize::MAX);
        let wanted = page.len().min(left);
        let read = file.read_at(page.get_mut(..wanted).unwrap_or_default(), position)?;
        let mut rest = page.get(..read).unwrap_or_default();
        let at_page = position;
        let needed = loop {
            let error = match BatchView::parse(rest) {
                Ok(batch) => {
                    batch.check_crc().map_err(|error| damaged(position, &error))?;
                    if !visit(&batch)? {
                        return Ok(());
                    }
                    position += batch.bytes().len() as u64;
                    rest = rest.get(batch.bytes().len()..).unwrap_or_default();
                    continue;
                }
                Err(error) => error,
            };
            match error {
                BatchError::Truncated { needed, .. } if needed <= left => break needed,
                _ if position == end => return Ok(()),
                error => return Err(damaged(position, &error).into()),
            }
        };
        if position == at_page {
            if read < wanted || needed <= page.len() {
                // The file ends before the segment does.
                return Err(
                    damaged(position, &BatchError::Truncated { needed, available: read }).into()
                );
            }
            page.resize(needed, 0);
        }
    }
    Ok(())
}

fn holds_batch(bytes: &[u8]) -> bool {
    bytes.len() >= MAGIC_END
        && BatchHeader::parse(bytes).is_ok_and(|header| bytes.len() >= header.total_len)
}

fn is_sound(header: &BatchHeader, bytes: &[u8]) -> bool {
    let mut crc = Checksum::of(header.magic);
    crc.update(bytes.get(crc.covered_from() as usize..).unwrap_or_default());
    crc.finish() == header.crc
}

fn is_sound_in_pieces(file: &dyn DiskFile, at: &BatchAt) -> io::Result<bool> {
    let mut crc = Checksum::of(at.header.magic);
    let mut position = at.position + crc.covered_from();
    let mut page = vec![0; WHOLE_PAGE];
    while position < at.end() {
        let wanted = usize::try_from(at.end() - position).unwrap_or(usize::MAX).min(WHOLE_PAGE);
        let piece = page.get_mut(..wanted).unwrap_or_default();
        file.read_exact_at(piece, position)?;
        crc.update(piece);
        position += wanted as u64;
    }
    Ok(crc.finish() == at.header.crc)
}

#[expect(clippy::large_enum_variant, reason = "there is one, on the stack")]
enum Checksum {
    Castagnoli(Crc32c),
    Ieee(flate2::Crc),
}

impl Checksum {
    fn of(magic: i8) -> Self {
        if magic == MAGIC_V2 {
            Self::Castagnoli(Crc32c::default())
        } else {
            Self::Ieee(flate2::Crc::new())
        }
    }

    fn covered_from(&self) -> u64 {
        match self {
            Self::Castagnoli(_) => CRC_START_V2,
            Self::Ieee(_) => CRC_START_OLD,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Castagnoli(crc) => crc.update(bytes),
            Self::Ieee(crc) => crc.update(bytes),
        }
    }

    fn finish(&self) -> u32 {
        match self {
            Self::Castagnoli(crc) => crc.finish(),
            Self::Ieee(crc) => crc.sum(),
        }
    }
}
