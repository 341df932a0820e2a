//! Which events an endpoint wants.

use crate::event::EventType;

/// Whether an endpoint with this filter gets events of this type: exact types, compared byte by byte; an empty filter
/// wants every type.
pub fn matches(filter: &[EventType], event_type: &EventType) -> bool {
    filter.is_empty() || filter.contains(event_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_match_exactly_and_an_empty_filter_takes_all() {
        let check = |filter: &[&str], event_type: &str, expected| {
            let filter: Vec<EventType> = filter.iter().map(|text| EventType::parse(text).unwrap()).collect();
            assert_eq!(matches(&filter, &EventType::parse(event_type).unwrap()), expected, "{filter:?} {event_type}");
        };
        check(&[], "invoice.paid", true);
        check(&["invoice.paid"], "invoice.paid", true);
        check(&["invoice.paid", "invoice.void"], "invoice.void", true);
        check(&["invoice.paid"], "Invoice.paid", false);
        check(&["invoice"], "invoice.paid", false);
        check(&["invoice.paid"], "invoice", false);
        check(&["invoice."], "invoice.paid", false);
        check(&["a.b"], "a-b", false);
    }
}
