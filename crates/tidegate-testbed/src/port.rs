//! Free ports.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    net::{Ipv4Addr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// The distance from a port to the bus port, on which the nodes of a cluster talk to each other.
const BUS: u16 = 10_000;

// Outgoing connections use ports from 32768 up. One of them could take the port of a server that restarts, or even
// connect to itself while it tries to reach that server. So ports and bus ports stay below.
const LOWEST: u16 = 10_001;
const COUNT: u16 = 12_000;

/// Returns a port that was free a moment ago, together with its bus port. Never returns a port twice in one process.
pub fn free_port() -> u16 {
    // Each process begins at a random port, so that processes rarely compete for one.
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0) >> 1));
    (0..COUNT)
        .map(|_| {
            let turn = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(COUNT);
            LOWEST + u16::try_from(turn).expect("below COUNT")
        })
        .find(|&port| is_free(port) && is_free(port + BUS))
        .expect("no port is free")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
