//! Kafka's messages and records: bytes to typed messages and back. `[P]`
