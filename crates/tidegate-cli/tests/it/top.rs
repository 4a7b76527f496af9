//! `tidegate top`, in a terminal and for scripts.

use std::{path::PathBuf, process::Command, time::Duration};

use serde_json::Value;
use tidegate_testbed::{free_port, wait_for};

use crate::process::{BINARY, Serving, exit_and_output, file, folder};

const CONFIG: &str = "[policies.api]\nlimits = [\"3/1h\"]\n[policies.quiet]\nlimits = [\"60/1m\"]\n";

/// The timeout for a text to appear on the screen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A terminal in tmux. It is closed on drop.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts a terminal with a shell.
    fn start(name: &str) -> Self {
        let tmux = Self { socket: folder("tmux").join(name) };
        tmux.run_tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "120",
            "-y",
            "40",
            "env -u ENV PS1='ready> ' sh",
        ]);
        tmux.wait_for("a shell", "ready>");
        tmux
    }

    fn run_tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(arguments).env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        let output = tmux.output().expect("tmux is installed by scripts/peers");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn press(&self, keys: &[&str]) {
        self.run_tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.run_tmux(&["capture-pane", "-p"])
    }

    fn is_full_screen(&self) -> bool {
        self.run_tmux(&["display-message", "-p", "#{alternate_on}"]).trim() == "1"
    }

    /// Waits until a text is on the screen. Returns its line.
    fn wait_for(&self, what: &str, text: &str) -> String {
        wait_for(what, TIMEOUT, || {
            let screen = self.screen();
            let line = screen.lines().find(|line| line.contains(text)).map(str::to_owned);
            line.ok_or_else(|| format!("`{text}` is not on the screen:\n{screen}"))
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn get(url: &str) -> Value {
    ureq::get(url).call().expect("it answers").body_mut().read_json().expect("JSON")
}

#[test]
fn a_terminal_shows_the_decisions_of_the_service() {
    let path = file("top", CONFIG);
    let port = format!("127.0.0.1:{}", free_port());
    let arguments = ["--config", path.to_str().expect("text"), "--http", &port];
    let mut serving = Serving::start(&arguments);
    let server = serving.http.clone();
    let check = |key: &str| exit_and_output(&["check", key, "--policy", "api", "--server", &server]).0;
    let spend = |times: usize| (0..times).filter(|_| check("mallory") == Some(1)).count();
    assert_eq!(spend(20), 17);

    let tmux = Tmux::start("top");
    tmux.press(&[&format!("{BINARY} top --server {server}; echo ended with $?"), "Enter"]);
    tmux.wait_for("the service", &format!("tidegate {} at {server}, up ", env!("CARGO_PKG_VERSION")));
    tmux.wait_for("the store", "memory store: healthy, 1 of ");
    tmux.wait_for("the policies", "> api");
    tmux.wait_for("the journal", " the service has started");
    assert!(tmux.is_full_screen());

    tmux.press(&["Enter"]);
    tmux.wait_for("the keys", "Most denied");
    let shown = tmux.wait_for("the denials", "17 denials since ");
    assert_eq!(get(&format!("{server}/v1/hits?policy=api"))["denials"], 17, "{shown}");
    tmux.wait_for("the denied key", "17  mallory");
    tmux.wait_for("the key near its limit", "3/3  mallory");
    assert_eq!(spend(3), 3);
    tmux.wait_for("three more denials", "20 denials since ");
    let mallory = "override set mallory --policy api --ban --permanent --server";
    assert_eq!(exit_and_output(&mallory.split(' ').chain([server.as_str()]).collect::<Vec<_>>()).0, Some(0));
    tmux.press(&["Escape"]);
    tmux.wait_for("all policies again", "> api");
    tmux.wait_for("the override in the journal", " by 127.0.0.1: ban of mallory under api");
    tmux.press(&["Down"]);
    tmux.wait_for("the cursor", "> quiet");
    tmux.run_tmux(&["resize-window", "-x", "60", "-y", "20"]);
    tmux.wait_for("the hint about the size", "needs 80 columns and 24 rows");
    tmux.run_tmux(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.wait_for("the full screen", "> quiet");

    serving.signal("TERM");
    assert_eq!(serving.wait(), Some(0), "viewers do not delay the shutdown");
    tmux.wait_for("the lost connection", "not live: last update ");
    let again = Serving::start(&arguments);
    tmux.wait_for("the restarted service", "memory store: healthy, 0 of ");
    wait_for("live", TIMEOUT, || {
        let screen = tmux.screen();
        if screen.contains("not live") { Err(screen) } else { Ok(()) }
    });
    tmux.press(&["q"]);
    tmux.wait_for("the end", "ended with 0");
    assert!(!tmux.is_full_screen());
    tmux.press(&["echo al''ive", "Enter"]);
    tmux.wait_for("a shell that echoes", "echo al''ive");
    tmux.wait_for("a shell that works", "alive");
    drop(again);
}

#[test]
fn signals_restore_the_terminal() {
    let serving = Serving::start(&[]);
    let tmux = Tmux::start("signals");
    for signal in ["TERM", "INT"] {
        let pid = folder("top").join(signal);
        let program = format!("echo $$ > {}; exec {BINARY} top --server {}", pid.display(), serving.http);
        tmux.press(&["clear", "Enter"]);
        tmux.press(&[&format!("sh -c '{program}'; echo {signal} gave $?"), "Enter"]);
        tmux.wait_for("the service", "memory store: healthy");
        let pid = std::fs::read_to_string(&pid).expect("it was written");
        let sent = Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status();
        assert!(sent.expect("kill is installed").success());
        tmux.wait_for("the end", &format!("{signal} gave 0"));
        assert!(!tmux.is_full_screen());
    }
}

#[test]
fn the_command_ends_with_its_terminal() {
    let serving = Serving::start(&[]);
    let tmux = Tmux::start("gone");
    let pid = folder("top").join("gone");
    let program = format!("echo $$ > {}; exec {BINARY} top --server {}", pid.display(), serving.http);
    tmux.press(&[&format!("sh -c '{program}'"), "Enter"]);
    tmux.wait_for("the service", "memory store: healthy");
    let pid = std::fs::read_to_string(&pid).expect("it was written");
    drop(tmux);
    let process = PathBuf::from("/proc").join(pid.trim());
    wait_for("its end", TIMEOUT, || if process.exists() { Err("it goes on".to_owned()) } else { Ok(()) });
}

#[test]
fn without_a_terminal_one_report_is_printed() {
    let path = file("top-once", CONFIG);
    let serving = Serving::start(&["--config", path.to_str().expect("text")]);
    let (code, output) = exit_and_output(&["top", "--server", &serving.http]);
    assert!(
        code == Some(0) && output.contains("memory store: healthy") && output.contains("\nquiet "),
        "{code:?} {output}"
    );
    let (code, json) = exit_and_output(&["top", "--once", "--format", "json", "--server", &serving.http]);
    let overview: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &overview["policies"][0]["name"]), (Some(0), &Value::from("api")));
    let (code, output) = exit_and_output(&["top", "--once", "--server", "http://127.0.0.1:1"]);
    assert!(code == Some(4) && output.contains("nothing listens"), "{code:?} {output}");
    assert_eq!(exit_and_output(&["top", "--server", "nonsense"]).0, Some(2));
}
