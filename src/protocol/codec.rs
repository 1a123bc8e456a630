//! How values are read and written: the traits that generated messages use. `[P]`

use std::ops::RangeInclusive;

pub(crate) use bytes::Bytes;
pub(crate) use uuid::Uuid;

pub(crate) use crate::reader::Reader;
pub(crate) use crate::values::{RawTaggedField, Records, Str};
pub(crate) use crate::writer::Writer;

/// At most this many elements are reserved before the first is read: a count
/// from the wire is a claim, not a fact.
const RESERVE_AT_MOST: usize = 1024;

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame ends inside a value.
    #[error("the bytes end inside a value")]
    Truncated,
    /// A count that the rest of the frame cannot hold.
    #[error("an array of {count} elements in {remaining} bytes")]
    TooManyElements {
        /// What was claimed.
        count: usize,
        /// What is left of the frame.
        remaining: usize,
    },
    /// More elements than the size of the frame justifies.
    #[error("an array of {count} elements of {size} bytes in memory")]
    TooMuchMemory {
        /// How many were claimed.
        count: usize,
        /// What each takes.
        size: usize,
    },
    /// Null where the version allows none.
    #[error("null where a value must stand")]
    UnexpectedNull,
    /// Text of more than 32,767 bytes.
    #[error("text of {0} bytes")]
    TextTooLong(usize),
    /// A varint that does not fit.
    #[error("varint too long")]
    VarintTooLong,
    /// A tagged field whose size is not that of its value.
    #[error("tagged field {tag} is larger than its value")]
    TagSize {
        /// The field's number.
        tag: u32,
    },
    /// A version that the schema does not have.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
}

/// Why a message cannot be written in a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A value that this version has no field for.
    #[error("version {version} cannot carry {field}")]
    NotInVersion {
        /// The field's name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// Null in a version that allows none.
    #[error("{field} must not be null")]
    Null {
        /// The field's name.
        field: &'static str,
    },
    /// A string, array or byte string beyond the format's limit.
    #[error("a value longer than its format allows")]
    TooLong,
    /// A version that the schema does not have.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
}

/// A whole message or record: the root struct of a schema.
pub trait Message: Field + Default {
    /// Kafka's name, `FetchRequest`.
    const NAME: &'static str;
    /// API key or record type.
    const KEY: Option<i16>;
    /// Versions that the schema describes.
    const VERSIONS: RangeInclusive<i16>;
    /// True when Kafka 4.4 holds back the newest version.
    const NEWEST_UNSTABLE: bool;

    /// True for versions with compact lengths and tag buffers.
    fn is_flexible(version: i16) -> bool;

    /// Reads a message; what follows it stays in the reader.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        Self::read(reader, version, Self::is_flexible(version))
    }

    /// Writes a message.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version });
        }
        self.write(writer, version, Self::is_flexible(version))
    }
}

/// A value that reads and writes itself.
pub trait Field: Sized {
    /// Reads the value as `version` has it.
    fn read(r: &mut Reader, version: i16, flexible: bool) -> Result<Self, DecodeError>;
    /// Writes the value as `version` has it.
    fn write(&self, w: &mut Writer, version: i16, flexible: bool) -> Result<(), EncodeError>;
}

/// A value that may be null.
pub trait Nullable: Field {
    /// Reads the value or null.
    fn read_nullable(
        r: &mut Reader,
        version: i16,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError>;
    /// Writes null.
    fn write_null(w: &mut Writer, flexible: bool) -> Result<(), EncodeError>;
    /// Writes what precedes a value that is there; nothing for most.
    fn write_present(_w: &mut Writer) {}
}

/// A struct: null is told by a byte before it.
pub trait Struct: Field {}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn read(r: &mut Reader, _version: i16, _flexible: bool) -> Result<Self, DecodeError> {
                r.array().map(Self::from_be_bytes)
            }
            fn write(&self, w: &mut Writer, _version: i16, _flexible: bool) -> Result<(), EncodeError> {
                w.put(&self.to_be_bytes());
                Ok(())
            }
        }
    )*};
}
number!(i8, i16, i32, i64, u16, u32, f64);

impl Field for bool {
    fn read(r: &mut Reader, _version: i16, _flexible: bool) -> Result<Self, DecodeError> {
        Ok(r.u8()? != 0)
    }
    fn write(&self, w: &mut Writer, _version: i16, _flexible: bool) -> Result<(), EncodeError> {
        w.put_u8(u8::from(*self));
        Ok(())
    }
}

impl Field for Uuid {
    fn read(r: &mut Reader, _version: i16, _flexible: bool) -> Result<Self, DecodeError> {
        r.array().map(Self::from_bytes)
    }
    fn write(&self, w: &mut Writer, _version: i16, _flexible: bool) -> Result<(), EncodeError> {
        w.put(self.as_bytes());
        Ok(())
    }
}

/// Reads a value that must not be null.
fn present<T: Nullable>(r: &mut Reader, version: i16, flexible: bool) -> Result<T, DecodeError> {
    T::read_nullable(r, version, flexible)?.ok_or(DecodeError::UnexpectedNull)
}

impl Field for Str {
    fn read(r: &mut Reader, version: i16, flexible: bool) -> Result<Self, DecodeError> {
        present(r, version, flexible)
    }
    fn write(&self, w: &mut Writer, _version: i16, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(Some(self.as_bytes().len()), flexible, false)?;
        w.put(self.as_bytes());
        Ok(())
    }
}

impl Nullable for Str {
    fn read_nullable(
        r: &mut Reader,
        _version: i16,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(length) = r.length(flexible, false)? else { return Ok(None) };
        if length > i16::MAX as usize {
            return Err(DecodeError::TextTooLong(length));
        }
        Ok(Some(Self::from_utf8_lossy(r.take(length)?)))
    }
    fn write_null(w: &mut Writer, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(None, flexible, false)
    }
}

impl Field for Bytes {
    fn read(r: &mut Reader, version: i16, flexible: bool) -> Result<Self, DecodeError> {
        present(r, version, flexible)
    }
    fn write(&self, w: &mut Writer, _version: i16, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(Some(self.len()), flexible, true)?;
        w.put(self);
        Ok(())
    }
}

impl Nullable for Bytes {
    fn read_nullable(
        r: &mut Reader,
        _version: i16,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError> {
        r.length(flexible, true)?.map(|length| r.take(length)).transpose()
    }
    fn write_null(w: &mut Writer, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(None, flexible, true)
    }
}

impl Field for Records {
    fn read(r: &mut Reader, version: i16, flexible: bool) -> Result<Self, DecodeError> {
        present(r, version, flexible)
    }
    fn write(&self, w: &mut Writer, _version: i16, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(Some(self.len()), flexible, true)?;
        w.put_records(self);
        Ok(())
    }
}

impl Nullable for Records {
    fn read_nullable(
        r: &mut Reader,
        version: i16,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError> {
        Ok(Bytes::read_nullable(r, version, flexible)?.map(Self::Bytes))
    }
    fn write_null(w: &mut Writer, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(None, flexible, true)
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(r: &mut Reader, version: i16, flexible: bool) -> Result<Self, DecodeError> {
        present(r, version, flexible)
    }
    fn write(&self, w: &mut Writer, version: i16, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(Some(self.len()), flexible, true)?;
        self.iter().try_for_each(|element| element.write(w, version, flexible))
    }
}

impl<T: Field> Nullable for Vec<T> {
    fn read_nullable(
        r: &mut Reader,
        version: i16,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(count) = r.length(flexible, true)? else { return Ok(None) };
        let remaining = r.remaining();
        if count > remaining {
            return Err(DecodeError::TooManyElements { count, remaining });
        }
        r.charge(count, size_of::<T>())?;
        let mut elements = Self::with_capacity(count.min(RESERVE_AT_MOST));
        for _ in 0..count {
            elements.push(T::read(r, version, flexible)?);
        }
        Ok(Some(elements))
    }
    fn write_null(w: &mut Writer, flexible: bool) -> Result<(), EncodeError> {
        w.put_length(None, flexible, true)
    }
}

impl<T: Struct> Nullable for T {
    fn read_nullable(
        r: &mut Reader,
        version: i16,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError> {
        if i8::read(r, version, flexible)? < 0 {
            return Ok(None);
        }
        T::read(r, version, flexible).map(Some)
    }
    fn write_null(w: &mut Writer, _flexible: bool) -> Result<(), EncodeError> {
        w.put(&(-1_i8).to_be_bytes());
        Ok(())
    }
    fn write_present(w: &mut Writer) {
        w.put_u8(1);
    }
}

impl<T: Nullable> Field for Option<T> {
    fn read(r: &mut Reader, version: i16, flexible: bool) -> Result<Self, DecodeError> {
        T::read_nullable(r, version, flexible)
    }
    fn write(&self, w: &mut Writer, version: i16, flexible: bool) -> Result<(), EncodeError> {
        match self {
            None => T::write_null(w, flexible),
            Some(value) => {
                T::write_present(w);
                value.write(w, version, flexible)
            }
        }
    }
}

/// A nullable struct inside a tag: an unsigned varint 0 or 1 tells null.
pub(crate) fn read_tagged_struct<T: Struct>(
    r: &mut Reader,
    version: i16,
) -> Result<Option<T>, DecodeError> {
    if r.unsigned_varint()? == 0 {
        return Ok(None);
    }
    T::read(r, version, true).map(Some)
}

/// The other way round.
pub(crate) fn write_tagged_struct<T: Struct>(
    value: &Option<T>,
    w: &mut Writer,
    version: i16,
) -> Result<(), EncodeError> {
    match value {
        None => w.put_u8(0),
        Some(value) => {
            w.put_u8(1);
            value.write(w, version, true)?;
        }
    }
    Ok(())
}

/// The tag buffer of one struct while it is put together.
#[derive(Default)]
pub(crate) struct Tagged {
    fields: Vec<RawTaggedField>,
}

impl Tagged {
    /// Adds a known field that differs from its default.
    pub(crate) fn add(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let mut payload = Writer::new();
        write(&mut payload)?;
        self.fields.push(RawTaggedField { tag, data: payload.into_bytes() });
        Ok(())
    }

    /// Writes known and unknown fields, ascending by tag.
    pub(crate) fn finish(mut self, w: &mut Writer, unknown: &[RawTaggedField]) {
        self.fields.extend_from_slice(unknown);
        self.fields.sort_by_key(|field| field.tag);
        w.raw_tagged_fields(&self.fields);
    }
}
