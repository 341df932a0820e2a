//! What a receiver says that it still takes: the `RateLimit` and `RateLimit-Policy` fields of the IETF draft
//! "RateLimit header fields for HTTP" (draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4).
//!
//! A soft hint: it slows an endpoint's lane before the receiver has to answer 429, and never ends or delays a delivery by
//! itself for longer than [`RESET_MAX`]. What isn't of the draft's form says nothing.

use std::time::Duration;

use sfv::{BareItem, Item, List, ListEntry, Parser};

/// A hint is obeyed for at most this long: 60 s. Then the next answer tells.
pub const RESET_MAX: Duration = Duration::from_secs(60);

/// So many more requests until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Requests that the receiver will still take.
    pub remaining: u32,
    /// From the answer until more are taken; not more than [`RESET_MAX`].
    pub reset: Duration,
}

/// What the lines of both fields say together: of several policies the one that leaves least, for the longest. Where an
/// item of `RateLimit` has no `t`, the window `w` of the policy with its name takes its place.
pub fn parse<B: AsRef<[u8]>>(limits: &[B], policies: &[B]) -> Option<Quota> {
    let policies = items(policies);
    let window =
        |name: &BareItem| policies.iter().find(|policy| policy.bare_item == *name).and_then(|p| natural(p, "w"));
    let quota = |item: &Item| {
        let remaining = u32::try_from(natural(item, "r")?).unwrap_or(u32::MAX);
        let reset = natural(item, "t").or_else(|| window(&item.bare_item))?;
        Some(Quota { remaining, reset: Duration::from_secs(reset).min(RESET_MAX) })
    };
    let quotas = items(limits).into_iter().filter_map(|item| quota(&item)).filter(|quota| !quota.reset.is_zero());
    quotas.min_by_key(|quota| (quota.remaining, std::cmp::Reverse(quota.reset)))
}

/// The named items of a list that may stand in several lines (RFC 9651, section 4.2); none if any line is broken.
fn items<B: AsRef<[u8]>>(lines: &[B]) -> Vec<Item> {
    let lines: Vec<&[u8]> = lines.iter().map(AsRef::as_ref).collect();
    let Ok(list) = Parser::new(&lines.join(&b","[..])).parse::<List>() else { return Vec::new() };
    let item = |entry| match entry {
        ListEntry::Item(item) if matches!(item.bare_item, BareItem::String(_)) => Some(item),
        ListEntry::Item(_) | ListEntry::InnerList(_) => None,
    };
    list.into_iter().filter_map(item).collect()
}

fn natural(item: &Item, parameter: &str) -> Option<u64> {
    let number = item.params.get(parameter)?.as_integer()?;
    u64::try_from(i64::from(number)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn says(limits: &[&str], policies: &[&str]) -> Option<(u32, u64)> {
        parse(limits, policies).map(|quota| (quota.remaining, quota.reset.as_secs()))
    }

    #[test]
    fn the_draft_s_fields_are_read() {
        assert_eq!(says(&[r#""default";r=50;t=30"#], &[]), Some((50, 30)));
        assert_eq!(says(&[r#""day";r=0;t=3600"#], &[]), Some((0, 60)), "a soft hint is obeyed for a minute at most");
        assert_eq!(says(&[r#""a";r=5;t=10, "b";r=2;t=40"#], &[]), Some((2, 40)), "the one that leaves least");
        assert_eq!(says(&[r#""a";r=0;t=10"#, r#""b";r=0;t=40"#], &[]), Some((0, 40)), "for the longest, over lines");
        assert_eq!(says(&[r#""default";r=9;pk=:cHNlYw==:;t=7"#], &[]), Some((9, 7)));
        assert_eq!(says(&[r#""x";r=3"#], &[r#""y";q=1;w=5, "x";q=100;w=20"#]), Some((3, 20)), "the policy's window");
        assert_eq!(says(&[r#""x";r=99999999999;t=1"#], &[]), Some((u32::MAX, 1)));
    }

    #[test]
    fn anything_else_says_nothing() {
        for line in [
            "",
            "limit=100, remaining=50, reset=5",
            "100;w=60",
            r#""a";r=-1;t=5"#,
            r#""a";r=1.5;t=5"#,
            r#""a";t=5"#,
            r#""a";r=5"#,
            r#""a";r=5;t=0"#,
            r#""a;r=5;t=1"#,
            r#"("a" "b");r=1;t=1"#,
            r#"a;r=1;t=1"#,
            "\u{e9}",
            r#""a";r=1;t=1, !"#,
        ] {
            assert_eq!(says(&[line], &[]), None, "{line}");
        }
        assert_eq!(says(&[], &[r#""x";q=100;w=20"#]), None, "a policy alone doesn't tell how much of it is used");
    }

    proptest! {
        #[test]
        fn every_line_is_read_or_ignored(lines: Vec<Vec<u8>>, policies: Vec<Vec<u8>>) {
            prop_assert!(parse(&lines, &policies).is_none_or(|quota| quota.reset <= RESET_MAX));
        }
    }
}
