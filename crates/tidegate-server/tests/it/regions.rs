//! A service whose store is another service: the root.

use serde_json::{Value, json};
use tidegate_testbed::Server as Redis;

use crate::{
    http::client::{get, post, request},
    running::{Running, Stopped},
};

const TOKENS: &str = "[server]\ntoken = \"usage-token\"\nadmin_token = \"admin-token\"\n";
const POLICIES: &str = "[policies.api]\nlimits = [\"5/1h\", \"9/1d\"]\n[policies.hot]\nlimits = [\"1000/1h\"]\nlease = \"10s\"\n\
                        [policies.shut]\nlimits = [\"5/1h\"]\non_store_failure = \"closed\"\n";

/// A region over the root at a URL.
fn region(url: &str) -> Running {
    Running::start(&format!("[store]\nurl = \"{url}\"\ntimeout = \"10s\"\n{POLICIES}"))
}

/// A region that has the token of the root.
fn region_of(root: &Running, token: &str) -> Running {
    region(&format!("tidegate://:{token}@{}", root.resp))
}

fn check(service: &Running, policy: &str, key: &Value) -> Value {
    post(service.http, "/v1/check", &json!({ "policy": policy, "key": key })).json()
}

/// The cause of each degraded state, and its detail.
fn degraded(service: &Running) -> Vec<(String, String)> {
    let ready = get(service.http, "/readyz").json();
    let states = ready["degraded"].as_array().unwrap_or_else(|| panic!("a list: {ready}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    states.iter().map(|state| (text(&state["cause"]), text(&state["detail"]))).collect()
}

/// Waits until there is a degraded state with this cause. Returns its detail.
fn wait_for(service: &Running, cause: &str) -> String {
    loop {
        if let Some((_, detail)) = degraded(service).into_iter().find(|(found, _)| found == cause) {
            return detail;
        }
        std::thread::yield_now();
    }
}

fn as_admin(root: &Running, path: &str) -> Value {
    request(root.http, "GET", path, &[("authorization", "Bearer admin-token")], "").json()
}

#[test]
fn two_regions_and_the_root_spend_from_one_limit() {
    let redis = Redis::start();
    let root = Running::start(&format!("{TOKENS}[store]\nurl = \"{}\"\ntimeout = \"10s\"\n{POLICIES}", redis.url()));
    let (one, other) = (region_of(&root, "usage-token"), region_of(&root, "usage-token"));
    // A list is another key than the text of its parts, at the root, too.
    for (key, first) in [(json!("alice"), 4), (json!(["alice", "/search"]), 4)] {
        let body = check(&one, "api", &key);
        assert_eq!(
            (&body["remaining"], &body["limit"], &body["degraded"]),
            (&json!(first), &json!("5/1h"), &json!(false))
        );
        assert_eq!(check(&other, "api", &key)["remaining"], first - 1);
    }
    let limits = post(one.http, "/v1/check", &json!({ "key": "carol", "limits": ["2/1h"], "cost": 2 })).json();
    assert_eq!(limits["remaining"], 0, "{limits}");
    let limits = post(other.http, "/v1/peek", &json!({ "key": "carol", "limits": ["2/1h"] })).json();
    assert_eq!((&limits["reason"], &limits["charged_at_us"]), (&json!("limited"), &Value::Null), "{limits}");
    let both =
        json!({ "checks": [{ "policy": "api", "key": "alice", "cost": 3 }, { "policy": "shut", "key": ["b"] }] });
    let body = post(one.http, "/v1/check", &both).json();
    assert_eq!((&body["remaining"], &body["checks"][1]["remaining"]), (&json!(0), &json!(4)), "{body}");
    assert_eq!(check(&other, "api", &json!("alice"))["reason"], "limited");
    let state = as_admin(&root, "/v1/inspect?policy=api&key=alice");
    assert_eq!((&state["limits"][0]["used"], &state["limits"][1]["used"]), (&json!(5), &json!(5)), "{state}");
}

#[test]
fn holds_and_the_operations_of_the_admin_token_reach_the_root() {
    let root = Running::start(&format!("{TOKENS}{POLICIES}"));
    let (usage, admin) = (region_of(&root, "usage-token"), region_of(&root, "admin-token"));
    let hold = json!({ "policy": "api", "key": "alice", "cost": 4, "ttl_ms": 60_000 });
    let reserved = post(usage.http, "/v1/reserve", &hold).json();
    let commit = json!({ "reservation": reserved["reservation"], "actual": 1 });
    assert_eq!(post(admin.http, "/v1/commit", &commit).json()["known"], true, "an id works in every region");
    assert_eq!(post(admin.http, "/v1/commit", &commit).json()["known"], false);
    let state = get(admin.http, "/v1/inspect?policy=api&key=alice").json();
    assert_eq!((&state["limits"][0]["used"], &state["limits"][0]["limit"]), (&json!(1), &json!("5/1h")), "{state}");
    let charged_at = check(&usage, "api", &json!("alice"))["charged_at_us"].clone();
    let refund = json!({ "policy": "api", "key": "alice", "charged_at_us": charged_at });
    let refused = post(usage.http, "/v1/refund", &refund);
    assert_eq!(refused.status, 503);
    assert!(
        refused.json()["error"].as_str().is_some_and(|text| text.contains("needs the admin token")),
        "{:?}",
        refused.json()
    );
    assert_eq!(post(admin.http, "/v1/refund", &refund).json()["returned"], true);
    assert_eq!(post(admin.http, "/v1/reset", &json!({ "policy": "api", "key": "alice" })).json()["reset"], true);
    let state = get(admin.http, "/v1/inspect?policy=api&key=alice").json();
    assert_eq!((&state["found"], &state["limits"][0]["used"]), (&json!(false), &json!(0)), "{state}");
    let several =
        json!({ "checks": [{ "policy": "api", "key": "a" }, { "policy": "shut", "key": "b" }], "ttl_ms": 1_000 });
    let error = post(admin.http, "/v1/reserve", &several).json()["error"].clone();
    assert_eq!(error, "this store has no hold over several keys: use another store");
}

#[test]
fn a_region_leases_from_the_root_over_tls() {
    let certificates = Redis::builder().tls().start();
    let file = |name: &str| certificates.ca_pem().with_file_name(name).display().to_string();
    let tls = format!("tls_cert = \"{}\"\ntls_key = \"{}\"\n", file("server.pem"), file("server.key"));
    let root = Running::start(&format!("{TOKENS}{tls}{POLICIES}"));
    let url = format!("tidegates://:usage-token@127.0.0.1:{}", root.resp.port());
    let store = format!("[store]\nurl = \"{url}\"\ntimeout = \"10s\"\ntls_ca = \"{}\"\n{POLICIES}", file("ca.pem"));
    let region = Running::start(&store);
    assert!((0..300).all(|_| check(&region, "hot", &json!("k"))["allowed"] == true));
    let metrics = String::from_utf8(get(region.http, "/metrics").body).expect("text");
    let by_lease = metrics.lines().find_map(|line| line.strip_prefix("tidegate_lease_decisions_total{by=\"lease\"} "));
    assert!(by_lease.expect("a count").parse::<u64>().expect("a number") > 200, "{by_lease:?}");
    assert_eq!(check(&region, "api", &json!("k"))["remaining"], 4, "a policy without leases");
    // Without the authority, there is no connection.
    let stranger = self::region(&url);
    // Before the first attempt, there is no connection either.
    while !wait_for(&stranger, "unreachable").contains("certificate") {
        std::thread::yield_now();
    }
}

#[test]
fn a_region_divides_its_lease_among_its_clients() {
    let root = Running::start(POLICIES);
    let region = region(&format!("tidegate://{}", root.resp));
    let metric = |name: &str| {
        let text = String::from_utf8(get(region.http, "/metrics").body).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name).trim().parse::<u64>();
        line.expect("a number")
    };
    // The root grants the first lease, and the region takes a lease of its own.
    let first = json!({ "policy": "hot", "key": "k", "asked": 20, "ttl_ms": 1_000 });
    let by_root = post(region.http, "/v1/lease", &first).json();
    assert_eq!((&by_root["granted"], &by_root["ttl_ms"]), (&json!(20), &json!(1_000)), "{by_root}");
    assert_eq!(metric("tidegate_lease_clients_total "), 0);
    while metric("tidegate_leases_open ") == 0 {}
    let next = json!({ "policy": "hot", "key": "k", "asked": 4, "ttl_ms": 10_000, "least_ttl_ms": 1_000,
                       "settle": { "reservation": by_root["reservation"], "spent": 3 } });
    let by_region = post(region.http, "/v1/lease", &next).json();
    assert_eq!((&by_region["granted"], &by_region["settled"]), (&json!(4), &json!(true)), "{by_region}");
    let ttl = by_region["ttl_ms"].as_u64().expect("a term");
    assert!((1_000..9_900).contains(&ttl), "{ttl} ms is no part of the 9,900 ms that the region has");
    assert_eq!(metric("tidegate_lease_clients_total "), 1);
    let whole_term = json!({ "policy": "hot", "key": "k", "asked": 1, "ttl_ms": 10_000 });
    assert_eq!(post(region.http, "/v1/lease", &whole_term).json()["ttl_ms"], 10_000, "the root grants it");
    assert_eq!(metric("tidegate_lease_clients_total "), 1);
    let settle = json!({ "reservation": by_region["reservation"], "spent": 1 });
    assert_eq!(post(region.http, "/v1/settle", &settle).json()["known"], true);
    assert_eq!(post(region.http, "/v1/settle", &settle).json()["known"], false);
    assert_eq!(metric("tidegate_lease_client_units_returned_total "), 3);
    let too_much = json!({ "policy": "hot", "key": "k", "asked": 2, "ttl_ms": 1_000 });
    let leased = post(region.http, "/v1/lease", &too_much).json();
    let settle = json!({ "reservation": leased["reservation"], "spent": 3 });
    let error = post(region.http, "/v1/settle", &settle);
    assert_eq!((error.status, &error.json()["field"]), (400, &json!("spent")));
}

#[test]
fn a_policy_that_the_root_lacks_is_reported_at_the_start_and_never_open() {
    let root = Running::start("[policies.api]\nlimits = [\"7/1h\"]\n");
    let region = region(&format!("tidegate://{}", root.resp));
    // Nothing has been asked yet.
    let detail = wait_for(&region, "unknown_policy");
    assert!(detail.contains("the root has no policy `hot`, `shut`"), "{detail}");
    let detail = wait_for(&region, "other_limits");
    assert!(detail.contains("a limit decided for `api` that this service does not have"), "{detail}");
    let body = post(region.http, "/v1/check", &json!({ "policy": "hot", "key": "a", "on_store_failure": "open" }));
    assert_eq!((body.status, &body.json()["reason"]), (503, &json!("store_unavailable")));
    let lease = json!({ "policy": "hot", "key": "a", "asked": 5, "ttl_ms": 1_000 });
    assert_eq!(post(region.http, "/v1/lease", &lease).json()["granted"], 0);
    let body = check(&region, "api", &json!("a"));
    assert_eq!((&body["limit"], &body["remaining"], &body["degraded"]), (&json!("7/1h"), &json!(6), &json!(false)));
}

#[test]
fn a_wrong_token_and_a_server_that_is_no_tidegate_are_reported() {
    let root = Running::start(&format!("{TOKENS}{POLICIES}"));
    for (url, cause) in [
        (format!("tidegate://:wrong-token@{}", root.resp), "login_refused"),
        (format!("tidegate://{}", root.resp), "login_refused"),
        (format!("tidegate://{}", root.http), "not_tidegate"),
    ] {
        let region = region(&url);
        let detail = wait_for(&region, cause);
        println!("{cause}: {detail}");
        assert!(!detail.contains("wrong-token"), "{detail}");
        assert_eq!(get(region.http, "/readyz").json()["store_answers"], false, "{url}");
        let (open, closed) = (check(&region, "api", &json!("a")), check(&region, "shut", &json!("a")));
        assert_eq!((&open["allowed"], &open["degraded"]), (&json!(true), &json!(true)), "{url}");
        assert_eq!(closed["reason"], "store_unavailable", "{url}");
    }
    let redis = Redis::start();
    assert!(wait_for(&region(&format!("tidegate://{}", redis.addr())), "not_tidegate").contains("redis_version"));
}

#[test]
fn a_region_bridges_the_outage_of_its_root_by_the_failure_choice() {
    let addresses = Stopped::on_free_ports();
    let root = addresses.start(POLICIES);
    let region = region(&format!("tidegate://{}", root.resp));
    assert_eq!(check(&region, "shut", &json!("a"))["remaining"], 4);
    let addresses = root.stopped();
    wait_for(&region, "unreachable");
    assert_eq!(check(&region, "shut", &json!("a"))["reason"], "store_unavailable");
    let open = check(&region, "api", &json!("a"));
    assert_eq!((&open["allowed"], &open["degraded"]), (&json!(true), &json!(true)));
    let _root = addresses.start(POLICIES);
    while !degraded(&region).iter().all(|(cause, _)| cause != "unreachable") {}
    // The store in memory of the root has forgotten the key.
    assert_eq!(check(&region, "shut", &json!("a"))["remaining"], 4);
}

#[test]
fn a_reload_replaces_the_policies_that_the_root_is_asked_for() {
    let root = Running::start("[policies.api]\nlimits = [\"7/1h\"]\n");
    let write = |policies: &str| {
        let store =
            format!("[server]\nallow_removal = true\n[store]\nurl = \"tidegate://{}\"\ntimeout = \"10s\"\n", root.resp);
        crate::reload::file("region", &(store + policies))
    };
    let file = write("[policies.api]\nlimits = [\"5/1h\"]\n[policies.old]\nlimits = [\"5/1h\"]\n");
    let region = Running::start_from_file(&file);
    wait_for(&region, "unknown_policy");
    wait_for(&region, "other_limits");
    // No request is sent: the removed policy and the corrected one are healthy, and the new one is verified.
    write("[policies.api]\nlimits = [\"7/1h\"]\n[policies.new]\nlimits = [\"5/1h\"]\n");
    region.reload();
    while !wait_for(&region, "unknown_policy").contains("no policy `new`:") {
        std::thread::yield_now();
    }
    write("[policies.api]\nlimits = [\"7/1h\"]\n");
    region.reload();
    while !degraded(&region).is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_policy_in_shadow_mode_in_a_region_never_denies() {
    let policy = |name: &str, mode: &str| format!("[policies.{name}]\nlimits = [\"2/1h\"]\nmode = \"{mode}\"\n");
    let root = Running::start(&(policy("api", "enforce") + &policy("other", "enforce")));
    let store = format!("[store]\nurl = \"tidegate://{}\"\ntimeout = \"10s\"\n", root.resp);
    let region = Running::start(&(store + &policy("api", "shadow") + &policy("other", "enforce")));
    for reason in ["allowed", "allowed", "shadow"] {
        let body = check(&region, "api", &json!("a"));
        assert_eq!((&body["allowed"], &body["reason"]), (&json!(true), &json!(reason)), "{body}");
    }
    assert_eq!(check(&root, "api", &json!("a"))["reason"], "limited");
    let both = json!({ "checks": [{ "policy": "api", "key": "a" }, { "policy": "other", "key": "a" }] });
    let body = post(region.http, "/v1/check", &both).json();
    assert_eq!((&body["allowed"], &body["checks"][0]["reason"]), (&json!(true), &json!("shadow")), "{body}");
    let hold = json!({ "policy": "api", "key": "a", "cost": 1, "ttl_ms": 60_000 });
    let body = post(region.http, "/v1/reserve", &hold).json();
    assert_eq!((&body["allowed"], &body["reason"]), (&json!(true), &json!("shadow")), "{body}");
    let commit = json!({ "reservation": body["reservation"], "actual": 1 });
    assert_eq!(post(region.http, "/v1/commit", &commit).json()["known"], false, "there is no hold at the root");
    let lease = json!({ "policy": "api", "key": "a", "asked": 1, "ttl_ms": 1_000 });
    let body = post(region.http, "/v1/lease", &lease).json();
    assert_eq!((&body["reason"], &body["granted"]), (&json!("shadow"), &json!(0)), "{body}");
}
