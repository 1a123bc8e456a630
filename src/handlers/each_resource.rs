//! What both requests that change settings do with their resources.

use std::future::Future;

use super::RequestContext;
use super::alteration::named_twice;
use super::once::Named;
use crate::controller::{ApiError, Results};
use crate::protocol::{ErrorCode, Str};

/// Makes a command of each resource, asks the controller about those that could be
/// made, and gives the results in the order of the resources. One that is named
/// twice is refused both times.
pub async fn each_resource<R, C, A>(
    context: &RequestContext<'_>,
    resources: &[R],
    name: impl Fn(&R) -> (i8, Str),
    command: impl Fn(&R) -> Result<C, ApiError>,
    ask: impl FnOnce(Vec<C>) -> A,
) -> Results<()>
where
    A: Future<Output = Result<Results<()>, ApiError>>,
{
    let names: Named<_> = resources.iter().map(&name).collect();
    let mut wanted = Vec::new();
    let make = |resource| {
        if names.is_repeated(&name(resource)) {
            return Err(named_twice());
        }
        wanted.push(command(resource)?);
        Ok(())
    };
    let made: Results<()> = resources.iter().map(make).collect();
    let count = wanted.len();
    let answers = if count == 0 { Ok(Vec::new()) } else { ask(wanted).await };
    let answers = match answers {
        Ok(results) => {
            context.caught_up().await;
            results
        }
        Err(error) => vec![Err(error); count],
    };
    let mut answers = answers.into_iter();
    let unanswered = || Err(ApiError::bare(ErrorCode::UnknownServerError));
    let each =
        made.into_iter().map(|made| made.and_then(|()| answers.next().unwrap_or_else(unanswered)));
    each.collect()
}
