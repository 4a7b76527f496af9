//! Bad input gets a clear error and does not affect other clients.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::client::{get, post, raw, request};
use crate::running::Running;

const CONFIG: &str = "[server]\nmax_body = \"4KB\"\nheader_timeout = \"500ms\"\nwrite_timeout = \"500ms\"\n[policies.api]\nlimits = [\"100/1m\"]\n";

#[test]
fn an_error_names_the_invalid_field() {
    let running = Running::start(CONFIG);
    let key = |len: usize| "k".repeat(len);
    for (body, status, field, expected) in [
        (json!({}), 400, "policy", "the limit is missing"),
        (json!({ "policy": "api" }), 400, "key", "`key` is missing"),
        (json!({ "policy": "api", "key": "" }), 400, "key", "the key is empty"),
        (json!({ "policy": "api", "key": [] }), 400, "key", "the key is empty"),
        (json!({ "policy": "api", "key": key(1025) }), 400, "key", "use 1 to 1024"),
        (json!({ "policy": "apo", "key": "a" }), 404, "policy", "did you mean `api`?"),
        (json!({ "policy": "api", "key": "a", "cost": 0 }), 400, "cost", "1000000000000"),
        (json!({ "policy": "api", "key": "a", "cost": -1 }), 400, "cost", "-1"),
        (json!({ "policy": "api", "key": "a", "cost": 1.5 }), 400, "cost", "1.5"),
        (json!({ "policy": "api", "key": "a", "cost": "1" }), 400, "cost", "string"),
        (json!({ "policy": "api", "key": "a", "cost": 1_000_000_000_001_u64 }), 400, "cost", "out of range"),
        (json!({ "policy": "api", "key": 7 }), 400, "key", "a string or a list of strings"),
        (json!({ "policy": "api", "key": "a", "costs": 1 }), 400, "costs", "unknown field `costs`"),
        (json!({ "policy": "api", "key": "a", "operation": "x" }), 400, "operation", "no operation `x`"),
        (json!({ "policy": "api", "key": "a", "cost": 1, "operation": "x" }), 400, "cost", "use one"),
        (json!({ "policy": "api", "key": "a", "limits": ["1/1s"] }), 400, "limits", "use one"),
        (json!({ "policy": "api", "key": "a", "algorithm": "gcra" }), 400, "algorithm", "remove `algorithm`"),
        (json!({ "policy": "api", "key": "a", "on_store_failure": "maybe" }), 400, "on_store_failure", "open, closed"),
        (json!({ "policy": "api", "key": "a", "charged_at_us": 1 }), 400, "charged_at_us", "only a refund"),
        (json!({ "key": "a", "limits": [] }), 400, "limits", "the policy has no limits"),
        (json!({ "key": "a", "limits": vec!["1/1s"; 9] }), 400, "limits", "more than 8 limits"),
        (json!({ "key": "a", "limits": ["1 per second"] }), 400, "limits", "100/1m"),
        (json!({ "key": "a", "limits": ["1/1s"], "algorithm": "leaky" }), 400, "algorithm", "sliding_log"),
        (json!({ "checks": [] }), 400, "checks", "use 1 to 64"),
        (json!({ "checks": [{ "policy": "api", "key": "a" }], "cost": 1 }), 400, "checks", "into each check"),
        (json!({ "checks": [{ "checks": [] }] }), 400, "checks", "further checks"),
        (json!(["api", "a"]), 400, "", "expected an object"),
        (json!({ "checks": [["api", "a"]] }), 400, "checks[0]", "expected an object"),
        (Value::Null, 400, "", "not a valid request"),
    ] {
        let response = post(running.http, "/v1/check", &body);
        let error = response.json();
        assert_eq!((response.status, error["field"].as_str()), (status, Some(field)), "{body} gives {error}");
        assert!(error["error"].as_str().is_some_and(|text| text.contains(expected)), "{body} gives {error}");
    }
    let nested = r#"{"checks":["#.repeat(1_000);
    assert_eq!(
        request(running.http, "POST", "/v1/check", &[("content-type", "application/json")], &nested).status,
        413
    );
    let nested = "[".repeat(4_000);
    assert_eq!(
        request(running.http, "POST", "/v1/check", &[("content-type", "application/json")], &nested).status,
        400
    );
    assert_eq!(get(running.http, "/v1/inspect?policy=api").status, 400);
    assert_eq!(get(running.http, "/v1/inspect?policy=api&key=a&kay=b").json()["field"], "kay");
    assert_eq!(get(running.http, "/nowhere").status, 404);
    assert_eq!(get(running.http, "/v1/check").status, 405);
    assert_eq!(
        post(running.http, "/v1/refund", &json!({ "policy": "api", "key": "a" })).json()["field"],
        "charged_at_us"
    );
    assert_eq!(post(running.http, "/v1/reset", &json!({ "policy": "api", "key": "a", "cost": 1 })).status, 400);
    assert_eq!(post(running.http, "/v1/check", &json!({ "policy": "api", "key": "fine" })).status, 200);
}

#[test]
fn connections_with_garbage_or_slow_input_are_closed_and_others_are_served() {
    let running = Running::start(CONFIG);
    let fine = || {
        let response = post(running.http, "/v1/peek", &json!({ "policy": "api", "key": "fine" }));
        assert_eq!(response.status, 200);
    };
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    // None of these closes the connection: the service closes all of them.
    for bytes in [
        b"\x00\xff\x16\x03\x01garbage".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"".to_vec(),
        b"P".to_vec(),
        b"PRI * HTTP/2.0\r\n".to_vec(),
        b"GET /healthz HTTP/1.1\r\nhost: localhost".to_vec(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20)).into_bytes(),
        format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000)).into_bytes(),
        format!("{head}content-length: 99999999999999999999\r\n\r\n").into_bytes(),
        format!("{head}content-length: 1000000\r\n\r\n{{").into_bytes(),
        format!("{head}content-length: 10\r\n\r\n{{").into_bytes(),
        format!("{head}transfer-encoding: chunked\r\n\r\nFFFFFFFFFF\r\n{{").into_bytes(),
        format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n").into_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
    ] {
        raw(running.http, &bytes);
        fine();
    }
    let mut slow = TcpStream::connect(running.http).expect("the service listens");
    for byte in format!("{head}content-length: 10\r\n\r\n").bytes() {
        slow.write_all(&[byte]).expect("the connection is open");
    }
    fine();
    let mut head = String::new();
    let _ = slow.read_to_string(&mut head);
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    fine();
}

#[test]
fn a_client_that_reads_no_responses_is_disconnected() {
    let running = Running::start(CONFIG);
    let mut greedy = TcpStream::connect(running.http).expect("the service listens");
    let requests = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
    // More responses than socket buffers hold. The loop ends when the service closes the connection.
    while greedy.write_all(&requests).is_ok() {}
    assert_eq!(post(running.http, "/v1/check", &json!({ "policy": "api", "key": "fine" })).status, 200);
}

#[test]
fn a_policy_name_that_is_too_long_is_refused_and_not_echoed() {
    let policies = (0..300).map(|n| format!("[policies.p{n}]\nlimits = [\"1/1m\"]\n")).collect::<Vec<_>>().concat();
    let running = Running::start(&policies);
    let response = post(running.http, "/v1/check", &json!({ "policy": "x".repeat(60_000), "key": "a" }));
    assert_eq!(response.status, 404);
    assert!(response.body.len() < 1000, "the input is not echoed completely");
}

#[test]
fn connections_above_the_maximum_are_closed_until_others_end() {
    let running = Running::start("[server]\nmax_connections = 2\n");
    let held: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(running.http).expect("the service listens");
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("the connection is open");
            let mut first = [0; 12];
            stream.read_exact(&mut first).expect("the connection is served");
            stream
        })
        .collect();
    assert_eq!(raw(running.http, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"), b"");
    drop(held);
    // The slots are free when the service has noticed the closed connections.
    loop {
        let response = raw(running.http, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        if response.starts_with(b"HTTP/1.1 200") {
            break;
        }
    }
}
