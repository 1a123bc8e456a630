//! DescribeUserScramCredentials: which credentials the metadata log holds, of which
//! nothing secret is told (KIP-554).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::RequestContext;
use super::once::Named;
use crate::cluster::Security;
use crate::protocol::messages::describe_user_scram_credentials_request::DescribeUserScramCredentialsRequest;
use crate::protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResponse, DescribeUserScramCredentialsResult,
};
use crate::protocol::{ErrorCode, Str};

/// SCRAM-SHA-256 and SCRAM-SHA-512, by Kafka's numbers.
const MECHANISMS: [i8; 2] = [1, 2];

/// Answers for the users that are named, or for all.
pub async fn handle(
    context: &RequestContext<'_>,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let image = context.image();
    let users = request.users.unwrap_or_default();
    let named: Named<Arc<str>> = if users.is_empty() {
        let all: BTreeSet<_> = image.security.scram.keys().map(|(_, user)| user.clone()).collect();
        all.into_iter().collect()
    } else {
        users.iter().map(|user| (&user.name).into()).collect()
    };
    let repeated: Vec<_> = named.repeated().map(|user| repeated(user)).collect();
    let once = named.once().map(|user| result(&image.security, user));
    let results = once.chain(repeated).collect();
    DescribeUserScramCredentialsResponse { results, ..Default::default() }
}

fn result(security: &Security, user: &Arc<str>) -> DescribeUserScramCredentialsResult {
    let credential = |mechanism| {
        let iterations = security.scram.get(&(mechanism, user.clone()))?.iterations;
        Some(CredentialInfo { mechanism, iterations, ..Default::default() })
    };
    let infos: Vec<_> = MECHANISMS.into_iter().filter_map(credential).collect();
    if infos.is_empty() {
        let text = "Attempt to describe a user credential that does not exist: ";
        return refusal(user, ErrorCode::ResourceNotFound, text);
    }
    let user = user.into();
    DescribeUserScramCredentialsResult { user, credential_infos: infos, ..Default::default() }
}

fn repeated(user: &str) -> DescribeUserScramCredentialsResult {
    let text = "Cannot describe SCRAM credentials for the same user twice in a single request: ";
    refusal(user, ErrorCode::DuplicateResource, text)
}

fn refusal(user: &str, error: ErrorCode, text: &str) -> DescribeUserScramCredentialsResult {
    DescribeUserScramCredentialsResult {
        user: user.into(),
        error_code: error.code(),
        error_message: Some(Str::from(format!("{text}{user}"))),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::user_scram_credential_record::UserScramCredentialRecord;

    #[test]
    fn a_user_has_a_credential_for_each_mechanism() {
        let mut security = Security::default();
        for (mechanism, iterations) in [(1, 4096), (2, 8192)] {
            let record = UserScramCredentialRecord { iterations, ..Default::default() };
            security.scram.insert((mechanism, "ann".into()), Arc::new(record));
        }
        let infos = result(&security, &"ann".into()).credential_infos;
        let told: Vec<_> = infos.iter().map(|info| (info.mechanism, info.iterations)).collect();
        assert_eq!(told, [(1, 4096), (2, 8192)]);
        assert_eq!(result(&security, &"bob".into()).error_code, ErrorCode::ResourceNotFound.code());
        assert_eq!(repeated("ann").error_code, ErrorCode::DuplicateResource.code());
    }
}
