//! Several rules as one decision, tiers, costs, skipped requests and allow lists.

use axum::{Extension, Router, routing::get};
use reqwest::Client;
use serde_json::json;
use tidegate::{Decision, Key, Policy};
use tidegate_tower::{
    RateLimitLayer, RequestHead, Rule, TiersError,
    key::{Global, Header},
};

use crate::test_server::{TestResponse, TestServer, hello, policy};

const USER: &str = "x-user";
const TENANT: &str = "x-tenant";

fn by(header: &'static str, policy: Policy) -> Rule {
    Rule::new(policy).key(Header::new(header).expect("a header's name"))
}

fn status_and_quota(response: &TestResponse) -> (u16, Option<String>) {
    (response.status, response.header("ratelimit"))
}

fn expected(status: u16, quota: &str) -> (u16, Option<String>) {
    (status, Some(quota.to_owned()))
}

#[tokio::test]
async fn several_rules_are_one_decision_and_the_response_names_the_one_that_decided() {
    let (user, tenant) = (policy("user", &["2/1m"]), policy("tenant", &["3/1h"]));
    let server = TestServer::behind(RateLimitLayer::all([by(USER, user.clone()), by(TENANT, tenant.clone())])).await;
    let ask = async |user| server.get_with("/", &[(USER, user), (TENANT, "acme")]).await;
    assert_eq!(status_and_quota(&ask("alice").await), expected(200, r#""user";r=1;t=60"#));
    let second = ask("alice").await;
    assert_eq!(status_and_quota(&second), expected(200, r#""user";r=0;t=60"#));
    assert_eq!(second.header("ratelimit-policy").as_deref(), Some(r#""user";q=2;w=60, "tenant";q=3;w=3600"#));

    let by_user = ask("alice").await;
    assert_eq!(
        (status_and_quota(&by_user), by_user.header("retry-after")),
        (expected(429, r#""user";r=0;t=60"#), Some("60".to_owned()))
    );
    assert_eq!(by_user.json()["violated-policies"], json!(["user"]));
    assert_eq!(server.used(&tenant, "acme"), 2, "a denied request is charged by no rule");

    assert_eq!(status_and_quota(&ask("bob").await), expected(200, r#""tenant";r=0;t=3600"#));
    let by_tenant = ask("bob").await;
    assert_eq!(status_and_quota(&by_tenant), expected(429, r#""tenant";r=0;t=3600"#));
    assert_eq!(by_tenant.json()["violated-policies"], json!(["tenant"]));
    assert_eq!(server.used(&user, "bob"), 1);
    let by_both = ask("alice").await;
    assert_eq!(status_and_quota(&by_both), expected(429, r#""tenant";r=0;t=3600"#), "the longer wait decides");
}

#[tokio::test]
async fn a_rule_that_does_not_apply_is_not_reported() {
    let posts = Rule::new(policy("posts", &["1/1m"])).cost(|request| u64::from(request.method() == "POST"));
    let server = TestServer::behind(RateLimitLayer::all([Rule::new(policy("all", &["9/1m"])), posts])).await;
    let read = server.get("/").await;
    assert_eq!(read.header("ratelimit-policy").as_deref(), Some(r#""all";q=9;w=60"#));
    let written = server.send(Client::post, "/").await;
    assert_eq!(status_and_quota(&written), expected(200, r#""posts";r=0;t=60"#));
    assert_eq!(server.send(Client::post, "/").await.status, 429);
    assert_eq!(status_and_quota(&server.get("/").await), expected(200, r#""all";r=6;t=60"#));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Free,
    Paid,
    Trial,
}

impl Plan {
    fn of(request: &RequestHead<'_>) -> Self {
        match request.header("x-plan") {
            Some(b"paid") => Self::Paid,
            Some(b"trial") => Self::Trial,
            _ => Self::Free,
        }
    }
}

#[tokio::test]
async fn each_tier_has_its_own_limits() {
    let policies = [(Plan::Free, policy("free", &["1/1m"])), (Plan::Paid, policy("paid", &["2/1m"]))];
    let server = TestServer::behind(RateLimitLayer::new(Rule::tiers(policies, Plan::of).expect("two tiers"))).await;
    let ask = async |plan| status_and_quota(&server.get_with("/", &[("x-plan", plan)]).await);
    assert_eq!(ask("free").await, expected(200, r#""free";r=0;t=60"#));
    assert_eq!(ask("free").await, expected(429, r#""free";r=0;t=60"#));
    assert_eq!(ask("paid").await, expected(200, r#""paid";r=1;t=60"#), "under another name, nothing was spent");
}

#[tokio::test]
async fn tiers_of_one_name_share_their_history() {
    let policies = [(Plan::Free, policy("api", &["1/1m"])), (Plan::Paid, policy("api", &["3/1m"]))];
    let server = TestServer::behind(RateLimitLayer::new(Rule::tiers(policies, Plan::of).expect("two tiers"))).await;
    let ask = async |plan| status_and_quota(&server.get_with("/", &[("x-plan", plan)]).await);
    assert_eq!(ask("free").await, expected(200, r#""api";r=0;t=60"#));
    assert_eq!(ask("free").await, expected(429, r#""api";r=0;t=60"#));
    assert_eq!(ask("paid").await, expected(200, r#""api";r=1;t=60"#), "3 less 1, less this one");
    assert_eq!(ask("paid").await, expected(200, r#""api";r=0;t=60"#));
    assert_eq!(ask("free").await, expected(429, r#""api";r=0;t=60"#));
}

#[tokio::test]
async fn a_tier_without_a_policy_is_an_error_of_the_server() {
    let rule = Rule::tiers([(Plan::Free, policy("free", &["1/1m"]))], Plan::of).expect("one tier");
    let rule = rule.key(Header::new(USER).expect("a header's name"));
    let exempt = rule.clone().allow_keys([Key::new("root").expect("a key")]);
    let server = TestServer::behind(RateLimitLayer::all([exempt, Rule::new(policy("all", &["9/1m"]))])).await;
    let refused = server.get_with("/", &[("x-plan", "trial"), (USER, "alice")]).await;
    assert_eq!(refused.status, 500);
    assert_eq!(refused.json()["detail"], "the server could not process the request");
    assert_eq!(server.used(&policy("all", &["9/1m"]), "127.0.0.1"), 0, "nothing was charged");
    assert_eq!(
        server.get_with("/", &[("x-plan", "trial"), (USER, "root")]).await.status,
        200,
        "the rule does not apply"
    );
    assert_eq!(server.get_with("/", &[("x-plan", "free"), (USER, "alice")]).await.status, 200);
}

#[test]
fn tiers_are_complete_and_unambiguous() {
    let none = Rule::tiers([], Plan::of).expect_err("there are none");
    assert_eq!(none, TiersError::NoTiers);
    let free = || (Plan::Free, policy("free", &["1/1m"]));
    let repeated = Rule::tiers([free(), (Plan::Paid, policy("paid", &["2/1m"])), free()], Plan::of);
    assert_eq!(repeated.expect_err("one is listed twice").to_string(), "the tier `Free` has two policies: give it one");
}

#[tokio::test]
async fn a_cost_may_depend_on_the_method() {
    let rule = Rule::new(policy("api", &["10/1m"])).cost(|request| if request.method() == "POST" { 5 } else { 1 });
    let server = TestServer::behind(RateLimitLayer::new(rule)).await;
    assert_eq!(status_and_quota(&server.get("/").await), expected(200, r#""api";r=9;t=60"#));
    assert_eq!(status_and_quota(&server.send(Client::post, "/").await), expected(200, r#""api";r=4;t=60"#));
    assert_eq!(status_and_quota(&server.send(Client::post, "/").await), expected(429, r#""api";r=4;t=60"#));
    assert_eq!(status_and_quota(&server.get("/").await), expected(200, r#""api";r=3;t=60"#));
}

#[tokio::test]
async fn a_cost_may_depend_on_the_size_of_the_body() {
    let by_size = |policy| Rule::new(policy).cost(|request| request.body_size().map_or(16, |size| size.div_ceil(1024)));
    let server = TestServer::behind(RateLimitLayer::new(by_size(policy("api", &["100/1m"])))).await;
    let post = async |bytes: usize| {
        status_and_quota(&server.send(|client, url| client.post(url).body(vec![b'x'; bytes]), "/").await)
    };
    assert_eq!(post(2500).await, expected(200, r#""api";r=97;t=60"#));
    assert_eq!(post(1024).await, expected(200, r#""api";r=96;t=60"#));
    assert_eq!(status_and_quota(&server.get("/").await), (200, None), "nothing is sent, so nothing is counted");
    let unknown =
        server.send(|client, url| client.post(url).header("transfer-encoding", "chunked").body("?"), "/").await;
    assert_eq!(status_and_quota(&unknown), expected(200, r#""api";r=80;t=60"#));
}

#[tokio::test]
async fn a_cost_of_zero_is_not_limited_and_a_huge_cost_never_fits() {
    let rule =
        Rule::new(policy("api", &["1/1m"])).cost(|request| if request.uri().path() == "/free" { 0 } else { u64::MAX });
    let server = TestServer::behind(RateLimitLayer::new(rule)).await;
    for _ in 0..3 {
        assert_eq!(status_and_quota(&server.get("/free").await), (200, None));
    }
    assert_eq!(server.get("/").await.status, 422);
}

#[tokio::test]
async fn skipped_requests_are_neither_counted_nor_reported() {
    let layer = RateLimitLayer::new(policy("api", &["1/1m"])).skip(|request| request.uri().path() == "/health");
    let server = TestServer::behind(layer).await;
    for _ in 0..3 {
        assert_eq!(status_and_quota(&server.get("/health").await), (200, None));
    }
    assert_eq!(status_and_quota(&server.get("/").await), expected(200, r#""api";r=0;t=60"#));
    assert_eq!(server.get("/").await.status, 429);
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn clients_with_allowed_addresses_are_not_limited() {
    let nets = ["127.0.0.2/32", "2001:db8::/32"].map(|net| net.parse().expect("a network"));
    let server = TestServer::behind(RateLimitLayer::new(policy("api", &["1/1m"])).allow(nets)).await;
    let friend = server.with_client_address("127.0.0.2");
    for _ in 0..3 {
        assert_eq!(status_and_quota(&friend.get("/").await), (200, None));
    }
    assert_eq!([server.get("/").await.status, server.get("/").await.status], [200, 429]);
    let forged = server.get_with("/", &[("x-forwarded-for", "127.0.0.2")]).await;
    assert_eq!(forged.status, 429, "a client can't claim an allowed address");
}

#[tokio::test]
async fn allowed_keys_are_not_limited_by_their_rule() {
    let keys = ["root", "monitor"].map(|key| Key::new(key).expect("a key"));
    let users = by(USER, policy("user", &["1/1m"])).allow_keys(keys);
    let rules = [users, Rule::new(policy("all", &["4/1m"])).key(Global)];
    let server = TestServer::behind(RateLimitLayer::all(rules)).await;
    let ask = async |user| status_and_quota(&server.get_with("/", &[(USER, user)]).await);
    for quota in [r#""all";r=3;t=60"#, r#""all";r=2;t=60"#] {
        assert_eq!(ask("root").await, expected(200, quota), "the other rule still counts");
    }
    assert_eq!(ask("alice").await, expected(200, r#""user";r=0;t=60"#));
    assert_eq!(ask("alice").await, expected(429, r#""user";r=0;t=60"#));
    assert_eq!(ask("monitor").await.0, 200);
    assert_eq!(ask("root").await, expected(429, r#""all";r=0;t=60"#));
}

#[tokio::test]
async fn the_service_can_read_the_decision() {
    let read_decision = async |decision: Option<Extension<Decision>>| {
        decision.map_or("nothing".to_owned(), |Extension(decision)| decision.remaining().to_string())
    };
    for (inserts, expected) in [(true, "4"), (false, "nothing")] {
        let layer = RateLimitLayer::new(policy("api", &["5/1m"]));
        let layer = if inserts { layer.insert_decision() } else { layer };
        let server =
            TestServer::serve(|limiter| Router::new().route("/", get(read_decision)).layer(layer.in_store(limiter)))
                .await;
        assert_eq!(&*server.get("/").await.body, expected.as_bytes());
    }
}

#[tokio::test]
async fn clones_of_a_layer_and_of_its_services_share_one_state() {
    let layer = RateLimitLayer::new(policy("api", &["2/1m"]));
    let server = TestServer::serve(|limiter| {
        let layer = layer.in_store(limiter);
        Router::new().nest("/a", hello().layer(layer.clone())).nest("/b", hello().layer(layer))
    })
    .await;
    assert_eq!(status_and_quota(&server.get("/a/x").await), expected(200, r#""api";r=1;t=60"#));
    assert_eq!(status_and_quota(&server.get("/b/x").await), expected(200, r#""api";r=0;t=60"#));
    assert_eq!(server.get("/a/x").await.status, 429);
}
