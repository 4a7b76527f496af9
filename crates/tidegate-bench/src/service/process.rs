//! [`Process`]: a server in a separate process, with its processor time and memory.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};
use tidegate_testbed::free_port;
use tokio::net::TcpListener;

use crate::stopwatch::{Deadline, pause};

/// Maximum time until a server replies.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts. Long enough that the attempts do not slow the server down.
const RETRY_DELAY: Duration = Duration::from_micros(100);
/// The kernel's unit of processor time, `USER_HZ`. It is the same on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts the process without input and output.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Self).with_context(|| format!("{} could not be started", command.get_program().display()))
    }

    /// Calls `attempt` until it returns a value.
    pub(crate) fn wait_for<A>(&mut self, mut attempt: impl FnMut() -> Option<A>) -> Result<A> {
        let deadline = Deadline::after(START_TIMEOUT);
        loop {
            if let Some(value) = attempt() {
                return Ok(value);
            }
            if let Some(status) = self.0.try_wait()? {
                bail!("a server ended before it replied: {status}");
            }
            ensure!(!deadline.has_passed(), "a server does not reply");
            pause(RETRY_DELAY);
        }
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> Pid {
        Pid(self.0.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a load generator to its end. Returns all that it printed. `package` contains it.
pub(super) fn output_of(mut command: Command, package: &str) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("{name} could not be started: apt-get install {package}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {text}");
    Ok(text)
}

/// An address on this machine that nothing listens on.
pub(super) fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// A process of this binary that serves a route.
#[derive(Debug)]
pub(crate) struct OwnServer {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl OwnServer {
    /// Starts the process with these arguments and the address, and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let address = free_address();
        let this = std::env::current_exe().context("the path of this binary is unknown")?;
        let mut process = Process::start(Command::new(this).args(arguments).arg(address.to_string()))?;
        process.wait_for(|| TcpStream::connect(address).ok())?;
        Ok(Self { process, address })
    }
}

/// Serves until the process ends. `serve` starts the server of a listener.
pub(crate) fn serve<F: IntoFuture<Output = io::Result<()>>>(
    address: SocketAddr,
    serve: impl FnOnce(TcpListener) -> F,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?;
        serve(listener).await.context("the server has stopped")
    })
}

/// The id of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pid(pub(crate) u32);

impl Pid {
    /// Seconds of processor time of all threads so far.
    pub(crate) fn processor_seconds(self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.0);
        let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
        let ticks = ticks(&stat).with_context(|| format!("{path}: {stat}"))?;
        Ok(ticks / TICKS_PER_SECOND)
    }

    /// Megabytes of memory in a field of `/proc/<id>/status`, such as `VmRSS:` or `VmHWM:`.
    pub(crate) fn megabytes(self, field: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix(field)?.strip_suffix("kB"));
        let kilobytes: f64 = kilobytes.with_context(|| format!("{path} has no {field}"))?.trim().parse()?;
        Ok(kilobytes * 1_024.0 / 1e6)
    }
}

/// User time and kernel time: fields 14 and 15. Field 2 is a name in brackets that may contain any character.
fn ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_after_any_name() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 3 0 99";
        assert_eq!(ticks(stat), Some(730.0));
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(Pid(std::process::id()).megabytes("VmRSS:").expect("Linux reports it") > 0.1);
    }
}
