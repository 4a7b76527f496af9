//! A load generator whose requests depend on earlier replies, as a commit depends on the id of its reserve, which
//! redis-benchmark can't do.
//!
//! It sends pipelines over all connections of one thread, and waits for all replies of a pipeline. Requests are prepared:
//! only keys and ids are written into them.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::redis_benchmark::{CLIENTS, KEYS};
use super::report::Latency;
use super::throughput::Load;
use crate::measure::as_f64;
use crate::stopwatch::now;

/// Number of commands in a pipeline.
pub(super) const PIPELINE: usize = 16;
/// Number of digits of a key, as of redis-benchmark.
const DIGITS: usize = 12;
/// The lines of the reply to a reserve: the header, six numbers, the length of the id, and the id.
const RESERVE_LINES: usize = 9;

/// The requests of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Traffic {
    /// A pipeline of `INCR`, then another one.
    TwoIncr,
    /// A pipeline of `TG.RESERVE` for two units under this policy, then a pipeline of `TG.COMMIT` for one of them.
    ReserveAndCommit(&'static str),
}

/// Sends traffic for this long. A request of the result is a pair: two `INCR`, or a reserve and its commit.
pub(super) fn run(server: SocketAddr, traffic: Traffic, length: Duration) -> Result<Load> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let connect = |seed| Connection::new(server, traffic, seed);
        let mut connections = try_join_all((0..CLIENTS).map(connect)).await?;
        let start = now();
        let latencies = try_join_all(connections.iter_mut().map(|connection| connection.run(start + length))).await?;
        let seconds = (now() - start).as_secs_f64();
        let latencies = latencies.concat();
        let pairs = latencies.len() / 2 * PIPELINE;
        Ok(Load { commands: pairs, per_second: as_f64(pairs) / seconds, latency: percentiles(latencies)? })
    })
}

struct Connection {
    stream: TcpStream,
    random: SmallRng,
    first: Prepared,
    /// The commits; empty if the second pipeline is like the first.
    commits: Vec<u8>,
    is_reserving: bool,
    replies: Vec<u8>,
}

/// A pipeline of the same command with different keys.
struct Prepared {
    bytes: Vec<u8>,
    /// The digits of each key.
    keys: Vec<Range<usize>>,
}

impl Prepared {
    fn new(before: &[&str], after: &[&str]) -> Self {
        let (mut bytes, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..PIPELINE {
            bytes.extend_from_slice(format!("*{}\r\n", before.len() + 1 + after.len()).as_bytes());
            for text in before {
                bulk(&mut bytes, text.as_bytes());
            }
            bulk(&mut bytes, format!("key:{:0DIGITS$}", 0).as_bytes());
            let end = bytes.len() - 2;
            keys.push(end - DIGITS..end);
            for text in after {
                bulk(&mut bytes, text.as_bytes());
            }
        }
        Self { bytes, keys }
    }

    fn with_random_keys(&mut self, random: &mut SmallRng) -> &[u8] {
        for range in &self.keys {
            let mut number = random.random_range(0..KEYS);
            for digit in self.bytes[range.clone()].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        }
        &self.bytes
    }
}

impl Connection {
    async fn new(server: SocketAddr, traffic: Traffic, seed: u64) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let first = match traffic {
            Traffic::TwoIncr => Prepared::new(&["INCR"], &[]),
            Traffic::ReserveAndCommit(policy) => Prepared::new(&["TG.RESERVE", policy], &["2", "60000"]),
        };
        Ok(Self {
            stream,
            random: SmallRng::seed_from_u64(seed),
            first,
            commits: Vec::new(),
            is_reserving: matches!(traffic, Traffic::ReserveAndCommit(_)),
            replies: Vec::new(),
        })
    }

    /// Sends both pipelines until `end`. Returns the time of each pipeline in microseconds.
    async fn run(&mut self, end: Instant) -> Result<Vec<u32>> {
        let mut latencies = Vec::new();
        let mut before = now();
        while before < end {
            for is_second in [false, true] {
                let Self { stream, random, first, commits, is_reserving, replies } = self;
                let (requests, lines) = match (is_second, *is_reserving) {
                    (true, true) => (&**commits, PIPELINE),
                    (false, true) => (first.with_random_keys(random), PIPELINE * RESERVE_LINES),
                    (_, false) => (first.with_random_keys(random), PIPELINE),
                };
                exchange(stream, requests, lines, replies).await?;
                match (is_second, *is_reserving) {
                    (true, true) => verify(replies, |line| line == b":1\r")?,
                    (false, true) => write_commits(replies, commits)?,
                    (_, false) => verify(replies, |line| line.starts_with(b":"))?,
                }
                let after = now();
                latencies.push(u32::try_from((after - before).as_micros()).unwrap_or(u32::MAX));
                before = after;
            }
        }
        Ok(latencies)
    }
}

/// Sends requests and reads this number of lines.
#[expect(clippy::naive_bytecount, reason = "the replies to a pipeline are short")]
async fn exchange(stream: &mut TcpStream, requests: &[u8], lines: usize, replies: &mut Vec<u8>) -> Result<()> {
    stream.write_all(requests).await?;
    replies.clear();
    let mut missing = lines;
    while missing > 0 {
        let known = replies.len();
        ensure!(stream.read_buf(replies).await? > 0, "the server closed a connection");
        let read = replies[known..].iter().filter(|byte| **byte == b'\n').count();
        missing = missing.checked_sub(read).with_context(|| unexpected(replies))?;
    }
    Ok(())
}

fn lines(replies: &[u8]) -> impl Iterator<Item = &[u8]> {
    replies.strip_suffix(b"\n").unwrap_or(replies).split(|byte| *byte == b'\n')
}

fn verify(replies: &[u8], is_right: impl Fn(&[u8]) -> bool) -> Result<()> {
    ensure!(lines(replies).all(is_right), unexpected(replies));
    Ok(())
}

/// Writes a commit of one unit for each reservation in the replies.
fn write_commits(replies: &[u8], commits: &mut Vec<u8>) -> Result<()> {
    commits.clear();
    let mut lines = lines(replies);
    while let Some(header) = lines.next() {
        let is_allowed = header == b"*7\r" && lines.next() == Some(b":1\r");
        let id = lines.nth(RESERVE_LINES - 3).and_then(|line| line.strip_suffix(b"\r"));
        let id = id.filter(|_| is_allowed).with_context(|| unexpected(replies))?;
        commits.extend_from_slice(b"*3\r\n");
        bulk(commits, b"TG.COMMIT");
        bulk(commits, id);
        bulk(commits, b"1");
    }
    Ok(())
}

fn unexpected(replies: &[u8]) -> String {
    format!("unexpected replies: {}", String::from_utf8_lossy(&replies[..replies.len().min(300)]))
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn percentiles(mut micros: Vec<u32>) -> Result<Latency> {
    micros.sort_unstable();
    let at = |per_mille: usize| {
        let value = micros.get((micros.len() * per_mille / 1_000).min(micros.len().saturating_sub(1)));
        value.map(|micros| f64::from(*micros) / 1e3).context("a round was empty")
    };
    Ok(Latency { p50: at(500)?, p99: at(990)?, p999: at(999)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_written_for_each_reservation() {
        let reply = b"*7\r\n:1\r\n:9\r\n:7\r\n:-1\r\n:60000\r\n:17\r\n$3\r\nn.A\r\n";
        let mut commits = Vec::new();
        write_commits(&reply.repeat(2), &mut commits).expect("two reservations");
        let commit = b"*3\r\n$9\r\nTG.COMMIT\r\n$3\r\nn.A\r\n$1\r\n1\r\n";
        assert_eq!(commits, commit.repeat(2));
        let denied = b"*7\r\n:0\r\n:9\r\n:0\r\n:60000\r\n:60000\r\n:0\r\n$-1\r\n";
        assert!(write_commits(denied, &mut commits).is_err());
        assert!(write_commits(b"-ERR no\r\n", &mut commits).is_err());
    }

    #[test]
    fn keys_are_written_in_place() {
        let mut prepared = Prepared::new(&["INCR"], &[]);
        let bytes = prepared.with_random_keys(&mut SmallRng::seed_from_u64(1)).to_vec();
        let text = String::from_utf8(bytes).expect("text");
        let keys: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("key:")).collect();
        assert_eq!(keys.len(), PIPELINE);
        assert!(keys.iter().all(|key| key.len() == DIGITS && key.parse::<u64>().is_ok_and(|number| number < KEYS)));
        assert!(keys.iter().any(|key| *key != keys[0]));
    }
}
