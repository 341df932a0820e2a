//! What happened, as the invariants want it, and what is judged as it happens.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{
    id::{AccountNumber, DeliveryId, EndpointNumber, LeaseId},
    invariant::{self, Attempt, Delivery, Grant, History, Hold, Place, Receipt, Violation},
    scheduler::{AccountLimits, LaneConfig, Reason},
};

use crate::rate::{Limit, WINDOW_US};

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) history: History,
    pub(crate) found: Vec<Violation>,
    /// How often each reason was given.
    pub(crate) reasons: BTreeMap<Reason, u64>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) receipts: Vec<Receipt>,
    open: BTreeMap<(LeaseId, DeliveryId), usize>,
    claimed: BTreeSet<(LeaseId, DeliveryId)>,
    accounts: BTreeMap<AccountNumber, (AccountLimits, Limit)>,
    endpoints: BTreeMap<EndpointNumber, (LaneConfig, Limit)>,
    held_until_us: BTreeMap<EndpointNumber, i64>,
    emitted: usize,
    ended: usize,
}

impl Record {
    pub(crate) fn violation(&mut self, invariant: &'static str, detail: String) {
        self.found.push(Violation { invariant, detail });
    }

    pub(crate) fn account(&mut self, account: AccountNumber, limits: AccountLimits, now_us: i64) {
        let (known, limit) = self.accounts.entry(account).or_insert_with(|| (limits, Limit::default()));
        *known = limits;
        limit.change(limits.rate, now_us);
    }

    pub(crate) fn endpoint(&mut self, config: LaneConfig, now_us: i64) {
        let (known, limit) = self.endpoints.entry(config.endpoint).or_insert_with(|| (config, Limit::default()));
        *known = config;
        limit.change(config.rate, now_us);
    }

    pub(crate) fn emitted(&mut self, delivery: DeliveryId, account: AccountNumber, due_us: i64) {
        self.emitted += 1;
        self.history.events.push(invariant::Event {
            event: delivery.event(),
            account,
            key: None,
            fingerprint: None,
            payload_hash: [0; 32],
            delivery_count: 1,
            targets: None,
            due_us,
            payload_delete_us: None,
        });
    }

    /// A grant, judged: due, not held, and within the room that is allowed at this moment.
    pub(crate) fn granted(&mut self, grant: Grant, due_us: i64) {
        let (config, account) = self.owner_of(grant.endpoint);
        let now_us = grant.at_us;
        if due_us > now_us {
            self.violation("never_early", format!("{} was granted {} µs early", grant.delivery, due_us - now_us));
        }
        let held = self.hold_us(&config);
        if held > now_us {
            let detail = format!("{} was granted {} µs before a hold's end", grant.delivery, held - now_us);
            self.violation("hold_obeyed", detail);
        }
        if self.open.keys().any(|(_, delivery)| *delivery == grant.delivery) {
            self.violation("one_live_lease", format!("{} was granted while it was in flight", grant.delivery));
        }
        self.open.insert((grant.lease, grant.delivery), self.grants.len());
        let endpoint = grant.endpoint;
        self.grants.push(grant);
        let in_flight = self.in_flight(endpoint);
        if in_flight > config.max_in_flight {
            let detail = format!("endpoint {endpoint} had {in_flight} in flight of {}", config.max_in_flight);
            self.violation("room_never_exceeded", detail);
        }
        let of_account = self.in_flight_of(config.account);
        if account.max_in_flight.is_some_and(|most| of_account > most) {
            let detail = format!("account {} had {of_account} in flight of {account:?}", config.account);
            self.violation("room_never_exceeded", detail);
        }
    }

    /// A grant was stored; one that never was is no right to anything.
    pub(crate) fn claimed(&mut self, lease: LeaseId, delivery: DeliveryId) {
        self.claimed.insert((lease, delivery));
    }

    /// A grant ended: settled, returned, missed or expired.
    pub(crate) fn ended(&mut self, lease: LeaseId, delivery: DeliveryId, now_us: i64) {
        if let Some(index) = self.open.remove(&(lease, delivery)) {
            self.grants[index].end_us = Some(now_us);
        }
    }

    /// Grants that are not in `known` leases end: whoever made them died first.
    pub(crate) fn end_unknown(&mut self, known: impl Fn(LeaseId, DeliveryId) -> bool, now_us: i64) {
        let unknown: Vec<_> = self.open.keys().filter(|(lease, delivery)| !known(*lease, *delivery)).copied().collect();
        for (lease, delivery) in unknown {
            self.ended(lease, delivery, now_us);
        }
    }

    /// Who got this grant.
    pub(crate) fn agent_of(&self, pair: (LeaseId, DeliveryId)) -> String {
        let grant = self.grants.iter().rev().find(|grant| (grant.lease, grant.delivery) == pair);
        grant.map(|grant| grant.agent.clone()).unwrap_or_default()
    }

    /// A request goes over the wire.
    pub(crate) fn sent(
        &mut self,
        endpoint: EndpointNumber,
        delivery: DeliveryId,
        number: u32,
        granted_us: i64,
        now_us: i64,
    ) {
        let account = self.owner_of(endpoint).0.account;
        let mut found = Vec::new();
        if let Some((_, limit)) = self.endpoints.get_mut(&endpoint) {
            found.extend(limit.request(&format!("endpoint {endpoint}"), granted_us, now_us));
        }
        if let Some((_, limit)) = self.accounts.get_mut(&account) {
            found.extend(limit.request(&format!("account {account}"), granted_us, now_us));
        }
        self.found.extend(found);
        let webhook_id = delivery.event().to_string();
        self.receipts.push(Receipt { endpoint, webhook_id, number, body_hash: [0; 32], at_us: now_us, status: None });
    }

    pub(crate) fn answered(&mut self, receipt: usize, status: Option<u16>) {
        self.receipts[receipt].status = status;
    }

    pub(crate) fn attempt(&mut self, attempt: Attempt) {
        self.history.attempts.push(attempt);
    }

    pub(crate) fn finished(&mut self, delivery: DeliveryId, endpoint: EndpointNumber, place: Place) {
        self.ended += 1;
        self.history.deliveries.push(Delivery { delivery, endpoint, generation: Some(1), place });
    }

    pub(crate) fn held(&mut self, endpoint: EndpointNumber, of_account: bool, now_us: i64, until_us: i64) {
        let account = self.owner_of(endpoint).0.account;
        let held = self.endpoints.values().map(|(config, _)| *config);
        let held = held.filter(|c| if of_account { c.account == account } else { c.endpoint == endpoint });
        let holds: Vec<Hold> = held.map(|c| Hold { endpoint: c.endpoint, from_us: now_us, until_us }).collect();
        for hold in &holds {
            let stands = self.held_until_us.entry(hold.endpoint).or_insert(until_us);
            *stands = until_us.max(*stands);
        }
        self.history.holds.extend(holds);
    }

    /// When the last hold of an endpoint or of its account ends.
    pub(crate) fn hold_us(&self, config: &LaneConfig) -> i64 {
        self.held_until_us.get(&config.endpoint).copied().unwrap_or(i64::MIN)
    }

    pub(crate) fn in_flight(&self, endpoint: EndpointNumber) -> u32 {
        self.open.values().filter(|index| self.grants[**index].endpoint == endpoint).count() as u32
    }

    pub(crate) fn in_flight_of(&self, account: AccountNumber) -> u32 {
        let of = |endpoint| self.endpoints.get(&endpoint).is_some_and(|(config, _)| config.account == account);
        self.open.values().filter(|index| of(self.grants[**index].endpoint)).count() as u32
    }

    fn owner_of(&self, endpoint: EndpointNumber) -> (LaneConfig, AccountLimits) {
        let config = self.endpoints[&endpoint].0;
        (config, self.accounts[&config.account].0)
    }

    /// Nothing is lost and nothing is double: what was emitted is unfinished or has ended.
    pub(crate) fn account_for(&mut self, unfinished: usize) {
        if unfinished + self.ended != self.emitted {
            let detail = format!("{} emitted, {unfinished} unfinished, {} ended", self.emitted, self.ended);
            self.violation("accounted", detail);
        }
    }

    /// Judges the whole run by every invariant. Limits that changed are left to what was judged on the way.
    pub(crate) fn close(&mut self) {
        for (account, (limits, limit)) in &self.accounts {
            let rate = limits.rate.filter(|_| limit.is_constant()).map(|(rate_per_second, burst)| {
                invariant::RateLimit { rate_per_second, burst, start_window_us: WINDOW_US.unsigned_abs() }
            });
            self.history.accounts.push(invariant::Account { account: *account, rate, max_in_flight: None });
        }
        for (config, _) in self.endpoints.values() {
            self.history.endpoints.push(invariant::Endpoint {
                endpoint: config.endpoint,
                account: config.account,
                max_in_flight: u32::MAX,
                start_window_us: WINDOW_US.unsigned_abs(),
            });
        }
        let mut grants = std::mem::take(&mut self.grants);
        grants.retain(|grant| self.claimed.contains(&(grant.lease, grant.delivery)));
        self.history.grants = Some(grants);
        self.history.receipts = Some(std::mem::take(&mut self.receipts));
        self.history.at_rest = true;
        self.found.extend(invariant::check(&self.history));
    }
}
