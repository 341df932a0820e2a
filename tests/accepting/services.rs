//! What tools ask of a gRPC server: its health and its own description.

use posthaste_tests::{Plane, database};
use tokio_stream::StreamExt;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

const SERVICES: [&str; 5] = [
    "posthaste.dispatch.v1.DispatchService",
    "posthaste.v1.AccountService",
    "posthaste.v1.DeliveryService",
    "posthaste.v1.EndpointService",
    "posthaste.v1.EventService",
];

#[tokio::test]
async fn health_is_answered_for_the_server_and_its_service() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    let mut client = HealthClient::new(plane.channel());
    for service in ["", "posthaste.v1.EventService"] {
        let request = HealthCheckRequest { service: service.into() };
        let answer = client.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = HealthCheckRequest { service: "posthaste.v1.Nothing".into() };
    assert_eq!(client.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
}

macro_rules! listed {
    ($version:ident, $plane:expr) => {{
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let mut client = $version::server_reflection_client::ServerReflectionClient::new($plane.channel());
        let ask = |message| $version::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        let requests = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("posthaste.v1.EventService".into())),
        ];
        let answers = client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
        let answers: Vec<_> = answers.map(|answer| answer.unwrap().message_response.unwrap()).collect().await;
        let [MessageResponse::ListServicesResponse(list), MessageResponse::FileDescriptorResponse(file)] = &answers[..]
        else {
            panic!("{answers:?}")
        };
        assert!(!file.file_descriptor_proto.is_empty());
        list.service.iter().map(|service| service.name.clone()).collect::<Vec<_>>()
    }};
}

#[tokio::test]
async fn reflection_lists_every_service_in_both_versions() {
    let database = database().await;
    let plane = Plane::start(database.url()).await;
    for listed in [listed!(v1, plane), listed!(v1alpha, plane)] {
        for service in SERVICES {
            assert!(listed.iter().any(|found| found == service), "{service} in {listed:?}");
        }
    }
}
