//! Scenes: what a browser does with the page, told in JavaScript beside its library.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::tools::peer;

/// A scene to be played.
pub(crate) struct Scene(Command);

/// A scene under way; it gives cues, and waits for ours.
pub(crate) struct Played {
    process: Child,
    said: BufReader<ChildStdout>,
    hears: ChildStdin,
    heard: String,
}

impl Scene {
    pub(crate) fn new(name: &str, service: SocketAddr) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/dashboard/scenes/{name}.mjs"));
        let mut node = Command::new("node");
        node.arg(script).env("TIDEGATE_URL", format!("http://{service}")).env("TIDEGATE_NODE", peer("node"));
        node.env("TIDEGATE_PICTURES", Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures"));
        Self(node)
    }

    pub(crate) fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Plays it to its end, which has to be a good one.
    pub(crate) fn play(self) {
        self.begin().end();
    }

    pub(crate) fn begin(mut self) -> Played {
        let command = self.0.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("node: {error}: run scripts/peers"));
        let said = BufReader::new(process.stdout.take().expect("a pipe"));
        let hears = process.stdin.take().expect("a pipe");
        Played { process, said, hears, heard: String::new() }
    }
}

impl Played {
    /// Waits for a line that it says.
    pub(crate) fn cue(&mut self, cue: &str) {
        let mut line = String::new();
        while line.trim_end() != cue {
            line.clear();
            let read = self.said.read_line(&mut line).expect("it can be read");
            assert!(read > 0, "the scene ended before `{cue}`: {}", self.heard);
            self.heard.push_str(&line);
        }
    }

    /// Says a line to it.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.hears, "{line}").expect("it listens");
    }

    pub(crate) fn end(mut self) {
        drop(self.hears);
        for line in self.said.lines().map_while(Result::ok) {
            self.heard.push_str(&line);
            self.heard.push('\n');
        }
        let ended = self.process.wait().expect("it ends");
        assert!(ended.success(), "{ended}\n{}", self.heard);
    }
}
