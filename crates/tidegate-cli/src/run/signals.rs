//! [`Signals`]: the signals that are passed on to the command, and that end this process while no command runs.

use std::{
    future::poll_fn,
    io::{IsTerminal as _, stderr, stdin, stdout},
    task::Poll,
};

use anyhow::Context as _;
use rustix::process::{Pid, kill_process};
use tokio::signal::unix::{self, SignalKind};

/// The signals that this process receives.
pub(super) struct Signals {
    listeners: Vec<(rustix::process::Signal, unix::Signal)>,
    /// Whether a signal was received while no command ran.
    received: bool,
}

impl Signals {
    /// Listens to the signals that would end this process. None of them ends it any more. Signals that are ignored, for
    /// example because of `nohup`, stay ignored, also by the command.
    pub(super) fn listen() -> anyhow::Result<Self> {
        use rustix::process::Signal;
        let all = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::QUIT, SignalKind::quit()),
        ];
        let listen = |(signal, kind)| anyhow::Ok((signal, unix::signal(kind).context("signals can't be waited for")?));
        let ignored = ignored();
        let heard = all.into_iter().filter(|(signal, _)| ignored & (1 << (signal.as_raw() - 1)) == 0);
        Ok(Self { listeners: heard.map(listen).collect::<Result<_, _>>()?, received: false })
    }

    /// Waits for a signal that is passed on.
    pub(super) async fn next(&mut self) -> rustix::process::Signal {
        loop {
            let signal = self.receive().await;
            if !is_from_terminal(signal) {
                return signal;
            }
        }
    }

    /// Waits for a signal while no command runs.
    pub(super) async fn first(&mut self) -> rustix::process::Signal {
        let signal = self.receive().await;
        self.received = true;
        signal
    }

    /// Waits for the second signal that is received while no command runs.
    pub(super) async fn second(&mut self) -> rustix::process::Signal {
        while !self.received {
            self.first().await;
        }
        self.receive().await
    }

    async fn receive(&mut self) -> rustix::process::Signal {
        poll_fn(|cx| {
            let received = self.listeners.iter_mut().find_map(|(signal, listener)| match listener.poll_recv(cx) {
                Poll::Ready(Some(())) => Some(*signal),
                _ => None,
            });
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Returns the signals that this process was started to ignore: bit 0 is signal 1. Only Linux tells.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether the terminal has sent this signal to the command, too. A second Ctrl-C often means something else.
fn is_from_terminal(signal: rustix::process::Signal) -> bool {
    let is_key = [rustix::process::Signal::INT, rustix::process::Signal::QUIT].contains(&signal);
    is_key && (stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal())
}

/// Sends a signal to the command, if it still runs.
pub(super) fn send(process: Option<u32>, signal: rustix::process::Signal) {
    let process = process.and_then(|process| Pid::from_raw(i32::try_from(process).ok()?));
    if let Some(process) = process {
        // An error means that it has just ended.
        let _ = kill_process(process, signal);
    }
}
