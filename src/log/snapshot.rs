//! Producer state on disk: the files `<offset>.snapshot`, version 1. `[P]`
//!
//! ```text
//! at 0  i16  version 1
//! at 2  u32  CRC-32C of all that follows
//! at 6  i32  number of entries
//! then per entry (46 bytes)
//!   i64 producer id         i16 producer epoch
//!   i32 last sequence       i64 last offset, -1 when no data batch is known
//!   i32 offset delta        i64 timestamp
//!   i32 coordinator epoch   i64 first offset of the open transaction, or -1
//! ```
//!
//! Only the newest of a producer's cached batches is kept.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::crc::crc32c;
use crate::types::{Offset, ProducerEpoch, ProducerId, Timestamp};

const VERSION: i16 = 1;
const CRC_END: usize = 6;
const ENTRY_LEN: usize = 46;

/// One producer, as a snapshot holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its newest incarnation.
    pub epoch: ProducerEpoch,
    /// Last sequence, -1 for none.
    pub last_sequence: i32,
    /// Offset of that record, -1 for none.
    pub last_offset: Offset,
    /// Offsets in the last batch, minus one.
    pub offset_delta: i32,
    /// Largest timestamp of the last batch, or that of the last marker.
    pub timestamp: Timestamp,
    /// Epoch of the coordinator that wrote the last marker, -1 for none.
    pub coordinator_epoch: i32,
    /// Where the open transaction began.
    pub transaction_start: Option<Offset>,
}

/// Why a snapshot file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Another version than 1.
    #[error("snapshot is of version {0}, not 1")]
    UnknownVersion(i16),
    /// The contents are not what the checksum was taken of.
    #[error("snapshot's checksum does not match its contents")]
    BadCrc,
    /// Too short, or not as long as the number of entries says.
    #[error("snapshot is {0} bytes long, which its entries do not add up to")]
    BadLength(usize),
}

/// The bytes of a snapshot file.
pub fn encode(entries: &[SnapshotEntry]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + entries.len() * ENTRY_LEN);
    let count = i32::try_from(entries.len()).unwrap_or(i32::MAX);
    body.extend_from_slice(&count.to_be_bytes());
    for entry in entries {
        body.extend_from_slice(&entry.producer_id.0.to_be_bytes());
        body.extend_from_slice(&entry.epoch.0.to_be_bytes());
        body.extend_from_slice(&entry.last_sequence.to_be_bytes());
        body.extend_from_slice(&entry.last_offset.0.to_be_bytes());
        body.extend_from_slice(&entry.offset_delta.to_be_bytes());
        body.extend_from_slice(&entry.timestamp.0.to_be_bytes());
        body.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        let start = entry.transaction_start.unwrap_or(Offset::NONE);
        body.extend_from_slice(&start.0.to_be_bytes());
    }
    let mut out = Vec::with_capacity(CRC_END + body.len());
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&crc32c(&body).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

/// Reads a snapshot file.
pub fn decode(bytes: &[u8]) -> Result<Vec<SnapshotEntry>, SnapshotError> {
    let bad_length = SnapshotError::BadLength(bytes.len());
    let (version, rest) = bytes.split_first_chunk().ok_or(bad_length)?;
    let version = i16::from_be_bytes(*version);
    if version != VERSION {
        return Err(SnapshotError::UnknownVersion(version));
    }
    let (crc, body) = rest.split_first_chunk().ok_or(bad_length)?;
    if crc32c(body) != u32::from_be_bytes(*crc) {
        return Err(SnapshotError::BadCrc);
    }
    let (count, entries) = body.split_first_chunk().ok_or(bad_length)?;
    let (entries, rest) = entries.as_chunks::<ENTRY_LEN>();
    if usize::try_from(i32::from_be_bytes(*count)) != Ok(entries.len()) || !rest.is_empty() {
        return Err(bad_length);
    }
    Ok(entries.iter().map(decode_entry).collect())
}

fn decode_entry(bytes: &[u8; ENTRY_LEN]) -> SnapshotEntry {
    let mut fields = Fields { rest: bytes };
    let mut entry = SnapshotEntry {
        producer_id: ProducerId(i64::from_be_bytes(fields.next())),
        epoch: ProducerEpoch(i16::from_be_bytes(fields.next())),
        last_sequence: i32::from_be_bytes(fields.next()),
        last_offset: Offset(i64::from_be_bytes(fields.next())),
        offset_delta: i32::from_be_bytes(fields.next()),
        timestamp: Timestamp(i64::from_be_bytes(fields.next())),
        coordinator_epoch: i32::from_be_bytes(fields.next()),
        transaction_start: None,
    };
    let start = Offset(i64::from_be_bytes(fields.next()));
    entry.transaction_start = (start >= Offset::ZERO).then_some(start);
    entry
}

/// Takes fixed fields off the front; the entry's length covers them all.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        match self.rest.split_first_chunk() {
            Some((field, rest)) => {
                self.rest = rest;
                *field
            }
            None => [0; N],
        }
    }
}

/// Of the snapshots in a directory, those that no segment needs: without a
/// segment of the same base offset, except the newest such one when it lies above
/// all segments (a clean stop wrote it).
pub fn stray_snapshots(snapshots: &[Offset], segment_bases: &[Offset]) -> Vec<Offset> {
    let mut strays = snapshots
        .iter()
        .copied()
        .filter(|snapshot| !segment_bases.contains(snapshot))
        .collect::<Vec<_>>();
    strays.sort_unstable();
    let newest_segment = segment_bases.iter().max();
    if let Some(newest) = strays.last()
        && newest_segment.is_none_or(|segment| newest >= segment)
    {
        strays.pop();
    }
    strays
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> SnapshotEntry {
        SnapshotEntry {
            producer_id: ProducerId(1),
            epoch: ProducerEpoch(2),
            last_sequence: 3,
            last_offset: Offset(4),
            offset_delta: 5,
            timestamp: Timestamp(6),
            coordinator_epoch: 7,
            transaction_start: Some(Offset(8)),
        }
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(encode(&[]), [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0]);
        let bytes = encode(&[entry()]);
        let expected = [
            [0, 0, 0, 1].as_slice(),
            &[0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 3],
            &[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5],
            &[0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 7],
            &[0, 0, 0, 0, 0, 0, 0, 8],
        ];
        assert_eq!(bytes[6..], expected.concat());
        assert_eq!(decode(&bytes), Ok(vec![entry()]));
    }

    #[test]
    fn kafkas_snapshot_to_the_byte() {
        // As Kafka 4.4.0 writes it: one producer in a transaction, one whose
        // batches are not known.
        let golden = concat!(
            "000120dbbe5600000002000000000000004d0003000000090000000000000063000000040000",
            "00000001e240000000070000000000000037000000000000004e0001ffffffffffffffffffff",
            "ffff000000000000000000000005ffffffffffffffffffffffff",
        );
        let entries = [
            SnapshotEntry {
                producer_id: ProducerId(77),
                epoch: ProducerEpoch(3),
                last_sequence: 9,
                last_offset: Offset(99),
                offset_delta: 4,
                timestamp: Timestamp(123_456),
                coordinator_epoch: 7,
                transaction_start: Some(Offset(55)),
            },
            SnapshotEntry {
                producer_id: ProducerId(78),
                epoch: ProducerEpoch(1),
                last_sequence: -1,
                last_offset: Offset::NONE,
                offset_delta: 0,
                timestamp: Timestamp(5),
                coordinator_epoch: -1,
                transaction_start: None,
            },
        ];
        let bytes = encode(&entries);
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex, golden);
        assert_eq!(decode(&bytes), Ok(entries.to_vec()));
    }

    #[test]
    fn damage_is_noticed() {
        let good = encode(&[entry(), SnapshotEntry { transaction_start: None, ..entry() }]);
        assert_eq!(decode(&[]), Err(SnapshotError::BadLength(0)));
        assert_eq!(decode(&good[..4]), Err(SnapshotError::BadLength(4)));
        assert_eq!(decode(&good[..good.len() - 1]), Err(SnapshotError::BadCrc));
        assert_eq!(decode(&[&[0, 2], &good[2..]].concat()), Err(SnapshotError::UnknownVersion(2)));
        let mut lying = good.clone();
        lying[9] = 3;
        let crc = crc32c(&lying[6..]);
        lying[2..6].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(decode(&lying), Err(SnapshotError::BadLength(good.len())));
    }

    #[test]
    fn strays() {
        let offsets = |list: &[i64]| list.iter().copied().map(Offset).collect::<Vec<_>>();
        let cases: [(&[i64], &[i64], &[i64]); 6] = [
            (&[10, 20, 30], &[10, 20, 30], &[]),
            (&[10, 15, 20, 40], &[10, 20], &[15]),
            (&[5, 15], &[10, 20], &[5, 15]),
            (&[15, 25], &[10, 20], &[15]),
            (&[7], &[], &[]),
            (&[], &[0], &[]),
        ];
        for (snapshots, segments, expected) in cases {
            let strays = stray_snapshots(&offsets(snapshots), &offsets(segments));
            assert_eq!(strays, offsets(expected), "{snapshots:?} {segments:?}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_refused(bytes: Vec<u8>) {
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn a_flipped_bit_is_noticed(at: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = encode(&[entry(); 3]);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
