//! A store of somebody else that hangs or panics: each request gets the answer of its policy's `on_store_failure`.

use std::future::pending;

use serde_json::{Value, json};
use tidegate::{
    Cost, Decision, Decisions, Inspection, Key, Metric, MetricKind, Op, Policy, Refund, Spend, Store, StoreError,
    StoreReport, Timestamp,
};
use tidegate_testbed::{Reply, Wire};

use crate::{
    http::client::{get, post},
    running::Running,
};

const CONFIG: &str = r#"
[store]
timeout = "10ms"
[policies.open]
limits = ["2/1h"]
[policies.closed]
limits = ["2/1h"]
on_store_failure = "closed"
"#;

/// A store that never answers a decision and panics at every other operation. If it is immediate, decisions panic too.
struct FaultyStore {
    is_immediate: bool,
}

impl FaultyStore {
    async fn fail<T>(&self) -> Result<T, StoreError> {
        assert!(!self.is_immediate, "the disk is gone");
        pending().await
    }
}

impl Store for FaultyStore {
    async fn decide(&self, _: Op, _: &Policy, _: &Key<'_>, _: Cost) -> Result<Decision, StoreError> {
        self.fail().await
    }

    async fn decide_all(&self, _: Op, _: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        self.fail().await
    }

    async fn refund(&self, _: &Policy, _: &Key<'_>, _: Cost, _: Timestamp) -> Result<Refund, StoreError> {
        panic!("the disk is gone")
    }

    async fn reset(&self, _: &Policy, _: &Key<'_>) -> Result<bool, StoreError> {
        panic!("the disk is gone")
    }

    async fn inspect(&self, _: &Policy, _: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        panic!("the disk is gone")
    }

    fn is_immediate(&self) -> bool {
        self.is_immediate
    }

    fn report(&self) -> StoreReport {
        assert!(!self.is_immediate, "the disk is gone");
        let mut report = StoreReport::new("faulty");
        let metric = |name, label, value: &str| Metric {
            name,
            help: "Writes",
            kind: MetricKind::Counter,
            label,
            values: vec![(value.to_owned(), 1)],
        };
        report.metrics = vec![
            metric("disk writes{", "", ""),
            metric("disk_reads", "of file", "a"),
            metric("disk_writes", "file", "a\"} 1\n# EOF\n"),
        ];
        report
    }
}

/// Requests every kind of decision over HTTP and RESP, twice: the first failure must not break the second answer.
fn assert_policies_decide(service: &Running, problem: &str) {
    let one = |policy: &str| json!({ "policy": policy, "key": "alice" });
    for _ in 0..2 {
        assert_eq!(post(service.http, "/v1/check", &one("open")).status, 200);
        assert_eq!(post(service.http, "/v1/check", &one("closed")).status, 503);
        let several = |policy| json!({ "checks": [one("open"), one(policy)] });
        assert_eq!(post(service.http, "/v1/check", &several("open")).status, 200);
        assert_eq!(post(service.http, "/v1/check", &several("closed")).status, 503);
        let mut resp = Wire::try_connect(service.resp).expect("the service listens");
        for (policy, allowed) in [("open", 1), ("closed", 0)] {
            let Reply::Array(reply) = resp.command(["TG.CHECK", policy, "alice"]) else { panic!("no decision") };
            assert_eq!(reply[0], Reply::Integer(allowed), "{policy}");
        }
    }
    let ready = get(service.http, "/readyz").json();
    let causes = ready["degraded"].as_array().expect("a list");
    let failed = causes.iter().find(|state| state["cause"] == "store_failed").unwrap_or_else(|| panic!("{ready}"));
    assert!(failed["detail"].as_str().is_some_and(|detail| detail.contains(problem)), "{failed}");
}

#[test]
fn a_store_that_never_answers_is_given_the_timeout_of_the_settings() {
    let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate: false });
    assert_policies_decide(&service, "the store did not answer within 10ms");
}

#[test]
fn a_store_that_panics_at_once_costs_one_decision_its_store() {
    let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate: true });
    assert_policies_decide(&service, "the store panicked: the disk is gone");
}

#[test]
fn the_names_and_labels_of_a_store_do_not_break_the_metrics() {
    let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate: false });
    let metrics = String::from_utf8(get(service.http, "/metrics").body).expect("text");
    let lines: Vec<_> = metrics.lines().filter(|line| line.contains("disk")).collect();
    assert!(lines.iter().all(|line| line.contains("disk_writes")), "{lines:#?}");
    let value = "tidegate_disk_writes_total{file=\"a\\\"} 1\\n# EOF\\n\"} 1";
    assert!(lines.contains(&value), "{lines:#?}");
}

#[test]
fn a_report_that_panics_shows_a_store_that_does_not_answer() {
    let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate: true });
    for _ in 0..2 {
        assert_eq!(get(service.http, "/readyz").json()["store_answers"], false);
        assert_eq!(get(service.http, "/metrics").status, 200);
    }
}

#[test]
fn a_store_that_panics_at_an_operation_costs_only_that_operation() {
    let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate: false });
    let request: Value = json!({ "policy": "open", "key": "alice" });
    for _ in 0..2 {
        let answer = post(service.http, "/v1/reset", &request);
        assert_eq!(answer.status, 503, "{}", answer.json());
        assert!(answer.json().to_string().contains("the store panicked: the disk is gone"), "{}", answer.json());
    }
}
