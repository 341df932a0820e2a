//! A URL as it was written, and as it was parsed: both must say the same.

use std::net::{IpAddr, Ipv4Addr};

use ::url::Host;

use super::{Policy, Refusal, Rule, URL_BYTES_MAX, Url, name};

/// Ports of other protocols, whose servers could take a request for commands ("bad port" of the Fetch standard).
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

pub(super) fn check(policy: &Policy, text: &str) -> Result<Url, Refusal> {
    let authority = check_text(policy, text).map_err(unnamed)?;
    let url = Url::parse(text).map_err(|_| unnamed(Rule::Syntax))?;
    // What is sent has three bytes for each one that is escaped.
    if url.as_str().len() > URL_BYTES_MAX {
        return Err(unnamed(Rule::TooLong));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unnamed(Rule::Credentials));
    }
    let host = url.host().ok_or_else(|| unnamed(Rule::Syntax))?;
    let refusal = |rule| Refusal { rule, subject: host.to_string() };
    match &host {
        Host::Ipv4(ip) => {
            policy.check_ip(IpAddr::V4(*ip))?;
            // Readers disagree on 010.8.8.8 and 134744072; all agree on four decimal numbers.
            if without_port(authority).parse::<Ipv4Addr>() != Ok(*ip) {
                return Err(refusal(Rule::HostSpelling));
            }
        }
        Host::Ipv6(ip) => policy.check_ip(IpAddr::V6(*ip))?,
        Host::Domain(domain) => {
            match name::check(domain) {
                // Local names are of use where private networks are allowed; what they resolve to is checked as ever.
                Err(Rule::LocalName) if !policy.allow_cidrs.is_empty() => (),
                checked => checked.map_err(refusal)?,
            }
            if !is_plain_spelling(without_port(authority), domain) {
                return Err(refusal(Rule::HostSpelling));
            }
        }
    }
    let forbidden = |port| BAD_PORTS.contains(&port) || !(policy.ports.is_empty() || policy.ports.contains(&port));
    if url.port_or_known_default().is_none_or(forbidden) {
        return Err(refusal(Rule::Port));
    }
    Ok(url)
}

/// Checks what the parser would repair or drop without a word, and gives the text between `//` and the path.
fn check_text<'a>(policy: &Policy, text: &'a str) -> Result<&'a str, Rule> {
    if text.len() > URL_BYTES_MAX {
        return Err(Rule::TooLong);
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(Rule::Character);
    }
    let (scheme, rest) = text.split_once(':').ok_or(Rule::Syntax)?;
    let scheme_like = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !scheme_like {
        return Err(Rule::Syntax);
    }
    let allowed = scheme.eq_ignore_ascii_case("https") || (policy.allow_http && scheme.eq_ignore_ascii_case("http"));
    if !allowed {
        return Err(Rule::Scheme);
    }
    let rest = rest.strip_prefix("//").ok_or(Rule::Syntax)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(Rule::Credentials);
    }
    if text.contains('#') {
        return Err(Rule::Fragment);
    }
    if authority.is_empty() {
        return Err(Rule::Syntax);
    }
    if authority.contains('%') {
        return Err(Rule::HostSpelling);
    }
    Ok(authority)
}

fn without_port(authority: &str) -> &str {
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Whether the host was written as it is: each label the same but for case, or an international one that became an
/// `xn--` label (RFC 5891). A full-width or circled spelling of plain letters or of a dot is neither.
fn is_plain_spelling(written: &str, parsed: &str) -> bool {
    let mut written = written.split('.');
    let mut parsed = parsed.split('.');
    loop {
        match (written.next(), parsed.next()) {
            (None, None) => return true,
            (Some(w), Some(p)) if w.is_ascii() => {
                if !w.eq_ignore_ascii_case(p) {
                    return false;
                }
            }
            (Some(_), Some(p)) => {
                if !p.starts_with("xn--") {
                    return false;
                }
            }
            (None, Some(_)) | (Some(_), None) => return false,
        }
    }
}

fn unnamed(rule: Rule) -> Refusal {
    Refusal { rule, subject: "URL".to_owned() }
}
