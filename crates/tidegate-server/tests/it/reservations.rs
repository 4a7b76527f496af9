//! Reservations over HTTP and RESP.

use std::{thread, time::Duration};

use serde_json::{Value, json};
use tidegate::{Limiter, ManualClock, Timestamp};

use crate::{
    http::client::{Response, get, post, request},
    resp::client::{Client, Reply, command},
    running::Running,
};

mod bad_input;

const CONFIG: &str = r#"
[policies.tokens]
limits = ["100/1h"]
[policies.jobs]
limits = ["60/1h", "2/inflight"]
max_hold = "1m"
[policies.mail]
limits = ["10/1h"]
[policies.mail.operations]
"send" = 3
[policies.quiet]
limits = ["1/inflight"]
mode = "shadow"
"#;

/// A service whose time stands still until the test advances it.
pub(crate) fn service_with_clock() -> (Running, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_micros(1_800_000_000_000_000));
    (Running::start_with_store(CONFIG, Limiter::default().with_clock(clock.clock())), clock)
}

/// The id in an answer.
#[track_caller]
pub(crate) fn id(answer: &Response) -> String {
    let body = answer.json();
    body["reservation"].as_str().unwrap_or_else(|| panic!("nothing was granted: {body}")).to_owned()
}

fn used(service: &Running, policy: &str, key: &str) -> u64 {
    let state = get(service.http, &format!("/v1/inspect?policy={policy}&key={key}")).json();
    state["limits"][0]["used"].as_u64().expect("a number")
}

#[test]
fn a_hold_is_charged_at_the_grant_and_corrected_by_its_commit() {
    let (service, _) = service_with_clock();
    let reserve = json!({ "policy": "tokens", "key": "alice", "cost": 40, "ttl_ms": 60_000 });
    let answer = post(service.http, "/v1/reserve", &reserve);
    let reservation = id(&answer);
    assert_eq!(
        answer.json(),
        json!({
            "allowed": true, "reason": "allowed", "policy": "tokens", "limit": "100/1h", "used": 40, "remaining": 60,
            "retry_after_ms": null, "reset_after_ms": 60_000, "charged_at_us": 1_800_000_000_000_000_u64,
            "degraded": false, "leased": false, "reservation": reservation, "ttl_ms": 60_000
        })
    );
    assert_eq!(answer.header("ratelimit"), Some(r#""tokens";r=60;t=60"#), "the hold ends by itself");
    let commit = json!({ "reservation": reservation, "actual": 15 });
    assert_eq!(
        post(service.http, "/v1/commit", &commit).json(),
        json!({
            "allowed": true, "reason": "allowed", "policy": "tokens", "limit": "100/1h", "used": 15, "remaining": 85,
            "retry_after_ms": null, "reset_after_ms": 3_600_000, "charged_at_us": null, "degraded": false,
            "leased": false, "known": true
        })
    );
    for again in [commit, json!({ "reservation": reservation, "actual": 90 })] {
        let repeated = post(service.http, "/v1/commit", &again);
        assert_eq!((repeated.status, &repeated.json()["known"]), (200, &json!(false)), "a hold is settled once");
    }
    assert_eq!(used(&service, "tokens", "alice"), 15);
    let reservation = id(&post(service.http, "/v1/reserve", &reserve));
    let more = post(service.http, "/v1/commit", &json!({ "reservation": reservation, "actual": 95 })).json();
    assert_eq!((&more["known"], &more["used"]), (&json!(true), &json!(110)), "the actual cost may exceed the limit");
    let denied = post(service.http, "/v1/reserve", &reserve);
    assert_eq!((denied.status, &denied.json()["reason"]), (429, &json!("limited")));
    assert_eq!((&denied.json()["reservation"], &denied.json()["ttl_ms"]), (&Value::Null, &Value::Null));
    assert!(denied.header("retry-after").is_some());
}

#[test]
fn units_that_are_never_settled_come_back_at_the_end_of_the_hold() {
    let (service, clock) = service_with_clock();
    let reserve = |key: &str, expires: &str| {
        let body = json!({ "policy": "tokens", "key": key, "cost": 60, "ttl_ms": 5_000, "expires": expires });
        id(&post(service.http, "/v1/reserve", &body))
    };
    let (released, _) = (reserve("a", "released"), reserve("b", "spent"));
    clock.advance(Duration::from_micros(4_999_999));
    assert_eq!(used(&service, "tokens", "a"), 60);
    clock.advance(Duration::from_micros(1));
    let fits = json!({ "policy": "tokens", "key": "a", "cost": 100 });
    assert_eq!(post(service.http, "/v1/peek", &fits).status, 200);
    let late = post(service.http, "/v1/commit", &json!({ "reservation": released, "actual": 1 }));
    assert_eq!(late.json()["known"], false);
    assert_eq!((used(&service, "tokens", "a"), used(&service, "tokens", "b")), (0, 60));
}

#[test]
fn a_renewed_hold_ends_later_and_a_released_one_gives_everything_back() {
    let (service, clock) = service_with_clock();
    let mut client = Client::connect(service.resp);
    let reserved = client.call("TG.RESERVE jobs import 1 10000");
    let Reply::List(items) = &reserved else { panic!("{reserved:?}") };
    assert_eq!(items[..4], [Reply::Int(1), Reply::Int(2), Reply::Int(1), Reply::Int(-1)], "{reserved:?}");
    let reservation = items[6].text();
    clock.advance(Duration::from_secs(9));
    assert_eq!(client.call(&format!("TG.RENEW {reservation} 10000")), Reply::Int(1));
    clock.advance(Duration::from_secs(9));
    let full = client.call(&format!("TG.RENEW {reservation} 10000 FULL"));
    assert_eq!((full.field("known"), full.field("limit")), (Reply::Int(1), Reply::bulk("2/inflight")));
    assert_eq!(client.call(&format!("TG.RELEASE {reservation}")), Reply::Int(1));
    assert_eq!(client.call(&format!("TG.RELEASE {reservation}")), Reply::Int(0));
    assert_eq!(client.call(&format!("TG.RENEW {reservation} 10000")), Reply::Int(0));
    assert_eq!(used(&service, "jobs", "import"), 0);
}

#[test]
fn open_holds_never_exceed_an_in_flight_limit_over_http_and_resp_together() {
    let (service, clock) = service_with_clock();
    let mut client = Client::connect3(service.resp);
    let over_http = || post(service.http, "/v1/reserve", &json!({ "policy": "jobs", "key": "k", "ttl_ms": 30_000 }));
    let first = id(&over_http());
    clock.advance(Duration::from_secs(10));
    let second = client.call("TG.RESERVE jobs k 1 30000 SPENT FULL");
    assert_eq!((second.field("allowed"), second.field("ttl_ms")), (Reply::Bool(true), Reply::Int(30_000)));
    let denied = over_http();
    let peeked = post(service.http, "/v1/peek", &json!({ "policy": "jobs", "key": "k" }));
    for denied in [denied, peeked] {
        let body = denied.json();
        assert_eq!((denied.status, &body["limit"], &body["used"]), (429, &json!("2/inflight"), &json!(2)));
        assert_eq!(body["retry_after_ms"], 20_000, "until the first hold ends");
    }
    let denied = client.call("TG.RESERVE jobs k 1 30000");
    let Reply::List(items) = &denied else { panic!("{denied:?}") };
    assert_eq!(items[0..4], [Reply::Int(0), Reply::Int(2), Reply::Int(0), Reply::Int(20_000)]);
    assert_eq!(items[6], Reply::Null);
    assert_eq!(client.call(&format!("TG.COMMIT {first} 1")), Reply::Int(1));
    assert_eq!(over_http().status, 200);
    // The windowed limit counts all of them.
    assert_eq!(used(&service, "jobs", "k"), 3);
    let quiet = || post(service.http, "/v1/reserve", &json!({ "policy": "quiet", "key": "k", "ttl_ms": 30_000 }));
    assert_eq!(quiet().json()["reason"], "allowed");
    let beyond = quiet();
    assert_eq!((beyond.status, &beyond.json()["reason"]), (200, &json!("shadow")));
    assert!(!id(&beyond).is_empty(), "in shadow mode, reservations are recorded and never denied");
}

#[test]
fn several_requests_are_one_hold_and_have_one_actual_cost_each() {
    let (service, _) = service_with_clock();
    let several = json!({ "ttl_ms": 60_000, "checks": [
        { "policy": "tokens", "key": "alice", "cost": 50 },
        { "policy": "mail", "key": "alice", "operation": "send" },
        { "limits": ["5/1m"], "key": "alice" },
    ] });
    let answer = post(service.http, "/v1/reserve", &several);
    assert_eq!((answer.status, answer.json()["checks"].as_array().map(Vec::len)), (200, Some(3)));
    let reservation = id(&answer);
    let wrong = post(service.http, "/v1/commit", &json!({ "reservation": reservation, "actual": [1, 2] }));
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("actual")), "{}", wrong.json());
    let commit = json!({ "reservation": reservation, "actual": [20, 4, 0] });
    assert_eq!(post(service.http, "/v1/commit", &commit).json()["known"], true);
    assert_eq!((used(&service, "tokens", "alice"), used(&service, "mail", "alice")), (20, 4));
    assert_eq!(post(service.http, "/v1/commit", &commit).json()["known"], false, "a repeated commit is harmless");
    let mut client = Client::connect(service.resp);
    let reservation = id(&post(service.http, "/v1/reserve", &several));
    assert_eq!(client.call(&format!("TG.COMMIT {reservation} 10 0 1")), Reply::Int(1));
    assert_eq!((used(&service, "tokens", "alice"), used(&service, "mail", "alice")), (30, 4));
    let too_much = json!({ "ttl_ms": 60_000, "checks": [
        { "policy": "tokens", "key": "alice" }, { "policy": "mail", "key": "alice", "cost": 7 },
    ] });
    assert_eq!(post(service.http, "/v1/reserve", &too_much).status, 429);
    assert_eq!(used(&service, "tokens", "alice"), 30, "all or nothing");
}

#[test]
fn a_lease_is_settled_before_the_next_one_is_granted() {
    let (service, clock) = service_with_clock();
    let lease = json!({ "policy": "tokens", "key": "hot", "asked": 40, "least": 10, "ttl_ms": 5_000 });
    let first = post(service.http, "/v1/lease", &lease);
    let body = first.json();
    assert_eq!(
        (&body["granted"], &body["ttl_ms"], &body["settled"]),
        (&json!(40), &json!(5_000), &Value::Null),
        "{body}"
    );
    let mut client = Client::connect3(service.resp);
    let next = client.call(&format!("TG.LEASE tokens hot 100 5000 LEAST 2 SETTLE {} 30", id(&first)));
    let Reply::List(items) = &next else { panic!("{next:?}") };
    // 70 units are free, and no other lease is open.
    assert_eq!((items.len(), &items[7]), (8, &Reply::Int(35)), "{next:?}");
    let second = items[6].text();
    let full = client.call("TG.LEASE tokens hot 10 5000 FULL");
    assert_eq!((full.field("granted"), full.field("settled")), (Reply::Int(9), Reply::Null), "{full:?}");
    let state = get(service.http, "/v1/inspect?policy=tokens&key=hot").json();
    assert_eq!(
        (&state["limits"][0]["used"], &state["reservations"][0]["kind"]),
        (&json!(74), &json!("lease")),
        "{state}"
    );
    assert_eq!(client.call(&format!("TG.SETTLE {second} 5")), Reply::Int(1));
    assert_eq!(client.call(&format!("TG.SETTLE {second} 5")), Reply::Int(0));
    clock.advance(Duration::from_secs(5));
    let last = full.field("reservation").text();
    let late = post(service.http, "/v1/settle", &json!({ "reservation": last, "spent": 0 })).json();
    assert_eq!(late["known"], false, "after its end all of a lease is spent");
    assert_eq!(used(&service, "tokens", "hot"), 30 + 5 + 9);
    let denied = post(
        service.http,
        "/v1/lease",
        &json!({ "policy": "tokens", "key": "hot", "asked": 90, "least": 57, "ttl_ms": 1 }),
    );
    assert_eq!(
        (denied.status, &denied.json()["granted"], &denied.json()["reservation"]),
        (429, &json!(0), &Value::Null)
    );
}

#[test]
fn an_inspection_shows_the_open_holds_in_the_order_of_their_ends() {
    let (service, clock) = service_with_clock();
    let start = clock.clock().now().as_micros();
    let mut client = Client::connect3(service.resp);
    client.call("TG.RESERVE jobs k 1 20000 SPENT");
    clock.advance(Duration::from_secs(1));
    client.call("TG.RESERVE jobs k 1 5000");
    let state = get(service.http, "/v1/inspect?policy=jobs&key=k").json();
    assert_eq!(
        state["reservations"],
        json!([
            { "kind": "hold", "units": 1, "granted_at_us": start + 1_000_000, "until_us": start + 6_000_000, "expires": "released" },
            { "kind": "hold", "units": 1, "granted_at_us": start, "until_us": start + 20_000_000, "expires": "spent" },
        ])
    );
    assert_eq!((&state["limits"][1]["used"], &state["limits"][1]["window_us"]), (&json!(2), &json!(0)), "{state}");
    let Reply::List(open) = client.call("TG.INSPECT jobs k").field("reservations") else { panic!("a list") };
    assert_eq!(
        (open.len(), open[0].field("kind"), open[1].field("expires")),
        (2, Reply::bulk("hold"), Reply::bulk("spent"))
    );
    let until = i64::try_from(start + 6_000_000).expect("a time");
    assert_eq!(open[0].field("until_us"), Reply::Int(until));
}

#[test]
fn reservations_need_only_the_token_of_decisions() {
    let tokens = "wrong_token_delay = \"10ms\"\ntoken = \"use-me-now\"\nadmin_token = \"change-me-now\"\n";
    let service = Running::start(&format!("[server]\n{tokens}{CONFIG}"));
    let send = |path: &str, token: Option<&str>, body: &Value| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let json = ("content-type", "application/json");
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).chain([json]).collect();
        request(service.http, "POST", path, &headers, &body.to_string())
    };
    let reserve = json!({ "policy": "tokens", "key": "a", "ttl_ms": 1_000 });
    let reservation = id(&send("/v1/reserve", Some("use-me-now"), &reserve));
    for (path, body) in [
        ("/v1/reserve", reserve),
        ("/v1/renew", json!({ "reservation": reservation, "ttl_ms": 1_000 })),
        ("/v1/commit", json!({ "reservation": reservation, "actual": 1 })),
        ("/v1/release", json!({ "reservation": reservation })),
        ("/v1/lease", json!({ "policy": "tokens", "key": "a", "asked": 1, "ttl_ms": 1_000 })),
        ("/v1/settle", json!({ "reservation": reservation, "spent": 1 })),
    ] {
        assert_eq!(send(path, None, &body).status, 401, "{path}");
        let answer = send(path, Some("use-me-now"), &body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    }
}

/// LLM gateways that check first and report the usage afterwards let all concurrent calls pass (litellm#18730).
fn assert_concurrent_calls_stay_within_the_tokens(store: &str) {
    let service = Running::start(&format!("[store]\nurl = \"{store}\"\ntimeout = \"10s\"\n{CONFIG}"));
    let call = json!({ "policy": "tokens", "key": "team", "cost": 20, "ttl_ms": 60_000, "on_store_failure": "closed" });
    let admitted: Vec<String> = thread::scope(|scope| {
        let calls: Vec<_> = (0..50).map(|_| scope.spawn(|| post(service.http, "/v1/reserve", &call))).collect();
        let answers = calls.into_iter().map(|call| call.join().expect("an answer"));
        answers.filter(|answer| answer.status == 200).map(|answer| id(&answer)).collect()
    });
    assert_eq!(admitted.len(), 5, "never more than 100 tokens");
    assert_eq!(used(&service, "tokens", "team"), 100);
    for reservation in admitted {
        let commit = post(service.http, "/v1/commit", &json!({ "reservation": reservation, "actual": 12 }));
        assert_eq!(commit.json()["known"], true);
    }
    assert_eq!(used(&service, "tokens", "team"), 60);
    let more = (0..5).filter(|_| post(service.http, "/v1/reserve", &call).status == 200).count();
    assert_eq!(more, 2, "unspent tokens can be reserved again");
}

#[test]
fn fifty_concurrent_calls_never_spend_more_than_the_tokens_in_memory() {
    assert_concurrent_calls_stay_within_the_tokens("memory");
}

#[test]
fn fifty_concurrent_calls_never_spend_more_than_the_tokens_through_redis() {
    let redis = tidegate_testbed::Server::start();
    assert_concurrent_calls_stay_within_the_tokens(&redis.url());
}

#[test]
fn pipelines_and_transactions_reserve_and_commit_in_order() {
    let (service, _) = service_with_clock();
    let mut client = Client::connect(service.resp);
    let reserve = command(["TG.RESERVE", "tokens", "k", "10", "60000"]);
    client.send(&reserve.repeat(12));
    let answers: Vec<Reply> = (0..12).map(|_| client.read()).collect();
    let ids: Vec<String> = answers.iter().filter_map(granted).collect();
    assert_eq!(ids.len(), 10, "{answers:?}");
    let commits: Vec<u8> = ids.iter().flat_map(|id| command(["TG.COMMIT", id, "1"])).collect();
    client.send(&commits.repeat(2));
    let known: Vec<Reply> = (0..20).map(|_| client.read()).collect();
    assert_eq!(known, [vec![Reply::Int(1); 10], vec![Reply::Int(0); 10]].concat(), "each hold is settled once");
    assert_eq!(used(&service, "tokens", "k"), 10);
    for (words, reply) in [("MULTI", "OK"), ("TG.RESERVE tokens k 5 1000", "QUEUED"), ("TG.CHECK tokens k", "QUEUED")] {
        assert_eq!(client.call(words), Reply::Simple(reply.to_owned()));
    }
    let Reply::List(done) = client.call("EXEC") else { panic!("a list") };
    assert_eq!((done.len(), done[1].numbers()[2]), (2, 84));
    let id = granted(&done[0]).expect("it fits");
    assert_eq!(client.call(&format!("TG.RELEASE {id}")), Reply::Int(1));
    assert_eq!(used(&service, "tokens", "k"), 11);
}

/// The id in a reply to TG.RESERVE, if it was granted.
fn granted(reply: &Reply) -> Option<String> {
    let Reply::List(items) = reply else { panic!("not a list: {reply:?}") };
    (items[0] == Reply::Int(1)).then(|| items[6].text())
}

#[test]
fn clients_learn_the_arguments_of_the_commands() {
    let (service, _) = service_with_clock();
    let mut client = Client::connect(service.resp);
    let Reply::List(commands) = client.call("COMMAND INFO TG.RESERVE TG.COMMIT TG.SETTLE") else { panic!("a list") };
    for (command, name, arity, key) in [(0, "tg.reserve", -5, 2), (1, "tg.commit", -3, 0), (2, "tg.settle", -3, 0)] {
        let Reply::List(details) = &commands[command] else { panic!("{commands:?}") };
        assert_eq!((&details[0], &details[1], &details[3]), (&Reply::bulk(name), &Reply::Int(arity), &Reply::Int(key)));
        let Reply::List(flags) = &details[2] else { panic!("{details:?}") };
        assert!(flags.contains(&Reply::Simple("write".to_owned())), "{name}: {flags:?}");
    }
    let docs = client.call("COMMAND DOCS tg.lease").field("tg.lease").field("summary").text();
    assert!(
        docs.ends_with("TG.LEASE policy key asked ttl_ms [LEAST n] [LEAST_TTL ms] [SETTLE id spent] [FULL]"),
        "{docs}"
    );
}

/// The value of a metric, if it exists.
fn metric(service: &Running, name: &str) -> Option<u64> {
    let text = String::from_utf8(get(service.http, "/metrics").body).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    line.map(|value| value.parse::<u64>().expect("a number"))
}

#[test]
fn the_metrics_drop_reset_holds_and_track_none_of_limits_supplied_by_callers() {
    let (service, clock) = service_with_clock();
    let of = |name: &str, policy: &str| metric(&service, &format!("tidegate_{name}{{policy=\"{policy}\"}}"));
    let several = json!({ "ttl_ms": 5_000, "checks": [
        { "policy": "tokens", "key": "a" }, { "policy": "mail", "key": "a" }, { "limits": ["5/1m"], "key": "a" },
    ] });
    let closed = id(&post(service.http, "/v1/reserve", &several));
    assert_eq!(post(service.http, "/v1/release", &json!({ "reservation": closed })).json()["known"], true);
    for policy in ["tokens", "mail"] {
        assert_eq!(
            (of("holds_granted_total", policy), of("holds_closed_total", policy)),
            (Some(1), Some(1)),
            "{policy}"
        );
    }
    post(service.http, "/v1/reserve", &json!({ "policy": "tokens", "key": "a", "ttl_ms": 5_000 }));
    post(service.http, "/v1/reserve", &json!({ "policy": "tokens", "key": "b", "ttl_ms": 5_000 }));
    assert_eq!(post(service.http, "/v1/reset", &json!({ "policy": "tokens", "key": "a" })).json()["reset"], true);
    assert_eq!(of("open_holds", "tokens"), Some(1));
    let supplied = json!({ "limits": ["5/1m"], "key": "a", "ttl_ms": 5_000 });
    let closed = id(&post(service.http, "/v1/reserve", &supplied));
    post(service.http, "/v1/reserve", &supplied);
    post(service.http, "/v1/release", &json!({ "reservation": closed }));
    clock.advance(Duration::from_secs(5));
    assert_eq!(of("holds_ended_by_ttl_total", "tokens"), Some(1));
    for (name, expected) in
        [("open_holds", 0), ("holds_granted_total", 2), ("holds_closed_total", 1), ("holds_ended_by_ttl_total", 0)]
    {
        assert_eq!(of(name, "(limits)"), Some(expected), "{name}");
    }
}

#[test]
fn the_metrics_count_open_and_ended_holds_and_unknown_commits_by_policy() {
    let (service, clock) = service_with_clock();
    let metric = |name: &str| metric(&service, name);
    assert_eq!(metric("tidegate_open_holds{policy=\"tokens\"}"), None, "policies without reservations have none");
    let reserve = json!({ "policy": "tokens", "key": "a", "cost": 10, "ttl_ms": 5_000 });
    let ids: Vec<String> = (0..3).map(|_| id(&post(service.http, "/v1/reserve", &reserve))).collect();
    assert_eq!(metric("tidegate_open_holds{policy=\"tokens\"}"), Some(3));
    for expected in [true, false] {
        let commit = post(service.http, "/v1/commit", &json!({ "reservation": ids[0], "actual": 1 }));
        assert_eq!(commit.json()["known"], expected);
    }
    post(service.http, "/v1/renew", &json!({ "reservation": ids[1], "ttl_ms": 9_000 }));
    clock.advance(Duration::from_secs(5));
    for (name, expected) in [
        ("open_holds", 1),
        ("holds_granted_total", 3),
        ("holds_closed_total", 1),
        ("holds_ended_by_ttl_total", 1),
        ("unknown_commits_total", 1),
        ("untracked_holds_total", 0),
    ] {
        assert_eq!(metric(&format!("tidegate_{name}{{policy=\"tokens\"}}")), Some(expected), "{name}");
    }
    assert_eq!(metric("tidegate_decisions_total{policy=\"tokens\",reason=\"allowed\"}"), Some(3));
}
