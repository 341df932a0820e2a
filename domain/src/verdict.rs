//! What an outcome means for the delivery.
//!
//! | outcome | verdict |
//! |---|---|
//! | 200–299 | succeeded |
//! | a status that the endpoint lists as permanent | refused by receiver |
//! | 410 | gone |
//! | 429; 503 with a valid Retry-After | throttled |
//! | 502, 504, timeout | overloaded |
//! | any other status; DNS, connect, TLS, reset, protocol error | failed |
//! | address policy, configuration, payload | refused by us |
//! | a reused connection broke before a byte came | stale connection |
//! | the lease ended without a report | lost |
//!
//! A listed status goes before its usual meaning, so that a receiver which answers 410 for one resource can keep its
//! endpoint enabled. A success can't be listed.

use crate::attempt::Outcome;

/// What an attempt's outcome means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// The receiver took it.
    Succeeded,
    /// The receiver wants nothing more at this URL (RFC 9110, section 15.5.11).
    Gone,
    /// The receiver asks for a lower rate (RFC 6585, section 4).
    Throttled,
    /// The receiver, or a proxy before it, can't keep up.
    Overloaded,
    /// It did not work and may work later.
    Failed,
    /// The receiver will never take it.
    RefusedByReceiver,
    /// We will never send it.
    RefusedByUs,
    /// The receiver had closed a connection that we meant to use again.
    StaleConnection,
    /// Nobody knows.
    Lost,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 9] = [
        Self::Succeeded,
        Self::Gone,
        Self::Throttled,
        Self::Overloaded,
        Self::Failed,
        Self::RefusedByReceiver,
        Self::RefusedByUs,
        Self::StaleConnection,
        Self::Lost,
    ];

    /// Its name in the database and in the API; never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::Overloaded => "overloaded",
            Self::Failed => "failed",
            Self::RefusedByReceiver => "refused_by_receiver",
            Self::RefusedByUs => "refused_by_us",
            Self::StaleConnection => "stale_connection",
            Self::Lost => "lost",
        }
    }

    /// The verdict with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == name)
    }
}

/// What `outcome` means, by the table above. `status` counts only when answered; an answer without one is a failure.
/// `hinted`: the answer carried a valid Retry-After. `permanent_statuses` are the endpoint's.
pub fn judge(outcome: Outcome, status: Option<u16>, hinted: bool, permanent_statuses: &[u16]) -> Verdict {
    match outcome {
        Outcome::Answered => status.map_or(Verdict::Failed, |status| judge_status(status, hinted, permanent_statuses)),
        Outcome::Timeout => Verdict::Overloaded,
        Outcome::DnsFailed
        | Outcome::ConnectFailed
        | Outcome::TlsFailed
        | Outcome::ConnectionLost
        | Outcome::ProtocolError
        | Outcome::HeadersTooLarge
        | Outcome::InformationalFlood => Verdict::Failed,
        Outcome::StaleConnection => Verdict::StaleConnection,
        Outcome::RefusedAddress | Outcome::RefusedConfig | Outcome::RefusedPayload => Verdict::RefusedByUs,
        Outcome::Lost => Verdict::Lost,
    }
}

fn judge_status(status: u16, hinted: bool, permanent_statuses: &[u16]) -> Verdict {
    match status {
        200..=299 => Verdict::Succeeded,
        listed if permanent_statuses.contains(&listed) => Verdict::RefusedByReceiver,
        410 => Verdict::Gone,
        429 => Verdict::Throttled,
        503 if hinted => Verdict::Throttled,
        502 | 504 => Verdict::Overloaded,
        _ => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_values() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::parse(verdict.as_str()), Some(verdict));
        }
        assert_eq!(Verdict::parse("fail"), None);
    }

    #[test]
    fn each_status_has_its_verdict() {
        let check = |status, hinted, expected| {
            assert_eq!(judge(Outcome::Answered, Some(status), hinted, &[]), expected, "{status} hinted: {hinted}");
        };
        for status in 0..=u16::MAX {
            for hinted in [false, true] {
                check(
                    status,
                    hinted,
                    match (status, hinted) {
                        (200..=299, _) => Verdict::Succeeded,
                        (410, _) => Verdict::Gone,
                        (429, _) | (503, true) => Verdict::Throttled,
                        (502 | 504, _) => Verdict::Overloaded,
                        _ => Verdict::Failed,
                    },
                );
            }
        }
        for status in
            [100, 101, 103, 199, 300, 301, 304, 307, 308, 400, 401, 404, 408, 425, 500, 501, 503, 599, 600, 999]
        {
            check(status, false, Verdict::Failed);
        }
    }

    #[test]
    fn a_listed_status_is_final_whatever_else_it_means() {
        for status in [302, 400, 410, 429, 502, 503, 599] {
            assert_eq!(judge(Outcome::Answered, Some(status), true, &[status]), Verdict::RefusedByReceiver);
        }
        assert_eq!(judge(Outcome::Answered, Some(204), true, &[204]), Verdict::Succeeded);
        assert_eq!(judge(Outcome::Timeout, Some(400), true, &[400]), Verdict::Overloaded);
    }

    #[test]
    fn each_outcome_without_an_answer_has_its_verdict() {
        let expected = [
            Verdict::Failed,
            Verdict::Overloaded,
            Verdict::Failed,
            Verdict::Failed,
            Verdict::Failed,
            Verdict::Failed,
            Verdict::StaleConnection,
            Verdict::Failed,
            Verdict::Failed,
            Verdict::Failed,
            Verdict::RefusedByUs,
            Verdict::RefusedByUs,
            Verdict::RefusedByUs,
            Verdict::Lost,
        ];
        for (outcome, expected) in Outcome::ALL.into_iter().zip(expected) {
            assert_eq!(judge(outcome, None, false, &[]), expected, "{outcome:?}");
        }
    }
}
