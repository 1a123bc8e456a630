//! The five codecs of record batches, framed as Kafka's clients frame them. `[P]`
//!
//! Decompression streams and stops at a limit that the caller sets, so that a
//! small batch cannot unfold into all of the memory.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use super::batch::BatchView;
use super::{lz4, snappy};

/// How the records of a batch are compressed. The ids are those of the batch's
/// attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// As they are.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy blocks in the stream format of xerial's Java library.
    Snappy,
    /// The LZ4 frame format with independent 64 KiB blocks.
    Lz4,
    /// Zstandard frames (KIP-110).
    Zstd,
}

impl Codec {
    /// All of them, by id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this id.
    pub fn from_id(id: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.id() == id)
    }

    /// Its id in the batch attributes.
    pub fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Its name in configurations and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// A codec and how hard it tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    /// What to compress with.
    pub codec: Codec,
    /// `compression.gzip.level` or `compression.zstd.level`; the codec's default
    /// when absent. Snappy has no levels and of LZ4 only the fast method is at
    /// hand: its levels would change the size, not the format.
    pub level: Option<i32>,
}

impl Compression {
    /// No compression.
    pub const NONE: Self = Self { codec: Codec::None, level: None };

    /// The codec at its default level.
    pub fn of(codec: Codec) -> Self {
        Self { codec, level: None }
    }
}

/// The topic's `compression.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionType {
    /// Whatever the producer used stays.
    #[default]
    Producer,
    /// The leader compresses anew what came otherwise. `uncompressed` is
    /// [`Compression::NONE`].
    Fixed(Compression),
}

impl CompressionType {
    /// Reads the value of `compression.type`, at the default level.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "producer" => Some(Self::Producer),
            "uncompressed" => Some(Self::Fixed(Compression::NONE)),
            name => Codec::ALL
                .into_iter()
                .find(|codec| *codec != Codec::None && codec.name() == name)
                .map(|codec| Self::Fixed(Compression::of(codec))),
        }
    }

    /// What a batch that came with `source` is to be stored with.
    pub fn target(self, source: Codec) -> Compression {
        match self {
            Self::Producer => Compression::of(source),
            Self::Fixed(compression) => compression,
        }
    }
}

/// Why bytes could not be compressed or decompressed.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    /// The contents unfold to more than the caller allows.
    #[error("compressed data unfolds to more than {limit} bytes")]
    TooLarge {
        /// The caller's limit.
        limit: usize,
    },
    /// Not a sound stream of that codec.
    #[error("broken {codec} data: {reason}", codec = .codec.name())]
    Corrupt {
        /// The codec that was to read it.
        codec: Codec,
        /// What it says.
        reason: String,
    },
}

/// Unfolds `data` whole; never more than `limit` bytes.
pub fn decompress(codec: Codec, data: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
    let mut decoder = Decoder::new(codec, data, limit)?;
    let mut out = Vec::new();
    match decoder.read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(error) => Err(decoder.explain(&error)),
    }
}

/// Bytes that the records of one stored batch may unfold to.
const STORED_LIMIT: usize = 1 << 30;

/// The plain records of a batch in the log, or why there are none.
pub fn stored_records<'b>(batch: &BatchView<'b>) -> Result<Cow<'b, [u8]>, String> {
    match batch.header().codec() {
        Some(Codec::None) => Ok(Cow::Borrowed(batch.payload())),
        Some(codec) => decompress(codec, batch.payload(), STORED_LIMIT)
            .map(Cow::Owned)
            .map_err(|error| error.to_string()),
        None => Err("unknown codec".to_owned()),
    }
}

/// Compresses `data` into a new vector.
pub fn compress(compression: Compression, data: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let codec = compression.codec;
    let out = match codec {
        Codec::None => Ok(data.to_vec()),
        Codec::Gzip => gzip(compression.level, data),
        Codec::Snappy => snappy::write(data),
        Codec::Lz4 => lz4::write(data),
        Codec::Zstd => {
            let level = compression.level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            zstd::stream::encode_all(data, level)
        }
    };
    out.map_err(|error| CompressionError::Corrupt { codec, reason: error.to_string() })
}

fn gzip(level: Option<i32>, data: &[u8]) -> io::Result<Vec<u8>> {
    // -1, Java's "default level", is no u32 either.
    let level = level.and_then(|level| u32::try_from(level).ok());
    let level = level
        .map_or_else(flate2::Compression::default, |level| flate2::Compression::new(level.min(9)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(data)?;
    encoder.finish()
}

/// Unfolds a block of records piece by piece, up to a limit.
pub struct Decoder<'a> {
    codec: Codec,
    stream: Stream<'a>,
    limit: usize,
    left: usize,
}

enum Stream<'a> {
    Plain(&'a [u8]),
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
    Snappy(snappy::Reader<'a>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, &'a [u8]>>),
}

impl<'a> Stream<'a> {
    fn new(codec: Codec, data: &'a [u8]) -> io::Result<Self> {
        Ok(match codec {
            Codec::None => Self::Plain(data),
            Codec::Gzip => Self::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(data))),
            Codec::Snappy => Self::Snappy(snappy::Reader::new(data)),
            Codec::Lz4 => {
                let frame = lz4::whole_frame(data)?;
                Self::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(frame)))
            }
            Codec::Zstd => Self::Zstd(Box::new(zstd::stream::read::Decoder::with_buffer(data)?)),
        })
    }
}

impl<'a> Decoder<'a> {
    /// Over `data`, which is allowed to unfold to `limit` bytes.
    pub fn new(codec: Codec, data: &'a [u8], limit: usize) -> Result<Self, CompressionError> {
        let stream = Stream::new(codec, data)
            .map_err(|error| CompressionError::Corrupt { codec, reason: error.to_string() })?;
        Ok(Self { codec, stream, limit, left: limit })
    }

    /// Turns an error that reading gave into what it was about.
    pub fn explain(&self, error: &io::Error) -> CompressionError {
        if error.kind() == io::ErrorKind::FileTooLarge {
            CompressionError::TooLarge { limit: self.limit }
        } else {
            CompressionError::Corrupt { codec: self.codec, reason: error.to_string() }
        }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut probe = [0];
        let full = self.left == 0;
        let wanted = into.len().min(self.left);
        let into = if full { &mut probe[..] } else { into.get_mut(..wanted).unwrap_or_default() };
        let count = match &mut self.stream {
            Stream::Plain(data) => data.read(into),
            Stream::Gzip(decoder) => decoder.read(into),
            Stream::Snappy(reader) => reader.read(into, self.left),
            Stream::Lz4(decoder) => decoder.read(into),
            Stream::Zstd(decoder) => decoder.read(into),
        }?;
        if full && count > 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.left -= count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> Vec<Vec<u8>> {
        let text = b"a record like the one before it, and the one after ".repeat(4000);
        let mut noise = Vec::new();
        let mut state = 1u32;
        for _ in 0..40_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.push((state >> 24) as u8);
        }
        vec![Vec::new(), b"x".to_vec(), text, noise]
    }

    #[test]
    fn every_codec_gives_back_what_it_took() {
        for codec in Codec::ALL {
            for data in samples() {
                for level in [None, Some(-1), Some(1), Some(9)] {
                    let packed = compress(Compression { codec, level }, &data).unwrap();
                    let unfolded = decompress(codec, &packed, data.len()).unwrap();
                    assert!(unfolded == data, "{codec:?} {level:?} {}", data.len());
                }
            }
        }
    }

    #[test]
    fn unfolding_stops_at_the_limit() {
        let zeros = vec![0; 300_000];
        for codec in Codec::ALL {
            let packed = compress(Compression::of(codec), &zeros).unwrap();
            let error = decompress(codec, &packed, zeros.len() - 1).unwrap_err();
            assert!(
                matches!(error, CompressionError::TooLarge { limit } if limit == zeros.len() - 1),
                "{codec:?}: {error}"
            );
        }
    }

    #[test]
    fn a_cut_stream_is_corrupt() {
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            for data in samples().into_iter().skip(2) {
                let packed = compress(Compression::of(codec), &data).unwrap();
                let cut = &packed[..packed.len() / 2];
                let error = decompress(codec, cut, usize::MAX).unwrap_err();
                assert!(matches!(error, CompressionError::Corrupt { .. }), "{codec:?}: {error}");
            }
        }
    }

    #[test]
    fn names_of_compression_type() {
        let cases = [
            ("producer", Some(CompressionType::Producer)),
            ("uncompressed", Some(CompressionType::Fixed(Compression::NONE))),
            ("zstd", Some(CompressionType::Fixed(Compression::of(Codec::Zstd)))),
            ("none", None),
            ("GZIP", None),
        ];
        for (name, expected) in cases {
            assert_eq!(CompressionType::from_name(name), expected, "{name}");
        }
        for codec in Codec::ALL {
            assert_eq!(Codec::from_id(codec.id()), Some(codec));
        }
        assert_eq!(Codec::from_id(5), None);
    }

    proptest! {
        #[test]
        fn random_bytes_never_unfold_past_the_limit(data: Vec<u8>, codec in 0i16..5) {
            let codec = Codec::from_id(codec).unwrap();
            if let Ok(unfolded) = decompress(codec, &data, 10_000) {
                prop_assert!(unfolded.len() <= 10_000);
            }
        }

        #[test]
        fn damaged_streams_never_panic(at: prop::sample::Index, byte: u8, codec in 1i16..5) {
            let codec = Codec::from_id(codec).unwrap();
            let data = b"records and records and records, and 0123456789".repeat(50);
            let mut packed = compress(Compression::of(codec), &data).unwrap();
            let at = at.index(packed.len());
            packed[at] = byte;
            if let Ok(unfolded) = decompress(codec, &packed, 20_000) {
                prop_assert!(unfolded.len() <= 20_000);
            }
        }
    }
}
