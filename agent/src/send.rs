//! One attempt: from the right to start it to what it met. Every item ends as exactly one report or one return.

mod answer;
mod failure;
mod payload;

use std::{sync::Arc, time::Duration};

use http::{Method, Request, Uri};
use hyper_util::client::legacy::connect::capture_connection;
use posthaste_domain::{address::Refusal, attempt::Outcome, time::UnixMicros};
use tokio::time::timeout_at;

pub(crate) use self::payload::Payload;
use crate::{
    admit::{Closed, Rates, Reason},
    clock::Clock,
    guard::{Guard, TRACE, Trace},
    intake::{Item, Ready},
    report::{Facts, Report},
    sign,
};

/// How an item ends.
#[derive(Debug)]
pub(crate) enum Ended {
    /// An attempt was made, or refused for good.
    Report(Box<Report>),
    /// Nothing was attempted.
    Return(Reason),
}

/// Makes attempts.
#[derive(Debug)]
pub(crate) struct Sender {
    clock: Clock,
    guard: Guard,
    rates: Rates,
}

impl Sender {
    /// A sender whose requests go where the guard lets them.
    pub(crate) fn new(clock: Clock, guard: Guard) -> Self {
        Self { clock, guard, rates: Rates::default() }
    }

    /// Makes the attempt, unless its gate closes before it starts.
    pub(crate) async fn send(&self, item: &Item) -> Ended {
        let attempt = Box::pin(self.attempt(item));
        let ended = tokio::select! {
            reason = item.gate.closed() => return Ended::Return(reason),
            ended = attempt => ended,
        };
        match ended {
            Ok(report) => Ended::Report(Box::new(report)),
            Err(Back::RefusedStream) => Ended::Return(Reason::RefusedStream),
            // Whoever closed the gate left the reason there.
            Err(Back::Closed) => Ended::Return(item.gate.closed().await),
        }
    }

    async fn attempt(&self, item: &Item) -> Result<Report, Back> {
        if let Some(rate) = item.endpoint.rate
            && self.rates.wait(item.endpoint.account, rate, &self.clock, item.gate.start_by()).await.is_err()
        {
            item.gate.close(Reason::Late);
        }
        item.gate.check()?;
        // Only now: what waited for its turn is neither signed too early nor counted as slow.
        let (start, wall) = (self.clock.now(), self.clock.wall());
        let facts = self.meet(item, wall).await?;
        let duration = self.clock.now().since(start);
        Ok(Report { key: item.key, number: item.number, start: wall, duration, facts })
    }

    /// What the attempt meets. `wall` is when it starts.
    async fn meet(&self, item: &Item, wall: UnixMicros) -> Result<Facts, Back> {
        let Prepared { ready, trace, mut request } = match self.prepare(item, wall) {
            Ok(prepared) => prepared,
            Err(facts) => {
                item.gate.end()?;
                return Ok(*facts);
            }
        };
        trace.capture(capture_connection(&mut request));
        let deadline = tokio::time::Instant::now() + ready.timeout;
        let executing = TRACE.scope(trace.clone(), self.guard.request(request));
        let facts = match timeout_at(deadline, executing).await {
            Ok(Ok(response)) => {
                trace.answered();
                item.gate.end()?;
                answer::read(response, &trace, deadline, ready.response_body_bytes).await
            }
            Ok(Err(error)) => {
                item.gate.end()?;
                failure::classify(&error, &trace).ok_or(Back::RefusedStream)?
            }
            Err(_) => {
                item.gate.end()?;
                let detail = format!("no answer within {} ms", ready.timeout.as_millis());
                Facts { reached: Some(trace.reached()), ..Facts::failed(Outcome::Timeout, detail) }
            }
        };
        Ok(Facts { remote: trace.remote(), timings: trace.timings(), ..facts })
    }

    /// Everything that can be refused before a byte is sent.
    fn prepare<'a>(&self, item: &'a Item, wall: UnixMicros) -> Result<Prepared<'a>, Box<Facts>> {
        let config = |problem: String| Box::new(Facts::failed(Outcome::RefusedConfig, problem));
        sign::check_payload(&item.content)
            .map_err(|error| Box::new(Facts::failed(Outcome::RefusedPayload, error.to_string())))?;
        let ready = item.endpoint.ready.as_ref().map_err(|problem| config(problem.to_string()))?;
        let url = self.guard.check_url(&ready.url).map_err(|refusal| Box::new(refused_address(&refusal)))?;
        let headers = sign::headers(item, ready, wall.seconds()).map_err(|problem| config(problem.to_string()))?;
        let uri = Uri::try_from(url.as_str()).map_err(|error| config(format!("the URL can't be sent: {error}")))?;
        let named = url.domain().is_some();
        let trace = Trace::new(item.gate.clone(), self.clock.clone(), named, url.scheme() == "https");
        let trace = Arc::new(trace);
        let mut request = Request::new(Payload::new(item.content.payload.clone(), trace.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        *request.extensions_mut() = ready.spelling.clone();
        Ok(Prepared { ready, trace, request })
    }
}

/// A request that may be sent.
struct Prepared<'a> {
    ready: &'a Ready,
    trace: Arc<Trace>,
    request: Request<Payload>,
}

/// Why there is no report.
enum Back {
    Closed,
    RefusedStream,
}

impl From<Closed> for Back {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

fn refused_address(refusal: &Refusal) -> Facts {
    let rule = refusal.rule.as_str();
    Facts { rule: Some(rule), ..Facts::failed(Outcome::RefusedAddress, refusal.to_string()) }
}

/// How long after the head a body may take.
const BODY_AFTER_HEAD_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
