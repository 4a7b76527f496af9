//! `tidegate override`: its effects, and its errors for wrong input.

use serde_json::Value;
use tidegate_testbed::Server;

use crate::process::{Serving, exit_and_output, file, run};

const CONFIG: &str = "[policies.api]\nlimits = [\"2/1h\"]\n[policies.login]\nlimits = [\"5/1m\"]\n";

/// Starts a service. Returns it with a function that runs commands on it.
fn serving(name: &str) -> (Serving, impl Fn(&[&str]) -> (Option<i32>, String)) {
    let path = file(name, CONFIG);
    let serving = Serving::start(&["--config", path.to_str().expect("text")]);
    let server = serving.http.clone();
    (serving, move |arguments: &[&str]| exit_and_output(&[arguments, &["--server", &server]].concat()))
}

#[test]
fn a_ban_applies_until_it_is_removed() {
    let (_serving, call) = serving("ban");
    let (code, output) =
        call(&["override", "set", "alice", "--policy", "api", "--ban", "--for", "2h", "--note", "scraper"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(
        output.starts_with("alice is banned under api until ")
            && output.contains(" UTC (in ")
            && output.ends_with("): scraper\n"),
        "{output}"
    );
    let (code, output) = call(&["check", "alice", "--policy", "api"]);
    assert!(code == Some(5) && output.starts_with("banned: the ban ends in "), "{code:?} {output}");
    let (_, shown) = call(&["inspect", "alice", "--policy", "api"]);
    assert!(shown.contains("banned until "), "{shown}");
    assert_eq!(call(&["check", "bob", "--policy", "api"]).0, Some(0), "the ban applies to alice only");
    let (code, output) = call(&["override", "set", "alice", "--policy", "api", "--ban", "--permanent"]);
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "alice is banned under api permanently; it replaces an earlier override\n")
    );
    assert_eq!(call(&["check", "alice", "--policy", "api"]), (Some(5), "banned permanently\n".to_owned()));
    assert_eq!(
        call(&["peek", "alice", "--policy", "api", "--cost", "9"]).0,
        Some(5),
        "also if the cost exceeds the capacity"
    );
    let remove = ["override", "lift", "alice", "--policy", "api"];
    assert_eq!(call(&remove), (Some(0), "removed: the limits of api apply to alice again\n".to_owned()));
    assert_eq!(call(&["check", "alice", "--policy", "api"]).0, Some(0));
    assert_eq!(call(&remove), (Some(0), "nothing to remove: alice has no override under api\n".to_owned()));
}

#[test]
fn other_limits_and_exemptions_are_listed_and_shown() {
    let (_serving, call) = serving("list");
    assert_eq!(call(&["override", "list"]), (Some(0), "there are no overrides\n".to_owned()));
    let until = "2100-12-01T08:00:00Z";
    let limits = ["--limit", "100/1m", "--limit", "9/1s", "--algorithm", "sliding_counter", "--until", until];
    assert_eq!(call(&[&["override", "set", "al", "ice", "--policy", "api"], &limits[..]].concat()).0, Some(0));
    assert_eq!(call(&["override", "set", "cron", "-p", "login", "--exempt", "--permanent"]).0, Some(0));
    let (code, output) = call(&["override", "list"]);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 2), "{output}");
    let limited = "al · ice has 100/1m and 9/1s by sliding_counter under api until 2100-12-01 08:00:00 UTC (in ";
    assert!(lines[0].starts_with(limited), "{output}");
    assert_eq!(lines[1], "cron is exempt from login permanently");
    assert_eq!(call(&["override", "list", "--policy", "login"]).1, "cron is exempt from login permanently\n");
    let (_, json) = call(&["override", "list", "--policy", "api", "--format", "json"]);
    let listed: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(listed["overrides"][0]["key"], serde_json::json!(["al", "ice"]));

    assert_eq!(call(&["check", "al", "ice", "--policy", "api"]).0, Some(0));
    let (_, shown) = call(&["inspect", "al", "ice", "--policy", "api"]);
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    assert_eq!(lines[0], "al · ice under api, by sliding_counter");
    assert!(lines[1].starts_with("other limits until 2100-12-01 08:00:00 UTC (in "), "{shown}");
    assert!(lines[2].starts_with("100/1m: 1 of 100 in use, 99 remaining; the next unit is free in "), "{shown}");
    for _ in 0..9 {
        assert_eq!(call(&["check", "cron", "--policy", "login"]).0, Some(0), "nothing is counted");
    }
}

#[test]
fn wrong_input_is_refused_with_a_hint() {
    let (_serving, call) = serving("wrong");
    let set = |rest: &[&str]| call(&[&["override", "set", "alice"], rest].concat());
    let wrong: [(&[&str], &str); 12] = [
        (&["--policy", "api", "--ban", "--limit", "1/1s", "--for", "2h"], "cannot be used with"),
        (&["--policy", "api", "--ban", "--exempt", "--for", "2h"], "cannot be used with"),
        (&["--policy", "api", "--for", "2h"], "--limit <LIMIT>|--ban|--exempt"),
        (&["--policy", "api", "--ban"], "--for <SPAN>|--until <TIME>|--permanent"),
        (&["--policy", "api", "--ban", "--for", "2h", "--permanent"], "cannot be used with"),
        (&["--policy", "api", "--ban", "--algorithm", "gcra", "--for", "2h"], "--algorithm"),
        (&["--ban", "--for", "2h"], "--policy <NAME>"),
        (&["--policy", "api", "--ban", "--until", "2001-01-01T00:00:00Z"], "use a later end"),
        (&["--policy", "api", "--ban", "--until", "tomorrow"], "write it as 2026-12-01T08:00:00Z"),
        (&["--policy", "api", "--ban", "--for", "a while"], "write it as 30m, 2h or 7d"),
        (&["--policy", "api", "--limit", "many", "--for", "2h"], "`many` is not a limit"),
        (&["--policy", "apo", "--ban", "--for", "2h"], "did you mean `api`?"),
    ];
    for (rest, expected) in wrong {
        let (code, output) = set(rest);
        assert!(code == Some(2) && output.contains(expected), "{rest:?}: {code:?} {output}");
    }
    assert!(call(&["override", "list", "--policy", "logon"]).1.contains("did you mean `login`?"));
    assert_eq!(call(&["override", "list"]).1, "there are no overrides\n");
    let (code, output) = exit_and_output(&["override", "list", "--server", "http://127.0.0.1:1"]);
    assert!(code == Some(4) && output.contains("tidegate serve"), "{code:?} {output}");
}

#[test]
fn overrides_require_the_admin_token() {
    let path = file("override-token", &format!("[server]\nadmin_token = \"{}\"\n{CONFIG}", "s3cret-s3cret-s3cret"));
    let serving = Serving::start(&["--config", path.to_str().expect("text")]);
    let ban = ["override", "set", "alice", "-p", "api", "--ban", "--permanent", "--server", &serving.http];
    let (code, output) = exit_and_output(&ban);
    assert!(code == Some(2) && output.contains("--token or TIDEGATE_TOKEN"), "{code:?} {output}");
    assert_eq!(exit_and_output(&[&ban[..], &["--token", "s3cret-s3cret-s3cret"]].concat()).0, Some(0));
}

#[test]
fn a_memory_store_is_refused() {
    let output = run(&["override", "set", "a", "--policy", "api", "--ban", "--permanent", "--store", "memory"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("use the URL of a Redis"), "{output:?}");
}

#[test]
fn overrides_work_directly_on_redis() {
    let redis = Server::start();
    let (url, path) = (redis.url(), file("override-direct", CONFIG));
    let store = ["--store", url.as_str(), "--config", path.to_str().expect("text")];
    let call = |arguments: &[&str]| exit_and_output(&[arguments, &store[..]].concat());
    let (code, output) = call(&["override", "set", "alice", "--policy", "api", "--ban", "--permanent"]);
    assert_eq!((code, output.as_str()), (Some(0), "alice is banned under api permanently\n"));
    assert_eq!(call(&["check", "alice", "--policy", "api"]).0, Some(5));
    assert_eq!(call(&["override", "list"]).1, "alice is banned under api permanently\n");
    assert_eq!(call(&["override", "lift", "alice", "--policy", "api"]).0, Some(0));
    assert_eq!(call(&["check", "alice", "--policy", "api"]).0, Some(0));
    drop(redis);
    assert_eq!(call(&["override", "set", "alice", "--policy", "api", "--ban", "--permanent"]).0, Some(4));
}
