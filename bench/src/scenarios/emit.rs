//! The callers of the product: one event or many in a call, as fast as answers come or by the clock.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use posthaste_proto::v1::event_service_client::EventServiceClient;
use posthaste_proto::v1::{EmitBatchRequest, EmitRequest, EmitResponse};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::{Event, Sent};
use crate::clock::{Timetable, unix_us};
use crate::options::{Mode, Options};
use crate::stage::ACCOUNT;

/// The largest request and answer of a batch, in bytes: what the API takes, and room around it.
const MESSAGE_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Emits every event of the options and returns once all are accepted.
///
/// # Errors
/// When one isn't accepted, or goes to another number of endpoints than it should.
pub async fn emit(channel: &Channel, options: &Options, mode: Mode) -> Result<Sent> {
    let (size, callers) = match mode {
        Mode::Unary => (1, options.callers),
        Mode::Batched => (options.batch, options.batch_callers),
    };
    let next = Arc::new(AtomicU32::new(0));
    let timetable = Timetable::from_now(options.rate_per_s);
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let caller = Caller { channel: channel.clone(), options: options.clone(), mode, timetable };
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let mut sent = Sent::default();
            loop {
                let first = next.fetch_add(size, Ordering::Relaxed);
                let end = caller.options.events().min(first.saturating_add(size));
                if first >= end {
                    return Ok::<_, anyhow::Error>(sent);
                }
                caller.call(first..end, &mut sent).await?;
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

#[derive(Debug)]
struct Caller {
    channel: Channel,
    options: Options,
    mode: Mode,
    timetable: Timetable,
}

impl Caller {
    /// Makes one call for these events.
    async fn call(&self, numbers: Range<u32>, sent: &mut Sent) -> Result<()> {
        let requests: Vec<EmitRequest> = numbers.clone().map(|number| self.request(number)).collect();
        let start_us = self.timetable.due(numbers.start).await;
        let responses = self.answer(requests).await.with_context(|| format!("emitting the events {numbers:?}"))?;
        sent.answers_us.push(unix_us(SystemTime::now()) - start_us);
        ensure!(responses.len() == numbers.len(), "{} answers to the events {numbers:?}", responses.len());
        for (number, response) in numbers.zip(responses) {
            let count = response.delivery_count;
            ensure!(count == self.options.fan_out, "the event {number} has {count} deliveries");
            sent.events.push(Event { number, id: response.event_id, start_us });
        }
        Ok(())
    }

    fn request(&self, number: u32) -> EmitRequest {
        EmitRequest {
            account_id: ACCOUNT.to_owned(),
            r#type: self.options.event_type(number),
            payload: self.options.payload(number).into(),
            ..EmitRequest::default()
        }
    }

    async fn answer(&self, requests: Vec<EmitRequest>) -> Result<Vec<EmitResponse>> {
        let client = EventServiceClient::new(self.channel.clone());
        let mut client =
            client.max_encoding_message_size(MESSAGE_BYTES_MAX).max_decoding_message_size(MESSAGE_BYTES_MAX);
        match (self.mode, requests) {
            (Mode::Batched, events) => {
                let request = EmitBatchRequest { account_id: ACCOUNT.to_owned(), events };
                Ok(client.emit_batch(request).await?.into_inner().results)
            }
            (Mode::Unary, requests) => {
                let mut responses = Vec::with_capacity(requests.len());
                for request in requests {
                    responses.push(client.emit(request).await?.into_inner());
                }
                Ok(responses)
            }
        }
    }
}
