//! Record batches by hand, sound and otherwise: none of the broker's code has a
//! part in them.

use std::time::SystemTime;

use bytes::Bytes;

const HEADER_LEN: usize = 61;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The fields of a batch that a test may want to be wrong.
pub struct Batch {
    attributes: i16,
    last_offset_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    count: i32,
    records: Vec<u8>,
}

#[expect(clippy::disallowed_methods, reason = "the broker compares it with its own clock")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn varint(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn field(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        None => varint(-1),
        Some(value) => [varint(value.len() as i64), value.to_vec()].concat(),
    }
}

/// A record at the batch's base timestamp, without headers.
fn record(offset_delta: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
    let body = [vec![0, 0], varint(offset_delta), field(key), field(value), varint(0)].concat();
    [varint(body.len() as i64), body].concat()
}

/// Key and value.
type KeyValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl Batch {
    fn of(records: &[KeyValue<'_>]) -> Self {
        let written = records.iter().enumerate();
        let written = written.map(|(delta, (key, value))| record(delta as i64, *key, *value));
        let now = now();
        Self {
            attributes: 0,
            last_offset_delta: records.len() as i32 - 1,
            base_timestamp: now,
            max_timestamp: now,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: records.len() as i32,
            records: written.collect::<Vec<_>>().concat(),
        }
    }

    fn good() -> Self {
        let value = Some(b"value".as_slice());
        Self::of(&[(Some(b"one"), value), (Some(b"two"), value), (Some(b"three"), value)])
    }

    fn at(self, timestamp: i64) -> Self {
        Self { base_timestamp: timestamp, max_timestamp: timestamp, ..self }
    }

    fn from(self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        Self { producer_id, producer_epoch, base_sequence, ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn compressed(self, codec: &str) -> Self {
        let attributes = CODECS.iter().position(|name| *name == codec).unwrap() as i16;
        Self { attributes, records: compress(codec, &self.records), ..self }
    }

    /// The batch with length and checksum that fit.
    fn bytes(&self) -> Vec<u8> {
        let mut covered = Vec::new();
        covered.extend(self.attributes.to_be_bytes());
        covered.extend(self.last_offset_delta.to_be_bytes());
        covered.extend(self.base_timestamp.to_be_bytes());
        covered.extend(self.max_timestamp.to_be_bytes());
        covered.extend(self.producer_id.to_be_bytes());
        covered.extend(self.producer_epoch.to_be_bytes());
        covered.extend(self.base_sequence.to_be_bytes());
        covered.extend(self.count.to_be_bytes());
        covered.extend(&self.records);
        let mut bytes = vec![0; 8];
        bytes.extend((covered.len() as i32 + 9).to_be_bytes());
        bytes.extend([0xff, 0xff, 0xff, 0xff, 2]);
        bytes.extend(crc32c::crc32c(&covered).to_be_bytes());
        bytes.extend(covered);
        bytes
    }
}

fn compress(codec: &str, plain: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    match codec {
        "gzip" => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(plain).unwrap();
            writer.finish().unwrap()
        }
        "snappy" => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
        "lz4" => {
            let mut writer = lz4_flex::frame::FrameEncoder::new(Vec::new());
            writer.write_all(plain).unwrap();
            writer.finish().unwrap()
        }
        "zstd" => zstd::stream::encode_all(plain, 1).unwrap(),
        _ => plain.to_vec(),
    }
}

/// The contents of a partition in a Produce request.
pub fn records(kind: &str) -> Option<Bytes> {
    if kind == "null" {
        return None;
    }
    let bytes = envelope(kind).or_else(|| contents(kind).map(|batch| batch.bytes()));
    Some(bytes.unwrap_or_else(|| panic!("no such records: {kind}")).into())
}

/// Batches that are wrong before their checksum is looked at, or by it.
fn envelope(kind: &str) -> Option<Vec<u8>> {
    let good = Batch::good().bytes();
    let with = |at: usize, bytes: &[u8]| [&good[..at], bytes, &good[at + bytes.len()..]].concat();
    Some(match kind {
        "empty" => Vec::new(),
        "two-batches" => [good.clone(), good].concat(),
        "wrong-crc" => with(17, &[0; 4]),
        "magic-0" => with(16, &[0]),
        "magic-1" => with(16, &[1]),
        "magic-3" => with(16, &[3]),
        "magic-negative" => with(16, &[0xff]),
        "half" => good[..good.len() / 2].to_vec(),
        "header-only" => good[..HEADER_LEN].to_vec(),
        "ten-bytes" => good[..10].to_vec(),
        "length-0" => with(8, &[0; 4]),
        "length-negative" => with(8, &[0xff; 4]),
        "length-huge" => with(8, &[0x7f, 0xff, 0xff, 0xff]),
        "bytes-after" => [&good[..], &[1, 2, 3]].concat(),
        "base-offset-wrong" => with(0, &77_i64.to_be_bytes()),
        "leader-epoch-wrong" => with(12, &77_i32.to_be_bytes()),
        _ => return None,
    })
}

/// Batches with a checksum that fits.
fn contents(kind: &str) -> Option<Batch> {
    let good = Batch::good();
    if let Some(codec) = kind.strip_prefix("good-") {
        return Some(good.compressed(codec));
    }
    if let Some(codec) = kind.strip_prefix("truncated-") {
        let large = large(40_000).compressed(codec);
        return Some(large.with(|batch| batch.records.truncate(batch.records.len() / 2)));
    }
    if let Some(codec) = kind.strip_prefix("not-") {
        let id = CODECS.iter().position(|name| *name == codec).unwrap() as i16;
        return Some(Batch { attributes: id, ..good });
    }
    if let Some(codec) = kind.strip_prefix("bomb-") {
        return Some(bomb(codec));
    }
    numbers(kind).or_else(|| damaged_records(kind))
}

/// A wrong number in the header.
fn numbers(kind: &str) -> Option<Batch> {
    let good = Batch::good();
    let hours = 3_600_000;
    Some(match kind {
        "good" => good,
        "too-large" => large(1_100_000),
        "count-0" => Batch { count: 0, ..good },
        "count-too-low" => Batch { count: 2, ..good },
        "count-too-high" => Batch { count: 4, ..good },
        "count-negative" => Batch { count: -1, ..good },
        "count-huge" => Batch { count: i32::MAX, ..good },
        "last-delta-wrong" => Batch { last_offset_delta: 7, ..good },
        "last-delta-negative" => Batch { last_offset_delta: -1, ..good },
        "last-delta-huge" => Batch { last_offset_delta: i32::MAX, ..good },
        "codec-5" => Batch { attributes: 5, ..good },
        "codec-7" => Batch { attributes: 7, ..good },
        "log-append-time" => Batch { attributes: 0x08, ..good },
        "control" => Batch { attributes: 0x20, ..good },
        "delete-horizon" => Batch { attributes: 0x40, ..good },
        "unused-attributes" => Batch { attributes: 0x7f80, ..good },
        "transactional" => Batch { attributes: 0x10, ..good.from(900_000, 0, 0) },
        "transactional-nobody" => Batch { attributes: 0x10, ..good },
        "sequence-negative" => good.from(900_000, 0, -5),
        "epoch-negative" => good.from(900_001, -1, 0),
        "sequence-gap" => good.from(900_002, 0, 10),
        "far-future" => good.at(now() + 2 * hours),
        "long-past" => good.at(1),
        "no-timestamp" => good.at(-1),
        "max-timestamp-wrong" => good.with(|batch| batch.max_timestamp += 2 * hours),
        _ => return None,
    })
}

/// Records that do not add up. Each record of the good batch is one byte of
/// length, then attributes, timestamp delta, offset delta, key length, …
fn damaged_records(kind: &str) -> Option<Batch> {
    let good = Batch::good();
    let second = 1 + usize::from(good.records[0] / 2);
    let third = second + 1 + usize::from(good.records[second] / 2);
    let last = good.records.len() - 1;
    let set = |changes: &[(usize, u8)]| {
        Batch::good().with(|batch| changes.iter().for_each(|(at, byte)| batch.records[*at] = *byte))
    };
    Some(match kind {
        "no-records" => {
            let none = Batch { count: 0, last_offset_delta: -1, ..good };
            none.with(|batch| batch.records.clear())
        }
        "deltas-out-of-order" => set(&[(second + 3, 4), (third + 3, 2)]),
        "delta-doubled" => set(&[(second + 3, 0)]),
        "record-length-too-long" => set(&[(0, good.records[0] + 2)]),
        "record-length-negative" => set(&[(0, 1)]),
        "key-length-too-long" => set(&[(4, 126)]),
        "key-length-negative" => set(&[(4, 9)]),
        "headers-huge" => set(&[(last, 126)]),
        "headers-negative" => set(&[(last, 1)]),
        "bytes-after-records" => good.with(|batch| batch.records.extend([0; 9])),
        "no-keys" => Batch::of(&[(Some(b"key"), None), (None, Some(b"value"))]),
        _ => return None,
    })
}

/// One record whose value compresses badly.
fn large(len: usize) -> Batch {
    let mut state = 1_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let value: Vec<u8> = (0..len).map(|_| next()).collect();
    Batch::of(&[(Some(b"key"), Some(&value))])
}

/// A record that unfolds to 600 MB, in 600 streams one after the other: gzip and
/// zstd read on where one ends.
fn bomb(codec: &str) -> Batch {
    // Record length, attributes, time, offset, key of length -1; then zeros.
    let mut records = compress(codec, &[0x80, 0x80, 0x80, 0x80, 0x05, 0, 0, 0, 1]);
    records.extend(compress(codec, &vec![0; 1 << 20]).repeat(600));
    let batch = Batch::of(&[(None, None)]).compressed(codec);
    Batch { records, ..batch }
}
