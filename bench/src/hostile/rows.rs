//! What each of them does, and what must come of it.

/// One way to misbehave.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name, which is its path.
    pub name: &'static str,
    /// What the first attempt must be.
    pub met: Met,
    /// Whether it goes on for as long as it is let.
    pub endless: bool,
    /// Whether the connection must not be used again after it.
    pub spoils: bool,
    /// Whether the second request on a connection is read, and the connection closed.
    pub(super) once: bool,
    pub(super) steps: Vec<Step>,
}

/// What an attempt came to, in the words of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// The verdict.
    pub verdict: &'static str,
    /// What the wire did.
    pub outcome: &'static str,
    /// 0 without an answer.
    pub status: u32,
}

/// What is done once the request is read.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Send(Vec<u8>),
    /// One byte at a time, ten a second.
    Drip(Vec<u8>),
    /// Again and again.
    Flood(Vec<u8>),
    /// Nothing, for as long as the other side stays.
    Hang,
    Close,
    /// Sends no more, and goes on reading.
    HalfClose,
    Reset,
}

const DELIVERED: &str = "SUCCEEDED";
const FAILED: &str = "FAILED";

fn answered(verdict: &'static str, status: u32) -> Met {
    Met { verdict, outcome: "answered", status }
}

fn broken(outcome: &'static str) -> Met {
    Met { verdict: FAILED, outcome, status: 0 }
}

fn row(name: &'static str, met: Met, steps: impl IntoIterator<Item = Step>) -> Row {
    Row { name, met, endless: false, spoils: false, once: false, steps: steps.into_iter().collect() }
}

/// Sends this head and body, and stays.
fn says(name: &'static str, met: Met, text: &str) -> Row {
    row(name, met, [send(text)])
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn spoiling(row: Row) -> Row {
    Row { spoils: true, ..row }
}

fn endless(row: Row) -> Row {
    Row { endless: true, spoils: true, ..row }
}

/// All of them.
pub fn rows() -> Vec<Row> {
    [plain(), statuses(), broken_heads(), broken_connections(), bodies(), floods(), headers(), lengths()].concat()
}

fn plain() -> Vec<Row> {
    let ok = answered(DELIVERED, 200);
    vec![
        says("ok_200", ok, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        says("ok_201", answered(DELIVERED, 201), "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"),
        says("ok_204", answered(DELIVERED, 204), "HTTP/1.1 204 No Content\r\n\r\n"),
        says("ok_205", answered(DELIVERED, 205), "HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n"),
        says("no_reason", ok, "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n"),
        says("line_feeds_only", ok, "HTTP/1.1 200 OK\ncontent-length: 0\n\n"),
        spoiling(row("http_1_0", ok, [send("HTTP/1.0 200 OK\r\n\r\nbye"), Step::Close])),
        says(
            "early_hints",
            ok,
            "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        ),
        spoiling(says(
            "no_content_with_body",
            answered(DELIVERED, 204),
            "HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\nabc",
        )),
        spoiling(says("longer_than_its_length", ok, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more")),
        spoiling(row(
            "bytes_after_the_answer",
            ok,
            [send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), send("HTTP/1.1 500 No\r\n\r\n")],
        )),
    ]
}

fn statuses() -> Vec<Row> {
    let moved = |name, status: u32| {
        let text = format!("HTTP/1.1 {status} Elsewhere\r\nlocation: /never\r\ncontent-length: 0\r\n\r\n");
        says(name, answered(FAILED, status), &text)
    };
    let plain = |name, status: u32| {
        says(name, answered(FAILED, status), &format!("HTTP/1.1 {status} Odd\r\ncontent-length: 0\r\n\r\n"))
    };
    vec![
        moved("moved_301", 301),
        moved("moved_302", 302),
        moved("moved_307", 307),
        moved("moved_308", 308),
        says("not_modified", answered(FAILED, 304), "HTTP/1.1 304 Not Modified\r\n\r\n"),
        spoiling(says(
            "switching",
            answered(FAILED, 101),
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        )),
        plain("status_600", 600),
        plain("status_999", 999),
    ]
}

fn broken_heads() -> Vec<Row> {
    let protocol = |name, text: &[u8]| spoiling(row(name, broken("protocol"), [Step::Send(text.to_vec())]));
    vec![
        protocol("status_099", b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n"),
        protocol("status_20", b"HTTP/1.1 20 Odd\r\ncontent-length: 0\r\n\r\n"),
        protocol("status_2000", b"HTTP/1.1 2000 Odd\r\ncontent-length: 0\r\n\r\n"),
        protocol("http_0_9", b"<html>hello</html>\r\n\r\n"),
        protocol("ssh", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        protocol("tls_alert", b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n"),
        protocol("nul_in_header", b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n"),
        protocol("space_in_name", b"HTTP/1.1 200 OK\r\na b: c\r\ncontent-length: 0\r\n\r\n"),
        protocol("folded_header", b"HTTP/1.1 200 OK\r\na: b\r\n c\r\ncontent-length: 0\r\n\r\n"),
    ]
}

fn broken_connections() -> Vec<Row> {
    let half = "HTTP/1.1 200 OK\r\ncontent-le";
    let timeout = Met { verdict: "OVERLOADED", outcome: "timeout", status: 0 };
    vec![
        spoiling(row("closes", broken("reset"), [Step::Close])),
        spoiling(row("resets", broken("reset"), [Step::Reset])),
        spoiling(row("half_a_head", broken("reset"), [send(half), Step::Close])),
        spoiling(row("hangs", timeout, [Step::Hang])),
        spoiling(row("drips_its_head", timeout, [Step::Drip(b"HTTP/1.1 200 OK\r\nx: y\r\nx: y\r\n".repeat(9))])),
        Row {
            once: true,
            ..says(
                "closes_at_next",
                answered(DELIVERED, 200),
                "HTTP/1.1 200 OK
content-length: 2

ok",
            )
        },
    ]
}

fn bodies() -> Vec<Row> {
    let ok = answered(DELIVERED, 200);
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let long = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    vec![
        spoiling(row("drips_its_body", ok, [send(long), Step::Drip(vec![b'x'; 100])])),
        spoiling(row("closes_one_half", ok, [send(&format!("{long}only this")), Step::HalfClose, Step::Hang])),
        spoiling(row("truncated_body", ok, [send(&format!("{long}only this")), Step::Close])),
        spoiling(says("chunk_garbage", ok, &format!("{chunked}zz\r\nwhat\r\n"))),
        spoiling(says("chunk_without_end", ok, &format!("{chunked}5\r\nhello\r\n"))),
        spoiling(says("chunk_too_long", ok, &format!("{chunked}fffffffffffffffff\r\nx"))),
        row(
            "odd_bytes",
            ok,
            [send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"), Step::Send(vec![0, 0xff, 0x1b, 0xc3])],
        ),
    ]
}

fn floods() -> Vec<Row> {
    let ok = answered(DELIVERED, 200);
    let flood = broken("informational_flood");
    let megabyte = vec![b'x'; 1 << 16];
    let gzip = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
    let more = |text: &str| Step::Flood(text.as_bytes().to_vec());
    vec![
        endless(row("endless_body", ok, [send("HTTP/1.1 200 OK\r\n\r\n"), Step::Flood(megabyte.clone())])),
        endless(row(
            "ten_gigabytes",
            ok,
            [send("HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n"), Step::Flood(megabyte.clone())],
        )),
        endless(row("gzip_bomb", ok, [send(gzip), Step::Flood(vec![0; 1 << 16])])),
        endless(row("endless_100", flood, [more("HTTP/1.1 100 Continue\r\n\r\n")])),
        endless(row("endless_103", flood, [more("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")])),
        endless(row(
            "endless_header",
            broken("headers_too_large"),
            [send("HTTP/1.1 200 OK\r\nx: "), Step::Flood(megabyte)],
        )),
        endless(row(
            "endless_chunk_extension",
            ok,
            [send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;"), Step::Flood(vec![b'a'; 1 << 16])],
        )),
    ]
}

fn headers() -> Vec<Row> {
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(64));
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(40 * 1_024));
    let throttled = answered("THROTTLED", 429);
    let latin = b"HTTP/1.1 429 Slow\r\nx: caf\xe9\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n".to_vec();
    vec![
        spoiling(says("headers_65", broken("headers_too_large"), &many)),
        spoiling(says("header_of_40_kib", broken("headers_too_large"), &long)),
        row("latin_1_beside_retry_after", throttled, [Step::Send(latin)]),
        says(
            "two_retry_after",
            throttled,
            "HTTP/1.1 429 Slow\r\nretry-after: 5\r\nretry-after: 900\r\ncontent-length: 0\r\n\r\n",
        ),
    ]
}

fn lengths() -> Vec<Row> {
    let length =
        |name, lines: &str| spoiling(says(name, broken("protocol"), &format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nok")));
    vec![
        length("lengths_differ", "content-length: 2\r\ncontent-length: 3"),
        length("length_negative", "content-length: -1"),
        length("length_huge", "content-length: 99999999999999999999999"),
        length("length_garbage", "content-length: two"),
        spoiling(says(
            "length_and_chunks",
            answered(DELIVERED, 200),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        )),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_is_a_path_of_its_own() {
        let names: HashSet<&str> = rows().iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows().len());
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        assert!(names.iter().all(plain), "{names:?}");
    }
}
