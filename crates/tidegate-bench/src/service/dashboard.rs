//! The cost of an open dashboard: the page in a browser compared with no page, under the same load.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Options;
use super::process::Process;
use super::redis_benchmark::{self, KEY};
use super::report::{Flow, ThroughputRow};
use super::sides::Tidegate;
use super::throughput::{LoadTarget, Round, commands, trial};
use crate::progress::Progress;

const PIPELINE: usize = 16;

/// The comparison is with no open page.
const CLOSED: &str = "page closed";

/// Pages of each view at once, and one of them in a browser, while most is let through and while most is denied.
pub(super) fn run(binary: &Path, options: &Options, progress: &Progress) -> Result<Vec<ThroughputRow>> {
    let mut rows = Vec::new();
    for (policy, traffic) in [("sliding_log", "all allowed"), ("scarce", "nearly all denied")] {
        progress.say(&format!("page open and closed, {traffic}"));
        let tidegate = Tidegate::start(binary)?;
        let check = ["TG.CHECK", policy, KEY];
        let first = redis_benchmark::run(tidegate.resp, PIPELINE, trial(options), &check)?;
        let commands = commands(first.per_second * options.round.as_secs_f64());
        let side = LoadTarget {
            id: tidegate.id(),
            ask: Box::new(|| redis_benchmark::run(tidegate.resp, PIPELINE, commands, &check)),
        };
        let (mut open, mut in_browser, mut closed) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            closed.push(side.round()?);
            open.push(looked_at(&side, &tidegate, policy)?);
            in_browser.push(in_a_browser(&side, &tidegate, policy)?);
        }
        for (who, rounds) in [("3 streams", open), ("Chromium", in_browser)] {
            let what = format!("RESP TG.CHECK, pipeline {PIPELINE}, {traffic}, page open: {who}");
            let flows = Flow::of(&rounds).zip(Flow::of(&closed)).context("there is a round")?;
            rows.push(ThroughputRow::new(what, CLOSED, flows.0, flows.1, 0.0, Some(1.1)));
        }
    }
    Ok(rows)
}

/// A round with the requests of the overview page, a policy's page and a key's page.
fn looked_at(side: &LoadTarget<'_>, tidegate: &Tidegate, policy: &str) -> Result<Round> {
    let paths = ["/v1/live".to_owned(), format!("/v1/live?policy={policy}"), format!("/v1/live?policy={policy}&key=a")];
    let streams = paths.iter().map(|path| look_on(tidegate.http, path)).collect::<Result<Vec<_>>>()?;
    let readers: Vec<_> = streams.iter().map(TcpStream::try_clone).collect::<std::io::Result<_>>()?;
    std::thread::scope(|scope| {
        let events: Vec<_> = readers.into_iter().map(|stream| scope.spawn(move || count_events(stream))).collect();
        let round = side.round();
        for stream in &streams {
            // It may have ended already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let told = events.into_iter().map(|reader| reader.join().unwrap_or(0)).min();
        ensure!(told > Some(0), "nothing was told to those who looked on");
        round
    })
}

fn look_on(http: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(http)?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {http}\r\n\r\n")?;
    Ok(stream)
}

fn count_events(mut stream: TcpStream) -> usize {
    let (mut told, mut buffer) = (0, vec![0; 65_536]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        told += buffer[..read].windows(7).filter(|seven| *seven == b"event: ").count();
    }
    told
}

/// A round with the page of the policy in a browser, which takes its part of the machine but none of the server's time.
fn in_a_browser(side: &LoadTarget<'_>, tidegate: &Tidegate, policy: &str) -> Result<Round> {
    let profile = TempDir::new()?;
    let mut chromium = Command::new("chromium");
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--remote-debugging-port=0"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/#/policy/{policy}", tidegate.http));
    let mut chromium = Process::start(&mut chromium)?;
    // It is there when its stream is: a connection that stays, beside the one that asks.
    chromium.until(|| looks_on(tidegate.http).then_some(()))?;
    let round = side.round();
    ensure!(looks_on(tidegate.http), "the page was not open to the end");
    round
}

/// Whether a stream is open, as the service counts connections.
fn looks_on(http: SocketAddr) -> bool {
    let metrics = || -> Result<String> {
        let mut stream = look_on(http, "/metrics")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = metrics().unwrap_or_default();
    let open = text.lines().find_map(|line| line.strip_prefix("tidegate_onlookers "));
    open.is_some_and(|open| open.trim() != "0")
}
