//! The commands that decide: their output and their exit codes.

use serde_json::Value;
use tidegate_testbed::Server;

use crate::process::{Serving, exit_and_output, file, run};

const CONFIG: &str = r#"
[policies.api]
limits = ["2/1h"]
[policies.youtube]
limits = ["9500/1d"]
on_store_failure = "closed"
[policies.youtube.operations]
"search.list" = 100
"#;

#[test]
fn exit_codes_describe_the_decision() {
    let path = file("client", CONFIG);
    let serving = Serving::start(&["--config", path.to_str().expect("text")]);
    let server = ["--server", serving.http.as_str()];
    let call = |arguments: &[&str]| exit_and_output(&[arguments, &server[..]].concat());
    assert_eq!(
        call(&["check", "alice", "--policy", "api"]),
        (Some(0), "allowed: 1 in use under 2/1h, 1 remaining\n".to_owned())
    );
    assert_eq!(call(&["peek", "alice", "--policy", "api"]).0, Some(0));
    assert_eq!(call(&["check", "alice", "--policy", "api"]).0, Some(0));
    let (code, output) = call(&["check", "alice", "--policy", "api"]);
    assert_eq!(code, Some(1));
    assert!(output.starts_with("limited: 2 in use under 2/1h, 0 remaining, fits in "), "{output}");
    assert_eq!(call(&["check", "bob", "--policy", "api", "--cost", "3"]).0, Some(3));
    assert_eq!(call(&["charge", "alice", "--policy", "api", "--cost", "5"]).0, Some(0));
    let (code, output) = call(&["check", "alice", "--policy", "apo"]);
    assert!(code == Some(2) && output.contains("did you mean `api`?"), "{code:?} {output}");
    let (code, output) = call(&["check", "alice"]);
    assert!(code == Some(2) && output.contains("--policy <NAME>|--limit <LIMIT>"), "{code:?} {output}");
    let (code, output) = call(&["check", "alice", "--policy", "api", "--limit", "5/1s"]);
    assert!(code == Some(2) && output.contains("cannot be used with"), "{code:?} {output}");
    assert_eq!(call(&["check", "alice", "--limit", "5 a day"]).0, Some(2));
    assert_eq!(call(&["check", "alice", "--limit", "5/1s", "--limit", "60/1m", "--algorithm", "gcra"]).0, Some(0));
    assert_eq!(call(&["reset", "alice", "--policy", "api"]), (Some(0), "reset\n".to_owned()));
    assert_eq!(call(&["check", "al", "ice", "--policy", "api"]).1, "allowed: 1 in use under 2/1h, 1 remaining\n");

    let output = run(&[
        "check",
        "carol",
        "--policy",
        "youtube",
        "--operation",
        "search.list",
        "--format",
        "json",
        server[0],
        server[1],
    ]);
    let body: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&body["used"], &body["allowed"]), (&Value::from(100), &Value::from(true)));
    let at = body["charged_at_us"].to_string();
    let refund = ["refund", "carol", "--policy", "youtube", "--cost", "40", "--charged-at-us", &at];
    assert_eq!(call(&refund), (Some(0), "refunded\n".to_owned()));
    let shown = call(&["inspect", "carol", "--policy", "youtube"]).1;
    assert!(
        shown.contains("\n  9500/1d: 60 of 9500 in use, 9440 remaining; the next unit is free in 1d, all in 1d\n"),
        "{shown}"
    );
    let shown = call(&["inspect", "carol", "--policy", "youtube", "--format", "json"]).1;
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON")["limits"][0]["used"], 60);
}

#[test]
fn an_unreachable_service_has_the_exit_code_of_a_failed_store() {
    let (code, output) = exit_and_output(&["check", "alice", "--policy", "api", "--server", "http://127.0.0.1:1"]);
    assert!(
        code == Some(4)
            && output.contains("nothing listens at http://127.0.0.1:1")
            && output.contains("tidegate serve"),
        "{code:?} {output}"
    );
    assert_eq!(exit_and_output(&["check", "alice", "--policy", "api", "--server", "nonsense"]).0, Some(2));
}

#[test]
fn commands_work_directly_on_redis() {
    let redis = Server::start();
    let url = redis.url();
    let path = file("direct", CONFIG);
    let store = ["--store", url.as_str()];
    let limits = |key: &str| exit_and_output(&[&["check", key, "--limit", "1/1h"][..], &store[..]].concat()).0;
    assert_eq!((limits("a"), limits("a"), limits("b")), (Some(0), Some(1), Some(0)));
    let known = [&store[..], &["--config", path.to_str().expect("text"), "--policy", "api"][..]].concat();
    let call = |verb: &str| exit_and_output(&[&[verb, "alice"][..], &known[..]].concat()).0;
    assert_eq!(
        (call("check"), call("check"), call("check"), call("reset"), call("check")),
        (Some(0), Some(0), Some(1), Some(0), Some(0))
    );
    drop(redis);
    assert_eq!(limits("c"), Some(4), "commands fail closed without Redis");
    assert_eq!(exit_and_output(&["check", "a", "--limit", "1/1s", "--store", "memory"]).0, Some(2));
}

#[test]
fn units_in_use_that_nobody_knows_are_not_printed() {
    let path = file("unknown-use", "[policies.jobs]\nlimits = [\"2/1h\"]\n");
    // Nothing listens on this port.
    let target = ["--store", "redis://127.0.0.1:1", "--config", path.to_str().expect("text"), "--policy", "jobs"];
    let unknown = |reason: &str| {
        format!("{reason}: the units in use under 2/1h are not known (degraded: decided without the store)\n")
    };
    for (verb, more) in [("check", &[][..]), ("peek", &[]), ("charge", &[]), ("reserve", &["--ttl", "1m"])] {
        let call = |choice: &str| {
            exit_and_output(&[&[verb, "k"][..], &target, &["--on-store-failure", choice], more].concat())
        };
        assert_eq!(call("closed"), (Some(4), unknown("store_unavailable")), "{verb}");
        let (code, output) = call("open");
        assert_eq!((code, output.starts_with(&unknown("allowed"))), (Some(0), true), "{verb}: {output}");
        let (code, output) = call("local");
        let figures = "allowed: 1 in use under 2/1h, 1 remaining (degraded: decided without the store)\n";
        let expected = if verb == "peek" { unknown("allowed") } else { figures.to_owned() };
        assert_eq!((code, output.starts_with(&expected)), (Some(0), true), "{verb}: {output}");
    }
}
