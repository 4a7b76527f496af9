//! Policies with leases: a service over Redis decides hot keys by itself, and returns what is left when it stops.

use serde_json::json;
use tidegate_server::{
    Server as Service,
    config::{Config, SettingSources},
};
use tidegate_testbed::Server;

use crate::{
    http::client::{get, post},
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
