//! What a question about the backlog names.

use posthaste_domain::{
    account::AccountId,
    endpoint::EndpointId,
    violation::{Violation, Violations},
};

use crate::v1;

/// The account, and the endpoint if one is named.
///
/// # Errors
/// Every violation.
pub fn backlog_name(request: &v1::GetBacklogRequest) -> Result<(AccountId, Option<EndpointId>), Vec<Violation>> {
    let mut violations = Violations::new();
    let account = violations.check(AccountId::parse(&request.account_id));
    let endpoint = match request.endpoint_id.as_str() {
        "" => None,
        text => violations.check(EndpointId::parse(text)),
    };
    violations.finish(account.map(|account| (account, endpoint)))
}

/// Accounts of an overview, unless the request says how many.
const ACCOUNTS_DEFAULT: usize = 20;
/// The most that a request may ask for.
const ACCOUNTS_MAX: u32 = 1_000;

/// How many accounts an overview is to name.
///
/// # Errors
/// When it is too many.
pub fn accounts_max(request: &v1::GetOverviewRequest) -> Result<usize, Vec<Violation>> {
    match request.max_accounts {
        0 => Ok(ACCOUNTS_DEFAULT),
        max @ 1..=ACCOUNTS_MAX => Ok(max as usize),
        _ => Err(vec![Violation::new("max_accounts", "must be 0–1,000")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_name_is_told() {
        let request = v1::GetBacklogRequest { account_id: String::new(), endpoint_id: "a\nb".to_owned() };
        let violations: Vec<String> = backlog_name(&request).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(
            violations[0].starts_with("account_id: ") && violations[1].starts_with("endpoint_id: "),
            "{violations:?}"
        );
        let all = v1::GetBacklogRequest { account_id: "acme".to_owned(), endpoint_id: String::new() };
        assert!(backlog_name(&all).unwrap().1.is_none());
    }
}
