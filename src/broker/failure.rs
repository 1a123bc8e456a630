//! Failures of log directories: one costs the partitions in it, the last one, or
//! the one with the metadata log, ends the broker.

use std::sync::Arc;

use tokio::sync::watch;
use tracing::error;

use crate::log::store::LogStore;
use crate::types::DirectoryId;

/// The first failure that the broker cannot outlive. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Failure {
    reason: watch::Sender<Option<String>>,
    directories: watch::Sender<Vec<DirectoryId>>,
}

impl Failure {
    /// Nothing has failed.
    pub fn new() -> Self {
        Self { reason: watch::Sender::new(None), directories: watch::Sender::default() }
    }

    /// Something has failed for good; the first one counts.
    pub fn report(&self, reason: String) {
        self.reason.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(reason);
            is_first
        });
    }

    /// Waits for a failure.
    pub async fn happens(&self) -> String {
        let mut reason = self.reason.subscribe();
        let failed = reason.wait_for(Option::is_some).await;
        failed.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }

    /// Log directories that have failed, for the controller to know.
    pub fn directories(&self) -> watch::Receiver<Vec<DirectoryId>> {
        self.directories.subscribe()
    }

    /// Tells of directories that fail, and counts the fatal ones.
    pub fn watch(&self, store: &Arc<LogStore>) {
        let failure = self.clone();
        store.on_failure(move |directory| {
            let path = directory.path.display();
            error!("Stopping serving logs in dir {path}: {}", directory.reason);
            failure.directories.send_modify(|failed| failed.push(directory.id));
            if directory.fatal {
                failure.report(format!("log directory {path} has failed: {}", directory.reason));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_failure_counts() {
        let failure = Failure::new();
        failure.report("one".to_owned());
        failure.report("two".to_owned());
        assert_eq!(failure.happens().await, "one");
    }
}
