//! Runs a node over its log: persists, appends, syncs, publishes.
//!
//! Appending puts a batch into the page cache and returns. One thread syncs: it
//! takes everything that was appended since its last sync, however many wait for
//! it, and only then does the high watermark move. So many commands share one
//! sync, and no asynchronous thread ever waits for the disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::control::{Control, control_batch, data_batch};
use super::metadata_log::{Membership, MetadataLog, MetadataLogOptions};
use super::node::{ElectionError, Node};
use super::snapshot_file::{SnapshotError, SnapshotWriter};
use super::snapshots::{SnapshotFacts, SnapshotId, Snapshots, expired};
use super::vote_file;
use super::voters::{ReplicaKey, Voter, VoterEndpoint};
use crate::log::{AppendError, AppendOrigin, AppendRules, Log, LogConfig, LogError};
use crate::protocol::EncodeError;
use crate::sys::thread::{self, Priority};
use crate::types::{BrokerId, LeaderEpoch, Offset, Timestamp};

/// Levels of `kraft.version` that this node can work with.
const KRAFT_VERSIONS: (i16, i16) = (0, 1);

/// How often it is looked whether snapshots may go.
const CLEAN_INTERVAL: Duration = Duration::from_secs(60);

/// Why the node cannot take or keep the lead.
#[derive(Debug, thiserror::Error)]
pub enum RaftError {
    /// This node may not lead.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// The vote cannot be written.
    #[error("{path}: {source}")]
    Vote {
        /// The directory of the metadata log.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A record cannot be written in the format.
    #[error("a record of the metadata log: {0}")]
    Encode(#[from] EncodeError),
    /// The log refused a batch.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The thread that syncs cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The log failed before, or was closed.
    #[error("the metadata log is closed")]
    Closed,
}

/// What the leader knows of its quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumView {
    /// The leader: this node.
    pub leader: BrokerId,
    /// Its epoch.
    pub epoch: LeaderEpoch,
    /// Everything before it is committed; -1 until something of this epoch is.
    pub high_watermark: Offset,
    /// All voters by id.
    pub voters: Vec<VoterProgress>,
}

/// How far a voter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterProgress {
    /// Who it is and how it is reached.
    pub voter: Voter,
    /// End of what it holds durably; -1 while unknown.
    pub log_end: Offset,
}

/// The running leader of the metadata log.
#[derive(Debug)]
pub struct Raft {
    shared: Arc<Shared>,
    committed: watch::Receiver<Offset>,
    syncing: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    options: MetadataLogOptions,
    dir: PathBuf,
    me: BrokerId,
    epoch: LeaderEpoch,
    rules: AppendRules,
    state: Mutex<State>,
    /// Told when something was appended, or the log is to close.
    work: Condvar,
    /// Bytes of the log that no snapshot stands for yet.
    unsnapshotted_bytes: AtomicU64,
}

#[derive(Debug)]
struct State {
    node: Node,
    log: Log,
    snapshots: Snapshots,
    membership: Membership,
    closing: bool,
    failed: bool,
    cleaned: Duration,
}

impl Raft {
    /// Takes the lead of a log that was loaded: a new epoch, persisted first, and
    /// in it the control batch that every epoch begins with.
    pub fn lead(
        metadata_log: MetadataLog,
        me: ReplicaKey,
        endpoints: Vec<VoterEndpoint>,
    ) -> Result<Self, RaftError> {
        let MetadataLog {
            options,
            dir,
            log,
            snapshots,
            membership,
            stored,
            last_epoch,
            loaded_bytes,
        } = metadata_log;
        let mut node = Node::start(me, membership.voters.clone(), stored, last_epoch);
        let election = node.lead_alone(log.log_end_offset())?;
        let disk = options.files.disk();
        let (level, voters) = (membership.kraft_version, &membership.voters);
        let persisted = vote_file::write(&**disk, &dir, &election, level, voters);
        persisted.map_err(|source| RaftError::Vote { path: dir.clone(), source })?;
        let rules =
            AppendRules { max_message_bytes: usize::MAX, ..AppendRules::of(&LogConfig::default()) };
        let mut state = State {
            node,
            log,
            snapshots,
            membership,
            closing: false,
            failed: false,
            cleaned: options.clock.monotonic(),
        };
        let epoch = state.node.epoch();
        state.begin_epoch(me, endpoints, &rules, options.clock.wall())?;
        let shared = Arc::new(Shared {
            options,
            dir,
            me: me.id,
            epoch,
            rules,
            state: Mutex::new(state),
            work: Condvar::new(),
            unsnapshotted_bytes: AtomicU64::new(loaded_bytes),
        });
        let (sender, committed) = watch::channel(Offset::NONE);
        let syncer = Arc::clone(&shared);
        let syncing = thread::spawn("metadata-sync", Priority::Normal, move || {
            syncer.sync_until_closed(&sender);
        });
        let syncing = Mutex::new(Some(syncing.map_err(RaftError::Thread)?));
        Ok(Self { shared, committed, syncing })
    }

    /// The epoch that this node leads in.
    pub fn epoch(&self) -> LeaderEpoch {
        self.shared.epoch
    }

    /// The quorum at this moment.
    pub fn quorum(&self) -> QuorumView {
        let state = self.shared.state.lock();
        let progress = |voter: &Voter| VoterProgress {
            voter: voter.clone(),
            log_end: state.node.durable_end(voter.key.id).unwrap_or(Offset::NONE),
        };
        QuorumView {
            leader: self.shared.me,
            epoch: self.shared.epoch,
            high_watermark: state.node.high_watermark().unwrap_or(Offset::NONE),
            voters: state.membership.voters.iter().map(progress).collect(),
        }
    }

    /// The high watermark: everything before it is committed; -1 until something
    /// of this epoch is. The sender goes when the log fails or is closed.
    pub fn committed(&self) -> watch::Receiver<Offset> {
        self.committed.clone()
    }

    /// Where the next record will stand.
    pub fn log_end(&self) -> Offset {
        self.shared.state.lock().log.log_end_offset()
    }

    /// First offset of the log.
    pub fn log_start(&self) -> Offset {
        self.shared.state.lock().log.log_start_offset()
    }

    /// Bytes of the log that no snapshot stands for yet.
    pub fn unsnapshotted_bytes(&self) -> u64 {
        self.shared.unsnapshotted_bytes.load(Ordering::Relaxed)
    }

    /// Appends records as one batch; offset of the first. They are committed
    /// when the high watermark has passed them.
    pub fn append(&self, values: &[Bytes], now: Timestamp) -> Result<Offset, RaftError> {
        let mut state = self.shared.state.lock();
        if state.failed || state.closing {
            return Err(RaftError::Closed);
        }
        let first = state.log.log_end_offset();
        if values.is_empty() {
            return Ok(first);
        }
        let batch = data_batch(first, self.shared.epoch, now, values)?;
        let bytes = u64::try_from(batch.len()).unwrap_or(0);
        let (epoch, rules) = (self.shared.epoch, &self.shared.rules);
        let appended = state.log.append_as_leader(batch, epoch, AppendOrigin::RaftLeader, rules);
        if let Err(error) = appended {
            state.failed = true;
            self.shared.work.notify_one();
            return Err(error.into());
        }
        drop(state);
        self.shared.unsnapshotted_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.work.notify_one();
        Ok(first)
    }

    /// Begins a snapshot of everything before `id.end_offset`. The caller fills
    /// it, finishes it and hands the result to [`Raft::snapshot_written`].
    pub fn begin_snapshot(
        &self,
        id: SnapshotId,
        timestamp: Timestamp,
    ) -> Result<SnapshotWriter, SnapshotError> {
        let state = self.shared.state.lock();
        let log_start = state.log.log_start_offset();
        let high_watermark = state.node.high_watermark().unwrap_or(Offset::NONE);
        if id.end_offset > high_watermark || id.end_offset < log_start {
            return Err(SnapshotError::NotCommitted { id, log_start, high_watermark });
        }
        let membership = state.membership.clone();
        drop(state);
        self.shared.unsnapshotted_bytes.store(0, Ordering::Relaxed);
        let Shared { options, dir, .. } = &*self.shared;
        let times = (timestamp, options.clock.wall());
        let voters = (membership.kraft_version, Some(&membership.voters));
        SnapshotWriter::create(options.files.disk(), dir, id, times, voters)
    }

    /// A snapshot is whole and durable: old ones may go by it.
    pub fn snapshot_written(&self, id: SnapshotId, facts: SnapshotFacts) {
        self.shared.state.lock().snapshots.insert(id, facts);
        self.clean();
    }

    /// Lets old snapshots go, and the log before them, by size and age.
    pub fn clean(&self) {
        let Shared { options, dir, .. } = &*self.shared;
        let mut state = self.shared.state.lock();
        state.cleaned = options.clock.monotonic();
        let now = options.clock.wall();
        let gone = expired(&state.snapshots, state.log.size(), options.retention, now);
        for id in gone {
            state.snapshots.remove(&id);
            let next = state.snapshots.keys().next().copied();
            let moved =
                next.map_or(Ok(()), |next| state.log.delete_records_before(next.end_offset));
            let disk = options.files.disk();
            let deleted = dir.join(id.deleted_name());
            let removed = disk
                .rename(&dir.join(id.file_name()), &deleted)
                .and_then(|()| disk.remove_file(&deleted));
            if let Err(error) = moved.map_err(std::io::Error::other).and(removed) {
                tracing::warn!(?id, %error, "cannot remove an old metadata snapshot");
            }
        }
        let high_watermark = state.node.high_watermark().unwrap_or(Offset::ZERO);
        let swept = state.log.run_retention(high_watermark).map(|_| ());
        if let Err(error) = swept.and_then(|()| state.log.remove_doomed()) {
            tracing::warn!(%error, "cannot remove old segments of the metadata log");
        }
    }

    /// Cleans when it has not been done for a minute.
    pub fn clean_when_due(&self) {
        let cleaned = self.shared.state.lock().cleaned;
        let now = self.shared.options.clock.monotonic();
        if now.saturating_sub(cleaned) >= CLEAN_INTERVAL {
            self.clean();
        }
    }

    /// Syncs what is appended and closes the log. Waits for the disk.
    pub fn close(&self) {
        self.stop_syncing();
        let mut state = self.shared.state.lock();
        if !state.failed
            && let Err(error) = state.log.close_clean()
        {
            tracing::error!(%error, "the metadata log cannot be closed cleanly");
        }
    }
}

impl Raft {
    fn stop_syncing(&self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_one();
        let syncing = self.syncing.lock().take();
        if let Some(syncing) = syncing
            && syncing.join().is_err()
        {
            tracing::error!("the thread that syncs the metadata log has panicked");
        }
    }
}

impl Drop for Raft {
    /// What was appended is synced, nothing is closed. Waits for the disk, so
    /// that nobody finds the log in use who opens it next.
    fn drop(&mut self) {
        self.stop_syncing();
    }
}

impl Shared {
    /// The one thread that syncs. Ends when the log is closed or fails; then the
    /// sender of the high watermark goes, and everybody who waits learns it.
    fn sync_until_closed(&self, committed: &watch::Sender<Offset>) {
        let mut synced = Offset::NONE;
        loop {
            let mut state = self.state.lock();
            while state.log.log_end_offset() <= synced && !state.closing && !state.failed {
                self.work.wait(&mut state);
            }
            let end = state.log.log_end_offset();
            if state.failed || end <= synced {
                return;
            }
            if let Err(error) = self.sync(state, end, committed) {
                tracing::error!(%error, "the metadata log cannot be synced: this node stops leading");
                self.state.lock().failed = true;
                return;
            }
            synced = end;
        }
    }

    fn sync(
        &self,
        mut state: parking_lot::MutexGuard<'_, State>,
        end: Offset,
        committed: &watch::Sender<Offset>,
    ) -> Result<(), LogError> {
        let flush = state.log.begin_flush(end)?;
        drop(state);
        if let Some(flush) = &flush {
            let path = || self.dir.clone();
            flush.run().map_err(|source| LogError::Storage { path: path(), source })?;
        }
        let mut state = self.state.lock();
        if let Some(flush) = &flush {
            state.log.finish_flush(flush);
        }
        let moved = state.node.synced(end);
        drop(state);
        if let Some(high_watermark) = moved {
            committed.send_replace(high_watermark);
        }
        Ok(())
    }
}

impl State {
    /// The control batch that an epoch begins with. Voters who came from
    /// formatting, or whose listeners have changed, are written into the log.
    fn begin_epoch(
        &mut self,
        me: ReplicaKey,
        endpoints: Vec<VoterEndpoint>,
        rules: &AppendRules,
        now: Timestamp,
    ) -> Result<(), RaftError> {
        let voters: Vec<BrokerId> = self.node.voters().iter().map(|voter| voter.key.id).collect();
        let mut records = vec![Control::LeaderChange(me.id, voters)];
        let offset = self.log.log_end_offset();
        let level = self.membership.kraft_version;
        if level > 0 {
            let myself = Voter { key: me, endpoints, kraft_versions: KRAFT_VERSIONS };
            let never_written = self.membership.voters_at == Some(Offset::NONE);
            if never_written || self.membership.voters.get(me.id) != Some(&myself) {
                self.membership.voters = self.membership.voters.updated(myself);
                self.membership.voters_at = Some(offset + 2);
                records.push(Control::KRaftVersion(level));
                records.push(Control::Voters(self.membership.voters.clone()));
            }
        }
        let epoch = self.node.epoch();
        let batch = control_batch(offset, epoch, now, &records)?;
        self.log.append_as_leader(batch, epoch, AppendOrigin::RaftLeader, rules)?;
        Ok(())
    }
}
