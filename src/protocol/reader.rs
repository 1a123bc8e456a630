//! Reads primitive values off a frame, never past its end. `[P]`

use bytes::Bytes;

use crate::codec::DecodeError;
use crate::values::RawTaggedField;

/// Memory that the elements of a message may take beside the frame itself: this
/// much, and [`MEMORY_PER_BYTE`] for each byte of it. An element of one byte on
/// the wire may take a hundred in memory; sound requests of any size have names
/// or ids in their elements and stay far below.
const MEMORY_AT_LEAST: usize = 64 << 20;
/// See [`MEMORY_AT_LEAST`].
const MEMORY_PER_BYTE: usize = 4;

/// A frame, and how far it has been read.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    at: usize,
    memory_left: usize,
}

impl Reader {
    /// Starts at the first byte.
    pub fn new(bytes: Bytes) -> Self {
        let memory_left =
            MEMORY_AT_LEAST.saturating_add(bytes.len().saturating_mul(MEMORY_PER_BYTE));
        Self { bytes, at: 0, memory_left }
    }

    /// Accounts for `count` elements of `size` bytes each in memory.
    pub fn charge(&mut self, count: usize, size: usize) -> Result<(), DecodeError> {
        let left = count.checked_mul(size).and_then(|memory| self.memory_left.checked_sub(memory));
        self.memory_left = left.ok_or(DecodeError::TooMuchMemory { count, size })?;
        Ok(())
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Bytes that were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next `len` bytes, as a slice of the frame.
    pub fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if len > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        let taken = self.bytes.slice(self.at..self.at + len);
        self.at += len;
        Ok(taken)
    }

    /// The next `N` bytes by value.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = *rest.first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.at += N;
        Ok(found)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Big-endian 16 bits.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(i16::from_be_bytes)
    }

    /// Big-endian 32 bits.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Big-endian 64 bits.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Seven bits a byte, low ones first; at most five bytes and 32 bits.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            if shift == 28 && byte > 0x0f {
                return Err(DecodeError::VarintTooLong);
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong)
    }

    /// A length or count: `None` for null, which is any negative number, as in
    /// Kafka. Compact ones are one more, unsigned.
    pub fn length(&mut self, flexible: bool, wide: bool) -> Result<Option<usize>, DecodeError> {
        let signed = if flexible {
            self.unsigned_varint()?.cast_signed().wrapping_sub(1)
        } else if wide {
            self.i32()?
        } else {
            i32::from(self.i16()?)
        };
        Ok(usize::try_from(signed).ok())
    }

    /// The tag buffer: hands each field to `take`, with a reader over its payload
    /// alone; `take` must read all of it.
    pub fn tagged_fields(
        &mut self,
        mut take: impl FnMut(u32, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.unsigned_varint()?;
        for _ in 0..count {
            self.charge(1, size_of::<RawTaggedField>())?;
            let tag = self.unsigned_varint()?;
            let size =
                usize::try_from(self.unsigned_varint()?).map_err(|_| DecodeError::Truncated)?;
            let mut payload =
                Self { bytes: self.take(size)?, at: 0, memory_left: self.memory_left };
            take(tag, &mut payload)?;
            self.memory_left = payload.memory_left;
            if payload.remaining() > 0 {
                return Err(DecodeError::TagSize { tag });
            }
        }
        Ok(())
    }

    /// All that is left, as a tagged field that nobody knows.
    pub fn raw_tagged_field(&mut self, tag: u32) -> RawTaggedField {
        let data = self.bytes.slice(self.at..);
        self.at = self.bytes.len();
        RawTaggedField { tag, data }
    }
}
