//! What texts from callers have in common: a length in bytes, and no character that hides.

/// The most bytes of an id, a key, a type or a name that a caller chooses.
pub(crate) const TEXT_BYTES_MAX: usize = 255;

/// What an id or key must be, continuing its field's name.
pub(crate) const PLAIN: &str = "must be 1–255 bytes of UTF-8 without control characters or outer white space";

/// Whether this can be an id or a key: 1–255 bytes, no control character (Unicode Cc), no white space (Unicode
/// White_Space) at either end.
pub(crate) fn is_plain(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control) && text.trim().len() == text.len()
}

/// Declares a checked text: `name`, its field, its rule, and what the rule says.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $rule:expr, $description:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Checks the text.
            ///
            /// # Errors
            /// The limit that it breaks.
            pub fn parse(text: &str) -> Result<Self, $crate::violation::Violation> {
                let rule: fn(&str) -> bool = $rule;
                if rule(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err($crate::violation::Violation::new($field, $description))
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text itself.
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::violation::Violation;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }
    };
}
pub(crate) use checked_text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_texts() {
        for good in ["a", "order-1", "a b", "a:b.c/d", "ключ", "🪝", "x\u{200b}y", &"a".repeat(255)] {
            assert!(is_plain(good), "{good:?}");
        }
        let long = format!("{}é", "a".repeat(254));
        for bad in ["", " a", "a ", "\u{3000}a", "a\u{a0}", "a\0b", "a\nb", "\u{7f}", "a\u{85}", &long] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }

    /// The database's `is_plain_id` lists these characters one by one; both must refuse the same.
    #[test]
    fn white_space_is_what_the_database_lists() {
        let outer =
            (0x20..=0x10_ffff).filter_map(char::from_u32).filter(|c| !c.is_control() && !is_plain(&format!("{c}x")));
        let listed = ['\u{20}', '\u{a0}', '\u{1680}'].into_iter().chain('\u{2000}'..='\u{200a}');
        assert!(outer.eq(listed.chain(['\u{2028}', '\u{2029}', '\u{202f}', '\u{205f}', '\u{3000}'])));
        let control = (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| !is_plain(&format!("x{c}x")));
        assert!(control.eq(('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}')));
    }
}
