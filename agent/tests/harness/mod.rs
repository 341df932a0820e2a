//! A replica that the test plays itself, a receiver that counts, and an agent between them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use posthaste_agent::{Agent, Config, Drained, RunError};
use posthaste_domain::{
    address::Policy,
    id::{DeliveryId, EventId, Shard},
};
use posthaste_proto::dispatch::{
    self as wire,
    agent_frame::Frame,
    control_frame,
    dispatch_service_server::{DispatchService, DispatchServiceServer},
};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    runtime::Handle,
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// The replica's end of one session.
pub(crate) struct Plane {
    pub(crate) hello: wire::Hello,
    outbound: mpsc::Sender<Result<wire::ControlFrame, Status>>,
    inbound: Streaming<wire::AgentFrame>,
    start: Instant,
}

impl Plane {
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap()
    }

    pub(crate) async fn send(&self, frame: control_frame::Frame) {
        self.outbound.send(Ok(wire::ControlFrame { frame: Some(frame) })).await.unwrap();
    }

    /// The next frame that `pick` picks; others are passed over.
    pub(crate) async fn next<T>(&mut self, pick: impl Fn(Frame) -> Option<T>) -> T {
        let found = async {
            loop {
                let frame = self.inbound.message().await.unwrap().expect("the session ended");
                if let Some(found) = pick(frame.frame.unwrap()) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("nothing came")
    }

    pub(crate) async fn results(&mut self) -> wire::Results {
        self.next(|frame| if let Frame::Results(results) = frame { Some(results) } else { None }).await
    }

    pub(crate) async fn returned(&mut self) -> wire::Return {
        self.next(|frame| if let Frame::Return(returned) = frame { Some(returned) } else { None }).await
    }

    pub(crate) async fn pong(&mut self) -> wire::Pong {
        let ping = wire::Ping { seq: 7, replica_us: self.now_us(), ..wire::Ping::default() };
        self.send(control_frame::Frame::Ping(ping)).await;
        self.next(|frame| if let Frame::Pong(pong) = frame { Some(pong) } else { None }).await
    }

    pub(crate) async fn acknowledge(&self, seq: u64) {
        self.send(control_frame::Frame::Acknowledge(wire::Acknowledge { seq })).await;
    }

    /// Grants one delivery of a new event to endpoint 3.
    pub(crate) async fn grant(&self, lease_id: i64, window_ms: u32, granted_us: u64) -> DeliveryId {
        self.grant_version(1, lease_id, window_ms, granted_us).await
    }

    /// The same under a version of the endpoint's configuration.
    pub(crate) async fn grant_version(
        &self,
        config_version: u64,
        lease_id: i64,
        window_ms: u32,
        granted_us: u64,
    ) -> DeliveryId {
        let event = EventId::mint(1, lease_id.unsigned_abs(), Shard::new(3));
        let delivery = event.delivery(1);
        let payload = Bytes::from_static(b"{\"paid\":true}");
        let batch = wire::Batch {
            lease_id,
            grant_us: granted_us,
            events: vec![wire::EventContent {
                event_id: Bytes::copy_from_slice(event.uuid().as_bytes()),
                content_type: "application/json".to_owned(),
                payload_hash: Bytes::copy_from_slice(&Sha256::digest(&payload)),
                payload,
                ..wire::EventContent::default()
            }],
            deliveries: vec![wire::LeasedDelivery {
                delivery_id: Bytes::copy_from_slice(delivery.uuid().as_bytes()),
                number: 1,
                endpoint_number: 3,
                config_version,
                start_window_ms: window_ms,
            }],
        };
        self.send(control_frame::Frame::Batch(batch)).await;
        delivery
    }

    pub(crate) async fn configure(&self, receiver: SocketAddr, rate_per_second: f64) {
        let config = wire::EndpointConfig {
            account_rate_per_second: rate_per_second,
            account_burst: 1,
            ..endpoint(1, &format!("http://{receiver}/hook"))
        };
        self.send(control_frame::Frame::EndpointConfig(config)).await;
    }

    /// Waits until the agent's half has ended.
    pub(crate) async fn ended(&mut self) {
        let end = async { while let Ok(Some(_)) = self.inbound.message().await {} };
        timeout(PATIENCE, end).await.expect("the session goes on");
    }
}

/// A version of endpoint 3.
pub(crate) fn endpoint(version: u64, url: &str) -> wire::EndpointConfig {
    wire::EndpointConfig {
        endpoint_number: 3,
        version,
        account_number: 5,
        url: url.to_owned(),
        timeout_ms: 5_000,
        secrets: vec![vec![7; 32].into()],
        response_body_bytes: 100,
        ..wire::EndpointConfig::default()
    }
}

struct Service {
    planes: mpsc::Sender<Plane>,
    start: Instant,
    replica_id: &'static str,
}

#[tonic::async_trait]
impl DispatchService for Service {
    type SessionStream = ReceiverStream<Result<wire::ControlFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<wire::AgentFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let mut inbound = request.into_inner();
        let first = inbound.message().await?.and_then(|frame| frame.frame);
        let Some(Frame::Hello(hello)) = first else { return Err(Status::invalid_argument("no Hello")) };
        let (outbound, frames) = mpsc::channel(64);
        let plane = Plane { hello, outbound, inbound, start: self.start };
        let welcome = wire::Welcome {
            replica_id: self.replica_id.to_owned(),
            protocol_version: 1,
            agent_us: plane.hello.agent_us,
            replica_us: plane.now_us(),
            lease_ttl_ms: 9_000,
            silence_ms: 60_000,
        };
        plane.send(control_frame::Frame::Welcome(welcome)).await;
        self.planes.send(plane).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(frames)))
    }
}

/// Replicas that the test plays, behind one address.
pub(crate) struct Planes {
    pub(crate) url: String,
    planes: mpsc::Receiver<Plane>,
    server: JoinHandle<()>,
}

impl Planes {
    pub(crate) async fn start(replica_id: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (planes_in, planes) = mpsc::channel(8);
        let service = Service { planes: planes_in, start: Instant::now(), replica_id };
        let server = tonic::transport::Server::builder()
            .add_service(DispatchServiceServer::new(service))
            .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener));
        let server = tokio::spawn(async { server.await.unwrap() });
        Self { url, planes, server }
    }

    pub(crate) async fn session(&mut self) -> Plane {
        timeout(PATIENCE, self.planes.recv()).await.expect("no session").unwrap()
    }
}

impl Drop for Planes {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// An agent that runs against a replica that the test plays.
pub(crate) struct Stage {
    planes: Planes,
    shutdown: CancellationToken,
    agent: JoinHandle<Result<Drained, RunError>>,
}

impl Stage {
    pub(crate) async fn start(max_in_flight: u64) -> Self {
        Self::start_on(&Handle::current(), max_in_flight).await
    }

    /// Its attempts run on another runtime.
    pub(crate) async fn start_on(runtime: &Handle, max_in_flight: u64) -> Self {
        Self::start_with(runtime, |config| Config { max_in_flight, ..config }).await
    }

    /// Its configuration is changed first.
    pub(crate) async fn start_with(runtime: &Handle, change: impl FnOnce(Config) -> Config) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let planes = Planes::start("replica-1").await;
        let config = Config {
            control_planes: vec![planes.url.clone()],
            agent_id: "agent-under-test".to_owned(),
            max_in_flight: 16,
            bytes_max: 1 << 20,
            egress_proxy: None,
            name_servers: Vec::new(),
            authorities: Vec::new(),
            policy: Policy::new(true, &["127.0.0.0/8"]).unwrap(),
            drain_limit: Duration::from_secs(5),
            admin_listen: None,
            collector: None,
        };
        let agent: Agent = change(config).build().unwrap();
        let shutdown = CancellationToken::new();
        let agent = runtime.spawn(agent.run(shutdown.clone(), |_| {}));
        Self { planes, shutdown, agent }
    }

    pub(crate) async fn session(&mut self) -> Plane {
        self.planes.session().await
    }

    pub(crate) fn stop(&self) {
        self.shutdown.cancel();
    }

    pub(crate) async fn drained(self) -> Drained {
        timeout(PATIENCE, self.agent).await.expect("the agent goes on").unwrap().unwrap()
    }
}

/// A receiver that answers 200 after a while, and counts.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
    heads: Arc<Mutex<mpsc::Receiver<String>>>,
}

impl Receiver {
    pub(crate) async fn start(wait: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (heads_in, heads) = mpsc::channel(64);
        let counted = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (counted, heads_in) = (counted.clone(), heads_in.clone());
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !request.ends_with(b"{\"paid\":true}") {
                        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = heads_in.send(String::from_utf8_lossy(&request).into_owned()).await;
                    tokio::time::sleep(wait).await;
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                    let _ = stream.write_all(answer).await;
                });
            }
        });
        Self { address, requests, heads: Arc::new(Mutex::new(heads)) }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Waits for the next request.
    pub(crate) async fn request(&self) -> String {
        timeout(PATIENCE, self.heads.lock().await.recv()).await.expect("no request").unwrap()
    }
}
