//! A proxy that notes where tunnels are asked for; all of them lead to one receiver of its own.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use posthaste_agent::Proxy;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// The end of the payload that every request has.
const END: &[u8] = b"{\"paid\":true}";

/// The proxy, and the receiver behind it.
pub(super) struct Tunnel {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    seen: Arc<Seen>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    targets: Mutex<Vec<SocketAddr>>,
    requests: AtomicUsize,
    answer: Mutex<String>,
}

impl Tunnel {
    /// The receiver has a certificate for `name`.
    pub(super) async fn start(name: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (key, params) = (KeyPair::generate().unwrap(), CertificateParams::new([name.to_owned()]).unwrap());
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        *seen.answer.lock().unwrap() = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
        let noted = seen.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), noted.clone()));
            }
        });
        Self { address, certificate, seen, server }
    }

    pub(super) fn proxy(&self) -> Proxy {
        Proxy::parse(&format!("http://{}", self.address)).unwrap()
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// What each request is answered from now on.
    pub(super) fn answers(&self, answer: &str) {
        answer.clone_into(&mut self.seen.answer.lock().unwrap());
    }

    /// Where tunnels were asked for.
    pub(super) fn targets(&self) -> Vec<SocketAddr> {
        self.seen.targets.lock().unwrap().clone()
    }

    /// Requests that came through.
    pub(super) fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The client may leave at any point.
async fn serve(mut stream: TcpStream, acceptor: TlsAcceptor, seen: Arc<Seen>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
    seen.targets.lock().unwrap().push(target.parse().expect("an address, not a name"));
    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.ok()?;
    let mut stream = acceptor.accept(stream).await.ok()?;
    let mut request = Vec::new();
    while !request.ends_with(END) {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    seen.requests.fetch_add(1, Ordering::SeqCst);
    let answer = seen.answer.lock().unwrap().clone();
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}
