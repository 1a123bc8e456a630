//! A broker as the metadata log knows it. `[P]`

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::types::{BrokerId, DirectoryId};

/// What a broker said of itself when it registered, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// The broker's `node.id`.
    pub id: BrokerId,
    /// Offset of the write that registered this incarnation; names it in every
    /// request between brokers and controller.
    pub epoch: i64,
    /// Random for each start of the process.
    pub incarnation_id: Uuid,
    /// Advertised listeners, in the order in which the broker gave them.
    pub endpoints: Vec<Endpoint>,
    /// Feature levels that the broker can work with.
    pub features: BTreeMap<Arc<str>, VersionRange>,
    /// `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// A fenced broker leads nothing, is in no new ISR and is hidden from clients.
    pub fenced: bool,
    /// The broker is handing its leaderships over before it stops.
    pub in_controlled_shutdown: bool,
    /// Online log directories (KIP-858).
    pub directories: Vec<DirectoryId>,
    /// Directories that take no new replicas (KIP-1066); `None` when never said.
    pub cordoned_directories: Option<Vec<DirectoryId>>,
}

/// What a controller said of itself when it registered (KIP-919).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRegistration {
    /// The controller's `node.id`.
    pub id: BrokerId,
    /// Random for each start of the process.
    pub incarnation_id: Uuid,
    /// Its controller listeners.
    pub endpoints: Vec<Endpoint>,
    /// Feature levels that the controller can work with.
    pub features: BTreeMap<Arc<str>, VersionRange>,
}

/// One advertised listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Host as advertised.
    pub host: Arc<str>,
    /// Port as advertised.
    pub port: u16,
    /// How the listener is secured.
    pub security_protocol: SecurityProtocol,
}

/// Security protocols, with Kafka's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    #[default]
    Plaintext = 0,
    /// TLS.
    Ssl = 1,
    /// SASL over plain TCP.
    SaslPlaintext = 2,
    /// SASL over TLS.
    SaslSsl = 3,
}

impl SecurityProtocol {
    /// The protocol with Kafka's number; `None` when there is none.
    pub fn from_code(code: i16) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|protocol| protocol.code() == code)
    }

    /// Kafka's number.
    pub fn code(self) -> i16 {
        self as i16
    }
}

/// Lowest and highest level of a feature, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Lowest level.
    pub min: i16,
    /// Highest level.
    pub max: i16,
}

impl VersionRange {
    /// True when the level lies in the range.
    pub fn contains(self, level: i16) -> bool {
        (self.min..=self.max).contains(&level)
    }
}

impl BrokerRegistration {
    /// The endpoint that the broker advertises for a listener.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| &*endpoint.listener == listener)
    }

    /// May be put into an ISR and may lead.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    /// True when a replica in this directory is usable as far as is known:
    /// everything but [`directory::LOST`] and directories that went offline.
    pub fn has_online_directory(&self, id: DirectoryId) -> bool {
        id == directory::UNASSIGNED || id == directory::MIGRATING || self.directories.contains(&id)
    }

    /// True when every directory refuses new replicas.
    pub fn is_cordoned(&self) -> bool {
        self.cordoned_directories.as_ref().is_some_and(|cordoned| {
            !self.directories.is_empty()
                && self.directories.iter().all(|directory| cordoned.contains(directory))
        })
    }
}

/// Reserved directory ids (KIP-858).
pub mod directory {
    use crate::types::DirectoryId;

    /// Known only to be on the broker, which predates directory ids.
    pub const MIGRATING: DirectoryId = DirectoryId::from_u128(0);
    /// Not yet placed in a directory; the broker will choose.
    pub const UNASSIGNED: DirectoryId = DirectoryId::from_u128(1);
    /// In a directory that failed.
    pub const LOST: DirectoryId = DirectoryId::from_u128(2);

    /// True for ids that stand for no directory, now or later.
    pub fn is_reserved(id: DirectoryId) -> bool {
        id.as_u128() < 100
    }
}
