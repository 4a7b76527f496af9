//! The memory of a request in the window in Redis: our log compared with a sorted set.
//!
//! Requests have random times in the window, as those of independent clients, because the size of our log depends on
//! the times. The times are given, so nothing waits. The sorted set has the members that the rival's script adds for
//! the same requests.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tidegate::{Cost, Key, Limit, Op, Policy, Store as _, Timestamp};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

use super::Options;
use super::report::MemoryRow;
use super::rival::{member, micros};
use super::servers::{connected, field, info, number};
use crate::measure::as_f64;
use crate::progress;
use crate::stopwatch::Deadline;
use crate::workload;

const REQUESTS: usize = 1_000;
const KEYS: usize = 200;
const WANTED: f64 = 1.0 / 8.0;
const SEED: u64 = 0x10_9b;
/// An arbitrary time: nothing here reads a clock.
const EPOCH_US: u64 = 1_700_000_000_000_000;

/// Bytes divided by the number of requests.
struct Bytes {
    /// By MEMORY USAGE of each key.
    by_key: f64,
    /// By the growth of the server's memory.
    by_server: f64,
}

pub(super) async fn run(options: &Options) -> Result<Vec<MemoryRow>> {
    let mut rows = Vec::new();
    for (text, window) in [("1000/1m", Duration::from_secs(60)), ("1000/1h", Duration::from_secs(3_600))] {
        for keys in [1, options.size.of(KEYS)] {
            progress::show(&format!("memory of {REQUESTS} requests each of {keys} keys, {text}"));
            let ours = ours(window, keys).await?;
            let theirs = theirs(window, keys)?;
            let row = |measure, ours: f64, theirs: f64| MemoryRow {
                limit: text.to_owned(),
                keys,
                requests: REQUESTS,
                measure,
                ours,
                theirs,
                ratio: ours / theirs,
                wanted: WANTED,
            };
            rows.push(row("MEMORY USAGE", ours.by_key, theirs.by_key));
            // The memory of one key is below the variation of the server's memory.
            if keys > 1 {
                rows.push(row("used_memory", ours.by_server, theirs.by_server));
            }
        }
    }
    Ok(rows)
}

/// The times of the requests, sorted.
fn times(window: Duration) -> Vec<u64> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut times: Vec<u64> = (0..REQUESTS).map(|_| EPOCH_US + rng.random_range(0..micros(window))).collect();
    times.sort_unstable();
    times
}

async fn ours(window: Duration, keys: usize) -> Result<Bytes> {
    let server = Server::start();
    let mut wire = server.wire();
    // Loads the script, which stays in the server's memory.
    drop(connected(RedisStore::builder(&server.url())).await?);
    let before = used_memory(&mut wire)?;
    let store = connected(RedisStore::builder(&server.url())).await?;
    let policy = Policy::new("bench", [Limit::new(REQUESTS as u64, window)?])?;
    let subjects = workload::texts(&workload::shuffled(keys));
    for time in times(window) {
        let now = Timestamp::from_micros(time);
        let decide = |subject| {
            let (store, policy) = (&store, &policy);
            async move { anyhow::Ok(store.at(now).decide(Op::Check, policy, &Key::new(subject)?, Cost::ONE).await?) }
        };
        for decision in join_all(subjects.iter().map(decide)).await {
            ensure!(decision?.is_allowed(), "a request was denied below the limit");
        }
    }
    drop(store);
    bytes(&mut wire, before, keys)
}

/// Does the same as the rival's script, one ZADD for each request, but at given times.
fn theirs(window: Duration, keys: usize) -> Result<Bytes> {
    let server = Server::start();
    let mut wire = server.wire();
    let before = used_memory(&mut wire)?;
    let mut other = server.wire();
    let subjects = workload::texts(&workload::shuffled(keys));
    for time in times(window) {
        for subject in &subjects {
            other.send(["ZADD", subject, &time.to_string(), &format!("{}:1", member())]);
        }
        for _ in &subjects {
            ensure!(other.read().integer() == 1, "two requests have the same member");
        }
    }
    let lifetime = Duration::from_secs(7_200).as_millis().to_string();
    for subject in &subjects {
        other.command(["PEXPIRE", subject, &lifetime]);
    }
    drop(other);
    bytes(&mut wire, before, keys)
}

fn bytes(wire: &mut Wire, before: f64, keys: usize) -> Result<Bytes> {
    let after = used_memory(wire)?;
    let names = wire.command(["KEYS", "*"]);
    let names = names.array();
    ensure!(names.len() == keys, "{} keys instead of {keys}", names.len());
    let sizes = names.iter().map(|name| {
        let name = name.bulk().unwrap_or_default();
        wire.command([b"MEMORY", b"USAGE".as_slice(), name, b"SAMPLES", b"0"]).integer()
    });
    let sum = usize::try_from(sizes.sum::<i64>())?;
    let requests = as_f64(keys * REQUESTS);
    Ok(Bytes { by_key: as_f64(sum) / requests, by_server: (after - before) / requests })
}

/// The server's memory after all other clients have disconnected, because their buffers count.
fn used_memory(wire: &mut Wire) -> Result<f64> {
    let deadline = Deadline::after(Duration::from_secs(10));
    loop {
        let clients = field(&info(wire, "clients"), "connected_clients:").map(number);
        if clients == Some(1.0) {
            let memory = info(wire, "memory");
            return field(&memory, "used_memory:").map(number).context("the server does not report its memory");
        }
        ensure!(!deadline.has_passed(), "another client is still connected");
    }
}
