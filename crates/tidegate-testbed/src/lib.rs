//! Real redis servers for tests and benchmarks: alone ([`Server`]), as a [`Cluster`], or watched by a [`Sentinel`].
//! [`markdown`] finds the code blocks of documents for the tests that run them.
//!
//! Every call blocks, every wait has a time limit, and every failure is a panic that gives the reason. Servers listen
//! on 127.0.0.1 and use a temporary directory. They are killed when the value that started them is dropped, or when the
//! process ends.
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
pub mod markdown;
mod port;
mod process;
mod proxy;
mod reply;
mod sentinel;
mod server;
mod tls;
mod wait;
mod wire;

pub use builder::ServerBuilder;
pub use cluster::{Cluster, SlotMove};
pub use port::free_port;
pub use proxy::{Proxy, ProxyFaults};
pub use reply::Reply;
pub use sentinel::Sentinel;
pub use server::Server;
pub use wait::wait_for;
pub use wire::Wire;
