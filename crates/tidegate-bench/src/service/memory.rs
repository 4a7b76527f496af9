//! The memory of the process after a million keys.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Options;
use super::report::Goal;
use super::servers::Tidegate;
use crate::progress::Progress;

const KEYS: usize = 1_000_000;
const PIPELINE: usize = 1_000;
const POLICY: &str = "sliding_counter";

pub(super) fn run(binary: &Path, options: &Options, progress: &Progress) -> Result<Goal> {
    let keys = KEYS / options.divisor;
    progress.show(&format!("memory of {keys} keys"));
    let tidegate = Tidegate::start(binary)?;
    let mut stream = TcpStream::connect(tidegate.resp)?;
    stream.set_nodelay(true)?;
    for first in (0..keys).step_by(PIPELINE) {
        check(&mut stream, first..first + PIPELINE)?;
    }
    Ok(Goal {
        what: format!("resident memory after {keys} keys, {POLICY}"),
        unit: "MB",
        measured: tidegate.id().megabytes("VmRSS:")?,
        wanted: 150.0,
    })
}

/// Sends one check for each key in one pipeline, and reads all replies: six numbers each, the first of them 1.
fn check(stream: &mut TcpStream, keys: std::ops::Range<usize>) -> Result<()> {
    let mut request = String::new();
    for number in keys.clone() {
        let key = format!("key:{number:012}");
        write!(request, "*3\r\n$8\r\nTG.CHECK\r\n${}\r\n{POLICY}\r\n${}\r\n{key}\r\n", POLICY.len(), key.len())?;
    }
    stream.write_all(request.as_bytes())?;
    let mut replies = BufReader::new(stream).lines();
    let mut line = || replies.next().context("the service has closed the connection")?.context("no reply");
    for number in keys {
        let (kind, allowed) = (line()?, line()?);
        ensure!((kind.as_str(), allowed.as_str()) == ("*6", ":1"), "the reply for key {number} is {kind} {allowed}");
        for _ in 0..5 {
            line()?;
        }
    }
    Ok(())
}
