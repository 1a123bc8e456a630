//! DescribeConfigs: every setting of topics, brokers, groups and client metrics.

use super::RequestContext;
use super::config_view::{
    Entry, Settings, broker_entries, client_metrics_entries, default_broker_entries, group_entries,
    topic_entries,
};
use crate::cluster::{ClusterImage, ConfigResource, ResourceType};
use crate::config::Config;
use crate::controller::{ApiError, invalid_name};
use crate::protocol::ErrorCode;
use crate::protocol::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use crate::protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
    DescribeConfigsSynonym,
};
use crate::types::BrokerId;

/// Answers from the image and this broker's configuration.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let (image, config) = (context.image(), context.broker.config.current());
    let here = Here { image: &image, config: &config, id: context.broker.node_id };
    let results = request.resources.iter().map(|resource| {
        let with_synonyms = request.include_synonyms;
        result(resource, here.entries(resource), with_synonyms, request.include_documentation)
    });
    DescribeConfigsResponse { results: results.collect(), ..Default::default() }
}

/// What is known on this broker.
struct Here<'a> {
    image: &'a ClusterImage,
    config: &'a Config,
    id: BrokerId,
}

impl Here<'_> {
    fn entries(&self, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, ApiError> {
        let name = &*resource.resource_name;
        match ResourceType::from_code(resource.resource_type) {
            Some(ResourceType::Topic) => self.topic(name),
            Some(ResourceType::Broker) if name.is_empty() => {
                Ok(default_broker_entries(&self.settings(ResourceType::Broker, "")))
            }
            Some(ResourceType::Broker) => {
                self.check_broker(name, " or empty string,")?;
                let own = self.settings(ResourceType::Broker, name);
                Ok(broker_entries(self.config, &own, &self.settings(ResourceType::Broker, "")))
            }
            Some(ResourceType::BrokerLogger) if name.is_empty() => {
                refuse("Broker id must not be empty")
            }
            // Log levels are set by other means here; there are no loggers to show.
            Some(ResourceType::BrokerLogger) => self.check_broker(name, "").map(|()| Vec::new()),
            Some(ResourceType::ClientMetrics) if name.is_empty() => {
                refuse("Client metrics subscription name must not be empty")
            }
            Some(ResourceType::ClientMetrics) => {
                Ok(client_metrics_entries(&self.settings(ResourceType::ClientMetrics, name)))
            }
            Some(ResourceType::Group) if name.is_empty() => refuse("Group name must not be empty"),
            Some(ResourceType::Group) => {
                Ok(group_entries(&self.settings(ResourceType::Group, name), self.config))
            }
            None => refuse(format!("Unexpected resource type UNKNOWN for resource {name}")),
        }
    }

    fn topic(&self, name: &str) -> Result<Vec<Entry>, ApiError> {
        if let Some(reason) = invalid_name(name) {
            let text = format!("Topic name is invalid: {reason}");
            return Err(ApiError::new(ErrorCode::InvalidTopicException, text));
        }
        if self.image.topic(name).is_none() {
            // An empty text, as Kafka has it here: some user interfaces print it.
            return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, ""));
        }
        Ok(topic_entries(&self.settings(ResourceType::Topic, name), self.config))
    }

    fn check_broker(&self, name: &str, or: &str) -> Result<(), ApiError> {
        match name.parse::<i32>() {
            Ok(id) if id == self.id.0 => Ok(()),
            Ok(_) => refuse(format!(
                "Unexpected broker id, expected {}{or} but received {name}",
                self.id
            )),
            Err(_) => refuse(format!("Broker id must be an integer, but it is: {name}")),
        }
    }

    fn settings(&self, kind: ResourceType, name: &str) -> Settings {
        let settings = self.image.settings(&ConfigResource::new(kind, name));
        settings.map(|settings| (**settings).clone()).unwrap_or_default()
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::new(ErrorCode::InvalidRequest, text))
}

fn result(
    resource: &DescribeConfigsResource,
    entries: Result<Vec<Entry>, ApiError>,
    with_synonyms: bool,
    with_docs: bool,
) -> DescribeConfigsResult {
    let (error_code, error_message) = super::controller_call::code_and_text(&entries);
    let wanted = resource.configuration_keys.as_deref().unwrap_or_default();
    let is_wanted =
        |entry: &Entry| wanted.is_empty() || wanted.iter().any(|key| **key == *entry.name);
    let entries = entries.unwrap_or_default().into_iter().filter(is_wanted);
    DescribeConfigsResult {
        error_code,
        error_message,
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs: entries.map(|entry| show(entry, with_synonyms, with_docs)).collect(),
        ..Default::default()
    }
}

fn show(entry: Entry, with_synonyms: bool, with_docs: bool) -> DescribeConfigsResourceResult {
    let source = entry.source();
    let synonyms = entry.synonyms.into_iter().filter(|_| with_synonyms);
    DescribeConfigsResourceResult {
        name: entry.name.into(),
        value: entry.value.map(Into::into),
        read_only: entry.read_only,
        config_source: source.code(),
        is_sensitive: entry.is_sensitive,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: synonym.name.into(),
                value: synonym.value.map(Into::into),
                source: synonym.source.code(),
                ..Default::default()
            })
            .collect(),
        config_type: entry.kind,
        documentation: entry.doc.filter(|_| with_docs).map(Into::into),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::topic_view::tests::{add_topic, image};
    use super::*;

    fn describe(kind: i8, name: &str, keys: &[&str]) -> DescribeConfigsResult {
        let mut image = image();
        add_topic(&mut image, "t", &[Some(1)]);
        let config = Config::from_overrides(&[]).unwrap();
        let here = Here { image: &image, config: &config, id: BrokerId(1) };
        let resource = DescribeConfigsResource {
            resource_type: kind,
            resource_name: name.into(),
            configuration_keys: Some(keys.iter().map(|key| (*key).into()).collect()),
            ..Default::default()
        };
        result(&resource, here.entries(&resource), false, true)
    }

    #[test]
    fn only_the_keys_that_are_asked_for() {
        let topic = describe(2, "t", &["retention.ms", "no.such.key"]);
        assert_eq!((topic.error_code, topic.configs.len()), (0, 1));
        assert_eq!(topic.configs[0].value.as_deref(), Some("604800000"));
        assert_eq!((topic.configs[0].config_type, topic.configs[0].config_source), (5, 5));
        assert!(topic.configs[0].documentation.is_some());
        assert!(describe(4, "1", &[]).configs.len() > 300);
        assert_eq!(describe(4, "", &[]).configs.len(), 0);
    }

    #[test]
    fn resources_that_are_not_here_are_refused() {
        for (kind, name, code) in [
            (2, "x", 3),
            (2, "a b", 17),
            (4, "2", 42),
            (4, "one", 42),
            (32, "", 42),
            (16, "", 42),
            (3, "", 42),
        ] {
            assert_eq!(describe(kind, name, &[]).error_code, code, "{kind} {name:?}");
        }
        let text = describe(4, "2", &[]).error_message.unwrap();
        assert_eq!(&*text, "Unexpected broker id, expected 1 or empty string, but received 2");
    }
}
