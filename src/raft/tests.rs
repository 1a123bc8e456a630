//! The metadata log on a disk that breaks.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    FormatRequest, Loaded, MetadataLog, MetadataLogOptions, Raft, ReplicaKey, SnapshotId, Voter,
    VoterEndpoint, VoterProgress, VoterSet, format,
};
use crate::sys::clock::{Clock, ManualClock};
use crate::sys::disk::Disk;
use crate::sys::memory_disk::{Fault, MemoryDisk};
use crate::sys::random::Random;
use crate::types::{BrokerId, DirectoryId, Offset, Timestamp};

const DIR: &str = "/data";
const ME: ReplicaKey =
    ReplicaKey { id: BrokerId(1), directory: Some(DirectoryId::from_u128(0xd1_0000)) };

fn endpoints(port: u16) -> Vec<VoterEndpoint> {
    vec![VoterEndpoint { name: "CONTROLLER".into(), host: "localhost".into(), port }]
}

fn voter(port: u16) -> Voter {
    Voter { key: ME, endpoints: endpoints(port), kraft_versions: (0, 1) }
}

struct Rig {
    disk: MemoryDisk,
    clock: Arc<ManualClock>,
}

impl Rig {
    /// A formatted directory whose only voter is this node.
    fn new() -> Self {
        let rig =
            Self { disk: MemoryDisk::new(), clock: ManualClock::starting_at(Timestamp(1_000)) };
        let records = [Bytes::from_static(b"bootstrap")];
        let voters = VoterSet::new([voter(9093)]);
        let request = FormatRequest {
            records: &records,
            voters: Some(&voters),
            kraft_version: 1,
            now: Timestamp(1_000),
        };
        format(&rig.disk(), Path::new(DIR), &request).unwrap();
        rig
    }

    fn disk(&self) -> Arc<dyn Disk> {
        self.disk.shared()
    }

    fn options(&self) -> MetadataLogOptions {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        MetadataLogOptions::new(Path::new(DIR), self.disk(), clock)
    }

    /// Opens and reads everything: a line for each thing that was read.
    fn open(&self) -> (MetadataLog, String) {
        let mut log = MetadataLog::open(self.options()).unwrap();
        let mut lines = String::new();
        let bootstrap = log
            .load(|loaded| {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                lines += &match loaded {
                    Loaded::Snapshot(_, value) => format!("snapshot {}\n", text(value)),
                    Loaded::SnapshotEnd(id, at) => format!("until {} at {at}\n", id.end_offset),
                    Loaded::Record { offset, epoch, value, .. } => {
                        format!("{offset} in {epoch}: {}\n", text(value))
                    }
                };
                Ok(())
            })
            .unwrap();
        assert_eq!(bootstrap.records, [b"bootstrap"]);
        (log, lines)
    }

    fn lead(&self) -> Raft {
        Raft::lead(self.open().0, ME, endpoints(9093)).unwrap()
    }
}

fn values(values: &[&'static str]) -> Vec<Bytes> {
    values.iter().map(|value| Bytes::from_static(value.as_bytes())).collect()
}

async fn committed(raft: &Raft, up_to: i64) {
    raft.committed().wait_for(|high_watermark| *high_watermark >= Offset(up_to)).await.unwrap();
}

#[tokio::test]
async fn an_epoch_begins_with_who_leads_and_who_votes() {
    let rig = Rig::new();
    let raft = rig.lead();
    // Leader change, level and voters; then the next time only the leader change.
    assert_eq!((raft.epoch().0, raft.log_end()), (1, Offset(3)));
    committed(&raft, 3).await;
    raft.close();
    let raft = rig.lead();
    assert_eq!((raft.epoch().0, raft.log_end()), (2, Offset(4)));
    raft.close();
    // Its listener has moved: the voters are written again.
    let raft = Raft::lead(rig.open().0, ME, endpoints(19093)).unwrap();
    assert_eq!((raft.epoch().0, raft.log_end()), (3, Offset(7)));
    committed(&raft, 7).await;
    let progress = VoterProgress { voter: voter(19093), log_end: Offset(7) };
    let quorum = raft.quorum();
    assert_eq!((quorum.leader, quorum.epoch, quorum.voters), (ME.id, raft.epoch(), vec![progress]));
    raft.close();
    assert_eq!(rig.open().0.kraft_version(), 1);
}

#[tokio::test]
async fn what_is_committed_survives_a_crash() {
    let rig = Rig::new();
    let raft = rig.lead();
    let first = raft.append(&values(&["a", "b"]), Timestamp(5)).unwrap();
    assert_eq!(first, Offset(3));
    committed(&raft, 5).await;
    rig.disk.power_lost(&Random::from_seed(1));
    drop(raft);
    let (log, lines) = rig.open();
    assert_eq!(lines, "3 in 1: a\n4 in 1: b\n");
    let raft = Raft::lead(log, ME, endpoints(9093)).unwrap();
    assert_eq!(raft.epoch().0, 2);
    raft.append(&values(&["c"]), Timestamp(6)).unwrap();
    committed(&raft, 7).await;
    raft.close();
    assert_eq!(rig.open().1, "3 in 1: a\n4 in 1: b\n6 in 2: c\n");
}

#[tokio::test]
async fn a_disk_that_fails_ends_the_lead() {
    let rig = Rig::new();
    let raft = rig.lead();
    committed(&raft, 3).await;
    // The write still goes through, the sync does not.
    rig.disk.break_with(Fault::full(1));
    raft.append(&values(&["a"]), Timestamp(5)).unwrap();
    let mut watching = raft.committed();
    while watching.changed().await.is_ok() {}
    assert_eq!(*watching.borrow(), Offset(3));
    assert!(raft.append(&values(&["b"]), Timestamp(5)).is_err());
}

fn snapshot(raft: &Raft, end: i64, records: &[&'static str]) -> SnapshotId {
    let id = SnapshotId { end_offset: Offset(end), epoch: raft.epoch() };
    let mut writer = raft.begin_snapshot(id, Timestamp(7)).unwrap();
    for value in values(records) {
        writer.append(value).unwrap();
    }
    raft.snapshot_written(id, writer.finish().unwrap());
    id
}

#[tokio::test]
async fn a_snapshot_stands_for_what_was_before_it() {
    let rig = Rig::new();
    let raft = rig.lead();
    raft.append(&values(&["a", "b"]), Timestamp(5)).unwrap();
    raft.append(&values(&["c"]), Timestamp(5)).unwrap();
    committed(&raft, 6).await;
    let beyond = SnapshotId { end_offset: Offset(7), epoch: raft.epoch() };
    assert!(raft.begin_snapshot(beyond, Timestamp(7)).is_err());
    snapshot(&raft, 5, &["a and b"]);
    raft.close();
    let (log, lines) = rig.open();
    assert_eq!(lines, "snapshot a and b\nuntil 5 at 7\n5 in 1: c\n");

    // Unfinished ones are swept away.
    let raft = Raft::lead(log, ME, endpoints(9093)).unwrap();
    committed(&raft, 7).await;
    let id = SnapshotId { end_offset: Offset(6), epoch: raft.epoch() };
    drop(raft.begin_snapshot(id, Timestamp(8)).unwrap());
    drop(raft);
    rig.open();
    let left = rig.disk.list(&Path::new(DIR).join("__cluster_metadata-0")).unwrap();
    assert!(!left.iter().any(|entry| entry.name.ends_with(".part")));
}

#[tokio::test]
async fn a_log_that_ends_before_its_snapshot_begins_anew_there() {
    let rig = Rig::new();
    let raft = rig.lead();
    raft.append(&values(&["a", "b"]), Timestamp(5)).unwrap();
    committed(&raft, 5).await;
    snapshot(&raft, 5, &["a and b"]);
    raft.close();
    let dir = Path::new(DIR).join("__cluster_metadata-0");
    for entry in rig.disk.list(&dir).unwrap() {
        let old = [".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"];
        if old.iter().any(|suffix| entry.name.ends_with(suffix)) {
            rig.disk.remove_file(&dir.join(entry.name)).unwrap();
        }
    }
    let (log, lines) = rig.open();
    assert_eq!(lines, "snapshot a and b\nuntil 5 at 7\n");
    let raft = Raft::lead(log, ME, endpoints(9093)).unwrap();
    assert_eq!(raft.log_end(), Offset(6));
    raft.close();
}

#[tokio::test]
async fn old_snapshots_go_and_the_log_before_them() {
    let rig = Rig::new();
    let options = MetadataLogOptions {
        retention: super::snapshots::Retention { bytes: 1, ms: -1 },
        ..rig.options()
    };
    let mut log = MetadataLog::open(options).unwrap();
    log.load(|_| Ok(())).unwrap();
    let raft = Raft::lead(log, ME, endpoints(9093)).unwrap();
    raft.append(&values(&["a", "b"]), Timestamp(5)).unwrap();
    committed(&raft, 5).await;
    snapshot(&raft, 3, &["nothing"]);
    snapshot(&raft, 5, &["a and b"]);
    assert_eq!(raft.log_start(), Offset(5));
    raft.close();
    let mut log = MetadataLog::open(rig.options()).unwrap();
    let mut read = 0;
    log.load(|loaded| {
        read += i32::from(matches!(loaded, Loaded::Snapshot(..)));
        Ok(())
    })
    .unwrap();
    assert_eq!(read, 1);
}

#[tokio::test]
async fn a_snapshot_without_a_footer_is_refused() {
    let rig = Rig::new();
    let path = Path::new(DIR).join("__cluster_metadata-0").join(SnapshotId::BOOTSTRAP.file_name());
    let opened = rig.disk.open(&path, crate::sys::disk::Open::Write);
    assert_eq!(opened.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let whole = rig.disk.bytes(&path).len();
    for cut in [whole - 1, whole - 70, 1] {
        rig.disk.tamper(&path, |bytes| bytes.truncate(cut));
        let mut opened = MetadataLog::open(rig.options());
        let loaded = opened.as_mut().map(|log| log.load(|_| Ok(())).map(|_| ()));
        assert!(!matches!(loaded, Ok(Ok(()))), "cut to {cut}");
    }
}

/// Leads, appends one by one until the disk breaks; what was committed.
async fn run_until_broken(rig: &Rig) -> Vec<&'static str> {
    let Ok(mut log) = MetadataLog::open(rig.options()) else { return Vec::new() };
    if log.load(|_| Ok(())).is_err() {
        return Vec::new();
    }
    let Ok(raft) = Raft::lead(log, ME, endpoints(9093)) else { return Vec::new() };
    let mut done = Vec::new();
    for value in ["a", "b", "c", "d"] {
        let Ok(offset) = raft.append(&values(&[value]), Timestamp(5)) else { return done };
        let mut watching = raft.committed();
        if watching.wait_for(|high_watermark| *high_watermark > offset).await.is_err() {
            return done;
        }
        done.push(value);
        if value == "b" {
            let id = SnapshotId { end_offset: offset + 1, epoch: raft.epoch() };
            let written = raft.begin_snapshot(id, Timestamp(7)).and_then(|mut writer| {
                writer.append(Bytes::from_static(b"a"))?;
                writer.append(Bytes::from_static(b"b"))?;
                writer.finish()
            });
            let Ok(facts) = written else { return done };
            raft.snapshot_written(id, facts);
        }
    }
    raft.close();
    done
}

#[tokio::test]
async fn at_no_instant_does_a_crash_lose_what_was_committed() {
    let whole = Rig::new();
    let before = whole.disk.operations();
    assert_eq!(run_until_broken(&whole).await.len(), 4);
    let operations = whole.disk.operations() - before;
    for crash_point in 0..operations {
        for seed in 0..4 {
            let rig = Rig::new();
            rig.disk.break_with(Fault::stop(crash_point));
            let done = run_until_broken(&rig).await;
            rig.disk.power_lost(&Random::from_seed(crash_point * 31 + seed));
            let (log, lines) = rig.open();
            for value in &done {
                let kept = lines.lines().filter(|line| line.ends_with(&format!(" {value}")));
                assert_eq!(kept.count(), 1, "{value} after operation {crash_point}:\n{lines}");
            }
            let raft = Raft::lead(log, ME, endpoints(9093)).unwrap();
            let end = raft.log_end();
            committed(&raft, end.0).await;
        }
    }
}

#[tokio::test]
async fn a_quorum_by_configuration_knows_no_directories() {
    let disk = MemoryDisk::new();
    let clock = ManualClock::starting_at(Timestamp(1_000));
    let request = FormatRequest {
        records: &[Bytes::from_static(b"bootstrap")],
        voters: None,
        kraft_version: 0,
        now: Timestamp(1_000),
    };
    format(&disk.shared(), Path::new(DIR), &request).unwrap();
    let me = ReplicaKey { directory: None, ..ME };
    let options = MetadataLogOptions {
        static_voters: VoterSet::new([Voter { key: me, ..voter(9093) }]),
        ..MetadataLogOptions::new(Path::new(DIR), disk.shared(), clock)
    };
    let mut log = MetadataLog::open(options).unwrap();
    log.load(|_| Ok(())).unwrap();
    let raft = Raft::lead(log, ME, endpoints(9093)).unwrap();
    // A leader change and nothing else.
    assert_eq!(raft.log_end(), Offset(1));
    committed(&raft, 1).await;
    raft.close();
    let path = Path::new(DIR).join("__cluster_metadata-0/quorum-state");
    let state = String::from_utf8(disk.bytes(&path)).unwrap();
    assert!(state.contains(r#""currentVoters":[{"voterId":1}],"data_version":0"#), "{state}");
}
