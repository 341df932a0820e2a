//! What is wrong with a request: which field, and which limit it breaks. All of it is collected, not only the first.

use std::fmt;

/// A field that breaks a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Violation {
    /// Its path in the request, such as `endpoint.event_types[2]`.
    pub field: String,
    /// The limit, in words that continue the field's name.
    pub description: String,
}

impl Violation {
    /// The field breaks a limit.
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }

    /// The same, of a field inside `parent`: `url` within `endpoint` is `endpoint.url`.
    #[must_use]
    pub fn within(self, parent: impl fmt::Display) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }

    /// The same, of the field with this path.
    #[must_use]
    pub fn at(self, field: impl Into<String>) -> Self {
        Self { field: field.into(), ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.description)
    }
}

/// Collects every violation of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes one.
    pub fn push(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.0.push(Violation::new(field, description));
    }

    /// The value if it keeps its limit; else the violation is noted.
    pub fn check<T>(&mut self, checked: Result<T, Violation>) -> Option<T> {
        checked.map_err(|violation| self.0.push(violation)).ok()
    }

    /// The value if it keeps all of its limits; else the violations are noted.
    pub fn check_all<T>(&mut self, checked: Result<T, Vec<Violation>>) -> Option<T> {
        checked.map_err(|violations| self.0.extend(violations)).ok()
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that was noted, in the order of the checks.
    pub fn into_vec(self) -> Vec<Violation> {
        self.0
    }

    /// The value if nothing was noted. `None` stands for a value whose making was noted.
    ///
    /// # Errors
    /// Everything that was noted.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Vec<Violation>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            Some(_) | None => Err(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_is_kept_with_its_path() {
        let mut violations = Violations::new();
        assert_eq!(violations.check(Ok(1)), Some(1));
        assert_eq!(violations.check::<u8>(Err(Violation::new("url", "must be https").within("endpoint"))), None);
        violations.push("timeout", "must be 100 ms–30 s");
        assert_eq!(violations.check_all::<u8>(Err(vec![Violation::new("x", "is odd").at("y[1]")])), None);
        let all: Vec<String> = violations.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(all, ["endpoint.url: must be https", "timeout: must be 100 ms–30 s", "y[1]: is odd"]);
    }

    #[test]
    fn a_value_comes_out_only_when_nothing_is_wrong() {
        assert_eq!(Violations::new().finish(Some(1)), Ok(1));
        let mut violations = Violations::new();
        violations.push("x", "is odd");
        assert_eq!(violations.clone().finish(Some(1)).unwrap_err().len(), 1);
        assert_eq!(violations.finish::<u8>(None).unwrap_err().len(), 1);
    }
}
