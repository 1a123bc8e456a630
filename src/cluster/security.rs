//! Quotas, access control entries, credentials and tokens. `[P]`
//!
//! Kept as the records that made them: a snapshot must hold them, whether or
//! not this broker acts on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::SharedMap;
use crate::protocol::messages::{
    access_control_entry_record::AccessControlEntryRecord, client_quota_record::ClientQuotaRecord,
    delegation_token_record::DelegationTokenRecord,
    user_scram_credential_record::UserScramCredentialRecord,
};

/// Whom a quota is for: type of entity to its name, `None` for the default.
pub type QuotaEntity = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// What the metadata log says about who may do what, and how much of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    /// Quotas by entity and key.
    pub client_quotas: SharedMap<(QuotaEntity, Arc<str>), f64>,
    /// Access control entries by id.
    pub acls: SharedMap<Uuid, Arc<AccessControlEntryRecord>>,
    /// SCRAM credentials by mechanism and user.
    pub scram: SharedMap<(i8, Arc<str>), Arc<UserScramCredentialRecord>>,
    /// Delegation tokens by id.
    pub delegation_tokens: SharedMap<Arc<str>, Arc<DelegationTokenRecord>>,
}

impl Security {
    /// Folds one quota into the state.
    pub(super) fn replay_quota(&mut self, record: &ClientQuotaRecord) {
        let entity = record.entity.iter().map(|part| {
            ((&part.entity_type).into(), part.entity_name.as_ref().map(Arc::<str>::from))
        });
        let key = (entity.collect(), Arc::from(&record.key));
        if record.remove {
            self.client_quotas.remove(&key);
        } else {
            self.client_quotas.insert(key, record.value);
        }
    }
}
