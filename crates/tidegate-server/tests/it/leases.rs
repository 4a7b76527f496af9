//! Policies with leases: a service over Redis decides hot keys by itself, and returns what is left when it stops.

use serde_json::{Value, json};
use tidegate_server::{
    Server as Service,
    config::{Config, SettingSources},
};
use tidegate_testbed::Server;

use crate::{
    http::client::{get, post, request},
    resp::client::{Client, Reply},
    running::Running,
};

const POLICIES: &str = "[policies.api]\nlimits = [\"1000/1h\"]\nlease = \"10s\"\n";

fn config(redis: &Server) -> String {
    format!("[store]\nurl = \"{}\"\ntimeout = \"2s\"\n{POLICIES}", redis.url())
}

fn check(service: &Running) -> bool {
    post(service.http, "/v1/check", &json!({ "policy": "api", "key": "hot" })).status == 200
}

fn metric(service: &Running, line: &str) -> u64 {
    let text = String::from_utf8(get(service.http, "/metrics").body).expect("text");
    let value =
        text.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_else(|| panic!("no {line} in {text}"));
    value.trim().parse().expect("a number")
}

fn used(service: &Running) -> u64 {
    let state = get(service.http, "/v1/inspect?policy=api&key=hot").json();
    state["limits"][0]["used"].as_u64().expect("a number")
}

#[test]
fn two_services_admit_the_whole_limit_by_leases_and_not_a_unit_more() {
    let redis = Server::start();
    let services = [Running::start(&config(&redis)), Running::start(&config(&redis))];
    let admitted = (0..3_000).filter(|i| check(&services[i % 2])).count();
    assert!((900..=1_000).contains(&admitted), "{admitted}");
    let by_lease: u64 = services.iter().map(|s| metric(s, "tidegate_lease_decisions_total{by=\"lease\"} ")).sum();
    assert!(by_lease > 100, "{by_lease} of {admitted}");
    let repeated: u64 =
        services.iter().map(|s| metric(s, "tidegate_lease_decisions_total{by=\"remembered_denial\"} ")).sum();
    assert!(repeated > 100, "{repeated} denials");
    for service in &services {
        let decided = ["lease", "remembered_denial", "store"]
            .map(|by| metric(service, &format!("tidegate_lease_decisions_total{{by=\"{by}\"}} ")));
        assert_eq!(decided.iter().sum::<u64>(), 1_500, "{decided:?}");
        let units = |what: &str| metric(service, &format!("tidegate_lease_units{what} "));
        // Each request takes one unit. What is missing is in a lease that is being settled.
        let accounted = decided[0] + units("_returned_total") + units("_stranded_total") + units("_left");
        assert!(units("_total") >= accounted, "{accounted} of {}", units("_total"));
        let expired = metric(service, "tidegate_leases_expired_total ");
        assert_eq!(expired > 0, units("_stranded_total") > 0, "{expired}");
        assert!(metric(service, "tidegate_leases_total ") > 0);
    }
}

#[test]
fn every_transport_says_whether_a_lease_decided() {
    let redis = Server::start();
    let service = Running::start(&config(&redis));
    let request = json!({ "policy": "api", "key": "hot" });
    let first = post(service.http, "/v1/check", &request).json();
    assert_eq!((&first["allowed"], &first["leased"]), (&json!(true), &json!(false)), "the store decided: {first}");
    let mut resp = Client::connect3(service.resp);
    let by_lease = (0..500).find_map(|_| {
        let body = post(service.http, "/v1/check", &request).json();
        (body["leased"] == true).then_some(body)
    });
    let by_lease = by_lease.expect("a hot key is leased");
    assert_eq!((&by_lease["allowed"], &by_lease["degraded"]), (&json!(true), &json!(false)));
    assert!((0..500).any(|_| resp.call("TG.CHECK api hot FULL").field("leased") == Reply::Bool(true)));
    let checks = json!({ "checks": [{ "policy": "api", "key": "hot" }, { "policy": "api", "key": "other" }] });
    let several = post(service.http, "/v1/check", &checks).json();
    assert_eq!((&several["leased"], &several["checks"][0]["leased"]), (&json!(false), &json!(false)));
}

#[test]
fn the_overview_lists_the_leases_of_this_node_by_key() {
    let redis = Server::start();
    let policies = "[server]\nadmin_token = \"change-me\"\n\
        [policies.api]\nlimits = [\"1000/1h\"]\nlease = \"10s\"\n\
        [policies.secret]\nlimits = [\"1000/1h\"]\nlease = \"10s\"\nhide_keys = true\n";
    let config = format!("[store]\nurl = \"{}\"\ntimeout = \"2s\"\n{policies}", redis.url());
    let (service, other) = (Running::start(&config), Running::start(&config));
    for (policy, count) in [("api", 200), ("secret", 100)] {
        let body = json!({ "policy": policy, "key": "s3cr3t" });
        (0..count).for_each(|_| assert_eq!(post(service.http, "/v1/check", &body).status, 200));
    }
    let leases = |service: &Running, headers: &[(&str, &str)]| {
        request(service.http, "GET", "/v1/overview", headers, "").json()["store"]["leases"].clone()
    };
    // A proxy in front of the service: keys are not shown.
    let hidden = leases(&service, &[("x-forwarded-for", "192.0.2.1")]);
    assert!(!hidden.to_string().contains("s3cr3t"), "{hidden}");
    assert_eq!((&hidden["keys"][0]["keys"], &hidden["keys"][0]["label"]), (&json!("hidden"), &json!("")));
    let shown = leases(&service, &[("authorization", "Bearer change-me")]);
    let [first, second] = &shown["keys"].as_array().expect("a list")[..] else { panic!("two keys: {shown}") };
    assert_eq!((&first["policy"], &first["key"], &first["keys"]), (&json!("api"), &json!("s3cr3t"), &json!("plain")));
    assert_eq!(
        (&second["policy"], &second["key"], &second["keys"]),
        (&json!("secret"), &json!(null), &json!("hashed"))
    );
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"));
    assert!(number(first, "admitted") > number(second, "admitted"), "those with most decisions first: {shown}");
    assert!(number(first, "units") >= number(first, "left") && number(first, "ends_in_ms") <= 10_000, "{shown}");
    assert_eq!(number(&shown, "admitted") + number(&shown, "denied") + number(&shown, "asked"), 300);
    assert_eq!((number(&shown, "open"), number(&shown, "remembered")), (2, 2));
    // The hash leads to the key.
    let hash = second["label"].as_str().expect("a hash").replace('#', "%23");
    let path = format!("/v1/inspect?policy=secret&hash={hash}");
    let state = request(service.http, "GET", &path, &[("authorization", "Bearer change-me")], "").json();
    assert!(state["reservations"].as_array().is_some_and(|open| !open.is_empty()), "{state}");
    // Another node has no leases, and sees these in the state of the key.
    assert_eq!(leases(&other, &[("authorization", "Bearer change-me")])["keys"], json!([]));
    let path = "/v1/inspect?policy=api&key=s3cr3t";
    let state = request(other.http, "GET", path, &[("authorization", "Bearer change-me")], "").json();
    assert_eq!(state["reservations"][0]["kind"], "lease", "{state}");
}

#[test]
fn a_service_without_leases_reports_none() {
    let service = Running::start("[policies.api]\nlimits = [\"5/1h\"]\n");
    assert_eq!(get(service.http, "/v1/overview").json()["store"]["leases"], json!(null));
    let redis = Server::start();
    let policies = POLICIES.replace("lease = \"10s\"\n", "");
    let service = Running::start(&format!("[store]\nurl = \"{}\"\n{policies}", redis.url()));
    assert_eq!(get(service.http, "/v1/overview").json()["store"]["leases"], json!(null));
}

#[test]
fn a_service_that_stops_returns_what_is_left_of_its_leases() {
    let redis = Server::start();
    let (mut leaving, other) = (Running::start(&config(&redis)), Running::start(&config(&redis)));
    assert!((0..200).all(|_| check(&leaving)));
    assert!(metric(&leaving, "tidegate_lease_decisions_total{by=\"lease\"} ") > 0);
    assert_eq!(leaving.stop(), 0);
    assert_eq!(used(&other), 200, "the units that were admitted");
}

#[test]
fn a_lease_of_a_store_without_leases_is_refused_at_start() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config = Config::parse("test.toml", POLICIES, &SettingSources::default()).expect("a configuration");
    let store = crate::foreign_store::without_leases();
    let error = runtime
        .block_on(Service::start_with_store(config, SettingSources::default(), store))
        .expect_err("it is refused");
    let expected = "policy `api` has a `lease`, but the store `faulty` has no leases: remove `lease`, or use a Redis or another service";
    assert!(error.to_string().contains(expected), "{error}");
}
