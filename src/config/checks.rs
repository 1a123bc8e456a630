//! Values that must go together, by the rules of Kafka. `[P]`

use super::listeners::parse_ip_overrides;
use super::{Config, ConfigError, keys};

/// Checks what single keys cannot know; what is odd but allowed is told.
pub fn check(config: &Config) -> Result<Vec<String>, ConfigError> {
    check_ids(config)?;
    check_log_times(config)?;
    check_replication(config)?;
    check_connections(config)?;
    check_cordoned(config)?;
    Ok(tell_odd(config))
}

fn require(holds: bool, message: &str) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Conflict(message.to_owned())) }
}

fn check_ids(config: &Config) -> Result<(), ConfigError> {
    require(
        config.get(keys::NODE_ID) == config.get(keys::BROKER_ID),
        "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please \
         use `node.id` instead.",
    )?;
    require(
        config.get(keys::GROUP_COORDINATOR_REBALANCE_PROTOCOLS).iter().any(|p| p == "classic"),
        "Disabling the 'classic' protocol is not supported.",
    )
}

fn check_log_times(config: &Config) -> Result<(), ConfigError> {
    let at_least = |value: Option<i64>, low: i64| value.is_none_or(|value| value >= low);
    require(
        at_least(config.get(keys::LOG_ROLL_MS), 1),
        "log.roll.ms must be greater than or equal to 1",
    )?;
    require(
        at_least(config.get(keys::LOG_ROLL_JITTER_MS), 0),
        "log.roll.jitter.ms must be greater than or equal to 0",
    )?;
    let retention = super::topic::retention_ms(config);
    require(
        retention == -1 || retention >= 1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )?;
    let threads = i64::from(config.get(keys::LOG_CLEANER_THREADS));
    require(
        threads == 0 || config.get(keys::LOG_CLEANER_DEDUPE_BUFFER_SIZE) / threads > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
}

fn check_replication(config: &Config) -> Result<(), ConfigError> {
    let wait = config.get(keys::REPLICA_FETCH_WAIT_MAX_MS);
    require(
        wait <= config.get(keys::REPLICA_SOCKET_TIMEOUT_MS),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent \
         unnecessary socket timeouts",
    )?;
    require(
        i64::from(wait) <= config.get(keys::REPLICA_LAG_TIME_MAX_MS),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to \
         prevent frequent changes in ISR",
    )
}

fn check_connections(config: &Config) -> Result<(), ConfigError> {
    let queued = config.get(keys::QUEUED_MAX_REQUEST_BYTES);
    require(
        queued <= 0 || queued >= i64::from(config.get(keys::SOCKET_REQUEST_MAX_BYTES)),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )?;
    let overrides = parse_ip_overrides(&config.get(keys::MAX_CONNECTIONS_PER_IP_OVERRIDES))
        .map_err(|reason| config.refuse(keys::MAX_CONNECTIONS_PER_IP_OVERRIDES.name, &reason))?;
    require(
        config.get(keys::MAX_CONNECTIONS_PER_IP) != 0 || !overrides.is_empty(),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property \
         is set.",
    )?;
    let (idle, delay) = (
        config.get(keys::CONNECTIONS_MAX_IDLE_MS),
        i64::from(config.get(keys::CONNECTION_FAILED_AUTHENTICATION_DELAY_MS)),
    );
    require(
        idle < 0 || delay < idle,
        "connection.failed.authentication.delay.ms should always be less than \
         connections.max.idle.ms to prevent failed authentication responses from timing out",
    )
}

fn check_cordoned(config: &Config) -> Result<(), ConfigError> {
    let cordoned = config.get(keys::CORDONED_LOG_DIRS);
    if cordoned.iter().any(|dir| dir == "*") {
        return require(
            cordoned.len() == 1,
            "When cordoned.log.dirs is set to *, it must not contain other values",
        );
    }
    let dirs = &config.node().log_dirs;
    let missing: Vec<_> =
        cordoned.into_iter().filter(|dir| !dirs.iter().any(|known| known == dir)).collect();
    require(
        missing.is_empty(),
        &format!(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing \
             entries : {}",
            missing.join(", ")
        ),
    )
}

fn tell_odd(config: &Config) -> Vec<String> {
    let mut odd = Vec::new();
    let heartbeat = config.get(keys::BROKER_HEARTBEAT_INTERVAL_MS);
    let session = config.get(keys::BROKER_SESSION_TIMEOUT_MS);
    if heartbeat.saturating_mul(2) > session {
        odd.push(format!(
            "broker.heartbeat.interval.ms ({heartbeat} ms) should be at most half of \
             broker.session.timeout.ms ({session} ms)"
        ));
    }
    odd
}
