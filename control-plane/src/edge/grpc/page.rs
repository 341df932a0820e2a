//! Pages: sizes and the opaque tokens that say where the next one begins.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use posthaste_domain::violation::Violation;
use uuid::Uuid;

use super::error::ApiError;

/// How many rows a page has when the request doesn't say.
pub(crate) const PAGE_SIZE_DEFAULT: u32 = 100;
/// The most rows of a page.
pub(crate) const PAGE_SIZE_MAX: u32 = 1_000;

/// Raised when the meaning of tokens changes, so that an old one is refused and not misread.
const VERSION: u8 = 1;

/// What a token belongs to: a token of one list isn't one of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Accounts,
    Endpoints,
    Events,
    Deliveries,
}

impl List {
    fn tag(self) -> u8 {
        match self {
            Self::Accounts => b'a',
            Self::Endpoints => b'e',
            Self::Events => b'v',
            Self::Deliveries => b'd',
        }
    }
}

/// What a request says about its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paging<K> {
    /// How many rows to read at most.
    pub(crate) size: u32,
    /// The last key of the page before.
    pub(crate) after: Option<K>,
}

/// The paging of a list whose keys are ids that callers chose.
pub(crate) fn keyed_by_text(list: List, size: u32, token: &str) -> Result<Paging<String>, Vec<Violation>> {
    paging(list, size, token, |key| String::from_utf8(key).ok())
}

/// The paging of a list whose keys are ids of ours.
pub(crate) fn keyed_by_uuid(list: List, size: u32, token: &str) -> Result<Paging<Uuid>, Vec<Violation>> {
    paging(list, size, token, |key| Uuid::from_slice(&key).ok())
}

/// The token of the page after `last`; empty when there is none.
pub(crate) fn text_token(list: List, last: Option<&str>) -> String {
    last.map(|last| token(list, last.as_bytes())).unwrap_or_default()
}

/// The token of the page after `last`; empty when there is none.
pub(crate) fn uuid_token(list: List, last: Option<Uuid>) -> String {
    last.map(|last| token(list, last.as_bytes())).unwrap_or_default()
}

/// Two checks of one request: both values, or the violations of both.
pub(crate) fn both<A, B>(
    first: Result<A, Vec<Violation>>,
    second: Result<B, Vec<Violation>>,
) -> Result<(A, B), ApiError> {
    match (first, second) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(mut violations), Err(more)) => {
            violations.extend(more);
            Err(ApiError::InvalidFields(violations))
        }
        (Err(violations), Ok(_)) | (Ok(_), Err(violations)) => Err(ApiError::InvalidFields(violations)),
    }
}

fn paging<K>(
    list: List,
    requested: u32,
    token: &str,
    parse: impl Fn(Vec<u8>) -> Option<K>,
) -> Result<Paging<K>, Vec<Violation>> {
    let mut violations = Vec::new();
    if requested > PAGE_SIZE_MAX {
        violations.push(Violation::new("page_size", format!("must be at most {PAGE_SIZE_MAX}")));
    }
    let after = if token.is_empty() { None } else { key(list, token).and_then(parse) };
    if after.is_none() && !token.is_empty() {
        violations.push(Violation::new("page_token", "is not a token that this list has answered"));
    }
    let size = if requested == 0 { PAGE_SIZE_DEFAULT } else { requested };
    if violations.is_empty() { Ok(Paging { size, after }) } else { Err(violations) }
}

fn token(list: List, key: &[u8]) -> String {
    let mut bytes = vec![VERSION, list.tag()];
    bytes.extend_from_slice(key);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn key(list: List, token: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let key = bytes.strip_prefix(&[VERSION, list.tag()])?;
    Some(key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_list_only() {
        let text = text_token(List::Accounts, Some("order-1 🙂"));
        let read = |list, token: &str| keyed_by_text(list, 0, token).map(|paging| paging.after);
        assert_eq!(read(List::Accounts, &text), Ok(Some("order-1 🙂".to_owned())));
        assert_eq!(read(List::Accounts, ""), Ok(None));
        let other_version = BASE64_URL_SAFE_NO_PAD.encode([2, b'a']);
        for (list, bad) in
            [(List::Endpoints, &text), (List::Accounts, &"%%%".to_owned()), (List::Accounts, &other_version)]
        {
            let fields: Vec<String> =
                read(list, bad).unwrap_err().into_iter().map(|violation| violation.field).collect();
            assert_eq!(fields, ["page_token"], "{bad}");
        }
        let id = Uuid::from_u128(7);
        assert_eq!(
            keyed_by_uuid(List::Events, 1_000, &uuid_token(List::Events, Some(id))),
            Ok(Paging { size: 1_000, after: Some(id) })
        );
        assert_eq!(uuid_token(List::Events, None), "");
    }

    #[test]
    fn a_page_that_is_too_large_and_a_bad_token_are_both_named() {
        let violations = keyed_by_uuid(List::Events, 1_001, "x").unwrap_err();
        assert_eq!(
            violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(),
            ["page_size", "page_token"]
        );
    }
}
