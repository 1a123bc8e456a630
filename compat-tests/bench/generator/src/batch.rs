//! A record batch (format 2) that is built once and stamped again and again.

use std::io::Write as _;

/// Bytes before the first record.
const HEADER: usize = 61;
/// Where the CRC stands, and where what it covers begins.
const CRC: usize = 17;
const COVERED: usize = 21;

/// The batch, and where the value of its first record begins.
pub struct Batch {
    /// All bytes.
    pub bytes: Vec<u8>,
    stamp: usize,
}

impl Batch {
    /// `count` records without keys, each of `size` bytes, of which the first eight
    /// of the first are room for a stamp.
    pub fn new(count: usize, size: usize) -> Self {
        let (records, stamp) = records(count, size.max(8));
        Self::of(count, 0, &records, HEADER + stamp)
    }

    /// The same, compressed; it cannot be stamped.
    pub fn gzip(count: usize, size: usize) -> std::io::Result<Self> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&records(count, size.max(8)).0)?;
        Ok(Self::of(count, 1, &encoder.finish()?, HEADER))
    }

    fn of(count: usize, codec: u8, records: &[u8], stamp: usize) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes.extend_from_slice(records);
        let length = (bytes.len() - 12) as i32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
        bytes[16] = 2;
        bytes[22] = codec;
        bytes[23..27].copy_from_slice(&(count as i32 - 1).to_be_bytes());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_millis() as i64);
        bytes[27..35].copy_from_slice(&now.to_be_bytes());
        bytes[35..43].copy_from_slice(&now.to_be_bytes());
        bytes[43..51].copy_from_slice(&(-1_i64).to_be_bytes());
        bytes[51..53].copy_from_slice(&(-1_i16).to_be_bytes());
        bytes[53..57].copy_from_slice(&(-1_i32).to_be_bytes());
        bytes[57..61].copy_from_slice(&(count as i32).to_be_bytes());
        let crc = crc32c::crc32c(&bytes[COVERED..]);
        bytes[CRC..COVERED].copy_from_slice(&crc.to_be_bytes());
        Self { bytes, stamp }
    }

    /// Writes a number into the first record.
    pub fn stamp(&mut self, number: u64) {
        self.bytes[self.stamp..self.stamp + 8].copy_from_slice(&number.to_be_bytes());
        let crc = crc32c::crc32c(&self.bytes[COVERED..]);
        self.bytes[CRC..COVERED].copy_from_slice(&crc.to_be_bytes());
    }

    /// What [`Batch::stamp`] wrote into a batch of this shape.
    pub fn read_stamp(&self, batch: &[u8]) -> Option<u64> {
        batch.get(self.stamp..self.stamp + 8)?.try_into().ok().map(u64::from_be_bytes)
    }
}

/// `count` records of `size` bytes, and where the first one's value begins.
fn records(count: usize, size: usize) -> (Vec<u8>, usize) {
    let (mut bytes, mut stamp) = (Vec::new(), 0);
    for number in 0..count {
        let mut record = vec![0]; // attributes
        put_varint(&mut record, 0); // timestamp
        put_varint(&mut record, number as i64);
        put_varint(&mut record, -1); // no key
        put_varint(&mut record, size as i64);
        let value_at = record.len();
        // Neither constant nor random: about as compressible as text.
        record.extend((0..size).map(|at| b"event=login user=48151623 ok "[(at * 7 + number) % 29]));
        record.push(0); // headers
        put_varint(&mut bytes, record.len() as i64);
        if number == 0 {
            stamp = bytes.len() + value_at;
        }
        bytes.extend(record);
    }
    (bytes, stamp)
}

/// A batch among others: its bytes' length, and the offset after it.
pub fn next_batch(bytes: &[u8]) -> Option<(usize, i64)> {
    let base = i64::from_be_bytes(bytes.get(0..8)?.try_into().ok()?);
    let length = u32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?) as usize + 12;
    let last = i32::from_be_bytes(bytes.get(23..27)?.try_into().ok()?);
    (length <= bytes.len()).then_some((length, base + i64::from(last) + 1))
}

fn put_varint(bytes: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}
