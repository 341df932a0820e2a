//! Emits one event.

use posthaste_proto::v1::EmitRequest;
use posthaste_proto::v1::event_service_client::EventServiceClient;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = std::env::var("POSTHASTE_SERVER").unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let mut events = EventServiceClient::connect(server).await?;
    let request = EmitRequest {
        account_id: "acme".to_owned(),
        r#type: "order.placed".to_owned(),
        payload: br#"{"order": "or_5"}"#.as_slice().into(),
        idempotency_key: "or_5".to_owned(),
        ..EmitRequest::default()
    };
    let answer = events.emit(request).await?.into_inner();
    println!("{} goes to {} endpoints", answer.event_id, answer.delivery_count);
    Ok(())
}
