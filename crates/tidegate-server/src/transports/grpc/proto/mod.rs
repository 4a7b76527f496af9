//! Messages and descriptors of Envoy's rate limit protocol, and of Kuadrant's reservation protocol.
//!
//! The `.proto` files of this folder declare the messages that the service uses, without annotations. Their paths are those of
//! the original files, because reflection shows them. `cargo run -p tidegate-codegen` generates the folder `generated` from them.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::pedantic)]

include!("generated/mod.rs");

pub(super) use envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride},
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
    },
};

pub(super) use kuadrant::service::ratelimit::v1::{CommitRequest, CommitResponse, ReserveRequest, ReserveResponse};

/// The full name of Kuadrant's rate limit service.
pub(super) const KUADRANT_NAME: &str = "kuadrant.service.ratelimit.v1.RateLimitService";

/// The full name of Envoy's rate limit service.
pub(super) const SERVICE_NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The encoded `FileDescriptorSet` of both services and of everything that it imports.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
