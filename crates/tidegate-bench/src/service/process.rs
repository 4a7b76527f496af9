//! A server as a process: started, watched from outside, and ended with the value that started it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::stopwatch::{Deadline, pause};

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts. Long enough that the attempts do not slow the server down.
const AGAIN: Duration = Duration::from_micros(100);
/// What the kernel counts processor time in, whatever the machine: `USER_HZ`.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts it, silent.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Self).with_context(|| format!("{} could not be started", command.get_program().display()))
    }

    /// Sends requests until there is a response.
    pub(crate) fn until<A>(&mut self, mut ask: impl FnMut() -> Option<A>) -> Result<A> {
        let deadline = Deadline::after(PATIENCE);
        loop {
            if let Some(answer) = ask() {
                return Ok(answer);
            }
            if let Some(status) = self.0.try_wait()? {
                bail!("a server ended before it answered: {status}");
            }
            ensure!(!deadline.has_passed(), "a server does not answer");
            pause(AGAIN);
        }
    }

    /// Its number.
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

/// The id of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pid(pub(super) u32);

impl Pid {
    /// Seconds of processor time so far, of all its threads.
    pub(crate) fn processor_seconds(self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.0);
        let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
        let ticks = ticks(&stat).with_context(|| format!("{path}: {stat}"))?;
        Ok(ticks / TICKS_PER_SECOND)
    }

    /// Bytes of it that are in memory.
    pub(super) fn resident_bytes(self) -> Result<f64> {
        let path = Path::new("/proc").join(self.0.to_string()).join("status");
        let status = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        let kilobytes: f64 = kilobytes.context("there is no VmRSS")?.trim().parse()?;
        Ok(kilobytes * 1024.0)
    }
}

/// Time as user and time in the kernel: the fields 14 and 15. The second is a name in brackets that may hold anything.
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
    fn times_are_found_behind_any_name() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 3 0 99";
        assert_eq!(ticks(stat), Some(730.0));
    }

    #[test]
    fn this_process_has_a_size() {
        assert!(Pid(std::process::id()).resident_bytes().expect("it is there") > 1e5);
    }
}
