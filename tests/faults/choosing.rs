//! Which endpoints get an event, and when.

use posthaste_bench::receiver::Received;
use posthaste_proto::v1::delivery::State;
use posthaste_proto::v1::explanation::Reason;
use posthaste_proto::v1::{
    DisableEndpointRequest, EmitRequest, EnableEndpointRequest, Endpoint, ExplainRequest, GetEventRequest,
    PauseEndpointRequest, ResumeEndpointRequest,
};
use posthaste_tests::calls::event;

use crate::system::{ACCOUNT, System};

/// The endpoints that an event went to, by what the receiver got.
async fn targets(system: &System, request: EmitRequest) -> Vec<String> {
    let answer = system.plane.events().emit(request).await.unwrap().into_inner();
    let deliveries = system.plane.wait_ended(ACCOUNT, &answer.event_id).await;
    assert!(deliveries.iter().all(|delivery| delivery.state() == State::Delivered), "{deliveries:?}");
    assert_eq!(deliveries.len(), answer.delivery_count as usize);
    let received = system.receiver.received();
    let paths = received.iter().filter(|request| request.webhook_id() == answer.event_id).map(Received::path);
    let mut paths: Vec<String> = paths.map(str::to_owned).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn filters_and_explicit_targets() {
    let system = System::start().await;
    for (endpoint_id, types) in
        [("all", &[][..]), ("invoices", &["invoice.paid", "invoice.sent"]), ("users", &["user"])]
    {
        let event_types = types.iter().map(|name| (*name).to_owned()).collect();
        system.plane.create(Endpoint { event_types, ..system.endpoint(endpoint_id) }).await;
    }
    let emitted = |event_type: &str| event(ACCOUNT, event_type, "{}");
    assert_eq!(targets(&system, emitted("invoice.paid")).await, ["/all", "/invoices"]);
    assert_eq!(targets(&system, emitted("invoice.sent")).await, ["/all", "/invoices"]);
    assert_eq!(targets(&system, emitted("user")).await, ["/all", "/users"]);
    // A type is no prefix and no pattern.
    for other in ["user.created", "invoice", "Invoice.paid"] {
        assert_eq!(targets(&system, emitted(other)).await, ["/all"], "{other}");
    }
    // Explicit targets get it whatever their filter says, and nobody else does.
    let endpoint_ids = vec!["invoices".to_owned(), "users".to_owned()];
    let explicit = EmitRequest { endpoint_ids, ..emitted("order.placed") };
    assert_eq!(targets(&system, explicit).await, ["/invoices", "/users"]);
}

#[tokio::test]
async fn what_nobody_wants_is_kept_and_says_so() {
    let system = System::start().await;
    let event_types = vec!["invoice.paid".to_owned()];
    system.plane.create(Endpoint { event_types, ..system.endpoint("invoices") }).await;
    let answer = system.plane.events().emit(event(ACCOUNT, "user", "\"kept\"")).await.unwrap().into_inner();
    assert_eq!(answer.delivery_count, 0);
    let request =
        GetEventRequest { account_id: ACCOUNT.into(), event_id: answer.event_id.clone(), include_payload: true };
    let kept = system.plane.events().get_event(request).await.unwrap().into_inner();
    assert_eq!((kept.delivery_count, kept.payload.as_ref()), (0, b"\"kept\"".as_slice()));
    assert_eq!(system.plane.deliveries_of(ACCOUNT, &answer.event_id).await, []);
}

#[tokio::test]
async fn a_disabled_endpoint_gets_nothing() {
    let system = System::start().await;
    for endpoint_id in ["orders", "others"] {
        system.plane.create(system.endpoint(endpoint_id)).await;
    }
    let emitted = || event(ACCOUNT, "order.placed", "{}");
    let request =
        DisableEndpointRequest { account_id: ACCOUNT.into(), endpoint_id: "orders".into(), keep_deliveries: false };
    system.plane.endpoints().disable_endpoint(request).await.unwrap();
    assert_eq!(targets(&system, emitted()).await, ["/others"]);
    let explicit = EmitRequest { endpoint_ids: vec!["orders".to_owned()], ..emitted() };
    let refused = system.plane.events().emit(explicit).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
    let request = EnableEndpointRequest { account_id: ACCOUNT.into(), endpoint_id: "orders".into() };
    system.plane.endpoints().enable_endpoint(request).await.unwrap();
    assert_eq!(targets(&system, emitted()).await, ["/orders", "/others"]);
    assert_eq!(system.receiver.received_at("/orders").len(), 1, "what came while it was disabled came later");
}

#[tokio::test]
async fn a_disabled_endpoint_keeps_what_it_shall_keep() {
    let system = System::start().await;
    system.plane.create(system.endpoint("orders")).await;
    let account_id = || ACCOUNT.to_owned();
    let endpoint_id = || "orders".to_owned();
    let pause = || PauseEndpointRequest { account_id: account_id(), endpoint_id: endpoint_id() };
    let disable = |keep_deliveries| DisableEndpointRequest {
        account_id: account_id(),
        endpoint_id: endpoint_id(),
        keep_deliveries,
    };
    let resume = || ResumeEndpointRequest { account_id: account_id(), endpoint_id: endpoint_id() };
    let enable = EnableEndpointRequest { account_id: account_id(), endpoint_id: endpoint_id() };
    let mut endpoints = system.plane.endpoints();
    endpoints.pause_endpoint(pause()).await.unwrap();
    let kept = system.plane.emit(event(ACCOUNT, "order.placed", "{}")).await;
    endpoints.disable_endpoint(disable(true)).await.unwrap();
    let resumed = endpoints.resume_endpoint(resume()).await.unwrap().into_inner();
    assert_eq!(resumed.generation, 1, "{resumed:?}");
    let meanwhile = system.plane.emit(event(ACCOUNT, "order.placed", "{}")).await;
    assert_eq!(system.plane.deliveries_of(ACCOUNT, &meanwhile).await, []);
    let delivery = system.plane.deliveries_of(ACCOUNT, &kept).await.remove(0);
    let request = ExplainRequest { account_id: account_id(), delivery_id: delivery.delivery_id.clone() };
    let explained = system.plane.deliveries().explain(request).await.unwrap().into_inner();
    assert_eq!((delivery.state(), explained.reason()), (State::Pending, Reason::Paused), "{explained:?}");
    endpoints.enable_endpoint(enable).await.unwrap();
    let ended = system.plane.wait_ended(ACCOUNT, &kept).await.remove(0);
    assert_eq!(ended.state(), State::Delivered, "{ended:?}");
    assert_eq!(system.receiver.received_at("/orders").len(), 1);

    endpoints.pause_endpoint(pause()).await.unwrap();
    let kept = system.plane.emit(event(ACCOUNT, "order.placed", "{}")).await;
    endpoints.disable_endpoint(disable(true)).await.unwrap();
    endpoints.disable_endpoint(disable(false)).await.unwrap();
    let ended = system.plane.wait_ended(ACCOUNT, &kept).await.remove(0);
    assert_eq!((ended.state(), ended.reason.as_str()), (State::Cancelled, "endpoint_disabled"));
    assert_eq!(system.receiver.received_at("/orders").len(), 1);
}

#[tokio::test]
async fn a_paused_endpoint_gets_it_later() {
    let system = System::start().await;
    for endpoint_id in ["orders", "others"] {
        system.plane.create(system.endpoint(endpoint_id)).await;
    }
    let to = |endpoint_id: &str| {
        let endpoint_ids = vec![endpoint_id.to_owned()];
        EmitRequest { endpoint_ids, ..event(ACCOUNT, "order.placed", "{}") }
    };
    let request = PauseEndpointRequest { account_id: ACCOUNT.into(), endpoint_id: "orders".into() };
    system.plane.endpoints().pause_endpoint(request).await.unwrap();
    let mut kept = Vec::new();
    for _ in 0..5 {
        kept.push(system.plane.emit(to("orders")).await);
        assert_eq!(targets(&system, to("others")).await, ["/others"]);
    }
    for event_id in &kept {
        let delivery = system.plane.deliveries_of(ACCOUNT, event_id).await.remove(0);
        assert_eq!(delivery.state(), State::Pending, "{delivery:?}");
        let request = ExplainRequest { account_id: ACCOUNT.into(), delivery_id: delivery.delivery_id };
        let explanation = system.plane.deliveries().explain(request).await.unwrap().into_inner();
        assert_eq!(explanation.reason(), Reason::Paused, "{explanation:?}");
    }
    assert_eq!(system.receiver.received_at("/orders"), []);

    let request = ResumeEndpointRequest { account_id: ACCOUNT.into(), endpoint_id: "orders".into() };
    system.plane.endpoints().resume_endpoint(request).await.unwrap();
    for event_id in &kept {
        system.ends(event_id, State::Delivered, "").await;
    }
    assert_eq!(system.receiver.received_at("/orders").len(), kept.len());
}

#[tokio::test]
async fn a_target_counts_as_soon_as_it_is_created() {
    let system = System::start().await;
    // The control plane remembers the account as it was before each of these.
    for round in 0..20 {
        let endpoint_id = format!("ep_{round}");
        system.plane.create(system.endpoint(&endpoint_id)).await;
        let endpoint_ids = vec![endpoint_id.clone()];
        let request = EmitRequest { endpoint_ids, ..event(ACCOUNT, "order.placed", "{}") };
        assert_eq!(targets(&system, request).await, [format!("/{endpoint_id}")]);
    }
}
