//! The baseline that nobody can beat: the same signed requests by the same client to the same receiver, with nothing
//! before them and nothing remembered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::clock::Timetable;
use crate::options::Options;
use crate::scenarios::{Event, Sent};
use crate::sender::Sender;

/// Posts every delivery, as many at a time as the product may, and returns when all are answered.
pub(crate) async fn run(options: &Options, sender: &Sender) -> Result<Sent> {
    let next = Arc::new(AtomicU32::new(0));
    let timetable = Timetable::from_now(options.rate_per_s);
    let mut tasks = JoinSet::new();
    for _ in 0..options.in_flight_max() {
        let (options, sender, next) = (options.clone(), sender.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut sent = Sent::default();
            loop {
                let delivery = next.fetch_add(1, Ordering::Relaxed);
                if delivery >= options.deliveries {
                    return Ok::<_, anyhow::Error>(sent);
                }
                let (event, copy) = (delivery / options.fan_out, delivery % options.fan_out);
                let start_us = timetable.due(event).await;
                let id = event_id(event);
                sender.post(options.places(event).start + copy, &id, options.payload(event).into()).await?;
                if copy == 0 {
                    sent.events.push(Event { number: event, id, start_us });
                }
            }
        });
    }
    let mut all = Sent::default();
    while let Some(sent) = tasks.join_next().await {
        all.append(sent??);
    }
    all.took_us = timetable.elapsed_us();
    Ok(all)
}

/// As long as one of the product's.
pub(crate) fn event_id(event: u32) -> String {
    format!("evt_{event:032x}")
}
