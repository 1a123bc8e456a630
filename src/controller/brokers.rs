//! Brokers: register, hear, fence, let go. `[P]`
//!
//! ```text
//!              caught up            wants to stop, leads
//!   FENCED ───────────────▶ UNFENCED ─────────────────▶ CONTROLLED SHUTDOWN
//!     ▲ ▲      silent or       │ leads nothing                 │ leads nothing
//!     │ └────── wants it ──────┘        │                      │ and all know it
//!     └─────────────────────────────────┴── SHUTDOWN NOW ◀─────┘
//! ```

use super::command::{
    Answer, ApiError, BrokerHeartbeat, HeartbeatReply, RegisterBroker, RegisterController,
};
use super::machine::{ControllerMachine, Written};
use super::partitions::Cause;
use crate::cluster::records::{MetadataRecord, level};
use crate::cluster::{
    BrokerRegistration, ControllerRegistration, METADATA_VERSION, VersionRange, directory, features,
};
use crate::protocol::ErrorCode;
use crate::protocol::messages::{
    broker_registration_change_record::BrokerRegistrationChangeRecord,
    unregister_broker_record::UnregisterBrokerRecord,
};
use crate::replicated::Now;
use crate::types::{BrokerId, DirectoryId, Offset};
use std::collections::BTreeSet;

/// `fenced` of a registration change that fences.
const FENCE: i8 = 1;
/// `fenced` of a registration change that unfences.
const UNFENCE: i8 = -1;

/// What a heartbeat leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fenced,
    Unfenced,
    ControlledShutdown,
    ShutdownNow,
}

impl ControllerMachine {
    /// Refuses whoever speaks for another incarnation of a broker.
    pub(super) fn check_broker_epoch(&self, id: BrokerId, epoch: i64) -> Result<(), ApiError> {
        let Some(broker) = self.image.broker(id) else {
            let text = format!("No broker registration found for broker id {id}");
            return Err(ApiError::new(ErrorCode::StaleBrokerEpoch, text));
        };
        if broker.epoch == epoch {
            return Ok(());
        }
        let text = format!("Expected broker epoch {}, but got broker epoch {epoch}", broker.epoch);
        Err(ApiError::new(ErrorCode::StaleBrokerEpoch, text))
    }

    /// Registers a new incarnation of a broker, fenced, or amends the
    /// registration of the one that is there.
    pub(super) fn register_broker(
        &mut self,
        now: Now,
        request: RegisterBroker,
    ) -> Result<Written, ApiError> {
        self.check_registration(now, &request)?;
        let existing = self.image.broker(request.id).cloned();
        let same = existing.filter(|known| known.incarnation_id == request.incarnation_id);
        let mut records = Vec::new();
        if same.is_none() {
            records = self.earlier_incarnation(&request);
        }
        let has_directories = self.image.metadata_version() >= level::DIRECTORY_ASSIGNMENT;
        let epoch = same.as_ref().map_or(now.next_offset.0, |known| known.epoch);
        let broker = BrokerRegistration {
            id: request.id,
            epoch,
            incarnation_id: request.incarnation_id,
            endpoints: request.endpoints,
            features: request.features,
            rack: request.rack,
            fenced: same.as_ref().is_none_or(|known| known.fenced),
            in_controlled_shutdown: same.as_ref().is_some_and(|known| known.in_controlled_shutdown),
            directories: if has_directories { request.directories } else { Vec::new() },
            cordoned_directories: None,
        };
        records.push(broker.to_record(self.image.metadata_version()).into());
        if same.is_none() {
            self.sessions.remove(broker.id);
        }
        self.sessions.touch(broker.id, epoch, Offset::NONE, now.monotonic);
        // The registration comes last, so that a controller that fails half way
        // is followed by one that does all of it again.
        Ok(Written { records, atomic: false, answer: Answer::BrokerEpoch(epoch) })
    }

    fn check_registration(&self, now: Now, request: &RegisterBroker) -> Result<(), ApiError> {
        if self.image.cluster_id != request.cluster_id {
            let text = format!(
                "Expected cluster ID {}, but got cluster ID {}",
                self.image.cluster_id, request.cluster_id
            );
            return Err(ApiError::new(ErrorCode::InconsistentClusterId, text));
        }
        if let Some(known) = self.image.broker(request.id)
            && known.incarnation_id != request.incarnation_id
            && self.options.local_broker != Some(request.id)
            && self.sessions.is_valid(request.id, known.epoch, now.monotonic)
        {
            let text = "Another broker is registered with that broker id. If the broker was \
                        recently restarted this should self-resolve once the heartbeat manager \
                        expires the broker's session.";
            return Err(ApiError::new(ErrorCode::DuplicateBrokerRegistration, text));
        }
        self.check_directories(request)?;
        self.check_features(request)
    }

    fn check_directories(&self, request: &RegisterBroker) -> Result<(), ApiError> {
        if self.image.metadata_version() < level::DIRECTORY_ASSIGNMENT {
            return Ok(());
        }
        let refused = |text: String| Err(ApiError::new(ErrorCode::InvalidRegistration, text));
        let directories = &request.directories;
        if directories.is_empty() {
            return refused("No directories specified in request".into());
        }
        if directories.iter().any(|id| directory::is_reserved(*id)) {
            return refused("Reserved directory ID in request".into());
        }
        if directories.iter().collect::<BTreeSet<_>>().len() != directories.len() {
            return refused("Duplicate directory ID in request".into());
        }
        for broker in self.image.brokers.values().filter(|broker| broker.id != request.id) {
            let taken = directories.iter().find(|id| broker.directories.contains(id));
            if let Some(taken) = taken {
                let taken = crate::types::uuid_text(*taken);
                let id = broker.id;
                return refused(format!(
                    "Broker {id} is already registered with directory {taken}"
                ));
            }
        }
        Ok(())
    }

    /// The broker must be able to work at every finalized level.
    fn check_features(&self, request: &RegisterBroker) -> Result<(), ApiError> {
        let supports = |name: &str, range: VersionRange, level: i16| {
            if range.contains(level) {
                return Ok(());
            }
            let text = format!(
                "Unable to register because the broker does not support finalized version {level} \
                 of {name}. The broker wants a version between {} and {}, inclusive.",
                range.min, range.max
            );
            Err(ApiError::new(ErrorCode::UnsupportedVersion, text))
        };
        let finalized = |name: &str| match name {
            features::KRAFT_VERSION => self.image.kraft_version,
            name => self.image.feature_level(name),
        };
        for (name, range) in &request.features {
            supports(name, *range, finalized(name))?;
        }
        if !request.features.contains_key(METADATA_VERSION) {
            let text = format!("Request features do not contain '{METADATA_VERSION}'");
            return Err(ApiError::new(ErrorCode::InvalidRegistration, text));
        }
        let unsaid = VersionRange { min: 0, max: 0 };
        let known = self.image.features.keys().map(|name| &**name);
        for name in known.chain([features::KRAFT_VERSION]) {
            if !request.features.contains_key(name) {
                supports(name, unsaid, finalized(name))?;
            }
        }
        Ok(())
    }

    /// What the end of a broker's earlier incarnation means to its partitions.
    fn earlier_incarnation(&self, request: &RegisterBroker) -> Vec<MetadataRecord> {
        let stored = self.image.broker(request.id).map(|broker| broker.epoch);
        let clean = stored == Some(request.previous_epoch);
        let cause = if self.elr_enabled() && !clean {
            Cause { unclean_shutdown: Some(request.id), ..Cause::default() }
        } else {
            Cause { remove: Some(request.id), ..Cause::default() }
        };
        self.partition_changes(cause)
    }

    /// Registers a controller.
    pub(super) fn register_controller(
        &mut self,
        request: RegisterController,
    ) -> Result<Written, ApiError> {
        if self.image.metadata_version() < level::CONTROLLER_REGISTRATION {
            let text =
                "The current MetadataVersion is too old to support controller registrations.";
            return Err(ApiError::new(ErrorCode::UnsupportedVersion, text));
        }
        let RegisterController { id, incarnation_id, endpoints, features } = request;
        let controller = ControllerRegistration { id, incarnation_id, endpoints, features };
        Ok(Written::atomic(vec![controller.to_record().into()], Answer::Done))
    }

    /// Forgets a broker.
    pub(super) fn unregister_broker(&mut self, id: BrokerId) -> Result<Written, ApiError> {
        let broker = self.image.broker(id).ok_or_else(|| {
            let text = format!("Broker ID {id} is not currently registered");
            ApiError::new(ErrorCode::BrokerIdNotRegistered, text)
        })?;
        let epoch = broker.epoch;
        let mut records = self.partition_changes(Cause { remove: Some(id), ..Cause::default() });
        let record =
            UnregisterBrokerRecord { broker_id: id.0, broker_epoch: epoch, ..Default::default() };
        records.push(record.into());
        Ok(Written { records, atomic: false, answer: Answer::Done })
    }

    /// Hears a broker, and lets its state follow from what it wants.
    pub(super) fn heartbeat(
        &mut self,
        now: Now,
        request: &BrokerHeartbeat,
    ) -> Result<Written, ApiError> {
        let id = request.id;
        self.check_broker_epoch(id, request.epoch)?;
        let Some(broker) = self.image.broker(id).cloned() else {
            return Err(ApiError::bare(ErrorCode::BrokerIdNotRegistered));
        };
        let registered_at = self.registered_at.get(&id).copied().unwrap_or(Offset::NONE);
        let (current, next) = self.next_state(&broker, request, registered_at);
        let mut records = Vec::new();
        if current != next {
            records = match next {
                State::Fenced | State::ShutdownNow => self.fence(id),
                State::Unfenced => self.unfence(&broker),
                State::ControlledShutdown => self.begin_shutdown(&broker),
            };
        }
        records.extend(self.directory_changes(&broker, request));
        self.sessions.touch(id, request.epoch, request.metadata_offset, now.monotonic);
        if next == State::ControlledShutdown {
            let count = i64::try_from(records.len()).unwrap_or(i64::MAX);
            self.sessions.shut_down_at(id, now.next_offset + (count - 1));
        } else if next == State::ShutdownNow {
            self.sessions.remove(id);
        }
        let reply = HeartbeatReply {
            is_caught_up: request.metadata_offset >= registered_at,
            is_fenced: matches!(next, State::Fenced | State::ShutdownNow),
            should_shut_down: next == State::ShutdownNow,
        };
        Ok(Written { records, atomic: false, answer: Answer::Heartbeat(reply) })
    }

    fn next_state(
        &self,
        broker: &BrokerRegistration,
        request: &BrokerHeartbeat,
        registered_at: Offset,
    ) -> (State, State) {
        let shutting_down = self
            .sessions
            .get(broker.id, broker.epoch)
            .and_then(|session| session.shutting_down_at)
            .filter(|_| !broker.fenced);
        if let Some(at) = shutting_down {
            let known = self.sessions.lowest_active_offset().is_none_or(|lowest| at <= lowest);
            let may_go = known && !self.leads_any(broker.id);
            let next = if may_go { State::ShutdownNow } else { State::ControlledShutdown };
            return (State::ControlledShutdown, next);
        }
        if broker.fenced {
            let next = if request.want_shut_down {
                State::ShutdownNow
            } else if !request.want_fence && request.metadata_offset >= registered_at {
                State::Unfenced
            } else {
                State::Fenced
            };
            return (State::Fenced, next);
        }
        let next = match (request.want_fence, request.want_shut_down) {
            (true, true) => State::ShutdownNow,
            (true, false) => State::Fenced,
            (false, true) if self.leads_any(broker.id) => State::ControlledShutdown,
            (false, true) => State::ShutdownNow,
            (false, false) => State::Unfenced,
        };
        (State::Unfenced, next)
    }

    fn leads_any(&self, id: BrokerId) -> bool {
        self.image
            .topics
            .values()
            .any(|topic| topic.partitions.iter().any(|partition| partition.leader == Some(id)))
    }

    /// The records that hide a broker from clients and take its leaderships.
    pub(super) fn fence(&self, id: BrokerId) -> Vec<MetadataRecord> {
        let mut records = self.partition_changes(Cause { remove: Some(id), ..Cause::default() });
        if let Some(broker) = self.image.broker(id) {
            records.push(BrokerRegistrationChangeRecord { fenced: FENCE, ..change(broker) }.into());
        }
        records
    }

    fn unfence(&self, broker: &BrokerRegistration) -> Vec<MetadataRecord> {
        let change = BrokerRegistrationChangeRecord { fenced: UNFENCE, ..change(broker) };
        let mut records = vec![change.into()];
        records.extend(self.partition_changes(Cause { add: Some(broker.id), ..Cause::default() }));
        records
    }

    fn begin_shutdown(&self, broker: &BrokerRegistration) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        if !broker.in_controlled_shutdown {
            let change =
                BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..change(broker) };
            records.push(change.into());
        }
        let cause = Cause { remove: Some(broker.id), ..Cause::default() };
        records.extend(self.partition_changes(cause));
        records
    }

    /// Directories that failed, or that take no new replicas any more.
    fn directory_changes(
        &self,
        broker: &BrokerRegistration,
        request: &BrokerHeartbeat,
    ) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        let metadata_version = self.image.metadata_version();
        let failed = |id: &&DirectoryId| request.offline_directories.contains(id);
        let newly: Vec<_> = broker.directories.iter().filter(failed).copied().collect();
        if metadata_version >= level::DIRECTORY_ASSIGNMENT && !newly.is_empty() {
            for id in newly {
                let cause =
                    Cause { remove: Some(broker.id), directory: Some(id), ..Cause::default() };
                records.extend(self.partition_changes(cause));
            }
            let online = broker.directories.iter().filter(|id| !failed(id)).copied().collect();
            let change = BrokerRegistrationChangeRecord { log_dirs: online, ..change(broker) };
            records.push(change.into());
        }
        if let Some(cordoned) = &request.cordoned_directories
            && metadata_version >= level::CORDONED_DIRECTORIES
            && broker.cordoned_directories.as_deref().unwrap_or_default() != cordoned.as_slice()
        {
            let cordoned_log_dirs = Some(cordoned.clone());
            let change = BrokerRegistrationChangeRecord { cordoned_log_dirs, ..change(broker) };
            records.push(change.into());
        }
        records
    }
}

/// A change of this broker's registration that changes nothing yet.
fn change(broker: &BrokerRegistration) -> BrokerRegistrationChangeRecord {
    BrokerRegistrationChangeRecord {
        broker_id: broker.id.0,
        broker_epoch: broker.epoch,
        ..Default::default()
    }
}
