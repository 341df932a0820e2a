//! Whatever comes from outside: the corpus of the fuzz targets, and generated inputs, through the same checks.

use std::{fs, path::Path};

use proptest::prelude::*;

#[path = "../../fuzz/src/checks/mod.rs"]
mod checks;

/// Runs a target's whole corpus; each file is one input.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 20, "{}: only {} inputs", folder.display(), paths.len());
    for path in paths {
        // The runner shows what was printed when the check fails.
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
    }
}

#[test]
fn the_corpus_of_urls_holds() {
    replay("url", checks::url::check);
}

#[test]
fn the_corpus_of_retry_after_holds() {
    replay("retry_after", checks::retry_after::check);
}

#[test]
fn the_corpus_of_signatures_holds() {
    replay("signature", checks::signature::check);
}

#[test]
fn the_corpus_of_headers_holds() {
    replay("headers", checks::headers::check);
}

/// Hosts that lie close to what is allowed: names, numbers in every base, and all of IPv6's abbreviations.
fn host() -> impl Strategy<Value = String> {
    let number = prop_oneof!["[0-9]{1,3}", "0[0-7]{1,3}", "0[xX][0-9a-fA-F]{1,2}", "[0-9]{4,10}"];
    let label = "[a-zA-Z0-9_-]{1,8}|xn--[a-z0-9]{1,6}|[ａ-ｚéß①]{1,3}";
    let end = "com|COM|example|local|Internal|localhost|test|arpa|[0-9]{1,3}";
    prop_oneof![
        prop::collection::vec(number, 1..5).prop_map(|parts| parts.join(".")),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}")),
        (prop::collection::vec(label, 0..3), end, "[.。]?").prop_map(|(mut labels, end, dot)| {
            labels.push(end);
            labels.join(".") + &dot
        }),
        any::<[u16; 8]>().prop_map(|segments| format!("[{}]", std::net::Ipv6Addr::from(segments))),
        (0x2000_u16..0x4000, any::<u16>()).prop_map(|(first, last)| format!("[{first:x}::{last:X}]")),
        "\\[[0-9a-fA-F:.]{2,20}\\]",
        "[a-z0-9.:@%\\[\\]\\\\]{0,20}",
    ]
}

fn url() -> impl Strategy<Value = Vec<u8>> {
    let scheme = prop_oneof![8 => Just("https://"), 2 => Just("http://"), 1 => Just("HTTPS://"), 1 => Just("https:/")];
    (scheme, host(), "(:[0-9]{0,5})?", "(/[ -~é\t]{0,12})?").prop_map(|parts| {
        let (scheme, host, port, rest) = parts;
        format!("{scheme}{host}{port}{rest}").into_bytes()
    })
}

fn retry_after() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[0-9]{0,40}",
        "[ \t]{0,2}[-+]?[0-9]{1,12}[.]?[0-9]{0,12}[ s]?",
        "(Wed|Thu), [0-3][0-9] (Oct|Nov|Feb) 20[0-9]{2} [0-2][0-9]:[0-6][0-9]:[0-6][0-9] GMT",
        "(Date: )?[A-Za-z0-9 ,:-]{0,32}",
    ];
    prop::collection::vec(line, 0..4).prop_map(|lines| lines.join("\n").into_bytes())
}

fn signature() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![4 => "\\$[012]", 1 => "v1,[A-Za-z0-9+/]{0,44}=?", 1 => "[ -~]{0,10}", 1 => "v1a,\\$0", 1 => "\\$0="];
    let header = prop::collection::vec(part, 0..4).prop_map(|parts| parts.join(" "));
    let timestamp = prop_oneof![4 => "[1-9][0-9]{0,18}", 1 => "[-+ 0]{0,2}[0-9]{0,20}", 1 => Just("0".to_owned())];
    (timestamp, "[ -~é]{0,30}", header, any::<Vec<u8>>()).prop_map(|(timestamp, id, header, body)| {
        [format!("{timestamp}\n{id}\n{header}\n").into_bytes(), body].concat()
    })
}

fn headers() -> impl Strategy<Value = Vec<u8>> {
    let name =
        prop_oneof![4 => "[A-Za-z][A-Za-z0-9-]{0,12}", 1 => "[!-~é]{0,70}", 1 => "(?i)host|te|webhook-id|proxy-a"];
    let value = prop_oneof![4 => "[!-~]([ -~]{0,20}[!-~])?", 1 => "[ -~\t␊␍␀é]{0,20}", 1 => "[a-z]{1020,1028}"];
    prop::collection::vec((name, value), 1..36)
        .prop_map(|lines| lines.iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>())
        .prop_map(|lines| lines.join("\n").into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_url_has_one_meaning_or_none(data in url()) {
        checks::url::check(&data);
    }

    #[test]
    fn any_retry_after_is_read_within_bounds(data in retry_after()) {
        checks::retry_after::check(&data);
    }

    #[test]
    fn any_signature_is_that_of_the_request_or_refused(data in signature()) {
        checks::signature::check(&data);
    }

    #[test]
    fn any_header_goes_out_unchanged_or_is_refused(data in headers()) {
        checks::headers::check(&data);
    }

    #[test]
    fn any_bytes_at_all(data: Vec<u8>) {
        checks::url::check(&data);
        checks::retry_after::check(&data);
        checks::signature::check(&data);
        checks::headers::check(&data);
    }
}
