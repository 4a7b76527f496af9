//! Server reflection.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto};
use tonic_reflection::pb;

use super::{GrpcClient, channel};

/// Sends one request in either version of the protocol.
macro_rules! reflect {
    ($client:expr, $version:ident, $request:ident, $text:expr) => {{
        use pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest,
        };
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::$request($text.to_owned())),
        };
        let mut client = ServerReflectionClient::new(channel(&$client.running));
        let response = async {
            let mut responses = client.server_reflection_info(tokio_stream::once(request)).await?.into_inner();
            responses.message().await
        };
        let response = $client.running.block_on(response).expect("a response").expect("one response to one request");
        response.message_response.expect("a response with content")
    }};
}

#[test]
fn all_services_are_listed_in_both_versions() {
    let client = GrpcClient::start("");
    let expected = [
        "envoy.service.ratelimit.v3.RateLimitService",
        "grpc.health.v1.Health",
        "kuadrant.service.ratelimit.v1.RateLimitService",
    ];
    let pb::v1::server_reflection_response::MessageResponse::ListServicesResponse(list) =
        reflect!(client, v1, ListServices, "")
    else {
        panic!("the response is not a list")
    };
    let names: BTreeSet<_> = list.service.into_iter().map(|service| service.name).collect();
    assert!(expected.iter().all(|name| names.contains(*name)), "{names:?}");
    let pb::v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(list) =
        reflect!(client, v1alpha, ListServices, "")
    else {
        panic!("the response is not a list")
    };
    let names: BTreeSet<_> = list.service.into_iter().map(|service| service.name).collect();
    assert!(expected.iter().all(|name| names.contains(*name)), "{names:?}");
}

/// Returns all files that a tool fetches to resolve a symbol.
fn files(client: &GrpcClient, symbol: &str) -> BTreeMap<String, FileDescriptorProto> {
    use pb::v1::server_reflection_response::MessageResponse::FileDescriptorResponse as Files;
    let read = |bytes: &[Vec<u8>]| FileDescriptorProto::decode(&*bytes[0]).expect("a file descriptor");
    let Files(first) = reflect!(client, v1, FileContainingSymbol, symbol) else { panic!("{symbol} is unknown") };
    let mut waiting = vec![read(&first.file_descriptor_proto)];
    let mut all = BTreeMap::new();
    while let Some(file) = waiting.pop() {
        for name in &file.dependency {
            let Files(next) = reflect!(client, v1, FileByFilename, name.as_str()) else { panic!("{name} is missing") };
            waiting.push(read(&next.file_descriptor_proto));
        }
        all.insert(file.name().to_owned(), file);
    }
    all
}

fn types(prefix: &str, message: &DescriptorProto, known: &mut BTreeSet<String>, used: &mut BTreeSet<String>) {
    let name = format!("{prefix}.{}", message.name());
    used.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
    known.extend(message.enum_type.iter().map(|inner| format!("{name}.{}", inner.name())));
    for nested in &message.nested_type {
        types(&name, nested, known, used);
    }
    known.insert(name);
}

#[test]
fn all_types_of_a_request_and_its_response_are_described() {
    let client = GrpcClient::start("");
    let mut all = files(&client, "envoy.service.ratelimit.v3.RateLimitService");
    all.extend(files(&client, "kuadrant.service.ratelimit.v1.RateLimitService"));
    let (mut known, mut used) = (BTreeSet::new(), BTreeSet::new());
    for file in all.values() {
        let package = format!(".{}", file.package());
        known.extend(file.enum_type.iter().map(|one| format!("{package}.{}", one.name())));
        for message in &file.message_type {
            types(&package, message, &mut known, &mut used);
        }
        for method in file.service.iter().flat_map(|service| &service.method) {
            used.extend([method.input_type().to_owned(), method.output_type().to_owned()]);
        }
    }
    let missing: Vec<_> = used.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(used.contains(".envoy.service.ratelimit.v3.RateLimitResponse"));
    assert!(used.contains(".kuadrant.service.ratelimit.v1.ReserveRequest"));
}
