//! A collector of OTLP in this process: keeps the spans that it is sent.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::{Server, server::TcpIncoming};
use tonic::{Request, Response, Status};

/// A span as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) service: String,
    pub(crate) name: String,
    /// Lower-case hexadecimal, as all ids here.
    pub(crate) trace: String,
    pub(crate) span: String,
    /// Empty: none.
    pub(crate) parent: String,
    /// Trace and span of each.
    pub(crate) links: Vec<(String, String)>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) failed: bool,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// Ends with this value.
pub(crate) struct Collector {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

struct Service(Arc<Mutex<Vec<Seen>>>);

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("has an address"));
        let seen = Arc::default();
        let service = TraceServiceServer::new(Service(Arc::clone(&seen)));
        let serve = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async move { serve.await.expect("serves") });
        Self { url, seen, task }
    }

    /// For `--otlp-endpoint`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// All spans so far, in the order in which they began.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let mut seen = self.seen.lock().expect("nobody panicked").clone();
        seen.sort_by_key(|span| span.start_ns);
        seen
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut seen = self.0.lock().expect("nobody panicked");
        for resource in request.into_inner().resource_spans {
            let of_resource = attributes(resource.resource.map(|resource| resource.attributes).unwrap_or_default());
            let service = of_resource.get("service.name").cloned().unwrap_or_default();
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                seen.push(Seen {
                    service: service.clone(),
                    name: span.name,
                    trace: hex(&span.trace_id),
                    span: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
                    attributes: attributes(span.attributes),
                    failed: span.status.is_some_and(|status| status.code() == StatusCode::Error),
                    start_ns: span.start_time_unix_nano,
                    end_ns: span.end_time_unix_nano,
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("no attribute of ours is {other:?}"),
    };
    pairs
        .into_iter()
        .filter(|pair| !pair.key.starts_with("telemetry.sdk"))
        .map(|pair| (pair.key, text(pair.value)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}

/// The spans as trees, one for each trace; ids have become letters and counts, times are left out.
pub(crate) fn tree(seen: &[Seen]) -> String {
    let mut traces: Vec<&str> = Vec::new();
    for span in seen {
        if !traces.contains(&span.trace.as_str()) {
            traces.push(&span.trace);
        }
    }
    let letter =
        |trace: &str| traces.iter().position(|known| *known == trace).map_or('?', |at| char::from(b'A' + at as u8));
    let number = |span: &str| seen.iter().position(|known| known.span == span).map(|at| at + 1);
    let mut text = String::new();
    for trace in &traces {
        writeln!(text, "trace {}", letter(trace)).expect("a string takes it");
        for span in seen.iter().filter(|span| span.trace == *trace) {
            let mut depth = 1;
            let mut above = span.parent.as_str();
            while let Some(parent) = seen.iter().find(|other| other.span == above) {
                depth += 1;
                above = &parent.parent;
            }
            let caller = if depth == 1 && !span.parent.is_empty() { ", below the caller's span" } else { "" };
            let links: String = span
                .links
                .iter()
                .map(|(trace, id)| format!(", linked to span {} of trace {}", number(id).unwrap_or(0), letter(trace)))
                .collect();
            let failed = if span.failed { ", failed" } else { "" };
            let (indent, id) = ("  ".repeat(depth), number(&span.span).unwrap_or(0));
            writeln!(text, "{indent}span {id}: {} by {}{caller}{links}{failed}", span.name, span.service)
                .expect("a string takes it");
            for (key, value) in &span.attributes {
                let value = value.split_once('_').filter(|(kind, _)| matches!(*kind, "evt" | "dlv"));
                let value = value.map_or(span.attributes[key].clone(), |(kind, _)| format!("{kind}_…"));
                writeln!(text, "{indent}    {key} = {value}").expect("a string takes it");
            }
        }
    }
    text
}
