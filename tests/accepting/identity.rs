//! Ids and keys are bytes that callers chose: nothing in them separates, joins or is trimmed.

use posthaste_domain::signature::Secret;
use posthaste_proto::v1::{EmitRequest, GetDeliveryRequest, GetEventRequest, ListEndpointsRequest};
use posthaste_tests::Plane;
use posthaste_tests::calls::{endpoint, event};
use posthaste_tests::wait::LIMIT;

use crate::system::System;

fn names() -> Vec<String> {
    let mut names: Vec<String> =
        ["a:b", "a-b", "a.b", "a b  c", "🪝 é", "A:B", "a::b", "../a", "%2F", "'; --", "0123", "123", "..", "a/b"]
            .map(str::to_owned)
            .into();
    names.push(format!("{}x", "é".repeat(127)));
    names.push("n".repeat(255));
    names
}

#[tokio::test]
async fn every_name_stays_what_it_is() {
    let system = System::start().await;
    let plane = &system.plane;
    let mut event_ids = Vec::new();
    for (index, name) in names().into_iter().enumerate() {
        let path = format!("/{index}");
        assert_eq!(plane.create_account(&name).await.account_id, name);
        plane.create(endpoint(&name, &name, &system.receiver.url(&path))).await;
        system.receiver.trust(&path, plane.secrets(&name, &name).await);
        let mut request = event(&name, "invoice.paid", format!("{{\"name\": {index}}}"));
        request.idempotency_key.clone_from(&name);
        let event_id = plane.emit(request.clone()).await;
        let again = plane.events().emit(request).await.unwrap().into_inner();
        assert!(again.duplicate && again.event_id == event_id, "{name}");
        event_ids.push((name, path, event_id));
    }
    system.receiver.wait_for(event_ids.len(), LIMIT).await.unwrap();
    for (name, path, event_id) in event_ids {
        let deliveries = plane.wait_ended(&name, &event_id).await;
        assert_eq!(deliveries.len(), 1, "{name}");
        assert_eq!(deliveries[0].endpoint_id, name);
        let request = GetDeliveryRequest { account_id: name.clone(), delivery_id: deliveries[0].delivery_id.clone() };
        assert_eq!(plane.deliveries().get_delivery(request).await.unwrap().into_inner().event_id, event_id);
        let request = GetEventRequest { account_id: name.clone(), event_id: event_id.clone(), include_payload: true };
        let kept = plane.events().get_event(request).await.unwrap().into_inner();
        assert_eq!((&kept.account_id, &kept.idempotency_key), (&name, &name));
        let received = system.receiver.received_at(&path);
        assert_eq!(received.len(), 1, "{name}");
        assert_eq!((received[0].webhook_id(), &received[0].body), (event_id.as_str(), &kept.payload));
        assert_eq!(received[0].signature, posthaste_bench::receiver::Signature::Verified, "{name}");
        assert_eq!(received[0].header("idempotency-key"), Some(name.as_bytes()), "{name}");
    }
}

async fn own_endpoint(plane: &Plane, account: &str, id: &str, url: &str) -> Vec<Secret> {
    plane.create_account(account).await;
    plane.create(endpoint(account, id, url)).await;
    plane.secrets(account, id).await
}

#[tokio::test]
async fn names_that_read_alike_when_joined_stay_apart() {
    let system = System::start().await;
    let plane = &system.plane;
    let pairs = [("order-1", "customer", "/first"), ("order", "1-customer", "/second")];
    for (account, id, path) in pairs {
        let secrets = own_endpoint(plane, account, id, &system.receiver.url(path)).await;
        system.receiver.trust(path, secrets);
    }
    let mut event_ids = Vec::new();
    for (account, id, path) in pairs {
        let mut request: EmitRequest = event(account, "invoice.paid", format!("\"{path}\""));
        request.idempotency_key = "k".into();
        let emitted = plane.events().emit(request).await.unwrap().into_inner();
        assert!(!emitted.duplicate, "{account}");
        plane.wait_ended(account, &emitted.event_id).await;
        let received = system.receiver.received_at(path);
        assert_eq!(received.len(), 1, "{path}");
        assert_eq!(received[0].signature, posthaste_bench::receiver::Signature::Verified);
        assert_eq!(received[0].webhook_id(), emitted.event_id);
        let request = ListEndpointsRequest { account_id: account.into(), ..ListEndpointsRequest::default() };
        let listed = plane.endpoints().list_endpoints(request).await.unwrap().into_inner().endpoints;
        assert_eq!(listed.iter().map(|one| one.endpoint_id.as_str()).collect::<Vec<_>>(), [id]);
        event_ids.push(emitted.event_id);
    }
    assert_ne!(event_ids[0], event_ids[1]);
    assert_eq!(system.receiver.received().len(), 2);
    let foreign =
        GetEventRequest { account_id: "order".into(), event_id: event_ids[0].clone(), include_payload: false };
    assert_eq!(plane.events().get_event(foreign).await.unwrap_err().code(), tonic::Code::NotFound);
}
