//! Responses: length, header and body as one framed message. `[P]`

use crate::apis::Api;
use crate::codec::{EncodeError, Message};
use crate::writer::{Chunk, Writer};

/// Begins a response: room for the length, and the header. The header of
/// ApiVersions never is flexible, so that a client that knows nothing can read it
/// (KIP-511).
pub fn begin(api: Api, api_version: i16, correlation_id: i32) -> Writer {
    let mut writer = Writer::framed();
    writer.put(&correlation_id.to_be_bytes());
    if api.is_flexible(api_version) && api != Api::ApiVersions {
        writer.put_u8(0);
    }
    writer
}

/// A whole response.
///
/// # Errors
/// What [`Message::encode`] has against it; all of it is longer than its length can say.
pub fn encode<M: Message>(
    api: Api,
    api_version: i16,
    correlation_id: i32,
    body: &M,
) -> Result<Vec<Chunk>, EncodeError> {
    let mut writer = begin(api, api_version, correlation_id);
    body.encode(&mut writer, api_version)?;
    if writer.len() > i32::MAX as usize {
        return Err(EncodeError::TooLong);
    }
    Ok(writer.finish())
}
