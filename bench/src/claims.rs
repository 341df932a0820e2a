//! The result of a scenario that holds the product to what is said of it: the figures of each run, and each claim with
//! what was measured against its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::load::Came;
use crate::quantile::nearest_rank;
use crate::report::table::{NOTHING, Row, write_head, write_rows};
use crate::report::{Machine, profile};

/// Everything about one execution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// What was done.
    pub scenario: &'static str,
    /// What was asked for.
    pub options: BTreeMap<&'static str, f64>,
    /// `release`, or `debug` when the figures say little.
    pub profile: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
    /// What is said of the product.
    pub claims: Vec<Claim>,
    /// What must not be in any run, such as an event that never came; empty when all is well.
    pub problems: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// What was under way.
    pub name: String,
    /// By name; each name ends with its unit.
    pub figures: BTreeMap<String, f64>,
}

/// Something that is said of the product, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// What is measured, with its unit.
    pub what: String,
    /// What it was.
    pub measured: f64,
    /// What it may be at least.
    pub at_least: Option<f64>,
    /// What it may be at most.
    pub at_most: Option<f64>,
    /// Whether it lies between.
    pub met: bool,
}

impl Claim {
    /// That it is no more than that.
    pub fn at_most(what: &str, measured: f64, bound: f64) -> Self {
        Self::bounded(what, measured, None, Some(bound))
    }

    /// That it is no less than that.
    pub fn at_least(what: &str, measured: f64, bound: f64) -> Self {
        Self::bounded(what, measured, Some(bound), None)
    }

    /// That it is `expected`, give or take this share of it.
    pub fn near(what: &str, measured: f64, expected: f64, share: f64) -> Self {
        Self::bounded(what, measured, Some(expected * (1.0 - share)), Some(expected * (1.0 + share)))
    }

    fn bounded(what: &str, measured: f64, at_least: Option<f64>, at_most: Option<f64>) -> Self {
        // Nothing was measured when it is no number, and that meets no claim.
        let met = measured.is_finite()
            && at_least.is_none_or(|bound| measured >= bound)
            && at_most.is_none_or(|bound| measured <= bound);
        Self { what: what.to_owned(), measured, at_least, at_most, met }
    }
}

impl Run {
    /// One of this name, without figures.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), figures: BTreeMap::new() }
    }

    /// With one more figure.
    #[must_use]
    pub fn figure(mut self, name: &str, value: f64) -> Self {
        self.figures.insert(name.to_owned(), value);
        self
    }

    /// With what came of a load, its times in ms; those that never came have none.
    #[must_use]
    pub fn came(self, came: &Came) -> Self {
        let mut times_us = came.times_us.clone();
        times_us.sort_unstable();
        let ms = |percent| nearest_rank(&times_us, percent).map_or(f64::NAN, |us| us as f64 / 1_000.0);
        let due = came.times_us.len() + came.missing;
        self.figure("arrived", came.times_us.len() as f64)
            .figure("duplicates", came.duplicates as f64)
            .figure("p50_ms", ms(50))
            .figure("p99_ms", ms(99))
            .figure("p100_ms", ms(100))
            .figure("undelivered_at_end_percent", 100.0 * came.late as f64 / due.max(1) as f64)
    }

    /// A figure of it; not a number when it has none of this name.
    pub fn get(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }
}

impl Document {
    /// Whether every claim is met and nothing went wrong.
    pub fn holds(&self) -> bool {
        self.problems.is_empty() && self.claims.iter().all(|claim| claim.met)
    }

    /// Of a scenario that ran in this build.
    pub fn new(
        scenario: &'static str,
        options: BTreeMap<&'static str, f64>,
        machine: Machine,
        runs: Vec<Run>,
        claims: Vec<Claim>,
        problems: Vec<String>,
    ) -> Self {
        Self { scenario, options, profile: profile(), machine, runs, claims, problems }
    }
}

/// The median; of an even number the mean of both in the middle. Not a number when there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(below), Some(above)) if values.len().is_multiple_of(2) => f64::midpoint(*below, *above),
        (_, Some(above)) => *above,
        (_, None) => f64::NAN,
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_head(f, self.scenario, self.profile, &self.machine)?;
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{} {value}", name.replace('_', "-"))).collect();
        writeln!(f, "{}\n", options.join(", "))?;
        let names: BTreeSet<&String> = self.runs.iter().flat_map(|run| run.figures.keys()).collect();
        let mut rows: Vec<Row> = vec![(String::new(), names.iter().map(|name| name.replace('_', " ")).collect())];
        for run in &self.runs {
            let cell = |name: &&String| run.figures.get(*name).map_or(NOTHING.to_owned(), |value| number(*value));
            rows.push((run.name.clone(), names.iter().map(cell).collect()));
        }
        write_rows(f, &rows)?;
        write!(f, "\n\n")?;
        let bound = |sign: &str, bound: Option<f64>| bound.map(|bound| format!("{sign} {}", number(bound)));
        let mut rows: Vec<Row> = vec![(String::new(), ["measured", "bounds", "met"].map(str::to_owned).into())];
        for claim in &self.claims {
            let bounds: Vec<String> =
                [bound("≥", claim.at_least), bound("≤", claim.at_most)].into_iter().flatten().collect();
            let met = if claim.met { "yes" } else { "NO" };
            rows.push((claim.what.clone(), vec![number(claim.measured), bounds.join(", "), met.to_owned()]));
        }
        write_rows(f, &rows)
    }
}

/// With as many digits as say something.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => NOTHING.to_owned(),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_met_only_by_what_was_measured() {
        assert!(Claim::at_most("", 1.5, 1.5).met && !Claim::at_most("", 1.51, 1.5).met);
        assert!(Claim::at_least("", 1.5, 1.5).met && !Claim::at_least("", 1.49, 1.5).met);
        assert!(Claim::near("", 2.71, 3.0, 0.1).met && !Claim::near("", 2.69, 3.0, 0.1).met);
        assert!(!Claim::near("", 3.31, 3.0, 0.1).met);
        assert!(!Claim::at_most("", f64::NAN, 1.0).met && !Claim::at_least("", f64::INFINITY, 1.0).met);
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]).to_string(), "2");
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]).to_string(), "2.5");
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_document_shows_every_run_and_every_claim() {
        let came = Came { times_us: vec![3_000, 1_000], missing: 2, late: 1, ..Came::default() };
        let runs = vec![Run::new("alone").came(&came), Run::new("beside").figure("ratio", 1.25)];
        assert_eq!((runs[0].get("p50_ms"), runs[0].get("undelivered_at_end_percent")), (1.0, 25.0));
        let claims = vec![Claim::at_most("p99 ÷ p99", 1.6, 1.5)];
        let machine = Machine { processors: 2, model: "one".to_owned(), postgres: "15.1".to_owned() };
        let mut document =
            Document::new("isolation", BTreeMap::from([("rate", 200.0)]), machine, runs, claims, Vec::new());
        assert!(!document.holds());
        let text = document.to_string();
        for part in ["isolation, ", "rate 200", "p99 ms", "alone", "1.250", "1.600  ≤ 1.500   NO"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        document.claims.clear();
        assert!(document.holds());
    }
}
