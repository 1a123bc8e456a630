//! Settings of topics, brokers and other resources. `[P]`

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::ApiError;
use crate::cluster::{ConfigResource, ResourceType};

/// What is known about keys and their values. The table of all keys lies
/// elsewhere; the controller only asks it.
pub trait ConfigRules: Debug + Send + Sync + 'static {
    /// True when the key of this kind of resource holds a list, so that values
    /// can be appended and subtracted.
    fn is_list(&self, kind: ResourceType, key: &str) -> bool;

    /// What holds for the key when nothing is set, as text: the first value to
    /// append to.
    fn default_value(&self, kind: ResourceType, key: &str) -> Option<String>;

    /// Judges all the settings that a resource would have after a change:
    /// are the keys known, do the values parse, do they go together? `before`
    /// is what it has now. Refusals carry Kafka's code and text
    /// (`INVALID_CONFIG` for most).
    fn validate(
        &self,
        resource: &ConfigResource,
        settings: &BTreeMap<Arc<str>, Arc<str>>,
        before: &BTreeMap<Arc<str>, Arc<str>>,
    ) -> Result<(), ApiError>;
}
