//! Four processes share a limit on open holds, and one of them is killed again and again.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate::{Cost, Hold, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

use super::{TIMEOUT, key, policy};

const LIMIT: i64 = 4;
const TASKS: usize = 4;
const KILLS: usize = 8;
const TTL: Duration = Duration::from_millis(200);

/// Adds a hold to the set of those that surely are open, and returns how many of these there are. A hold is in the set from
/// its grant until just before its release, or until its end.
const ENTER: &str = "local t = redis.call('TIME')
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
return redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', t[1] * 1000000 + t[2]), '+inf')";

/// One of the processes. The test below starts it.
#[test]
#[ignore = "a process of the test below"]
fn worker() {
    let (Ok(url), Ok(port)) = (std::env::var("TIDEGATE_TEST_URL"), std::env::var("TIDEGATE_TEST_PORT")) else { return };
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    std::thread::spawn(move || {
        // The test closes the input of a process that shall end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Relaxed);
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = RedisStore::builder(&url).timeout(TIMEOUT).connect().expect("a store");
        store.ready().await;
        let task = |number: usize| {
            let (store, stopped, port) = (store.clone(), Arc::clone(&stopped), port.clone());
            tokio::spawn(async move {
                let (jobs, import) = (policy("jobs", &["4/inflight"]), key("import"));
                let mut wire = Wire::try_connect(format!("127.0.0.1:{port}")).expect("a connection");
                let mut held = 0;
                while !stopped.load(Relaxed) {
                    let reserved = store.reserve(&jobs, &import, Cost::ONE, Hold::new(TTL)).await.expect("well-formed");
                    assert!(!reserved.decision.is_degraded(), "{reserved:?}");
                    let (Some(id), Some(granted_at)) = (reserved.id, reserved.decision.charged_at()) else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    held += 1;
                    let until = granted_at.after(TTL).as_micros().to_string();
                    let name = format!("{}-{number}-{held}", std::process::id());
                    let open = wire.command(["EVAL", ENTER, "1", "open", &until, &name]).integer();
                    println!("open {open}");
                    wire.command(["ZREM", "open", &name]);
                    store.release(&id, &jobs).await.expect("redis answers");
                }
            })
        };
        for task in (0..TASKS).map(task).collect::<Vec<_>>() {
            task.await.expect("a task ends");
        }
    });
}

fn start(server: &Server) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["reservations::processes::worker", "--exact", "--ignored", "--nocapture"])
        .env("TIDEGATE_TEST_URL", server.url())
        .env("TIDEGATE_TEST_PORT", server.port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// The numbers of open holds that a process has seen.
fn seen(lines: impl Iterator<Item = std::io::Result<String>>) -> impl Iterator<Item = i64> {
    let number = |line: String| Some(line.split_once("open ")?.1.trim().parse().expect("a number"));
    // A process that is killed may leave half a line.
    lines.map_while(Result::ok).filter_map(number)
}

#[test]
fn open_holds_never_exceed_the_limit_over_four_processes_that_are_killed() {
    let server = Server::start();
    let mut steady: Vec<Child> = (0..3).map(|_| start(&server)).collect();
    let mut counts = Vec::new();
    for _ in 0..KILLS {
        let mut victim = start(&server);
        let output = victim.stdout.take().expect("its output");
        let mut lines = seen(BufReader::new(output).lines());
        counts.extend((0..20).map(|_| lines.next().expect("it gets holds")));
        victim.kill().expect("it runs");
        victim.wait().expect("it has ended");
        drop(lines);
    }
    for process in &mut steady {
        drop(process.stdin.take());
    }
    for process in steady {
        let output = process.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        counts.extend(seen(BufReader::new(output.stdout.as_slice()).lines()));
    }
    let most = counts.iter().max().copied().expect("some holds were granted");
    println!("{} holds, at most {most} open at once", counts.len());
    assert!(most <= LIMIT, "{most} holds were open at once");
    assert!(most > 1, "the processes never held at the same time");
}
