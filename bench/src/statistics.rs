//! What a backlog costs the database: how many updates of the queue stay within their page (HOT), how many bytes of WAL
//! and how many commits a delivery takes, all by the database's own statistics.
//!
//! The backlog is complete before the first agent comes, so that claims run against a full queue. The caller owns the
//! system: it starts the agents between [`Scenario::build_backlog`] and [`Scenario::drain`], and stops everything but
//! the database before [`Scenario::figures`], because a backend reports its statistics for certain only when it ends.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream;
use posthaste_proto::v1::account_service_client::AccountServiceClient;
use posthaste_proto::v1::emit_stream_response::Result as Emitted;
use posthaste_proto::v1::endpoint_service_client::EndpointServiceClient;
use posthaste_proto::v1::event_service_client::EventServiceClient;
use posthaste_proto::v1::{Account, CreateAccountRequest, CreateEndpointRequest, EmitRequest, Endpoint};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tonic::transport::Channel;

use crate::receiver::Receiver;

const ACCOUNT: &str = "bench";
/// Each takes one type of event, so that an event is one delivery.
const ENDPOINTS: usize = 16;
const IN_FLIGHT_MAX: u32 = 64;
/// As large as a small event of a real provider.
const PAYLOAD_BYTES: usize = 1_000;
/// A system that delivers less than this many a second has got stuck.
const SLOWEST_PER_S: usize = 20;
const POLL: Duration = Duration::from_millis(200);

/// A measurement under way.
#[derive(Debug)]
pub struct Scenario {
    channel: Channel,
    pool: PgPool,
    receiver: Receiver,
    deliveries: usize,
    start: Point,
    backlog: Point,
    end: Point,
    commits: i64,
}

/// A moment of the measurement.
#[derive(Debug, Clone, Copy)]
struct Point {
    time: Instant,
    wal_bytes: i64,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Deliveries that ended as delivered.
    pub deliveries: usize,
    /// Requests that came; more than the deliveries when some came twice.
    pub requests: usize,
    /// Updates of the queue's rows.
    pub updates: i64,
    /// Those of them that stayed within their page and touched no index.
    pub hot_updates: i64,
    /// WAL of the emits.
    pub emit_wal_bytes: i64,
    /// WAL of claims and settles.
    pub deliver_wal_bytes: i64,
    /// Commits of everything.
    pub commits: i64,
    /// How long the emits took.
    pub emit_time: Duration,
    /// How long it took from then until everything was delivered, the agents' start included.
    pub deliver_time: Duration,
}

impl Scenario {
    /// Makes account, endpoints and receiver for as many deliveries.
    ///
    /// # Errors
    /// When a call or the database fails.
    pub async fn start(channel: Channel, database_url: &str, deliveries: usize) -> Result<Self> {
        let pool =
            PgPoolOptions::new().max_connections(1).connect(database_url).await.context("opening the database")?;
        let receiver = Receiver::start(([127, 0, 0, 1], 0).into()).await.context("starting the receiver")?;
        let account = Account { account_id: ACCOUNT.to_owned(), ..Account::default() };
        AccountServiceClient::new(channel.clone())
            .create_account(CreateAccountRequest { account: Some(account) })
            .await
            .context("creating the account")?;
        for number in 0..ENDPOINTS {
            let endpoint = Endpoint {
                account_id: ACCOUNT.to_owned(),
                endpoint_id: format!("endpoint-{number}"),
                url: receiver.url(&format!("/{number}")),
                event_types: vec![event_type(number)],
                max_in_flight: Some(IN_FLIGHT_MAX),
                ..Endpoint::default()
            };
            let request = CreateEndpointRequest { endpoint: Some(endpoint), ..CreateEndpointRequest::default() };
            let created = EndpointServiceClient::new(channel.clone()).create_endpoint(request).await;
            created.context("creating an endpoint")?;
        }
        let start = point(&pool).await?;
        let commits = commits(&pool).await?;
        Ok(Self { channel, pool, receiver, deliveries, start, backlog: start, end: start, commits })
    }

    /// Emits everything over one stream.
    ///
    /// # Errors
    /// When one event isn't accepted.
    pub async fn build_backlog(&mut self) -> Result<()> {
        let payload = format!("{{\"filler\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 13));
        let events = (0..self.deliveries).map(move |number| EmitRequest {
            account_id: ACCOUNT.to_owned(),
            r#type: event_type(number % ENDPOINTS),
            payload: payload.clone().into(),
            ..EmitRequest::default()
        });
        let mut client = EventServiceClient::new(self.channel.clone());
        let mut answers = client.emit_stream(stream::iter(events)).await.context("emitting")?.into_inner();
        let mut emitted = 0;
        while let Some(answer) = answers.message().await.context("emitting")? {
            match answer.result {
                Some(Emitted::Emitted(response)) => {
                    ensure!(response.delivery_count == 1, "an event has {} deliveries", response.delivery_count);
                    emitted += 1;
                }
                Some(Emitted::Error(status)) => anyhow::bail!("event {}: {}", answer.index, status.message),
                None => anyhow::bail!("event {}: an answer without a result", answer.index),
            }
        }
        ensure!(emitted == self.deliveries, "{emitted} of {} events were accepted", self.deliveries);
        self.backlog = point(&self.pool).await?;
        Ok(())
    }

    /// Waits until everything is delivered and settled.
    ///
    /// # Errors
    /// When it takes too long, or the database fails.
    pub async fn drain(&mut self) -> Result<()> {
        let limit = Duration::from_secs(60 + (self.deliveries / SLOWEST_PER_S) as u64);
        self.receiver.wait_until(limit, |received| received.len() >= self.deliveries).await?;
        let deadline = Instant::now() + limit;
        let queued = "/* bench_queued */ SELECT EXISTS (SELECT FROM posthaste.queue)";
        while sqlx::query_scalar::<_, bool>(queued).fetch_one(&self.pool).await? {
            ensure!(Instant::now() < deadline, "deliveries are left over");
            tokio::time::sleep(POLL).await;
        }
        self.end = point(&self.pool).await?;
        Ok(())
    }

    /// Reads the statistics, once every other client of the database has gone.
    ///
    /// # Errors
    /// When the database fails, or something did not end as delivered.
    pub async fn figures(self) -> Result<Figures> {
        let delivered = "/* bench_delivered */ SELECT count(*) FROM posthaste.attempt WHERE terminal
                         AND verdict = 'succeeded'";
        let delivered: i64 = sqlx::query_scalar(delivered).fetch_one(&self.pool).await?;
        let deliveries = usize::try_from(delivered)?;
        ensure!(deliveries == self.deliveries, "{deliveries} of {} deliveries were delivered", self.deliveries);
        let updates = "/* bench_updates */ SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
                       WHERE schemaname = 'posthaste' AND relname = 'queue'";
        let (updates, hot_updates): (i64, i64) = sqlx::query_as(updates).fetch_one(&self.pool).await?;
        Ok(Figures {
            deliveries,
            requests: self.receiver.received().len(),
            updates,
            hot_updates,
            emit_wal_bytes: self.backlog.wal_bytes - self.start.wal_bytes,
            deliver_wal_bytes: self.end.wal_bytes - self.backlog.wal_bytes,
            commits: commits(&self.pool).await? - self.commits,
            emit_time: self.backlog.time - self.start.time,
            deliver_time: self.end.time - self.backlog.time,
        })
    }
}

fn event_type(number: usize) -> String {
    format!("bench.{number}")
}

async fn point(pool: &PgPool) -> Result<Point> {
    let wal = "/* bench_wal */ SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
    let wal_bytes = sqlx::query_scalar(wal).fetch_one(pool).await?;
    Ok(Point { time: Instant::now(), wal_bytes })
}

async fn commits(pool: &PgPool) -> Result<i64> {
    let commits = "/* bench_commits */ SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    Ok(sqlx::query_scalar(commits).fetch_one(pool).await?)
}

impl Figures {
    /// The share of the queue's updates that were HOT, in percent.
    pub fn hot_percent(&self) -> f64 {
        100.0 * self.hot_updates as f64 / self.updates.max(1) as f64
    }

    fn each(&self, total: i64) -> f64 {
        total as f64 / self.deliveries.max(1) as f64
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_s = |time: Duration| self.deliveries as f64 / time.as_secs_f64().max(f64::EPSILON);
        let (emit, deliver) = (self.emit_wal_bytes, self.deliver_wal_bytes);
        writeln!(f, "deliveries           {} ({} requests)", self.deliveries, self.requests)?;
        writeln!(f, "HOT updates of queue {:.2} % ({} of {})", self.hot_percent(), self.hot_updates, self.updates)?;
        writeln!(
            f,
            "WAL per delivery     {:.0} bytes (emit {:.0}, deliver {:.0})",
            self.each(emit + deliver),
            self.each(emit),
            self.each(deliver)
        )?;
        writeln!(f, "commits per delivery {:.4} ({})", self.each(self.commits), self.commits)?;
        writeln!(f, "emit                 {:.2?}, {:.0}/s", self.emit_time, per_s(self.emit_time))?;
        write!(f, "deliver              {:.2?}, {:.0}/s", self.deliver_time, per_s(self.deliver_time))
    }
}
