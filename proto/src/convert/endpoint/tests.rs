//! Values of headers: in by a request, never out by an answer.

use super::*;

fn request(headers: &[(&str, &str)]) -> v1::Endpoint {
    v1::Endpoint {
        account_id: "acme".into(),
        endpoint_id: "e".into(),
        url: "https://example.com/".into(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..v1::Endpoint::default()
    }
}

fn created(headers: &[(&str, &str)]) -> Result<EndpointSettings, Refused> {
    let request = v1::CreateEndpointRequest { endpoint: Some(request(headers)), secret: String::new() };
    create_endpoint(&request, &Policy::default()).map(|create| create.settings)
}

fn updated(
    present: &EndpointSettings,
    endpoint: v1::Endpoint,
    fields: &[&str],
) -> Result<EndpointSettings, Vec<Violation>> {
    let paths = fields.iter().map(|field| (*field).to_owned()).collect();
    let request =
        v1::UpdateEndpointRequest { endpoint: Some(endpoint), update_mask: Some(prost_types::FieldMask { paths }) };
    apply_update(present, &request, &Policy::default()).map_err(|refused| refused.violations)
}

#[test]
fn what_is_read_can_be_written_back_and_loses_nothing() {
    let present = created(&[("Authorization", "Bearer abc"), ("X-Key", "k"), ("User-Agent", "shop")]).unwrap();
    let read = settings_to_wire(&present);
    assert_eq!(read.headers["Authorization"], "Bearer ****");
    assert_eq!((read.headers["X-Key"].as_str(), read.headers["User-Agent"].as_str()), ("****", "shop"));
    assert_eq!(updated(&present, read.clone(), &["headers", "url"]).as_ref(), Ok(&present));
    let other = v1::Endpoint { display_name: "Shop".into(), ..v1::Endpoint::default() };
    assert_eq!(updated(&present, other, &["display_name"]).unwrap().headers, present.headers);
    let mut renewed = read;
    renewed.headers.insert("X-Key".into(), "k2".into());
    let renewed = updated(&present, renewed, &["headers"]).unwrap();
    let values: Vec<_> = renewed.headers.iter().collect();
    assert_eq!(values, [("Authorization", "Bearer abc"), ("User-Agent", "shop"), ("X-Key", "k2")]);
}

#[test]
fn a_mask_without_its_value_is_refused_by_the_name_of_its_field() {
    let fields = |violations: Vec<Violation>| violations.into_iter().map(|one| one.field).collect::<Vec<_>>();
    let refused = created(&[("X-Key", "****")]).unwrap_err();
    assert_eq!(fields(refused.violations), ["endpoint.headers[X-Key]"]);
    let present = created(&[("X-Key", "k")]).unwrap();
    let moved = request(&[("X-Other", "****"), ("X-Key", "Bearer ****")]);
    let mut refused = fields(updated(&present, moved, &["headers"]).unwrap_err());
    refused.sort();
    assert_eq!(refused, ["endpoint.headers[X-Key]", "endpoint.headers[X-Other]"]);
}

#[test]
fn debug_shows_no_value_of_a_header() {
    let endpoint = request(&[("X-Key", "very-private")]);
    let create = v1::CreateEndpointRequest { endpoint: Some(endpoint.clone()), secret: String::new() };
    let update = v1::UpdateEndpointRequest { endpoint: Some(endpoint), update_mask: None };
    let settings = created(&[("X-Key", "very-private")]).unwrap();
    for text in [format!("{create:?}"), format!("{update:?}"), format!("{settings:?}")] {
        assert!(text.contains("X-Key") && !text.contains("very-private"), "{text}");
    }
}
