//! Writes primitive values into a list of chunks: memory that is gathered, and
//! regions of files that pass by. `[P]`

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::codec::EncodeError;
use crate::values::{RawTaggedField, Records, Region};

/// Bytes from this number on go out as a chunk of their own, not copied.
const COPY_BELOW: usize = 1024;

/// A piece of an encoded message.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file.
    Region(Region),
}

impl Chunk {
    /// Bytes in this piece.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(region) => region.len,
        }
    }

    /// True when there is not one byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message being written.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: BytesMut,
    chunks: Vec<Chunk>,
    framed: bool,
}

impl Writer {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// A message that begins with its own length in four bytes, which `finish`
    /// fills in.
    pub fn framed() -> Self {
        let mut writer =
            Self { buffer: BytesMut::with_capacity(256), chunks: Vec::new(), framed: true };
        writer.buffer.put_i32(0);
        writer
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum::<usize>() + self.buffer.len()
    }

    /// True before the first byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer.put_slice(bytes);
    }

    /// Appends one byte.
    pub fn put_u8(&mut self, value: u8) {
        self.buffer.put_u8(value);
    }

    /// Appends seven bits a byte, low ones first.
    pub fn put_unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.buffer.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value as u8);
    }

    /// Appends a length or count, or null.
    pub fn put_length(
        &mut self,
        length: Option<usize>,
        flexible: bool,
        wide: bool,
    ) -> Result<(), EncodeError> {
        let limit = if wide { i32::MAX as usize } else { i16::MAX as usize };
        if length.is_some_and(|length| length > limit) {
            return Err(EncodeError::TooLong);
        }
        match (flexible, wide, length) {
            (true, _, None) => self.put_u8(0),
            (true, _, Some(length)) => self.put_unsigned_varint(length as u32 + 1),
            (false, true, length) => self.buffer.put_i32(length.map_or(-1, |length| length as i32)),
            (false, false, length) => {
                self.buffer.put_i16(length.map_or(-1, |length| length as i16))
            }
        }
        Ok(())
    }

    /// Appends bytes as they are; many are not copied.
    pub fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < COPY_BELOW {
            self.put(bytes);
        } else {
            self.close_buffer();
            self.chunks.push(Chunk::Bytes(bytes.clone()));
        }
    }

    /// Appends a record set, without its length; large ones are not copied.
    pub fn put_records(&mut self, records: &Records) {
        match records {
            Records::Bytes(bytes) => self.put_shared(bytes),
            Records::Regions(regions) => {
                for region in regions.iter().filter(|region| region.len > 0) {
                    self.close_buffer();
                    self.chunks.push(Chunk::Region(region.clone()));
                }
            }
        }
    }

    /// Appends a tag buffer of fields that are already encoded.
    pub fn raw_tagged_fields(&mut self, fields: &[RawTaggedField]) {
        self.put_unsigned_varint(fields.len() as u32);
        for field in fields {
            self.put_unsigned_varint(field.tag);
            self.put_unsigned_varint(field.data.len() as u32);
            self.put(&field.data);
        }
    }

    /// The message as a list of chunks; a framed one knows its length now.
    pub fn finish(mut self) -> Vec<Chunk> {
        if self.framed {
            let length = i32::try_from(self.len() - 4).unwrap_or(i32::MAX).to_be_bytes();
            match self.chunks.first_mut() {
                None => self.buffer[..4].copy_from_slice(&length),
                Some(first) => {
                    // The frame's first chunk always is memory that nobody shares.
                    if let Chunk::Bytes(bytes) = first {
                        let mut head = BytesMut::from(std::mem::take(bytes));
                        head[..4].copy_from_slice(&length);
                        *bytes = head.freeze();
                    }
                }
            }
        }
        self.close_buffer();
        self.chunks
    }

    /// The message in one piece; regions of files are read by nobody here, so a
    /// message that has some must go through `finish`.
    pub fn into_bytes(self) -> Bytes {
        let mut chunks = self.finish();
        if let [Chunk::Bytes(_)] = chunks.as_slice()
            && let Some(Chunk::Bytes(bytes)) = chunks.pop()
        {
            return bytes;
        }
        let mut all = BytesMut::new();
        for chunk in chunks {
            if let Chunk::Bytes(bytes) = chunk {
                all.extend_from_slice(&bytes);
            }
        }
        all.freeze()
    }

    fn close_buffer(&mut self) {
        if !self.buffer.is_empty() {
            self.chunks.push(Chunk::Bytes(self.buffer.split().freeze()));
        }
    }
}
