//! `tidegate replay` of a limit on requests at once, such as `4/inflight`.

use std::{fmt::Write as _, fs};

use serde_json::Value;

use crate::process::{folder, run};

fn write_file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder("replay-at-once").join(name);
    fs::write(&path, text).expect("a writable file");
    path.to_str().expect("text").to_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Requests by second of start, duration in milliseconds, and client.
const REQUESTS: [(u64, u64, &str); 8] = [
    // Three of one client at once, from 3 to 5 s.
    (0, 5_000, "192.0.2.1"),
    (2, 8_000, "192.0.2.1"),
    (3, 4_000, "192.0.2.1"),
    (4, 1_000, "192.0.2.2"),
    // Begins exactly when the first ends.
    (5, 1_000, "192.0.2.1"),
    (20, 1_000, "192.0.2.1"),
    (20, 0, "192.0.2.1"),
    (21, 2_000, "192.0.2.1"),
];

/// Lines in the order in which a server writes them: when requests end.
fn by_end() -> Vec<(u64, u64, &'static str)> {
    let mut requests = REQUESTS.to_vec();
    requests.sort_by_key(|(start, ms, _)| start * 1000 + ms);
    requests
}

fn clf(second: u64) -> String {
    format!("17/May/2015:10:05:{second:02} +0000")
}

fn nginx() -> String {
    by_end().iter().fold(String::new(), |mut log, (start, ms, ip)| {
        let (end, seconds, millis) = (clf(start + ms / 1000), ms / 1000, ms % 1000);
        let _ = writeln!(log, r#"{ip} - - [{end}] "GET / HTTP/1.1" 200 5 "-" "curl" {seconds}.{millis:03}"#);
        log
    })
}

fn apache() -> String {
    by_end().iter().fold(String::new(), |mut log, (start, ms, ip)| {
        let _ = writeln!(log, r#"{ip} - - [{}] "GET / HTTP/1.1" 200 5 "-" "curl" {}"#, clf(*start), ms * 1000);
        log
    })
}

fn json_lines() -> String {
    by_end().iter().fold(String::new(), |mut log, (start, ms, ip)| {
        let (end, seconds, millis) = (1_431_857_100 + start + ms / 1000, ms / 1000, ms % 1000);
        let _ = writeln!(log, r#"{{"time":{end},"ip":"{ip}","request_time":{seconds}.{millis:03}}}"#);
        log
    })
}

fn trace() -> String {
    REQUESTS.iter().fold("time_us,key,cost,duration_ms\n".to_owned(), |mut log, (start, ms, ip)| {
        let _ = writeln!(log, "{},{ip},1,{ms}", (1_431_857_100 + start) * 1_000_000);
        log
    })
}

/// The denials, the peak of all requests at once, and that of one client.
fn found(findings: &Value) -> (u64, u64, u64) {
    let number = |value: &Value| value.as_u64().expect("a number");
    let at_once = &findings["at_once"];
    (number(&findings["policies"][0]["denied"]), number(&at_once["peak"]), number(&at_once["client_peak"]))
}

#[test]
fn every_format_gives_the_requests_that_a_limit_would_have_denied() {
    let template = "$remote_addr [$time_local] $request_time";
    let custom = by_end().iter().fold(String::new(), |mut log, (start, ms, ip)| {
        let _ = writeln!(log, "{ip} [{}] {}.{:03}", clf(start + ms / 1000), ms / 1000, ms % 1000);
        log
    });
    let logs: [(&str, String, &[&str]); 5] = [
        ("nginx.log", nginx(), &[]),
        ("apache.log", apache(), &[]),
        ("json.log", json_lines(), &[]),
        ("trace.csv", trace(), &[]),
        ("custom.log", custom, &["--log-format", template]),
    ];
    for (name, text, more) in logs {
        let log = write_file(name, text);
        // Two requests begin together at 20 s. The next one begins when the longer one ends.
        for (limit, denied) in [("3/inflight", 0), ("2/inflight", 1), ("1/inflight", 3)] {
            let findings = json(&[&["replay", &log, "--limit", limit], more].concat());
            assert_eq!(found(&findings), (denied, 4, 3), "{name} with {limit}");
            assert_eq!(findings["at_once"]["client"], "192.0.2.1");
            assert_eq!(findings["input"]["malformed"], 0, "{name}");
        }
    }
}

#[test]
fn a_limit_on_requests_at_once_and_a_window_are_one_policy() {
    let log = write_file("both.csv", trace());
    let arguments = ["replay", &log, "--limit", "2/inflight", "--limit", "4/1m", "--candidate", "4/1m"];
    let findings = json(&arguments);
    let policy = |number: usize| (&findings["policies"][number]["denied"], &findings["policies"][number]["limits"]);
    let bound =
        |limits: &Value| limits.as_array().expect("limits").iter().map(|limit| limit["bound"].clone()).collect();
    let bound: Vec<Value> = bound(policy(0).1);
    assert_eq!((policy(0).0.as_u64(), bound), (Some(3), vec![1.into(), 2.into()]));
    assert_eq!(policy(1).0.as_u64(), Some(3), "of seven requests in a minute");
    assert_eq!(findings["policies"][0]["hardest_hit"][0]["peaks"], serde_json::json!([3, 7]));
}

#[test]
fn the_report_says_how_many_requests_run_at_once() {
    let log = write_file("report.log", nginx());
    let page = folder("replay-at-once").join("report.html");
    let page = page.to_str().expect("text");
    let output = run(&["replay", &log, "--limit", "2/inflight", "--report", page]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    let expected =
        "at most 4 requests at once, at 2015-05-17 10:05:04 UTC; at most 3 at once of one client, 192.0.2.1 ";
    assert!(text.replace('\n', " ").contains(expected), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let html = fs::read_to_string(page).expect("a page");
    assert!(html.contains("At once, limit 2") && html.contains("at most 4 requests at once"));
}

#[test]
fn limits_are_suggested_with_what_they_deny() {
    let log = write_file("suggested.log", nginx());
    let findings = json(&["replay", &log, "--limit", "2/inflight"]);
    let limits = findings["at_once"]["limits"].as_array().expect("limits");
    let facts = |limit: &Value| (limit["max"].as_u64(), limit["denied"].as_u64(), limit["touched"].as_u64());
    let expected = [(1, 3, 1), (2, 1, 1), (3, 0, 0)].map(|(max, denied, of)| (Some(max), Some(denied), Some(of)));
    assert_eq!(limits.iter().map(facts).collect::<Vec<_>>(), expected);
    let suggestions = findings["at_once"]["suggestions"].as_array().expect("suggestions");
    // Of eight requests, one denial is more than 1 %.
    let suggested = suggestions.iter().map(|suggestion| (suggestion["at"].as_str(), suggestion["limit"].as_str()));
    assert!(suggested.eq(["none", "0.1 %", "1 %"].map(|at| (Some(at), Some("3/inflight")))));
    let text = String::from_utf8(run(&["replay", &log, "--limit", "2/inflight"]).stdout).expect("text");
    assert!(text.contains("  3/inflight (none, 0.1 %, 1 %) denies no request.\n"), "{text}");
}

#[test]
fn the_unit_and_the_time_of_a_line_can_be_set() {
    // `%T` of Apache: whole seconds, and the time of the start.
    let log = REQUESTS.iter().fold(String::new(), |mut log, (start, ms, ip)| {
        let _ = writeln!(log, r#"{ip} - - [{}] "GET / HTTP/1.1" 200 5 "-" "curl" {}"#, clf(*start), ms / 1000);
        log
    });
    let log = write_file("whole-seconds.log", log);
    let arguments = ["replay", &log, "--limit", "2/inflight", "--duration", "last:s", "--time-of", "start"];
    assert_eq!(found(&json(&arguments)), (1, 4, 3));
    // As a service writes it: a field of its own in milliseconds.
    let log = REQUESTS.iter().fold(String::new(), |mut log, (start, ms, ip)| {
        let _ = writeln!(log, r#"{{"start_time":{},"ip":"{ip}","took":{ms}}}"#, 1_431_857_100 + start);
        log
    });
    let log = write_file("milliseconds.log", log);
    assert_eq!(found(&json(&["replay", &log, "--limit", "2/inflight", "--duration", "took:ms"])), (1, 4, 3));
}

#[test]
fn durations_without_a_limit_show_the_requests_at_once() {
    let log = write_file("peak.log", nginx());
    let findings = json(&["replay", &log, "--duration", "last"]);
    assert_eq!(findings["at_once"]["peak"], 4);
    assert!(json(&["replay", &log])["at_once"].is_null());
}

#[test]
fn decisions_are_written_at_the_starts_of_requests() {
    let log = write_file("decisions.log", nginx());
    let decisions = folder("replay-at-once").join("decisions.csv");
    json(&["replay", &log, "--limit", "2/inflight", "--decisions", decisions.to_str().expect("text")]);
    let rows = fs::read_to_string(&decisions).expect("decisions");
    let denied: Vec<&str> = rows.lines().filter(|row| row.contains("limited")).collect();
    // It waits until the first request ends, two seconds later.
    assert_eq!(denied, ["1431857103000000,192.0.2.1,1,limited,0,2000000,7000000"], "{rows}");
}

#[test]
fn a_log_without_durations_is_an_error_that_says_what_to_log() {
    let plain = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "curl""#;
    let object = r#"{"time":1431857103,"ip":"192.0.2.1"}"#;
    for (name, text, expected) in [
        (
            "none.log",
            plain,
            "log $request_time at the end of a line in nginx, or %D in Apache, or name the field with --duration",
        ),
        ("none.json", object, "its lines have no durations"),
        ("none.csv", "time_us,key\n1431857103000000,a", "a trace has no duration: its columns are time_us, key"),
    ] {
        let log = write_file(name, text);
        let output = run(&["replay", &log, "--limit", "4/inflight"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let template =
        run(&["replay", &write_file("x.log", plain), "--limit", "4/inflight", "--log-format", "$remote_addr $msec"]);
    let error = String::from_utf8_lossy(&template.stderr);
    assert!(error.contains("it has no duration: it has $remote_addr, $msec"), "{error}");
}

#[test]
fn a_line_without_a_duration_is_malformed() {
    let log = write_file(
        "some.log",
        nginx() + "192.0.2.1 - - [17/May/2015:10:05:30 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n",
    );
    let findings = json(&["replay", &log, "--limit", "2/inflight"]);
    assert_eq!((found(&findings), &findings["input"]["malformed"]), ((1, 4, 3), &1.into()));
    assert_eq!(findings["input"]["first_malformed"][0]["why"], "it has no duration");
}

#[test]
fn what_does_not_work_with_requests_at_once_is_an_error() {
    let log = write_file("obey.log", nginx());
    for (arguments, expected) in [
        (
            &["replay", &log, "--limit", "2/inflight", "--obey"][..],
            "--obey does not work with a limit on requests at once",
        ),
        (
            &["simulate", "compare", &log, "--limit", "2/inflight", "--request-duration", "1s"],
            "cannot be used with '--request-duration",
        ),
        (&["replay", &log, "--duration", "took:minutes"], "use request_time, latency:ms or last:s"),
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

/// A trace of many clients, and the number of requests that a limit denies: by a list of all admitted requests.
fn random_trace(max: usize) -> (String, u64) {
    let (mut state, mut trace, mut denied) = (7_u64, "time_us,key,cost,duration_us\n".to_owned(), 0);
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let (mut now, mut admitted) = (1_431_857_100_000_000, Vec::new());
    for _ in 0..2_000 {
        now += below(4) * 1_000_000;
        let (client, duration) = (below(5), 1_000_000 * below(40));
        let _ = writeln!(trace, "{now},client {client},1,{duration}");
        let runs = |(of, end): &&(u64, u64)| *of == client && *end > now;
        if admitted.iter().filter(runs).count() < max {
            // A request lasts at least a millisecond.
            admitted.push((client, now + duration.max(1_000)));
        } else {
            denied += 1;
        }
    }
    (trace, denied)
}

#[test]
fn memory_and_redis_deny_what_does_not_fit() {
    let server = tidegate_testbed::Server::start();
    for max in [1, 2, 3, 5] {
        let (trace, denied) = random_trace(max);
        let log = write_file(&format!("random-{max}.csv"), trace);
        for store in ["memory", &server.url()] {
            let findings = json(&["replay", &log, "--limit", &format!("{max}/inflight"), "--store", store]);
            assert_eq!(findings["policies"][0]["denied"], denied, "{max} in {store}");
        }
        assert!((10..2_000).contains(&denied), "{denied} denials at {max}");
    }
}
