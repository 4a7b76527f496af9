//! Real redis servers for tests and benchmarks: alone ([`Server`]), as a [`Cluster`], or watched by a [`Sentinel`].
//!
//! Everything blocks, every wait has a bound, and whatever goes wrong is a panic that says why. Servers listen on
//! 127.0.0.1, live in a temporary directory, and die with the value that started them, or else with the process.
//!
//! ```
//! use tidegate_testbed::Server;
//!
//! let server = Server::start();
//! let mut wire = server.wire();
//! wire.command(["SET", "a", "b"]).expect_ok();
//! server.kill();
//! server.restart();
//! assert_eq!(server.wire().command(["GET", "a"]).bulk(), None);
//! ```
#![expect(clippy::missing_panics_doc, reason = "everything here panics: that is how a test fails")]

mod builder;
mod cluster;
mod patience;
mod port;
mod process;
mod proxy;
mod reply;
mod sentinel;
mod server;
mod tls;
mod wire;

pub use builder::ServerBuilder;
pub use cluster::{Cluster, ClusterBuilder, Failover, SlotMove};
pub use patience::wait_for;
pub use port::free_port;
pub use proxy::Proxy;
pub use reply::Reply;
pub use sentinel::Sentinel;
pub use server::Server;
pub use wire::Wire;
