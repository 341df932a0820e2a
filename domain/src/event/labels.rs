//! Labels: what a producer wants to find again with its event.

use crate::{
    text::is_plain,
    violation::{Violation, Violations},
};

/// The most labels of an event.
pub const LABELS_MAX: usize = 16;
/// The most bytes of a label's key.
pub const LABEL_KEY_BYTES_MAX: usize = 64;
/// The most bytes of a label's value.
pub const LABEL_VALUE_BYTES_MAX: usize = 255;

/// An event's labels, in the order of their keys; each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// Checks labels in any order.
    ///
    /// # Errors
    /// Every limit that they break, in the order of their keys.
    pub fn parse<K: AsRef<str>, V: AsRef<str>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, Vec<Violation>> {
        let mut labels: Vec<(String, String)> =
            labels.into_iter().map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned())).collect();
        labels.sort();
        let mut violations = Violations::new();
        if labels.len() > LABELS_MAX {
            violations.push("labels", format!("has {} entries, at most {LABELS_MAX} are allowed", labels.len()));
            return violations.finish(None);
        }
        for (index, (key, value)) in labels.iter().enumerate() {
            let field = || format!("labels[{}]", shown(key));
            if key.len() > LABEL_KEY_BYTES_MAX || !is_plain(key) {
                violations
                    .push(field(), "must have a key of 1–64 bytes without control characters or outer white space");
            }
            if value.len() > LABEL_VALUE_BYTES_MAX || value.contains(char::is_control) {
                violations.push(field(), "must have a value of at most 255 bytes without control characters");
            }
            if index > 0 && labels[index - 1].0 == *key {
                violations.push(field(), "stands twice");
            }
        }
        violations.finish(Some(Self(labels)))
    }

    /// Keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Keys and values themselves.
    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A key for an error text, without what could spoil a terminal or a log, and bounded.
fn shown(key: &str) -> String {
    key.chars().take(LABEL_KEY_BYTES_MAX).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_out_sorted() {
        let labels = Labels::parse([("b", "2"), ("a", ""), ("ключ", "значение")]).unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", ""), ("b", "2"), ("ключ", "значение")]);
        assert_eq!(Labels::parse::<&str, &str>([]), Ok(Labels::default()));
        assert!(Labels::parse([("k".repeat(64), "v".repeat(255))]).is_ok());
    }

    #[test]
    fn each_limit_is_named() {
        let check = |key: &str, value: &str, description: &str| {
            let violations = Labels::parse([(key, value)]).unwrap_err();
            assert_eq!(violations[0].description, description, "{key:?} {value:?}");
        };
        let key = "must have a key of 1–64 bytes without control characters or outer white space";
        let value = "must have a value of at most 255 bytes without control characters";
        check("", "v", key);
        check(" k", "v", key);
        check("k\0", "v", key);
        check(&"k".repeat(65), "v", key);
        check("k", "v\0", value);
        check("k", &"v".repeat(256), value);
        assert_eq!(Labels::parse([("k", "1"), ("k", "2")]).unwrap_err(), [Violation::new("labels[k]", "stands twice")]);
        let many: Vec<(String, &str)> = (0..17).map(|n| (n.to_string(), "v")).collect();
        assert_eq!(Labels::parse(many).unwrap_err()[0].description, "has 17 entries, at most 16 are allowed");
    }
}
