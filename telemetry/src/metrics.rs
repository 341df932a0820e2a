//! The registry behind `/metrics`. Each program declares its metrics in one file of its own, `metrics.rs`; all that counts is
//! an atomic in memory, and a scrape asks nobody but this process.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder, core::Collector,
};

/// The media type of what [`Metrics::text`] returns.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// The metrics of one program. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// A registry that tells which version runs.
    pub fn new(version: &str) -> Self {
        let this = Self { registry: Registry::new() };
        let build = this.gauges("posthaste_build_info", "The version that runs; always 1.", "version");
        build.with_label_values(&[version]).set(1.0);
        this
    }

    /// Adds a metric that was made elsewhere.
    ///
    /// # Panics
    /// When its name is taken: two declarations of one metric are a mistake that the first start shows.
    pub fn add(&self, collector: impl Collector + 'static) {
        if let Err(error) = self.registry.register(Box::new(collector)) {
            panic!("a metric is declared twice: {error}");
        }
    }

    /// A number that only grows.
    pub fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.added(IntCounter::new(name, help))
    }

    /// Numbers that only grow, one for each value of a label.
    pub fn counters(&self, name: &str, help: &str, label: &str) -> IntCounterVec {
        self.added(IntCounterVec::new(Opts::new(name, help), &[label]))
    }

    /// A whole number.
    pub fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.added(IntGauge::new(name, help))
    }

    /// A number.
    pub fn real(&self, name: &str, help: &str) -> Gauge {
        self.added(Gauge::new(name, help))
    }

    /// Numbers, one for each value of a label.
    pub fn gauges(&self, name: &str, help: &str, label: &str) -> GaugeVec {
        self.added(GaugeVec::new(Opts::new(name, help), &[label]))
    }

    /// How long something takes: `boundaries` in seconds, ascending.
    pub fn durations(&self, name: &str, help: &str, boundaries: &[f64]) -> Histogram {
        self.added(Histogram::with_opts(HistogramOpts::new(name, help).buckets(boundaries.to_vec())))
    }

    /// The same for each value of a label, not yet in any registry.
    ///
    /// # Panics
    /// When name, label or boundaries are none.
    pub fn loose_durations(name: &str, help: &str, label: &str, boundaries: &[f64]) -> HistogramVec {
        declared(HistogramVec::new(HistogramOpts::new(name, help).buckets(boundaries.to_vec()), &[label]))
    }

    /// Everything, in Prometheus' text format, version 0.0.4.
    ///
    /// # Errors
    /// When a metric has no value to write, which a registered one always has.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn added<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        let metric = declared(metric);
        self.add(metric.clone());
        metric
    }
}

/// A declaration is a constant of the program: a wrong one shows at every start, and in every test.
fn declared<C>(metric: prometheus::Result<C>) -> C {
    metric.unwrap_or_else(|error| panic!("a metric is declared wrongly: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_was_declared_and_counted() {
        let metrics = Metrics::new("1.2.3");
        metrics.counters("posthaste_tests_total", "Tests.", "kind").with_label_values(&["unit"]).inc_by(3);
        metrics.durations("posthaste_test_duration_seconds", "How long.", &[0.1, 1.0]).observe(0.5);
        let text = metrics.text().unwrap();
        for line in [
            "posthaste_build_info{version=\"1.2.3\"} 1",
            "# TYPE posthaste_tests_total counter",
            "posthaste_tests_total{kind=\"unit\"} 3",
            "posthaste_test_duration_seconds_bucket{le=\"0.1\"} 0",
            "posthaste_test_duration_seconds_bucket{le=\"1\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    #[should_panic(expected = "declared twice")]
    fn one_name_is_declared_once() {
        let metrics = Metrics::new("1");
        metrics.counter("posthaste_x_total", "One.");
        metrics.counter("posthaste_x_total", "Two.");
    }
}
