//! Topics that come into being because somebody asked for them by name.

use tracing::{info, warn};

use super::RequestContext;
use crate::config::{Config, Key, keys};
use crate::controller::CreateTopic;

/// Asks the controller for the topics, without waiting: the client is told that
/// there is no such topic yet, and asks again. Names must be legal.
pub fn start(context: &RequestContext<'_>, names: Vec<String>) {
    let config = context.broker.config.current();
    let controller = context.broker.controller.clone();
    let topics: Vec<_> = names.iter().map(|name| topic(name, &config)).collect();
    info!("Sent auto-creation request for {names:?} to the active controller.");
    // A task of its own: this request may be dropped when its client hangs up.
    tokio::spawn(async move {
        match controller.create_topics(topics, false).await {
            Ok(results) => {
                for (name, result) in names.iter().zip(results) {
                    if let Err(error) = result {
                        warn!("Auto topic creation failed for {name} with error '{error}'.");
                    }
                }
            }
            Err(error) => warn!("Auto topic creation failed for {names:?} with error '{error}'."),
        }
    });
}

/// What a topic gets that nobody described. Those of Kafka itself have settings
/// of their own.
pub fn topic(name: &str, config: &Config) -> CreateTopic {
    match name {
        "__consumer_offsets" => internal(
            name,
            config.get(keys::OFFSETS_TOPIC_NUM_PARTITIONS),
            config.get(keys::OFFSETS_TOPIC_REPLICATION_FACTOR),
            vec![
                ("cleanup.policy", "compact".into()),
                ("compression.type", "producer".into()),
                ("segment.bytes", config.get(keys::OFFSETS_TOPIC_SEGMENT_BYTES).to_string()),
            ],
        ),
        "__transaction_state" => internal(
            name,
            config.get(keys::TRANSACTION_STATE_LOG_NUM_PARTITIONS),
            config.get(keys::TRANSACTION_STATE_LOG_REPLICATION_FACTOR),
            vec![
                ("unclean.leader.election.enable", "false".into()),
                ("compression.type", "uncompressed".into()),
                ("cleanup.policy", "compact".into()),
                (
                    "min.insync.replicas",
                    config.get(keys::TRANSACTION_STATE_LOG_MIN_ISR).to_string(),
                ),
                (
                    "segment.bytes",
                    config.get(keys::TRANSACTION_STATE_LOG_SEGMENT_BYTES).to_string(),
                ),
            ],
        ),
        _ => CreateTopic {
            name: name.to_owned(),
            partitions: set(config, keys::NUM_PARTITIONS).unwrap_or(-1),
            replication_factor: set(config, keys::DEFAULT_REPLICATION_FACTOR)
                .and_then(|factor| i16::try_from(factor).ok())
                .unwrap_or(-1),
            ..CreateTopic::default()
        },
    }
}

/// What this broker was given; unset, the controller's own value holds.
fn set(config: &Config, key: Key<i32>) -> Option<i32> {
    config.is_set(key.name).then(|| config.get(key))
}

fn internal(
    name: &str,
    partitions: i32,
    replication_factor: i16,
    settings: Vec<(&str, String)>,
) -> CreateTopic {
    let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), Some(value)));
    CreateTopic {
        name: name.to_owned(),
        partitions,
        replication_factor,
        assignments: Vec::new(),
        settings: settings.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_from_the_broker_where_it_was_given_them() {
        let of = |given: &[(&str, &str)]| topic("t", &Config::from_overrides(given).unwrap());
        let (none, three) = (of(&[]), of(&[("num.partitions", "3")]));
        assert_eq!((none.partitions, none.replication_factor), (-1, -1));
        assert_eq!((three.partitions, three.replication_factor), (3, -1));
    }

    #[test]
    fn kafkas_own_topics_have_their_own_settings() {
        let config = Config::from_overrides(&[("offsets.topic.num.partitions", "5")]).unwrap();
        let offsets = topic("__consumer_offsets", &config);
        assert_eq!((offsets.partitions, offsets.replication_factor), (5, 1));
        assert!(offsets.settings.contains(&("cleanup.policy".into(), Some("compact".into()))));
        assert_eq!(topic("__transaction_state", &config).partitions, 50);
    }
}
