//! The work of a decision does not grow with the length of a log.

use tidegate::{Cost, Key, Op, Policy, Store as _, Timestamp};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

/// Bytes that Redis has read from and written to the network, by its own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Net {
    read: i64,
    written: i64,
}

/// The work of a decision: on the network, and inside the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    net: Net,
    commands: usize,
    read: i64,
    written: i64,
}

struct Bench {
    server: Server,
    wire: Wire,
    store: RedisStore,
}

fn stat(info: &str, name: &str) -> i64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.expect("a line of INFO").trim_start_matches(':').trim().parse().expect("a number")
}

impl Bench {
    async fn new() -> Self {
        let server = Server::start();
        let store = RedisStore::builder(&server.url())
            .timeout(std::time::Duration::from_secs(60))
            .without_health_checks()
            .connect()
            .expect("a store");
        store.ready().await;
        let wire = server.wire();
        Self { server, wire, store }
    }

    /// The counters of Redis, and what reading them adds to them.
    fn net(&mut self) -> (Net, Net) {
        let reply = self.wire.command(["INFO", "stats"]);
        let text = reply.as_str_lossy().into_owned();
        let counted =
            Net { read: stat(&text, "total_net_input_bytes"), written: stat(&text, "total_net_output_bytes") };
        let length = i64::try_from(text.len()).expect("short");
        let framing = i64::try_from(length.to_string().len()).expect("short") + 5;
        let question = i64::try_from("*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n".len()).expect("short");
        (counted, Net { read: question, written: length + framing })
    }

    /// Executes one decision and returns its cost.
    async fn work(&mut self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost, now: Timestamp) -> Work {
        let (before, asking) = self.net();
        let _ = self.store.at(now).decide(op, policy, key, cost).await.expect("redis answers");
        let (after, _) = self.net();
        let net = Net {
            read: after.read - before.read - asking.read,
            written: after.written - before.written - asking.written,
        };
        // The same request again, under MONITOR, as a peek that changes nothing or as another charge.
        let mut monitor = self.server.wire();
        monitor.command(["MONITOR"]).expect_ok();
        let later = now.after(std::time::Duration::from_micros(1));
        let _ = self.store.at(later).decide(op, policy, key, cost).await.expect("redis answers");
        self.wire.command(["PING"]);
        let (mut commands, mut read, mut written) = (0, 0, 0);
        loop {
            let line = monitor.read().as_str_lossy().into_owned();
            if line.contains("\"PING\"") {
                break;
            }
            let Some((_, command)) = line.split_once(" lua] ") else { continue };
            commands += 1;
            let text = text(command);
            match text[0].as_slice() {
                b"HGET" => read += self.wire.command([&b"HSTRLEN"[..], &text[1], &text[2]]).integer(),
                b"MGET" => {
                    let length = self.wire.command([&b"STRLEN"[..], &text[1]]);
                    // A hash is passed over.
                    read += if length.is_error() { 0 } else { length.integer() };
                }
                _ => written += text[1..].iter().map(|word| i64::try_from(word.len()).expect("short")).sum::<i64>(),
            }
        }
        Work { net, commands, read, written }
    }
}

/// The words of a line of MONITOR, unquoted.
fn text(line: &str) -> Vec<Vec<u8>> {
    let mut text = Vec::new();
    let mut bytes = line.bytes();
    while bytes.any(|byte| byte == b'"') {
        let mut word = Vec::new();
        while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
            if byte != b'\\' {
                word.push(byte);
                continue;
            }
            match bytes.next().expect("something after a backslash") {
                b'x' => {
                    let digit = |byte: Option<u8>| char::from(byte.expect("a digit")).to_digit(16).expect("a digit");
                    let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                    word.push(u8::try_from(high * 16 + low).expect("a byte"));
                }
                b'n' => word.push(b'\n'),
                b'r' => word.push(b'\r'),
                b't' => word.push(b'\t'),
                b'a' => word.push(7),
                b'b' => word.push(8),
                other => word.push(other),
            }
        }
        text.push(word);
    }
    text
}

/// Charges `entries` requests over half a window.
async fn fill(store: &RedisStore, policy: &Policy, key: &Key<'_>, entries: u64, from: u64, step: u64) -> u64 {
    let mut now = from;
    for _ in 0..entries.div_ceil(64) {
        let charges = (0..64.min(entries)).map(async |i| {
            store.at(Timestamp::from_micros(now + i * step)).decide(Op::Charge, policy, key, Cost::ONE).await
        });
        for decision in futures_util::future::join_all(charges).await {
            let _ = decision.expect("redis answers");
        }
        now += 64.min(entries) * step;
    }
    now
}

#[tokio::test]
async fn a_decision_reads_and_writes_the_same_bytes_at_10_and_at_100_000_entries() {
    let mut bench = Bench::new().await;
    let hour = 3_600_000_000;
    let start = 1_700_000_000_000_000;
    // Charging, and finding a denial's retry time somewhere in the middle of the log.
    let requests = [(Op::Check, 1), (Op::Check, 5_000), (Op::Peek, 200_000)];
    for limits in [&["200000/1h"][..], &["200000/1h", "100000/20m"]] {
        let limits = limits.iter().map(|limit| limit.parse().expect("a limit"));
        let policy = Policy::new("long", limits).expect("a policy");
        let mut seen: Vec<(u64, Vec<Work>)> = Vec::new();
        for entries in [10, 1_000, 100_000] {
            let name = format!("{entries}-{}", policy.limits().len());
            let key = Key::new(&name).expect("a key");
            let end = fill(&bench.store, &policy, &key, entries, start, hour / 2 / entries).await;
            let mut works = Vec::new();
            for (later, (op, cost)) in (0..).step_by(2).zip(requests) {
                let cost = Cost::new(cost).expect("in range");
                works.push(bench.work(op, &policy, &key, cost, Timestamp::from_micros(end + later)).await);
            }
            println!("{entries} entries, {} limits: {works:?}", policy.limits().len());
            seen.push((entries, works));
        }
        for (entries, works) in &seen {
            for (work, at_ten) in works.iter().zip(&seen[0].1) {
                assert_eq!(work.net, at_ten.net, "over the network at {entries} entries");
                // Inside: the header, and for each limit a top, a node and a page at the most; what is written is the header,
                // now and then a page and where it is.
                if at_ten.written > 0 {
                    // TIME, that it is no string, the header once, a page for each limit, and the header's writing: the short
                    // way was taken.
                    assert!(work.commands <= 5, "at {entries} entries: {work:?}");
                }
                assert!(work.commands <= 12, "at {entries} entries: {work:?}");
                assert!(work.read <= 12_288 && work.written <= 12_288, "at {entries} entries: {work:?}");
            }
        }
    }
}
