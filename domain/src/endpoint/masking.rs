//! What is shown of an endpoint's headers: they carry credentials, and whoever reads an endpoint must not get those back.

/// Stands in the place of what isn't shown.
pub const MASK: &str = "****";

/// Headers that describe the sender and admit nobody; their values are shown. Everything else may be a secret, whatever
/// it is called.
const SHOWN: [&str; 3] = ["accept", "accept-language", "user-agent"];

/// Schemes of credentials (RFC 9110, section 11.1) that are shown before the mask, so that people see the kind they set.
const SCHEMES: [&str; 5] = ["apikey", "basic", "bearer", "digest", "token"];

/// The value as it may be shown, such as `Bearer ****`. An empty one hides nothing and stays empty.
pub fn masked(name: &str, value: &str) -> String {
    if value.is_empty() || is_shown(name) {
        return value.to_owned();
    }
    match value.split_once(' ') {
        Some((scheme, _)) if is_scheme(scheme) => format!("{scheme} {MASK}"),
        Some(_) | None => MASK.to_owned(),
    }
}

/// Whether this is what [`masked`] gives instead of a value of this header.
pub(super) fn is_mask(name: &str, value: &str) -> bool {
    let rest = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme)).map_or(value, |(_, rest)| rest);
    rest == MASK && !is_shown(name)
}

fn is_shown(name: &str) -> bool {
    SHOWN.iter().any(|shown| name.eq_ignore_ascii_case(shown))
}

fn is_scheme(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::endpoint::Headers;

    #[test]
    fn credentials_are_masked_whatever_the_header_is_called() {
        let check = |name: &str, value: &str, expected: &str| assert_eq!(masked(name, value), expected, "{name}");
        check("Authorization", "Bearer abc", "Bearer ****");
        check("authorization", "basic dTpw", "basic ****");
        check("authorization", "abc def", "****");
        check("authorization", "Bearer", "****");
        check("Cookie", "session=1", "****");
        check("x-api-key", "k", "****");
        check("x-anything", "v", "****");
        check("x-empty", "", "");
        check("User-Agent", "shop/1", "shop/1");
    }

    #[test]
    fn a_mask_that_comes_back_keeps_what_is_stored() {
        let stored = Headers::parse([("Authorization", "Bearer abc"), ("X-Key", "k"), ("User-Agent", "u")]).unwrap();
        let update = |headers: &[(&str, &str)]| Headers::parse_update(headers.iter().copied(), &stored);
        let all: Vec<_> = stored.shown().collect();
        assert_eq!(
            update(&all.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>()).as_ref(),
            Ok(&stored)
        );
        let one = update(&[("x-key", "****"), ("X-New", "n")]).unwrap();
        assert_eq!(one.iter().collect::<Vec<_>>(), [("X-New", "n"), ("x-key", "k")]);
        let renewed = update(&[("X-Key", "k2"), ("User-Agent", "****")]).unwrap();
        assert_eq!(renewed.iter().collect::<Vec<_>>(), [("User-Agent", "****"), ("X-Key", "k2")]);
    }

    #[test]
    fn a_mask_of_nothing_is_refused() {
        let stored = Headers::parse([("Authorization", "Bearer abc")]).unwrap();
        let refused = |headers: &[(&str, &str)], stored: &Headers| {
            Headers::parse_update(headers.iter().copied(), stored).unwrap_err()[0].to_string()
        };
        let text = "is a mask, and no such value is stored under this name; give the value itself";
        assert_eq!(refused(&[("X-Key", "****")], &stored), format!("headers[X-Key]: {text}"));
        assert_eq!(refused(&[("Authorization", "Basic ****")], &stored), format!("headers[Authorization]: {text}"));
        assert_eq!(refused(&[("Authorization", "****")], &stored), format!("headers[Authorization]: {text}"));
        assert_eq!(refused(&[("X-Key", "Bearer ****")], &Headers::default()), format!("headers[X-Key]: {text}"));
    }

    proptest! {
        #[test]
        fn no_value_is_shown_and_every_shown_one_comes_back(name in "x-[a-z]{1,8}", value in "[!-~]([ -~]{0,30}[!-~])?") {
            let Ok(stored) = Headers::parse([(&name, &value)]) else { return Ok(()) };
            let shown = masked(&name, &value);
            prop_assert!(shown.ends_with(MASK) && is_mask(&name, &shown));
            // The longest scheme and the mask: the length of the value isn't shown either.
            prop_assert!(shown.len() <= 11);
            let secret = format!("~{value}~");
            let debug = format!("{:?}", Headers::parse([(&name, &secret)]).unwrap());
            prop_assert!(!debug.contains(&secret));
            prop_assert_eq!(Headers::parse_update([(&name, &shown)], &stored), Ok(stored));
        }
    }
}
