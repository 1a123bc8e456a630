//! Publishes the image as far as it is committed, and writes snapshots of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::machine::ControllerMachine;
use crate::cluster::ClusterImage;
use crate::protocol::EncodeError;
use crate::raft::{Raft, SnapshotError, SnapshotId};
use crate::replicated::Observer;
use crate::sys::clock::Clock;
use crate::sys::thread::{self, Priority};
use crate::types::Offset;

/// When a snapshot is due.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotRules {
    /// `metadata.log.max.record.bytes.between.snapshots`
    pub max_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; zero: never by time.
    pub max_interval: Duration,
}

impl Default for SnapshotRules {
    fn default() -> Self {
        Self { max_bytes: 20 * 1024 * 1024, max_interval: Duration::from_secs(3600) }
    }
}

/// Where the image is seen.
#[derive(Debug)]
pub(super) struct Screens {
    pub(super) image: Arc<ArcSwap<ClusterImage>>,
    pub(super) published: watch::Sender<Arc<ClusterImage>>,
}

/// Follows the machine. See the module.
#[derive(Debug)]
pub(super) struct Publisher {
    screens: Screens,
    raft: Arc<Raft>,
    clock: Arc<dyn Clock>,
    rules: SnapshotRules,
    /// Last record that was there before this node led.
    inherited: Offset,
    /// Images by the offset that must be committed before they are shown.
    pending: VecDeque<(Offset, ClusterImage)>,
    last_snapshot: Duration,
    /// A snapshot is being written.
    busy: Arc<AtomicBool>,
}

impl Publisher {
    /// A publisher for a machine whose image ended at `inherited` when this node
    /// took the lead.
    pub(super) fn new(
        screens: Screens,
        raft: Arc<Raft>,
        clock: Arc<dyn Clock>,
        rules: SnapshotRules,
        inherited: Offset,
    ) -> Self {
        let last_snapshot = clock.monotonic();
        let busy = Arc::default();
        let pending = VecDeque::new();
        Self { screens, raft, clock, rules, inherited, pending, last_snapshot, busy }
    }

    fn publish(&mut self, image: ClusterImage) {
        let shown = self.screens.image.load();
        if image.offset <= shown.offset {
            return;
        }
        let image = Arc::new(image);
        self.screens.image.store(Arc::clone(&image));
        self.screens.published.send_replace(Arc::clone(&image));
        self.snapshot_when_due(&image);
        self.raft.clean_when_due();
    }

    fn snapshot_when_due(&mut self, image: &Arc<ClusterImage>) {
        let now = self.clock.monotonic();
        let interval = self.rules.max_interval;
        let by_time = !interval.is_zero() && now.saturating_sub(self.last_snapshot) >= interval;
        let by_size = self.raft.unsnapshotted_bytes() >= self.rules.max_bytes;
        if !(by_time || by_size) || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        self.last_snapshot = now;
        let (raft, busy) = (Arc::clone(&self.raft), Arc::clone(&self.busy));
        let image = Arc::clone(image);
        let writing = thread::spawn("metadata-snapshot", Priority::Background, move || {
            match write_snapshot(&raft, &image) {
                Ok(id) => tracing::info!("[SnapshotGenerator] Created snapshot {}", id.file_name()),
                Err(error) => tracing::error!(%error, "cannot write a snapshot of the metadata"),
            }
            busy.store(false, Ordering::Release);
        });
        if let Err(error) = writing {
            tracing::error!(%error, "cannot start a thread that writes a snapshot");
            self.busy.store(false, Ordering::Release);
        }
    }
}

impl Observer<ControllerMachine> for Publisher {
    fn replayed(&mut self, machine: &ControllerMachine, next_offset: Offset) {
        let mut image = machine.image().clone();
        if image.offset > self.inherited {
            image.epoch = self.raft.epoch();
            image.timestamp = self.clock.wall();
        }
        self.pending.push_back((next_offset, image));
    }

    fn committed(&mut self, high_watermark: Offset) {
        let mut newest = None;
        while self.pending.front().is_some_and(|(waits_for, _)| *waits_for <= high_watermark) {
            newest = self.pending.pop_front();
        }
        if let Some((_, image)) = newest {
            // What was set only while it was replayed holds for the stable part too.
            let stable = image.stable().clone();
            self.publish(stable);
        }
    }
}

/// Why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("a record cannot be written: {0}")]
    Encode(#[from] EncodeError),
}

/// Writes a snapshot of a committed image.
pub(super) fn write_snapshot(raft: &Raft, image: &ClusterImage) -> Result<SnapshotId, WriteError> {
    let id = SnapshotId { end_offset: image.offset + 1, epoch: image.epoch };
    let mut writer = raft.begin_snapshot(id, image.timestamp)?;
    let metadata_version = image.metadata_version();
    let filled = image.for_each_record(|record| {
        writer.append(record.encode(metadata_version)?)?;
        Ok::<_, WriteError>(())
    });
    if let Err(error) = filled {
        writer.abandon();
        return Err(error);
    }
    raft.snapshot_written(id, writer.finish()?);
    Ok(id)
}
