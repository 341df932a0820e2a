//! URLs and headers that are legal and rarely seen, and one name that never resolves.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;
use crate::guard::tests::Names;

/// URLs of one receiver, beginning with the path.
const TARGETS: [&str; 24] = [
    "/",
    "",
    "?",
    "/hook?",
    "/hook?signature=a%2Fb%2fc%3D&sv=2026-01-01",
    "/hook?u=https://example.com/a?b=c",
    "/a//b/./c/../d",
    "/%2e%2e/%2E/a",
    "/caf\u{e9}/\u{1fa9d}",
    "/a'b",
    "/a\"b",
    "/a{b}c",
    "/a|b",
    "/a^b",
    "/a`b",
    "/a<b>",
    "/a[b]",
    "/a\\b",
    "/a;b=c,d",
    "/a%",
    "/a%zz",
    "/%00",
    "/?a{b}|^`\"'<>[]\\",
    "/a?b=%F0%9F%AA%9D&c=%ff",
];

/// No text makes the client panic: what is sent arrives as a request, what can't be sent is refused.
#[tokio::test]
async fn odd_urls_are_sent_or_refused() {
    let (sender, receiver) = (sender(), Receiver::start(OK, Then::Stay).await);
    let base = format!("http://127.0.0.1:{}", receiver.port());
    let long = format!("/{}", "a".repeat(70_000));
    let mut sent = 0;
    for target in TARGETS.iter().copied().chain([long.as_str()]) {
        let facts = report(&sender, config(&format!("{base}{target}")), content(b"{}")).await.facts;
        let expected = [Outcome::Answered, Outcome::RefusedAddress, Outcome::RefusedConfig];
        assert!(expected.contains(&facts.outcome), "{target}: {:?} {}", facts.outcome, facts.detail);
        sent += usize::from(facts.outcome == Outcome::Answered);
    }
    assert_eq!(receiver.requests().await.len(), sent);
    assert!(sent >= 20, "only {sent} were sent");
}

/// The same for random characters, sent to where nobody listens.
#[tokio::test]
async fn random_urls_never_panic() {
    let seed = rand::random();
    println!("seed {seed}");
    let (sender, mut random) = (sender(), StdRng::seed_from_u64(seed));
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut built = 0;
    for _ in 0..2_000 {
        let rest: String = (0..random.random_range(0..24))
            .map(|_| match random.random_range(0..4) {
                0 => char::from(random.random_range(b' '..=b'~')),
                1 => random.random(),
                _ => char::from(b"/?#%&=:@[]{}|^`'\"\\<>;,.~"[random.random_range(0..24)]),
            })
            .collect();
        let url = format!("http://{closed}/{rest}");
        let item = item(&sender, config(&url), content(b"{}"));
        if let Ok(prepared) = sender.prepare(&item, UnixMicros::new(0)) {
            built += 1;
            // The step at which the client turns one kind of URL into the other; the gate keeps it off the wire.
            assert!(item.gate.close(Reason::Revoked));
            let _ = tokio::time::timeout(Duration::from_millis(1), sender.guard.request(prepared.request)).await;
        }
    }
    assert!(built > 100, "only {built} of 2000 were URLs");
}

/// Some receivers know one spelling only.
#[tokio::test]
async fn names_of_headers_are_sent_as_they_were_written() {
    let (sender, receiver) = (sender(), Receiver::start(OK, Then::Stay).await);
    let header = |name: &str, value: &str| wire::Header { name: name.to_owned(), value: value.to_owned() };
    let headers = vec![header("X-Api-KEY", "Kept As It Is"), header("plain", "1"), header("USER-Agent", "Own/1")];
    let config = wire::EndpointConfig { headers, ..config(&receiver.url()) };
    report(&sender, config, content(b"{}")).await;
    let request = String::from_utf8(receiver.requests().await.remove(0)).unwrap();
    for line in ["X-Api-KEY: Kept As It Is", "plain: 1", "USER-Agent: Own/1", "content-type: application/json"] {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{request}");
    }
    assert_eq!(request.to_lowercase().matches("x-api-key").count(), 1, "{request}");
    assert_eq!(request.to_lowercase().matches("user-agent").count(), 1, "{request}");
}

/// A name server that never answers for one name keeps nobody else waiting.
#[tokio::test]
async fn a_name_that_never_resolves_delays_no_other() {
    let names = Names::new(&[["127.0.0.1"].as_slice(); 64]);
    names.hang_on("slow.example.com");
    let policy = Policy::new(true, &["127.0.0.0/8"]).unwrap();
    let sender = Arc::new(Sender::new(Clock::start(), Guard::asking(policy, &names)));
    let receiver = Receiver::start(OK, Then::Close).await;
    let url = |name: &str| format!("http://{name}.example.com:{}/hook", receiver.port());
    let hanging: Vec<_> = (0..32)
        .map(|_| {
            let (sender, url) = (sender.clone(), url("slow"));
            tokio::spawn(async move { report(&sender, config(&url), content(b"{}")).await.facts })
        })
        .collect();
    let began = std::time::Instant::now();
    for number in 0..32 {
        let facts = report(&sender, config(&url(&format!("n{number}"))), content(b"{}")).await.facts;
        assert_eq!(facts.outcome, Outcome::Answered, "{}", facts.detail);
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?} beside names that hang", began.elapsed());
    for facts in hanging {
        let facts = facts.await.unwrap();
        assert_eq!((facts.outcome, facts.reached), (Outcome::Timeout, Some(Reached::Dns)), "{}", facts.detail);
    }
}
