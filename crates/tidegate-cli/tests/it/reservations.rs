//! `tidegate reserve`, `commit`, `release` and `renew`, and `tidegate run`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::{
    http,
    process::{BINARY, Serving, exit_and_output, file, run},
};

const CONFIG: &str = r#"
[policies.tokens]
limits = ["100/1h"]
[policies.jobs]
limits = ["60/1h", "1/inflight"]
"#;

/// A service, and commands that use it.
struct Service(Serving);

impl Service {
    fn start(name: &str) -> Self {
        let path = file(name, CONFIG);
        Self(Serving::start(&["--config", path.to_str().expect("text")]))
    }

    fn call(&self, arguments: &[&str]) -> (Option<i32>, String) {
        exit_and_output(&[&arguments[..1], &["--server", &self.0.http], &arguments[1..]].concat())
    }

    /// Starts `tidegate run` with these options and this command.
    fn spawn(&self, options: &[&str], command: &[&str]) -> Running {
        spawn_at(&self.0.http, options, command)
    }

    /// Returns the state of the key.
    fn state(&self) -> Value {
        let (code, text) = self.call(&["inspect", "import", "--policy", "jobs", "--format", "json"]);
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The units in use under the limit with a window, and in open holds.
    fn used(&self) -> [u64; 2] {
        let state = self.state();
        [0, 1].map(|limit| state["limits"][limit]["used"].as_u64().expect("a number"))
    }

    /// The end of the only hold, if there is one.
    fn end(&self) -> Option<u64> {
        self.state()["reservations"][0]["until_us"].as_u64()
    }
}

/// Starts `tidegate run` with a service at this URL.
fn spawn_at(server: &str, options: &[&str], command: &[&str]) -> Running {
    let mut child = Command::new(BINARY);
    child.args(["run", "--server", server, "--policy", "jobs", "--key", "import"]);
    child.args(options).arg("--").args(command);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("the binary runs");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    Running { child, output }
}

/// A `tidegate run` whose input and output are those of the test.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Sends a line to the command, which returns it when it runs.
    fn echo(&mut self) {
        self.child.stdin.as_mut().expect("it is piped").write_all(b"hello\n").expect("the command reads");
        assert_eq!(self.line(), "hello");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the command writes");
        line.trim_end().to_owned()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is installed").success());
    }

    /// Closes the input, and waits for the end. Returns the exit code and what was printed to standard error.
    fn finish(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut errors = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("text");
        (self.child.wait().expect("the process exists").code(), errors)
    }
}

#[test]
fn a_hold_is_reserved_renewed_and_committed_by_its_id() {
    let service = Service::start("holds");
    let (code, output) = service.call(&["reserve", "alice", "--policy", "tokens", "--cost", "40", "--ttl", "1m30s"]);
    let lines: Vec<&str> = output.lines().collect();
    let [decision, about, id] = lines[..] else { panic!("{output}") };
    assert_eq!((code, decision), (Some(0), "allowed: 40 in use under 100/1h, 60 remaining"));
    assert_eq!((about, id.starts_with("ntokens.")), ("reserved for 1m30s as", true), "{output}");
    let call = |arguments: &[&str]| service.call(arguments);
    assert_eq!(call(&["renew", id, "--ttl", "1m"]).1, "renewed: 40 in use under 100/1h, 60 remaining\n");
    let (_, shown) = call(&["inspect", "alice", "--policy", "tokens"]);
    assert!(shown.contains("1 open hold with 40 units; it ends in "), "{shown}");
    assert_eq!(call(&["commit", id, "15"]), (Some(0), "committed: 15 in use under 100/1h, 85 remaining\n".to_owned()));
    let gone =
        (Some(1), "not open: it was committed or released before, has ended, or is of another store\n".to_owned());
    assert_eq!(call(&["commit", id, "15"]), gone);
    assert_eq!(call(&["release", id]), gone);
    assert_eq!(call(&["renew", id, "--ttl", "1m"]), gone);
    let json =
        ["reserve", "alice", "-p", "tokens", "--cost", "80", "--ttl", "1m", "--expires", "spent", "--format", "json"];
    let output = run(&[&json[..], &["--server", &service.0.http]].concat());
    let body: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let id = body["reservation"].as_str().expect("an id");
    let (code, output) = call(&["reserve", "alice", "--policy", "tokens", "--cost", "80", "--ttl", "1m"]);
    assert!(
        code == Some(1) && output.starts_with("limited: 95 in use under 100/1h, 5 remaining, fits in "),
        "{output}"
    );
    assert_eq!(call(&["reserve", "alice", "--policy", "tokens", "--cost", "101", "--ttl", "1m"]).0, Some(3));
    assert_eq!(call(&["release", id]).1, "released: 15 in use under 100/1h, 85 remaining\n");
    for (arguments, message) in [
        (&["reserve", "alice", "--policy", "tokens"][..], "--ttl <DURATION>"),
        (&["reserve", "alice", "--policy", "tokens", "--ttl", "2h"], "1ms to 1h"),
        (
            &["reserve", "alice", "--policy", "tokens", "--ttl", "soon"],
            "write a duration above zero, such as 500ms or 10s",
        ),
        (&["commit", "ntokens.x", "1"], "not the id of a reservation"),
        (&["commit", id], "<ACTUAL>"),
        (&["check", "alice", "--policy", "jobs"], "reserve instead"),
    ] {
        let (code, output) = call(arguments);
        assert!(code == Some(2) && output.contains(message), "{arguments:?}: {code:?} {output}");
    }
}

#[test]
fn a_script_gets_the_id_alone_and_the_exit_code_of_a_denial() {
    let service = Service::start("hold-id");
    let reserve = |more: &[&str]| {
        let options = ["reserve", "a", "--policy", "jobs", "--ttl", "1m", "--id", "--server", &service.0.http];
        let output = run(&[&options[..], more].concat());
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, id, decision) = reserve(&[]);
    assert_eq!((code, decision.as_str()), (Some(0), "tidegate: allowed: 1 in use under 1/inflight, 0 remaining\n"));
    let (code, nothing, decision) = reserve(&[]);
    assert_eq!((code, nothing.as_str()), (Some(1), ""), "{decision}");
    assert!(decision.starts_with("tidegate: limited: 1 in use under 1/inflight, 0 remaining, fits in "), "{decision}");
    let (code, nothing, decision) = reserve(&["--format", "json"]);
    let body: Value = serde_json::from_str(&decision).expect("JSON");
    assert_eq!((code, nothing.as_str(), &body["reason"]), (Some(1), "", &Value::from("limited")));
    let (code, nothing, error) = reserve(&["--cost", "0"]);
    assert!((code, nothing.as_str()) == (Some(2), "") && error.contains("1000000000000"), "{error}");
    assert_eq!(service.call(&["release", id.trim_end()]).0, Some(0));
}

#[test]
fn run_exits_with_the_code_of_its_command_and_releases_the_hold() {
    let service = Service::start("run-codes");
    let run = |command: &[&str]| service.spawn(&[], command).finish();
    assert_eq!(run(&["true"]), (Some(0), String::new()));
    assert_eq!(run(&["sh", "-c", "exit 7"]).0, Some(7));
    assert_eq!(run(&["sh", "-c", "kill -KILL $$"]).0, Some(137));
    let (code, errors) = run(&["/nowhere/command"]);
    assert!(code == Some(127) && errors.contains("`/nowhere/command` can't be started"), "{code:?} {errors}");
    assert_eq!(run(&["/"]).0, Some(126));
    assert_eq!(service.used(), [0, 0], "every hold was released");
    assert_eq!(service.spawn(&["--spend"], &["true"]).finish().0, Some(0));
    assert_eq!(service.used(), [1, 0], "the run counts under the limit with a window");
    let (code, output) = exit_and_output(&[
        "run",
        "--key",
        "k",
        "--limit",
        "1/inflight",
        "--server",
        "http://127.0.0.1:1",
        "--",
        "true",
    ]);
    assert!(code == Some(4) && output.contains("nothing listens"), "{code:?} {output}");
}

#[test]
fn a_command_without_a_place_does_not_run_unless_it_waits_for_one() {
    let service = Service::start("run-wait");
    let mut first = service.spawn(&[], &["cat"]);
    first.echo();
    assert_eq!(service.used(), [1, 1]);
    let mut denied = service.spawn(&[], &["echo", "it runs"]);
    assert_eq!(denied.line(), "", "the command does not run");
    let (code, errors) = denied.finish();
    let expected = "tidegate: limited: 1 in use under 1/inflight, 0 remaining, fits in ";
    assert!(code == Some(1) && errors.starts_with(expected), "{code:?} {errors}");
    assert!(errors.contains("; a place is free in "), "{errors}");
    let (code, errors) = service.spawn(&["--format", "json"], &["true"]).finish();
    let body: Value = serde_json::from_str(&errors).expect("JSON");
    assert_eq!((code, &body["reason"]), (Some(1), &Value::from("limited")));
    assert!(body["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{body}");
    assert_eq!(service.spawn(&["--wait", "10ms"], &["true"]).finish().0, Some(1), "it waits only so long");
    assert_eq!(service.spawn(&["--wait", "10ms", "--cost", "2"], &["true"]).finish().0, Some(3), "it never fits");
    let mut second = service.spawn(&["--wait", "10m"], &["cat"]);
    assert_eq!(first.finish(), (Some(0), String::new()));
    second.echo();
    assert_eq!(service.used(), [1, 1]);
    assert_eq!(second.finish(), (Some(0), String::new()));
    assert_eq!(service.used(), [0, 0]);
}

#[test]
fn signals_are_passed_on_and_the_command_decides_what_they_mean() {
    let service = Service::start("run-signals");
    for (signal, code) in [("TERM", 7), ("INT", 8), ("HUP", 9), ("USR1", 10)] {
        // The shell waits in a builtin, which a signal interrupts.
        let script =
            "trap 'exit 7' TERM; trap 'exit 8' INT; trap 'exit 9' HUP; trap 'exit 10' USR1; echo ready; read line";
        let mut running = service.spawn(&[], &["bash", "-c", script]);
        assert_eq!(running.line(), "ready");
        running.signal(signal);
        let stdin = running.child.stdin.take();
        let ended = running.finish();
        drop(stdin);
        assert_eq!(ended, (Some(code), String::new()), "{signal}");
    }
    let mut running = service.spawn(&[], &["cat"]);
    running.echo();
    running.signal("TERM");
    let stdin = running.child.stdin.take();
    assert_eq!(running.finish().0, Some(128 + 15), "a signal that ends the command");
    drop(stdin);
    assert_eq!(service.used(), [0, 0]);
}

#[test]
fn a_signal_ends_a_run_that_waits_and_one_that_was_ignored_stays_ignored() {
    let service = Service::start("run-waits");
    let mut first = service.spawn(&[], &["cat"]);
    first.echo();
    let waiting = service.spawn(&["--wait", "10m"], &["true"]);
    let address = service.0.http.strip_prefix("http://").and_then(|address| address.parse().ok()).expect("an address");
    let denied = "tidegate_decisions_total{policy=\"jobs\",reason=\"limited\"} 0";
    while http::get(address, "/metrics").expect("metrics").contains(denied) {}
    waiting.signal("TERM");
    assert_eq!(waiting.finish(), (Some(128 + 15), String::new()));
    assert_eq!(first.finish().0, Some(0));
    assert_eq!(service.used(), [0, 0]);
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let command = ["--policy", "jobs", "--key", "import", "--", "sh", "-c", "kill -HUP $$; echo alive"];
    let run =
        Command::new("sh").args(["-c", script, BINARY, "run", "--server", &service.0.http]).args(command).output();
    assert_eq!(run.expect("a shell").stdout, b"alive\n", "the command ignores HUP, too");
}

/// Answers one request with a JSON body. Returns its path. `before` is called between the two.
fn answer(listener: &TcpListener, body: &str, before: impl FnOnce()) -> String {
    let (mut stream, _) = listener.accept().expect("a request");
    let mut request = BufReader::new(&stream);
    let mut line = String::new();
    request.read_line(&mut line).expect("a request line");
    before();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("the client reads");
    line.split(' ').nth(1).expect("a path").to_owned()
}

#[test]
fn a_hold_that_is_granted_after_a_signal_is_released() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let running = spawn_at(&server, &[], &["cat"]);
    let granted = r#"{"allowed": true, "reason": "allowed", "reservation": "njobs.A", "ttl_ms": 30000}"#;
    assert_eq!(answer(&listener, granted, || running.signal("TERM")), "/v1/reserve");
    assert_eq!(answer(&listener, r#"{"known": true}"#, || ()), "/v1/release");
    assert_eq!(running.child.wait_with_output().expect("it ends").status.code(), Some(128 + 15));
}

#[test]
fn a_run_with_spend_counts_even_if_it_is_killed_and_says_if_it_does_not_count() {
    let service = Service::start("run-spend");
    let mut killed = service.spawn(&["--ttl", "1s", "--spend"], &["cat"]);
    killed.echo();
    killed.signal("KILL");
    assert_eq!(service.spawn(&["--wait", "10m"], &["true"]).finish(), (Some(0), String::new()));
    assert_eq!(service.used(), [1, 0], "the killed run counts");
    killed.finish();
    let mut running = service.spawn(&["--spend"], &["cat"]);
    running.echo();
    assert_eq!(service.call(&["reset", "import", "--policy", "jobs"]).1, "reset\n");
    let (code, errors) = running.finish();
    assert!(code == Some(0) && errors.contains("this run counts only if the hold ended by its ttl"), "{errors}");
    assert_eq!(service.used(), [0, 0]);
}

#[test]
fn a_run_that_waits_asks_again_if_the_service_does_not_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let running = spawn_at(&server, &["--wait", "10m"], &["true"]);
    drop(listener.accept().expect("a request"));
    let granted = r#"{"allowed": true, "reason": "allowed", "reservation": "njobs.A", "ttl_ms": 30000}"#;
    assert_eq!(answer(&listener, granted, || ()), "/v1/reserve");
    assert_eq!(answer(&listener, r#"{"known": true}"#, || ()), "/v1/release");
    assert_eq!(running.finish(), (Some(0), String::new()));
}

#[test]
fn a_run_with_spend_is_counted_once_if_its_hold_ends_while_it_is_stopped() {
    let service = Service::start("run-stopped");
    let mut running = service.spawn(&["--ttl", "1s", "--spend"], &["cat"]);
    running.echo();
    running.signal("STOP");
    while service.end().is_some() {}
    assert_eq!(service.used(), [1, 0], "it counts");
    running.signal("CONT");
    while service.end().is_none() {}
    let (code, errors) = running.finish();
    assert!(code == Some(0) && errors.contains("this run counts twice until it ends"), "{code:?} {errors}");
    assert_eq!(service.used(), [1, 0]);
}

#[test]
fn a_run_with_spend_that_waits_reserves_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let fits = r#"{"allowed": true, "reason": "allowed", "used": 0, "remaining": 1}"#;
    let running = spawn_at(&server, &["--wait", "10m", "--spend"], &["true"]);
    drop(listener.accept().expect("a request"));
    assert_eq!(answer(&listener, fits, || ()), "/v1/peek", "a peek may be repeated");
    // The answer to the reserve is lost.
    drop(listener.accept().expect("a request"));
    let (code, errors) = running.finish();
    assert!(code == Some(4) && errors.contains("this run may be counted already"), "{code:?} {errors}");
    let running = spawn_at(&server, &["--wait", "10m", "--spend"], &["true"]);
    let denied = r#"{"allowed": false, "reason": "limited", "retry_after_ms": 1}"#;
    for (path, body) in [
        ("/v1/peek", denied),
        ("/v1/peek", fits),
        ("/v1/reserve", denied),
        ("/v1/peek", fits),
        ("/v1/reserve", r#"{"allowed": true, "reason": "allowed", "reservation": "njobs.A", "ttl_ms": 30000}"#),
        ("/v1/commit", r#"{"known": true}"#),
    ] {
        assert_eq!(answer(&listener, body, || ()), path);
    }
    assert_eq!(running.finish(), (Some(0), String::new()));
}

#[test]
fn the_hold_is_renewed_while_the_command_runs_and_taken_again_if_it_was_lost() {
    let service = Service::start("run-renew");
    let mut running = service.spawn(&["--ttl", "1s"], &["cat"]);
    running.echo();
    let first = service.end().expect("a hold");
    while service.end().expect("the hold does not end") == first {}
    assert_eq!(service.call(&["reset", "import", "--policy", "jobs"]).1, "reset\n");
    while service.end().is_none() {}
    let (code, errors) = running.finish();
    assert!(code == Some(0) && errors.contains("was taken again"), "{code:?} {errors}");
    assert_eq!(service.used(), [0, 0]);
}

#[test]
fn a_run_whose_place_is_taken_reports_it_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let mut running = spawn_at(&server, &["--ttl", "30ms"], &["cat"]);
    let granted = r#"{"allowed": true, "reason": "allowed", "reservation": "njobs.A", "ttl_ms": 30}"#;
    assert_eq!(answer(&listener, granted, || ()), "/v1/reserve");
    running.echo();
    for wait in [2_000, 1_000] {
        assert_eq!(answer(&listener, r#"{"known": false}"#, || ()), "/v1/renew");
        let denied = format!(
            r#"{{"allowed": false, "reason": "limited", "limit": "1/inflight", "used": 1, "remaining": 0, "retry_after_ms": {wait}}}"#
        );
        assert_eq!(answer(&listener, &denied, || ()), "/v1/reserve");
    }
    drop(running.child.stdin.take());
    // A renewal may be under way.
    while answer(&listener, r#"{"known": true}"#, || ()) != "/v1/release" {}
    let (code, errors) = running.finish();
    let expected = "tidegate: the hold can't be renewed: it has ended, and no place is free: 1 in use under 1/inflight, 0 remaining\n";
    assert_eq!((code, errors.as_str()), (Some(0), expected));
}

#[test]
fn a_run_without_the_store_takes_a_hold_when_the_store_answers_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let mut running = spawn_at(&server, &["--ttl", "30ms", "--spend"], &["cat"]);
    let degraded =
        r#"{"allowed": true, "reason": "allowed", "degraded": true, "reservation": "njobs.A", "ttl_ms": 30}"#;
    let granted =
        r#"{"allowed": true, "reason": "allowed", "degraded": false, "reservation": "njobs.B", "ttl_ms": 30}"#;
    assert_eq!(answer(&listener, degraded, || ()), "/v1/reserve");
    running.echo();
    for body in [degraded, degraded, granted] {
        assert_eq!(answer(&listener, r#"{"known": false}"#, || ()), "/v1/renew");
        assert_eq!(answer(&listener, body, || ()), "/v1/reserve");
    }
    drop(running.child.stdin.take());
    // A renewal may be under way. The run has not been counted before.
    while answer(&listener, r#"{"known": true}"#, || ()) != "/v1/commit" {}
    let (code, errors) = running.finish();
    let expected = "tidegate: the store does not answer: the shared limit is not enforced for this run\n\
                    tidegate: the store answers again, and the hold was taken\n";
    assert_eq!((code, errors.as_str()), (Some(0), expected));
}

#[test]
fn the_place_of_a_killed_process_is_free_after_the_ttl() {
    let service = Service::start("run-killed");
    let mut killed = service.spawn(&["--ttl", "1s"], &["cat"]);
    killed.echo();
    killed.signal("KILL");
    assert_eq!(service.spawn(&["--wait", "10m"], &["true"]).finish(), (Some(0), String::new()));
    assert_eq!(killed.finish().0, None);
}

#[test]
fn run_needs_no_service_with_a_redis() {
    let redis = tidegate_testbed::Server::start();
    let (url, path) = (redis.url(), file("run-direct", CONFIG));
    let target = ["--store", url.as_str(), "--config", path.to_str().expect("text"), "--policy", "jobs"];
    let run = |command: &[&str]| {
        let options = ["run", "--key", "import"];
        exit_and_output(&[&options[..], &target[..], &["--"], command].concat())
    };
    assert_eq!(run(&["echo", "it runs"]), (Some(0), "it runs\n".to_owned()));
    let reserve = [&["reserve", "import", "--ttl", "1m"][..], &target[..]].concat();
    let (code, output) = exit_and_output(&reserve);
    assert_eq!(code, Some(0), "{output}");
    let id = output.lines().last().expect("an id");
    assert_eq!(run(&["true"]).0, Some(1));
    let release = [&["release", id][..], &target[..4]].concat();
    assert_eq!(exit_and_output(&release).0, Some(0));
    assert_eq!(run(&["true"]).0, Some(0));
}
