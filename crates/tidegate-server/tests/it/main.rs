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
mod shutdown;
mod store_outage;
mod tls;
