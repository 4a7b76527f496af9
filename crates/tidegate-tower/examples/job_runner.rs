//! At most four jobs of a kind at once, over two processes and one Redis. One of the processes is killed.
//!
//! A job holds one of four units while it runs, and renews its hold. So a job may take as long as it needs. If its
//! process is killed, nobody renews the hold, and it ends after two seconds. Then another job may begin.
//!
//! The first process runs two jobs that never end. The second process runs short jobs, at most two at once. After the
//! first process was killed, and its holds have ended, it runs four at once.
//!
//! `cargo run -p tidegate-tower --example job_runner -- redis://127.0.0.1:6379`. Without a URL it starts its own
//! `redis-server`.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command},
    time::Duration,
};

use anyhow::Context as _;
use tidegate::{Cost, Hold, Key, OnStoreFailure, Policy, Store};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tidegate_tower::caller::{AcquireError, Budget};
use tokio::time::{Instant, sleep};

const AT_ONCE: usize = 4;
/// How long a hold lasts after the process of its job was killed.
const TTL: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(50);

/// The budget of all jobs. With another store, it is the same. If the store fails, no job begins.
fn jobs<S: Store + Clone + 'static>(store: S) -> anyhow::Result<Budget<S>> {
    let policy = Policy::new("jobs", [format!("{AT_ONCE}/inflight").parse()?])?;
    Ok(Budget::new(policy.with_on_store_failure(OnStoreFailure::Closed)).in_store(store))
}

/// Runs a job as soon as fewer than four run, and holds a unit while it runs.
async fn run<S: Store + Clone + 'static>(budget: &Budget<S>, job: impl Future<Output = ()>) -> anyhow::Result<()> {
    let key = Key::new("import")?;
    let held = loop {
        match budget.reserve(&key, Cost::ONE, Hold::new(TTL)).await {
            Err(AcquireError::StoreUnavailable) => sleep(TTL / 20).await,
            held => break held?,
        }
    };
    let mut job = std::pin::pin!(job);
    loop {
        tokio::select! {
            () = &mut job => break,
            () = sleep(TTL / 4) => match held.renew(TTL).await {
                Ok(is_open) => anyhow::ensure!(is_open, "the hold has ended, so the job must end"),
                // Two more attempts follow before the hold ends.
                Err(error) => eprintln!("a hold was not renewed: {error}"),
            },
        }
    }
    if let Err(error) = held.commit(1).await {
        eprintln!("a hold ends by itself: {error}");
    }
    Ok(())
}

/// One of the processes: several jobs after each other, in `lanes` tasks at once.
async fn process(url: &str, name: &str, lanes: usize, length: Option<Duration>) -> anyhow::Result<()> {
    // Longer than usual, because nobody waits for these answers.
    let store = RedisStore::builder(url).timeout(TTL / 8).connect()?;
    tokio::time::timeout(Duration::from_secs(5), store.ready())
        .await
        .with_context(|| format!("no answer from {url}: start Redis there, or omit the URL"))?;
    let budget = jobs(store)?;
    let lane = async || -> anyhow::Result<()> {
        loop {
            run(&budget, async {
                tell(name, "begins");
                match length {
                    Some(length) => sleep(length).await,
                    None => std::future::pending().await,
                }
                tell(name, "ends");
            })
            .await?;
        }
    };
    futures_util::future::try_join_all((0..lanes).map(|_| lane())).await?;
    Ok(())
}

/// Writes a line to the pipe of the parent. Both processes have the same pipe, so that the order of lines is the order of
/// events.
fn tell(name: &str, event: &str) {
    // If the parent is gone, nobody reads.
    let _ = std::io::stdout().write_all(format!("{name} {event}\n").as_bytes());
    let _ = std::io::stdout().flush();
}

/// A process that is killed when it is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(url: &str, name: &str, output: std::io::PipeWriter) -> anyhow::Result<Worker> {
    let program = std::env::current_exe()?;
    Ok(Worker(Command::new(program).args(["process", url, name]).stdout(output).spawn()?))
}

/// The number of jobs that run in each process, by what the processes tell.
#[derive(Default)]
struct Running {
    by_process: HashMap<String, usize>,
    most: usize,
}

impl Running {
    fn read(&mut self, lines: &mut impl Iterator<Item = std::io::Result<String>>) -> anyhow::Result<()> {
        let line = lines.next().context("both processes have ended")??;
        let (name, event) = line.split_once(' ').context("a name and an event")?;
        let jobs = self.by_process.entry(name.to_owned()).or_default();
        *jobs = if event == "begins" { *jobs + 1 } else { *jobs - 1 };
        self.most = self.most.max(self.by_process.values().sum());
        anyhow::ensure!(self.most <= AT_ONCE, "{} jobs ran at once", self.most);
        Ok(())
    }

    fn of(&self, name: &str) -> usize {
        self.by_process.get(name).copied().unwrap_or(0)
    }
}

fn parent(url: &str) -> anyhow::Result<()> {
    let (reader, writer) = std::io::pipe()?;
    let mut lines = BufReader::new(reader).lines();
    let mut running = Running::default();

    let first = start(url, "first", writer.try_clone()?)?;
    while running.of("first") < 2 {
        running.read(&mut lines)?;
    }
    let _second = start(url, "second", writer)?;
    for _ in 0..40 {
        running.read(&mut lines)?;
        anyhow::ensure!(running.of("second") <= 2, "the first process holds two of four units");
    }
    println!("both processes run: at most {} of {AT_ONCE} jobs at once", running.most);

    drop(first);
    let killed = Instant::now();
    println!("the first process is killed during two jobs");
    // Its jobs do not run any more, but their holds are open.
    running.by_process.remove("first");
    while running.of("second") <= 2 {
        running.read(&mut lines)?;
    }
    let waited = killed.elapsed();
    println!("{waited:.1?} later, its holds have ended, and the second process runs more than two jobs at once");
    while running.of("second") < AT_ONCE {
        running.read(&mut lines)?;
    }
    println!("the second process runs {AT_ONCE} jobs at once");
    anyhow::ensure!(waited >= TTL / 2, "the holds ended {waited:?} after the process, before their ttl");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["process", url, "first"] => runtime.block_on(process(url, "first", 2, None)),
        ["process", url, name] => runtime.block_on(process(url, name, AT_ONCE, Some(SHORT))),
        [url] => parent(url),
        _ => parent(&Server::start().url()),
    }
}
