//! The naive pipe's one table.

use anyhow::{Context, Result};
use sqlx::postgres::{PgPool, PgPoolOptions};

/// As the control plane's pool.
const CONNECTIONS_MAX: u32 = 16;

const SCHEMA: &str = "
    /* pipe_schema */ CREATE SCHEMA pipe;
    CREATE TABLE pipe.delivery (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        event_id text NOT NULL,
        place int NOT NULL,
        body bytea NOT NULL,
        state text NOT NULL DEFAULT 'waiting',
        create_time timestamptz NOT NULL DEFAULT now(),
        claim_time timestamptz,
        end_time timestamptz
    );
    CREATE INDEX delivery_waiting ON pipe.delivery (id) WHERE state = 'waiting';
";

/// The table.
#[derive(Debug, Clone)]
pub(super) struct Store(PgPool);

/// A delivery to insert.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) event_id: String,
    pub(super) place: u32,
    pub(super) body: Vec<u8>,
}

/// A delivery to send.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) id: i64,
    pub(super) event_id: String,
    pub(super) place: u32,
    pub(super) body: Vec<u8>,
}

impl Store {
    /// Makes the table.
    pub(super) async fn prepare(url: &str) -> Result<Self> {
        let options = PgPoolOptions::new().max_connections(CONNECTIONS_MAX);
        let pool = options.connect(url).await.context("opening the pipe's database")?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await.context("making the pipe's table")?;
        Ok(Self(pool))
    }

    /// Inserts these rows in one statement.
    pub(super) async fn insert(&self, rows: Vec<Row>) -> Result<()> {
        let insert = "/* pipe_insert */ INSERT INTO pipe.delivery (event_id, place, body)
                      SELECT * FROM unnest($1::text[], $2::int[], $3::bytea[])";
        let (mut ids, mut places, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            ids.push(row.event_id);
            places.push(i32::try_from(row.place)?);
            bodies.push(row.body);
        }
        sqlx::query(insert).bind(ids).bind(places).bind(bodies).execute(&self.0).await.context("inserting")?;
        Ok(())
    }

    /// Claims the oldest that nobody has, at most `limit`.
    pub(super) async fn claim(&self, limit: u32) -> Result<Vec<Claimed>> {
        let claim = "/* pipe_claim */ UPDATE pipe.delivery SET state = 'claimed', claim_time = now()
                     WHERE id = ANY (ARRAY(
                         SELECT id FROM pipe.delivery WHERE state = 'waiting' ORDER BY id LIMIT $1
                         FOR UPDATE SKIP LOCKED))
                     RETURNING id, event_id, place, body";
        let query = sqlx::query_as::<_, (i64, String, i32, Vec<u8>)>(claim).bind(i64::from(limit));
        let rows = query.fetch_all(&self.0).await.context("claiming")?;
        let claimed = rows
            .into_iter()
            .map(|(id, event_id, place, body)| Ok(Claimed { id, event_id, place: u32::try_from(place)?, body }));
        claimed.collect()
    }

    /// Notes that these were answered.
    pub(super) async fn complete(&self, ids: &[i64]) -> Result<()> {
        let complete = "/* pipe_complete */ UPDATE pipe.delivery SET state = 'delivered', end_time = now()
                        WHERE id = ANY ($1)";
        sqlx::query(complete).bind(ids).execute(&self.0).await.context("completing")?;
        Ok(())
    }
}
