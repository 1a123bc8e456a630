//! DescribeLogDirs: what each log directory holds, and how full its volume is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::RequestContext;
use crate::config::{Config, keys};
use crate::log::store::DirectoryDescription;
use crate::protocol::ErrorCode;
use crate::protocol::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use crate::protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use crate::types::TopicPartition;

/// Of a copy whose original cannot be reached.
const UNKNOWN_LAG: i64 = -1;

/// Answers from the log store.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let wanted = request.topics.map(|topics| {
        let partitions = topics.into_iter().flat_map(|topic| {
            let name = topic.topic;
            topic.partitions.into_iter().map(move |partition| (name.to_string(), partition))
        });
        partitions.collect::<BTreeSet<_>>()
    });
    let is_wanted = |name: &TopicPartition| match &wanted {
        None => true,
        Some(wanted) => wanted.contains(&(name.topic.to_string(), name.partition)),
    };
    let config = context.broker.config.current();
    let all = context.broker.log_store.describe().into_iter();
    // The metadata log may have a directory of its own, which is not shown.
    let shown = all.filter(|directory| config.node().log_dirs.contains(&directory.path));
    let results = shown.map(|directory| describe(directory, &is_wanted, &config)).collect();
    DescribeLogDirsResponse { results, ..Default::default() }
}

fn describe(
    directory: DirectoryDescription,
    is_wanted: &impl Fn(&TopicPartition) -> bool,
    config: &Config,
) -> DescribeLogDirsResult {
    let log_dir = absolute(&directory.path).into();
    if directory.failure.is_some() {
        let error_code = ErrorCode::KafkaStorageError.code();
        return DescribeLogDirsResult { error_code, log_dir, ..Default::default() };
    }
    let mut topics = BTreeMap::<_, Vec<_>>::new();
    for log in directory.logs.into_iter().filter(|log| is_wanted(&log.name)) {
        topics.entry(log.name.topic).or_default().push(DescribeLogDirsPartition {
            partition_index: log.name.partition,
            partition_size: bytes(log.size),
            offset_lag: log.future.map_or(0, |lag| lag.unwrap_or(UNKNOWN_LAG)),
            is_future_key: log.future.is_some(),
            ..Default::default()
        });
    }
    let topics = topics.into_iter().map(|(name, mut partitions)| {
        partitions.sort_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic { name: (&name).into(), partitions, ..Default::default() }
    });
    let (total, usable) = directory.space.unwrap_or_default();
    let cordoned = config.get(keys::CORDONED_LOG_DIRS);
    DescribeLogDirsResult {
        log_dir,
        topics: topics.collect(),
        total_bytes: bytes(total),
        usable_bytes: bytes(usable),
        is_cordoned: cordoned.iter().any(|dir| dir == "*" || directory.path == Path::new(dir)),
        ..Default::default()
    }
}

fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::store::LogDescription;

    fn log(topic: &str, partition: i32, size: u64, future: Option<Option<i64>>) -> LogDescription {
        LogDescription { name: TopicPartition::new(topic, partition), size, future }
    }

    fn directory(failure: Option<&str>) -> DirectoryDescription {
        DirectoryDescription {
            path: "/data".into(),
            failure: failure.map(str::to_owned),
            space: Some((100, 40)),
            logs: vec![log("b", 1, 5, None), log("a", 0, 7, Some(Some(3))), log("b", 0, 6, None)],
        }
    }

    #[test]
    fn logs_are_shown_by_topic_and_only_those_asked_for() {
        let config = Config::from_overrides(&[]).unwrap();
        let all = describe(directory(None), &|_| true, &config);
        let names: Vec<_> = all.topics.iter().map(|topic| topic.name.to_string()).collect();
        assert_eq!(names, ["a", "b"]);
        let sizes: Vec<_> = all.topics[1].partitions.iter().map(|p| p.partition_size).collect();
        assert_eq!((sizes, all.total_bytes, all.usable_bytes), (vec![6, 5], 100, 40));
        let copy = &all.topics[0].partitions[0];
        assert_eq!((copy.is_future_key, copy.offset_lag), (true, 3));
        let one = describe(directory(None), &|name| name.partition == 1, &config);
        assert_eq!((one.topics.len(), one.topics[0].partitions.len()), (1, 1));
    }

    #[test]
    fn a_failed_directory_has_no_contents() {
        let config = Config::from_overrides(&[]).unwrap();
        let failed = describe(directory(Some("broken")), &|_| true, &config);
        assert_eq!((failed.error_code, failed.topics.len()), (56, 0));
        assert_eq!(&*failed.log_dir, "/data");
    }
}
