//! How many files and connections this process may have open.

use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes what the system grants at most, as the JVM does for Kafka: connections and
/// logs need many. When that fails, what it stays at.
pub fn raise_limit() -> Result<(), (io::Errno, usize)> {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, most).map_err(|error| (error, self::limit()))
}

/// The limit in force.
pub fn limit() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.and_then(|current| usize::try_from(current).ok()).unwrap_or(usize::MAX)
}
