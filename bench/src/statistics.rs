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
use posthaste_proto::v1::EmitRequest;
use posthaste_proto::v1::emit_stream_response::Result as Emitted;
use posthaste_proto::v1::event_service_client::EventServiceClient;
use tonic::transport::Channel;

use crate::database::{Counters, Database, Table};
use crate::receiver::Receiver;
use crate::stage::{self, ACCOUNT, Place};

/// Each takes one type of event, so that an event is one delivery.
const ENDPOINTS: usize = 16;
const IN_FLIGHT_MAX: u32 = 64;
/// As large as a small event of a real provider.
const PAYLOAD_BYTES: usize = 1_000;
/// A system that delivers less than this many a second has got stuck.
const SLOWEST_PER_S: usize = 20;

/// A measurement under way.
#[derive(Debug)]
pub struct Scenario {
    channel: Channel,
    database: Database,
    receiver: Receiver,
    deliveries: usize,
    start: Point,
    backlog: Point,
    end: Point,
    counters: Counters,
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
        let database = Database::open(database_url).await?;
        let receiver = Receiver::start(([127, 0, 0, 1], 0).into()).await.context("starting the receiver")?;
        let places = (0..ENDPOINTS).map(|number| Place {
            url: receiver.url(&format!("/{number}")),
            event_type: event_type(number),
            room: IN_FLIGHT_MAX,
        });
        stage::set(&channel, places).await?;
        let start = point(&database).await?;
        let counters = database.counters(Table::QUEUE).await?;
        Ok(Self { channel, database, receiver, deliveries, start, backlog: start, end: start, counters })
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
        self.backlog = point(&self.database).await?;
        Ok(())
    }

    /// Waits until everything is delivered and settled.
    ///
    /// # Errors
    /// When it takes too long, or the database fails.
    pub async fn drain(&mut self) -> Result<()> {
        let limit = Duration::from_secs(60 + (self.deliveries / SLOWEST_PER_S) as u64);
        self.receiver.wait_until(limit, |received| received.len() >= self.deliveries).await?;
        self.database.wait_settled(limit).await?;
        self.end = point(&self.database).await?;
        Ok(())
    }

    /// Reads the statistics, once every other client of the database has gone.
    ///
    /// # Errors
    /// When the database fails, or something did not end as delivered.
    pub async fn figures(self) -> Result<Figures> {
        let deliveries = self.database.delivered().await?;
        ensure!(deliveries == self.deliveries, "{deliveries} of {} deliveries were delivered", self.deliveries);
        let counted = self.database.counters(Table::QUEUE).await?.since(self.counters);
        Ok(Figures {
            deliveries,
            requests: self.receiver.received().len(),
            updates: counted.updates,
            hot_updates: counted.hot_updates,
            emit_wal_bytes: self.backlog.wal_bytes - self.start.wal_bytes,
            deliver_wal_bytes: self.end.wal_bytes - self.backlog.wal_bytes,
            commits: counted.commits,
            emit_time: self.backlog.time - self.start.time,
            deliver_time: self.end.time - self.backlog.time,
        })
    }
}

fn event_type(number: usize) -> String {
    format!("bench.{number}")
}

async fn point(database: &Database) -> Result<Point> {
    Ok(Point { wal_bytes: database.wal_bytes().await?, time: Instant::now() })
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
