//! Attempts to guess tokens.

use serde_json::json;

use super::raw_http2::RawHttp2;
use crate::{
    grpc::check_with_token,
    http::client::{Response, request},
    resp::client::{Client, Reply},
    running::Running,
};

const CONFIG: &str = "[server]\ntoken = \"use-me-now\"\nadmin_token = \"change-me-now\"\nwrong_token_delay = \"20ms\"\n\
                      [policies.api]\nlimits = [\"1_000_000/1h\"]\n";
const JSON: (&str, &str) = ("content-type", "application/json");

fn check(running: &Running, token: &str) -> Response {
    let bearer = format!("Bearer {token}");
    let body = json!({ "policy": "api", "key": "a" }).to_string();
    request(running.http, "POST", "/v1/check", &[JSON, ("authorization", &bearer)], &body)
}

fn counted(running: &Running, transport: &str) -> u64 {
    let metrics = request(running.http, "GET", "/metrics", &[("authorization", "Bearer use-me-now")], "");
    let name = format!("tidegate_wrong_tokens_total{{transport=\"{transport}\"}} ");
    let text = String::from_utf8(metrics.body).expect("text");
    text.lines().find_map(|line| line.strip_prefix(&name)).and_then(|count| count.parse().ok()).expect("a number")
}

#[track_caller]
fn assert_too_many(response: &Response) {
    assert_eq!(response.status, 429, "{response:?}");
    let wait: u64 = response.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time to wait");
    assert!((1..=60).contains(&wait), "{wait}");
}

#[test]
fn wrong_tokens_over_http_are_limited_and_the_right_token_always_works() {
    let running = Running::start(CONFIG);
    for guess in 0..10 {
        assert_eq!(check(&running, "guessed-it").status, 401, "{guess}");
    }
    for _ in 0..5 {
        assert_too_many(&check(&running, "guessed-it"));
        assert_eq!(check(&running, "use-me-now").status, 200);
        assert_eq!(check(&running, "change-me-now").status, 200);
    }
    // Every path whose response depends on the token.
    let bearer = [("authorization", "Bearer guessed-it")];
    for path in [
        "/metrics",
        "/v1/policies",
        "/v1/overview",
        "/v1/session",
        "/v1/inspect?policy=api&key=a",
        "/v1/forward?policy=api",
    ] {
        assert_too_many(&request(running.http, "GET", path, &bearer, ""));
    }
    assert_eq!(counted(&running, "http"), 21);
    assert_eq!(request(running.http, "GET", "/metrics", &[], "").status, 401, "no token is not a wrong token");
    assert_eq!(request(running.http, "GET", "/healthz", &bearer, "").status, 200);
    assert_eq!(counted(&running, "http"), 21);
}

#[test]
fn wrong_tokens_in_the_login_form_are_limited_and_the_right_token_always_works() {
    let running = Running::start(CONFIG);
    let log_in =
        |token: &str| request(running.http, "POST", "/v1/session", &[JSON], &json!({ "token": token }).to_string());
    for guess in 0..10 {
        assert_eq!(log_in("guessed-it").status, 401, "{guess}");
    }
    assert_too_many(&log_in("guessed-it"));
    assert_eq!(log_in("change-me-now").status, 200);
    assert_too_many(&check(&running, "guessed-it"));
    assert_eq!(counted(&running, "http"), 12);
}

#[test]
fn a_cookie_signed_with_a_wrong_token_counts_as_a_wrong_token() {
    let running = Running::start(CONFIG);
    let response = request(running.http, "POST", "/v1/session", &[JSON], &json!({ "token": "use-me-now" }).to_string());
    let cookie = response.header("set-cookie").and_then(|set| set.split_once(';')).expect("a cookie").0.to_owned();
    let (session, signature) = cookie.rsplit_once('.').expect("a signature");
    let forged = format!("{session}.{}", signature.chars().rev().collect::<String>());
    let session = |cookie: &str| request(running.http, "GET", "/v1/session", &[("cookie", cookie)], "");
    for _ in 0..10 {
        let response = session(&forged);
        assert_eq!((response.status, &response.json()["login"]), (200, &json!("out")));
        assert!(
            response.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")),
            "the browser deletes the cookie"
        );
    }
    assert_too_many(&session(&forged));
    assert_eq!(session(&cookie).json()["login"], "usage");
    assert_eq!(counted(&running, "http"), 11);
}

#[test]
fn the_right_token_works_together_with_an_expired_cookie() {
    let running = Running::start(CONFIG);
    let cookie = logged_in(&running, "change-me-now");
    let (session, signature) = cookie.rsplit_once('.').expect("a signature");
    let stale = format!("{session}.{}", signature.chars().rev().collect::<String>());
    for _ in 0..10 {
        assert_eq!(check(&running, "guessed-it").status, 401);
    }
    let deletes_cookie =
        |response: &Response| response.header("set-cookie").is_some_and(|set: &str| set.contains("Max-Age=0"));
    let with = |token: &str| {
        let headers = [("authorization", &*format!("Bearer {token}")), ("cookie", &*stale)];
        request(running.http, "GET", "/v1/session", &headers, "")
    };
    for _ in 0..3 {
        let response = with("change-me-now");
        assert_eq!((response.status, &response.json()["login"]), (200, &json!("in")));
        assert!(deletes_cookie(&response), "{response:?}");
    }
    let body = json!({ "token": "change-me-now" }).to_string();
    let response = request(running.http, "POST", "/v1/session", &[JSON, ("cookie", &stale)], &body);
    assert_eq!(response.status, 200);
    assert!(response.header("set-cookie").is_some() && !deletes_cookie(&response), "{response:?}");
    assert_eq!(counted(&running, "http"), 10, "neither counts as a wrong token");
    // The cookie could be a guess at the admin token by a client with the usage token.
    let response = with("use-me-now");
    assert_eq!((response.status, &response.json()["login"]), (200, &json!("usage")));
    assert!(deletes_cookie(&response), "{response:?}");
    assert_eq!(counted(&running, "http"), 11);
    let response = request(running.http, "GET", "/v1/session", &[("cookie", &stale)], "");
    assert_too_many(&response);
    assert!(deletes_cookie(&response), "{response:?}");
}

/// Logs in with this token. Returns the cookie.
fn logged_in(running: &Running, token: &str) -> String {
    let response = request(running.http, "POST", "/v1/session", &[JSON], &json!({ "token": token }).to_string());
    response.header("set-cookie").and_then(|set| set.split_once(';')).expect("a cookie").0.to_owned()
}

#[test]
fn a_wrong_token_sent_with_a_valid_login_is_counted() {
    let running = Running::start(CONFIG);
    let cookie = logged_in(&running, "use-me-now");
    let body = json!({ "policy": "api", "key": "a", "cost": 1, "charged_at_us": 1 }).to_string();
    let headers = [JSON, ("cookie", &*cookie), ("authorization", "Bearer guessed-it")];
    let paths = ["/v1/refund", "/v1/reset", "/v1/override", "/v1/override/lift"];
    for guess in 0..10 {
        let path = paths[guess % paths.len()];
        assert_eq!(request(running.http, "POST", path, &headers, &body).status, 401, "{path}");
    }
    for path in paths {
        assert_too_many(&request(running.http, "POST", path, &headers, &body));
    }
    assert_eq!(counted(&running, "http"), 14);
    assert_eq!(
        request(running.http, "POST", "/v1/refund", &headers[..2], &body).status,
        403,
        "no token is not a wrong token"
    );
    assert_eq!(counted(&running, "http"), 14);
}

#[test]
fn many_wrong_tokens_close_their_connection() {
    let running = Running::start(CONFIG);
    let mut connection = RawHttp2::connect(running.http, 65_535);
    let bearer = [("authorization", "Bearer guessed-it")];
    for _ in 0..10 {
        connection.get("/metrics", 1, &bearer).expect("the connection is open");
        assert_eq!(connection.read(1).with_status(401), 1);
    }
    connection.get("/metrics", 1, &bearer).expect("the connection is open");
    assert_eq!(connection.read(1).with_status(429), 1);
    connection.read_to_end();
    let before = counted(&running, "http");
    // Requests after a wrong token beyond the limit are not checked, even if their tokens are right.
    let mut connection = RawHttp2::connect(running.http, 65_535);
    let _ = connection.get("/metrics", 100, &bearer);
    connection.read_to_end();
    let counted_tokens = counted(&running, "http") - before;
    assert!((1..=16).contains(&counted_tokens), "{counted_tokens}: a few may be checked concurrently");
    let pipelined = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer guessed-it\r\n\r\n".repeat(50);
    let response = String::from_utf8(crate::http::client::raw(running.http, pipelined.as_bytes())).expect("text");
    assert_eq!(response.matches("HTTP/1.1 429").count(), 1, "{response}");
    assert_eq!(counted(&running, "http"), before + counted_tokens + 1);
}

#[test]
fn logins_without_a_body_are_refused_when_the_connection_is_closing() {
    let running = Running::start(CONFIG);
    for _ in 0..10 {
        assert_eq!(check(&running, "guessed-it").status, 401);
    }
    let mut connection = RawHttp2::connect(running.http, 65_535);
    let streams: Vec<_> =
        (0..100).map(|_| connection.post("/v1/session", &[JSON]).expect("the connection is open")).collect();
    connection.get("/healthz", 1, &[]).expect("the connection is open");
    assert_eq!(connection.read(1).with_status(200), 1);
    let wrong = json!({ "token": "guessed-it" }).to_string();
    connection.body(streams[0], &wrong).expect("the connection is open");
    let before = connection.read_until_go_away();
    let right = json!({ "token": "change-me-now" }).to_string();
    for stream in &streams[1..] {
        connection.body(*stream, &right).expect("the connection is open");
    }
    assert_eq!(connection.read(100 - before).with_status(429), 100 - before);
    let response = request(running.http, "POST", "/v1/session", &[JSON], &right);
    assert_eq!(response.status, 200, "the right token works on a new connection");
}

/// Returns the number of open connections.
fn connections(running: &Running, transport: &str) -> u64 {
    let metrics = request(running.http, "GET", "/metrics", &[("authorization", "Bearer use-me-now")], "");
    let name = format!("tidegate_connections{{transport=\"{transport}\"}} ");
    let text = String::from_utf8(metrics.body).expect("text");
    text.lines().find_map(|line| line.strip_prefix(&name)).and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn disconnecting_after_a_wrong_token_does_not_free_its_slot() {
    // The delay is longer than the test, so a slot that is kept for the delay stays in use.
    let config = CONFIG.replace("\"20ms\"", "\"1m\"").replace("[server]", "[server]\nmax_connections = 8");
    for transport in ["http", "grpc"] {
        let running = Running::start(&config);
        let bearer = [("authorization", "Bearer guessed-it")];
        for _ in 0..10 {
            assert_eq!(check(&running, "guessed-it").status, 401);
        }
        let before = counted(&running, transport);
        let (address, held) = if transport == "http" { (running.http, 6) } else { (running.grpc, 8) };
        for guess in 1..=held {
            let mut connection = RawHttp2::connect(address, 65_535);
            if transport == "http" {
                connection.get("/metrics", 1, &bearer).expect("the connection is open");
            } else {
                let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
                let headers = [bearer[0], ("content-type", "application/grpc")];
                connection.get(path, 1, &headers).expect("the connection is open");
            }
            while counted(&running, transport) < before + guess {}
        }
        // The connections with wrong tokens are closed. Only the connection that reads the metrics is open.
        let own = u64::from(transport == "http");
        while connections(&running, transport) > own {}
        let mut others = Vec::new();
        let is_served = |other: &mut RawHttp2| {
            let _ = other.get("/healthz", 1, &[("content-type", "application/grpc")]);
            !other.read(1).is_closed
        };
        while others.len() < 8 {
            let mut other = RawHttp2::connect(address, 65_535);
            if !is_served(&mut other) {
                break;
            }
            others.push(other);
        }
        let free = 8 - usize::try_from(held).expect("a few");
        assert!(others.len() <= free, "{transport}: {} places are free", others.len());
    }
}

#[test]
fn wrong_tokens_over_resp_are_limited_and_the_right_token_always_works() {
    let running = Running::start(CONFIG);
    let mut client = Client::connect(running.resp);
    // All commands without waiting for replies.
    for _ in 0..500 {
        client.send(b"AUTH guessed-it\r\nHELLO 3 AUTH default guessed-it\r\n");
    }
    for _ in 0..10 {
        assert!(client.read().error().starts_with("WRONGPASS "));
    }
    assert!(client.read().error().starts_with("ERR too many wrong tokens"));
    client.expect_end();
    for guess in ["AUTH guessed-it", "HELLO 3 AUTH default guessed-it"] {
        let mut client = Client::connect(running.resp);
        assert!(client.call(guess).error().starts_with("ERR too many wrong tokens"), "{guess}");
        client.expect_end();
    }
    assert_eq!(counted(&running, "resp"), 13);
    let mut client = Client::connect(running.resp);
    assert_eq!(client.call("AUTH use-me-now"), Reply::Simple("OK".to_owned()));
    assert_eq!(client.call("TG.CHECK api k").numbers()[0], 1);
    assert_too_many(&check(&running, "guessed-it"));
    assert_eq!(check(&running, "use-me-now").status, 200);
}

#[test]
fn wrong_tokens_over_grpc_are_limited_and_the_right_token_always_works() {
    let running = Running::start(CONFIG);
    for _ in 0..10 {
        assert_eq!(check_with_token(&running, "guessed-it").expect_err("wrong").code(), tonic::Code::Unauthenticated);
    }
    for _ in 0..3 {
        let status = check_with_token(&running, "guessed-it").expect_err("wrong");
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
        check_with_token(&running, "use-me-now").expect("the right one");
    }
    assert_eq!(counted(&running, "grpc"), 13);
    assert_too_many(&check(&running, "guessed-it"));
}

#[test]
fn wrong_tokens_behind_a_proxy_are_counted_by_client_and_keep_the_connection_open() {
    let running = Running::start(&CONFIG.replace("[server]", "[server]\ntrusted_hops = 1"));
    let mut proxy = RawHttp2::connect(running.http, 65_535);
    let mut status_of = |token: &str, client: &str| {
        let headers = [("authorization", token), ("x-forwarded-for", client)];
        proxy.get("/v1/policies", 1, &headers).expect("the connection stays open");
        let received = proxy.read(1);
        [200, 401, 429].into_iter().find(|status| received.with_status(*status) == 1).expect("a response")
    };
    for _ in 0..10 {
        assert_eq!(status_of("Bearer guessed-it", "203.0.113.7"), 401);
    }
    assert_eq!(status_of("Bearer guessed-it", "203.0.113.7"), 429);
    assert_eq!(status_of("Bearer guessed-it", "203.0.113.8"), 401);
    assert_eq!(status_of("Bearer use-me-now", "203.0.113.7"), 200);
}
