//! The naive pipe: what many write first, and reasonably fast. Rows of one table are inserted in batches, claimed in
//! batches with `FOR UPDATE SKIP LOCKED`, sent, and completed in batches. There are no leases, no attempts, no limits
//! of rate or room by endpoint, no retries: a claimed row whose process dies is lost, and a slow endpoint holds up all.

mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use futures::future;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::bare_loop::event_id;
use crate::clock::{Timetable, unix_us};
use crate::options::Options;
use crate::scenarios::{Event, Sent};
use crate::sender::Sender;
use store::{Claimed, Row, Store};

/// How long nothing is looked for after nothing was found.
const IDLE: Duration = Duration::from_millis(2);

/// The pipe, with its empty table.
#[derive(Debug, Clone)]
pub(crate) struct Pipe {
    store: Store,
    options: Options,
}

impl Pipe {
    /// Makes the table in an empty database.
    pub(crate) async fn prepare(database_url: &str, options: &Options) -> Result<Self> {
        Ok(Self { store: Store::prepare(database_url).await?, options: options.clone() })
    }

    /// Inserts every event: in batches, or one by one when they come by the clock.
    pub(crate) async fn insert(&self) -> Result<Sent> {
        let (size, callers) = match self.options.rate_per_s {
            Some(_) => (1, self.options.callers),
            None => (self.options.batch, self.options.batch_callers),
        };
        let next = AtomicU32::new(0);
        let timetable = Timetable::from_now(self.options.rate_per_s);
        let inserters = (0..callers).map(|_| self.insert_batches(&next, size, timetable));
        let mut all = Sent::default();
        for sent in future::try_join_all(inserters).await? {
            all.append(sent);
        }
        all.took_us = timetable.elapsed_us();
        Ok(all)
    }

    async fn insert_batches(&self, next: &AtomicU32, size: u32, timetable: Timetable) -> Result<Sent> {
        let mut sent = Sent::default();
        loop {
            let first = next.fetch_add(size, Ordering::Relaxed);
            let end = self.options.events().min(first.saturating_add(size));
            if first >= end {
                return Ok(sent);
            }
            let rows: Vec<Row> = (first..end).flat_map(|event| self.rows(event)).collect();
            let start_us = timetable.due(first).await;
            self.store.insert(rows).await?;
            sent.answers_us.push(unix_us(SystemTime::now()) - start_us);
            sent.events.extend((first..end).map(|number| Event { number, id: event_id(number), start_us }));
        }
    }

    fn rows(&self, event: u32) -> impl Iterator<Item = Row> + use<> {
        let body = self.options.payload(event);
        self.options.places(event).map(move |place| Row { event_id: event_id(event), place, body: body.clone() })
    }

    /// Sends until every delivery is completed.
    pub(crate) async fn deliver(&self, sender: &Sender) -> Result<()> {
        let batch = self.options.batch as usize;
        let (claimed, waiting) = mpsc::channel(2 * batch);
        let (done, finished) = mpsc::channel(2 * batch);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut senders = JoinSet::new();
        for _ in 0..self.options.in_flight_max() {
            senders.spawn(send(sender.clone(), Arc::clone(&waiting), done.clone()));
        }
        drop(done);
        let sending = async {
            while let Some(sent) = senders.join_next().await {
                sent??;
            }
            Ok(())
        };
        tokio::try_join!(self.claim(claimed), sending, self.complete(finished))?;
        Ok(())
    }

    /// Claims ahead of the senders, by as much as the channel holds.
    async fn claim(&self, claimed: mpsc::Sender<Claimed>) -> Result<()> {
        let mut left = self.options.deliveries as usize;
        while left > 0 {
            let rows = self.store.claim(self.options.batch).await?;
            if rows.is_empty() {
                tokio::time::sleep(IDLE).await;
            }
            left = left.saturating_sub(rows.len());
            for row in rows {
                claimed.send(row).await.context("the senders are gone")?;
            }
        }
        Ok(())
    }

    /// Completes whatever has been sent since it last did.
    async fn complete(&self, mut finished: mpsc::Receiver<i64>) -> Result<()> {
        let mut ids = Vec::new();
        while finished.recv_many(&mut ids, self.options.batch as usize).await > 0 {
            self.store.complete(&ids).await?;
            ids.clear();
        }
        Ok(())
    }
}

async fn send(sender: Sender, waiting: Arc<Mutex<mpsc::Receiver<Claimed>>>, done: mpsc::Sender<i64>) -> Result<()> {
    loop {
        // A statement of its own, so that the lock is not held while sending.
        let next = waiting.lock().await.recv().await;
        let Some(Claimed { id, event_id, place, body }) = next else { return Ok(()) };
        sender.post(place, &event_id, body.into()).await?;
        done.send(id).await.context("nobody completes")?;
    }
}
