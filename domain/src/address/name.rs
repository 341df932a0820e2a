//! Host names: which can stand in the public DNS, and which mean something local.

use super::Rule;

const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Names, and everything below them, that never lead to a public receiver: special-use domains (RFC 6761, RFC 6762,
/// RFC 7686, RFC 8375, RFC 9476), ICANN's private-use and collision names, and those that clusters and routers give.
const LOCAL: &[&str] = &[
    "alt",
    "consul",
    "corp",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "mail",
    "onion",
    "private",
    "svc",
    "test",
];

/// What is wrong with this name; `name` is lower-case ASCII as the URL parser gives it.
pub(super) fn check(name: &str) -> Result<(), Rule> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.len() > NAME_BYTES_MAX || !name.split('.').all(label) {
        return Err(Rule::HostName);
    }
    // A single label resolves through a search list, that is, inside the network here.
    let local = LOCAL
        .iter()
        .any(|local| name.strip_suffix(local).is_some_and(|before| before.is_empty() || before.ends_with('.')));
    if local || !name.contains('.') { Err(Rule::LocalName) } else { Ok(()) }
}
