//! The testbed against real servers.

mod cluster;
mod proxy;
mod sentinel;
mod server;
mod tls;
