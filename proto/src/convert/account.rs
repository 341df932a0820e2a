//! Requests of AccountService, checked, and accounts for the wire.

use posthaste_domain::{
    account::{AccountId, DisplayName, RateLimit, ThrottleScope, parse_max_in_flight, parse_weight},
    settings::AccountSettings,
    violation::{Violation, Violations},
};

use super::{check_mask, named, schedule, schedule_to_wire, within};
use crate::v1;

const PARENT: &str = "account";
const CHANGEABLE: [&str; 7] =
    ["display_name", "rate_per_second", "burst", "max_in_flight", "schedule", "weight", "throttle_scope"];

/// A checked `CreateAccountRequest`.
#[derive(Clone, Debug)]
pub struct CreateAccount {
    /// Its id; none: one is made.
    pub account_id: Option<AccountId>,
    /// What it begins with.
    pub settings: AccountSettings,
    /// Whether it begins paused.
    pub paused: bool,
}

/// Checks a `CreateAccountRequest`.
///
/// # Errors
/// Every violation.
pub fn create_account(request: &v1::CreateAccountRequest) -> Result<CreateAccount, Vec<Violation>> {
    let Some(account) = &request.account else { return Err(vec![missing()]) };
    let mut violations = Violations::new();
    let account_id = (!account.account_id.is_empty())
        .then(|| violations.check(AccountId::parse(&account.account_id).map_err(|v| v.within(PARENT))))
        .flatten();
    let settings = violations.check_all(settings(account).map_err(|all| within(PARENT, all)));
    violations.finish(settings.map(|settings| CreateAccount { account_id, settings, paused: account.paused }))
}

/// The account that an `UpdateAccountRequest` is about, once the request is in form: its mask names only fields that can
/// be changed. Their values are checked by [`apply_update`].
///
/// # Errors
/// Every violation.
pub fn update_target(request: &v1::UpdateAccountRequest) -> Result<AccountId, Vec<Violation>> {
    let Some(account) = &request.account else { return Err(vec![missing()]) };
    let mut violations = Violations::new();
    let id = violations.check(AccountId::parse(&account.account_id).map_err(|v| v.within(PARENT)));
    check_mask(&mut violations, request.update_mask.as_ref(), &CHANGEABLE);
    violations.finish(id)
}

/// The present settings with what the request changes, checked as a whole: rate and burst depend on each other.
///
/// # Errors
/// Every violation.
pub fn apply_update(
    present: &AccountSettings,
    request: &v1::UpdateAccountRequest,
) -> Result<AccountSettings, Vec<Violation>> {
    let Some(wanted) = &request.account else { return Err(vec![missing()]) };
    let mask = request.update_mask.as_ref();
    let mut merged = settings_to_wire(present);
    if named(mask, "display_name") {
        merged.display_name.clone_from(&wanted.display_name);
    }
    if named(mask, "rate_per_second") {
        merged.rate_per_second = wanted.rate_per_second;
        // A burst that was only kept goes with the rate it belonged to.
        if wanted.rate_per_second.is_none() {
            merged.burst = None;
        }
    }
    if named(mask, "burst") {
        merged.burst = wanted.burst;
    }
    if named(mask, "max_in_flight") {
        merged.max_in_flight = wanted.max_in_flight;
    }
    if named(mask, "schedule") {
        merged.schedule.clone_from(&wanted.schedule);
    }
    if named(mask, "weight") {
        merged.weight = wanted.weight;
    }
    if named(mask, "throttle_scope") {
        merged.throttle_scope = wanted.throttle_scope;
    }
    settings(&merged).map_err(|all| within(PARENT, all))
}

/// The account that a request names.
///
/// # Errors
/// That it breaks the limits of an id.
pub fn account_name(account_id: &str) -> Result<AccountId, Vec<Violation>> {
    AccountId::parse(account_id).map_err(|violation| vec![violation])
}

/// The settings as fields of the message; the rest of it is empty.
pub fn settings_to_wire(settings: &AccountSettings) -> v1::Account {
    v1::Account {
        display_name: settings.display_name.as_str().to_owned(),
        rate_per_second: settings.rate.map(RateLimit::per_second),
        burst: settings.rate.map(RateLimit::burst),
        max_in_flight: settings.max_in_flight,
        schedule: settings.schedule.as_ref().map(schedule_to_wire),
        weight: Some(settings.weight),
        throttle_scope: scope_to_wire(settings.throttle_scope).into(),
        ..v1::Account::default()
    }
}

fn settings(account: &v1::Account) -> Result<AccountSettings, Vec<Violation>> {
    let mut violations = Violations::new();
    let display_name = violations.check(DisplayName::parse(&account.display_name));
    let rate = violations.check_all(RateLimit::parse(account.rate_per_second, account.burst));
    let max_in_flight = violations.check(account.max_in_flight.map(parse_max_in_flight).transpose());
    let schedule = violations.check_all(account.schedule.as_ref().map(schedule).transpose());
    let weight = violations.check(parse_weight(account.weight));
    let throttle_scope = violations.check(scope(account.throttle_scope));
    let whole = || {
        Some(AccountSettings {
            weight: weight?,
            throttle_scope: throttle_scope?,
            display_name: display_name?,
            rate: rate?,
            max_in_flight: max_in_flight?,
            schedule: schedule?,
        })
    };
    let whole = whole();
    violations.finish(whole)
}

fn scope(wire: i32) -> Result<ThrottleScope, Violation> {
    match v1::account::ThrottleScope::try_from(wire) {
        Ok(v1::account::ThrottleScope::Unspecified | v1::account::ThrottleScope::Endpoint) => {
            Ok(ThrottleScope::Endpoint)
        }
        Ok(v1::account::ThrottleScope::Account) => Ok(ThrottleScope::Account),
        Err(_) => Err(Violation::new("throttle_scope", "must be `ENDPOINT` or `ACCOUNT`")),
    }
}

fn scope_to_wire(scope: ThrottleScope) -> v1::account::ThrottleScope {
    match scope {
        ThrottleScope::Endpoint => v1::account::ThrottleScope::Endpoint,
        ThrottleScope::Account => v1::account::ThrottleScope::Account,
    }
}

fn missing() -> Violation {
    Violation::new(PARENT, "must be set")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(violations: Vec<Violation>) -> Vec<String> {
        violations.iter().map(ToString::to_string).collect()
    }

    fn update(account: v1::Account, paths: &[&str]) -> v1::UpdateAccountRequest {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        v1::UpdateAccountRequest { account: Some(account), update_mask: Some(prost_types::FieldMask { paths }) }
    }

    #[test]
    fn every_violation_of_a_creation_is_found_at_once() {
        let account = v1::Account {
            account_id: " a".into(),
            display_name: "\n".into(),
            burst: Some(0),
            max_in_flight: Some(0),
            schedule: Some(v1::RetrySchedule::default()),
            ..v1::Account::default()
        };
        let request = v1::CreateAccountRequest { account: Some(account) };
        assert_eq!(
            texts(create_account(&request).unwrap_err()),
            [
                "account.account_id: must be 1–255 bytes of UTF-8 without control characters or outer white space",
                "account.display_name: must be at most 255 bytes of UTF-8 without control characters",
                "account.burst: must be 1–100,000",
                "account.burst: is only allowed together with `rate_per_second`",
                "account.max_in_flight: must be 1–10,000",
                "account.schedule.waits: must have 1–30 entries",
            ]
        );
        let nothing = v1::CreateAccountRequest { account: None };
        assert_eq!(texts(create_account(&nothing).unwrap_err()), ["account: must be set"]);
    }

    #[test]
    fn an_update_changes_what_its_mask_names_and_nothing_else() {
        let created = v1::Account { rate_per_second: Some(5.0), burst: Some(9), ..v1::Account::default() };
        let present = create_account(&v1::CreateAccountRequest { account: Some(created) }).unwrap().settings;
        let wanted = v1::Account { display_name: "Ann".into(), rate_per_second: Some(7.0), ..v1::Account::default() };
        let changed = apply_update(&present, &update(wanted.clone(), &["rate_per_second"])).unwrap();
        assert_eq!(changed.rate, RateLimit::parse(Some(7.0), Some(9)).unwrap());
        assert_eq!(changed.display_name.as_str(), "");
        let unlimited = apply_update(&present, &update(v1::Account::default(), &["rate_per_second"])).unwrap();
        assert_eq!(unlimited.rate, None);
        let burst = v1::Account { burst: Some(3), ..v1::Account::default() };
        assert_eq!(
            texts(apply_update(&unlimited, &update(burst, &["burst"])).unwrap_err()),
            ["account.burst: is only allowed together with `rate_per_second`"]
        );
    }

    #[test]
    fn a_mask_names_something_and_nothing_strange() {
        let account = v1::Account { account_id: "a".into(), ..v1::Account::default() };
        assert_eq!(
            texts(update_target(&update(account.clone(), &[])).unwrap_err()),
            ["update_mask: must name at least one field"]
        );
        let violations = texts(update_target(&update(account.clone(), &["display_name", "shard", ""])).unwrap_err());
        assert_eq!(violations.len(), 2);
        assert!(violations[0].starts_with("update_mask.paths[1]: must be one of `display_name`, `rate_per_second`"));
        assert_eq!(update_target(&update(account, &["schedule"])).unwrap().as_str(), "a");
    }
}
