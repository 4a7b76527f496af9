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

/// A cluster's nodes talk to each other on the port this far above their own.
const BUS: u16 = 10_000;

// The system gives outgoing connections ports from 32768 up. One of those could take the port of a server that is down
// for a moment, or even connect to itself while it tries to reach that server; so ports and bus ports stay below.
const LOWEST: u16 = 10_001;
const COUNT: u16 = 12_000;

/// A port that was free a moment ago, and so was its bus port. It is never given out twice in one process.
pub fn free_port() -> u16 {
    // Processes begin at random, to stay out of each other's way.
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
