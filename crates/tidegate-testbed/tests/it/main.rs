//! The testbed against real servers.

mod cluster;
mod sentinel;
mod server;
mod tls;
