//! Length-prefixed frames, taken one by one off the front of a buffer. `[P]`
//!
//! ```text
//! size: i32, big-endian, not counting itself | header and body: size bytes
//! ```
//!
//! The size is a promise by somebody unknown. It is checked against a limit, and
//! memory is reserved by what has arrived and by what the connection has already
//! delivered, never by the promise alone.

use bytes::{Buf as _, Bytes, BytesMut};
use thiserror::Error;

/// Bytes of the size in front of each frame.
pub const SIZE_BYTES: usize = 4;

/// Room that every connection with something to say may take at once.
pub const FREE_ROOM: usize = 64 * 1024;

/// Frames up to this size are copied out of the buffer, larger ones are slices of
/// it. A small request that waits for long would else hold on to a whole buffer.
const COPIED: usize = 1024;

/// How much faster than the bytes arrive the room for them may grow.
const GROWTH: usize = 4;

/// The front of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Front {
    /// A whole frame, taken off the buffer, without its size.
    Frame(Bytes),
    /// The frame is not all there: the buffer must come to hold this many bytes.
    Partial(usize),
}

/// Why no frame can follow on this connection.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// Not even a request header fits in.
    #[error("a frame of {0} bytes, too small for a request header")]
    TooSmall(i32),
    /// Above `socket.request.max.bytes`.
    #[error("a frame of {size} bytes, larger than socket.request.max.bytes = {max}")]
    TooLarge {
        /// As announced.
        size: i32,
        /// The limit.
        max: usize,
    },
    /// Another protocol's first bytes.
    #[error("the client speaks {0}")]
    OtherProtocol(&'static str),
}

/// Takes the frame at the front of `buffer`, when all of it is there.
pub fn take_front(buffer: &mut BytesMut, max: usize) -> Result<Front, FrameError> {
    let Some(size) = buffer.first_chunk::<SIZE_BYTES>() else {
        return Ok(Front::Partial(SIZE_BYTES));
    };
    let len = frame_len(*size, max)?;
    if buffer.len() - SIZE_BYTES < len {
        return Ok(Front::Partial(SIZE_BYTES.saturating_add(len)));
    }
    buffer.advance(SIZE_BYTES);
    if len <= COPIED {
        let frame = Bytes::copy_from_slice(buffer.get(..len).unwrap_or_default());
        buffer.advance(len);
        return Ok(Front::Frame(frame));
    }
    Ok(Front::Frame(buffer.split_to(len).freeze()))
}

/// The shortest header: API key, version and correlation id.
const SHORTEST: i32 = 8;

fn frame_len(size: [u8; SIZE_BYTES], max: usize) -> Result<usize, FrameError> {
    let announced = i32::from_be_bytes(size);
    match usize::try_from(announced) {
        Ok(len) if len > max => Err(other_protocol(size)
            .map_or(FrameError::TooLarge { size: announced, max }, FrameError::OtherProtocol)),
        Ok(len) if announced >= SHORTEST => Ok(len),
        _ => Err(FrameError::TooSmall(announced)),
    }
}

/// Names the protocol whose greeting begins with these bytes.
fn other_protocol(start: [u8; SIZE_BYTES]) -> Option<&'static str> {
    match &start {
        b"GET " | b"POST" | b"PUT " | b"HEAD" | b"DELE" | b"OPTI" | b"PATC" | b"CONN" | b"TRAC" => {
            Some("HTTP; this port serves the Kafka protocol only")
        }
        b"PRI " => Some("HTTP/2; this port serves the Kafka protocol only"),
        b"SSH-" => Some("SSH; this port serves the Kafka protocol only"),
        // A handshake record of TLS 1.0 to 1.3, which all begin with versions 3.x.
        [0x16, 0x03, 0x00..=0x04, _] => {
            Some("TLS, but this listener is plaintext; check the client's security.protocol")
        }
        _ => None,
    }
}

/// Room that the buffer should have for a frame that will fill `needed` bytes, of
/// which `arrived` are there, on a connection that has delivered frames of up to
/// `proven` bytes before.
pub fn room_for(needed: usize, arrived: usize, proven: usize) -> usize {
    let trusted = FREE_ROOM.max(proven);
    let mut room = trusted;
    while room <= arrived {
        room = room.saturating_mul(GROWTH);
    }
    room.min(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1000;

    fn buffer(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn a_frame_is_taken_when_its_last_byte_is_there() {
        let mut bytes = buffer(&[0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(take_front(&mut bytes, MAX), Ok(Front::Partial(12)));
        bytes.extend_from_slice(&[8, 0]);
        let frame = Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(take_front(&mut bytes, MAX), Ok(Front::Frame(frame)));
        assert_eq!(&bytes[..], &[0], "the next frame's first byte stays");
        assert_eq!(take_front(&mut bytes, MAX), Ok(Front::Partial(4)));
    }

    #[test]
    fn sizes_that_hold_no_header_or_exceed_the_limit_are_refused() {
        for size in [0, 7, -1, i32::MIN] {
            let refused = take_front(&mut buffer(&size.to_be_bytes()), MAX);
            assert_eq!(refused, Err(FrameError::TooSmall(size)));
        }
        for size in [1001, i32::MAX] {
            let refused = take_front(&mut buffer(&size.to_be_bytes()), MAX);
            assert_eq!(refused, Err(FrameError::TooLarge { size, max: MAX }));
        }
        assert_eq!(take_front(&mut buffer(&1000_i32.to_be_bytes()), MAX), Ok(Front::Partial(1004)));
    }

    #[test]
    fn greetings_of_other_protocols_are_named() {
        for (hello, name) in [
            (&b"GET / HTTP/1.1\r\n"[..], "HTTP"),
            (&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01][..], "TLS"),
            (&b"SSH-2.0-OpenSSH"[..], "SSH"),
        ] {
            let error = take_front(&mut buffer(hello), 100 << 20).expect_err("not a frame");
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn room_follows_what_arrives_not_what_is_promised() {
        let promised = 90_000_000;
        assert_eq!(room_for(promised, 1000, 0), FREE_ROOM);
        assert_eq!(room_for(promised, FREE_ROOM, 0), 4 * FREE_ROOM);
        assert_eq!(room_for(promised, 80_000_000, 0), promised);
        assert_eq!(room_for(300, 10, 0), 300);
    }

    #[test]
    fn a_connection_that_has_delivered_large_frames_gets_their_room_at_once() {
        assert_eq!(room_for(1_000_000, 10, 1_000_000), 1_000_000);
        assert_eq!(room_for(3_000_000, 10, 1_000_000), 1_000_000);
    }

    /// Whatever arrives in whatever pieces: frames hold what was between their
    /// sizes, and no more room is asked for than arrived bytes justify.
    #[test]
    fn damaged_streams() {
        let frame = |len: i32| [&len.to_be_bytes()[..], &vec![7; len as usize]].concat();
        let corpus = [frame(8), frame(40), frame(900), [frame(9), frame(10)].concat()];
        let mut seed = 0;
        crate::testing::fuzz::fuzz(3000, &corpus, |bytes| {
            seed += 1;
            let dice = crate::sys::random::Random::from_seed(seed);
            let (mut buffer, mut rest, mut taken) = (BytesMut::new(), bytes, 0);
            loop {
                match take_front(&mut buffer, MAX) {
                    Err(_) => break,
                    Ok(Front::Frame(frame)) => {
                        assert_eq!(frame, bytes[taken + SIZE_BYTES..][..frame.len()]);
                        taken += SIZE_BYTES + frame.len();
                    }
                    Ok(Front::Partial(needed)) => {
                        assert!(needed > buffer.len() && needed <= SIZE_BYTES + MAX);
                        assert!(room_for(needed, buffer.len(), 0) > buffer.len());
                        if rest.is_empty() {
                            break;
                        }
                        let piece = 1 + dice.below(rest.len() as u64) as usize;
                        buffer.extend_from_slice(&rest[..piece]);
                        rest = &rest[piece..];
                    }
                }
            }
        });
    }
}
