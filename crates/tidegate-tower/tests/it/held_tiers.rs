//! Holds of rules whose tiers share a policy name: each operation on a hold uses the policy of its own tier.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate::{Limiter, Policy};
use tidegate_tower::{RateLimitLayer, Rule, key::Global};
use tower::{Layer as _, ServiceExt as _};

use crate::{
    in_flight::{state, with_tokio_clock},
    test_server::policy,
};

type FullRequest = http::Request<Full<Bytes>>;

/// A rule that selects a tier by the header `x-plan`.
fn by_plan(free: &Policy, paid: &Policy) -> Rule {
    let choose = |request: &tidegate_tower::RequestHead<'_>| {
        if request.header("x-plan").is_some() { "paid" } else { "free" }
    };
    Rule::tiers([("free", free.clone()), ("paid", paid.clone())], choose).expect("two tiers").key(Global)
}

fn rule(policy: &Policy) -> Rule {
    Rule::new(policy.clone()).key(Global)
}

fn of_plan(plan: &str) -> FullRequest {
    let mut request = FullRequest::default();
    if plan == "paid" {
        request.headers_mut().insert("x-plan", http::HeaderValue::from_static("paid"));
    }
    request
}

/// Calls a page. Its body keeps the hold until it is dropped.
async fn page(layer: &RateLimitLayer, limiter: &Arc<Limiter>, plan: &str) -> Response<Full<Bytes>> {
    let page = tower::service_fn(async |_: FullRequest| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    layer.clone().in_store(Arc::clone(limiter)).layer(page).oneshot(of_plan(plan)).await.expect("it can't fail")
}

/// The open holds while the service responds.
type Seen = Arc<Mutex<Vec<usize>>>;

#[tokio::test]
async fn only_a_tier_with_a_limit_on_open_holds_is_reserved() {
    for (free, paid) in [
        (policy("api", &["9/inflight"]), policy("api", &["10/1m"])),
        (policy("api", &["10/1m"]), policy("api", &["9/inflight"])),
    ] {
        let limiter = with_tokio_clock();
        let layer = RateLimitLayer::new(by_plan(&free, &paid)).in_store(limiter.clone());
        for (plan, of) in [("free", &free), ("paid", &paid)] {
            let seen = Seen::default();
            let (record, see, in_service) = (Arc::clone(&seen), Arc::clone(&limiter), of.clone());
            let page = tower::service_fn(move |_: FullRequest| {
                record.lock().expect("no panic").push(state(&see, &in_service, "everyone").0);
                std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
            });
            drop(layer.layer(page).oneshot(of_plan(plan)).await.expect("it can't fail"));
            assert_eq!(*seen.lock().expect("no panic"), [usize::from(of.has_in_flight_limit())], "{plan} under {of:?}");
            assert_eq!(state(&limiter, of, "everyone").0, 0);
        }
    }
}

#[tokio::test]
async fn a_reserved_tier_without_such_a_limit_is_committed_at_the_response() {
    for (free, paid) in [
        (policy("api", &["9/inflight", "10/1m"]), policy("api", &["10/1m"])),
        (policy("api", &["10/1m"]), policy("api", &["9/inflight", "10/1m"])),
    ] {
        let limiter = with_tokio_clock();
        let layer = RateLimitLayer::new(by_plan(&free, &paid).reserve());
        for (plan, of) in [("free", &free), ("paid", &paid)] {
            let response = page(&layer, &limiter, plan).await;
            let expected = usize::from(of.has_in_flight_limit());
            assert_eq!(state(&limiter, of, "everyone").0, expected, "{plan}: after the response, before its body");
            drop(response);
        }
    }
}

fn quota(response: &Response<Full<Bytes>>) -> Option<String> {
    response.headers().get("ratelimit").map(|quota| quota.to_str().expect("text").to_owned())
}

/// Reserves 40 units, and settles 10.
fn settled(rule: Rule) -> Rule {
    rule.cost(|_| 40).reserve().settle(|_| Some(10))
}

#[tokio::test]
async fn headers_report_what_is_settled_under_the_tier_of_the_request() {
    let (free, paid) = (policy("api", &["100/1m"]), policy("api", &["1000/1h"]));
    let tenant = policy("tenant", &["1000/1h"]);
    let limiter = with_tokio_clock();
    let layer = RateLimitLayer::all([settled(rule(&tenant)), settled(by_plan(&free, &paid))]);
    let response = page(&layer, &limiter, "paid").await;
    assert_eq!(quota(&response).as_deref(), Some(r#""tenant";r=990;t=3600"#));
    for of in [&tenant, &paid] {
        assert_eq!(state(&limiter, of, "everyone"), (0, vec![10]), "{of:?}");
    }
    let response = page(&layer, &limiter, "free").await;
    assert_eq!(quota(&response).as_deref(), Some(r#""api";r=80;t=60"#));
    assert_eq!(state(&limiter, &tenant, "everyone"), (0, vec![20]));
}

#[tokio::test]
async fn headers_never_report_the_units_of_one_policy_under_the_name_of_another() {
    // The first two rules are one request of the summed cost, so the parts of the settled hold are fewer than the rules.
    let (api, tenant) = (policy("api", &["1000/1m"]), policy("tenant", &["100/1h"]));
    let limiter = with_tokio_clock();
    let layer = RateLimitLayer::all([&api, &api, &tenant].map(|of| settled(rule(of))));
    let response = page(&layer, &limiter, "free").await;
    assert_eq!(quota(&response).as_deref(), Some(r#""tenant";r=60;t=3600"#), "as reserved");
    assert_eq!(state(&limiter, &api, "everyone"), (0, vec![20]));
    assert_eq!(state(&limiter, &tenant, "everyone"), (0, vec![10]));
}
