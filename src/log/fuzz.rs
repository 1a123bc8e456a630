//! Damaged batches, files and directories: nothing panics, nothing takes more
//! memory than it may, and recovery keeps what is sound.

use crate::log::append_plan::AppendPlan;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::batch::{BatchView, batches};
use super::batch_builder::{BatchBuilder, BatchOptions};
use super::compaction::filter::{Fate, Filter, FilterCounts};
use super::compaction::offset_map::OffsetMap;
use super::compaction::transactions::CleanedTransactions;
use super::compression::{Codec, Compression, decompress};
use super::control::EndTransactionMarker;
use super::crc::crc32c;
use super::files::OpenFiles;
use super::validate::{check_given, check_produced, validate};
use super::*;
use crate::sys::clock::ManualClock;
use crate::sys::cold::IfCold;
use crate::sys::disk::Disk as _;
use crate::sys::memory_disk::MemoryDisk;
use crate::sys::random::Random;
use crate::testing::fuzz::{damage, fuzz, pick, times};
use crate::types::{ProducerEpoch, ProducerId, TopicPartition};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const NOW: Timestamp = Timestamp(1_700_000_000_000);
const UNFOLDED_LIMIT: usize = 1 << 20;

/// A batch of producer 7, one of its third transaction when it is compressed.
fn batch(codec: Codec, first_sequence: i32) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions {
        compression: Compression::of(codec),
        producer_id: ProducerId(7),
        producer_epoch: ProducerEpoch(3),
        base_sequence: first_sequence,
        transactional: codec != Codec::None,
        ..BatchOptions::default()
    });
    for number in 0..5_u8 {
        let value = [number; 40];
        let headers = [(b"a".as_slice(), None), (b"a", Some(b"twice".as_slice()))];
        builder.append_with_headers(NOW, Some(&[number]), Some(&value), headers.into_iter());
    }
    builder.build().unwrap()
}

fn marker(committed: bool) -> Bytes {
    let marker = EndTransactionMarker { committed, coordinator_epoch: 0 };
    let producer = (ProducerId(7), ProducerEpoch(3));
    marker.batch(Offset::ZERO, LeaderEpoch(0), NOW, producer).unwrap()
}

fn batch_corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<_> = CODECS.map(|codec| batch(codec, 0).to_vec()).into();
    corpus.push(marker(false).to_vec());
    corpus.push([corpus[0].clone(), corpus[4].clone()].concat());
    corpus
}

/// The same bytes with lengths and checksums that fit, so that what lies behind
/// the checksum is reached too.
fn with_sound_envelope(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let len = i32::try_from(bytes.len().checked_sub(12)?).ok()?;
    bytes.get_mut(8..12)?.copy_from_slice(&len.to_be_bytes());
    *bytes.get_mut(16)? = 2;
    let crc = crc32c(bytes.get(21..)?);
    bytes.get_mut(17..21)?.copy_from_slice(&crc.to_be_bytes());
    Some(bytes)
}

fn read_every_way(bytes: &[u8]) {
    for found in batches(bytes).filter_map(Result::ok) {
        let _ = found.check_crc();
        let _ = EndTransactionMarker::from_batch(&found);
        let Some(codec) = found.header().codec() else { continue };
        if let Ok(plain) = decompress(codec, found.payload(), UNFOLDED_LIMIT) {
            assert!(plain.len() <= UNFOLDED_LIMIT);
            for record in record::Records::new(found.header(), &plain) {
                let Ok(record) = record else { break };
                assert_eq!(record.headers.iter().count(), record.headers.len());
            }
            compact(&found);
        }
    }
    for version in [3, 7] {
        let _ = check_produced(bytes, version);
    }
    let bytes = Bytes::copy_from_slice(bytes);
    let rules = AppendRules {
        max_unfolded_bytes: UNFOLDED_LIMIT,
        deep_check: true,
        ..AppendRules::of(&LogConfig::default())
    };
    for origin in [AppendOrigin::Client, AppendOrigin::Coordinator] {
        let recompress = AppendRules {
            compression_type: compression::CompressionType::Fixed(Compression::of(Codec::Zstd)),
            ..rules
        };
        for rules in [rules, recompress] {
            if let Ok(plan) = validate(&bytes, origin, &rules, NOW) {
                assert_accepted_is_sound(plan);
            }
        }
    }
    for origin in [AppendOrigin::Replication, AppendOrigin::RaftLeader] {
        let _ = check_given(&bytes, origin, LeaderEpoch(0), None);
    }
}

/// What compaction makes of a batch, anybody can read, and it ends where it did.
fn compact(batch: &BatchView<'_>) {
    let mut map = OffsetMap::new(2, 1000, 0.9);
    map.put(&[1], batch.header().base_offset);
    map.reached(batch.header().last_offset());
    let mut filter = Filter {
        map: &map,
        transactions: CleanedTransactions::default(),
        producers: &HashMap::new(),
        high_watermark: batch.header().next_offset(),
        now: NOW,
        delete_retention_ms: 1000,
        counts: FilterCounts::default(),
    };
    if let Ok((Fate::Changed(header, bytes), _)) = filter.judge(batch) {
        let view = BatchView::parse(&bytes).unwrap();
        view.check_crc().unwrap();
        assert_eq!(view.bytes().len(), bytes.len());
        assert_eq!(header.last_offset(), batch.header().last_offset());
        let plain = compression::stored_records(&view).unwrap();
        let count = record::Records::new(view.header(), &plain).map(Result::unwrap).count();
        assert_eq!(i32::try_from(count), Ok(header.record_count));
    }
}

/// What a leader accepts, anybody can read.
fn assert_accepted_is_sound(mut plan: AppendPlan) {
    plan.stamp(Offset(1000), LeaderEpoch(2));
    let mut next = Offset(1000);
    for planned in &plan.batches {
        let written = planned.to_bytes();
        let view = BatchView::parse(&written).unwrap();
        view.check_crc().unwrap();
        let plain = decompress(view.header().codec().unwrap(), view.payload(), UNFOLDED_LIMIT);
        for record in record::Records::new(view.header(), &plain.unwrap()) {
            assert_eq!(record.unwrap().offset, next);
            next += 1;
        }
    }
    assert_eq!(next, Offset(1000) + plan.offset_count);
}

#[test]
fn damaged_batches() {
    fuzz(1500, &batch_corpus(), |bytes| {
        read_every_way(bytes);
        if let Some(bytes) = with_sound_envelope(bytes) {
            read_every_way(&bytes);
        }
    });
}

#[test]
fn damaged_texts_and_snapshots() {
    let entry = checkpoint_text::encode_epochs([(LeaderEpoch(3), Offset(42))].into_iter());
    let name = TopicPartition::new("orders", 2);
    let offsets = checkpoint_text::encode_offsets([(&name, Offset(42))].into_iter());
    let id = checkpoint_text::encode_partition_metadata(TopicId::from_u128(42));
    let properties = "#comment\nversion=1\ncluster.id = 4L6g\\u0041\\\n  x\n".to_owned();
    let corpus = [entry, offsets, id, properties].map(String::into_bytes);
    fuzz(4000, &corpus, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(entries) = checkpoint_text::decode_epochs(&text) {
            let again = checkpoint_text::encode_epochs(entries.iter().copied());
            assert_eq!(checkpoint_text::decode_epochs(&again), Ok(entries));
        }
        let _ = Epochs::decode(&text);
        let _ = checkpoint_text::decode_offsets(&text);
        let _ = checkpoint_text::decode_partition_metadata(&text);
        for property in crate::properties::parse(&text) {
            let again = crate::properties::write([(&*property.key, &*property.value)]);
            let found = crate::properties::parse(&again);
            assert_eq!((&found[0].key, &found[0].value), (&property.key, &property.value));
        }
        let _ = snapshot::decode(bytes);
        let _ = file_names::SegmentFile::parse(&text);
        let _ = file_names::PartitionDirectory::parse(&text);
        let _ = file_names::MetadataSnapshot::parse(&text);
    });
}

const DIR: &str = "/data/orders-0";

fn options(disk: &MemoryDisk, clean: bool) -> LogOptions {
    let config = LogConfig {
        segment_bytes: 1200,
        index_interval_bytes: 100,
        segment_index_bytes: 400,
        ..LogConfig::default()
    };
    LogOptions {
        config: Arc::new(config),
        kind: LogKind::Partition,
        topic_id: None,
        clean,
        recovery_point: Offset::ZERO,
        log_start: Offset::ZERO,
        high_watermark: Offset::ZERO,
        producer_expiration_ms: 86_400_000,
        files: OpenFiles::new(disk.shared(), 16),
        clock: ManualClock::starting_at(NOW),
        health: DirectoryHealth::sound(),
        rewound: None,
    }
}

/// A log of several segments with all codecs, aborted and open transactions.
fn write_log(disk: &MemoryDisk) -> Vec<Bytes> {
    let (mut log, _) = Log::open(Path::new(DIR), options(disk, true)).unwrap();
    let rules = AppendRules::of(log.config());
    log.assign_epoch(LeaderEpoch(0), Offset::ZERO).unwrap();
    let mut append = |records: Bytes, round: i32, origin| {
        let plan = validate(&records, origin, &rules, NOW).unwrap();
        let context =
            ProducerContext { verification_required: false, ..ProducerContext::of(origin) };
        log.append_plan(plan, LeaderEpoch(round), &context).unwrap();
    };
    for round in 0..6 {
        for (number, codec) in CODECS.into_iter().enumerate().skip(1) {
            let sequence = (round * 4 + number as i32 - 1) * 5;
            append(batch(codec, sequence), round, AppendOrigin::Client);
        }
        if round < 5 {
            append(marker(round % 2 == 0), round, AppendOrigin::Coordinator);
        }
    }
    let written = read_log(&log).unwrap();
    log.close_clean().unwrap();
    written
}

fn read_log(log: &Log) -> Result<Vec<Bytes>, ReadError> {
    let mut found = Vec::new();
    let mut at = log.log_start_offset();
    while at < log.log_end_offset() {
        let slice = log.read(at, log.log_end_offset(), 500, true)?;
        let Ok(bytes) = slice.read() else { break };
        for batch in batches(&bytes).filter_map(Result::ok) {
            found.push(Bytes::copy_from_slice(batch.bytes()));
        }
        if slice.end_offset <= at {
            break;
        }
        at = slice.end_offset;
    }
    Ok(found)
}

fn files_of(disk: &MemoryDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = disk.list(Path::new(DIR)).unwrap();
    let mut paths: Vec<PathBuf> =
        entries.iter().map(|entry| Path::new(DIR).join(&entry.name)).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), disk.bytes(&path))).collect()
}

fn use_every_way(log: &mut Log) {
    let _ = read_log(log);
    let end = log.log_end_offset();
    for timestamp in [-6, -3, -2, 0, NOW.0, NOW.0 + 1] {
        let spec = OffsetSpec::from_timestamp(timestamp).unwrap();
        if let Ok(OffsetFor::Search(search)) = log.offset_for(spec, IfCold::Wait) {
            let _ = search.run();
        }
    }
    let _ = log.aborted_transactions(log.log_start_offset(), end, IfCold::Wait);
    let rules = AppendRules::of(log.config());
    let _ =
        log.append_as_leader(batch(Codec::None, 0), LeaderEpoch(9), AppendOrigin::Client, &rules);
    let _ = log.truncate_to(Offset(end.0 / 2));
    log.health().repaired();
    let _ = log.close_clean();
}

/// Recovery cannot know of whole batches that are gone, and offset and epoch are
/// not under the checksum; but each batch is one that was written, in order.
fn assert_nothing_foreign(found: &[Bytes], written: &[Bytes], seed: u64) {
    let mut next = Offset::ZERO;
    for bytes in found {
        let header = *BatchView::parse(bytes).unwrap().header();
        assert!(header.base_offset >= next, "{seed}: {header:?} after {next:?}");
        next = header.next_offset();
        let known = written.iter().any(|written| written[16..] == bytes[16..]);
        assert!(known, "{seed}: {header:?}");
    }
}

/// One file of a log's directory is damaged or gone. After a stop that was not
/// clean the log opens all the same and holds what is sound; after a clean one
/// nothing was checked, so errors may come later, but no panic.
#[test]
fn damaged_directories() {
    let sound = MemoryDisk::new();
    let written = write_log(&sound);
    let files = files_of(&sound);
    let corpus: Vec<Vec<u8>> = files.iter().map(|(_, bytes)| bytes.clone()).collect();
    assert!(files.len() > 12 && written.len() == 29, "{} files", files.len());
    for seed in 0..300 * times() {
        let dice = Random::from_seed(seed);
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let (victim, _) = pick(&dice, &files);
        for (path, bytes) in &files {
            let mut bytes = bytes.clone();
            if path == victim {
                if dice.below(8) == 0 {
                    continue;
                }
                damage(&dice, &mut bytes, &corpus);
            }
            disk.open(path, crate::sys::disk::Open::Create).unwrap().write_at(&bytes, 0).unwrap();
        }
        let clean = dice.below(3) == 0;
        let opened = Log::open(Path::new(DIR), options(&disk, clean));
        if !clean {
            let (log, _) = match &opened {
                Ok(opened) => opened,
                // It may be damage or a segment that an old Kafka let grow too
                // long; cutting there would lose the records of the second.
                Err(error) if error.to_string().contains("too far from the base") => continue,
                Err(error) => panic!("{seed} {victim:?}: {error}"),
            };
            let found = read_log(log).unwrap_or_else(|error| panic!("{seed} {victim:?}: {error}"));
            assert_nothing_foreign(&found, &written, seed);
            let is_log = victim.extension().is_some_and(|extension| extension == "log");
            assert!(is_log || found == written, "{seed}: {victim:?}");
        }
        if let Ok((mut log, _)) = opened {
            use_every_way(&mut log);
        }
    }
}
