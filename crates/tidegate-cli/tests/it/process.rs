//! Runs the binary.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use serde_json::Value;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_tidegate");

/// Runs a command to its end, without any configuration of the working directory or the environment.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let folder = std::env::temp_dir();
    let mut command = Command::new(BINARY);
    command.args(arguments).current_dir(folder);
    for variable in ["TIDEGATE_SERVER", "TIDEGATE_TOKEN", "TIDEGATE_CA", "TIDEGATE_TIMEOUT"] {
        command.env_remove(variable);
    }
    command.output().expect("the binary runs")
}

/// Runs a command. Returns its exit code and its output.
pub(crate) fn exit_and_output(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

/// Creates a folder for this test run.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-cli-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a writable directory");
    path
}

/// Writes a configuration to a new file.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-cli-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).expect("a writable file");
    path
}

/// A service in its own process. It is killed on drop.
pub(crate) struct Serving {
    pub(crate) http: String,
    pub(crate) resp: String,
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Serving {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(&std::env::temp_dir(), arguments, &[])
    }

    /// Starts a service in a folder, whose `tidegate.toml` it reads if there is one.
    pub(crate) fn start_in(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(BINARY);
        command.current_dir(folder).envs(environment.iter().copied());
        Self::start_command(command, arguments)
    }

    /// Starts another copy of the binary.
    pub(crate) fn start_binary(binary: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(binary);
        command.current_dir(std::env::temp_dir());
        Self::start_command(command, arguments)
    }

    fn start_command(mut command: Command, arguments: &[&str]) -> Self {
        let missing = ["--http", "--resp", "--grpc"].into_iter().filter(|flag| !arguments.contains(flag));
        let mut child = command
            .arg("serve")
            .args(missing.flat_map(|flag| [flag, "127.0.0.1:0"]))
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut serving = Self { http: String::new(), resp: String::new(), child, log };
        let start = serving.wait_for("tidegate is running");
        let address = |transport: &str| start[transport].as_str().expect("an address").to_owned();
        (serving.http, serving.resp) = (format!("http://{}", address("http")), address("resp"));
        serving
    }

    /// Reads the log until a line with this message.
    pub(crate) fn wait_for(&mut self, message: &str) -> Value {
        self.read_until(|entry| entry["message"].as_str().is_some_and(|text| text.contains(message)))
    }

    /// Reads the log until a line matches.
    pub(crate) fn read_until(&mut self, mut matches: impl FnMut(&Value) -> bool) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).expect("a log"), 0, "the log ended before the line");
            let entry: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if matches(&entry) {
                return entry;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is installed").success());
    }

    /// Waits until the service has ended. Returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("the process exists").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
