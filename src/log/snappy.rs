//! Snappy as Java's clients frame it: xerial's stream of blocks. `[P]`
//!
//! ```text
//! 82 53 4e 41 50 50 59 00   magic
//! i32 version 1, i32 lowest compatible version 1
//! then per block: i32 length, raw snappy block (of at most 32 KiB plain)
//! ```
//!
//! Some producers send one raw snappy block without the header; it is read, too.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::io;

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_LEN: usize = 16;
/// Plain bytes in a block that we write, as in the Java library.
const BLOCK_LEN: usize = 32 * 1024;
/// The format gives at most 64 plain bytes for three packed ones; a block that
/// promises more is lying, and nothing is reserved for it.
const MOST_PER_BYTE: usize = 22;

/// Compresses `data` into a stream with header.
pub(super) fn write(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER_LEN + data.len() / 2);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&1i32.to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in data.chunks(BLOCK_LEN) {
        let packed = encoder.compress_vec(block)?;
        let length = i32::try_from(packed.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(out)
}

/// Reads a stream block by block.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    framed: Option<bool>,
    block: Vec<u8>,
    used: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { rest: data, framed: None, block: Vec::new(), used: 0 }
    }

    /// As [`io::Read::read`]. A block of more than `left` bytes is refused with
    /// [`io::ErrorKind::FileTooLarge`] and not unfolded.
    pub(super) fn read(&mut self, into: &mut [u8], left: usize) -> io::Result<usize> {
        while self.used == self.block.len() {
            if !self.next_block(left)? {
                return Ok(0);
            }
        }
        let ready = self.block.get(self.used..).unwrap_or_default();
        let count = ready.len().min(into.len());
        if let (Some(into), Some(ready)) = (into.get_mut(..count), ready.get(..count)) {
            into.copy_from_slice(ready);
        }
        self.used += count;
        Ok(count)
    }

    fn next_block(&mut self, left: usize) -> io::Result<bool> {
        let framed = match self.framed {
            Some(framed) => framed,
            None => self.start()?,
        };
        if self.rest.is_empty() {
            return Ok(false);
        }
        let packed = if framed { self.framed_block()? } else { std::mem::take(&mut self.rest) };
        let length = snap::raw::decompress_len(packed)?;
        if length > left {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if length > packed.len().saturating_mul(MOST_PER_BYTE) + 64 {
            return Err(io::Error::other("block declares more than snappy can pack"));
        }
        self.used = 0;
        self.block.resize(length, 0);
        let count = snap::raw::Decoder::new().decompress(packed, &mut self.block)?;
        self.block.truncate(count);
        Ok(true)
    }

    /// Tells a stream with header from a bare block, and steps over the header.
    fn start(&mut self) -> io::Result<bool> {
        let framed = self.rest.starts_with(&MAGIC);
        if framed {
            self.skip_header()?;
        }
        self.framed = Some(framed);
        Ok(framed)
    }

    fn skip_header(&mut self) -> io::Result<()> {
        let (header, rest) =
            self.rest.split_at_checked(HEADER_LEN).ok_or(io::ErrorKind::UnexpectedEof)?;
        // As Java's reader: the version counts, the compatible one does not.
        let version = header.get(8..).and_then(|rest| rest.first_chunk());
        if version.map_or(0, |bytes| i32::from_be_bytes(*bytes)) < 1 {
            return Err(io::Error::other("stream of an unknown version"));
        }
        self.rest = rest;
        Ok(())
    }

    fn framed_block(&mut self) -> io::Result<&'a [u8]> {
        // Streams may be strung together: then a header stands for a length.
        while self.rest.starts_with(&MAGIC) {
            self.skip_header()?;
        }
        let (length, rest) = self.rest.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(io::Error::other)?;
        let (block, rest) = rest.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.rest = rest;
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfold(data: &[u8], limit: usize) -> io::Result<Vec<u8>> {
        let mut reader = Reader::new(data);
        let mut out = Vec::new();
        let mut piece = [0; 1000];
        loop {
            match reader.read(&mut piece, limit - out.len())? {
                0 => return Ok(out),
                count => out.extend_from_slice(&piece[..count]),
            }
        }
    }

    #[test]
    fn the_header_is_xerials() {
        let packed = write(b"abc").unwrap();
        assert_eq!(packed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
        assert_eq!(packed[16..20], 5i32.to_be_bytes());
        assert_eq!(write(b"").unwrap().len(), 16);
    }

    #[test]
    fn bare_blocks_and_joined_streams_are_read() {
        let bare = snap::raw::Encoder::new().compress_vec(b"bare").unwrap();
        assert_eq!(unfold(&bare, 100).unwrap(), b"bare");
        let joined = [write(b"one ").unwrap(), write(b"two").unwrap()].concat();
        assert_eq!(unfold(&joined, 100).unwrap(), b"one two");
    }

    #[test]
    fn lies_about_lengths_are_refused() {
        let header = write(b"").unwrap();
        let cases: [(&str, &[u8]); 4] = [
            ("negative block length", &[0xff, 0xff, 0xff, 0xff, 1]),
            ("block cut short", &[0, 0, 0, 9, 1]),
            ("length cut short", &[0, 0]),
            // A varint of 2^32-1 plain bytes out of six packed ones.
            ("plain length", &[0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        ];
        for (name, tail) in cases {
            let data = [&header[..], tail].concat();
            assert!(unfold(&data, usize::MAX).is_err(), "{name}");
        }
        let mut unknown = header.clone();
        unknown[11] = 0;
        assert!(unfold(&unknown, 10).is_err());
        let mut compatible = header;
        compatible[15] = 0;
        assert_eq!(unfold(&compatible, 10).unwrap(), b"");
    }
}
