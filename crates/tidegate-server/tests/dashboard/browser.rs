//! Runs the scripts that drive the page in a browser.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::tools::peer;

/// A script and its environment.
pub(crate) struct Script(Command);

/// A running script. The test and the script synchronize by lines on standard input and output.
pub(crate) struct RunningScript {
    process: Child,
    stdout: BufReader<ChildStdout>,
    stdin: ChildStdin,
    /// Everything that the script has printed.
    output: String,
}

impl Script {
    pub(crate) fn new(name: &str, service: SocketAddr) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/dashboard/scripts/{name}.mjs"));
        let mut node = Command::new("node");
        node.arg(script).env("TIDEGATE_URL", format!("http://{service}")).env("TIDEGATE_NODE", peer("node"));
        node.env("TIDEGATE_PICTURES", Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures"));
        Self(node)
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs the script to its end. The script must succeed.
    pub(crate) fn run(self) {
        self.start().finish();
    }

    pub(crate) fn start(mut self) -> RunningScript {
        let command = self.0.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("node: {error}: run scripts/peers"));
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let stdin = process.stdin.take().expect("a pipe");
        RunningScript { process, stdout, stdin, output: String::new() }
    }
}

impl RunningScript {
    /// Waits until the script prints a line.
    pub(crate) fn wait_for(&mut self, expected: &str) {
        let mut line = String::new();
        while line.trim_end() != expected {
            line.clear();
            let read = self.stdout.read_line(&mut line).expect("the pipe is readable");
            assert!(read > 0, "the script ended before `{expected}`: {}", self.output);
            self.output.push_str(&line);
        }
    }

    /// Sends a line to the script.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("the script reads its input");
    }

    /// Waits until the script ends. The script must succeed.
    pub(crate) fn finish(mut self) {
        drop(self.stdin);
        for line in self.stdout.lines().map_while(Result::ok) {
            self.output.push_str(&line);
            self.output.push('\n');
        }
        let status = self.process.wait().expect("the script ends");
        assert!(status.success(), "{status}\n{}", self.output);
    }
}
