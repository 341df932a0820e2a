//! Receivers that speak HTTP/2, frame by frame.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// What follows the head of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// `:status: 200` and the end of the stream.
    Ok,
    /// The stream is reset with this code.
    Reset(u8),
    /// GOAWAY with this stream as its last, and nothing more.
    GoAway(u8),
    /// GOAWAY that covers the stream, and the connection closes.
    GoAwayAndClose,
    /// The connection closes.
    Close,
    /// A frame that RFC 9113, section 6.1 forbids.
    Nonsense,
    /// Settings without end.
    SettingsFlood,
    /// `:status: 103` without end.
    InterimFlood,
    /// Nothing more, and no window for a body.
    NoWindow,
}

/// Serves one connection; the requests meet `script` one after the other.
pub(super) async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: Vec<Next>) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    let mut script = script.into_iter();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        // Stream ids of these tests fit in one byte.
        let (kind, id) = (head[3], head[8]);
        if kind != HEADERS {
            continue;
        }
        match script.next().expect("more requests than the script has") {
            // 0x88 is `:status: 200` in the static table (RFC 7541, appendix A); flags: end of stream and of headers.
            Next::Ok => stream.write_all(&frame(HEADERS, 5, id, &[0x88])).await?,
            Next::Reset(code) => stream.write_all(&frame(RST_STREAM, 0, id, &[0, 0, 0, code])).await?,
            Next::GoAway(last) => stream.write_all(&frame(GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0])).await?,
            Next::GoAwayAndClose => return stream.write_all(&frame(GOAWAY, 0, 0, &[0, 0, 0, id, 0, 0, 0, 0])).await,
            Next::Close => return Ok(()),
            Next::SettingsFlood => flood(&mut stream, &frame(SETTINGS, 0, 0, &[])).await?,
            // A literal header without index: the name by its place in the static table, then `103`; flags: end of headers.
            Next::InterimFlood => flood(&mut stream, &frame(HEADERS, 4, id, b"\x08\x03103")).await?,
            Next::NoWindow => {}
            Next::Nonsense => stream.write_all(&frame(DATA, 0, 0, b"x")).await?,
        }
    }
}

/// Never returns but by an error.
async fn flood(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let many = frame.repeat(1_000);
    loop {
        stream.write_all(&many).await?;
    }
}

fn frame(kind: u8, flags: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, id], payload].concat()
}

/// How attempts end, made one after the other against a receiver that follows `script` on its connections together.
async fn ends(script: &[Next]) -> Vec<Ended> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let served = script.to_vec();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // The client may be the one who leaves.
        let _ = serve(stream, served).await;
    });
    let policy = Policy::new(true, &["127.0.0.0/8"]).unwrap();
    let sender = Sender::new(Clock::start(), Guard::speaking_h2(policy));
    let mut ends = Vec::new();
    for _ in script {
        ends.push(sender.send(&item(&sender, config(&url), content(b"{}"))).await);
    }
    ends
}

async fn outcomes(script: &[Next]) -> Vec<Outcome> {
    let outcome = |ended| match ended {
        Ended::Report(report) => report.facts.outcome,
        Ended::Return(reason) => panic!("returned: {reason:?}"),
    };
    ends(script).await.into_iter().map(outcome).collect()
}

#[tokio::test]
async fn what_was_provably_not_processed_comes_back() {
    for next in [Next::Reset(7), Next::GoAway(0)] {
        let ends = ends(&[next]).await;
        assert!(matches!(ends[..], [Ended::Return(Reason::RefusedStream)]), "{next:?}: {ends:?}");
    }
    let ends = ends(&[Next::Ok, Next::GoAway(1)]).await;
    assert!(matches!(ends[1], Ended::Return(Reason::RefusedStream)), "a stream that it doesn't cover: {ends:?}");
}

#[tokio::test]
async fn what_may_have_been_processed_is_an_attempt() {
    let check =
        async |script: &[Next], expected| assert_eq!(outcomes(script).await.last(), Some(&expected), "{script:?}");
    check(&[Next::Ok], Outcome::Answered).await;
    // CANCEL and INTERNAL_ERROR: the receiver had its hands on it.
    check(&[Next::Reset(8)], Outcome::ConnectionLost).await;
    check(&[Next::Reset(2)], Outcome::ConnectionLost).await;
    check(&[Next::Ok, Next::Reset(8)], Outcome::ConnectionLost).await;
    check(&[Next::GoAwayAndClose], Outcome::ConnectionLost).await;
    check(&[Next::Close], Outcome::ConnectionLost).await;
    check(&[Next::Ok, Next::Close], Outcome::StaleConnection).await;
    check(&[Next::Nonsense], Outcome::ProtocolError).await;
}

#[tokio::test]
async fn who_sends_without_end_is_cut_off() {
    for next in [Next::SettingsFlood, Next::InterimFlood] {
        let began = std::time::Instant::now();
        let met = outcomes(&[next]).await;
        let cut_off = [Outcome::InformationalFlood, Outcome::ProtocolError, Outcome::ConnectionLost];
        assert!(cut_off.contains(&met[0]), "{next:?}: {met:?}");
        assert!(began.elapsed() < Duration::from_millis(1_900), "{next:?} took until the timeout");
    }
}

#[tokio::test]
async fn a_body_that_finds_no_window_ends_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = serve(stream, vec![Next::NoWindow]).await;
    });
    let policy = Policy::new(true, &["127.0.0.0/8"]).unwrap();
    let sender = Sender::new(Clock::start(), Guard::speaking_h2(policy));
    // More than the first window of a stream (RFC 9113, section 6.9.2).
    let payload: &'static [u8] = Box::leak(vec![b'x'; 200_000].into_boxed_slice());
    let facts = report(&sender, config(&url), content(payload)).await.facts;
    assert_eq!((facts.outcome, facts.reached), (Outcome::Timeout, Some(Reached::Sending)), "{}", facts.detail);
}
