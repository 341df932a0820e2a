//! The request of the baselines: signed, with the same headers and sent by the same client as an agent's.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use posthaste_domain::signature::{self, Key};
use reqwest::{Client, Url, header, redirect, retry};

use crate::clock::unix_us;
use crate::stage;

/// As an agent's client does.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// As an endpoint's default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Signs and posts.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    client: Client,
    urls: Arc<[Url]>,
    keys: Arc<[Key]>,
}

impl Sender {
    /// For the first `places` places of a receiver.
    pub(crate) fn new(receiver: &str, places: u32) -> Result<Self> {
        let urls = (0..places).map(|place| Url::parse(&format!("http://{receiver}/{place}")));
        let urls = urls.collect::<Result<_, _>>().context("reading the receiver's address")?;
        Ok(Self { client: client()?, urls, keys: Arc::new([stage::secret().into()]) })
    }

    /// Posts the body to a place and reads the whole answer.
    ///
    /// # Errors
    /// When there is none, or it isn't 200.
    pub(crate) async fn post(&self, place: u32, event_id: &str, body: Bytes) -> Result<()> {
        let url = self.urls.get(place as usize).context("there is no such place")?.clone();
        let timestamp_s = unix_us(SystemTime::now()) / 1_000_000;
        let signature = signature::sign(&self.keys, event_id, timestamp_s, &body);
        let request = self
            .client
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(signature::ID_HEADER, event_id)
            .header(signature::TIMESTAMP_HEADER, timestamp_s)
            .header(signature::SIGNATURE_HEADER, signature)
            .header("idempotency-key", event_id)
            .header("webhook-attempt", 1)
            .body(body);
        let response = request.send().await.context("sending")?;
        ensure!(response.status() == 200, "the receiver answers {}", response.status());
        response.bytes().await.context("reading the answer")?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "it goes to the receiver of the measurement only")]
fn client() -> Result<Client> {
    Client::builder()
        .user_agent("posthaste-bench")
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .timeout(TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .tcp_nodelay(true)
        .build()
        .context("building the HTTP client")
}
