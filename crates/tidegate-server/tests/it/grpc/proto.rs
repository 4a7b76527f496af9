//! The generated messages of the service, for the client of these tests.

#![allow(dead_code, unreachable_pub, clippy::pedantic)]

include!("../../../src/transports/grpc/proto/generated/mod.rs");

pub(super) use envoy::{
    extensions::common::ratelimit::v3::{
        RateLimitDescriptor,
        rate_limit_descriptor::{Entry, RateLimitOverride},
    },
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{
            Code::{self, Ok as Fine, OverLimit},
            DescriptorStatus, RateLimit,
            rate_limit::Unit,
        },
    },
};
pub(super) use kuadrant::service::ratelimit::v1::{CommitRequest, CommitResponse, ReserveRequest, ReserveResponse};
