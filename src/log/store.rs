//! All logs of a broker, in one or more log directories.
//!
//! ```text
//! open ──► locked, identified ──load──► logs opened ──┬─ open_log ─► lent to its owner
//!                                                     └─ nobody wants it: stray
//! ```
//! A log belongs to whoever took it with [`LogStore::open_log`]; the store keeps a
//! weak hold on the owner for the work in the background. Each directory fails by
//! itself: its logs answer with errors from then on, the others go on.
//!
//! Locks: the store's own are leaves and never held while an owner is asked for
//! its log.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::directory::LogDirectory;
use super::file_names::{DirectoryState, LOCK, METADATA_LOG, PartitionDirectory};
use super::files::OpenFiles;
use super::meta_properties::{MetaProperties, MetaPropertiesError};
pub use super::store_moving::{FutureLog, may_move};
use super::{Log, LogConfig, LogError, LogKind, LogMarks, LogOptions};
use crate::sys::clock::Clock;
use crate::sys::disk::Disk;
use crate::sys::random::Random;
use crate::types::{BrokerId, DirectoryId, Offset, Timestamp, TopicId, TopicPartition};

/// What the store needs to know.
#[derive(Debug)]
pub struct StoreOptions {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// For ages and delays.
    pub clock: Arc<dyn Clock>,
    /// For directory ids and the names of what is deleted.
    pub random: Random,
    /// `log.dirs`
    pub log_dirs: Vec<PathBuf>,
    /// The directory that holds the metadata log; locked even when it is not one
    /// of `log_dirs`.
    pub metadata_log_dir: PathBuf,
    /// `node.id`
    pub node_id: BrokerId,
    /// `num.recovery.threads.per.data.dir`
    pub recovery_threads_per_dir: usize,
    /// `producer.id.expiration.ms`
    pub producer_expiration_ms: i64,
    /// Files kept open beyond those in use.
    pub open_files: usize,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another broker in this one, uses the directory.
    #[error("failed to acquire lock on file .lock in {}: a broker instance in another process or thread is using this directory", .0.display())]
    Locked(PathBuf),
    /// The directory was never formatted.
    #[error("no `meta.properties` found in {}: have you run the storage format command?", .0.display())]
    NotFormatted(PathBuf),
    /// Identities do not fit together, or with the configuration.
    #[error("{}: {reason}", .path.display())]
    Identity {
        /// The directory.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// `meta.properties` of the metadata directory cannot be read.
    #[error(transparent)]
    MetaProperties(#[from] MetaPropertiesError),
    /// A directory that is no partition's.
    #[error("found directory {}, which is not in the form of topic-partition; a log directory holds nothing else", .0.display())]
    UnknownDirectory(PathBuf),
    /// Two directories hold the same partition.
    #[error("duplicate log directories found: {} and {}", .0.display(), .1.display())]
    Duplicate(PathBuf, PathBuf),
    /// No directory can be used.
    #[error("none of the configured log directories can be used: {0}")]
    NoneLeft(String),
    /// The metadata directory cannot be used.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Whoever holds a log, behind its own lock.
pub trait LogHolder: Send + Sync {
    /// Takes the lock and lets `act` work on the log.
    fn with_log(&self, act: &mut dyn FnMut(&mut Log));
}

/// A directory that failed.
#[derive(Clone, Debug)]
pub struct DirectoryFailure {
    /// Its identity.
    pub id: DirectoryId,
    /// Where it is.
    pub path: PathBuf,
    /// What failed first.
    pub reason: String,
    /// True when no directory is left, or the one with the metadata log is gone:
    /// the broker must stop.
    pub fatal: bool,
}

/// Where a log is created that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this directory if it is online, else in the one with fewest logs.
    Preferably(DirectoryId),
    /// In this directory or nowhere: a new log elsewhere would lack what is in the
    /// one that cannot be reached.
    Only(DirectoryId),
}

/// What is known of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryDescription {
    /// Where it is.
    pub path: PathBuf,
    /// What failed, when it is offline.
    pub failure: Option<String>,
    /// Total and usable bytes of its volume, when it is online.
    pub space: Option<(u64, u64)>,
    /// Its logs.
    pub logs: Vec<LogDescription>,
}

/// What is known of a log, or of a copy that is to replace one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDescription {
    /// Whose it is.
    pub name: TopicPartition,
    /// Its bytes.
    pub size: u64,
    /// For a copy that is being made: how many offsets it lacks, when the log that
    /// it is made of is there.
    pub future: Option<Option<i64>>,
}

/// A log, and who has it.
pub(super) struct Hosted {
    pub(super) directory: Arc<LogDirectory>,
    pub(super) marks: Arc<LogMarks>,
    pub(super) owner: Owner,
}

/// Where a log is.
pub(super) enum Owner {
    /// Loaded, nobody has asked for it yet. Empty once someone did.
    Store(Arc<Mutex<Option<Log>>>),
    /// Given out.
    Lent,
    /// Given out, and reachable.
    Holder(Weak<dyn LogHolder>),
}

/// A partition directory that was renamed and waits to be removed.
pub(super) struct DoomedDirectory {
    pub(super) directory: Arc<LogDirectory>,
    pub(super) path: PathBuf,
    pub(super) due: Timestamp,
}

/// All logs of a broker. See the module.
pub struct LogStore {
    pub(super) options: StoreOptions,
    pub(super) files: Arc<OpenFiles>,
    pub(super) cluster_id: String,
    pub(super) directories: Vec<Arc<LogDirectory>>,
    metadata_directory: Arc<LogDirectory>,
    pub(super) previous_broker_epoch: i64,
    pub(super) hosted: Mutex<HashMap<TopicPartition, Hosted>>,
    /// Copies that are to replace logs, in other directories.
    pub(super) futures: Mutex<HashMap<TopicPartition, Arc<FutureLog>>>,
    /// Where logs are wanted that are not here yet.
    pub(super) preferred: Mutex<HashMap<TopicPartition, DirectoryId>>,
    /// Partitions whose log could not be loaded, and why.
    pub(super) unusable: Mutex<HashMap<TopicPartition, Arc<LogError>>>,
    pub(super) doomed: Mutex<Vec<DoomedDirectory>>,
    /// Where loading went all the way, so that a clean stop may be claimed.
    pub(super) loaded: OnceLock<()>,
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("directories", &self.directories).finish_non_exhaustive()
    }
}

impl LogStore {
    /// Locks the directories and checks whose they are. Opens no log.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let files = OpenFiles::new(options.disk.clone(), options.open_files);
        let mut opened = Opening { options: &options, cluster_id: None, seen: HashMap::new() };
        let mut directories = Vec::new();
        for path in &options.log_dirs {
            directories.push(opened.directory(path)?);
        }
        let metadata = options.log_dirs.iter().position(|path| *path == options.metadata_log_dir);
        let metadata_directory = match metadata.and_then(|at| directories.get(at)) {
            Some(directory) => directory.clone(),
            None => opened.directory(&options.metadata_log_dir)?,
        };
        let cluster_id = opened.cluster_id.unwrap_or_default();
        let store = Self {
            files,
            cluster_id,
            previous_broker_epoch: agreed_epoch(&directories),
            directories,
            metadata_directory,
            hosted: Mutex::default(),
            futures: Mutex::default(),
            preferred: Mutex::default(),
            unusable: Mutex::default(),
            doomed: Mutex::default(),
            loaded: OnceLock::new(),
            options,
        };
        if store.online().next().is_none() {
            return Err(StoreError::NoneLeft(store.failures()));
        }
        Ok(store)
    }

    /// `cluster.id` of all directories.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The broker epoch of the last stop, if it was clean everywhere; else -1.
    pub fn previous_broker_epoch(&self) -> i64 {
        self.previous_broker_epoch
    }

    /// The log directories, as configured.
    pub fn directories(&self) -> &[Arc<LogDirectory>] {
        &self.directories
    }

    /// The directory that holds the metadata log.
    pub fn metadata_directory(&self) -> &Arc<LogDirectory> {
        &self.metadata_directory
    }

    /// The disk and what is open on it, for the metadata log.
    pub fn files(&self) -> &Arc<OpenFiles> {
        &self.files
    }

    /// The directories that can be used.
    pub fn online(&self) -> impl Iterator<Item = &Arc<LogDirectory>> {
        self.directories.iter().filter(|directory| directory.health().is_online())
    }

    fn failures(&self) -> String {
        let failures = self.directories.iter().filter_map(|d| d.health().first_failure());
        failures.collect::<Vec<_>>().join("; ")
    }

    /// Calls `listener` once for each directory that fails from now on, or has
    /// failed. It runs where the failure is noticed, perhaps under a log's lock.
    pub fn on_failure(
        self: &Arc<Self>,
        listener: impl Fn(&DirectoryFailure) + Send + Sync + 'static,
    ) {
        let listener = Arc::new(listener);
        let mut watched = self.directories.clone();
        if !watched.iter().any(|directory| Arc::ptr_eq(directory, &self.metadata_directory)) {
            watched.push(self.metadata_directory.clone());
        }
        for directory in watched {
            let (store, failed) = (Arc::downgrade(self), Arc::downgrade(&directory));
            let listener = listener.clone();
            directory.health().on_failure(Box::new(move |reason| {
                let (Some(store), Some(failed)) = (store.upgrade(), failed.upgrade()) else {
                    return;
                };
                let metadata = Arc::ptr_eq(&failed, &store.metadata_directory);
                listener(&DirectoryFailure {
                    id: failed.id(),
                    path: failed.path().to_owned(),
                    reason: reason.to_owned(),
                    fatal: metadata || store.online().next().is_none(),
                });
            }));
        }
    }

    // ── logs ────────────────────────────────────────────────────────────────

    /// The log of a partition, for its owner: the one that was loaded, or a new
    /// one in its `place`. One of another topic with the same name becomes a stray.
    pub fn open_log(
        &self,
        name: &TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
        place: Place,
    ) -> Result<Log, LogError> {
        if let Some(error) = self.unusable.lock().get(name) {
            let source = io::Error::other(error.to_string());
            return Err(LogError::Corrupt { path: name.to_string().into(), source });
        }
        if let Some(mut log) = self.take_loaded(name) {
            if log.topic_id().is_none_or(|found| found == topic_id) {
                log.set_config(config);
                return Ok(log);
            }
            self.make_stray(name, log)?;
        }
        // What it was to be a copy of may be in a directory that is not there.
        if self.future_of(name).is_some() && self.online().count() < self.directories.len() {
            return Err(LogError::Offline { path: name.to_string().into() });
        }
        self.create_log(name, topic_id, config, place)
    }

    fn take_loaded(&self, name: &TopicPartition) -> Option<Log> {
        let loaded = {
            let mut hosted = self.hosted.lock();
            let owner = &mut hosted.get_mut(name)?.owner;
            match std::mem::replace(owner, Owner::Lent) {
                Owner::Store(loaded) => loaded,
                other => {
                    *owner = other;
                    return None;
                }
            }
        };
        // Waits for work in the background that is at this log.
        loaded.lock().take()
    }

    fn create_log(
        &self,
        name: &TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
        place: Place,
    ) -> Result<Log, LogError> {
        let directory = self.place(name, place)?;
        let path = directory.path().join(name.to_string());
        let options = LogOptions {
            topic_id: Some(topic_id),
            clean: true,
            ..self.log_options(&directory, config)
        };
        let (mut log, _) = Log::open(&path, options)?;
        if let Err(reason) = log.note_topic_id() {
            tracing::warn!("The topic id of {name} is not written yet: {reason}");
        }
        tracing::info!("Created log for partition {name} in {}", path.display());
        self.host(name, &directory, log.marks(), Owner::Lent);
        Ok(log)
    }

    fn place(&self, name: &TopicPartition, place: Place) -> Result<Arc<LogDirectory>, LogError> {
        let with_id = |id| self.online().find(|directory| directory.id() == id);
        let emptiest = || self.online().min_by_key(|directory| directory.log_count());
        let preferred = self.preferred.lock().remove(name).and_then(with_id);
        let directory = match place {
            Place::Preferably(id) => preferred.or_else(|| with_id(id)).or_else(emptiest),
            Place::Only(id) => with_id(id),
        };
        directory.cloned().ok_or_else(|| LogError::Offline { path: name.to_string().into() })
    }

    /// How a log in `directory` is opened.
    pub(super) fn log_options(
        &self,
        directory: &Arc<LogDirectory>,
        config: Arc<LogConfig>,
    ) -> LogOptions {
        LogOptions {
            config,
            kind: LogKind::Partition,
            topic_id: None,
            clean: false,
            recovery_point: Offset::ZERO,
            log_start: Offset::ZERO,
            high_watermark: Offset::ZERO,
            producer_expiration_ms: self.options.producer_expiration_ms,
            files: self.files.clone(),
            clock: self.options.clock.clone(),
            health: directory.health().clone(),
            rewound: Some(directory.clone()),
        }
    }

    pub(super) fn host(
        &self,
        name: &TopicPartition,
        directory: &Arc<LogDirectory>,
        marks: &Arc<LogMarks>,
        owner: Owner,
    ) {
        directory.add(name, marks);
        let hosted = Hosted { directory: directory.clone(), marks: marks.clone(), owner };
        self.hosted.lock().insert(name.clone(), hosted);
    }

    /// Names the owner of a log that was given out, so that the store reaches it.
    pub fn attach(&self, name: &TopicPartition, holder: Weak<dyn LogHolder>) {
        if let Some(hosted) = self.hosted.lock().get_mut(name) {
            hosted.owner = Owner::Holder(holder);
        }
    }

    /// The directory in which the log is.
    pub fn directory_of(&self, name: &TopicPartition) -> Option<DirectoryId> {
        self.hosted.lock().get(name).map(|hosted| hosted.directory.id())
    }

    /// What DescribeLogDirs tells.
    pub fn describe(&self) -> Vec<DirectoryDescription> {
        self.directories.iter().map(|directory| self.describe_one(directory)).collect()
    }

    fn describe_one(&self, directory: &LogDirectory) -> DirectoryDescription {
        let online = directory.health().is_online();
        let space = online.then(|| self.options.disk.space(directory.path()).ok()).flatten();
        let logs = directory.logs().into_iter().map(|(name, marks)| {
            let future =
                self.future_of(&name).filter(|future| future.directory().id() == directory.id());
            let future = future.map(|_| {
                let current = self.hosted.lock().get(&name).map(|hosted| hosted.marks.log_end());
                current.map(|end| end - marks.log_end())
            });
            LogDescription { name, size: marks.size(), future }
        });
        DirectoryDescription {
            path: directory.path().to_owned(),
            failure: directory.health().first_failure(),
            space,
            logs: logs.collect(),
        }
    }

    // ── going ───────────────────────────────────────────────────────────────

    /// Deletes logs: their directories get other names at once and are removed
    /// after `file.delete.delay.ms`. Owners' logs fail from now on.
    pub fn delete(&self, names: &[TopicPartition]) -> Result<(), LogError> {
        let mut touched = Vec::<Arc<LogDirectory>>::new();
        for name in names {
            if let Some(future) = self.future_of(name) {
                self.drop_future(name, &future);
            }
            let Some(hosted) = self.hosted.lock().remove(name) else { continue };
            let directory = hosted.directory.clone();
            let delay = self.retire(hosted);
            directory.forget(name);
            let path = directory.path().join(name.to_string());
            self.doom_unsynced(&directory, name, &path, delay)?;
            if !touched.iter().any(|known| Arc::ptr_eq(known, &directory)) {
                touched.push(directory);
            }
        }
        // A log of the same name that is created later must not be taken for
        // synced up to where this one was.
        for directory in touched {
            let written = directory.attempt(|| {
                self.options.disk.sync_dir(directory.path())?;
                directory.write_checkpoints()
            });
            written.map_err(|error| directory.health().explain(directory.path(), error))?;
        }
        Ok(())
    }

    /// Ends a log's life; its `file.delete.delay.ms`.
    fn retire(&self, hosted: Hosted) -> i64 {
        let mut delay = LogConfig::default().file_delete_delay_ms;
        let mut retire = |log: &mut Log| {
            delay = log.config().file_delete_delay_ms;
            log.retire();
        };
        match hosted.owner {
            Owner::Store(loaded) => loaded.lock().iter_mut().for_each(&mut retire),
            Owner::Holder(holder) => {
                if let Some(holder) = holder.upgrade() {
                    holder.with_log(&mut retire);
                }
            }
            Owner::Lent => {}
        }
        delay
    }

    /// A path that no other directory has.
    pub(super) fn unique_path(
        &self,
        directory: &LogDirectory,
        name: &TopicPartition,
        state: impl FnOnce(String) -> DirectoryState,
    ) -> PathBuf {
        let unique = self.options.random.uuid().simple().to_string();
        let new = PartitionDirectory { partition: name.clone(), state: state(unique) };
        directory.path().join(new.name())
    }

    /// Gives a log's directory another name. Not synced.
    fn rename(
        &self,
        directory: &LogDirectory,
        name: &TopicPartition,
        from: &Path,
        state: impl FnOnce(String) -> DirectoryState,
    ) -> Result<PathBuf, LogError> {
        let to = self.unique_path(directory, name, state);
        let renamed = directory.attempt(|| self.options.disk.rename(from, &to));
        renamed.map_err(|error| directory.health().explain(from, error))?;
        Ok(to)
    }

    fn sync_names(&self, directory: &LogDirectory) -> Result<(), LogError> {
        let path = directory.path();
        let synced = directory.attempt(|| self.options.disk.sync_dir(path));
        synced.map_err(|error| directory.health().explain(path, error))
    }

    /// Gives a log's directory up: renamed at once, removed after `delay` ms.
    pub(super) fn doom(
        &self,
        directory: &Arc<LogDirectory>,
        name: &TopicPartition,
        path: &Path,
        delay: i64,
    ) -> Result<(), LogError> {
        self.doom_unsynced(directory, name, path, delay)?;
        self.sync_names(directory)
    }

    fn doom_unsynced(
        &self,
        directory: &Arc<LogDirectory>,
        name: &TopicPartition,
        path: &Path,
        delay: i64,
    ) -> Result<(), LogError> {
        let path = self.rename(directory, name, path, DirectoryState::Deleted)?;
        let due = Timestamp(self.options.clock.wall().0.saturating_add(delay));
        self.doomed.lock().push(DoomedDirectory { directory: directory.clone(), path, due });
        Ok(())
    }

    /// Puts a log aside that the metadata do not know.
    pub(super) fn make_stray(&self, name: &TopicPartition, mut log: Log) -> Result<(), LogError> {
        let Some(hosted) = self.hosted.lock().remove(name) else { return Ok(()) };
        self.put_aside(&hosted.directory, name, &mut log)
    }

    pub(super) fn put_aside(
        &self,
        directory: &LogDirectory,
        name: &TopicPartition,
        log: &mut Log,
    ) -> Result<(), LogError> {
        log.retire();
        directory.forget(name);
        let path = self.rename(directory, name, log.dir(), DirectoryState::Stray)?;
        self.sync_names(directory)?;
        tracing::warn!(partition = %name, dir = %path.display(), "log is not in the metadata; put aside as stray");
        Ok(())
    }
}

/// The epoch that all markers of a clean stop agree on; -1 when one is missing.
fn agreed_epoch(directories: &[Arc<LogDirectory>]) -> i64 {
    let mut agreed = None;
    for directory in directories {
        let epoch = directory.attempt(|| directory.clean_shutdown()).ok().flatten();
        match (epoch, agreed) {
            (Some(epoch), None) => agreed = Some(epoch),
            (Some(epoch), Some(known)) if epoch == known => {}
            _ => return -1,
        }
    }
    agreed.unwrap_or(-1)
}

/// Identities seen so far while directories are opened.
struct Opening<'o> {
    options: &'o StoreOptions,
    cluster_id: Option<String>,
    seen: HashMap<DirectoryId, PathBuf>,
}

impl Opening<'_> {
    /// Locks a directory and reads whose it is. One that cannot be read is offline,
    /// unless it holds the metadata log.
    fn directory(&mut self, path: &Path) -> Result<Arc<LogDirectory>, StoreError> {
        let disk = &self.options.disk;
        let is_metadata = *path == self.options.metadata_log_dir;
        let lock = match disk.lock(&path.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(StoreError::Locked(path.to_owned()));
            }
            other => other,
        };
        let failed = |source: io::Error| {
            let id = self.options.random.uuid();
            let directory = LogDirectory::new(disk.clone(), path.to_owned(), id, None);
            directory.health().fail(path, &source);
            if is_metadata {
                Err(StoreError::Io { path: path.to_owned(), source })
            } else {
                Ok(directory)
            }
        };
        let lock = match lock {
            Ok(lock) => lock,
            Err(error) if is_metadata && error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NotFormatted(path.to_owned()));
            }
            Err(error) => return failed(error),
        };
        let identity = match MetaProperties::read(&**disk, path) {
            Ok(Some(identity)) => identity,
            Ok(None) => return Err(StoreError::NotFormatted(path.to_owned())),
            Err(error) if is_metadata => return Err(error.into()),
            Err(error) => return failed(io::Error::other(error.to_string())),
        };
        if !is_metadata && disk.exists(&path.join(METADATA_LOG)) {
            let reason = format!("holds {METADATA_LOG}, which belongs into the metadata directory");
            return Err(StoreError::Identity { path: path.to_owned(), reason });
        }
        let id = match self.identify(path, identity)? {
            Ok(id) => id,
            Err(error) => return failed(error),
        };
        Ok(LogDirectory::new(disk.clone(), path.to_owned(), id, Some(lock)))
    }

    /// Compares an identity with the others; gives the directory an id if it has
    /// none (before Kafka 3.7).
    fn identify(
        &mut self,
        path: &Path,
        mut identity: MetaProperties,
    ) -> Result<io::Result<DirectoryId>, StoreError> {
        let refuse = |reason: String| Err(StoreError::Identity { path: path.to_owned(), reason });
        if identity.node_id != self.options.node_id {
            let (stored, configured) = (identity.node_id, self.options.node_id);
            return refuse(format!("stored node id {stored} is not the configured {configured}"));
        }
        let cluster_id = self.cluster_id.get_or_insert_with(|| identity.cluster_id.clone());
        if *cluster_id != identity.cluster_id {
            return refuse(format!(
                "cluster id {} is not {cluster_id}, which other directories have",
                identity.cluster_id
            ));
        }
        let id = match identity.directory_id {
            Some(id) if id.as_u128() < 100 => return refuse("directory id is reserved".to_owned()),
            Some(id) => id,
            None => {
                let id = self.options.random.uuid();
                identity.directory_id = Some(id);
                if let Err(error) = identity.write(&*self.options.disk, path) {
                    return Ok(Err(error));
                }
                id
            }
        };
        if let Some(other) = self.seen.insert(id, path.to_owned()) {
            return refuse(format!("directory id is the same as that of {}", other.display()));
        }
        Ok(Ok(id))
    }
}
