//! Tests of the public API with real servers and clients on loopback. The tests control the limiter's clock.

mod after_response;
mod bad_input;
mod bodies;
mod caller;
mod deferred_store;
mod denials;
mod gate;
mod grpc;
mod headers;
mod in_flight;
mod in_redis;
mod kept_holds;
mod keys;
mod lost_holds;
mod overrides;
mod plain_hyper;
mod readiness;
mod reserved;
mod rules;
mod test_server;
mod warnings;
