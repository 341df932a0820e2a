//! Where a thing may be used: each rule is a list of words and the only folders that may say them.

use crate::{
    rust::{code_lines, has_word},
    tree::{File, assert_clean, assert_finds, files},
};

/// `words` may stand in code only under `homes`.
struct Home {
    words: &'static [&'static str],
    homes: &'static [&'static str],
    reason: &'static str,
}

const HOMES: [Home; 5] = [
    Home {
        words: &["sqlx"],
        homes: &["control-plane/src/store", "bench/", "tests/"],
        reason: "SQL has one home, so that every statement stands beside its table",
    },
    Home {
        words: &["tonic", "tonic_health", "tonic_reflection", "tonic_types"],
        homes: &[
            "control-plane/src/edge",
            "control-plane/src/peer",
            "control-plane/tests/",
            "agent/src/session",
            "agent/src/guard",
            "agent/src/send",
            "agent/tests/",
            "proto/",
            "cli/",
            "bench/",
            "tests/",
        ],
        reason: "wire types die at the edge; the rest speaks domain types",
    },
    Home {
        words: &["axum", "TcpListener", "TcpSocket", "UnixListener"],
        homes: &[
            "control-plane/src/edge",
            "control-plane/src/peer",
            "control-plane/tests/",
            "agent/src/admin.rs",
            "agent/src/guard",
            "agent/src/send",
            "agent/tests/",
            "proto/",
            "cli/",
            "bench/",
            "tests/",
        ],
        reason: "who listens is easy to find: the control plane's edge, and the agent's admin port for probes and scrapes",
    },
    Home {
        words: &["tonic", "tonic_types"],
        homes: &["control-plane/", "agent/src/session", "agent/tests/", "proto/", "cli/", "bench/", "tests/"],
        reason: "an agent speaks gRPC in its session only",
    },
    Home {
        words: &["reqwest", "TcpStream", "hyper_util::client", "hyper::client"],
        homes: &[
            "agent/src/guard",
            "agent/src/send",
            "agent/tests/",
            "control-plane/src/edge",
            "control-plane/src/peer",
            "control-plane/tests/",
            "cli/",
            "bench/",
            "tests/",
        ],
        reason: "a customer's URL is opened behind the address guard only",
    },
];

/// What would make the rules depend on when and where they run.
const IMPURE: [&str; 19] = [
    "Instant::now",
    "SystemTime",
    "Utc::now",
    "Local::now",
    "now_v7",
    "new_v4",
    "rand",
    "getrandom",
    "OsRng",
    "tokio",
    "async",
    "TcpStream",
    "UdpSocket",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "thread::sleep",
    "chrono",
];

fn at_home(files: &[File], homes: &[Home]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        for home in homes.iter().filter(|home| !file.under(home.homes)) {
            for (line, code) in code_lines(&file.text) {
                for word in home.words.iter().filter(|word| has_word(&code, word)) {
                    problems.push(file.problem(line, format_args!("`{word}` is not used here: {}", home.reason)));
                }
            }
        }
    }
    problems
}

fn pure(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is("rs") && file.under(&["domain/src"])) {
        for (line, code) in code_lines(&file.text) {
            for word in IMPURE.iter().filter(|word| has_word(&code, word)) {
                problems
                    .push(file.problem(line, format_args!("`{word}`: the domain takes time and chance as arguments")));
            }
        }
    }
    problems
}

#[test]
fn everything_is_used_where_it_belongs() {
    assert_clean(&at_home(files(), &HOMES));
}

#[test]
fn the_domain_reads_no_clock_and_draws_no_number() {
    assert_clean(&pure(files()));
}

#[test]
fn planted_misplaced_words_are_found() {
    let cases = [
        ("control-plane/src/emit.rs", "let rows = sqlx::query(X);", "`sqlx`"),
        ("control-plane/src/settle.rs", "fn f() -> tonic::Status { }", "`tonic`"),
        ("control-plane/src/main.rs", "let l = TcpListener::bind(a);", "`TcpListener`"),
        ("agent/src/send/pool.rs", "use tonic::Code;", "`tonic`"),
        ("agent/src/session.rs", "axum::serve(l, r)", "`axum`"),
        ("agent/src/report.rs", "reqwest::get(u)", "`reqwest`"),
        ("control-plane/src/upkeep/prune.rs", "TcpStream::connect(a)", "`TcpStream`"),
    ];
    for (path, text, words) in cases {
        assert_finds(&at_home(&[File::new(path, text)], &HOMES), words);
    }
    assert_clean(&at_home(&[File::new("control-plane/src/emit.rs", "// not sqlx\nlet a = \"tonic\";")], &HOMES));
    for text in ["let t = Instant::now();", "use rand::Rng;", "pub async fn f() {}", "std::fs::read(p)"] {
        assert_finds(&pure(&[File::new("domain/src/x.rs", text)]), "time and chance");
    }
}
