//! What `top` draws: a line of sums, two curves, the accounts, the agents.

use std::collections::VecDeque;

use posthaste_proto::v1::Overview;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Block, Paragraph, Row, Sparkline, Table},
};

use crate::output::{OVERVIEW_HEADINGS, overview_row, printable, since};

/// Looks that the curves go back.
const HISTORY_MAX: usize = 200;

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Screen {
    overview: Option<Overview>,
    /// Attempts settled in each second.
    settled_per_s: VecDeque<u64>,
    /// Age of the oldest due delivery, in milliseconds.
    oldest_ms: VecDeque<u64>,
    /// Why the last look failed.
    trouble: Option<String>,
}

impl Screen {
    /// Another look.
    pub(super) fn take(&mut self, overview: Overview) {
        if let Some(before) = &self.overview {
            let took = since(before.read_time, overview.read_time).unwrap_or_default().as_secs_f64();
            // Another replica may have answered, which counts for itself.
            let settled = overview.settled_count.saturating_sub(before.settled_count) as f64;
            if took > 0.0 {
                push(&mut self.settled_per_s, (settled / took).round() as u64);
            }
        }
        let oldest = overview.accounts.iter().find_map(|account| since(account.oldest_due_time, overview.read_time));
        push(&mut self.oldest_ms, oldest.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)));
        self.overview = Some(overview);
        self.trouble = None;
    }

    /// A look that failed: what was seen before stays.
    pub(super) fn fail(&mut self, message: String) {
        self.trouble = Some(message);
    }
}

fn push(history: &mut VecDeque<u64>, value: u64) {
    if history.len() == HISTORY_MAX {
        history.pop_front();
    }
    history.push_back(value);
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Min(4),
        Constraint::Length(3),
        Constraint::Length(1),
    ]);
    let [sums, curves, accounts, agents, foot] = rows.areas(frame.area());
    let empty = Overview::default();
    let overview = screen.overview.as_ref().unwrap_or(&empty);
    let in_flight: u32 = overview.agents.iter().map(|agent| agent.in_flight).sum();
    let sum = format!(
        "posthaste: {} agents, {in_flight} in flight, {} accounts with work",
        overview.agents.len(),
        overview.accounts.len(),
    );
    frame.render_widget(Line::from(sum).style(Style::new().add_modifier(Modifier::BOLD)), sums);
    let [settled, oldest] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(curves);
    let now = |history: &VecDeque<u64>| history.back().copied().unwrap_or(0);
    curve(frame, settled, &format!("settled {}/s", now(&screen.settled_per_s)), &screen.settled_per_s);
    curve(frame, oldest, &format!("oldest {:.1} s", now(&screen.oldest_ms) as f64 / 1_000.0), &screen.oldest_ms);
    table(frame, accounts, overview);
    let names: Vec<String> =
        overview.agents.iter().map(|agent| format!("{} ({})", printable(&agent.agent_id), agent.in_flight)).collect();
    let block = Block::bordered().title("agents (in flight)");
    frame.render_widget(Paragraph::new(names.join("  ")).block(block), agents);
    let last = match &screen.trouble {
        Some(message) => Line::from(printable(message)).style(Style::new().fg(Color::Red)),
        None => Line::from("q ends"),
    };
    frame.render_widget(last, foot);
}

/// The newest at the right.
fn curve(frame: &mut Frame<'_>, area: Rect, title: &str, history: &VecDeque<u64>) {
    let shown = history.iter().rev().take(usize::from(area.width.saturating_sub(2)));
    let mut values: Vec<u64> = shown.copied().collect();
    values.reverse();
    frame.render_widget(Sparkline::default().block(Block::bordered().title(title)).data(values), area);
}

fn table(frame: &mut Frame<'_>, area: Rect, overview: &Overview) {
    let rows = overview.accounts.iter().map(|account| {
        let held = account.hold_until_time.is_some();
        let cells = overview_row(overview, account).map(|cell| printable(&cell));
        Row::new(cells).style(if held { Style::new().fg(Color::Yellow) } else { Style::new() })
    });
    let widths = [20, 10, 17, 8, 9, 9, 8, 10].map(Constraint::Min);
    let header = Row::new(OVERVIEW_HEADINGS).style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(rows, widths).header(header).block(Block::bordered().title("accounts")), area);
}

#[cfg(test)]
mod tests {
    use posthaste_proto::v1::{OverviewAccount, OverviewAgent, explanation::Reason};
    use prost_types::Timestamp;
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    fn overview(seconds: i64, settled_count: u64) -> Overview {
        let account = |account_id: &str, oldest: Option<i64>, reason: Reason| OverviewAccount {
            account_id: account_id.to_owned(),
            oldest_due_time: oldest.and_then(at),
            reason: reason.into(),
            due_count: 64,
            at_least: true,
            endpoint_count: 2,
            in_flight: 8,
            ..OverviewAccount::default()
        };
        let held = OverviewAccount {
            rate_per_second: Some(50.0),
            hold_until_time: at(130),
            ..account("acme", Some(95), Reason::Held)
        };
        Overview {
            accounts: vec![held, account("quiet", None, Reason::Unspecified)],
            agents: vec![OverviewAgent { agent_id: "agent-1".to_owned(), in_flight: 16 }],
            settled_count,
            read_time: at(seconds),
        }
    }

    fn drawn(screen: &Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(110, 18)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        cells.chunks(110).map(|row| row.concat().trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn shows_who_waits_what_flows_and_what_went_wrong() {
        let mut screen = Screen::default();
        assert!(drawn(&screen).contains("0 agents"));
        screen.take(overview(100, 1_000));
        screen.take(overview(102, 1_500));
        let text = drawn(&screen);
        for part in ["1 agents, 16 in flight, 2 accounts", "settled 250/s", "oldest 7.0 s", "agent-1 (16)", "q ends"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let line = text.lines().find(|line| line.contains("acme")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().filter(|cell| *cell != "│").collect();
        assert_eq!(cells.join(" ").trim_matches('│'), "acme 7.0 s held 64+ 2 8 50 28.0 s");
        screen.fail("no answer within 5 s".to_owned());
        let text = drawn(&screen);
        assert!(text.contains("no answer within 5 s") && text.contains("acme"), "{text}");
    }

    #[test]
    fn the_curves_forget_what_is_old_and_bear_a_counter_that_starts_again() {
        let mut screen = Screen::default();
        for look in 0..300 {
            screen.take(overview(100 + look, u64::try_from(look).unwrap() * 10));
        }
        assert_eq!((screen.settled_per_s.len(), screen.settled_per_s.back()), (HISTORY_MAX, Some(&10)));
        screen.take(overview(401, 3));
        assert_eq!(screen.settled_per_s.back(), Some(&0));
    }
}
