//! A store of somebody else that hangs or panics: each request gets the answer of its policy's `on_store_failure`.

use std::future::pending;

use serde_json::{Value, json};
use tidegate::{
    Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Limiter, Metric, MetricKind, Op, Policy,
    PolicySource, Refund, ReservationId, Reserved, ReservedAll, Settled, Spend, Store, StoreError, StoreReport,
    Timestamp,
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
[policies.local]
limits = ["2/1h"]
on_store_failure = { local = 0.5 }
"#;

/// A store that never answers a decision and panics at every other operation. If it is immediate, decisions panic too.
struct FaultyStore {
    is_immediate: bool,
}

/// A store that other processes may use, and that has no leases.
pub(crate) fn without_leases() -> impl Store + 'static {
    FaultyStore { is_immediate: false }
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

    async fn reserve(&self, _: &Policy, _: &Key<'_>, _: Cost, _: Hold) -> Result<Reserved, StoreError> {
        self.fail().await
    }

    async fn reserve_all(&self, _: &[Spend<'_>], _: Hold) -> Result<ReservedAll, StoreError> {
        self.fail().await
    }

    async fn lease(&self, _: &Policy, _: &Key<'_>, _: &Lease) -> Result<Leased, StoreError> {
        self.fail().await
    }

    async fn commit(&self, _: &ReservationId, _: &[u64], _: &dyn PolicySource) -> Result<Settled, StoreError> {
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

#[test]
fn the_failure_choice_decides_about_holds_and_leases_and_its_ids_are_never_known() {
    for is_immediate in [false, true] {
        let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate });
        let reserve = |policy: &str| {
            let answer = post(service.http, "/v1/reserve", &json!({ "policy": policy, "key": "k", "ttl_ms": 60_000 }));
            assert_eq!(answer.json()["degraded"], true, "{}", answer.json());
            answer
        };
        let closed = reserve("closed");
        assert_eq!((closed.status, &closed.json()["reservation"]), (503, &Value::Null));
        let open = reserve("open").json();
        assert_eq!((&open["allowed"], &open["ttl_ms"]), (&json!(true), &json!(60_000)));
        for (path, field, value) in [("commit", "actual", 1), ("renew", "ttl_ms", 1), ("settle", "spent", 0)] {
            let body = json!({ "reservation": open["reservation"], field: value });
            let answer = post(service.http, &format!("/v1/{path}"), &body);
            assert_eq!((answer.status, &answer.json()["known"]), (200, &json!(false)), "{path}: {}", answer.json());
        }
        // Half of the limit, in the memory of this process.
        let local = reserve("local").json();
        assert_eq!((&local["allowed"], reserve("local").status), (&json!(true), 429));
        let commit = json!({ "reservation": local["reservation"], "actual": 0 });
        assert_eq!(post(service.http, "/v1/commit", &commit).json()["known"], true);
        assert_eq!(reserve("local").status, 200, "its units came back");
        let several = |policy| json!({ "ttl_ms": 1_000, "checks": [{ "policy": "open", "key": "k" }, { "policy": policy, "key": "k" }] });
        assert_eq!(post(service.http, "/v1/reserve", &several("open")).status, 200);
        assert_eq!(post(service.http, "/v1/reserve", &several("closed")).status, 503);
        let lease = |policy: &str| {
            post(service.http, "/v1/lease", &json!({ "policy": policy, "key": "k", "asked": 5, "ttl_ms": 100 }))
        };
        let (open, closed) = (lease("open"), lease("closed"));
        assert_eq!((open.status, &open.json()["granted"], &open.json()["degraded"]), (200, &json!(5), &json!(true)));
        assert_eq!((closed.status, &closed.json()["granted"]), (503, &json!(0)));
        let metrics = String::from_utf8(get(service.http, "/metrics").body).expect("text");
        for name in ["holds_granted_total", "unknown_commits_total"] {
            let line = format!("tidegate_{name}{{policy=\"open\"}}");
            assert!(!metrics.contains(&line), "an id without a hold is not one: {metrics}");
        }
    }
}

#[test]
fn a_commit_that_the_store_does_not_answer_is_an_error_and_can_be_repeated() {
    let service = Running::start_with_store(CONFIG, FaultyStore { is_immediate: false });
    let policy = Policy::new("open", ["2/1h".parse().expect("a limit")]).expect("a policy");
    let id = ReservationId::new(&policy, [7; 16], &[1]).expect("an id").to_string();
    for _ in 0..2 {
        let answer = post(service.http, "/v1/commit", &json!({ "reservation": id, "actual": 1 }));
        assert_eq!(answer.status, 503, "{}", answer.json());
        assert!(answer.json()["error"].to_string().contains("the disk is gone"), "{}", answer.json());
    }
}

/// A store without reservations.
struct PlainStore(Limiter);

impl Store for PlainStore {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        Store::decide(&self.0, op, policy, key, cost).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        Store::decide_all(&self.0, op, spends).await
    }

    async fn refund(&self, _: &Policy, _: &Key<'_>, _: Cost, _: Timestamp) -> Result<Refund, StoreError> {
        Err(StoreError::Unsupported { operation: "refund" })
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        Store::reset(&self.0, policy, key).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        Store::inspect(&self.0, policy, key).await
    }
}

#[test]
fn a_store_without_reservations_says_so_and_is_not_a_failed_one() {
    let service = Running::start_with_store(CONFIG, PlainStore(Limiter::default()));
    let mut client = Wire::try_connect(service.resp).expect("the service listens");
    let one = json!({ "policy": "open", "key": "k", "ttl_ms": 1_000 });
    let several =
        json!({ "ttl_ms": 1_000, "checks": [{ "policy": "open", "key": "k" }, { "policy": "open", "key": "l" }] });
    let lease = json!({ "policy": "open", "key": "k", "asked": 1, "ttl_ms": 1_000 });
    for (path, body, operation) in
        [("/v1/reserve", one, "reserve"), ("/v1/reserve", several, "reserve_all"), ("/v1/lease", lease, "lease")]
    {
        let answer = post(service.http, path, &body);
        let expected = format!("this store has no {operation}: use another store");
        assert_eq!((answer.status, &answer.json()["error"]), (501, &json!(expected)));
    }
    let reply = client.command(["TG.RESERVE", "open", "k", "1", "1000"]);
    assert!(matches!(&reply, Reply::Error(error) if error.starts_with("ERR this store has no reserve")), "{reply:?}");
    assert_eq!(post(service.http, "/v1/check", &json!({ "policy": "open", "key": "k" })).json()["degraded"], false);
}
