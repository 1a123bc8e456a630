//! What precedes every request: its header, and whether we can serve it. `[P]`

use crate::apis::Api;
use crate::codec::{DecodeError, Field as _, Message};
use crate::reader::Reader;
use crate::values::{RawTaggedField, Str};

/// The header of a request, version 1 or 2 as the API's version demands.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader {
    /// Which API.
    pub api: Api,
    /// Which version of it; may be one that is not served.
    pub api_version: i16,
    /// Comes back in the response.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<Str>,
    /// Tagged fields, none of which Kafka knows.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

/// Why a frame is not a request that can be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The header or body cannot be read.
    #[error("malformed request: {0}")]
    Malformed(#[from] DecodeError),
    /// No such API.
    #[error("unknown API key {0}")]
    UnknownApi(i16),
    /// A version that is not served.
    #[error("{api} version {version} is not supported")]
    UnsupportedVersion {
        /// The API asked for.
        api: Api,
        /// The version asked for.
        version: i16,
    },
}

impl RequestHeader {
    /// Reads the header and leaves the reader at the body. An unserved version is
    /// no error here: ApiVersions answers those.
    pub fn decode(reader: &mut Reader) -> Result<Self, RequestError> {
        let key = reader.i16()?;
        let api_version = reader.i16()?;
        let api = Api::from_key(key).ok_or(RequestError::UnknownApi(key))?;
        let correlation_id = reader.i32()?;
        let client_id = Option::<Str>::read(reader, api_version, false)?;
        let mut unknown_tagged_fields = Vec::new();
        if api.is_flexible(api_version) {
            reader.tagged_fields(|tag, payload| {
                unknown_tagged_fields.push(payload.raw_tagged_field(tag));
                Ok(())
            })?;
        }
        Ok(Self { api, api_version, correlation_id, client_id, unknown_tagged_fields })
    }

    /// Reads the body; bytes that follow it are nobody's, as in Kafka.
    pub fn body<M: Message>(&self, reader: &mut Reader) -> Result<M, RequestError> {
        if !self.api.versions().contains(&self.api_version) {
            return Err(RequestError::UnsupportedVersion {
                api: self.api,
                version: self.api_version,
            });
        }
        Ok(M::decode(reader, self.api_version)?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_header_keeps_its_short_client_id_when_flexible() {
        let mut reader = Reader::new(Bytes::from_static(b"\0\x12\0\x03\0\0\0\x07\0\x02me\0rest"));
        let header = RequestHeader::decode(&mut reader).unwrap();
        assert_eq!(
            (header.api, header.api_version, header.correlation_id),
            (Api::ApiVersions, 3, 7)
        );
        assert_eq!(header.client_id.as_deref(), Some("me"));
        assert_eq!(reader.remaining(), 4);
    }

    #[test]
    fn short_frames_and_unknown_keys_are_told_apart() {
        let decode = |bytes: &'static [u8]| {
            RequestHeader::decode(&mut Reader::new(Bytes::from_static(bytes)))
        };
        assert_eq!(decode(b"\0"), Err(RequestError::Malformed(DecodeError::Truncated)));
        assert_eq!(decode(b"\x7f\x00\0\0\0\0\0\0\xff\xff"), Err(RequestError::UnknownApi(0x7f00)));
    }
}
