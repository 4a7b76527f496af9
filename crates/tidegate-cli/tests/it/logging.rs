//! Logging never blocks or stops the service, whatever happens to standard error.

use std::{
    fs::OpenOptions,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use tidegate_testbed::{Server, free_port, wait_for};

use crate::{
    http::{TIMEOUT, check, get, json_of},
    process::{BINARY, Serving, file},
};

/// A service whose log is not read. It is killed on drop.
struct Unread {
    child: Child,
    http: SocketAddr,
    resp: SocketAddr,
}

impl Unread {
    /// Starts a service with this standard error. The shell runs `before` first.
    fn start(before: &str, config: &str, stderr: Stdio) -> Self {
        let [http, resp] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let path = file(&format!("unread-{}", http.port()), config);
        let mut child = Command::new("sh")
            .args(["-c", &format!("{before} exec \"$0\" \"$@\""), BINARY, "serve"])
            .args(["--http", &http.to_string(), "--resp", &resp.to_string(), "--grpc", "off", "--config"])
            .arg(path)
            .current_dir(std::env::temp_dir())
            .stderr(stderr)
            .spawn()
            .expect("the binary runs");
        wait_for("the service to listen", TIMEOUT, || {
            assert_eq!(child.try_wait().expect("the process exists"), None, "the service ended at its start");
            TcpStream::connect(http).and_then(|_| TcpStream::connect(resp)).map_err(|error| error.to_string())
        });
        let service = Self { child, http, resp };
        // The sockets listen before the service has started. RESP is started last.
        wait_for("the service to answer", TIMEOUT, || service.ping());
        service
    }

    fn get(&self, path: &str) -> String {
        get(self.http, path).expect("an answer")
    }

    fn check(&self, policy: &str) -> Value {
        check(self.http, policy).expect("an answer")
    }

    fn ping(&self) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(self.resp).map_err(text)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(text)?;
        stream.write_all(b"PING\r\n").map_err(text)?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).map_err(text)?;
        if answer == *b"+PONG\r\n" { Ok(()) } else { Err(format!("{answer:?}")) }
    }

    /// Sends SIGTERM. Returns the exit code.
    fn terminate(&mut self) -> Option<i32> {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is installed").success());
        wait_for("the service to end", TIMEOUT, || {
            self.child.try_wait().expect("the process exists").ok_or_else(|| "it runs".to_owned())
        })
        .code()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const POLICY: &str = "[policies.api]\nlimits = [\"1000000/1h\"]\n";

/// Writes more log lines than the pipe and the queue hold. Every reset is logged.
fn fill_the_log(service: &Unread) {
    let mut stream = TcpStream::connect(service.resp).expect("the service listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a valid timeout");
    let mut answer = vec![0; b":0\r\n".len()];
    for _ in 0..4_000 {
        stream.write_all(b"TG.RESET api somebody\r\n").expect("the connection is open");
        stream.read_exact(&mut answer).expect("it is answered");
    }
}

#[test]
fn an_unread_log_blocks_nothing_and_its_dropped_lines_are_reported() {
    let mut service = Unread::start("", POLICY, Stdio::piped());
    fill_the_log(&service);
    for _ in 0..2_000 {
        let mut stream = TcpStream::connect(service.resp).expect("the service listens");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the connection is open");
    }
    service.ping().expect("RESP answers");
    let metrics = service.get("/metrics");
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("tidegate_log_lines_dropped_total "));
    assert!(dropped.is_some_and(|count| count.parse::<u64>().expect("a number") > 0), "{metrics}");
    let ready = json_of(&service.get("/readyz"));
    assert_eq!((&ready["status"], &ready["ready"]), (&json!("degraded"), &json!(true)), "{ready}");
    assert_eq!(ready["degraded"][0]["cause"], "log_lines_dropped", "{ready}");
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn a_log_on_a_full_disk_serves_and_stops_as_usual() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
    let mut service = Unread::start("", POLICY, full.into());
    assert_eq!(service.check("api")["allowed"], true);
    service.ping().expect("RESP answers");
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn the_service_reconnects_to_redis_after_the_log_reader_closed() {
    let redis = Server::start();
    let config = format!("[store]\nurl = \"{}\"\ntimeout = \"10s\"\n{POLICY}", redis.url());
    let mut service = Unread::start("", &config, Stdio::piped());
    assert_eq!(service.check("api")["degraded"], false);
    drop(service.child.stderr.take());
    redis.kill();
    wait_for("an answer without Redis", TIMEOUT, || {
        (service.check("api")["degraded"] == true).then_some(()).ok_or_else(String::new)
    });
    redis.restart();
    wait_for("an answer of Redis", TIMEOUT, || {
        (service.check("api")["degraded"] == false).then_some(()).ok_or_else(String::new)
    });
    assert_eq!(service.terminate(), Some(0));
}

/// Opens `count` connections each to HTTP and to RESP.
fn idle_connections(service: &Unread, count: usize) -> Vec<std::io::Result<TcpStream>> {
    [service.http, service.resp].iter().flat_map(|at| (0..count).map(move |_| TcpStream::connect(at))).collect()
}

/// Returns the sum of a counter over all transports.
fn counted(metrics: &str, name: &str) -> u64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn listeners_survive_running_out_of_descriptors_without_a_log() {
    let mut service = Unread::start("", POLICY, Stdio::piped());
    drop(service.child.stderr.take());
    let descriptors = format!("/proc/{}/fd", service.child.id());
    let used = || std::fs::read_dir(&descriptors).expect("it runs").count() as u64;
    let most = used() + 8;
    let process = service.child.id().try_into().expect("a process id");
    rlimit::prlimit(process, rlimit::Resource::NOFILE, Some((most, most)), None).expect("a limit can be lowered");
    let idle = idle_connections(&service, 64);
    wait_for("all descriptors to be used", TIMEOUT, || {
        if used() >= most { Ok(()) } else { Err(format!("{} of {most}", used())) }
    });
    drop(idle);
    wait_for("RESP to accept again", TIMEOUT, || service.ping());
    wait_for("HTTP to accept again", TIMEOUT, || get(service.http, "/healthz").map(|_| ()));
    assert!(counted(&service.get("/metrics"), "tidegate_accept_errors_total") > 0);
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn connections_do_not_use_up_the_descriptors() {
    let mut service = Unread::start("ulimit -n 64;", POLICY, Stdio::piped());
    drop(idle_connections(&service, 64));
    wait_for("connections to be rejected", TIMEOUT, || {
        let metrics = get(service.http, "/metrics")?;
        let names = ["tidegate_connections_turned_away_total", "tidegate_connections_turned_away_by_address_total"];
        let rejected: u64 = names.iter().map(|name| counted(&metrics, name)).sum();
        assert_eq!(counted(&metrics, "tidegate_accept_errors_total"), 0);
        if rejected > 0 { Ok(()) } else { Err("none was".to_owned()) }
    });
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn an_invalid_level_ends_the_service_with_a_hint() {
    for level in ["loud", "info,verbose", "tidegate_redis=loud"] {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--http", "127.0.0.1:0", "--resp", "off", "--grpc", "off"]).env("TIDEGATE_LOG", level);
        let output = command.current_dir(std::env::temp_dir()).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains(&format!("TIDEGATE_LOG is `{level}`")) && text.contains("use off, error, warn"),
            "{text}"
        );
    }
}

#[test]
fn repeated_lines_are_suppressed_and_counted() {
    const LINES: u64 = 200;
    let mut serving = Serving::start(&[]);
    for _ in 0..LINES {
        let mut stream = TcpStream::connect(&serving.resp).expect("the service listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a valid timeout");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the connection is open");
        // The service closes the connection after it logged the line.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    serving.signal("TERM");
    let (mut written, mut suppressed) = (0, 0);
    // The last report comes after the last line.
    serving.read_until(|line| {
        let message = line["message"].as_str().unwrap_or_default();
        written += u64::from(message.contains("uses HTTP is closed"));
        if message.ends_with("similar lines were suppressed") {
            assert!(line["like"].as_str().is_some_and(|like| like.contains("uses HTTP")), "{line}");
            suppressed += message.split(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a number");
        }
        written + suppressed == LINES
    });
    assert!(suppressed > 0, "{written} lines were written");
    assert_eq!(serving.wait(), Some(0));
}

/// Measures decisions per second on two connections that pipeline checks, with a log line for every hundred checks.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn decisions_per_second(service: &Unread) -> f64 {
    const BATCHES: u32 = 300;
    const CHECKS: u32 = 500;
    let batch = (b"TG.CHECK api k\r\n".repeat(100), b"TG.RESET api nobody\r\n");
    let batch = [batch.0, batch.1.to_vec()].concat().repeat(CHECKS as usize / 100);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut stream =
                    std::io::BufReader::new(TcpStream::connect(service.resp).expect("the service listens"));
                let mut line = String::new();
                for _ in 0..BATCHES {
                    stream.get_mut().write_all(&batch).expect("the connection is open");
                    // The reply to a check is a list of six numbers, the reply to a reset is one number.
                    for _ in 0..CHECKS * 7 + CHECKS / 100 {
                        line.clear();
                        std::io::BufRead::read_line(&mut stream, &mut line).expect("it is answered");
                    }
                }
            });
        }
    });
    f64::from(2 * BATCHES * CHECKS) / begun.elapsed().as_secs_f64()
}

/// Returns the processor time of a process in kernel ticks.
fn processor_time(service: &Unread) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", service.child.id())).expect("it runs");
    // The name in parentheses may have spaces; utime and stime are the 12th and 13th field after it.
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum()
}

/// `cargo test --release -p tidegate-cli --test it -- --ignored --nocapture decisions_with_an_unread_log`. On a machine that others keep
/// busy, wall-clock time depends on the scheduler; `chrt -r 5` before the test's binary helps.
#[test]
#[ignore = "it measures speed: run it alone, in release"]
fn decisions_with_an_unread_log_relative_to_one_that_is_read() {
    let (unread, mut read) = (Unread::start("", POLICY, Stdio::piped()), Unread::start("", POLICY, Stdio::piped()));
    let mut log = read.child.stderr.take().expect("a pipe");
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    fill_the_log(&unread);
    let used = [&read, &unread].map(processor_time);
    let mut ratios: Vec<f64> = (0..9)
        .map(|_| (decisions_per_second(&read), decisions_per_second(&unread)))
        .map(|(read, unread)| unread / read)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let [read, unread] = [processor_time(&read) - used[0], processor_time(&unread) - used[1]];
    println!(
        "with an unread log, relative to a log that is read: decisions/s {:.3} (nine rounds: {ratios:.3?}), \
         processor time {:.3}",
        ratios[4],
        unread / read
    );
}
