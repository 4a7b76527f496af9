//! Bad input to reservations: a clear answer over HTTP and RESP, and no change.

use serde_json::{Value, json};

use super::{id, service_with_clock, used};
use crate::{
    grpc::{GrpcClient, descriptor, hits},
    http::client::post,
    resp::client::{Client, Reply},
    running::Running,
};

/// Sends a request over HTTP that must be refused.
#[track_caller]
fn refused(service: &Running, path: &str, body: &Value, status: u16, field: &str, message: &str) {
    let answer = post(service.http, path, body);
    let error = answer.json();
    assert_eq!((answer.status, &error["field"]), (status, &json!(field)), "{path} {body} gives {error}");
    assert!(error["error"].as_str().is_some_and(|text| text.contains(message)), "{path} {body} gives {error}");
}

#[test]
fn a_ttl_out_of_range_is_refused() {
    let (service, _) = service_with_clock();
    let mut client = Client::connect(service.resp);
    for (policy, ttl, right) in [
        ("tokens", 0, "1ms to 1h"),
        ("tokens", 3_600_001, "1ms to 1h"),
        ("jobs", 60_001, "1ms to 1m"),
        ("jobs", u64::MAX, "1m"),
    ] {
        let body = json!({ "policy": policy, "key": "k", "ttl_ms": ttl });
        refused(&service, "/v1/reserve", &body, 400, "ttl_ms", right);
        let error = client.call(&format!("TG.RESERVE {policy} k 1 {ttl}"));
        assert!(error.error().starts_with("ERR ") && error.error().contains(right), "{error:?}");
    }
    let body = json!({ "policy": "tokens", "key": "k", "asked": 1, "ttl_ms": 10_001 });
    refused(&service, "/v1/lease", &body, 400, "ttl_ms", "1ms to 10s");
    assert!(client.call("TG.LEASE tokens k 1 10001").error().contains("1ms to 10s"));
    let reservation =
        id(&post(service.http, "/v1/reserve", &json!({ "policy": "jobs", "key": "k", "ttl_ms": 60_000 })));
    let body = json!({ "reservation": reservation, "ttl_ms": 60_001 });
    refused(&service, "/v1/renew", &body, 400, "ttl_ms", "1ms to 1m");
    assert!(client.call(&format!("TG.RENEW {reservation} 60001")).error().contains("1ms to 1m"));
    for wrong in ["x", "-1", "1.5", ""] {
        let error = client.call(&format!("TG.RESERVE tokens k 1 {wrong}"));
        assert!(error.error().contains("is not a whole number: use milliseconds"), "{error:?}");
    }
    refused(&service, "/v1/reserve", &json!({ "policy": "tokens", "key": "k" }), 400, "ttl_ms", "needs `ttl_ms`");
    assert_eq!(used(&service, "tokens", "k"), 0);
}

#[test]
fn an_unknown_id_changes_nothing_and_text_that_is_not_an_id_is_refused() {
    let (service, _) = service_with_clock();
    let (other, _) = service_with_clock();
    let mut client = Client::connect(service.resp);
    let reserve = json!({ "policy": "tokens", "key": "k", "cost": 10, "ttl_ms": 60_000 });
    let reservation = id(&post(service.http, "/v1/reserve", &reserve));
    // An id of the same key in another store, and an id with another random number.
    let foreign = id(&post(other.http, "/v1/reserve", &reserve));
    let place = reservation.find('.').expect("two parts") + 1;
    let first = if reservation[place..].starts_with('A') { "B" } else { "A" };
    let guessed = format!("{}{first}{}", &reservation[..place], &reservation[place + 1..]);
    for unknown in [&foreign, &guessed] {
        for (path, body) in [
            ("/v1/commit", json!({ "reservation": unknown, "actual": 0 })),
            ("/v1/commit", json!({ "reservation": unknown, "actual": [0, 0] })),
            ("/v1/release", json!({ "reservation": unknown })),
            ("/v1/renew", json!({ "reservation": unknown, "ttl_ms": 1 })),
            ("/v1/settle", json!({ "reservation": unknown, "spent": 0 })),
        ] {
            let answer = post(service.http, path, &body);
            assert_eq!((answer.status, &answer.json()["known"]), (200, &json!(false)), "{path}: {}", answer.json());
        }
        for command in ["COMMIT {id} 0", "RELEASE {id}", "RENEW {id} 1", "SETTLE {id} 0"] {
            assert_eq!(client.call(&format!("TG.{}", command.replace("{id}", unknown))), Reply::Int(0), "{command}");
        }
    }
    for text in ["", "x", "ntokens", "ntokens.AAAA", &reservation[1..], &"x".repeat(201)] {
        refused(
            &service,
            "/v1/release",
            &json!({ "reservation": text }),
            400,
            "reservation",
            "not the id of a reservation",
        );
        assert!(client.call(&format!("TG.RELEASE {text}")).error().contains("not the id of a reservation"), "{text}");
    }
    assert_eq!(used(&service, "tokens", "k"), 10);
}

#[test]
fn a_lease_is_not_committed_and_a_hold_is_not_settled() {
    let (service, _) = service_with_clock();
    let mut client = Client::connect(service.resp);
    let lease =
        id(&post(service.http, "/v1/lease", &json!({ "policy": "tokens", "key": "k", "asked": 10, "ttl_ms": 5_000 })));
    let hold =
        id(&post(service.http, "/v1/reserve", &json!({ "policy": "tokens", "key": "k", "cost": 5, "ttl_ms": 5_000 })));
    for (path, body) in [
        ("/v1/commit", json!({ "reservation": lease, "actual": 0 })),
        ("/v1/release", json!({ "reservation": lease })),
        ("/v1/renew", json!({ "reservation": lease, "ttl_ms": 1 })),
        ("/v1/settle", json!({ "reservation": hold, "spent": 0 })),
    ] {
        let answer = post(service.http, path, &body);
        assert_eq!((answer.status, &answer.json()["known"]), (200, &json!(false)), "{path}: {}", answer.json());
    }
    assert_eq!(client.call(&format!("TG.COMMIT {lease} 0")), Reply::Int(0));
    assert_eq!(client.call(&format!("TG.SETTLE {hold} 0")), Reply::Int(0));
    assert_eq!(used(&service, "tokens", "k"), 15);
    refused(&service, "/v1/settle", &json!({ "reservation": lease, "spent": 11 }), 400, "spent", "at most its units");
    assert!(client.call(&format!("TG.SETTLE {lease} 11")).error().contains("at most its units"));
    let other_key = json!({ "policy": "tokens", "key": "other", "asked": 1, "ttl_ms": 1, "settle": { "reservation": lease, "spent": 0 } });
    refused(&service, "/v1/lease", &other_key, 400, "settle", "another policy or key");
    let too_much = json!({ "policy": "tokens", "key": "k", "asked": 1, "ttl_ms": 1, "settle": { "reservation": lease, "spent": 11 } });
    refused(&service, "/v1/lease", &too_much, 400, "settle.spent", "at most its units");
    let too_few = json!({ "policy": "tokens", "key": "k", "asked": 1, "least": 2, "ttl_ms": 1 });
    refused(&service, "/v1/lease", &too_few, 400, "least", "must not exceed");
    assert!(client.call("TG.LEASE tokens k 1 1 LEAST 2").error().contains("must not exceed"));
}

#[test]
fn requests_other_than_reserve_and_peek_are_refused_under_an_in_flight_limit() {
    let service = GrpcClient::start(&format!(
        "{}\n[[envoy]]\ndomain = \"edge\"\ndescriptors = [[\"job\"]]\npolicy = \"jobs\"\n",
        super::CONFIG
    ));
    let running = &service.running;
    let mut client = Client::connect(running.resp);
    let check = json!({ "policy": "jobs", "key": "k" });
    for path in ["/v1/check", "/v1/charge"] {
        refused(running, path, &check, 400, "policy", "`2/inflight`, which counts open holds: reserve instead");
    }
    let several = json!({ "checks": [{ "policy": "tokens", "key": "k" }, check] });
    refused(running, "/v1/check", &several, 400, "checks", "reserve instead");
    let supplied = json!({ "limits": ["4/inflight"], "key": "k" });
    refused(running, "/v1/check", &supplied, 400, "limits", "reserve instead");
    let lease = json!({ "policy": "jobs", "key": "k", "asked": 1, "ttl_ms": 1 });
    refused(running, "/v1/lease", &lease, 400, "policy", "reserve instead");
    for command in
        ["CHECK jobs k", "CHARGE jobs k 1", "CHECKALL tokens k 1 jobs k 1", "LIMIT k 4/inflight", "LEASE jobs k 1 1"]
    {
        let error = client.call(&format!("TG.{command}"));
        assert!(error.error().starts_with("ERR ") && error.error().contains("reserve instead"), "{command}: {error:?}");
    }
    let status = service.refusal(hits(1, descriptor(&[("job", "k")])));
    assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status:?}");
    assert!(status.message().contains("reserve instead"), "{status:?}");
    assert_eq!(used(running, "tokens", "k"), 0);
    assert_eq!(client.call("TG.PEEK jobs k").numbers()[..3], [1, 2, 2]);
    let supplied = json!({ "limits": ["4/inflight"], "key": "k", "ttl_ms": 1_000 });
    let reservation = id(&post(running.http, "/v1/reserve", &supplied));
    let body = json!({ "reservation": reservation });
    assert_eq!(post(running.http, "/v1/release", &body).json()["known"], true, "the id contains supplied limits");
}

#[test]
fn more_requests_than_one_decision_may_have_are_refused() {
    let (service, _) = service_with_clock();
    for count in [0, 65] {
        let checks = vec![json!({ "policy": "tokens", "key": "k" }); count];
        refused(&service, "/v1/reserve", &json!({ "checks": checks, "ttl_ms": 1 }), 400, "checks", "use 1 to 64");
    }
    let inner = json!({ "ttl_ms": 1, "checks": [{ "policy": "tokens", "key": "k", "ttl_ms": 1 }] });
    refused(&service, "/v1/reserve", &inner, 400, "ttl_ms", "beside `checks`");
    let mut reservation = String::new();
    for _ in 0..2 {
        reservation =
            id(&post(service.http, "/v1/reserve", &json!({ "policy": "tokens", "key": "k", "ttl_ms": 1_000 })));
    }
    for actual in [json!([]), json!([1, 2]), json!(vec![1; 1_000])] {
        let body = json!({ "reservation": reservation, "actual": actual });
        refused(&service, "/v1/commit", &body, 400, "actual", "one number for all, or one for each");
    }
    let mut client = Client::connect(service.resp);
    assert!(client.call(&format!("TG.COMMIT {reservation} 1 2")).error().contains("one number for all"));
    assert!(client.call(&format!("TG.COMMIT {reservation} FULL")).error().contains("wrong number of arguments"));
    assert_eq!(used(&service, "tokens", "k"), 2);
}

#[test]
fn fields_and_arguments_of_the_wrong_form_are_refused() {
    let (service, _) = service_with_clock();
    let mut client = Client::connect(service.resp);
    let reservation =
        id(&post(service.http, "/v1/reserve", &json!({ "policy": "tokens", "key": "k", "ttl_ms": 1_000 })));
    for (path, body, field, message) in [
        ("/v1/check", json!({ "policy": "tokens", "key": "k", "ttl_ms": 1 }), "ttl_ms", "only /v1/reserve"),
        ("/v1/peek", json!({ "policy": "tokens", "key": "k", "expires": "spent" }), "expires", "only /v1/reserve"),
        (
            "/v1/reserve",
            json!({ "policy": "tokens", "key": "k", "ttl_ms": 1, "expires": "never" }),
            "expires",
            "released or spent",
        ),
        ("/v1/reserve", json!({ "policy": "tokens", "key": "k", "ttl_ms": -1 }), "ttl_ms", "not a valid request"),
        ("/v1/reserve", json!({ "policy": "tokens", "key": "k", "ttl_ms": 1, "cost": 0 }), "cost", "1000000000000"),
        ("/v1/commit", json!({ "reservation": reservation }), "", "missing field `actual`"),
        ("/v1/commit", json!({ "reservation": reservation, "actual": -1 }), "actual", "whole number of 0 or more"),
        ("/v1/commit", json!({ "reservation": reservation, "actual": 1.5 }), "actual", "whole number of 0 or more"),
        ("/v1/commit", json!({ "reservation": reservation, "actual": 1_000_000_000_001_u64 }), "actual", "use 0 to"),
        ("/v1/commit", json!([reservation, 1]), "", "expected an object such as {\"reservation\""),
        ("/v1/release", json!({ "reservation": reservation, "actual": 1 }), "actual", "unknown field"),
        ("/v1/lease", json!({ "policy": "tokens", "key": "k", "asked": 0, "ttl_ms": 1 }), "asked", "1000000000000"),
        ("/v1/settle", json!({ "reservation": reservation, "spent": 1_000_000_000_001_u64 }), "spent", "use 0 to"),
        (
            "/v1/lease",
            json!({ "policy": "tokens", "key": "k", "asked": 1, "ttl_ms": 1,
                    "settle": { "reservation": reservation, "spent": 1_000_000_000_001_u64 } }),
            "settle.spent",
            "use 0 to",
        ),
        ("/v1/reserve", json!({ "checks": [], "policy": "tokens", "ttl_ms": 1 }), "checks", "`ttl_ms` and `expires`"),
    ] {
        refused(&service, path, &body, 400, field, message);
    }
    for (command, message) in [
        ("RESERVE tokens k 0 1", "1000000000000"),
        ("RESERVE tokens k 1 1 FOREVER", "is not an option"),
        ("RESERVE tokens k 1", "wrong number of arguments"),
        ("COMMIT x -1", "use 0 to 1000000000000"),
        ("RENEW x soon", "use milliseconds"),
        ("LEASE tokens k 1 1 SETTLE x", "wrong number of arguments"),
        ("LEASE tokens k 1 1 SETTLE x 1", "not the id of a reservation"),
        ("SETTLE x many", "use 0 to 1000000000000"),
    ] {
        let error = client.call(&format!("TG.{command}"));
        assert!(error.error().starts_with("ERR ") && error.error().contains(message), "{command}: {error:?}");
    }
    assert_eq!(used(&service, "tokens", "k"), 1);
}

#[test]
fn an_id_of_a_policy_that_has_changed_still_works_and_one_of_a_removed_policy_is_refused() {
    let folder = tempfile::tempdir().expect("a writable directory");
    let file = folder.path().join("tidegate.toml");
    let write =
        |policies: &str| std::fs::write(&file, format!("[server]\nallow_removal = true\n{policies}")).expect("a file");
    let policy = |name: &str, limit: &str| format!("[policies.{name}]\nlimits = [\"{limit}\"]\n");
    write(&[policy("tokens", "100/1h"), policy("kept", "5/1h")].concat());
    let service = Running::start_from_file(&file);
    let mut client = Client::connect(service.resp);
    let reserve = json!({ "policy": "tokens", "key": "k", "cost": 50, "ttl_ms": 600_000 });
    let (first, second) =
        (id(&post(service.http, "/v1/reserve", &reserve)), id(&post(service.http, "/v1/reserve", &reserve)));
    write(&[policy("tokens", "80/2h"), policy("kept", "5/1h")].concat());
    service.reload();
    assert_eq!(post(service.http, "/v1/reserve", &reserve).status, 429, "a changed limit applies at once");
    let committed = post(service.http, "/v1/commit", &json!({ "reservation": first, "actual": 10 })).json();
    assert_eq!((&committed["known"], &committed["limit"]), (&json!(true), &json!("80/2h")), "{committed}");
    assert_eq!(committed["used"], 60);
    let both = json!({ "ttl_ms": 600_000, "checks": [
        { "policy": "tokens", "key": "k", "cost": 5 }, { "policy": "kept", "key": "k", "cost": 5 },
    ] });
    let several = id(&post(service.http, "/v1/reserve", &both));
    write(&policy("kept", "5/1h"));
    service.reload();
    let gone = "the policy `tokens` of this reservation does not exist any more: the reservation ends at its ttl";
    for (path, body) in [
        ("/v1/commit", json!({ "reservation": second, "actual": 10 })),
        ("/v1/release", json!({ "reservation": second })),
        ("/v1/renew", json!({ "reservation": second, "ttl_ms": 1 })),
        ("/v1/settle", json!({ "reservation": second, "spent": 1 })),
    ] {
        refused(&service, path, &body, 404, "reservation", gone);
    }
    assert_eq!(client.call(&format!("TG.COMMIT {second} 10")).error(), format!("ERR {gone}"));
    // The request of a policy that still exists is settled, although the id names the removed one.
    let settled = post(service.http, "/v1/commit", &json!({ "reservation": several, "actual": [1, 2] })).json();
    assert_eq!((&settled["known"], &settled["limit"]), (&json!(true), &json!("5/1h")), "{settled}");
    assert_eq!((settled["policy"].as_str(), used(&service, "kept", "k")), (None, 2), "{settled}");
}

#[test]
fn an_override_counts_open_holds_only_if_the_policy_does() {
    let (service, _) = service_with_clock();
    let other = |policy: &str, limit: &str| json!({ "policy": policy, "key": "k", "kind": "limits", "limits": [limit], "permanent": true });
    refused(&service, "/v1/override", &other("tokens", "1/inflight"), 400, "limits", "use limits with a window");
    assert_eq!(post(service.http, "/v1/override", &other("jobs", "1/inflight")).status, 200);
    let reserve = json!({ "policy": "jobs", "key": "k", "ttl_ms": 1_000 });
    let (first, second) = (post(service.http, "/v1/reserve", &reserve), post(service.http, "/v1/reserve", &reserve));
    assert_eq!((first.status, second.status), (200, 429));
    assert_eq!(second.json()["limit"], "1/inflight");
}
