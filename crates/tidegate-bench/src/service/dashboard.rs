//! The cost of an open dashboard: the page in a browser compared with no page, under the same load.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::Options;
use super::process::Process;
use super::redis_benchmark::{self, KEY};
use super::report::ThroughputRow;
use super::servers::Tidegate;
use super::throughput::{Round, TRIAL, commands, interleaved, round};
use crate::progress;

const PIPELINE: usize = 16;

/// The comparison is with no open page.
const CLOSED: &str = "page closed";

/// Measures the streams of all views at once and one page in a browser, with mostly admitted and mostly denied
/// requests.
pub(super) fn run(binary: &Path, options: &Options) -> Result<Vec<ThroughputRow>> {
    let mut rows = Vec::new();
    for (policy, traffic) in [("sliding_log", "all allowed"), ("scarce", "nearly all denied")] {
        progress::show(&format!("page open and closed, {traffic}"));
        let tidegate = Tidegate::start(binary)?;
        let check = ["TG.CHECK", policy, KEY];
        let first = redis_benchmark::run(tidegate.resp, PIPELINE, options.size.of(TRIAL), &check)?;
        let commands = commands(first.per_second * options.round().as_secs_f64());
        let closed =
            || round(tidegate.process.id(), || redis_benchmark::run(tidegate.resp, PIPELINE, commands, &check));
        let open = || round_with_streams(closed, &tidegate, policy);
        let in_browser = || round_in_browser(closed, &tidegate, policy);
        let rounds = interleaved(options.rounds, &[&closed, &open, &in_browser])?;
        for (viewer, open) in ["3 streams", "Chromium"].into_iter().zip(&rounds[1..]) {
            let what = format!("RESP TG.CHECK, pipeline {PIPELINE}, {traffic}, page open: {viewer}");
            rows.push(ThroughputRow::new(what, CLOSED, [open, &rounds[0]], 0.0, Some(1.1)));
        }
    }
    Ok(rows)
}

/// A round with the requests of the overview page, a policy's page and a key's page.
fn round_with_streams(round: impl Fn() -> Result<Round>, tidegate: &Tidegate, policy: &str) -> Result<Round> {
    let paths = ["/v1/live".to_owned(), format!("/v1/live?policy={policy}"), format!("/v1/live?policy={policy}&key=a")];
    let streams = paths.iter().map(|path| get(tidegate.http, path)).collect::<Result<Vec<_>>>()?;
    let readers: Vec<_> = streams.iter().map(TcpStream::try_clone).collect::<std::io::Result<_>>()?;
    std::thread::scope(|scope| {
        let events: Vec<_> = readers.into_iter().map(|stream| scope.spawn(move || count_events(stream))).collect();
        let round = round();
        for stream in &streams {
            // An error means that the stream has ended already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let events = events.into_iter().map(|reader| reader.join().unwrap_or(0)).min();
        ensure!(events > Some(0), "a stream received no events");
        round
    })
}

fn get(http: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(http)?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {http}\r\n\r\n")?;
    Ok(stream)
}

fn count_events(mut stream: TcpStream) -> usize {
    let (mut events, mut buffer) = (0, vec![0; 65_536]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        events += buffer[..read].windows(7).filter(|window| *window == b"event: ").count();
    }
    events
}

/// A round with the page of the policy in a browser. The browser uses the same cores, but not the server's time.
fn round_in_browser(round: impl Fn() -> Result<Round>, tidegate: &Tidegate, policy: &str) -> Result<Round> {
    let profile = TempDir::new()?;
    let mut chromium = Command::new("chromium");
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--remote-debugging-port=0"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/#/policy/{policy}", tidegate.http));
    let mut chromium = Process::start(&mut chromium)?;
    // The page is loaded when its stream is open.
    chromium.wait_for(|| has_viewers(tidegate.http).then_some(()))?;
    let round = round();
    ensure!(has_viewers(tidegate.http), "the page was not open to the end");
    round
}

/// Whether the service reports an open stream.
fn has_viewers(http: SocketAddr) -> bool {
    let metrics = || -> Result<String> {
        let mut stream = get(http, "/metrics")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = metrics().unwrap_or_default();
    let open = text.lines().find_map(|line| line.strip_prefix("tidegate_viewers "));
    open.is_some_and(|open| open.trim() != "0")
}
