//! Quotas of users, clients and addresses. `[P]`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::{AlterQuota, Answer, ApiError};
use super::machine::{ControllerMachine, Written, check_size};
use crate::cluster::records::MetadataRecord;
use crate::cluster::{QuotaEntity, Security};
use crate::protocol::ErrorCode;
use crate::protocol::messages::client_quota_record::{ClientQuotaRecord, EntityData};

/// The kinds of entity that a quota can be for.
pub const QUOTA_ENTITY_TYPES: [&str; 3] = [USER, CLIENT_ID, IP];
/// A user.
const USER: &str = "user";
/// A client, by what it calls itself.
const CLIENT_ID: &str = "client-id";
/// An address that connects.
pub const IP: &str = "ip";

/// A quota's key, and its largest value, where it is a whole number.
type Key = (&'static str, Option<(f64, &'static str)>);

const OF_USERS_AND_CLIENTS: [Key; 4] = [
    ("producer_byte_rate", Some((9_223_372_036_854_775_807.0, "a LONG"))),
    ("consumer_byte_rate", Some((9_223_372_036_854_775_807.0, "a LONG"))),
    ("request_percentage", None),
    ("controller_mutation_rate", None),
];
const OF_ADDRESSES: [Key; 1] = [("connection_creation_rate", Some((2_147_483_647.0, "an INT")))];

impl ControllerMachine {
    /// Changes quotas, each entity for itself.
    pub(super) fn alter_quotas(
        &mut self,
        alterations: &[AlterQuota],
        validate_only: bool,
    ) -> Result<Written, ApiError> {
        let mut records = Vec::new();
        let mut seen = BTreeSet::new();
        let alter = |alteration: &AlterQuota| {
            let keys: BTreeSet<_> = alteration.changes.iter().map(|(key, _)| key).collect();
            let repeats_key = keys.len() < alteration.changes.len();
            if !seen.insert(alteration.entity.clone()) || repeats_key {
                return refuse(format!("Ignoring duplicate entity {}", text(&alteration.entity)));
            }
            records.extend(self.quota_records(alteration)?);
            Ok(())
        };
        let results = alterations.iter().map(alter).collect();
        check_size(&records)?;
        if validate_only {
            records.clear();
        }
        Ok(Written::atomic(records, Answer::Each(results)))
    }

    /// The records that make an entity's quotas what they are to be; none for what
    /// they are already.
    fn quota_records(&self, alteration: &AlterQuota) -> Result<Vec<MetadataRecord>, ApiError> {
        let entity = &alteration.entity;
        let keys = allowed_keys(entity, alteration.is_host_known)?;
        let mut records = Vec::new();
        for (key, value) in &alteration.changes {
            let current = self.image.security.client_quotas.get(&(entity.clone(), key.clone()));
            let (value, remove) = match value {
                None if current.is_none() => continue,
                None => (0.0, true),
                Some(value) => {
                    check_value(keys, key, *value)?;
                    if current.is_some_and(|current| current.to_bits() == value.to_bits()) {
                        continue;
                    }
                    (*value, false)
                }
            };
            let part = |(kind, name): (&Arc<str>, &Option<Arc<str>>)| EntityData {
                entity_type: kind.into(),
                entity_name: name.as_ref().map(Into::into),
                ..Default::default()
            };
            let entity = entity.iter().map(part).collect();
            let key = key.into();
            let record = ClientQuotaRecord { entity, key, value, remove, ..Default::default() };
            records.push(record.into());
        }
        Ok(records)
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::new(ErrorCode::InvalidRequest, text))
}

/// As Java prints it.
fn text(entity: &QuotaEntity) -> String {
    let name = |(kind, name): (&Arc<str>, &Option<Arc<str>>)| {
        format!("{kind}={}", name.as_deref().unwrap_or("null"))
    };
    let parts: Vec<_> = entity.iter().map(name).collect();
    format!("ClientQuotaEntity(entries={{{}}})", parts.join(", "))
}

/// The keys that an entity of these kinds can have.
fn allowed_keys(entity: &QuotaEntity, is_host_known: bool) -> Result<&'static [Key], ApiError> {
    if entity.is_empty() {
        return refuse("Invalid empty client quota entity");
    }
    for (kind, name) in entity {
        if !QUOTA_ENTITY_TYPES.contains(&&**kind) {
            return refuse(format!("Unhandled client quota entity type: {kind}"));
        }
        if name.as_ref().is_some_and(|name| name.is_empty()) {
            return refuse(format!("Empty {kind} not supported"));
        }
    }
    let Some(address) = entity.get(IP) else { return Ok(&OF_USERS_AND_CLIENTS) };
    if entity.len() > 1 {
        // Kafka has no space there either.
        return refuse(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or \
             ClientId",
        );
    }
    match address {
        Some(address) if !is_host_known => {
            refuse(format!("{address} is not a valid IP or resolvable host."))
        }
        _ => Ok(&OF_ADDRESSES),
    }
}

fn check_value(keys: &[Key], key: &str, value: f64) -> Result<(), ApiError> {
    let Some((_, whole)) = keys.iter().find(|(name, _)| *name == key) else {
        return refuse(format!("Invalid configuration key {key}"));
    };
    if value <= 0.0 {
        return refuse(format!("Quota {key} must be greater than 0"));
    }
    match whole {
        Some((largest, kind)) if value > *largest => {
            refuse(format!("Proposed value for {key} is too large for {kind}."))
        }
        Some(_) if (value % 1.0).abs() > 1e-6 => {
            refuse(format!("{key} cannot be a fractional value."))
        }
        _ => Ok(()),
    }
}

/// Which quotas are asked for, kind by kind (KIP-546).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaMatch {
    /// That of this name, or with `None` the default of its kind.
    Exact(Option<String>),
    /// Any, the default included.
    Any,
}

/// The quotas of all entities that match, by entity; `strict` leaves out those that
/// also have other kinds.
pub fn matching_quotas(
    security: &Security,
    filter: &BTreeMap<String, QuotaMatch>,
    strict: bool,
) -> BTreeMap<QuotaEntity, Vec<(Arc<str>, f64)>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for ((entity, key), value) in security.client_quotas.iter() {
        let fits = filter.iter().all(|(kind, wanted)| match (entity.get(kind.as_str()), wanted) {
            (None, _) => false,
            (Some(_), QuotaMatch::Any) => true,
            (Some(name), QuotaMatch::Exact(wanted)) => name.as_deref() == wanted.as_deref(),
        });
        if fits && (!strict || entity.len() == filter.len()) {
            found.entry(entity.clone()).or_default().push((key.clone(), *value));
        }
    }
    found
}
