//! `tidegate simulate`: its results are repeatable, and its traffic can be replayed.

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::process::{BINARY, exit_and_output, folder, run};

fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--format", "json"]].concat())).expect("JSON")
}

#[test]
fn fixed_windows_admit_twice_the_limit_around_a_boundary_and_the_log_does_not() {
    for limit in ["100/1m", "1/1ms", "7/1h30m", "1000000000000/366d"] {
        let found = json(&["simulate", "boundary", "--limit", limit]);
        let max = found["max"].as_u64().expect("a number");
        let worst = |scene: usize, algorithm: &str| {
            let algorithms = found["scenes"][scene]["algorithms"].as_array().expect("a list");
            let found = algorithms.iter().find(|found| found["algorithm"] == algorithm).expect("a result");
            found["worst_window_units"].as_u64().expect("a number")
        };
        assert_eq!((worst(0, "fixed_window"), worst(0, "sliding_log")), (2 * max, max), "{limit}");
        assert!((0..2).all(|scene| worst(scene, "sliding_log") <= max && worst(scene, "sliding_counter") <= 2 * max));
    }
    let text = printed(&["simulate", "boundary"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("2.00x"), "{text}");
}

#[test]
fn results_are_repeatable_and_depend_on_the_seed() {
    for command in ["accuracy", "compare"] {
        let small = ["simulate", command, "--clients", "20", "--requests", "3000"];
        let first = printed(&small);
        assert!(first.lines().all(|line| line.chars().count() <= 80), "{first}");
        assert_eq!(first, printed(&small));
        assert_eq!(json(&small), json(&small));
        assert_ne!(json(&small), json(&[&small[..], &["--seed", "2"]].concat()));
    }
}

#[test]
fn no_algorithm_exceeds_its_promise_on_any_traffic_or_on_a_log() {
    let log = folder("simulate").join("access.log");
    let traffic = ["simulate", "traffic", "--clients", "50", "--duration", "10m", "--output", "combined"];
    fs::write(&log, printed(&traffic)).expect("a writable file");
    let log = log.to_str().expect("text");
    let shapes =
        ["--shape", "poisson", "--shape", "bursty", "--shape", "diurnal", "--shape", "adversarial", "--shape", "mix"];
    let small = ["simulate", "accuracy", log, "--limit", "10/1m", "--clients", "20", "--requests", "4000"];
    let found = json(&[&small[..], &shapes[..]].concat());
    let traces = found["traces"].as_array().expect("a list");
    assert_eq!(traces.len(), 6, "five shapes and one log");
    for tried in traces.iter().flat_map(|trace| trace["algorithms"].as_array().expect("a list")) {
        let (worst, promised) = (tried["worst_window_units"].as_u64(), tried["promised_window_units"].as_u64());
        assert!(worst <= promised, "{tried}");
    }
    let compared = json(&["simulate", "compare", log, "--limit", "10/1m"]);
    assert_eq!(compared["asked"]["requests"], traces[5]["asked"]["requests"]);
}

#[test]
fn traffic_can_be_replayed_and_is_the_same_in_both_formats() {
    let made = |output: &[&str], name: &str| {
        let path = folder("simulate").join(name);
        let arguments = ["simulate", "traffic", "--clients", "30", "--duration", "5m", "--seed", "7"];
        fs::write(&path, printed(&[&arguments, output].concat())).expect("a writable file");
        json(&[
            "replay",
            path.to_str().expect("text"),
            "--limit",
            "10/1m",
            "--by",
            if output.is_empty() { "key" } else { "ip" },
            "--ipv6-prefix",
            "128",
        ])
    };
    let facts = |found: Value| {
        (found["input"]["requests"].clone(), found["input"]["malformed"].clone(), found["clients"].clone())
    };
    let (trace, log) = (facts(made(&[], "trace.csv")), facts(made(&["--output", "combined"], "made.log")));
    assert_eq!(trace, log);
    assert!(log.0.as_u64() > Some(100) && log.1 == 0, "{log:?}");
}

#[test]
fn a_limit_on_requests_at_once_is_compared_on_simulated_traffic_and_on_its_trace() {
    let compare = ["simulate", "compare", "--limit", "4/inflight", "--clients", "40", "--requests", "6000"];
    let found = json(&[&compare[..], &["--shape", "poisson", "--request-duration", "50ms"]].concat());
    let number = |value: &Value| value.as_u64().expect("a number");
    let (requests, denied) = (number(&found["input"]["requests"]), number(&found["policies"][0]["denied"]));
    assert!((5_000..7_000).contains(&requests) && denied > 0 && denied < requests / 2, "{denied} of {requests}");
    let at_once = &found["at_once"];
    let limits = at_once["limits"].as_array().expect("limits");
    assert_eq!(limits[3]["denied"], denied, "the engine and the one pass agree");
    assert_eq!(limits.last().map(|limit| &limit["max"]), Some(&at_once["client_peak"]));
    let suggested = &at_once["suggestions"];
    assert_eq!((&suggested[0]["at"], &suggested[0]["denied"]), (&"none".into(), &0.into()));
    assert!(number(&suggested[1]["denied"]) * 1_000 <= requests && number(&suggested[2]["denied"]) * 100 <= requests);
    assert_eq!(found, json(&[&compare[..], &["--shape", "poisson", "--request-duration", "50ms"]].concat()));

    // The traffic in a file, in both formats. The access log has whole seconds.
    let traffic = ["simulate", "traffic", "--clients", "30", "--duration", "5m", "--request-duration", "3s"];
    for (output, name) in [(&[][..], "timed.csv"), (&["--output", "combined"], "timed.log")] {
        let path = folder("simulate").join(name);
        fs::write(&path, printed(&[&traffic, output].concat())).expect("a writable file");
        let path = path.to_str().expect("text");
        let compared = json(&["simulate", "compare", path, "--limit", "3/inflight"]);
        let replayed = json(&["replay", path, "--limit", "3/inflight"]);
        assert_eq!(compared["policies"][0]["denied"], replayed["policies"][0]["denied"], "{name}");
        assert_eq!(
            (&compared["at_once"], &compared["input"]["malformed"]),
            (&replayed["at_once"], &0.into()),
            "{name}"
        );
        assert!(number(&compared["at_once"]["client_peak"]) > 3, "{name}");
    }
}

#[test]
fn the_report_of_requests_at_once_fits_a_terminal_and_suggests_limits() {
    let page = folder("simulate").join("at-once.html");
    let text = printed(&[
        "simulate",
        "compare",
        "--limit",
        "4/inflight",
        "--requests",
        "5000",
        "--report",
        page.to_str().expect("text"),
    ]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("Limits to consider for requests at once (to try one: --candidate "), "{text}");
    assert!(text.contains("/inflight (none) denies no request.") && text.contains("at once of"), "{text}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("What a limit on requests at once denies") && page.contains("The numbers are exact."));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = Command::new(BINARY)
        .args(["simulate", "traffic", "--clients", "1000", "--duration", "7d"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut some = [0; 100];
    child.stdout.take().expect("piped").read_exact(&mut some).expect("it prints");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn reports_are_html_pages() {
    for command in ["boundary", "accuracy", "compare"] {
        let out = folder("simulate").join(format!("{command}.html"));
        let small: &[&str] = if command == "boundary" { &[] } else { &["--clients", "10", "--requests", "1000"] };
        printed(&[&["simulate", command, "--report", out.to_str().expect("text")], small].concat());
        let page = fs::read_to_string(&out).expect("a page");
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{command}");
    }
}

#[test]
fn usage_errors_have_a_hint() {
    let cases: [(&[&str], &str); 13] = [
        (&["simulate", "boundary", "--limit", "many"], "100/1m"),
        (&["simulate", "boundary", "--algorithm", "magic"], "sliding_counter"),
        (&["simulate", "accuracy", "--shape", "odd"], "poisson"),
        (&["simulate", "compare", "--load", "0"], "0.25"),
        (&["simulate", "traffic", "--duration", "long"], "1h"),
        (&["simulate", "traffic", "--clients", "0"], "clients"),
        (&["simulate", "traffic", "--limit", "4/inflight"], "60/1m"),
        (&["simulate", "boundary", "--limit", "4/inflight"], "simulate compare --limit 4/inflight"),
        (&["simulate", "accuracy", "--limit", "4/inflight"], "simulate compare --limit 4/inflight"),
        (&["simulate", "compare", "--limit", "10001/inflight"], "1 to 10000"),
        (&["simulate", "compare", "--limit", "4/inflight", "--algorithm", "gcra"], "leave out --algorithm"),
        (&["simulate", "compare", "--limit", "4/inflight", "--request-duration", "2d"], "1ms to 1d"),
        (&["simulate", "compare", "--request-duration", "1s"], "--limit 4/inflight"),
    ];
    for (arguments, hint) in cases {
        let (code, output) = exit_and_output(arguments);
        assert!(code == Some(2) && output.contains(hint), "{arguments:?}: {code:?} {output}");
    }
}

#[test]
fn leases_admit_nearly_the_whole_limit_with_few_calls_and_never_more() {
    let found = json(&["simulate", "leases", "--duration", "2m"]);
    assert!(found["share_admitted"].as_f64().expect("a share") > 0.95, "{found}");
    assert!(found["calls"].as_u64() < found["requests"].as_u64(), "{found}");
    assert_eq!(found["exceeded"], false);
    let faults =
        ["simulate", "leases", "--duration", "2m", "--lost", "0.1", "--repeated", "0.1", "--crashes-per-hour", "600"];
    assert!(json(&faults)["worst_window_units"].as_u64() <= Some(10_000));
    let text = printed(&["simulate", "leases", "--duration", "1m"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("worst window"), "{text}");
}

#[test]
fn leases_that_cannot_be_simulated_are_refused() {
    for (arguments, expected) in [
        (&["--term", "31s"][..], "a lease of 31s is out of range"),
        (&["--limit", "10/1s", "--term", "600ms"], "longer than half of the shortest window"),
        (&["--limit", "4/inflight"], "has no window"),
        (&["--limit", "1000000000/1s"], "use a shorter --duration"),
        (&["--lost", "2"], "--lost 2 is not a share"),
        (&["--demand", "0"], "--demand 0 is no demand"),
    ] {
        let (code, error) = exit_and_output(&[&["simulate", "leases"], arguments].concat());
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
