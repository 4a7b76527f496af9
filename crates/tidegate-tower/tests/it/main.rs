//! The layer from outside: real servers and clients on loopback, with the limiter's time in a test's hand.

mod after_response;
mod bodies;
mod caller;
mod denials;
mod grpc;
mod headers;
mod in_redis;
mod keys;
mod overrides;
mod plain_hyper;
mod readiness;
mod rules;
mod site;
