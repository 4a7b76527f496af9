//! The service from outside: what goes over its wires.

mod abuse;
mod agreement;
mod bans;
mod configuration;
mod grpc;
mod http;
mod middleware;
mod overload;
mod reload;
mod resp;
mod running;
mod stopping;
mod store_away;
mod tls;
