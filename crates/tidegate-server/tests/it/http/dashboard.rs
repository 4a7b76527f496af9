//! The dashboard API: the event stream, the overview and the page.

use serde_json::{Value, json};

use super::{
    client::{get, post, request},
    events::Events,
};
use crate::{reload::file, running::Running};

const CONFIG: &str = "[policies.api]\nlimits = [\"5/1h\"]\n[policies.next]\nlimits = [\"1/1h\"]\nmode = \"shadow\"\n\
                      [policies.secret]\nlimits = [\"1/1h\"]\nhide_keys = true\n";

fn check(running: &Running, policy: &str, key: &Value) -> u16 {
    post(running.http, "/v1/check", &json!({ "policy": policy, "key": key })).status
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
        { "key": "alice", "label": "alice", "denials": 4, "error": 0 },
        { "key": ["bob", "/x"], "label": "bob · /x", "denials": 3, "error": 0 },
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
fn the_state_of_a_key_is_streamed_every_second() {
    let running = Running::start(CONFIG);
    let mut events = Events::open(running.http, "/v1/live?policy=api&key=alice", &[]);
    let key = events.next("key");
    assert_eq!(
        (&key["found"], &key["limits"][0]["used"], &key["limits"][0]["remaining"]),
        (&json!(false), &json!(0), &json!(5))
    );
    check(&running, "api", &json!(["alice"]));
    let one = get(running.http, "/v1/inspect?policy=api&key=alice&list=true").json();
    assert_eq!(
        (&one["found"], &one["limits"][0]["used"]),
        (&json!(true), &json!(1)),
        "a list with one part is another key"
    );
    check(&running, "api", &json!("alice"));
    let key = events.find("key", |key| key["found"] == true);
    let limit = &key["limits"][0];
    assert_eq!(
        (&limit["used"], &limit["capacity"], &limit["window_us"]),
        (&json!(1), &json!(5), &json!(3_600_000_000_u64))
    );
    assert_eq!(limit["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(limit["next_free_after_ms"], limit["reset_after_ms"], "one unit is in use");
    assert_eq!(events.next("hits")["policy"], "api");
    for (path, status) in [
        ("/v1/live?key=alice", 400),
        ("/v1/live?policy=unknown", 404),
        ("/v1/live?what=1", 400),
        ("/v1/inspect?policy=api&key=alice&list=maybe", 400),
        ("/v1/overview?seconds=0", 400),
        ("/v1/overview?seconds=601", 400),
        ("/v1/overview?seconds=x", 400),
    ] {
        assert_eq!(get(running.http, path).status, status, "{path}");
    }
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
