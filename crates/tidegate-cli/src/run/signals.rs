//! [`Signals`]: the signals that are passed on to the command.

use std::{
    future::poll_fn,
    io::{IsTerminal as _, stderr, stdin, stdout},
    task::Poll,
};

use anyhow::Context as _;
use rustix::process::{Pid, kill_process};
use tokio::signal::unix::{self, SignalKind};

/// The signals that this process receives.
pub(super) struct Signals(Vec<(rustix::process::Signal, unix::Signal)>);

impl Signals {
    /// Listens to the signals that would end this process. None of them ends it any more.
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
        Ok(Self(all.into_iter().map(listen).collect::<Result<_, _>>()?))
    }

    /// Waits for a signal that is passed on.
    pub(super) async fn next(&mut self) -> rustix::process::Signal {
        loop {
            let signal = poll_fn(|cx| {
                let received = self.0.iter_mut().find_map(|(signal, listener)| match listener.poll_recv(cx) {
                    Poll::Ready(Some(())) => Some(*signal),
                    _ => None,
                });
                received.map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            if !is_from_terminal(signal) {
                return signal;
            }
        }
    }
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
