//! A log on a disk that breaks: everything that goes to files, end to end.

mod basics;
mod compacting;
mod crashes;
mod damage;
mod moving;
mod recovering;
mod stores;
mod timestamps;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;

use super::batch::{BatchHeader, batches};
use super::batch_builder::{BatchBuilder, BatchOptions};
use super::files::OpenFiles;
use super::*;
use crate::sys::clock::ManualClock;
use crate::sys::cold::IfCold;
use crate::sys::memory_disk::MemoryDisk;
use crate::types::{ProducerEpoch, ProducerId};

pub(super) const START: Timestamp = Timestamp(1_700_000_000_000);

/// A disk, a clock, and how a log on them is opened.
#[derive(Debug)]
pub(super) struct Bench {
    pub disk: MemoryDisk,
    pub clock: Arc<ManualClock>,
    pub config: LogConfig,
    pub kind: LogKind,
    /// The recovery point as a checkpoint file would hold it.
    pub checkpoint: Arc<Checkpoint>,
}

#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    recovery_point: AtomicI64,
    marks: parking_lot::Mutex<Option<Arc<LogMarks>>>,
}

impl Checkpoint {
    pub fn write(&self) {
        if let Some(marks) = &*self.marks.lock() {
            self.recovery_point.store(marks.recovery_point().0, Ordering::SeqCst);
        }
    }
}

impl Rewound for Checkpoint {
    fn recovery_point_rewound(&self) -> io::Result<()> {
        self.write();
        Ok(())
    }
}

impl Bench {
    pub fn new(config: LogConfig) -> Self {
        let disk = MemoryDisk::new();
        disk.shared().create_dir_all(Path::new("/logs")).unwrap();
        Self {
            disk,
            clock: ManualClock::starting_at(START),
            config,
            kind: LogKind::Partition,
            checkpoint: Arc::default(),
        }
    }

    /// Small segments, an index entry for nearly every batch.
    pub fn small() -> Self {
        Self::new(LogConfig {
            segment_bytes: 1000,
            index_interval_bytes: 100,
            ..LogConfig::default()
        })
    }

    pub fn dir(&self) -> PathBuf {
        "/logs/t-0".into()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub fn options(&self) -> LogOptions {
        LogOptions {
            config: Arc::new(self.config.clone()),
            kind: self.kind,
            topic_id: Some(TopicId::from_u128(1000)),
            clean: false,
            recovery_point: Offset(self.checkpoint.recovery_point.load(Ordering::SeqCst)),
            log_start: Offset::ZERO,
            high_watermark: Offset::ZERO,
            producer_expiration_ms: 86_400_000,
            files: OpenFiles::new(self.disk.shared(), 3),
            clock: self.clock.clone(),
            health: DirectoryHealth::sound(),
            rewound: Some(self.checkpoint.clone()),
        }
    }

    pub fn open_with(&self, options: LogOptions) -> Result<(Log, RecoveryReport), LogError> {
        let (log, report) = Log::open(&self.dir(), options)?;
        *self.checkpoint.marks.lock() = Some(log.marks().clone());
        Ok((log, report))
    }

    /// After a stop that was not clean.
    pub fn open(&self) -> (Log, RecoveryReport) {
        self.open_with(self.options()).unwrap()
    }

    /// After a clean one.
    pub fn open_clean(&self) -> (Log, RecoveryReport) {
        self.open_with(LogOptions { clean: true, ..self.options() }).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = self.disk.shared().list(&self.dir()).unwrap();
        let mut names = entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        names.sort();
        names
    }
}

/// A batch of records whose values are `values`, with this timestamp.
pub(super) fn batch_at(timestamp: Timestamp, values: &[&str]) -> Bytes {
    built(BatchOptions::default(), timestamp, values)
}

pub(super) fn batch(values: &[&str]) -> Bytes {
    batch_at(START, values)
}

pub(super) fn built(options: BatchOptions, timestamp: Timestamp, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for value in values {
        builder.append(timestamp, Some(b"key"), Some(value.as_bytes()));
    }
    builder.build().unwrap()
}

pub(super) fn produced(producer: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let options = BatchOptions {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        ..BatchOptions::default()
    };
    built(options, START, values)
}

pub(super) fn append(log: &mut Log, records: Bytes) -> Result<AppendInfo, AppendError> {
    append_in(log, records, LeaderEpoch(0))
}

pub(super) fn append_in(
    log: &mut Log,
    records: Bytes,
    epoch: LeaderEpoch,
) -> Result<AppendInfo, AppendError> {
    let rules = AppendRules::of(log.config());
    log.append_as_leader(records, epoch, AppendOrigin::Client, &rules)
}

/// Every record from `from` on: offset and value. Checks every batch.
pub(super) fn read_from(log: &Log, from: Offset) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let mut next = from;
    while next < log.log_end_offset() {
        let slice = log.read(next, log.log_end_offset(), 300, true).unwrap();
        assert!(slice.end_offset > next || slice.is_empty());
        if slice.is_empty() {
            break;
        }
        let bytes = slice.read().unwrap();
        for batch in batches(&bytes) {
            let batch = batch.unwrap();
            batch.check_crc().unwrap();
            for record in batch.records().unwrap() {
                let record = record.unwrap();
                if record.offset >= next {
                    let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
                    found.push((record.offset.0, value));
                }
            }
        }
        next = slice.end_offset;
    }
    found
}

pub(super) fn read_all(log: &Log) -> Vec<(i64, String)> {
    read_from(log, log.log_start_offset())
}

pub(super) fn offset_for(log: &Log, spec: OffsetSpec) -> Option<TimestampAndOffset> {
    match log.offset_for(spec, IfCold::Wait).unwrap() {
        OffsetFor::Known(found) => found,
        OffsetFor::Search(search) => search.run().unwrap(),
        OffsetFor::Cold(cold) => panic!("{cold}"),
    }
}

pub(super) fn values(range: std::ops::Range<i64>) -> Vec<(i64, String)> {
    range.map(|offset| (offset, format!("value {offset}"))).collect()
}

/// Appends one record in a batch of its own for each offset from the log's end
/// up to `end`, with the value that [`values`] expects.
pub(super) fn fill(log: &mut Log, end: i64) {
    while log.log_end_offset().0 < end {
        let value = format!("value {}", log.log_end_offset());
        append(log, batch(&[&value])).unwrap();
    }
}

pub(super) fn headers(bytes: &[u8]) -> Vec<BatchHeader> {
    batches(bytes).map(|batch| *batch.unwrap().header()).collect()
}
