//! CRC-32C (Castagnoli), the checksum of record batches and producer snapshots. `[P]`

use crc_fast::{CrcAlgorithm, Digest};

/// Of bytes in one piece.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Of bytes that come in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// The next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces.
    pub fn finish(&self) -> u32 {
        // 32 bits wide, in the type for algorithms of up to 64.
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue, and RFC 3720 B.4.
    #[test]
    fn known_checksums() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b""), 0);
    }

    /// Every length up to a few of the widest steps, and every cut.
    #[test]
    fn pieces_make_the_same_checksum() {
        let bytes: Vec<u8> = (0..700_u32).map(|number| (number * 31 % 251) as u8).collect();
        for len in 0..bytes.len() {
            let (head, tail) = bytes[..len].split_at(len / 3);
            let mut crc = Crc32c::default();
            crc.update(head);
            crc.update(tail);
            let bitwise = bytes[..len].iter().fold(u32::MAX, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 }
                })
            });
            assert_eq!((crc.finish(), crc32c(&bytes[..len])), (!bitwise, !bitwise), "{len}");
        }
    }
}
