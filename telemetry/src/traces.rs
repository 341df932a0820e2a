//! Spans over OTLP, if an endpoint for them is configured; otherwise all of this does nothing and allocates nothing.
//!
//! Spans have explicit parents: what belongs together is far apart, in other tasks, processes and days, so there is no
//! current span that could be right.

use std::{
    cell::Cell,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{Link, Span as _, SpanContext, SpanKind, Status, TraceContextExt, TraceState, Tracer, TracerProvider},
};
pub use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{IdGenerator, RandomIdGenerator, Sampler, SdkTracer, SdkTracerProvider, Span as Recording},
};
use posthaste_domain::trace::{TraceContext, Traceparent};

/// A collector that takes longer doesn't get the spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes spans, or doesn't. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    on: Option<On>,
}

#[derive(Clone, Debug)]
struct On {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// Who gets spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    endpoint: String,
    service: String,
}

/// It is no URL that spans can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEndpoint;

impl Collector {
    /// The one at `endpoint`, such as `http://127.0.0.1:4317`, which gets them as `service`'s; empty: none.
    ///
    /// # Errors
    /// When it is something else: a collector stands beside the program, so there is no TLS.
    pub fn new(endpoint: &str, service: &str) -> Result<Option<Self>, BadEndpoint> {
        match endpoint.trim() {
            "" => Ok(None),
            url if url.starts_with("http://") => {
                Ok(Some(Self { endpoint: url.to_owned(), service: service.to_owned() }))
            }
            _ => Err(BadEndpoint),
        }
    }
}

/// Whose decision counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The caller's, and without one what `OTEL_TRACES_SAMPLER` says: all, unless it is set.
    OfCallers,
    /// Somebody else decided already: every span is recorded.
    Decided,
}

/// Where a new span belongs.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// In a trace of its own.
    Root,
    /// Below this span.
    Below(TraceContext),
    /// Below the first span, with the second one's id.
    As(TraceContext, TraceContext),
    /// In a trace of its own that names this span.
    LinkedTo(TraceContext),
}

/// A span that ends when it is dropped. One that isn't recorded is nothing.
#[derive(Debug, Default)]
pub struct Span(Option<Box<Recording>>);

impl Traces {
    /// Sends spans to the collector by OTLP over gRPC; without one there are none. Must be called on a tokio runtime, which
    /// must go on as long as spans are to be sent.
    ///
    /// # Errors
    /// When the endpoint is no URL. Whether anybody listens there shows only later, in the log.
    pub fn start(collector: Option<&Collector>, sampling: Sampling) -> Result<Self, ExporterBuildError> {
        let Some(Collector { endpoint, service }) = collector else { return Ok(Self::default()) };
        let exporter =
            SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(EXPORT_TIMEOUT).build()?;
        let builder = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(Ids(RandomIdGenerator::default()))
            .with_resource(Resource::builder().with_service_name(service.to_owned()).build());
        let provider = match sampling {
            Sampling::OfCallers => builder.build(),
            Sampling::Decided => builder.with_sampler(Sampler::AlwaysOn).build(),
        };
        let tracer = provider.tracer("posthaste");
        Ok(Self { on: Some(On { provider, tracer }) })
    }

    /// Whether spans are made.
    pub fn are_on(&self) -> bool {
        self.on.is_some()
    }

    /// The span of a call that somebody makes of us. `traceparent` is the caller's header.
    pub fn called(&self, name: &'static str, traceparent: Option<&str>) -> Span {
        if !self.are_on() {
            return Span(None);
        }
        match traceparent.and_then(Traceparent::parse) {
            Some(Traceparent { sampled: false, .. }) => Span(None),
            Some(Traceparent { context, .. }) => self.begin(name, SpanKind::Server, Place::Below(context), None),
            None => self.begin(name, SpanKind::Server, Place::Root, None),
        }
    }

    /// A step of our own below `parent`; nothing without one.
    pub fn step(&self, name: &'static str, parent: Option<TraceContext>) -> Span {
        parent.map_or(Span(None), |parent| self.begin(name, SpanKind::Internal, Place::Below(parent), None))
    }

    /// A call that we made of somebody else, from `start` until now.
    pub fn call(&self, name: &'static str, place: Place, start: SystemTime) -> Span {
        self.begin(name, SpanKind::Client, place, Some(start))
    }

    /// Sends what is left, for at most five seconds; no span is made afterwards.
    pub async fn stop(&self) {
        let Some(on) = self.on.clone() else { return };
        // It blocks its thread.
        let stopped = tokio::task::spawn_blocking(move || on.provider.shutdown_with_timeout(EXPORT_TIMEOUT)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            tracing::warn!("the last spans did not reach the collector");
        }
    }

    fn begin(&self, name: &'static str, kind: SpanKind, place: Place, start: Option<SystemTime>) -> Span {
        let Some(on) = &self.on else { return Span(None) };
        let mut builder = on.tracer.span_builder(name).with_kind(kind);
        builder.start_time = start;
        let mut parent = Context::new();
        match place {
            Place::Root => {}
            Place::Below(above) => parent = parent.with_remote_span_context(remote(above)),
            Place::As(above, own) => {
                parent = parent.with_remote_span_context(remote(above));
                NEXT.set(Some(SpanId::from_bytes(own.span_bytes())));
            }
            Place::LinkedTo(other) => builder = builder.with_links(vec![Link::new(remote(other), Vec::new(), 0)]),
        }
        let span = on.tracer.build_with_context(builder, &parent);
        Span(span.is_recording().then(|| Box::new(span)))
    }
}

impl Span {
    /// Where it is; `None` when it isn't recorded.
    pub fn context(&self) -> Option<TraceContext> {
        let context = self.0.as_ref()?.span_context();
        TraceContext::new(context.trace_id().to_bytes(), context.span_id().to_bytes())
    }

    /// Says something about it. The value is made only if it is recorded.
    pub fn say<V: Into<Value>>(&mut self, key: &'static str, value: impl FnOnce() -> V) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(key, value()));
        }
    }

    /// It did not do what it was for.
    pub fn fail(&mut self, why: impl FnOnce() -> String) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::error(why()));
        }
    }
}

fn remote(context: TraceContext) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(context.trace_bytes()), SpanId::from_bytes(context.span_bytes()));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::default())
}

thread_local! {
    /// The id of the span that this thread makes next.
    static NEXT: Cell<Option<SpanId>> = const { Cell::new(None) };
}

/// Random ids, unless the span that is being made has one already.
#[derive(Debug)]
struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        self.0.new_trace_id()
    }

    fn new_span_id(&self) -> SpanId {
        NEXT.take().unwrap_or_else(|| self.0.new_span_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn on() -> Traces {
        let collector = Collector::new("http://127.0.0.1:9", "test").unwrap();
        Traces::start(collector.as_ref(), Sampling::Decided).unwrap()
    }

    #[test]
    fn a_collector_has_an_http_url() {
        assert_eq!(Collector::new(" ", "test"), Ok(None));
        assert!(Collector::new("http://c:4317", "test").unwrap().is_some());
        assert_eq!(Collector::new("https://c:4317", "test"), Err(BadEndpoint));
        assert_eq!(Collector::new("c:4317", "test"), Err(BadEndpoint));
    }

    #[tokio::test]
    async fn only_what_is_sampled_is_recorded() {
        let off = Traces::default();
        assert_eq!(off.called("Emit", Some(HEADER)).context(), None);
        let on = on();
        let caller = Traceparent::parse(HEADER).unwrap().context;
        let span = on.called("Emit", Some(HEADER));
        let context = span.context().unwrap();
        assert_eq!(context.trace_id(), caller.trace_id());
        assert_ne!(context, caller);
        assert_eq!(on.called("Emit", Some(&HEADER.replace("-01", "-00"))).context(), None);
        assert!(on.called("Emit", None).context().is_some());
        assert!(on.called("Emit", Some("nonsense")).context().is_some_and(|own| own.trace_id() != caller.trace_id()));
        assert_eq!(on.step("commit", None).context(), None);
    }

    #[tokio::test]
    async fn a_span_gets_the_id_that_was_chosen_for_it() {
        let on = on();
        let caller = Traceparent::parse(HEADER).unwrap().context;
        let own = TraceContext::new(caller.trace_bytes(), [7; 8]).unwrap();
        assert_eq!(on.call("attempt", Place::As(caller, own), SystemTime::now()).context(), Some(own));
        let next = on.call("attempt", Place::LinkedTo(own), SystemTime::now()).context().unwrap();
        assert!(next != own && next.trace_id() != own.trace_id());
    }
}
