//! Login: a token is exchanged for a cookie.

use serde_json::{Value, json};

use super::client::{Response, request};
use crate::running::{Running, Stopped};

const CONFIG: &str = "[server]\nadmin_token = \"change-me-now\"\n[policies.api]\nlimits = [\"1/1h\"]\n";
const BOTH: &str =
    "[server]\ntoken = \"use-me-now\"\nadmin_token = \"change-me-now\"\n[policies.api]\nlimits = [\"1/1h\"]\n";
const JSON: (&str, &str) = ("content-type", "application/json");

fn log_in(running: &Running, token: &str) -> Response {
    request(running.http, "POST", "/v1/session", &[JSON], &json!({ "token": token }).to_string())
}

/// Returns the cookie that a response sets.
fn cookie(response: &Response) -> String {
    let set = response.header("set-cookie").expect("a cookie");
    set.split_once(';').expect("attributes").0.to_owned()
}

fn session(running: &Running, cookie: &str) -> Value {
    request(running.http, "GET", "/v1/session", &[("cookie", cookie)], "").json()
}

#[test]
fn a_login_permits_changes_and_viewing_needs_no_login() {
    let running = Running::start(CONFIG);
    let out = session(&running, "");
    assert_eq!(
        (&out["may_look"], &out["may_change"], &out["sees_keys"], &out["login"]),
        (&json!(true), &json!(false), &json!(true), &json!("out")),
        "the client is local"
    );
    let inspect = "/v1/inspect?policy=api&key=alice";
    assert_eq!(request(running.http, "GET", inspect, &[], "").status, 401);
    let response = log_in(&running, "change-me-now");
    assert_eq!((response.status, &response.json()["login"]), (200, &json!("in")));
    let set = response.header("set-cookie").expect("a cookie");
    for flag in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(flag), "{set}");
    }
    assert!(!set.contains("change-me-now"), "the cookie does not contain the token");
    let cookie = cookie(&response);
    let others = format!("theme=dark; {cookie}; other=1");
    assert_eq!(session(&running, &others)["may_change"], true);
    assert_eq!(request(running.http, "GET", inspect, &[("cookie", &others)], "").status, 200);
    let reset = json!({ "policy": "api", "key": "alice" }).to_string();
    assert_eq!(request(running.http, "POST", "/v1/reset", &[JSON, ("cookie", &cookie)], &reset).status, 200);
    let foreign = [JSON, ("cookie", &*cookie), ("origin", "http://evil.example")];
    assert_eq!(request(running.http, "POST", "/v1/reset", &foreign, &reset).status, 403, "a page of another site");
    let forged = format!("{}0", &cookie[..cookie.len() - 1]);
    let other = format!("{}1", &cookie[..cookie.len() - 1]);
    let is_good = |cookie: &str| session(&running, cookie)["may_change"] == true;
    assert!(!is_good(&forged) || !is_good(&other), "at most one of them is the issued cookie");
    let gone = request(running.http, "DELETE", "/v1/session", &[("cookie", &cookie)], "");
    assert_eq!((gone.status, &gone.json()["login"]), (200, &json!("out")));
    assert!(gone.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")), "{gone:?}");
}

#[test]
fn a_cookie_is_invalid_after_the_logout() {
    let running = Running::start(CONFIG);
    let (mine, other) = (cookie(&log_in(&running, "change-me-now")), cookie(&log_in(&running, "change-me-now")));
    let stolen = mine.clone();
    let head = format!("GET /v1/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncookie: {stolen}\r\n\r\n");
    let (http, policy_key) = (running.http, head.replace("/v1/live", "/v1/live?policy=api&key=alice"));
    // A stream with the stolen cookie ends as well.
    let thief = std::thread::spawn(move || super::client::raw(http, policy_key.as_bytes()));
    assert_eq!(session(&running, &stolen)["login"], "in");
    assert_eq!(request(running.http, "DELETE", "/v1/session", &[("cookie", &mine)], "").status, 200);
    assert_eq!(session(&running, &stolen)["login"], "out");
    let inspect = "/v1/inspect?policy=api&key=alice";
    assert_eq!(request(running.http, "GET", inspect, &[("cookie", &stolen)], "").status, 401);
    assert_eq!(session(&running, &other)["login"], "in", "another login with the same token stays valid");
    thief.join().expect("the stream ends");
}

#[test]
fn a_login_survives_a_restart_and_ends_with_a_new_token() {
    let running = Stopped::on_free_ports().start(CONFIG);
    let cookie = cookie(&log_in(&running, "change-me-now"));
    let again = running.stopped().start(CONFIG);
    assert_eq!(session(&again, &cookie)["login"], "in");
    // The same port, because it is part of the cookie's name.
    let changed = again.stopped().start(&CONFIG.replace("change-me-now", "changed-it-now"));
    assert_eq!(session(&changed, &cookie)["login"], "out");
}

#[test]
fn a_configured_usage_token_is_required_to_view_anything() {
    let running = Running::start(BOTH);
    assert_eq!(
        (&session(&running, "")["may_look"], &session(&running, "")["sees_keys"]),
        (&json!(false), &json!(true))
    );
    let paths = ["/v1/overview", "/v1/live", "/v1/hits?policy=api", "/v1/policies"];
    for path in paths {
        assert_eq!(request(running.http, "GET", path, &[], "").status, 401, "{path}");
    }
    assert_eq!(request(running.http, "GET", "/", &[], "").status, 200, "the page itself contains no data");
    let usage = cookie(&log_in(&running, "use-me-now"));
    assert_eq!(
        (&session(&running, &usage)["may_look"], &session(&running, &usage)["may_change"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(request(running.http, "GET", "/v1/overview", &[("cookie", &usage)], "").status, 200);
    assert_eq!(session(&running, &usage)["login"], "usage");
    assert_eq!(request(running.http, "GET", "/v1/live?policy=api&key=a", &[("cookie", &usage)], "").status, 403);
    let admin = cookie(&log_in(&running, "change-me-now"));
    let passed_on = [("cookie", &*admin), ("x-forwarded-for", "10.0.0.1")];
    assert_eq!(request(running.http, "GET", "/v1/session", &passed_on, "").json()["sees_keys"], true);
    let passed_on = [("cookie", &*usage), ("x-forwarded-for", "10.0.0.1")];
    assert_eq!(request(running.http, "GET", "/v1/session", &passed_on, "").json()["sees_keys"], false);
}

#[test]
fn login_attempts_with_wrong_tokens_are_limited() {
    let running = Running::start(&CONFIG.replace("[server]", "[server]\nwrong_token_delay = \"20ms\""));
    for body in ["", "{}", "[]", "{\"token\": 1}", "{\"token\": \"a\", \"b\": 1}"] {
        assert_eq!(request(running.http, "POST", "/v1/session", &[JSON], body).status, 400, "{body}");
    }
    assert_eq!(request(running.http, "POST", "/v1/session", &[], "{}").status, 415);
    for attempt in 0..10 {
        assert_eq!(log_in(&running, "guessed-it").status, 401, "{attempt}");
    }
    assert_eq!(log_in(&running, "change-me-now").status, 200, "the right token always works");
    let response = log_in(&running, "guessed-it");
    assert_eq!(response.status, 429);
    let wait: u64 = response.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time to wait");
    assert!((1..=120).contains(&wait), "{wait}");
    let open = Running::start("[policies.api]\nlimits = [\"1/1h\"]\n");
    assert_eq!(session(&open, "")["login"], "not_needed");
    assert_eq!(log_in(&open, "anything").status, 401, "there is no token to log in with");
}

#[test]
fn wrong_tokens_behind_a_proxy_do_not_lock_out_other_clients() {
    let running =
        Running::start(&CONFIG.replace("[server]", "[server]\ntrusted_hops = 1\nwrong_token_delay = \"20ms\""));
    let log_in = |token: &str, client: &str| {
        let body = json!({ "token": token }).to_string();
        request(running.http, "POST", "/v1/session", &[JSON, ("x-forwarded-for", client)], &body)
    };
    for _ in 0..10 {
        assert_eq!(log_in("guessed-it", "203.0.113.7").status, 401);
    }
    assert_eq!(log_in("guessed-it", "203.0.113.7").status, 429);
    let response = log_in("change-me-now", "203.0.113.8");
    assert_eq!(response.status, 200);
    let cookie = cookie(&response);
    let reset = json!({ "policy": "api", "key": "alice" }).to_string();
    let headers = [JSON, ("cookie", &*cookie), ("x-forwarded-for", "203.0.113.8")];
    assert_eq!(request(running.http, "POST", "/v1/reset", &headers, &reset).status, 200);
    let overview = request(running.http, "GET", "/v1/overview", &[("cookie", &cookie)], "").json();
    let last = overview["journal"].as_array().and_then(|lines| lines.last()).expect("a line");
    assert_eq!((&last["kind"], &last["by"]), (&json!("reset"), &json!("203.0.113.8")), "the journal shows the client");
}
