//! The dashboard API: the event stream, the overview and the page.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Limiter, ManualClock, Timestamp};

use super::{
    client::{get, post, request},
    events::Events,
};
use crate::{reload::file, running::Running};

pub(super) const CONFIG: &str = "[policies.api]\nlimits = [\"5/1h\"]\n[policies.next]\nlimits = [\"1/1h\"]\nmode = \"shadow\"\n\
                      [policies.secret]\nlimits = [\"1/1h\"]\nhide_keys = true\n";

/// A service with a clock of the test's own, and a policy with two limits.
pub(super) struct TwoLimits {
    pub(super) running: Running,
    time: ManualClock,
}

impl TwoLimits {
    pub(super) fn start() -> Self {
        let config = "[policies.two]\nlimits = [\"3/1m\", \"20/1d\"]\n[policies.one]\nlimits = [\"7/1h\"]\n";
        let time = ManualClock::at(Timestamp::from_micros(1_745_000_000_000_000));
        let store = Limiter::default().with_clock(time.clock());
        Self { running: Running::start_with_store(config, store), time }
    }

    /// Spends one unit in each of several minutes. Then the limit of a minute has the fewest units left, and none are in use.
    pub(super) fn spend(&self, policy: &str, key: &str, units: usize) {
        for _ in 0..units {
            assert_eq!(check(&self.running, policy, &json!(key)), 200, "{policy} {key}");
            self.time.advance(Duration::from_secs(61));
        }
    }

    /// Sets an override for a day.
    pub(super) fn set_override(&self, policy: &str, key: &str, mut rule: Value) {
        (rule["policy"], rule["key"], rule["for"]) = (json!(policy), json!(key), json!("1d"));
        assert_eq!(post(self.running.http, "/v1/override", &rule).status, 200);
    }
}

pub(super) fn check(running: &Running, policy: &str, key: &Value) -> u16 {
    post(running.http, "/v1/check", &json!({ "policy": policy, "key": key })).status
}

fn metrics(running: &Running) -> String {
    String::from_utf8(get(running.http, "/metrics").body).expect("text")
}

/// Returns the entry of a policy.
fn policy<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().expect("a list").iter().find(|policy| policy["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {list}"))
}

#[test]
fn each_tick_reports_the_decisions_of_its_second() {
    let running = Running::start(CONFIG);
    let mut events = Events::open(running.http, "/v1/live", &[]);
    assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
    assert!(events.head.contains("x-accel-buffering: no"), "no proxy holds it back: {}", events.head);
    let first = events.next("overview");
    assert_eq!(policy(&first["policies"], "api")["limits"], json!(["5/1h"]));
    assert_eq!(policy(&first["policies"], "next")["mode"], "shadow");
    assert_eq!(first["journal"][0]["kind"], "started");
    for _ in 0..7 {
        check(&running, "api", &json!("alice"));
        check(&running, "next", &json!("alice"));
    }
    let all = |tick: &Value| tick["last"]["decisions"] == 14;
    let tick = events.find("tick", all);
    assert_eq!((&tick["last"]["denied"], &tick["last"]["denied_share"]), (&json!(2), &json!(2.0 / 14.0)));
    let api = policy(&tick["policies"], "api");
    assert_eq!((&api["allowed"], &api["limited"], &api["shadow"]), (&json!(5), &json!(2), &json!(0)));
    let next = policy(&tick["policies"], "next");
    assert_eq!((&next["allowed"], &next["limited"], &next["shadow"]), (&json!(1), &json!(0), &json!(6)));
    assert!(
        tick["last"]["p50_us"].as_f64() > Some(0.0)
            && tick["last"]["p99_us"].as_f64() >= tick["last"]["p50_us"].as_f64()
    );
    assert_eq!(tick["store"]["keys"], 2);
    // The history has the same sums.
    let overview = get(running.http, "/v1/overview?seconds=600").json();
    let past = |outcome: &str| -> u64 {
        let counts = policy(&overview["history"]["policies"], "api")[outcome].as_array().expect("counts").iter();
        counts.map(|count| count.as_u64().expect("a number")).sum()
    };
    assert_eq!((past("allowed"), past("limited")), (5, 2));
    let seconds = overview["history"]["p50_us"].as_array().expect("a list").len();
    assert_eq!(policy(&overview["history"]["policies"], "api")["allowed"].as_array().map(Vec::len), Some(seconds));
}

#[test]
fn the_keys_that_a_policy_denies_are_shown_to_authorized_viewers() {
    let running = Running::start(CONFIG);
    for _ in 0..8 {
        check(&running, "api", &json!("alice"));
        check(&running, "api", &json!(["bob", "/x"]));
        check(&running, "secret", &json!("alice"));
    }
    check(&running, "api", &json!("alice"));
    check(&running, "api", &json!("carol"));
    let hits = get(running.http, "/v1/hits?policy=api").json();
    let hardest = json!([
        { "key": "alice", "label": "alice", "denials": 4, "error": 0, "recent": 4, "reason": "limited", "limit": "5/1h" },
        { "key": ["bob", "/x"], "label": "bob · /x", "denials": 3, "error": 0, "recent": 3, "reason": "limited", "limit": "5/1h" },
    ]);
    assert_eq!((&hits["hardest"], &hits["denials"], &hits["keys"]), (&hardest, &json!(7), &json!("plain")));
    let near: Vec<_> = hits["nearest"].as_array().expect("a list").iter().map(|near| &near["label"]).collect();
    assert_eq!(near, ["bob · /x", "alice"], "carol has only used a fifth");
    assert_eq!((&hits["nearest"][0]["used"], &hits["nearest"][0]["capacity"]), (&json!(5), &json!(5)));
    let secret = get(running.http, "/v1/hits?policy=secret").json();
    assert_eq!((&secret["keys"], &secret["hardest"][0]["key"]), (&json!("hashed"), &Value::Null));
    assert!(secret["hardest"][0]["label"].as_str().is_some_and(|label| label.starts_with('#')), "{secret}");
    // A forwarded request does not come from this machine.
    for passed_on in ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "via", "x-real-ip"] {
        let hidden = request(running.http, "GET", "/v1/hits?policy=api", &[(passed_on, "10.0.0.1")], "").json();
        assert_eq!((&hidden["keys"], &hidden["hardest"][0]["key"]), (&json!("hidden"), &Value::Null));
        assert_eq!((&hidden["hardest"][0]["label"], &hidden["hardest"][0]["denials"]), (&json!(""), &json!(4)));
    }
    assert_eq!(get(running.http, "/v1/hits?policy=apo").status, 404);
    assert_eq!(get(running.http, "/v1/hits").status, 400);
}

#[test]
fn a_key_is_near_its_limit_from_exactly_four_fifths_on() {
    let running = Running::start(
        "[policies.five]\nlimits = [\"5/1h\"]\n[policies.seven]\nlimits = [\"7/1h\"]\n[policies.large]\nlimits = [\"1000000000000/1h\"]\n",
    );
    let check = |policy: &str, key: &str, cost: u64| {
        post(running.http, "/v1/check", &json!({ "policy": policy, "key": key, "cost": cost }));
    };
    for (policy, key, used) in [
        ("five", "three", 3),
        ("five", "four", 4),
        ("five", "five", 5),
        // Four fifths of 7 are 5.6.
        ("seven", "five", 5),
        ("seven", "six", 6),
        ("large", "below", 799_999_999_999),
        ("large", "exactly", 800_000_000_000),
    ] {
        check(policy, key, used);
        // A denial, so that the service knows every key.
        check(policy, key, 1_000_000_000_000);
    }
    let near = |policy: &str| -> Vec<String> {
        let hits = get(running.http, &format!("/v1/hits?policy={policy}")).json();
        let nearest = hits["nearest"].as_array().expect("a list").iter();
        nearest.map(|near| near["label"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!(near("five"), ["five", "four"]);
    assert_eq!(near("seven"), ["six"]);
    assert_eq!(near("large"), ["exactly"]);
    check("five", "other", 4);
    assert!(
        metrics(&running).contains("tidegate_near_limit_total{policy=\"five\"} 3"),
        "the metric uses the same share"
    );
}

#[test]
fn a_denied_key_is_near_its_limit_from_four_fifths_of_any_limit_on() {
    let service = TwoLimits::start();
    let running = &service.running;
    let deny = |policy: &str, key: &str| {
        let request = json!({ "policy": policy, "key": key, "cost": 1_000 });
        assert_ne!(post(running.http, "/v1/check", &request).status, 200, "{policy} {key}");
    };
    for (key, used) in [("below", 15), ("exactly", 16), ("exempt", 16), ("banned", 17)] {
        service.spend("two", key, used);
        deny("two", key);
    }
    service.set_override("two", "exempt", json!({ "kind": "exempt" }));
    service.set_override("two", "banned", json!({ "kind": "ban" }));
    service.set_override("one", "other", json!({ "kind": "limits", "limits": ["3/1m", "10/1d"] }));
    service.spend("one", "other", 8);
    deny("one", "other");
    let nearest = |policy: &str| -> Vec<Value> {
        let hits = get(running.http, &format!("/v1/hits?policy={policy}")).json();
        let nearest = hits["nearest"].as_array().expect("a list").iter();
        nearest.map(|near| json!([near["label"], near["limit"], near["used"], near["remaining"]])).collect()
    };
    assert_eq!(nearest("two"), [json!(["banned", "20/1d", 17, 0]), json!(["exactly", "20/1d", 16, 4])]);
    assert_eq!(nearest("one"), [json!(["other", "10/1d", 8, 2])]);
    // Allowed decisions are counted by one limit, and the metric says which.
    let text = metrics(running);
    assert!(text.contains("tidegate_near_limit_total{policy=\"two\"} 0"), "{text}");
    let help = text.lines().find(|line| line.starts_with("# HELP tidegate_near_limit")).expect("a help text");
    assert!(help.contains("four fifths in use of the limit with the fewest units left"), "{help}");
}

#[test]
fn the_overview_has_the_most_denied_keys_of_all_policies_and_lists_denying_policies_first() {
    let running = Running::start(CONFIG);
    let mut events = Events::open(running.http, "/v1/live", &[]);
    let first = events.next("overview");
    assert_eq!(first["hardest"], json!([]));
    for _ in 0..8 {
        check(&running, "api", &json!("alice"));
        check(&running, "next", &json!("shadowed"));
        check(&running, "secret", &json!("hidden"));
    }
    let tick = events.find("tick", |tick| tick["hardest"][0]["recent"] == 7 && tick["hardest"][1]["recent"] == 3);
    let hardest = tick["hardest"].as_array().expect("a list");
    assert_eq!(hardest.len(), 2, "would-be denials do not count: {tick}");
    assert_eq!(
        (&hardest[0]["policy"], &hardest[0]["keys"], &hardest[0]["key"]),
        (&json!("secret"), &json!("hashed"), &Value::Null)
    );
    assert!(hardest[0]["label"].as_str().is_some_and(|label| label.starts_with('#')), "{tick}");
    let alice = json!({ "policy": "api", "keys": "plain", "key": "alice", "label": "alice", "denials": 3, "error": 0, "recent": 3, "reason": "limited", "limit": "5/1h" });
    assert_eq!(hardest[1], alice);
    assert!(tick["hardest_seconds"].as_u64().is_some_and(|seconds| seconds <= 61), "{tick}");
    let names: Vec<_> = tick["policies"].as_array().expect("a list").iter().map(|policy| &policy["name"]).collect();
    assert_eq!(names[..3], ["secret", "api", "next"], "by denials, then by would-be denials");
    // A viewer elsewhere sees no key and no hash.
    let elsewhere = request(running.http, "GET", "/v1/overview", &[("x-forwarded-for", "10.0.0.1")], "").json();
    assert_eq!(elsewhere["hardest"].as_array().map(Vec::len), Some(2));
    for hidden in elsewhere["hardest"].as_array().expect("a list") {
        assert_eq!((&hidden["key"], &hidden["label"], &hidden["keys"]), (&Value::Null, &json!(""), &json!("hidden")));
    }
}

#[test]
fn the_page_that_tries_limits_changes_no_figure() {
    let running = Running::start(&format!("[server]\ncaller_limits = false\n{CONFIG}"));
    let mut events = Events::open(running.http, "/v1/live", &[]);
    let trial = |limit: &str, algorithm: &str| {
        let body = json!({ "key": "try", "limit": limit, "algorithm": algorithm });
        let response = post(running.http, "/v1/try", &body);
        (response.status, response.json())
    };
    let decisions: Vec<_> = (0..4).map(|_| trial("3/1h", "sliding_log")).collect();
    let allowed: Vec<_> = decisions.iter().map(|(status, decision)| (*status, decision["allowed"] == true)).collect();
    assert_eq!(allowed, [(200, true), (200, true), (200, true), (200, false)]);
    assert_eq!((&decisions[3].1["reason"], &decisions[3].1["limit"]), (&json!("limited"), &json!("3/1h")));
    assert_eq!(trial("3/1h", "gcra").1["allowed"], true, "each algorithm has its own state");
    for (limit, algorithm, field) in [("3 per hour", "gcra", "limit"), ("3/1h", "guess", "algorithm")] {
        let (status, problem) = trial(limit, algorithm);
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{problem}");
    }
    check(&running, "api", &json!("alice"));
    let tick = events.find("tick", |tick| tick["last"]["decisions"] != 0);
    assert_eq!(
        (&tick["last"]["decisions"], &tick["last"]["denied"], &tick["store"]["keys"]),
        (&json!(1), &json!(0), &json!(1))
    );
    let text = metrics(&running);
    assert!(
        !text.contains("policy=\"(limits)\",reason=\"allowed\"} 1") && !text.contains("reason=\"limited\"} 1"),
        "{text}"
    );
}

#[test]
fn event_streams_are_limited_in_number_and_do_not_delay_the_shutdown() {
    let mut running = Running::start("[server]\ndrain = \"60s\"\n");
    let mut streams: Vec<Events> = (0..64).map(|_| Events::open(running.http, "/v1/live", &[])).collect();
    for stream in &mut streams {
        stream.next("overview");
    }
    let refused = get(running.http, "/v1/live");
    assert_eq!(refused.status, 503);
    assert!(refused.json()["error"].as_str().is_some_and(|error| error.contains("too many")), "{refused:?}");
    drop(streams.pop());
    // The slot is free when the service has noticed the closed stream.
    streams.push(
        std::iter::repeat_with(|| Events::open(running.http, "/v1/live", &[]))
            .find(|stream| stream.head.starts_with("HTTP/1.0 200"))
            .expect("an endless iterator"),
    );
    assert_eq!(running.stop(), 0, "no connection is waited for");
    streams.into_iter().for_each(Events::read_to_end);
}

#[test]
fn accepted_and_refused_reloads_are_in_the_journal() {
    let file = file("journal", CONFIG);
    let running = Running::start_from_file(&file);
    let mut events = Events::open(running.http, "/v1/live", &[]);
    events.next("overview");
    running.reload();
    let has_line = |kind: &'static str| {
        move |tick: &Value| tick["journal"].as_array().expect("a list").iter().any(|line| line["kind"] == kind)
    };
    events.find("tick", has_line("reload"));
    std::fs::write(&file, "[policies.api]\nlimits = [\"0/1h\"]\n").expect("a writable file");
    running.reload();
    let tick = events.find("tick", has_line("reload_refused"));
    assert!(tick["configuration_error"].as_str().is_some_and(|error| error.contains(".toml:2:")), "{tick}");
    let is_refusal = |line: &Value| line["kind"] == "reload_refused";
    assert!(
        tick["journal"].as_array().is_some_and(|journal| journal.iter().all(is_refusal)),
        "a tick repeats no event of an earlier tick: {tick}"
    );
}

#[test]
fn the_page_has_a_strict_security_policy_and_is_cached() {
    let running = Running::start(CONFIG);
    let page = get(running.http, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let security_policy = page.header("content-security-policy").expect("a policy");
    for rule in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(security_policy.contains(rule), "{security_policy}");
    }
    assert!(!security_policy.contains("unsafe"), "{security_policy}");
    let text = String::from_utf8(page.body.clone()).expect("text");
    assert!(!text.contains("http://") && !text.contains("https://"), "the page has no external resources");
    let tag = page.header("etag").expect("a tag").to_owned();
    let again = request(running.http, "GET", "/", &[("if-none-match", &tag)], "");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let zipped = request(running.http, "GET", "/", &[("accept-encoding", "br, gzip;q=0.8")], "");
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert!(zipped.body.len() < page.body.len());
    assert_eq!(get(running.http, "/assets/style.css").header("content-type"), Some("text/css; charset=utf-8"));
    for nothing in ["/assets/nothing.js", "/assets/../index.html", "/assets/"] {
        assert_eq!(get(running.http, nothing).status, 404, "{nothing}");
    }
    assert_eq!(request(running.http, "GET", "/", &[("host", "evil.example")], "").status, 403);
}
