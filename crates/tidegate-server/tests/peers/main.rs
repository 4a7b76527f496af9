//! Tests of the service with real clients and real proxies. `scripts/peers` installs them.

#[path = "../it/http/client.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
mod client;
mod envoy;
mod openapi;
mod prometheus;
mod proxies;
mod redis_clients;
#[path = "../it/running.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use all of it")]
mod running;
mod tools;
mod upstream;
