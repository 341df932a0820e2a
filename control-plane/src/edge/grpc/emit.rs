//! EventService: the calls that store events, beside those that read them.

use std::{pin::Pin, sync::Arc, time::Instant};

use posthaste_proto::{
    convert::event::{self as convert, Emit, EmitRefused},
    v1::{self, emit_stream_response, event_service_server::EventService},
};
use posthaste_telemetry::traces::Span;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};

use super::{error::ApiError, events_read::EventReads};
use crate::{
    dispatch::Dispatcher,
    emit::{Emitted, Emitter},
};

/// Events of one stream that may wait for their commit at once.
const STREAM_EVENTS_MAX: usize = 256;

/// Checks requests and hands them to the committer.
#[derive(Clone)]
pub(super) struct Producer {
    pub(super) emitter: Emitter,
    pub(super) dispatcher: Dispatcher,
}

/// The service.
pub(super) struct Events {
    pub(super) producer: Producer,
    pub(super) reads: EventReads,
}

impl Producer {
    /// The span of a call, which tells where it came from.
    fn called(&self, metadata: &MetadataMap) -> Span {
        self.dispatcher.traces().called("Emit", traceparent(metadata))
    }

    async fn emit_one(&self, request: v1::EmitRequest, mut span: Span) -> Result<v1::EmitResponse, ApiError> {
        let result = self.emit_event(request, &mut span).await;
        if let Err(error) = &result {
            span.fail(|| error.to_string());
        }
        result
    }

    async fn emit_event(&self, request: v1::EmitRequest, span: &mut Span) -> Result<v1::EmitResponse, ApiError> {
        let arrived = Instant::now();
        let event = convert::emit(request, self.dispatcher.clock().database_now()).map_err(refused)?;
        if event.validate_only {
            return Ok(v1::EmitResponse { event_id: String::new(), ..response(self.emitter.check(&event).await?) });
        }
        let emitted = self.emitter.emit(event, span.context()).await?;
        span.say("posthaste.event.id", || emitted.event.to_string());
        span.say("posthaste.event.deliveries", || i64::from(emitted.deliveries));
        span.say("posthaste.event.duplicate", || emitted.duplicate);
        self.dispatcher.metrics().emitted(arrived.elapsed());
        Ok(response(emitted))
    }

    async fn emit_batch(&self, request: v1::EmitBatchRequest, span: &Span) -> Result<v1::EmitBatchResponse, ApiError> {
        let arrived = Instant::now();
        let events = convert::emit_batch(request, self.dispatcher.clock().database_now()).map_err(refused)?;
        if let Some(index) = events.iter().position(|event| event.validate_only) {
            return Err(ApiError::invalid(
                format!("events[{index}].validate_only"),
                "can't stand in a batch: check the events one by one",
            ));
        }
        if let Some(index) = repeated_key(&events) {
            return Err(ApiError::invalid(
                format!("events[{index}].idempotency_key"),
                "stands twice in the batch: a key names one event",
            ));
        }
        let emitted = self.emitter.emit_all(events, span.context()).await?;
        self.dispatcher.metrics().emitted(arrived.elapsed());
        Ok(v1::EmitBatchResponse { results: emitted.into_iter().map(response).collect() })
    }
}

#[tonic::async_trait]
impl super::Emitter for Producer {
    async fn emit(&self, request: v1::EmitRequest) -> Result<v1::EmitResponse, ApiError> {
        self.emit_one(request, Span::default()).await
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<v1::EmitStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl EventService for Events {
    async fn emit(&self, request: Request<v1::EmitRequest>) -> Result<Response<v1::EmitResponse>, Status> {
        let span = self.producer.called(request.metadata());
        Ok(Response::new(self.producer.emit_one(request.into_inner(), span).await?))
    }

    async fn emit_batch(
        &self,
        request: Request<v1::EmitBatchRequest>,
    ) -> Result<Response<v1::EmitBatchResponse>, Status> {
        let mut span = self.producer.called(request.metadata());
        let result = self.producer.emit_batch(request.into_inner(), &span).await;
        if let Err(error) = &result {
            span.fail(|| error.to_string());
        }
        Ok(Response::new(result?))
    }

    type EmitStreamStream = Answers;

    async fn emit_stream(&self, request: Request<Streaming<v1::EmitRequest>>) -> Result<Response<Answers>, Status> {
        let (answers, answers_out) = mpsc::channel(STREAM_EVENTS_MAX);
        tokio::spawn(pump(self.producer.clone(), request, answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers_out))))
    }

    async fn get_event(&self, request: Request<v1::GetEventRequest>) -> Result<Response<v1::Event>, Status> {
        Ok(Response::new(self.reads.get(request.get_ref()).await?))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        Ok(Response::new(self.reads.list(request.get_ref()).await?))
    }

    async fn cancel_event(
        &self,
        request: Request<v1::CancelEventRequest>,
    ) -> Result<Response<v1::CancelEventResponse>, Status> {
        Ok(Response::new(self.reads.cancel(request.get_ref()).await?))
    }
}

/// Emits what a stream brings, a bounded number at once, and answers each by its index. Ends with the stream, or when
/// nobody takes the answers.
async fn pump(
    producer: Producer,
    request: Request<Streaming<v1::EmitRequest>>,
    answers: mpsc::Sender<Result<v1::EmitStreamResponse, Status>>,
) {
    let producer = Arc::new(producer);
    let (metadata, _, mut requests) = request.into_parts();
    let metadata = Arc::new(metadata);
    let mut running = JoinSet::new();
    let mut index = 0;
    while let Ok(Some(request)) = requests.message().await {
        while running.len() >= STREAM_EVENTS_MAX {
            running.join_next().await;
        }
        let (producer, metadata, answer, at) = (Arc::clone(&producer), Arc::clone(&metadata), answers.clone(), index);
        index += 1;
        running.spawn(async move {
            let span = producer.called(&metadata);
            let result = match producer.emit_one(request, span).await {
                Ok(emitted) => emit_stream_response::Result::Emitted(emitted),
                Err(error) => emit_stream_response::Result::Error(status(&error.into())),
            };
            // A caller that has gone wants no answer.
            let _ = answer.send(Ok(v1::EmitStreamResponse { index: at, result: Some(result) })).await;
        });
        if answers.is_closed() {
            break;
        }
    }
    while running.join_next().await.is_some() {}
}

fn traceparent(metadata: &MetadataMap) -> Option<&str> {
    metadata.get("traceparent")?.to_str().ok()
}

/// The same details as a call's own error has.
fn status(status: &Status) -> tonic_types::Status {
    use prost::Message;
    tonic_types::Status::decode(status.details()).unwrap_or_else(|_| tonic_types::Status {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Vec::new(),
    })
}

fn repeated_key(events: &[Emit]) -> Option<usize> {
    let mut seen = std::collections::HashSet::new();
    events.iter().position(|event| event.key.as_ref().is_some_and(|key| !seen.insert(key.as_str())))
}

fn response(emitted: Emitted) -> v1::EmitResponse {
    v1::EmitResponse {
        event_id: emitted.event.to_string(),
        delivery_count: emitted.deliveries,
        duplicate: emitted.duplicate,
    }
}

fn refused(refused: EmitRefused) -> ApiError {
    match refused {
        EmitRefused::Invalid(violations) => ApiError::InvalidFields(violations),
        EmitRefused::Reserved(field) => ApiError::NotImplemented { field },
    }
}
