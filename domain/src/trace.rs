//! Where in a trace something belongs (W3C Trace Context, level 1): the ids that travel with an event, from the Emit of its
//! producer to each attempt of its deliveries.
//!
//! Only sampled contexts are kept, so the flags need no place. Retries may come days after the first attempt, from another
//! agent; what they link to must be known without asking. So the first attempt's span has an id that follows from its
//! delivery's.

use std::fmt;

use crate::id::DeliveryId;

/// A trace and a span in it; neither id is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
}

/// What a `traceparent` header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The caller's span.
    pub context: TraceContext,
    /// Whether the caller records it.
    pub sampled: bool,
}

/// A trace's id, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

impl TraceContext {
    /// How many bytes it is kept in.
    pub const BYTES: usize = 24;

    /// From both ids; `None` if one is zero.
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8]) -> Option<Self> {
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Self { trace_id, span_id })
    }

    /// From 16 bytes of trace and 8 of span; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace_id, span_id) = bytes.split_first_chunk::<16>()?;
        Self::new(*trace_id, span_id.try_into().ok()?)
    }

    /// 16 bytes of trace and 8 of span.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (trace_id, span_id) = bytes.split_at_mut(16);
        trace_id.copy_from_slice(&self.trace_id);
        span_id.copy_from_slice(&self.span_id);
        bytes
    }

    /// The trace.
    pub fn trace_id(&self) -> TraceId {
        TraceId(self.trace_id)
    }

    /// The trace, as bytes.
    pub fn trace_bytes(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The span, as bytes.
    pub fn span_bytes(&self) -> [u8; 8] {
        self.span_id
    }

    /// The span of this delivery's first attempt, in the same trace.
    #[must_use]
    pub fn first_attempt(&self, delivery: DeliveryId) -> Self {
        let id = delivery.uuid().as_u128();
        let mixed = mix((id >> 64) as u64 ^ mix(id as u64));
        Self { span_id: mixed.max(1).to_be_bytes(), ..*self }
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Spreads every bit over all others (the finalizer of splitmix64); a permutation, so different numbers stay different.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Traceparent {
    /// Reads a header (W3C Trace Context, section 3.2); `None` if it is none. What a later version adds is passed over.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let [version] = hex(parts.next()?)?;
        let context = TraceContext::new(hex(parts.next()?)?, hex(parts.next()?)?)?;
        let [flags] = hex(parts.next()?)?;
        let is_whole = version != 0 || parts.next().is_none();
        (version != 0xff && is_whole).then_some(Self { context, sampled: flags & 1 == 1 })
    }
}

/// Exactly `N` bytes in lower case.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EventId, Shard};

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_as_the_standard_says() {
        let parsed = Traceparent::parse(HEADER).unwrap();
        assert!(parsed.sampled);
        assert_eq!(parsed.context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parsed.context.span_bytes(), 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
        assert!(!Traceparent::parse(&HEADER.replace("-01", "-00")).unwrap().sampled);
        assert!(Traceparent::parse(&HEADER.replace("-01", "-03")).unwrap().sampled, "other flags are passed over");
        assert!(Traceparent::parse(&format!("01{}-more", &HEADER[2..])).is_some(), "so is what a later version adds");
        for bad in [
            "",
            "00",
            &HEADER.to_uppercase(),
            &format!("{HEADER}-more"),
            &format!("ff{}", &HEADER[2..]),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Traceparent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_come_back_and_other_bytes_are_refused() {
        let context = Traceparent::parse(HEADER).unwrap().context;
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()), Some(context));
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()[1..]), None);
        assert_eq!(TraceContext::from_bytes(&[0; 24]), None);
        assert_eq!(TraceContext::from_bytes(&[]), None);
    }

    #[test]
    fn first_attempts_have_spans_of_their_own() {
        let context = Traceparent::parse(HEADER).unwrap().context;
        let event = EventId::mint(1_000, 7, Shard::new(3));
        let spans: std::collections::HashSet<_> =
            (1..=1_000).map(|ordinal| context.first_attempt(event.delivery(ordinal))).collect();
        assert_eq!(spans.len(), 1_000);
        assert!(spans.iter().all(|span| span.trace_id() == context.trace_id() && *span != context));
    }
}
