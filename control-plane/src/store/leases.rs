//! Leases: renewed while they live and their agent holds them, adopted by who takes their shards, ended when they expire.

use std::time::Duration;

use posthaste_domain::{
    id::{DeliveryId, LeaseId, Shard},
    lease::{LONE_LOSSES_MAX, RESCUE_WAIT_MAX, TTL_DEFAULT, rescue_wait},
};
use sqlx::Row;
use uuid::Uuid;

use super::{
    Store, StoreError, repeated,
    rows::{delivery, millis, whole},
};

/// How long the expired leases of a dead replica are left to whoever takes its shards: 14 s. A replica is known to be dead
/// later than its leases expire.
const TAKEOVER_GRACE: Duration = TTL_DEFAULT.saturating_add(Duration::from_secs(5));

/// What a rescue did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// The leases that are gone.
    pub leases: Vec<LeaseId>,
    /// Deliveries that counted as lost.
    pub lost: u64,
}

/// A lease of a former owner of the shard.
#[derive(Clone, Debug)]
pub struct LivingLease {
    /// Its id.
    pub lease: LeaseId,
    /// Who has it.
    pub agent_id: String,
    /// Which process of that name.
    pub incarnation: i64,
    /// What it was for; some of it may have ended.
    pub deliveries: Vec<DeliveryId>,
}

impl Store {
    /// Gives living leases a fresh ttl, never beyond their limit, if they belong to the agent and the incarnation beside
    /// them; answers which were renewed.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn renew(&self, held: &[(LeaseId, &str, i64)], ttl: Duration) -> Result<Vec<LeaseId>, StoreError> {
        let ids: Vec<i64> = held.iter().map(|(lease, _, _)| lease.get()).collect();
        let agents: Vec<&str> = held.iter().map(|(_, agent_id, _)| *agent_id).collect();
        let incarnations: Vec<i64> = held.iter().map(|(_, _, incarnation)| *incarnation).collect();
        let renewed = repeated(|| {
            sqlx::query_scalar::<_, i64>(
                "/* renew */ WITH locked AS MATERIALIZED (
                    SELECT lease_id FROM lease l WHERE lease_id = ANY ($1) AND expire_time > now() AND EXISTS (
                        SELECT FROM unnest($1::bigint[], $3::text[], $4::bigint[]) AS h (lease_id, agent_id, incarnation)
                        WHERE h.lease_id = l.lease_id AND h.agent_id = l.agent_id AND h.incarnation = l.incarnation
                    )
                    ORDER BY lease_id FOR UPDATE
                 )
                 UPDATE lease l SET expire_time =
                    greatest(l.expire_time, least(l.limit_time, t.now + make_interval(secs => $2 / 1000.0)))
                 FROM locked CROSS JOIN (SELECT now() AS now) t
                 WHERE l.lease_id = locked.lease_id AND l.expire_time > t.now RETURNING l.lease_id",
            )
            .bind(&ids)
            .bind(millis(ttl))
            .bind(&agents)
            .bind(&incarnations)
            .fetch_all(self.pool())
        })
        .await?;
        Ok(renewed.into_iter().filter_map(|id| LeaseId::new(id).ok()).collect())
    }

    /// Ends at most `limit` expired leases; those of a dead replica only after whoever takes its shards had the time to
    /// adopt them. Empty when there are none.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn rescue(&self, limit: i64) -> Result<Rescued, StoreError> {
        self.end_leases(None, 0, limit).await
    }

    /// Ends the leases of one process of an agent that is surely gone.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn free(&self, agent_id: &str, incarnation: i64) -> Result<Rescued, StoreError> {
        self.end_leases(Some(agent_id), incarnation, i64::from(i32::MAX)).await
    }

    async fn end_leases(&self, agent_id: Option<&str>, incarnation: i64, limit: i64) -> Result<Rescued, StoreError> {
        let waits = rescue_waits_ms();
        let row = repeated(|| {
            sqlx::query(include_str!("queries/rescue.sql"))
                .bind(agent_id)
                .bind(incarnation)
                .bind(limit)
                .bind(&waits)
                .bind(whole(LONE_LOSSES_MAX))
                .bind(millis(TAKEOVER_GRACE))
                .fetch_one(self.pool())
        })
        .await?;
        let leases: Option<Vec<i64>> = row.try_get("leases")?;
        let leases = leases.unwrap_or_default().into_iter().filter_map(|id| LeaseId::new(id).ok());
        let lost: i64 = row.try_get("lost")?;
        Ok(Rescued { leases: leases.collect(), lost: lost.unsigned_abs() })
    }

    /// Gives every lease that holds deliveries of these shards and that nobody has ended one fresh ttl, never beyond its
    /// limit; from now on it is `replica`'s. For whoever took the shards: the agents may still be at work.
    ///
    /// # Errors
    /// When the database fails; the call may be repeated.
    pub async fn adopt(&self, replica: &str, shards: &[Shard], ttl: Duration) -> Result<Vec<LivingLease>, StoreError> {
        let shards: Vec<i16> = shards.iter().copied().map(i16::from).collect();
        let rows = repeated(|| {
            sqlx::query(
                "/* adopt */ WITH locked AS MATERIALIZED (
                    SELECT lease_id FROM lease WHERE shards && $2 AND limit_time > now() ORDER BY lease_id FOR UPDATE
                 )
                 UPDATE lease l SET replica_id = $1, expire_time =
                    greatest(l.expire_time, least(l.limit_time, t.now + make_interval(secs => $3 / 1000.0)))
                 FROM locked CROSS JOIN (SELECT now() AS now) t
                 WHERE l.lease_id = locked.lease_id
                 RETURNING l.lease_id, l.agent_id, l.incarnation, l.delivery_ids",
            )
            .bind(replica)
            .bind(&shards)
            .bind(millis(ttl))
            .fetch_all(self.pool())
        })
        .await?;
        let mut leases = Vec::with_capacity(rows.len());
        for row in rows {
            let Ok(lease) = LeaseId::new(row.try_get("lease_id")?) else { continue };
            let ids: Vec<Uuid> = row.try_get("delivery_ids")?;
            leases.push(LivingLease {
                lease,
                agent_id: row.try_get("agent_id")?,
                incarnation: row.try_get("incarnation")?,
                deliveries: ids.into_iter().map(delivery).collect::<Result<_, _>>()?,
            });
        }
        Ok(leases)
    }
}

/// The wait after each loss, from the first, until it no longer grows.
fn rescue_waits_ms() -> Vec<i64> {
    let mut waits = Vec::new();
    for losses in 1.. {
        let wait = rescue_wait(losses);
        waits.push(millis(wait));
        if wait >= RESCUE_WAIT_MAX {
            break;
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_waits_of_the_statement_are_those_of_the_rules() {
        let waits = super::rescue_waits_ms();
        assert_eq!(waits[..4], [0, 5_000, 30_000, 60_000]);
        assert_eq!(waits.last(), Some(&900_000));
    }
}
