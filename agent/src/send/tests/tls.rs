//! Receivers with certificates of every kind.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::{
    http2::{Next, serve},
    *,
};
use crate::guard::{Routes, tests::Names};

const NAME: &str = "hooks.example.com";

struct TlsReceiver {
    certificate: CertificateDer<'static>,
    port: u16,
    handshakes: Arc<AtomicUsize>,
}

/// A certificate for `name` that ends in `year`, and who serves with it.
fn acceptor(name: &str, year: i32, protocols: &[&[u8]]) -> (CertificateDer<'static>, TlsAcceptor) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new([name.to_owned()]).unwrap());
    params.not_after = date_time_ymd(year, 1, 1);
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate.clone()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    (certificate, TlsAcceptor::from(Arc::new(config)))
}

impl TlsReceiver {
    /// Answers over HTTP/2 behind a certificate for `name` that ends in `year`.
    async fn start(name: &str, year: i32) -> Self {
        let (certificate, acceptor) = acceptor(name, year, &[b"h2", b"http/1.1"]);
        let handshakes = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let finished = handshakes.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                finished.fetch_add(1, Ordering::SeqCst);
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                let _ = serve(stream, vec![Next::Ok]).await;
            }
        });
        Self { certificate, port, handshakes }
    }

    /// Answers this over HTTP/1.1 and ends the connection without TLS' farewell.
    async fn cut_off(answer: &'static [u8]) -> Self {
        let (certificate, acceptor) = acceptor(NAME, 2_099, &[]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(answer).await.unwrap();
            stream.flush().await.unwrap();
            // Only TCP's end follows.
            let (tcp, _) = stream.into_inner();
            drop(tcp);
        });
        Self { certificate, port, handshakes: Arc::default() }
    }

    /// What an attempt meets whose agent trusts the certificate if `trusted`.
    async fn met(&self, trusted: bool) -> Facts {
        let policy = Policy::new(false, &["127.0.0.0/8"]).unwrap();
        let authorities = if trusted { vec![self.certificate.clone()] } else { Vec::new() };
        let routes = Routes { policy, authorities, ..Routes::default() };
        let guard = Guard::routed(routes, &Names::new(&[&["127.0.0.1"]]));
        let url = format!("https://{NAME}:{}/hook", self.port);
        report(&Sender::new(Clock::start(), guard), config(&url), content(b"{}")).await.facts
    }
}

#[tokio::test]
async fn a_trusted_certificate_opens_http2() {
    let facts = TlsReceiver::start(NAME, 2_099).await.met(true).await;
    assert_eq!((facts.outcome, facts.status), (Outcome::Answered, Some(200)), "{}", facts.detail);
}

#[tokio::test]
async fn any_other_certificate_fails_before_anything_is_sent() {
    let check = async |receiver: TlsReceiver, trusted, reason: &str| {
        let facts = receiver.met(trusted).await;
        assert_eq!((facts.outcome, facts.reached), (Outcome::TlsFailed, Some(Reached::Tls)), "{}", facts.detail);
        assert!(facts.detail.contains(reason), "{}", facts.detail);
        assert_eq!(receiver.handshakes.load(Ordering::SeqCst), 0, "{reason}");
    };
    check(TlsReceiver::start(NAME, 2_099).await, false, "UnknownIssuer").await;
    check(TlsReceiver::start(NAME, 2_020).await, true, "expired").await;
    check(TlsReceiver::start("other.example.com", 2_099).await, true, "not valid for name").await;
}

#[tokio::test]
async fn an_answer_counts_whose_connection_ends_without_a_farewell() {
    let whole = TlsReceiver::cut_off(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.met(true).await;
    assert_eq!((whole.outcome, whole.status, whole.detail.as_str()), (Outcome::Answered, Some(200), ""));
    let open = TlsReceiver::cut_off(b"HTTP/1.1 200 OK\r\n\r\nok").await.met(true).await;
    assert_eq!((open.outcome, open.status), (Outcome::Answered, Some(200)), "{}", open.detail);
    assert_eq!((&open.response_body[..], open.detail.as_str()), (&b"ok"[..], "the body broke off"));
}
