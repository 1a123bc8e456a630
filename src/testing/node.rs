//! A whole node in this process: its own directory, ports that the system gives.

use std::net::SocketAddr;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::client::Client;
use crate::broker::Broker;
use crate::config::Config;

/// A running broker and controller; stopped when dropped.
pub struct Node {
    broker: Option<Broker>,
    address: SocketAddr,
    runtime: Runtime,
    directory: TempDir,
}

impl Node {
    /// Starts a node with these settings over those of a single node.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), settings)
    }

    fn start_in(directory: TempDir, settings: &[(&str, &str)]) -> Self {
        let runtime = Runtime::new().unwrap();
        let log_dirs = directory.path().join("data");
        let mut all = vec![
            ("log.dirs", log_dirs.to_str().unwrap()),
            ("listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"),
        ];
        all.extend_from_slice(settings);
        let config = Config::from_overrides(&all).unwrap();
        let broker = runtime.block_on(Broker::start(config)).unwrap();
        let address = broker.addresses()[0];
        Self { broker: Some(broker), address, runtime, directory }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes what the files of a partition hold out of the machine's memory, where its
    /// file system does that.
    pub fn evict(&self, partition: &str) {
        let entries = std::fs::read_dir(self.directory.path().join("data").join(partition));
        for entry in entries.unwrap() {
            let file = std::fs::File::open(entry.unwrap().path()).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops the node cleanly and starts it on the same directory again.
    pub fn restart(mut self, settings: &[(&str, &str)]) -> Self {
        self.stop();
        let empty = tempfile::tempdir().unwrap();
        Self::start_in(std::mem::replace(&mut self.directory, empty), settings)
    }

    fn stop(&mut self) {
        if let Some(broker) = self.broker.take() {
            self.runtime.block_on(broker.stop());
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}
