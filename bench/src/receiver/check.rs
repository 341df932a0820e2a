//! What a receiver can hold a sender of Standard Webhooks to, request by request, and the sum of it.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::SystemTime;

use posthaste_domain::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE_DEFAULT};
use serde::Serialize;

use super::{Received, Signature};

/// Header with the number of the attempt, from 1. Posthaste's own: a request without it is fine.
const ATTEMPT_HEADER: &str = "webhook-attempt";

/// Events and bodies that are remembered; the oldest are forgotten.
const REMEMBERED_MAX: usize = 100_000;

/// What was found in one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The number of the attempt as its header says it.
    pub attempt: Option<u32>,
    /// What came of verifying it.
    pub signature: Mark,
    /// Arrival minus `webhook-timestamp`, in seconds; none when that isn't a number.
    pub skew_s: Option<i64>,
    /// The same event came to this path before and was answered with 2xx: the sender never learned it.
    pub duplicate: bool,
    /// What a sender must not do; empty when all is well.
    pub problems: Vec<String>,
}

/// What came of verifying a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// One of the path's secrets signed it.
    Ok,
    /// It has a signature, and that doesn't hold.
    Bad,
    /// It has none.
    Missing,
    /// It has one, and the path has no secret.
    Unchecked,
}

/// The sum over all requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many came.
    pub requests: usize,
    /// How many different `webhook-id`s.
    pub distinct_ids: usize,
    /// Requests for an event that their path had answered with 2xx before.
    pub duplicates: usize,
    /// Signatures that don't hold, and requests without one.
    pub bad_signatures: usize,
    /// Signatures that nobody could check.
    pub unchecked_signatures: usize,
    /// Requests with a problem of any kind.
    pub failed: usize,
}

/// All checks, with what they remember of earlier requests.
#[derive(Debug, Default)]
pub struct Checks {
    summary: Summary,
    /// By event, whatever its path.
    ids: Remembered<String, ()>,
    /// By path and event.
    events: Remembered<(String, String), Event>,
    /// By path, body and attempt: the event that had them.
    bodies: Remembered<(String, u64, u32), String>,
}

#[derive(Debug)]
struct Event {
    body: u64,
    acknowledged: bool,
}

impl Checks {
    /// Judges one request; they must come in the order of their arrival.
    pub fn look(&mut self, request: &Received) -> Findings {
        let mut problems = missing_headers(request);
        if !request.complete {
            problems.push("the connection broke within the body".to_owned());
        }
        let signature = self.mark(request, &mut problems);
        let skew_s = skew(request);
        let too_far = |skew_s: &i64| skew_s.unsigned_abs() > TOLERANCE_DEFAULT.as_secs();
        if let Some(skew_s) = skew_s.filter(too_far) {
            problems.push(format!("the timestamp is {skew_s} s away from this machine's clock"));
        }
        let attempt = request.header_text(ATTEMPT_HEADER).parse().ok();
        let duplicate = self.repeats(request, attempt, &mut problems);
        self.summary.requests += 1;
        self.summary.duplicates += usize::from(duplicate);
        self.summary.failed += usize::from(!problems.is_empty());
        Findings { attempt, signature, skew_s, duplicate, problems }
    }

    /// The sum so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn mark(&mut self, request: &Received, problems: &mut Vec<String>) -> Mark {
        let has_signature = request.header(SIGNATURE_HEADER).is_some();
        let mark = match &request.signature {
            _ if !has_signature => Mark::Missing,
            Signature::Verified => Mark::Ok,
            Signature::Unchecked => Mark::Unchecked,
            Signature::Refused(why) => {
                problems.push(format!("the signature does not hold: {why}"));
                Mark::Bad
            }
        };
        self.summary.bad_signatures += usize::from(matches!(mark, Mark::Bad | Mark::Missing));
        self.summary.unchecked_signatures += usize::from(mark == Mark::Unchecked);
        mark
    }

    /// Compares it with what came before; true if the event had been acknowledged.
    fn repeats(&mut self, request: &Received, attempt: Option<u32>, problems: &mut Vec<String>) -> bool {
        let (path, id) = (request.path().to_owned(), request.webhook_id().to_owned());
        if id.is_empty() {
            return false;
        }
        let body = hash(&request.body);
        let key = |number| (path.clone(), body, number);
        if let Some(number @ 2..) = attempt
            && self.events.get(&(path.clone(), id.clone())).is_none()
            && let Some(before) = self.bodies.get(&key(number - 1)).filter(|before| **before != id)
        {
            problems.push(format!("attempt {} of the same body had another {ID_HEADER}: {before}", number - 1));
        }
        if let Some(number) = attempt {
            self.bodies.put(key(number), id.clone());
        }
        if self.ids.get(&id).is_none() {
            self.summary.distinct_ids += 1;
            self.ids.put(id.clone(), ());
        }
        let succeeds = request.answer.acknowledges();
        match self.events.get_mut(&(path.clone(), id.clone())) {
            Some(event) => {
                if event.body != body {
                    problems.push(format!("another body came under the same {ID_HEADER}"));
                }
                let duplicate = event.acknowledged;
                event.acknowledged |= succeeds;
                duplicate
            }
            None => {
                self.events.put((path, id), Event { body, acknowledged: succeeds });
                false
            }
        }
    }
}

fn missing_headers(request: &Received) -> Vec<String> {
    let missing = [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER].into_iter().filter(|name| {
        // An empty value says no more than none.
        request.header_text(name).is_empty()
    });
    missing.map(|name| format!("there is no {name}")).collect()
}

fn skew(request: &Received) -> Option<i64> {
    let timestamp_s: i64 = request.header_text(TIMESTAMP_HEADER).parse().ok()?;
    let arrival = request.arrival_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(arrival.as_secs()).ok()?.checked_sub(timestamp_s)
}

fn hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

/// A map that forgets its oldest entries.
#[derive(Debug)]
struct Remembered<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, V> Remembered<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    fn put(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
