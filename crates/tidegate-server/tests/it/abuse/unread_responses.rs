//! Unread responses.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use serde_json::json;

use super::{child::Service, raw_http2::RawHttp2};
use crate::{
    http::client::{get, post, request},
    running::Running,
};

const POLICY: &str = "[policies.api]\nlimits = [\"1_000_000/1h\"]\n";

/// Returns 200 policies, with which the metrics have about 80 KB.
fn many_policies() -> String {
    (0..200).map(|n| format!("[policies.policy-{n}]\nlimits = [\"1/1m\"]\n")).collect::<Vec<_>>().concat()
}

/// Opens connections that each request a path `times` times and keep the window closed.
fn leave_unread(address: SocketAddr, connections: usize, path: &str, times: usize) -> Vec<RawHttp2> {
    let one = |_| {
        let mut connection = RawHttp2::connect(address, 0);
        let _ = connection.get(path, times, &[]);
        let received = connection.read(times);
        assert_eq!(received.data, 0, "the window is closed");
        connection
    };
    (0..connections).map(one).collect()
}

fn assert_served(address: SocketAddr) {
    let response = post(address, "/v1/check", &json!({ "policy": "api", "key": "honest" }));
    assert_eq!(response.status, 200);
}

#[test]
fn unread_responses_use_less_than_a_megabyte_per_connection() {
    // The number of streams that the server announces, and a larger number.
    for (path, connections) in
        [(format!("/{}", "x".repeat(15_000)), 40), ("/metrics".to_owned(), 20), ("/openapi.json".to_owned(), 20)]
    {
        for times in [128, 1000] {
            let service = Service::start(&format!("{POLICY}{}", many_policies()));
            assert_served(service.http);
            assert!(get(service.http, "/metrics").body.len() > 60_000);
            let before = service.resident_kb();
            let held = leave_unread(service.http, connections, &path, times);
            let grown = service.resident_kb().saturating_sub(before);
            println!("{connections} connections, {times} x {path:.12}: {grown} KB");
            assert!(
                grown < 1024 * connections as u64,
                "{grown} KB for {connections} connections, {times} of {path:.20}"
            );
            assert_served(service.http);
            drop(held);
        }
    }
}

#[test]
fn unread_responses_of_all_connections_are_bounded() {
    let service = Service::start(&format!(
        "[server]\nmax_response_memory = \"4MB\"\nwrite_timeout = \"10m\"\n{POLICY}{}",
        many_policies()
    ));
    assert_served(service.http);
    let _ = get(service.http, "/metrics");
    let before = service.resident_kb();
    let held = leave_unread(service.http, 200, "/metrics", 4);
    let grown = service.resident_kb().saturating_sub(before);
    // Each connection may always have 64 KB of responses, and needs memory itself. Without a bound, the
    // responses take more than 60 MB.
    let connections = 200 * (64 + 20);
    println!("200 connections: {grown} KB");
    assert!(grown < 4 * 1024 + connections, "{grown} KB");
    assert_served(service.http);
    let response = get(service.http, "/metrics");
    // No memory is left for a large response, unless this took so long that connections have been closed to free some.
    let metrics = String::from_utf8_lossy(&response.body);
    let closed =
        metrics.lines().find(|line| line.starts_with("tidegate_connections_closed_unread_total{transport=\"http\"}"));
    assert!(
        response.status == 503 || closed.is_some_and(|line| !line.ends_with(" 0")),
        "{}: {closed:?}",
        response.status
    );
    drop(held);
}

#[test]
fn a_window_of_one_byte_uses_no_more_memory_than_a_closed_window() {
    let service = Service::start(&format!("{POLICY}{}", many_policies()));
    assert_served(service.http);
    let _ = get(service.http, "/metrics");
    let before = service.resident_kb();
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut connection = RawHttp2::connect(service.http, 1);
        let _ = connection.get("/metrics", 128, &[]);
        let received = connection.read(128);
        assert!(received.with_status(503) > 100, "{}", received.with_status(503));
        held.push(connection);
    }
    let grown = service.resident_kb().saturating_sub(before);
    assert!(grown < 20 * 1024, "{grown} KB");
    drop(held);
}

#[test]
fn a_connection_that_reads_nothing_is_closed_and_frees_its_memory() {
    let config =
        format!("[server]\nmax_response_memory = \"1MB\"\nwrite_timeout = \"300ms\"\n{POLICY}{}", many_policies());
    let running = Running::start(&config);
    let mut held = leave_unread(running.http, 40, "/metrics", 8);
    assert_served(running.http);
    for connection in &mut held {
        connection.read_to_end();
    }
    let response = get(running.http, "/metrics");
    assert_eq!(response.status, 200, "memory is available again");
    let text = String::from_utf8(response.body).expect("text");
    assert!(
        text.lines().any(|line| line == "tidegate_connections_closed_unread_total{transport=\"http\"} 40"),
        "{text}"
    );
}

#[test]
fn a_refused_response_has_status_503_and_small_responses_are_still_sent() {
    let running = Running::start(&format!("{POLICY}{}", many_policies()));
    let mut connection = RawHttp2::connect(running.http, 0);
    connection.get("/metrics", 20, &[]).expect("the connection is open");
    let received = connection.read(20);
    assert_eq!((received.responses.len(), received.resets), (20, 0));
    // The sizes of buffers are powers of two, and 512 KB of them may be unread.
    let fit = (512 << 10) / get(running.http, "/metrics").body.len().next_power_of_two();
    assert_eq!((received.with_status(200), received.with_status(503)), (fit, 20 - fit));
    connection.get("/healthz", 50, &[]).expect("the connection is open");
    assert_eq!(connection.read(50).with_status(200), 50, "small responses are sent");
    assert_eq!(get(running.http, "/metrics").status, 200, "other connections have their own memory");
}

/// Returns a request with the maximum number of checks, each with its own key.
fn many_checks() -> String {
    let checks: Vec<_> = (0..64).map(|n| json!({ "policy": "api", "key": format!("key-{n}") })).collect();
    json!({ "checks": checks }).to_string()
}

/// Returns the units in use of a key of [`many_checks`].
fn used(running: &Running) -> u64 {
    let response = post(running.http, "/v1/peek", &json!({ "policy": "api", "key": "key-63" }));
    response.json()["used"].as_u64().expect("a number")
}

#[test]
fn several_checks_are_answered_when_the_listener_is_full() {
    let config =
        format!("[server]\nmax_response_memory = \"1MB\"\nwrite_timeout = \"10m\"\n{POLICY}{}", many_policies());
    let running = Running::start(&config);
    let held = leave_unread(running.http, 40, "/metrics", 8);
    let json = [("content-type", "application/json")];
    let response = request(running.http, "POST", "/v1/check", &json, &many_checks());
    assert_eq!(response.status, 200, "over HTTP/1");
    assert!(response.body.len() > 4096, "{}", response.body.len());
    let mut connection = RawHttp2::connect(running.http, 65_535);
    let stream = connection.post("/v1/check", &json).expect("the connection is open");
    connection.body(stream, &many_checks()).expect("the connection is open");
    assert_eq!(connection.read(1).with_status(200), 1, "over HTTP/2");
    assert_eq!(used(&running), 2);
    drop(held);
}

#[test]
fn several_checks_that_are_refused_are_not_charged() {
    let running = Running::start(&format!("{POLICY}{}", many_policies()));
    let mut connection = RawHttp2::connect(running.http, 0);
    connection.get("/metrics", 20, &[]).expect("the connection is open");
    assert!(connection.read(20).with_status(503) > 0, "the connection has reached its maximum");
    let stream = connection.post("/v1/check", &[("content-type", "application/json")]).expect("the connection is open");
    connection.body(stream, &many_checks()).expect("the connection is open");
    assert_eq!(connection.read(1).with_status(503), 1);
    assert_eq!(used(&running), 0);
}

#[test]
fn requests_without_their_bodies_count_towards_the_memory_bound() {
    let config = format!("[server]\nmax_response_memory = \"1MB\"\nheader_timeout = \"10m\"\n{POLICY}");
    let running = Running::start(&config);
    let json = [("content-type", "application/json")];
    let mut held: Vec<_> = (0..20).map(|_| RawHttp2::connect(running.http, 0)).collect();
    for connection in &mut held {
        let _ = (0..128).try_for_each(|_| connection.post("/v1/check", &json).map(drop));
    }
    // With their responses they would use 12 MB. Requests are refused, or connections that have withheld bodies for a second are
    // closed. The first ping is answered when all requests were read, and later pings when the requests have started.
    let is_bounded = |connection: &mut RawHttp2| connection.ping().map_or(true, |resets| resets > 0);
    assert!((0..100).any(|_| held.iter_mut().any(is_bounded)), "all 2,560 requests were started");
    assert_served(running.http);
}

#[test]
fn a_connection_with_small_responses_is_served_when_the_listener_is_full() {
    let config =
        format!("[server]\nmax_response_memory = \"1MB\"\nwrite_timeout = \"10m\"\n{POLICY}{}", many_policies());
    let running = Running::start(&config);
    let held = leave_unread(running.http, 40, "/metrics", 8);
    let mut connection = RawHttp2::connect(running.http, 0);
    connection.get("/healthz", 12, &[]).expect("the connection is open");
    let received = connection.read(12);
    assert_eq!((received.with_status(200), received.resets), (12, 0));
    drop(held);
}

#[test]
fn an_unread_event_stream_is_closed() {
    let running = Running::start(&format!("[server]\nwrite_timeout = \"200ms\"\n{POLICY}"));
    let mut connection = RawHttp2::connect(running.http, 0);
    connection.get("/v1/live", 8, &[]).expect("the connection is open");
    connection.read_to_end();
    let no_streams_are_open = || {
        let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
        text.lines().any(|line| line == "tidegate_viewers 0")
    };
    // The slots are free when the tasks have noticed the end of the connection.
    while !no_streams_are_open() {}
}

#[test]
fn pipelined_requests_with_unread_responses_use_little_memory() {
    let service = Service::start(&format!("[server]\nwrite_timeout = \"10m\"\n{POLICY}{}", many_policies()));
    assert_served(service.http);
    let _ = get(service.http, "/metrics");
    let before = service.resident_kb();
    let requests: [(SocketAddr, &[u8]); 2] = [
        (service.http, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        (service.resp, b"TG.PEEK api k FULL\r\n"),
    ];
    let mut held = Vec::new();
    for (address, request_bytes) in requests {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).expect("the service listens");
            stream.set_nonblocking(true).expect("a socket can");
            let many = request_bytes.repeat(20_000);
            let mut sent = 0;
            // Until the service stops reading, so that repeated writes fail.
            let mut stuck = 0;
            while sent < many.len() && stuck < 20 {
                match stream.write(&many[sent..]) {
                    Ok(count) => (sent, stuck) = (sent + count, 0),
                    Err(_) => {
                        stuck += 1;
                        assert_served(service.http);
                    }
                }
            }
            held.push(stream);
        }
    }
    let grown = service.resident_kb().saturating_sub(before);
    println!("40 connections: {grown} KB");
    assert!(grown < 1024 * 40, "{grown} KB");
}

#[test]
fn unread_replies_of_all_connections_are_bounded() {
    let running =
        Running::start(&format!("[server]\nmax_response_memory = \"1MB\"\nwrite_timeout = \"10m\"\n{POLICY}"));
    let greedy: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(running.resp).expect("the service listens");
            let request_bytes = b"TG.PEEK api k FULL\r\n".repeat(1000);
            // Connections beyond the bound are closed immediately, and the others soon after, although their write timeout is long.
            std::thread::spawn(move || while stream.write_all(&request_bytes).is_ok() {})
        })
        .collect();
    let closed = || greedy.iter().filter(|one| one.is_finished()).count();
    while closed() < 6 {
        std::thread::yield_now();
    }
    let mut client = TcpStream::connect(running.resp).expect("the service listens");
    client.write_all(b"PING\r\n").expect("the connection is open");
    let mut pong = [0; 7];
    client.read_exact(&mut pong).expect("the connection is served");
    assert_eq!(&pong, b"+PONG\r\n");
}

#[test]
fn unread_replies_are_measured_and_their_connection_is_closed() {
    for (write_timeout, is_closed) in [("10m", false), ("300ms", true)] {
        let running = Running::start(&format!("[server]\nwrite_timeout = \"{write_timeout}\"\n{POLICY}"));
        let metric = |name: &str| {
            let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{transport=\"resp\"} "));
            value.and_then(|value| value.parse::<u64>().ok()).expect("a number")
        };
        let unread = || metric("tidegate_unread_response_bytes");
        let closed = || metric("tidegate_connections_closed_unread_total");
        assert_eq!((unread(), closed()), (0, 0));
        let mut greedy = TcpStream::connect(running.resp).expect("the service listens");
        let stream = greedy.try_clone().expect("a second handle");
        let sending = std::thread::spawn(move || {
            let commands = b"TG.PEEK api k FULL\r\n".repeat(1000);
            while greedy.write_all(&commands).is_ok() {}
        });
        if is_closed {
            while closed() == 0 {}
        } else {
            while unread() == 0 {}
            stream.shutdown(std::net::Shutdown::Both).expect("the connection is open");
        }
        sending.join().expect("the connection ends");
        drop(stream);
        while unread() > 0 {}
        assert_eq!(closed(), u64::from(is_closed));
    }
}

#[test]
fn an_error_does_not_echo_long_input() {
    let running = Running::start(&format!("[server]\nadmin_token = \"change-me-now\"\n{POLICY}"));
    let long = "x".repeat(12_000);
    let json = ("content-type", "application/json");
    let admin = ("authorization", "Bearer change-me-now");
    let with = |text: &str| text.replace("LONG", &long);
    let mut responses = Vec::new();
    for path in [
        "/LONG",
        "/assets/LONG",
        "/v1/hits?policy=LONG",
        "/v1/inspect?LONG=1",
        "/v1/inspect?policy=LONG&key=a",
        "/v1/forward?policy=LONG",
        "/v1/check?LONG",
    ] {
        responses.push((path.to_owned(), request(running.http, "GET", &with(path), &[json, admin], "")));
        responses.push((path.to_owned(), request(running.http, "DELETE", &with(path), &[json, admin], "")));
    }
    for headers in [
        [json, ("host", &*long)],
        [json, ("origin", &long)],
        [("content-type", &long), admin],
        [json, ("authorization", &long)],
    ] {
        responses.push((
            format!("{:.40}", format!("{headers:?}")),
            request(running.http, "POST", "/v1/reset", &headers, "{}"),
        ));
    }
    for body in [
        r#"{"LONG": 1}"#,
        r#""LONG""#,
        r#"{"policy": "LONG", "key": "a"}"#,
        r#"{"policy": "api", "key": "LONG"}"#,
        r#"{"policy": "api", "key": "a", "cost": "LONG"}"#,
        r#"{"policy": "api", "key": "a", "operation": "LONG"}"#,
        r#"{"policy": "api", "key": "a", "on_store_failure": "LONG"}"#,
        r#"{"key": "a", "limits": ["LONG"]}"#,
        r#"{"key": "a", "limits": ["1/1s"], "algorithm": "LONG"}"#,
        r#"{"checks": [{"LONG": 1}]}"#,
        r#"{"token": "LONG", "LONG": 1}"#,
    ] {
        for path in ["/v1/check", "/v1/reset", "/v1/refund", "/v1/override", "/v1/override/lift", "/v1/session"] {
            responses
                .push((format!("{path} {body}"), request(running.http, "POST", path, &[json, admin], &with(body))));
        }
    }
    for (input, response) in responses {
        let text = String::from_utf8_lossy(&response.body);
        assert!(response.status >= 400, "{input} gives {} {text:.100}", response.status);
        assert!(response.body.len() < 1200, "{input} gives {} bytes: {text:.200}", response.body.len());
        assert!(response.headers.iter().all(|(_, value)| value.len() < 500), "{input}");
    }
}
