//! LZ4 frames as Java's clients write and read them. `[P]`
//!
//! ```text
//! 04 22 4d 18      magic
//! flags            bits 6-7 version 1, 5 independent blocks (must be set),
//!                  4 block checksums, 3 content size, 2 content checksum, 0-1 zero
//! descriptor       bits 4-6 largest block: 4 (64 KiB) to 7 (4 MiB); others zero
//! [u64]            content size
//! checksum         of flags to content size
//! then per block: u32 length (top bit: stored plain), data, [u32 checksum]
//! u32 0            end, [u32 content checksum]
//! ```
//!
//! Numbers are little-endian. A frame without its end can be decoded, but Java's
//! consumers stumble over it: it must not get into a log.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::io::{self, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const FIXED_BITS: u8 = 0b1110_0011;
const FIXED_BITS_SET: u8 = 0b0110_0000;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const STORED_PLAIN: u32 = 1 << 31;
const CHECKSUM_LEN: usize = 4;

/// Compresses `data` into a frame of independent 64 KiB blocks.
pub(super) fn write(data: &[u8]) -> io::Result<Vec<u8>> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(data)?;
    encoder.finish().map_err(io::Error::other)
}

/// The frame at the front of `data`, when it is whole and of the kind above. What
/// follows it is ignored, as Java's reader does.
pub(super) fn whole_frame(data: &[u8]) -> io::Result<&[u8]> {
    let mut rest = data;
    let [magic @ .., flags, descriptor] = take::<6>(&mut rest)?;
    if magic != MAGIC {
        return Err(io::Error::other("no LZ4 frame"));
    }
    let block_size = descriptor >> 4;
    if flags & FIXED_BITS != FIXED_BITS_SET || descriptor & 0x8f != 0 || block_size < 4 {
        return Err(io::Error::other("LZ4 frame of a kind that Kafka does not read"));
    }
    let optional = |flag: u8, len: usize| if flags & flag != 0 { len } else { 0 };
    skip(&mut rest, optional(CONTENT_SIZE, 8) + 1)?;
    loop {
        let length = from_little_endian(take(&mut rest)?) & !STORED_PLAIN;
        if length == 0 {
            skip(&mut rest, optional(CONTENT_CHECKSUM, CHECKSUM_LEN))?;
            break;
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        skip(&mut rest, length)?;
        skip(&mut rest, optional(BLOCK_CHECKSUM, CHECKSUM_LEN))?;
    }
    let used = data.len() - rest.len();
    Ok(data.get(..used).unwrap_or(data))
}

fn take<const N: usize>(rest: &mut &[u8]) -> io::Result<[u8; N]> {
    let (taken, left) = rest.split_first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?;
    *rest = left;
    Ok(*taken)
}

fn skip(rest: &mut &[u8], len: usize) -> io::Result<()> {
    *rest = rest.get(len..).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(())
}

#[expect(clippy::little_endian_bytes, reason = "the frame format is little-endian")]
fn from_little_endian(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_look_as_java_writes_them() {
        let packed = write(b"hello hello hello").unwrap();
        // Magic, version 1 + independent blocks, 64 KiB, checksum of these two.
        assert_eq!(packed[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
        assert_eq!(packed[packed.len() - 4..], [0; 4]);
    }

    #[test]
    fn a_frame_ends_where_it_says() {
        let frame = write(&[7; 200_000]).unwrap();
        let longer = [&frame[..], b"what follows"].concat();
        assert_eq!(whole_frame(&longer).unwrap(), frame);
        for len in 0..frame.len() {
            assert!(whole_frame(&frame[..len]).is_err(), "{len} bytes of {}", frame.len());
        }
    }

    #[test]
    fn what_java_cannot_read_is_refused() {
        let good = write(b"contents").unwrap();
        let cases = [
            ("magic", 0, 5),
            ("dependent blocks", 4, 0x40),
            ("version", 4, 0xa0),
            ("dictionary", 4, 0x61),
            ("block size", 5, 0x30),
            ("descriptor bits", 5, 0xc0),
        ];
        for (name, at, byte) in cases {
            let mut frame = good.clone();
            frame[at] = byte;
            assert!(whole_frame(&frame).is_err(), "{name}");
        }
        // Flags that only announce more: sizes and checksums.
        let all = [&good[..4], &[0x7c, 0x40], &[0; 9], &[1, 0, 0, 0, 9], &[0; 4], &[0; 8]].concat();
        assert_eq!(whole_frame(&all).unwrap(), all);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = whole_frame(&[&MAGIC[..], &[0x60, 0x40, 0x82], &bytes].concat());
        }
    }
}
