//! AlterClientQuotas: quotas are kept; they are not enforced yet (KIP-546).

use std::net::IpAddr;

use indexmap::IndexMap;

use super::RequestContext;
use super::controller_call::code_and_text;
use crate::cluster::QuotaEntity;
use crate::controller::{AlterQuota, ApiError, IP, check_count};
use crate::protocol::messages::alter_client_quotas_request::{AlterClientQuotasRequest, EntryData};
use crate::protocol::messages::alter_client_quotas_response::{
    AlterClientQuotasResponse, EntityData as AnsweredEntity, EntryData as Answered,
};

/// Changes quotas, or only says whether it would. An entity that is named twice is
/// answered once, with what became of it last.
pub async fn handle(
    context: &RequestContext<'_>,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    // Before a host is looked up for any of them.
    if let Err(error) = check_count(request.entries.len()) {
        return refused(&request, &error);
    }
    let mut alterations = Vec::with_capacity(request.entries.len());
    for entry in &request.entries {
        alterations.push(command(entry).await);
    }
    let entities: Vec<_> = alterations.iter().map(|wanted| wanted.entity.clone()).collect();
    let altering = context.broker.controller.alter_quotas(alterations, request.validate_only);
    let results = match altering.await {
        Ok(results) => {
            context.caught_up().await;
            results
        }
        Err(error) => vec![Err(error); entities.len()],
    };
    let answers: IndexMap<QuotaEntity, _> = entities.into_iter().zip(results).collect();
    let entries = answers.into_iter().map(|(entity, result)| {
        let (error_code, error_message) = code_and_text(&result);
        let entity = entity.iter().map(|(kind, name)| AnsweredEntity {
            entity_type: kind.into(),
            entity_name: name.as_ref().map(Into::into),
            ..Default::default()
        });
        Answered { error_code, error_message, entity: entity.collect(), ..Default::default() }
    });
    AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }
}

/// The same answer for each entry.
fn refused(request: &AlterClientQuotasRequest, error: &ApiError) -> AlterClientQuotasResponse {
    let (error_code, error_message) = code_and_text::<()>(&Err(error.clone()));
    let entries = request.entries.iter().map(|entry| {
        let entity = entry.entity.iter().map(|part| AnsweredEntity {
            entity_type: part.entity_type.clone(),
            entity_name: part.entity_name.clone(),
            ..Default::default()
        });
        let error_message = error_message.clone();
        Answered { error_code, error_message, entity: entity.collect(), ..Default::default() }
    });
    AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }
}

async fn command(entry: &EntryData) -> AlterQuota {
    let parts = entry.entity.iter();
    let entity: QuotaEntity = parts
        .map(|part| ((&part.entity_type).into(), part.entity_name.as_ref().map(Into::into)))
        .collect();
    let changes = entry.ops.iter().map(|op| ((&op.key).into(), (!op.remove).then_some(op.value)));
    let is_host_known = match entity.get(IP) {
        Some(Some(address)) => is_host(address).await,
        _ => true,
    };
    AlterQuota { changes: changes.collect(), entity, is_host_known }
}

async fn is_host(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
        || tokio::net::lookup_host((name, 0)).await.is_ok_and(|mut found| found.next().is_some())
}
