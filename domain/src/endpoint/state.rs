//! Whether an endpoint gets deliveries.

use crate::delivery::DisabledReason;

/// Whether an endpoint gets deliveries. Pausing is something else: it delays them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It gets those that its filter wants.
    Enabled,
    /// It gets none, for this reason.
    Disabled(DisabledReason),
}

impl State {
    /// Its name in the database and in the API; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled(_) => "disabled",
        }
    }

    /// The state with this name and reason; none when they don't go together.
    pub fn parse(name: &str, reason: Option<DisabledReason>) -> Option<Self> {
        let state = reason.map_or(Self::Enabled, Self::Disabled);
        (state.as_str() == name).then_some(state)
    }

    /// Whether it gets deliveries.
    pub const fn is_enabled(self) -> bool {
        matches!(self, Self::Enabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_exactly_when_it_is_disabled() {
        for state in [State::Enabled, State::Disabled(DisabledReason::Gone)] {
            let reason = if let State::Disabled(reason) = state { Some(reason) } else { None };
            assert_eq!(State::parse(state.as_str(), reason), Some(state));
        }
        assert_eq!(State::parse("disabled", None), None);
        assert_eq!(State::parse("enabled", Some(DisabledReason::Requested)), None);
        assert!(State::Enabled.is_enabled() && !State::Disabled(DisabledReason::Failing).is_enabled());
    }
}
