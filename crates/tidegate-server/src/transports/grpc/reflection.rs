//! Server reflection: the descriptors of the services, for tools such as grpcurl.

use tonic_reflection::server::{Builder, v1, v1alpha};

use super::proto;

/// Returns the reflection service under its current name.
pub(super) fn v1() -> v1::ServerReflectionServer<impl v1::ServerReflection> {
    builder().build_v1().expect("the descriptors are valid")
}

/// Returns the reflection service under the name that older tools use.
pub(super) fn v1alpha() -> v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection> {
    builder().build_v1alpha().expect("the descriptors are valid")
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
}
