//! What messages there are, for tests and tools that go through all of them. `[P]`

use bytes::Bytes;

use crate::codec::{DecodeError, EncodeError, Message, Reader, Writer};

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What a client or broker asks.
    Request,
    /// The answer.
    Response,
    /// What precedes a request or response.
    Header,
    /// Bytes inside other things.
    Data,
    /// A record of the metadata log.
    Metadata,
    /// Key of a record of a coordinator's log.
    CoordinatorKey,
    /// Value of a record of a coordinator's log.
    CoordinatorValue,
}

/// One message of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Kafka's name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// API key or record type.
    pub key: Option<i16>,
    /// First and last version of the schema.
    pub versions: (i16, i16),
    /// True when the last version is not stable in Kafka 4.4.
    pub newest_unstable: bool,
    /// True for versions with compact lengths and tag buffers.
    pub is_flexible: fn(i16) -> bool,
    /// Reads a message and writes it again; also the count of bytes left over.
    pub reencode: fn(Bytes, i16) -> Result<(Bytes, usize), ReencodeError>,
    /// Writes the message that holds nothing but defaults.
    pub encode_default: fn(i16) -> Result<Bytes, EncodeError>,
}

/// Why bytes did not survive the way in and out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReencodeError {
    /// They are not a message.
    Decode(DecodeError),
    /// They are, but cannot be written again.
    Encode(EncodeError),
}

impl Entry {
    /// The entry of message `M`.
    pub const fn of<M: Message>(kind: Kind) -> Self {
        Self {
            name: M::NAME,
            kind,
            key: M::KEY,
            versions: (*M::VERSIONS.start(), *M::VERSIONS.end()),
            newest_unstable: M::NEWEST_UNSTABLE,
            is_flexible: M::is_flexible,
            reencode: reencode::<M>,
            encode_default: |version| encode(&M::default(), version),
        }
    }
}

fn encode<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    message.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

fn reencode<M: Message>(bytes: Bytes, version: i16) -> Result<(Bytes, usize), ReencodeError> {
    let mut reader = Reader::new(bytes);
    let message = M::decode(&mut reader, version).map_err(ReencodeError::Decode)?;
    let again = encode(&message, version).map_err(ReencodeError::Encode)?;
    Ok((again, reader.remaining()))
}
