//! The key that a viewer watches: its state, its denials, its policies, and its hash where keys are hidden.

use serde_json::{Value, json};

use super::{
    client::{get, post},
    dashboard::{CONFIG, TwoLimits, check},
    events::Events,
};
use crate::running::Running;

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
    for _ in 0..5 {
        check(&running, "api", &json!("alice"));
    }
    let denials = events.find("denials", |denials| denials["denials"] == 1);
    assert_eq!(
        (&denials["reason"], &denials["limit"], &denials["error"]),
        (&json!("limited"), &json!("5/1h"), &json!(0))
    );
    let counts = denials["counts"].as_array().expect("a list");
    assert_eq!((counts.len(), &denials["step_ms"]), (20, &json!(15_000)), "five minutes");
    assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), 1);
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
fn a_key_is_found_under_every_policy_that_knows_it() {
    let running = Running::start(CONFIG);
    for policy in ["next", "secret"] {
        check(&running, policy, &json!("alice"));
        check(&running, policy, &json!("alice"));
    }
    check(&running, "api", &json!("bob"));
    let known = |query: &str| Events::open(running.http, &format!("/v1/live?{query}"), &[]).next("policies");
    let names = |known: &Value| -> Vec<String> {
        let policies = known["policies"].as_array().expect("a list").iter();
        policies.map(|policy| policy["policy"].as_str().expect("text").to_owned()).collect()
    };
    let alice = known("policy=api&key=alice");
    assert_eq!(names(&alice), ["next", "secret"], "{alice}");
    let next = &alice["policies"][0];
    assert_eq!((&next["mode"], &next["used"], &next["denials"]), (&json!("shadow"), &json!(1), &json!(1)));
    assert_eq!((&next["key"], &next["limit"], &next["override"]), (&json!("alice"), &json!("1/1h"), &Value::Null));
    assert_eq!(
        (&alice["searched"], &alice["configured"], &alice["only_hidden"]),
        (&json!(3), &json!(3), &json!(false))
    );
    post(running.http, "/v1/override", &json!({ "policy": "api", "key": "alice", "kind": "ban", "for": "1h" }));
    let banned = known("policy=api&key=alice");
    assert_eq!(
        (names(&banned), &banned["policies"][0]["override"]["kind"]),
        (vec!["api".to_owned(), "next".to_owned(), "secret".to_owned()], &json!("ban"))
    );
    // A viewer who knows only the hash must not learn the key from a policy that shows it.
    let hash = get(running.http, "/v1/hits?policy=secret").json()["hardest"][0]["label"]
        .as_str()
        .expect("a hash")
        .replace('#', "%23");
    let hashed = known(&format!("policy=secret&hash={hash}"));
    assert_eq!((names(&hashed), &hashed["only_hidden"]), (vec!["secret".to_owned()], &json!(true)));
    assert!(!hashed.to_string().contains("alice"), "{hashed}");
}

#[test]
fn a_key_is_found_under_a_policy_whose_limit_with_the_fewest_units_left_is_unused() {
    let service = TwoLimits::start();
    service.spend("two", "alice", 5);
    let known = |key: &str| {
        let known = Events::open(service.running.http, &format!("/v1/live?policy=two&key={key}"), &[]).next("policies");
        known["policies"].as_array().expect("a list").clone()
    };
    let alice = known("alice");
    let used = alice.iter().map(|policy| (&policy["policy"], &policy["limit"], &policy["used"], &policy["remaining"]));
    assert_eq!(used.collect::<Vec<_>>(), [(&json!("two"), &json!("20/1d"), &json!(5), &json!(15))], "{alice:?}");
    // The limits of an override are considered, too.
    service.set_override("one", "bob", json!({ "kind": "limits", "limits": ["3/1m", "20/1d"] }));
    service.spend("one", "bob", 5);
    let bob = known("bob");
    let used = bob.iter().map(|policy| (&policy["policy"], &policy["limit"], &policy["used"], &policy["capacity"]));
    assert_eq!(used.collect::<Vec<_>>(), [(&json!("one"), &json!("20/1d"), &json!(5), &json!(20))], "{bob:?}");
}

#[test]
fn a_hidden_key_is_inspected_reset_and_overridden_by_its_hash() {
    let running = Running::start(CONFIG);
    check(&running, "secret", &json!("alice"));
    assert_eq!(check(&running, "secret", &json!("alice")), 429);
    let hash = get(running.http, "/v1/hits?policy=secret").json()["hardest"][0]["label"].clone();
    let query = hash.as_str().expect("a hash").replace('#', "%23");
    let state = get(running.http, &format!("/v1/inspect?policy=secret&hash={query}")).json();
    assert_eq!((&state["label"], &state["limits"][0]["used"]), (&hash, &json!(1)));
    let by_hash = json!({ "policy": "secret", "hash": hash });
    assert_eq!(post(running.http, "/v1/reset", &by_hash).json()["reset"], true);
    assert_eq!(check(&running, "secret", &json!("alice")), 200);
    let ban = json!({ "policy": "secret", "hash": hash, "kind": "ban", "for": "1h" });
    assert_eq!(post(running.http, "/v1/override", &ban).status, 200);
    assert_eq!(check(&running, "secret", &json!("alice")), 403);
    assert_eq!(post(running.http, "/v1/override/lift", &by_hash).json()["lifted"], true);
    assert_eq!(check(&running, "secret", &json!("alice")), 429);
    // A key that a person has inspected is remembered, so that its page can be loaded again.
    let inspected = get(running.http, "/v1/inspect?policy=secret&key=never-denied").json()["label"].clone();
    let again = inspected.as_str().expect("a hash").replace('#', "%23");
    assert_eq!(get(running.http, &format!("/v1/inspect?policy=secret&hash={again}")).status, 200);
    for (path, field) in [
        ("/v1/inspect?policy=secret&hash=%230000000000000000".to_owned(), "hash"),
        (format!("/v1/inspect?policy=api&hash={query}"), "hash"),
        (format!("/v1/live?policy=secret&key=alice&hash={query}"), "hash"),
        (format!("/v1/live?hash={query}"), "policy"),
    ] {
        let refused = get(running.http, &path);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{path}");
    }
    for body in [json!({ "policy": "secret", "hash": hash, "key": "alice" }), json!({ "hash": hash })] {
        assert_eq!(post(running.http, "/v1/reset", &body).status, 400, "{body}");
    }
    assert_eq!(post(running.http, "/v1/check", &by_hash).status, 400, "a decision needs the key");
}
