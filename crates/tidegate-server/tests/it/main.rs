//! Tests of the service over its transports.

mod abuse;
mod agreement;
mod bans;
mod configuration;
mod configuration_errors;
mod foreign_store;
mod grpc;
mod http;
mod leases;
mod middleware;
mod overload;
mod regions;
mod reload;
mod reservations;
mod resp;
mod running;
mod shutdown;
mod store_outage;
mod tls;
