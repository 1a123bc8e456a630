//! Groups and transactions: machines sharded over the partitions of internal
//! topics.

pub mod group;
