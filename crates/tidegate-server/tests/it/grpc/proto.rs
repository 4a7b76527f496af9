//! The messages of the service, for the client of these tests.

#[path = "../../../src/transports/grpc/proto/mod.rs"]
mod messages;

pub(super) use messages::{
    Code::{self, Ok as Fine, OverLimit},
    DESCRIPTORS, DescriptorStatus, Entry, RateLimit, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
    RateLimitResponse, SERVICE_NAME, Unit,
};
