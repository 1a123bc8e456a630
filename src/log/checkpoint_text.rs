//! The small text files: checkpoints of version 0 and `partition.metadata`. `[P]`
//!
//! ```text
//! 0                 version
//! 2                 number of entries
//! orders 0 42       topic, partition, offset: the four offset checkpoints
//! orders 1 17
//! ```
//!
//! `leader-epoch-checkpoint` has `epoch offset` in a line. Fields are written with
//! one space and read with any white space between them. A file without lines has
//! no entries.

use std::fmt::Write as _;

use crate::types::{LeaderEpoch, Offset, TopicId, TopicPartition, parse_uuid, uuid_text};

/// Why a checkpoint or metadata file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The first line names another version than 0.
    #[error("checkpoint is of version {0}, not 0")]
    UnknownVersion(i32),
    /// A line is not of its form.
    #[error("line {line} is malformed: {text:?}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// The second line promises another number of entries.
    #[error("{declared} entries are declared and {found} are there")]
    WrongCount {
        /// As declared.
        declared: i64,
        /// As found.
        found: usize,
    },
    /// `partition.metadata` names no topic.
    #[error("topic id is missing or zero")]
    NoTopicId,
}

/// Reads an offset checkpoint. Of two lines for one partition the later counts,
/// when the caller puts them into a map.
pub fn decode_offsets(text: &str) -> Result<Vec<(TopicPartition, Offset)>, CheckpointError> {
    decode(text, |fields| {
        let [topic, partition, offset] = fields else { return None };
        let partition = partition.parse().ok()?;
        Some((TopicPartition::new(*topic, partition), Offset(offset.parse().ok()?)))
    })
}

/// The text of an offset checkpoint.
pub fn encode_offsets<'a>(
    entries: impl ExactSizeIterator<Item = (&'a TopicPartition, Offset)>,
) -> String {
    encode(entries, |text, (partition, offset)| {
        let TopicPartition { topic, partition } = partition;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{topic} {partition} {offset}");
    })
}

/// Reads the entries of `leader-epoch-checkpoint`, in file order.
pub fn decode_epochs(text: &str) -> Result<Vec<(LeaderEpoch, Offset)>, CheckpointError> {
    decode(text, |fields| {
        let [epoch, offset] = fields else { return None };
        Some((LeaderEpoch(epoch.parse().ok()?), Offset(offset.parse().ok()?)))
    })
}

/// The text of `leader-epoch-checkpoint`.
pub fn encode_epochs(entries: impl ExactSizeIterator<Item = (LeaderEpoch, Offset)>) -> String {
    encode(entries, |text, (epoch, offset)| {
        let _ = writeln!(text, "{epoch} {offset}");
    })
}

/// Reads `partition.metadata`: the topic that the directory belongs to (KIP-516).
pub fn decode_partition_metadata(text: &str) -> Result<TopicId, CheckpointError> {
    let mut lines = text.lines();
    let version = lines.next().unwrap_or_default();
    match field_after_colon(version).and_then(|field| field.parse::<i32>().ok()) {
        Some(0..) => {}
        Some(version) => return Err(CheckpointError::UnknownVersion(version)),
        None => return Err(malformed(1, version)),
    }
    let topic_id = lines.next().unwrap_or_default();
    let id = field_after_colon(topic_id).ok_or_else(|| malformed(2, topic_id))?;
    match parse_uuid(id) {
        Some(id) if !id.is_nil() => Ok(id),
        _ => Err(CheckpointError::NoTopicId),
    }
}

/// The text of `partition.metadata`; the last line has no end.
pub fn encode_partition_metadata(topic_id: TopicId) -> String {
    format!("version: 0\ntopic_id: {}", uuid_text(topic_id))
}

/// The value in `name: value`.
fn field_after_colon(line: &str) -> Option<&str> {
    let (_, value) = line.split_once(':')?;
    let field = value.trim_start();
    (field.len() < value.len() && !field.is_empty()).then_some(field)
}

fn encode<T>(entries: impl ExactSizeIterator<Item = T>, line: impl Fn(&mut String, T)) -> String {
    let mut text = format!("0\n{}\n", entries.len());
    for entry in entries {
        line(&mut text, entry);
    }
    text
}

fn decode<T>(text: &str, entry: impl Fn(&[&str]) -> Option<T>) -> Result<Vec<T>, CheckpointError> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let Some((at, line)) = lines.next() else { return Ok(Vec::new()) };
    match line.parse::<i32>() {
        Ok(0) => {}
        Ok(version) => return Err(CheckpointError::UnknownVersion(version)),
        Err(_) => return Err(malformed(at, line)),
    }
    let Some((at, line)) = lines.next() else { return Ok(Vec::new()) };
    let declared = line.parse::<i32>().map_err(|_| malformed(at, line))?;
    let mut entries = Vec::new();
    for (at, line) in lines {
        // No line has more than three fields; a fourth suffices to refuse it.
        let fields = line.split_whitespace().take(4).collect::<Vec<_>>();
        entries.push(entry(&fields).ok_or_else(|| malformed(at, line))?);
    }
    if usize::try_from(declared) == Ok(entries.len()) {
        Ok(entries)
    } else {
        let declared = i64::from(declared);
        Err(CheckpointError::WrongCount { declared, found: entries.len() })
    }
}

fn malformed(line: usize, text: &str) -> CheckpointError {
    CheckpointError::Malformed { line, text: text.chars().take(80).collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn offsets_as_kafka_writes_them() {
        let partition = TopicPartition::new("t", 0);
        let text = encode_offsets([(&partition, Offset(42))].into_iter());
        assert_eq!(text, "0\n1\nt 0 42\n");
        assert_eq!(decode_offsets(&text), Ok(vec![(partition, Offset(42))]));
        assert_eq!(encode_epochs(std::iter::empty::<(LeaderEpoch, Offset)>()), "0\n0\n");
    }

    #[test]
    fn what_is_read_and_what_is_not() {
        let entry = |count: usize| Ok(count);
        let bad = |line: usize, text: &str| {
            Err(CheckpointError::Malformed { line, text: text.to_owned() })
        };
        let cases = [
            ("", entry(0)),
            ("0", entry(0)),
            ("0\n0\n", entry(0)),
            ("0\n1\nt\t0   42\n", entry(1)),
            ("0\r\n1\r\nt 0 42\r\n", entry(1)),
            ("0\n1\nt 0 42", entry(1)),
            ("1\n0\n", Err(CheckpointError::UnknownVersion(1))),
            ("\n", bad(1, "")),
            ("x\n0\n", bad(1, "x")),
            ("0\nmany\n", bad(2, "many")),
            ("0\n1\nt 0\n", bad(3, "t 0")),
            ("0\n1\nt 0 1 2\n", bad(3, "t 0 1 2")),
            ("0\n1\nt zero 1\n", bad(3, "t zero 1")),
            ("0\n2\nt 0 1\n", Err(CheckpointError::WrongCount { declared: 2, found: 1 })),
            ("0\n-1\n", Err(CheckpointError::WrongCount { declared: -1, found: 0 })),
            (
                "0\n2147483647\n",
                Err(CheckpointError::WrongCount { declared: 2_147_483_647, found: 0 }),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(decode_offsets(text).map(|entries| entries.len()), expected, "{text:?}");
        }
    }

    #[test]
    fn partition_metadata() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let text = encode_partition_metadata(id);
        assert_eq!(text, "version: 0\ntopic_id: ASNFZ4mrze8BI0VniavN7w");
        assert_eq!(decode_partition_metadata(&text), Ok(id));
        let refused = [
            "",
            "version: 0",
            "version: -1\ntopic_id: ASNFZ4mrze8BI0VniavN7w",
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "version: 0\ntopic_id: short",
            "version:0\ntopic_id: ASNFZ4mrze8BI0VniavN7w",
        ];
        for text in refused {
            assert!(decode_partition_metadata(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn offsets_survive(entries in prop::collection::vec(("[a-zA-Z0-9._-]{1,20}", 0i32.., any::<i64>()), 0..20)) {
            let entries = entries
                .into_iter()
                .map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), Offset(offset)))
                .collect::<Vec<_>>();
            let text = encode_offsets(entries.iter().map(|(partition, offset)| (partition, *offset)));
            prop_assert_eq!(decode_offsets(&text), Ok(entries));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9 \n\r\ta-c:-]{0,60}|.{0,60}") {
            let _ = decode_offsets(&text);
            let _ = decode_epochs(&text);
            let _ = decode_partition_metadata(&text);
        }
    }
}
