//! Processes that lease from one Redis. Each records when it admitted a request, by the clock of this machine, which is also
//! that of Redis. Together they never exceed the limit, although processes are killed or stopped again and again.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tidegate::{Cost, Key, Policy, Store as _};
use tidegate_leases::LeasedStore;
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

const LIMIT: u64 = 500;
const WINDOW: Duration = Duration::from_secs(1);
const TERM: Duration = Duration::from_millis(100);
/// Requests of a process at once.
const TASKS: usize = 4;
/// Admissions of a process before it is killed.
const ADMISSIONS: usize = 150;
const KILLS: usize = 12;

/// Times in microseconds between which a request was admitted.
type Admission = (u64, u64);

#[expect(clippy::disallowed_methods, reason = "the test records when requests were truly admitted")]
fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("in range")
}

#[test]
#[ignore = "a process of the test below"]
fn worker() {
    let Ok(url) = std::env::var("TIDEGATE_TEST_URL") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let shared = RedisStore::builder(&url).timeout(Duration::from_secs(2)).connect().expect("a URL");
        shared.ready().await;
        let store = LeasedStore::new(shared).expect("it has leases");
        let policy = Policy::new("hot", [tidegate::Limit::new(LIMIT, WINDOW).expect("a limit")]).expect("a policy");
        let policy = policy.with_lease(TERM).expect("a term");
        let admit = || {
            let (store, policy) = (store.clone(), policy.clone());
            tokio::spawn(async move {
                let key = Key::from(1_u8);
                loop {
                    let before = wall_micros();
                    let decision = store.check(&policy, &key, Cost::ONE).await.expect("an answer");
                    let after = wall_micros();
                    if decision.is_allowed() && !decision.is_degraded() {
                        println!("admitted {before} {after} {}", u8::from(decision.is_leased()));
                    }
                    // Other processes need the processor, too.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| admit()).collect();
        // The end of the input tells the process to end.
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().count());
        ended.await.expect("a thread");
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        store.close().await;
    });
}

fn start(server: &Server) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["processes::worker", "--exact", "--ignored", "--nocapture"])
        .env("TIDEGATE_TEST_URL", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// The admissions in the output of a process, and whether they were by a lease.
fn admissions(lines: impl Iterator<Item = std::io::Result<String>>) -> impl Iterator<Item = (Admission, bool)> {
    // A process that is killed may leave half a line.
    let admission = |line: String| {
        let (_, numbers) = line.split_once("admitted ")?;
        let mut numbers = numbers.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(((next()?, next()?), next()? == 1))
    };
    lines.map_while(Result::ok).filter_map(admission)
}

/// The most requests that were certainly admitted within one window.
fn worst_window(mut admissions: Vec<Admission>) -> usize {
    admissions.sort_by_key(|(_, after)| *after);
    let window = u64::try_from(WINDOW.as_micros()).expect("in range");
    let (mut inside, mut worst) = (BinaryHeap::new(), 0);
    for (before, after) in admissions {
        inside.push(Reverse(before));
        while inside.peek().is_some_and(|Reverse(first)| first + window <= after) {
            inside.pop();
        }
        worst = worst.max(inside.len());
    }
    worst
}

#[test]
fn processes_that_are_killed_never_exceed_the_limit_together() {
    let server = Server::start();
    let mut steady: Vec<Child> = (0..3).map(|_| start(&server)).collect();
    let outputs = steady.iter_mut().map(|process| {
        let output = BufReader::new(process.stdout.take().expect("its output"));
        std::thread::spawn(move || admissions(output.lines()).collect::<Vec<_>>())
    });
    let outputs: Vec<_> = outputs.collect();
    let mut all = Vec::new();
    for _ in 0..KILLS {
        let mut victim = start(&server);
        let output = victim.stdout.take().expect("its output");
        let mut lines = admissions(BufReader::new(output).lines());
        all.extend((0..ADMISSIONS).map(|_| lines.next().expect("it admits requests")));
        victim.kill().expect("it runs");
        victim.wait().expect("it has ended");
        all.extend(lines);
    }
    for mut process in steady {
        drop(process.stdin.take());
        assert!(process.wait().expect("it ends").success());
    }
    for output in outputs {
        all.extend(output.join().expect("a thread"));
    }
    let leased = all.iter().filter(|(_, is_leased)| *is_leased).count();
    let worst = worst_window(all.iter().map(|(admission, _)| *admission).collect());
    println!("{} admissions, {leased} by leases, at most {worst} in a window of {LIMIT}", all.len());
    assert!(worst <= usize::try_from(LIMIT).expect("in range"), "{worst} admissions in a window");
    assert!(leased > 0, "no lease was used");
}
