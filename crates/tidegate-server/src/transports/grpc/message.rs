//! What Envoy sends, as it is on the wire.
//!
//! The protocol has names and values as text, but Envoy fills in headers as they come, and a client can put any byte into one.
//! A message that can't be read is an error, and Envoy lets through what its service has an error for: as text, one such byte
//! would be a way past every limit. On the wire, bytes are the same as text.

use envoy_types::pb::{
    envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride, google::protobuf::UInt64Value,
};

/// `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    pub(super) hits_addend: u32,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(super) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    pub(super) hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    pub(super) is_negative_hits: bool,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}
