//! Configuration
