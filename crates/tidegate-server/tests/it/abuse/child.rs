//! A service in its own process, so that its memory can be measured.

use std::{
    io::{BufRead as _, BufReader, Lines, Read as _},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::running::Running;

const CONFIG: &str = "TIDEGATE_TEST_SERVICE";

/// The service. It is stopped on drop.
pub(super) struct Service {
    pub(super) http: SocketAddr,
    pub(super) resp: SocketAddr,
    child: Child,
    _output: Lines<BufReader<ChildStdout>>,
}

impl Service {
    pub(super) fn start(config: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a test runs"));
        command.args(["--ignored", "--exact", "--nocapture", "abuse::child::serves_until_its_input_ends"]);
        let mut child =
            command.env(CONFIG, config).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut addresses = output.by_ref().map_while(Result::ok).find_map(|line| {
            let addresses = line.split_once("listens on ")?.1.to_owned();
            Some(
                addresses
                    .split(' ')
                    .map(|address| address.parse().expect("an address"))
                    .collect::<Vec<_>>()
                    .into_iter(),
            )
        });
        let mut next = || addresses.as_mut().and_then(Iterator::next).expect("the addresses are printed");
        Self { http: next(), resp: next(), child, _output: output }
    }

    /// Returns the resident memory in kilobytes.
    pub(super) fn resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "started by other tests"]
fn serves_until_its_input_ends() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    let running = Running::start(&config);
    println!("\nlistens on {} {}", running.http, running.resp);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
