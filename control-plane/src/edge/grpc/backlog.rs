//! What waits, and why: one snapshot of the database, judged by the owner's memory.

use std::collections::BTreeMap;

use posthaste_domain::time::UnixMicros;
use posthaste_proto::{
    convert::{backlog::backlog_name, time::timestamp_to_wire},
    v1,
};

use super::{Edge, error::ApiError};
use crate::store::backlog::{BacklogClass, LOOKED_AT_MAX};

/// Endpoints that are named.
const ENDPOINTS_MAX: usize = 10;

/// Some of the deliveries that are counted.
struct Group {
    count: u64,
    oldest: UnixMicros,
    earliest: Option<UnixMicros>,
}

impl Group {
    fn add(&mut self, class: &BacklogClass, earliest: Option<UnixMicros>) {
        self.count += class.count;
        self.oldest = self.oldest.min(class.oldest.due);
        self.earliest = self.earliest.into_iter().chain(earliest).min();
    }

    fn none() -> Self {
        Self { count: 0, oldest: UnixMicros::new(i64::MAX), earliest: None }
    }
}

pub(super) async fn read(edge: &Edge, request: &v1::GetBacklogRequest) -> Result<v1::Backlog, ApiError> {
    let (account_id, endpoint_id) = backlog_name(request).map_err(ApiError::InvalidFields)?;
    let account = edge.store.get_account(&account_id).await?.ok_or(ApiError::AccountNotFound)?;
    let endpoints = match &endpoint_id {
        None => None,
        Some(id) => Some(edge.store.endpoint_numbers(account.number, id).await?),
    };
    if let (Some(numbers), Some(id)) = (&endpoints, &endpoint_id)
        && numbers.is_empty()
    {
        return Err(ApiError::EndpointNotFound { endpoint_id: id.as_str().to_owned() });
    }
    let rate = account.settings.rate;
    let snapshot = edge.store.backlog((account.number, account.shard), endpoints.as_deref(), rate).await?;
    let (mut reasons, mut places) = (BTreeMap::new(), BTreeMap::new());
    let (mut count, mut too_slow) = (0, 0);
    for class in &snapshot.classes {
        let wait = edge.waiting.why(class.endpoint, class.oldest);
        reasons.entry(i32::from(wait.reason)).or_insert_with(Group::none).add(class, wait.earliest_time);
        places.entry(class.endpoint_id.as_str()).or_insert_with(Group::none).add(class, None);
        count += class.count;
        too_slow += class.too_slow;
    }
    let mut places: Vec<(&str, Group)> = places.into_iter().collect();
    places.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    Ok(v1::Backlog {
        account_id: account_id.as_str().to_owned(),
        endpoint_id: endpoint_id.map(|id| id.as_str().to_owned()).unwrap_or_default(),
        count,
        at_least: count > LOOKED_AT_MAX,
        reasons: reasons.into_iter().map(reason_to_wire).collect(),
        endpoints: places.into_iter().take(ENDPOINTS_MAX).map(endpoint_to_wire).collect(),
        too_slow_count: too_slow,
        warning: if too_slow == 0 { String::new() } else { warning(too_slow) },
        read_time: snapshot.database_now.map(timestamp_to_wire),
    })
}

/// What the customer reads; whoever operates this hears of it by `upkeep`.
fn warning(too_slow: u64) -> String {
    format!(
        "{too_slow} of these expire before the rate limits can have let them start: raise `rate_per_second` of the account or \
         of its endpoints, or emit fewer events."
    )
}

fn reason_to_wire((reason, group): (i32, Group)) -> v1::BacklogReason {
    v1::BacklogReason {
        reason,
        count: group.count,
        oldest_due_time: Some(timestamp_to_wire(group.oldest)),
        earliest_time: group.earliest.map(timestamp_to_wire),
    }
}

fn endpoint_to_wire((endpoint_id, group): (&str, Group)) -> v1::BacklogEndpoint {
    v1::BacklogEndpoint {
        endpoint_id: endpoint_id.to_owned(),
        count: group.count,
        oldest_due_time: Some(timestamp_to_wire(group.oldest)),
    }
}
