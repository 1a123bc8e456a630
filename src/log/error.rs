//! What can go wrong with a log, and the state of the directory below it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::sys::disk::is_exhaustion;
use crate::types::{Offset, TopicId};

/// Why a log cannot do something, the records and offsets being in order.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Reading or writing failed; the log directory is offline from now on,
    /// unless only descriptors or memory had run out and nothing was half done.
    #[error("{path}: {source}")]
    Storage {
        /// The log's directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes in a file are not what they should be.
    #[error("{path}: {source}")]
    Corrupt {
        /// The log's directory.
        path: PathBuf,
        /// Which bytes, and how.
        source: io::Error,
    },
    /// The log directory failed before.
    #[error("{path}: log directory is offline")]
    Offline {
        /// The log's directory.
        path: PathBuf,
    },
    /// The directory belongs to another topic of the same name.
    #[error("{path}: holds topic id {found}, expected {expected}")]
    InconsistentTopicId {
        /// The log's directory.
        path: PathBuf,
        /// As asked for.
        expected: TopicId,
        /// As found in `partition.metadata`.
        found: TopicId,
    },
}

impl LogError {
    /// True when the next try may succeed: something had run out that comes back.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Storage { source, .. } if is_exhaustion(source))
    }
}

/// Why a read gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Before the log start or after the log end.
    #[error("offset {offset} is not within {log_start}..={log_end}")]
    OffsetOutOfRange {
        /// Asked for.
        offset: Offset,
        /// First that can be read.
        log_start: Offset,
        /// Next to be written.
        log_end: Offset,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Whether a log directory can be used. Shared by all logs in it: the first
/// failed read or write turns it off for all of them, for good.
#[derive(Default)]
pub struct DirectoryHealth {
    offline: AtomicBool,
    failure: Mutex<Failure>,
}

#[derive(Default)]
struct Failure {
    first: Option<String>,
    listeners: Vec<Box<FailureListener>>,
}

/// Is told what failed first.
pub type FailureListener = dyn Fn(&str) + Send + Sync;

impl std::fmt::Debug for DirectoryHealth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryHealth").field("failure", &self.first_failure()).finish()
    }
}

impl DirectoryHealth {
    /// A directory that can be used.
    pub fn sound() -> Arc<Self> {
        Arc::default()
    }

    /// False once something failed.
    pub fn is_online(&self) -> bool {
        !self.offline.load(Ordering::Acquire)
    }

    /// Notes a failure; the first one counts.
    pub fn fail(&self, path: &Path, error: &io::Error) {
        if self.offline.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::error!(path = %path.display(), %error, "log directory failed");
        let reason = format!("{}: {error}", path.display());
        let listeners = {
            let mut failure = self.failure.lock();
            failure.first = Some(reason.clone());
            std::mem::take(&mut failure.listeners)
        };
        listeners.iter().for_each(|listener| listener(&reason));
    }

    /// Calls `listener` when the directory fails; at once when it has.
    pub fn on_failure(&self, listener: Box<FailureListener>) {
        let mut failure = self.failure.lock();
        match failure.first.clone() {
            Some(reason) => {
                drop(failure);
                listener(&reason);
            }
            None => failure.listeners.push(listener),
        }
    }

    /// What failed first.
    pub fn first_failure(&self) -> Option<String> {
        self.failure.lock().first.clone()
    }

    /// The disk was repaired behind the log's back, in a test.
    #[cfg(test)]
    pub fn repaired(&self) {
        self.offline.store(false, Ordering::Release);
    }

    /// An error of `path`, a log's directory, as the log reports it. One of the
    /// disk takes the directory offline; when descriptors have run out, say
    /// because of very many connections, the next try may succeed.
    pub fn explain(&self, path: &Path, source: io::Error) -> LogError {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::InvalidData {
            return LogError::Corrupt { path, source };
        }
        if !is_exhaustion(&source) {
            self.fail(&path, &source);
        }
        LogError::Storage { path, source }
    }
}
