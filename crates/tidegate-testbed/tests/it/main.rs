//! Tests of the testbed with real servers.

mod cluster;
mod proxy;
mod sentinel;
mod server;
mod tls;
