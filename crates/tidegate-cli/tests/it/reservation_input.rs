//! Bad input to the commands about reservations: a clear message, the exit code, and no change.

use serde_json::Value;
use tidegate_testbed::{Reply, Wire};

use crate::process::{Serving, exit_and_output, file};

const CONFIG: &str = r#"
[server]
allow_removal = true
[policies.tokens]
limits = ["100/1h"]
[policies.jobs]
limits = ["2/inflight"]
max_hold = "1m"
"#;

const NOT_OPEN: &str = "not open: it was committed or released before, has ended, or is of another store";
const NOT_AN_ID: &str = "this is not the id of a reservation: use the id that reserve or lease returned";

/// A service of the test, and a configuration file that it reads.
fn start(name: &str) -> (Serving, std::path::PathBuf) {
    let path = file(name, CONFIG);
    (Serving::start(&["--config", path.to_str().expect("text")]), path)
}

fn call(target: &[&str], arguments: &[&str]) -> (Option<i32>, String) {
    // Of `run`, the command stays at the end.
    let (command, rest) = arguments.split_at(1);
    exit_and_output(&[command, target, rest].concat())
}

/// Reserves units of `alice` and returns the id.
fn reserve(target: &[&str], cost: &str) -> String {
    let (code, output) =
        call(target, &["reserve", "alice", "--policy", "tokens", "--cost", cost, "--ttl", "10m", "--id"]);
    assert_eq!(code, Some(0), "{output}");
    output.lines().next().expect("an id").to_owned()
}

/// The units in use under `tokens`, and the number of open reservations.
fn state(target: &[&str]) -> (u64, usize) {
    let (code, output) = call(target, &["inspect", "alice", "--policy", "tokens", "--format", "json"]);
    assert_eq!(code, Some(0), "{output}");
    let state: Value = serde_json::from_str(&output).expect("JSON");
    let open = state["reservations"].as_array().expect("a list").len();
    (state["limits"][0]["used"].as_u64().expect("a number"), open)
}

/// Expects the exit code and a part of the message, and that nothing has changed.
#[track_caller]
fn expect_all(target: &[&str], cases: &[(&[&str], i32, &str)]) {
    let before = state(target);
    for (arguments, code, message) in cases {
        let (given, output) = call(target, arguments);
        assert_eq!(given, Some(*code), "{arguments:?}: {output}");
        assert!(output.contains(message), "{arguments:?}: {output}");
        assert!(!output.contains("it runs"), "{arguments:?}: {output}");
    }
    assert_eq!(state(target), before);
}

#[test]
fn every_bad_input_gets_a_clear_message() {
    let (service, _) = start("reservation-input");
    let (other, _) = start("reservation-input-other");
    let target = ["--server", service.http.as_str()];
    let own = reserve(&target, "10");
    let foreign = reserve(&["--server", &other.http], "10");
    let (policy, numbers) = own.split_once('.').expect("two parts");
    let first = if numbers.starts_with('A') { "B" } else { "A" };
    let guessed = format!("{policy}.{first}{}", &numbers[1..]);
    let other_policy = format!("njobs.{numbers}");
    let no_policy = format!("nnowhere.{numbers}");
    let long = "x".repeat(201);
    let mut wire = Wire::try_connect(&service.resp).expect("a service");
    let Reply::Array(lease) = wire.command(["TG.LEASE", "tokens", "alice", "5", "10000"]) else { panic!("no lease") };
    let lease = lease[6].as_str_lossy().into_owned();
    let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
    let commit_many: Vec<&str> = ["commit", &own].into_iter().chain(many.iter().map(String::as_str)).collect();
    let in_flight = "the policy has the limit `2/inflight`, which counts open holds: reserve instead";
    expect_all(
        &target,
        &[
            // A ttl out of range.
            (&["reserve", "alice", "-p", "tokens", "--ttl", "0ms"], 2, "write a duration above zero"),
            (&["reserve", "alice", "-p", "tokens", "--ttl", "61m"], 2, "the ttl is out of range: use 1ms to 1h"),
            (
                &["reserve", "alice", "-p", "tokens", "--ttl", "soon"],
                2,
                "write a duration above zero, such as 500ms or 10s",
            ),
            (&["renew", &own, "--ttl", "61m"], 2, "the ttl is out of range: use 1ms to 1h"),
            (
                &["run", "-p", "jobs", "-k", "alice", "--ttl", "61s", "--", "echo", "it runs"],
                2,
                "the ttl is out of range: use 1ms to 1m",
            ),
            // An unknown or foreign id.
            (&["commit", &guessed, "1"], 1, NOT_OPEN),
            (&["commit", &foreign, "1"], 1, NOT_OPEN),
            (&["release", &foreign], 1, NOT_OPEN),
            (&["renew", &foreign, "--ttl", "1m"], 1, NOT_OPEN),
            (&["release", &other_policy], 1, NOT_OPEN),
            (&["release", "ntokens"], 2, NOT_AN_ID),
            (&["release", ""], 2, NOT_AN_ID),
            (&["commit", &long, "1"], 2, NOT_AN_ID),
            // The id of a lease.
            (&["commit", &lease, "1"], 1, NOT_OPEN),
            (&["release", &lease], 1, NOT_OPEN),
            (&["renew", &lease, "--ttl", "1m"], 1, NOT_OPEN),
            // A check under an in-flight limit.
            (&["check", "alice", "-p", "jobs"], 2, in_flight),
            (&["charge", "alice", "-p", "jobs"], 2, in_flight),
            (&["check", "alice", "-l", "2/inflight"], 2, in_flight),
            (&["peek", "alice", "-p", "jobs"], 0, "allowed: 0 in use under 2/inflight, 2 remaining"),
            // More parts than the hold has, and more than a decision may have.
            (&["commit", &own, "1", "2"], 2, "give one number for all, or one for each, in order"),
            (&commit_many, 2, "give one number for all, or one for each, in order"),
            // A policy that does not exist.
            (&["release", &no_policy], 2, "the policy `nowhere` of this reservation does not exist"),
            (&["commit", &own, "1000000000001"], 2, "units are out of range: use 0 to 1000000000000"),
            (&["commit", &own, "-1"], 2, "unexpected argument '-1'"),
        ],
    );
    assert_eq!(call(&target, &["commit", &own, "1"]).0, Some(0), "the hold is still open");
}

#[test]
fn an_id_of_a_changed_policy_is_committed_and_one_of_a_removed_policy_is_refused() {
    let (mut service, path) = start("reservation-policies");
    let url = service.http.clone();
    let target = ["--server", url.as_str()];
    let [first, second] = [(); 2].map(|()| reserve(&target, "40"));
    let mut reload = |config: String| {
        std::fs::write(&path, config).expect("a writable file");
        service.signal("HUP");
        service.wait_for("policies reloaded");
    };
    reload(CONFIG.replace("100/1h", "50/2h"));
    let committed = "committed: 45 in use under 50/2h, 5 remaining\n".to_owned();
    assert_eq!(call(&target, &["commit", &first, "5"]), (Some(0), committed));
    reload(CONFIG.replace("[policies.tokens]", "[policies.other]"));
    let gone = "the policy `tokens` of this reservation does not exist any more: the reservation ends at its ttl";
    for arguments in [&["commit", &second, "5"][..], &["release", &second], &["renew", &second, "--ttl", "1m"]] {
        let (code, output) = call(&target, arguments);
        assert!(code == Some(2) && output.contains(gone), "{arguments:?}: {code:?} {output}");
    }
}

#[test]
fn bad_input_gets_the_same_messages_without_a_service() {
    let redis = tidegate_testbed::Server::start();
    let (url, path) = (redis.url(), file("reservation-redis", CONFIG));
    let target = ["--store", url.as_str(), "--config", path.to_str().expect("text")];
    let own = reserve(&target, "10");
    let other = tidegate_testbed::Server::start();
    let foreign = reserve(&["--store", &other.url(), target[2], target[3]], "10");
    let (service, _) = start("reservation-memory");
    let of_memory = reserve(&["--server", &service.http], "10");
    expect_all(
        &target,
        &[
            (&["reserve", "alice", "-p", "tokens", "--ttl", "61m"], 2, "the ttl is out of range: use 1ms to 1h"),
            (&["renew", &own, "--ttl", "61m"], 2, "the ttl is out of range: use 1ms to 1h"),
            (&["commit", &foreign, "1"], 1, NOT_OPEN),
            (&["release", &of_memory], 1, NOT_OPEN),
            (&["release", "ntokens"], 2, NOT_AN_ID),
            (&["commit", &own, "1", "2"], 2, "give one number for all, or one for each, in order"),
            (&["check", "alice", "-p", "jobs"], 2, "`2/inflight`, which counts open holds: reserve instead"),
        ],
    );
    assert_eq!(call(&target, &["commit", &own, "1"]).0, Some(0));
    assert_eq!(call(&target, &["commit", &own, "1"]), (Some(1), format!("{NOT_OPEN}\n")));
}
