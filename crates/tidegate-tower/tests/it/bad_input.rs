//! Settings that can't work: each is a clear error, when a layer is built and not at the first request.

use std::{
    convert::Infallible,
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate::{Cost, Hold, Key, Policy, ReservationBounds};
use tidegate_tower::{
    RateLimitLayer, Rule,
    caller::{Budget, Call},
    key::Global,
};
use tower::{Layer as _, ServiceExt as _};

use crate::test_server::{limiter, policy};

/// The message of the panic, or what was built.
fn built<T>(build: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(build)).map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("text")).to_owned(),
    })
}

fn with_max_hold(max: Duration) -> Policy {
    let bounds = ReservationBounds::default().with_max_hold(max).expect("in range");
    policy("api", &["4/inflight"]).with_reservation_bounds(bounds)
}

#[test]
fn a_ttl_out_of_range_is_an_error_when_the_layer_is_built() {
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    let micro = Duration::from_micros(1);
    let default = policy("api", &["4/inflight"]);
    let wrong = [
        (&default, Duration::ZERO, "1ms to the `max_hold` of the policies, 1h, not 0ns"),
        (&default, Duration::from_micros(999), "1ms to the `max_hold` of the policies, 1h, not 999µs"),
        (&default, hour + micro, "1ms to the `max_hold` of the policies, 1h, not 3600.000001s"),
        (&default, Duration::MAX, "1ms to the `max_hold` of the policies, 1h, not "),
        (&with_max_hold(minute), minute + micro, "1ms to the `max_hold` of the policies, 1m, not 60.000001s"),
        (&with_max_hold(24 * hour), 24 * hour + micro, "1ms to the `max_hold` of the policies, 1d, not 86400.000001s"),
    ];
    for (policy, ttl, expected) in wrong {
        let layer = built(|| RateLimitLayer::new(policy.clone()).hold(Hold::new(ttl)));
        let error = layer.expect_err("it is out of range");
        assert!(error.starts_with(&format!("the ttl of a hold is {expected}")), "{error}");
    }
    for (policy, ttl) in [
        (&default, Duration::from_millis(1)),
        (&default, hour),
        (&with_max_hold(minute), minute),
        (&with_max_hold(24 * hour), 24 * hour),
    ] {
        built(|| RateLimitLayer::new(policy.clone()).hold(Hold::new(ttl))).expect("in range");
    }
}

#[test]
fn the_shortest_max_hold_of_all_rules_and_tiers_bounds_the_ttl() {
    let seconds = |seconds| with_max_hold(Duration::from_secs(seconds));
    let tiers = Rule::tiers([("a", seconds(50)), ("b", seconds(20))], |_| "a").expect("two tiers");
    let layer = || RateLimitLayer::all([Rule::new(seconds(40)), tiers.clone()]);
    built(|| layer().hold(Hold::new(Duration::from_secs(20)))).expect("in range");
    let error = built(|| layer().hold(Hold::new(Duration::from_secs(21)))).expect_err("too long for one tier");
    assert_eq!(error, "the ttl of a hold is 1ms to the `max_hold` of the policies, 20s, not 21s");
}

/// Rules with different policies, so that each is a part of the decision.
fn rules(rules: usize, limit: &str) -> Vec<Rule> {
    (0..rules).map(|rule| Rule::new(policy(&format!("rule-{rule}"), &[limit])).key(Global)).collect()
}

#[tokio::test]
async fn a_layer_has_as_many_rules_as_a_decision_may_have_parts() {
    for (number, expected) in [(0, "not 0"), (65, "not 65")] {
        let error = built(|| RateLimitLayer::all(rules(number, "4/inflight"))).expect_err("no decision has as many");
        assert_eq!(error, format!("a layer has 1 to 64 rules, {expected}"));
    }
    for limit in ["4/inflight", "4/1m"] {
        let (_, limiter) = limiter();
        let layer = RateLimitLayer::all(rules(64, limit)).in_store(limiter.clone());
        let page = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
        });
        let response = layer.layer(page).oneshot(http::Request::default()).await.expect("it can't fail");
        assert_eq!(response.status(), 200, "{limit}");
        for rule in 0..64 {
            let of = policy(&format!("rule-{rule}"), &[limit]);
            let used = limiter.peek(&of, &Key::new("everyone").expect("a key"), Cost::ONE).used();
            assert_eq!(used, 1, "{limit}, rule {rule}");
        }
    }
}

#[tokio::test]
async fn a_budget_has_as_many_policies_as_fit_beside_its_pause() {
    let policies = |number: usize| (0..number).map(|number| policy(&format!("policy-{number}"), &["4/inflight"]));
    for number in [0, 64] {
        let error = built(|| Budget::all(policies(number))).expect_err("no decision has as many");
        assert_eq!(error, format!("a budget has 1 to 63 policies, not {number}"));
    }
    let (_, limiter) = limiter();
    let shared = crate::deferred_store::DeferredStore::new(limiter);
    let budget = Budget::all(policies(63)).in_store(shared);
    let key = Key::new("upstream").expect("a key");
    let call = budget.reserve(&key, Cost::ONE, Hold::new(Duration::from_secs(60))).await.expect("there is room");
    assert!(call.commit(1).await.expect("the store answers"));
}

#[tokio::test]
async fn a_check_under_a_limit_on_open_holds_is_an_error() {
    let budget = Budget::all([policy("tokens", &["100/1m"]), policy("calls", &["4/inflight"])]);
    let key = Key::new("upstream").expect("a key");
    let error = budget.acquire(&key, Cost::ONE).await.expect_err("it has no hold");
    assert_eq!(error.to_string(), "request 1 has the limit `4/inflight`, which counts open holds: reserve instead");
    let layer = built(|| budget.layer(|_: &()| Call::to_host("upstream")));
    let error = layer.expect_err("it reserves nothing");
    assert_eq!(
        error,
        "a layer can't keep calls within 4/inflight, which counts open holds: use `Budget::reserve` for each call"
    );
    built(|| Budget::new(policy("tokens", &["100/1m"])).layer(|_: &()| Call::to_host("upstream"))).expect("no hold");
}
