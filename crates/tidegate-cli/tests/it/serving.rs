//! `tidegate serve`, with the signals that operators send.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tidegate_testbed::Server;

use crate::process::{Serving, exit_and_output, file};

#[test]
fn a_taken_port_ends_the_service_with_a_hint() {
    let first = Serving::start(&[]);
    let taken = first.http.trim_start_matches("http://");
    let (code, output) = exit_and_output(&["serve", "--http", taken, "--resp", "off", "--grpc", "off"]);
    assert_eq!(code, Some(2));
    assert!(
        output.contains(taken) && output.contains("another program listens there") && output.contains("--http"),
        "{output}"
    );
}

#[test]
fn hangup_reloads_and_terminate_drains() {
    let path = file("signals", "[policies.api]\nlimits = [\"1/1h\"]\n");
    let mut serving = Serving::start(&["--config", path.to_str().expect("text")]);
    let check =
        |serving: &Serving, key: &str| exit_and_output(&["check", key, "--policy", "api", "--server", &serving.http]).0;
    assert_eq!((check(&serving, "a"), check(&serving, "a")), (Some(0), Some(1)));
    std::fs::write(&path, "[policies.api]\nlimits = [\"2/1h\"]\n").expect("a writable file");
    serving.signal("HUP");
    serving.wait_for("policies reloaded");
    assert_eq!((check(&serving, "a"), check(&serving, "a")), (Some(0), Some(1)), "one was spent before");
    std::fs::write(&path, "[policies.api]\nlimits = [\"none\"]\n").expect("a writable file");
    serving.signal("HUP");
    let refused = serving.wait_for("configuration refused");
    assert!(
        refused["error"].as_str().is_some_and(|error| error.contains("signals.toml:2:11: `none` is not a limit")),
        "{refused}"
    );
    assert_eq!(check(&serving, "a"), Some(1));
    serving.signal("TERM");
    serving.wait_for("stopped");
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn a_refused_request_of_a_proxy_is_logged_with_its_reason() {
    let path = file("proxies", "[policies.api]\nlimits = [\"1/1h\"]\nkey = \"header:x-api-key\"\n");
    let mut serving = Serving::start(&["--config", path.to_str().expect("text")]);
    for (query, headers, status, reason) in [
        ("policy=apo", "", 404, "did you mean `api`?"),
        ("policy=api&cost=0", "", 400, "`cost` must be a number"),
        ("policy=api&deny_status=403", "x-api-key: a\r\nx-api-key: b\r\n", 403, "several values of `x-api-key`"),
    ] {
        let mut stream = TcpStream::connect(serving.http.replace("http://", "")).expect("the service listens");
        let request = format!("GET /v1/forward?{query} HTTP/1.1\r\nhost: shop.example\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("the connection is open");
        let logged = serving.wait_for("refused a request to /v1/forward");
        assert_eq!((&logged["level"], &logged["status"]), (&"WARN".into(), &status.into()), "{logged}");
        assert!(logged["reason"].as_str().is_some_and(|output| output.contains(reason)), "{logged}");
    }
}

/// Reads until the response ends with `end`, as the responses to `PING` and `/healthz` do.
fn is_answered(stream: &mut TcpStream, end: &[u8]) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
    let (mut answer, mut chunk) = (Vec::new(), [0; 1024]);
    while !answer.ends_with(end) {
        match stream.read(&mut chunk) {
            Ok(count @ 1..) => answer.extend_from_slice(&chunk[..count]),
            _ => return false,
        }
    }
    true
}

#[test]
fn requests_received_before_the_stop_signal_are_answered() {
    let mut serving = Serving::start(&[]);
    let http = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".as_slice();
    let listeners = [
        (serving.http.replace("http://", ""), http, b"\r\n\r\nok\n".as_slice()),
        (serving.resp.clone(), b"PING\r\n", b"+PONG\r\n"),
    ];
    let connect = |address: &str, request: &[u8]| {
        let mut stream = TcpStream::connect(address).expect("the service listens");
        stream.write_all(request).expect("the connection is open");
        stream
    };
    let mut known: Vec<(TcpStream, &[u8], &[u8])> = Vec::new();
    for (address, request, answer) in &listeners {
        for _ in 0..20 {
            let mut stream = connect(address, request);
            assert!(is_answered(&mut stream, answer));
            known.push((stream, request, answer));
        }
    }
    serving.signal("STOP");
    for (stream, request, _) in &mut known {
        stream.write_all(request).expect("the connection is open");
    }
    for (address, request, answer) in &listeners {
        known.extend((0..20).map(|_| (connect(address, request), *request, *answer)));
    }
    serving.signal("TERM");
    serving.signal("CONT");
    let answered = known.iter_mut().filter_map(|(stream, _, answer)| is_answered(stream, answer).then_some(())).count();
    assert_eq!(answered, known.len());
    drop(known);
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn a_public_listener_without_a_token_is_logged_as_a_warning() {
    let mut serving = Serving::start(&["--resp", "0.0.0.0:0"]);
    let warning = serving.wait_for("open to others without a token");
    assert_eq!(warning["transport"], "resp");
}

#[test]
fn a_killed_service_never_exceeds_the_limit_after_its_restart() {
    let redis = Server::start();
    let path = file(
        "killed",
        &format!(
            "[store]\nurl = \"{}\"\ntimeout = \"10s\"\n[policies.api]\nlimits = [\"300/1h\"]\non_store_failure = \"closed\"\n",
            redis.url()
        ),
    );
    let arguments = ["--config", path.to_str().expect("text")];
    let admitted = AtomicU64::new(0);
    // Redis clients send checks in a loop until the service is killed.
    let call = |serving: &Serving, until: &AtomicBool| {
        let (host, port) = serving.resp.split_once(':').expect("host and port");
        while !until.load(Relaxed) {
            let output = Command::new("redis-cli").args(["-h", host, "-p", port, "TG.CHECK", "api", "k"]).output();
            let output = output.expect("redis-cli is installed by scripts/peers");
            if output.stdout.starts_with(b"1\n") {
                admitted.fetch_add(1, Relaxed);
            }
        }
    };
    let stop = AtomicBool::new(false);
    let first = Serving::start(&arguments);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| call(&first, &stop));
        }
        while admitted.load(Relaxed) < 100 {
            std::thread::yield_now();
        }
        first.signal("KILL");
        stop.store(true, Relaxed);
    });
    let before = admitted.load(Relaxed);
    let second = Serving::start(&arguments);
    let mut total = before;
    while exit_and_output(&["check", "k", "--policy", "api", "--server", &second.http]).0 == Some(0) {
        total += 1;
        assert!(total <= 300, "more than the limit in one window");
    }
    assert!(total > before, "units were left");
    assert!(total + 4 >= 300, "at most the requests in flight may be charged without an answer: {total}");
}
