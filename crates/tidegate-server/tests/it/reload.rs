//! Policies are replaced as a whole while the service handles requests.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use serde_json::json;

use crate::{
    http::client::{get, post},
    running::Running,
};

/// Creates a file for one test.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).expect("a writable file");
    path
}

fn policies(max: u64) -> String {
    format!("[policies.one]\nlimits = [\"{max}/1m\"]\n[policies.two]\nlimits = [\"{max}/1m\"]\n")
}

#[test]
fn a_reload_drops_no_request_and_is_atomic() {
    let path = file("load", &policies(1_000_000));
    let running = Running::start_from_file(&path);
    let (done, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let request_body =
                        json!({ "checks": [{ "policy": "one", "key": "k" }, { "policy": "two", "key": "k" }] });
                    let response = post(running.http, "/v1/check", &request_body);
                    assert_eq!(response.status, 200, "{response:?}");
                    let body = response.json();
                    assert_eq!(body["checks"][0]["limit"], body["checks"][1]["limit"]);
                    answered.fetch_add(1, Relaxed);
                }
            });
        }
        for round in 0..50 {
            let before = answered.load(Relaxed);
            std::fs::write(&path, policies(1_000_000 + round % 2)).expect("a writable file");
            running.reload();
            while answered.load(Relaxed) < before + 8 {
                std::thread::yield_now();
            }
        }
        done.store(true, Relaxed);
    });
    let used = post(running.http, "/v1/peek", &json!({ "policy": "one", "key": "k" })).json()["used"].as_u64();
    assert_eq!(used, Some(answered.load(Relaxed)), "the state survives reloads");
}

#[test]
fn a_bad_file_changes_nothing_and_is_reported_everywhere() {
    let path = file("bad", &policies(5));
    let running = Running::start_from_file(&path);
    std::fs::write(&path, "[policies.one]\nlimts = [\"7/1m\"]\n").expect("a writable file");
    running.reload();
    let request_body = json!({ "policy": "two", "key": "k" });
    assert_eq!(post(running.http, "/v1/check", &request_body).json()["limit"], "5/1m");
    let ready = get(running.http, "/readyz");
    assert_eq!(ready.status, 200, "the active policies are valid");
    let error = ready.json()["configuration_error"].as_str().expect("an error").to_owned();
    assert!(error.contains(":2:1: unknown key `limts`: did you mean `limits`?"), "{error}");
    let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
    assert!(
        text.contains("tidegate_reloads_total{result=\"bad\"} 1") && text.contains("tidegate_last_reload_good 0"),
        "{text}"
    );

    std::fs::write(&path, "[policies.two]\nlimits = [\"2/1m\"]\n").expect("a writable file");
    running.reload();
    assert_eq!(post(running.http, "/v1/check", &request_body).json()["remaining"], 0, "one was spent before");
    assert_eq!(post(running.http, "/v1/check", &json!({ "policy": "one", "key": "k" })).status, 404);
    assert_eq!(get(running.http, "/readyz").json()["configuration_error"], json!(null));
    let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
    assert!(!text.contains("policy=\"one\""), "a removed policy has no metrics\n{text}");
}

/// Returns a configuration with three policies.
fn three_policies() -> String {
    ["a", "b", "c"].map(|name| format!("[policies.{name}]\nlimits = [\"5/1h\"]\n")).concat()
}

#[test]
fn a_file_that_removes_more_than_it_keeps_is_refused_unless_it_allows_that() {
    let path = file("removal", &three_policies());
    let running = Running::start_from_file(&path);
    let write = |text: &str| std::fs::write(&path, text).expect("a writable file");
    let check = |policy: &str| post(running.http, "/v1/check", &json!({ "policy": policy, "key": "k" })).status;
    // A file without policies, a truncated file, and a file with other policies. An empty file is refused in any case.
    let others = three_policies().replace("policies.", "policies.other-");
    for text in ["[server]\n", &three_policies()[..three_policies().find("[policies.b]").expect("it exists")], &others]
    {
        write(text);
        running.reload();
        assert_eq!(["a", "b", "c"].map(check), [200; 3], "after {text:?}");
        let ready = get(running.http, "/readyz").json();
        let state = &ready["degraded"][0];
        assert_eq!(
            (&ready["status"], &state["cause"]),
            (&json!("degraded"), &json!("configuration_refused")),
            "{ready}"
        );
        assert!(state["detail"].as_str().is_some_and(|detail| detail.contains("it would remove")), "{ready}");
        assert!(state["cure"].as_str().is_some_and(|cure| cure.contains("allow_removal = true")), "{ready}");
        let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
        assert!(text.contains("\ntidegate_degraded{cause=\"configuration_refused\"} 1\n"), "{text}");
        write(&three_policies());
        running.reload();
        assert_eq!(get(running.http, "/readyz").json()["status"], "ok");
    }
    write(&three_policies().replace("[policies.c]\nlimits = [\"5/1h\"]\n", ""));
    running.reload();
    assert_eq!(["a", "b", "c"].map(check), [200, 200, 404], "one of three may be removed");
    write("[server]\nallow_removal = true\n");
    running.reload();
    assert_eq!(["a", "b"].map(check), [404; 2], "the removal is allowed");
    assert_eq!(get(running.http, "/readyz").json()["status"], "ok");
}

#[test]
fn a_fifo_instead_of_the_file_blocks_nothing_and_is_reported() {
    let path = file("fifo", &three_policies());
    let running = Running::start_from_file(&path);
    std::fs::remove_file(&path).expect("it exists");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is installed");
    assert!(made.success());
    running.reload();
    assert_eq!(post(running.http, "/v1/check", &json!({ "policy": "a", "key": "k" })).status, 200);
    let ready = get(running.http, "/readyz").json();
    assert_eq!(ready["degraded"][0]["cause"], "configuration_refused", "{ready}");
    let detail = ready["degraded"][0]["detail"].as_str().expect("a text");
    assert!(detail.contains("is not a regular file"), "{ready}");
    std::fs::remove_file(&path).expect("it exists");
    std::fs::write(&path, three_policies()).expect("a writable file");
    running.reload();
    assert_eq!(get(running.http, "/readyz").json()["status"], "ok");
}

#[test]
fn a_changed_file_is_reloaded() {
    let path = file("noticed", &policies(5));
    let running = Running::start_from_file(&path);
    std::fs::write(&path, policies(50)).expect("a writable file");
    // Until the change is noticed. The test does not end if it never is.
    while post(running.http, "/v1/peek", &json!({ "policy": "one", "key": "k" })).json()["limit"] != "50/1m" {
        std::thread::yield_now();
    }
}
