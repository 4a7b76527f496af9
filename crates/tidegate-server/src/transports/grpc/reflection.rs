//! What the services look like, for tools that ask. Envoy's messages are described here as far as its rate limit service goes: the
//! files are named as Envoy names them and hold what is reachable from a request or an answer, without annotations.

use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MessageOptions, MethodDescriptorProto, OneofDescriptorProto, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use tonic_reflection::server::{Builder, v1, v1alpha};

const RLS: &str = ".envoy.service.ratelimit.v3";

/// The service by its present name.
pub(super) fn v1() -> v1::ServerReflectionServer<impl v1::ServerReflection> {
    builder().build_v1().expect("the descriptors are well formed")
}

/// The service by the name that older tools ask for.
pub(super) fn v1alpha() -> v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection> {
    builder().build_v1alpha().expect("the descriptors are well formed")
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_file_descriptor_set(FileDescriptorSet { file: files() })
}

fn files() -> Vec<FileDescriptorProto> {
    vec![service(), descriptors(), units(), headers(), durations(), timestamps(), wrappers(), structs()]
}

fn service() -> FileDescriptorProto {
    let in_answer = |name: &str| format!("{RLS}.RateLimitResponse.{name}");
    let request = message(
        "RateLimitRequest",
        vec![
            field("domain", 1, Type::String),
            of(field("descriptors", 2, Type::Message), ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor")
                .many(),
            field("hits_addend", 3, Type::Uint32),
        ],
    );
    let limit = DescriptorProto {
        enum_type: vec![enumeration("Unit", &UNITS)],
        ..message(
            "RateLimit",
            vec![
                field("requests_per_unit", 1, Type::Uint32),
                of(field("unit", 2, Type::Enum), &in_answer("RateLimit.Unit")),
                field("name", 3, Type::String),
            ],
        )
    };
    let quota = DescriptorProto {
        oneof_decl: vec![OneofDescriptorProto { name: Some("expiration_specifier".to_owned()), options: None }],
        ..message(
            "Quota",
            vec![
                field("requests", 1, Type::Uint32),
                of(field("valid_until", 2, Type::Message), ".google.protobuf.Timestamp").one_of(),
                field("id", 3, Type::String),
            ],
        )
    };
    let status = message(
        "DescriptorStatus",
        vec![
            of(field("code", 1, Type::Enum), &in_answer("Code")),
            of(field("current_limit", 2, Type::Message), &in_answer("RateLimit")),
            field("limit_remaining", 3, Type::Uint32),
            of(field("duration_until_reset", 4, Type::Message), ".google.protobuf.Duration"),
            of(field("quota", 5, Type::Message), &in_answer("Quota")),
        ],
    );
    let header = ".envoy.config.core.v3.HeaderValue";
    let answer = DescriptorProto {
        nested_type: vec![limit, quota, status],
        enum_type: vec![enumeration("Code", &[("UNKNOWN", 0), ("OK", 1), ("OVER_LIMIT", 2)])],
        ..message(
            "RateLimitResponse",
            vec![
                of(field("overall_code", 1, Type::Enum), &in_answer("Code")),
                of(field("statuses", 2, Type::Message), &in_answer("DescriptorStatus")).many(),
                of(field("response_headers_to_add", 3, Type::Message), header).many(),
                of(field("request_headers_to_add", 4, Type::Message), header).many(),
                field("raw_body", 5, Type::Bytes),
                of(field("dynamic_metadata", 6, Type::Message), ".google.protobuf.Struct"),
                of(field("quota", 7, Type::Message), &in_answer("Quota")),
            ],
        )
    };
    let method = MethodDescriptorProto {
        name: Some("ShouldRateLimit".to_owned()),
        input_type: Some(format!("{RLS}.RateLimitRequest")),
        output_type: Some(format!("{RLS}.RateLimitResponse")),
        ..MethodDescriptorProto::default()
    };
    let service = ServiceDescriptorProto {
        name: Some("RateLimitService".to_owned()),
        method: vec![method],
        ..ServiceDescriptorProto::default()
    };
    let imports = [
        "envoy/config/core/v3/base.proto",
        "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
        "google/protobuf/duration.proto",
        "google/protobuf/struct.proto",
        "google/protobuf/timestamp.proto",
    ];
    FileDescriptorProto {
        dependency: imports.map(str::to_owned).to_vec(),
        service: vec![service],
        ..file("envoy/service/ratelimit/v3/rls.proto", &RLS[1..], vec![request, answer])
    }
}

const UNITS: [(&str, i32); 8] =
    [("UNKNOWN", 0), ("SECOND", 1), ("MINUTE", 2), ("HOUR", 3), ("DAY", 4), ("WEEK", 7), ("MONTH", 5), ("YEAR", 6)];

fn descriptors() -> FileDescriptorProto {
    let package = "envoy.extensions.common.ratelimit.v3";
    let inside = |name: &str| format!(".{package}.RateLimitDescriptor.{name}");
    let entry = message("Entry", vec![field("key", 1, Type::String), field("value", 2, Type::String)]);
    let limit = message(
        "RateLimitOverride",
        vec![
            field("requests_per_unit", 1, Type::Uint32),
            of(field("unit", 2, Type::Enum), ".envoy.type.v3.RateLimitUnit"),
        ],
    );
    let descriptor = DescriptorProto {
        nested_type: vec![entry, limit],
        ..message(
            "RateLimitDescriptor",
            vec![
                of(field("entries", 1, Type::Message), &inside("Entry")).many(),
                of(field("limit", 2, Type::Message), &inside("RateLimitOverride")),
                of(field("hits_addend", 3, Type::Message), ".google.protobuf.UInt64Value"),
                field("is_negative_hits", 4, Type::Bool),
            ],
        )
    };
    let imports = ["envoy/type/v3/ratelimit_unit.proto", "google/protobuf/wrappers.proto"];
    FileDescriptorProto {
        dependency: imports.map(str::to_owned).to_vec(),
        ..file("envoy/extensions/common/ratelimit/v3/ratelimit.proto", package, vec![descriptor])
    }
}

fn units() -> FileDescriptorProto {
    let known: Vec<_> = UNITS.into_iter().filter(|(name, _)| *name != "WEEK").collect();
    FileDescriptorProto {
        enum_type: vec![enumeration("RateLimitUnit", &known)],
        ..file("envoy/type/v3/ratelimit_unit.proto", "envoy.type.v3", Vec::new())
    }
}

fn headers() -> FileDescriptorProto {
    let fields =
        vec![field("key", 1, Type::String), field("value", 2, Type::String), field("raw_value", 3, Type::Bytes)];
    file("envoy/config/core/v3/base.proto", "envoy.config.core.v3", vec![message("HeaderValue", fields)])
}

fn durations() -> FileDescriptorProto {
    well_known("duration", vec![message("Duration", seconds_and_nanos())])
}

fn timestamps() -> FileDescriptorProto {
    well_known("timestamp", vec![message("Timestamp", seconds_and_nanos())])
}

fn seconds_and_nanos() -> Vec<FieldDescriptorProto> {
    vec![field("seconds", 1, Type::Int64), field("nanos", 2, Type::Int32)]
}

fn wrappers() -> FileDescriptorProto {
    well_known("wrappers", vec![message("UInt64Value", vec![field("value", 1, Type::Uint64)])])
}

fn structs() -> FileDescriptorProto {
    let value = ".google.protobuf.Value";
    let entry = DescriptorProto {
        options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..message("FieldsEntry", vec![field("key", 1, Type::String), of(field("value", 2, Type::Message), value)])
    };
    let structure = DescriptorProto {
        nested_type: vec![entry],
        ..message("Struct", vec![of(field("fields", 1, Type::Message), ".google.protobuf.Struct.FieldsEntry").many()])
    };
    let kinds = vec![
        of(field("null_value", 1, Type::Enum), ".google.protobuf.NullValue").one_of(),
        field("number_value", 2, Type::Double).one_of(),
        field("string_value", 3, Type::String).one_of(),
        field("bool_value", 4, Type::Bool).one_of(),
        of(field("struct_value", 5, Type::Message), ".google.protobuf.Struct").one_of(),
        of(field("list_value", 6, Type::Message), ".google.protobuf.ListValue").one_of(),
    ];
    let any = DescriptorProto {
        oneof_decl: vec![OneofDescriptorProto { name: Some("kind".to_owned()), options: None }],
        ..message("Value", kinds)
    };
    let list = message("ListValue", vec![of(field("values", 1, Type::Message), value).many()]);
    FileDescriptorProto {
        enum_type: vec![enumeration("NullValue", &[("NULL_VALUE", 0)])],
        ..well_known("struct", vec![structure, any, list])
    }
}

fn well_known(name: &str, messages: Vec<DescriptorProto>) -> FileDescriptorProto {
    file(&format!("google/protobuf/{name}.proto"), "google.protobuf", messages)
}

fn file(name: &str, package: &str, messages: Vec<DescriptorProto>) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        message_type: messages,
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field, ..DescriptorProto::default() }
}

fn enumeration(name: &str, values: &[(&str, i32)]) -> EnumDescriptorProto {
    let value = |(name, number): &(&str, i32)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(*number),
        options: None,
    };
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: values.iter().map(value).collect(),
        ..EnumDescriptorProto::default()
    }
}

fn field(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

/// A field of a message or of an enumeration of this full name.
fn of(field: FieldDescriptorProto, name: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(name.to_owned()), ..field }
}

trait Shaped {
    /// Any number of them.
    fn many(self) -> Self;
    /// One of those in the message's only `oneof`.
    fn one_of(self) -> Self;
}

impl Shaped for FieldDescriptorProto {
    fn many(self) -> Self {
        Self { label: Some(Label::Repeated.into()), ..self }
    }

    fn one_of(self) -> Self {
        Self { oneof_index: Some(0), ..self }
    }
}
