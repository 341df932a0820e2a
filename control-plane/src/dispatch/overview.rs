//! How things stand, for whoever looks at all accounts at once.

use std::{collections::BTreeMap, sync::Arc};

use posthaste_domain::{account::RateLimit, scheduler::AccountFigures};
use posthaste_proto::{convert::time::timestamp_to_wire, v1};

use super::{Dispatcher, explain};
use crate::configs::AccountConfig;

impl Dispatcher {
    /// Takes time in proportion to what is remembered, and holds the lock meanwhile.
    pub(super) fn look_around(&self, accounts_max: usize) -> v1::Overview {
        let now = self.clock().moment();
        let (accounts, agents) = {
            let state = self.state();
            let mut agents: BTreeMap<String, u32> = BTreeMap::new();
            for session in state.sessions.values() {
                agents.entry(session.holder.agent_id.clone()).or_default();
            }
            for entry in state.leases.values() {
                let held = u32::try_from(entry.items.values().filter(|item| !item.met).count()).unwrap_or(u32::MAX);
                *agents.entry(entry.holder.agent_id.clone()).or_default() += held;
            }
            (state.scheduler.account_figures(now), agents)
        };
        v1::Overview {
            accounts: accounts.iter().filter_map(|figures| self.account_to_wire(figures)).take(accounts_max).collect(),
            agents: agents.into_iter().map(|(agent_id, in_flight)| v1::OverviewAgent { agent_id, in_flight }).collect(),
            settled_count: self.metrics().settled(),
            read_time: Some(timestamp_to_wire(now.database)),
        }
    }

    /// The accounts with a rate limit, their own or an endpoint's, that have deliveries due; at most so many.
    pub(crate) fn waiting_with_limits(&self, accounts_max: usize) -> Vec<Arc<AccountConfig>> {
        let figures = self.state().scheduler.account_figures(self.clock().moment());
        let due = figures.iter().filter(|figures| figures.due > 0);
        let known = due.filter_map(|figures| Some(self.configs().endpoint(figures.endpoint)?.account));
        let limited = |account: &Arc<AccountConfig>| {
            account.settings.rate.is_some() || account.endpoints.iter().any(|endpoint| endpoint.settings.rate.is_some())
        };
        known.filter(limited).take(accounts_max).collect()
    }

    /// None for an account whose configuration isn't remembered any more.
    fn account_to_wire(&self, figures: &AccountFigures) -> Option<v1::OverviewAccount> {
        let known = self.configs().endpoint(figures.endpoint)?;
        Some(v1::OverviewAccount {
            account_id: known.account.account_id.as_str().to_owned(),
            oldest_due_time: figures.oldest.map(|(due, _)| timestamp_to_wire(due)),
            reason: figures.oldest.map(|(_, reason)| explain::wire(reason)).unwrap_or_default().into(),
            due_count: figures.due as u64,
            at_least: figures.partial,
            endpoint_count: figures.lanes,
            in_flight: figures.in_flight,
            rate_per_second: known.account.settings.rate.map(RateLimit::per_second),
            hold_until_time: figures.held.map(timestamp_to_wire),
        })
    }
}
