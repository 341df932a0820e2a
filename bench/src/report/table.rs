//! A document as people read it: who was measured in columns, what was measured in rows.

use std::collections::BTreeSet;
use std::fmt;

use super::{Document, Figures, Machine};
use crate::options::Scenario;
use crate::quantile::Spread;

/// The order of the columns.
const COLUMNS: [(&str, &str); 4] =
    [("unary", "unary"), ("batched", "batched"), ("pipe", "naive pipe"), ("bare_loop", "bare loop")];

/// What stands where there is nothing to measure.
pub(crate) const NOTHING: &str = "–";

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = match self.options.scenario {
            Scenario::Throughput => "throughput",
            Scenario::Latency => "latency",
            Scenario::Backlog => "backlog",
        };
        write_head(f, scenario, &self.profile, &self.machine)?;
        let options: Vec<String> = self.options.rows().iter().map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(f, "{}\n", options.join(", "))?;
        let columns: Vec<(&str, &Figures)> =
            COLUMNS.iter().filter_map(|(name, title)| Some((*title, self.results.get(*name)?))).collect();
        let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let mut rows = vec![(String::new(), titles)];
        let figures: Vec<&Figures> = columns.iter().map(|(_, figures)| *figures).collect();
        rows.extend(figure_rows(&figures));
        for (name, ratio) in &self.ratios {
            let (product, baseline) = name.split_once("_to_").unwrap_or((name, ""));
            let cells = COLUMNS.iter().filter(|(name, _)| self.results.contains_key(*name));
            let cells = cells.map(|(name, _)| if *name == product { format!("{ratio:.2}") } else { String::new() });
            let what = if self.options.rate_per_s.is_none() { "deliveries/s" } else { "Emit → arrival p50" };
            rows.push((format!("{what} ÷ that of the {}", baseline.replace('_', " ")), cells.collect()));
        }
        write_rows(f, &rows)?;
        self.comparison.as_ref().map_or(Ok(()), |comparison| write!(f, "\n\nold → new\n{comparison}"))
    }
}

/// Its name and its cells.
pub(crate) type Row = (String, Vec<String>);

fn figure_rows(figures: &[&Figures]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        rows.push((name.to_owned(), figures.iter().map(|figures| cell(figures)).collect()));
    };
    let maybe = |value: Option<f64>, digits| value.map_or(NOTHING.to_owned(), |value| format!("{value:.digits$}"));
    row("deliveries", &|f| f.deliveries.to_string());
    row("duplicates", &|f| f.duplicates.to_string());
    row("seconds", &|f| format!("{:.2}", f.seconds));
    row("deliveries/s", &|f| format!("{:.0}", f.deliveries_per_s));
    row("events accepted/s", &|f| maybe(f.events_per_s, 0));
    row("Emit → answer, p50 / p99 ms", &|f| spread(f.emit_to_answer_ms));
    row("Emit → arrival, p50 / p99 ms", &|f| spread(f.emit_to_arrival_ms));
    for name in names(figures, |f| f.cpu_us_per_delivery.keys().cloned().collect()) {
        row(&format!("CPU µs/delivery, {}", name.replace('_', " ")), &|f| {
            maybe(f.cpu_us_per_delivery.get(&name).copied(), 0)
        });
    }
    row("CPU µs/delivery, all but receiver", &|f| {
        let others = f.cpu_us_per_delivery.iter().filter(|(name, _)| *name != "receiver");
        format!("{:.0}", others.map(|(_, used)| used).sum::<f64>())
    });
    row("WAL bytes/delivery", &|f| maybe(f.wal_bytes_per_delivery, 0));
    row("commits/delivery", &|f| maybe(f.commits_per_delivery, 4));
    row("HOT updates, %", &|f| maybe(f.hot_percent, 1));
    for name in names(figures, |f| f.memory_peak_bytes.keys().cloned().collect()) {
        row(&format!("peak memory MiB, {}", name.replace('_', " ")), &|f| {
            f.memory_peak_bytes.get(&name).map_or(NOTHING.to_owned(), |bytes| (bytes / 1_048_576).to_string())
        });
    }
    rows
}

fn names(figures: &[&Figures], of: impl Fn(&Figures) -> Vec<String>) -> BTreeSet<String> {
    figures.iter().flat_map(|figures| of(figures)).collect()
}

fn spread(spread: Option<Spread>) -> String {
    spread.map_or(NOTHING.to_owned(), |Spread { p50, p99 }| format!("{p50:.1} / {p99:.1}"))
}

/// What ran where.
pub(crate) fn write_head(f: &mut fmt::Formatter<'_>, scenario: &str, profile: &str, machine: &Machine) -> fmt::Result {
    let Machine { processors, model, postgres } = machine;
    writeln!(f, "{scenario}, {profile} build, Postgres {postgres}, {processors} × {model}")?;
    if profile != "release" {
        writeln!(
            f,
            "THE BUILD IS NOT OPTIMIZED: these figures say nothing about the product; use cargo run --release"
        )?;
    }
    Ok(())
}

/// In columns; the first row names them. No line end after the last.
pub(crate) fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let wide = |text: &str| text.chars().count();
    let label = rows.iter().map(|(label, _)| wide(label)).max().unwrap_or(0);
    let columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| wide(cell)).max().unwrap_or(0))
        .collect();
    for (index, (name, cells)) in rows.iter().enumerate() {
        let mut line = format!("{name:label$}");
        for (cell, width) in cells.iter().zip(&widths) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        let end = if index + 1 == rows.len() { "" } else { "\n" };
        write!(f, "{}{end}", line.trim_end())?;
    }
    Ok(())
}
