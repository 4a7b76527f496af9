//! Several rules as one decision, tiers, costs, and who is not limited at all.

use axum::{Extension, Router, routing::get};
use reqwest::Client;
use serde_json::json;
use tidegate::{Decision, Key, Policy};
use tidegate_tower::{KeyExtractor, RateLimitLayer, Rule};

use crate::site::{Answer, Site, hello, policy};

const USER: &str = "x-user";
const TENANT: &str = "x-tenant";

fn by(header: &'static str, policy: Policy) -> Rule {
    Rule::new(policy).key(KeyExtractor::header(header).expect("a header's name"))
}

fn left(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.header("ratelimit"))
}

fn told(status: u16, standing: &str) -> (u16, Option<String>) {
    (status, Some(standing.to_owned()))
}

#[tokio::test]
async fn several_rules_are_one_decision_and_the_answer_names_the_one_that_bound() {
    let (user, tenant) = (policy("user", &["2/1m"]), policy("tenant", &["3/1h"]));
    let site = Site::behind(RateLimitLayer::all([by(USER, user.clone()), by(TENANT, tenant.clone())])).await;
    let ask = async |user| site.get_with("/", &[(USER, user), (TENANT, "acme")]).await;
    assert_eq!(left(&ask("alice").await), told(200, r#""user";r=1;t=60"#));
    let second = ask("alice").await;
    assert_eq!(left(&second), told(200, r#""user";r=0;t=60"#));
    assert_eq!(second.header("ratelimit-policy").as_deref(), Some(r#""user";q=2;w=60, "tenant";q=3;w=3600"#));

    let by_user = ask("alice").await;
    assert_eq!(
        (left(&by_user), by_user.header("retry-after")),
        (told(429, r#""user";r=0;t=60"#), Some("60".to_owned()))
    );
    assert_eq!(by_user.json()["violated-policies"], json!(["user"]));
    assert_eq!(site.used(&tenant, "acme"), 2, "what one denies is charged by none");

    assert_eq!(left(&ask("bob").await), told(200, r#""tenant";r=0;t=3600"#));
    let by_tenant = ask("bob").await;
    assert_eq!(left(&by_tenant), told(429, r#""tenant";r=0;t=3600"#));
    assert_eq!(by_tenant.json()["violated-policies"], json!(["tenant"]));
    assert_eq!(site.used(&user, "bob"), 1);
    let by_both = ask("alice").await;
    assert_eq!(left(&by_both), told(429, r#""tenant";r=0;t=3600"#), "the longer wait is the one that helps");
}

#[tokio::test]
async fn a_rule_that_does_not_apply_is_not_told_of() {
    let posts = Rule::new(policy("posts", &["1/1m"])).cost(|request| u64::from(request.method() == "POST"));
    let site = Site::behind(RateLimitLayer::all([Rule::new(policy("all", &["9/1m"])), posts])).await;
    let read = site.get("/").await;
    assert_eq!(read.header("ratelimit-policy").as_deref(), Some(r#""all";q=9;w=60"#));
    let written = site.send(Client::post, "/").await;
    assert_eq!(left(&written), told(200, r#""posts";r=0;t=60"#));
    assert_eq!(site.send(Client::post, "/").await.status, 429);
    assert_eq!(left(&site.get("/").await), told(200, r#""all";r=6;t=60"#));
}

#[tokio::test]
async fn who_is_in_another_tier_has_other_limits() {
    let tiers =
        Rule::tiers([policy("free", &["1/1m"]), policy("paid", &["2/1m"])], |request| match request.header("x-plan") {
            Some(b"paid") => 1,
            Some(b"unheard of") => 7,
            _ => 0,
        });
    let site = Site::behind(RateLimitLayer::new(tiers)).await;
    let ask = async |plan| left(&site.get_with("/", &[("x-plan", plan)]).await);
    assert_eq!(ask("free").await, told(200, r#""free";r=0;t=60"#));
    assert_eq!(ask("unheard of").await, told(429, r#""free";r=0;t=60"#), "the first one, if there is no such tier");
    assert_eq!(ask("paid").await, told(200, r#""paid";r=1;t=60"#), "under another name, nothing was spent");
}

#[tokio::test]
async fn who_changes_between_tiers_of_one_name_keeps_what_was_spent() {
    let tiers = Rule::tiers([policy("api", &["1/1m"]), policy("api", &["3/1m"])], |request| {
        usize::from(request.header("x-plan") == Some(b"paid"))
    });
    let site = Site::behind(RateLimitLayer::new(tiers)).await;
    let ask = async |plan| left(&site.get_with("/", &[("x-plan", plan)]).await);
    assert_eq!(ask("free").await, told(200, r#""api";r=0;t=60"#));
    assert_eq!(ask("free").await, told(429, r#""api";r=0;t=60"#));
    assert_eq!(ask("paid").await, told(200, r#""api";r=1;t=60"#), "3 less 1, less this one");
    assert_eq!(ask("paid").await, told(200, r#""api";r=0;t=60"#));
    assert_eq!(ask("free").await, told(429, r#""api";r=0;t=60"#));
}

#[tokio::test]
async fn a_cost_may_depend_on_the_method() {
    let rule = Rule::new(policy("api", &["10/1m"])).cost(|request| if request.method() == "POST" { 5 } else { 1 });
    let site = Site::behind(RateLimitLayer::new(rule)).await;
    assert_eq!(left(&site.get("/").await), told(200, r#""api";r=9;t=60"#));
    assert_eq!(left(&site.send(Client::post, "/").await), told(200, r#""api";r=4;t=60"#));
    assert_eq!(left(&site.send(Client::post, "/").await), told(429, r#""api";r=4;t=60"#));
    assert_eq!(left(&site.get("/").await), told(200, r#""api";r=3;t=60"#));
}

#[tokio::test]
async fn a_cost_may_depend_on_the_size_of_the_body() {
    let by_size = |policy| Rule::new(policy).cost(|request| request.body_size().map_or(16, |size| size.div_ceil(1024)));
    let site = Site::behind(RateLimitLayer::new(by_size(policy("api", &["100/1m"])))).await;
    let post = async |bytes: usize| left(&site.send(|client, url| client.post(url).body(vec![b'x'; bytes]), "/").await);
    assert_eq!(post(2500).await, told(200, r#""api";r=97;t=60"#));
    assert_eq!(post(1024).await, told(200, r#""api";r=96;t=60"#));
    assert_eq!(left(&site.get("/").await), (200, None), "nothing is sent, so nothing is counted");
    let unknown = site.send(|client, url| client.post(url).header("transfer-encoding", "chunked").body("?"), "/").await;
    assert_eq!(left(&unknown), told(200, r#""api";r=80;t=60"#));
}

#[tokio::test]
async fn a_cost_of_nothing_is_not_limited_and_one_beyond_all_limits_never_fits() {
    let rule =
        Rule::new(policy("api", &["1/1m"])).cost(|request| if request.uri().path() == "/free" { 0 } else { u64::MAX });
    let site = Site::behind(RateLimitLayer::new(rule)).await;
    for _ in 0..3 {
        assert_eq!(left(&site.get("/free").await), (200, None));
    }
    assert_eq!(site.get("/").await.status, 422);
}

#[tokio::test]
async fn what_is_skipped_is_neither_counted_nor_told() {
    let layer = RateLimitLayer::new(policy("api", &["1/1m"])).skip(|request| request.uri().path() == "/health");
    let site = Site::behind(layer).await;
    for _ in 0..3 {
        assert_eq!(left(&site.get("/health").await), (200, None));
    }
    assert_eq!(left(&site.get("/").await), told(200, r#""api";r=0;t=60"#));
    assert_eq!(site.get("/").await.status, 429);
    assert_eq!(site.get("/health").await.status, 200);
}

#[tokio::test]
async fn clients_with_allowed_addresses_are_not_limited() {
    let nets = ["127.0.0.2/32", "2001:db8::/32"].map(|net| net.parse().expect("a network"));
    let site = Site::behind(RateLimitLayer::new(policy("api", &["1/1m"])).allow(nets)).await;
    let friend = site.visited_from("127.0.0.2");
    for _ in 0..3 {
        assert_eq!(left(&friend.get("/").await), (200, None));
    }
    assert_eq!([site.get("/").await.status, site.get("/").await.status], [200, 429]);
    let forged = site.get_with("/", &[("x-forwarded-for", "127.0.0.2")]).await;
    assert_eq!(forged.status, 429, "nobody becomes a friend by saying so");
}

#[tokio::test]
async fn allowed_keys_are_not_limited_by_the_rule_that_finds_them() {
    let keys = ["root", "monitor"].map(|key| Key::new(key).expect("a key"));
    let users = by(USER, policy("user", &["1/1m"])).allow_keys(keys);
    let rules = [users, Rule::new(policy("all", &["4/1m"])).key(KeyExtractor::global())];
    let site = Site::behind(RateLimitLayer::all(rules)).await;
    let ask = async |user| left(&site.get_with("/", &[(USER, user)]).await);
    for standing in [r#""all";r=3;t=60"#, r#""all";r=2;t=60"#] {
        assert_eq!(ask("root").await, told(200, standing), "the other rule counts on");
    }
    assert_eq!(ask("alice").await, told(200, r#""user";r=0;t=60"#));
    assert_eq!(ask("alice").await, told(429, r#""user";r=0;t=60"#));
    assert_eq!(ask("monitor").await.0, 200);
    assert_eq!(ask("root").await, told(429, r#""all";r=0;t=60"#));
}

#[tokio::test]
async fn the_service_can_be_told_of_the_decision() {
    let told = async |decision: Option<Extension<Decision>>| {
        decision.map_or("nothing".to_owned(), |Extension(decision)| decision.remaining().to_string())
    };
    for (tells, expected) in [(true, "4"), (false, "nothing")] {
        let layer = RateLimitLayer::new(policy("api", &["5/1m"]));
        let layer = if tells { layer.insert_decision() } else { layer };
        let site = Site::serve(|limiter| Router::new().route("/", get(told)).layer(layer.in_store(limiter))).await;
        assert_eq!(&*site.get("/").await.body, expected.as_bytes());
    }
}

#[tokio::test]
async fn clones_of_a_layer_and_of_its_services_share_one_state() {
    let layer = RateLimitLayer::new(policy("api", &["2/1m"]));
    let site = Site::serve(|limiter| {
        let layer = layer.in_store(limiter);
        Router::new().nest("/a", hello().layer(layer.clone())).nest("/b", hello().layer(layer))
    })
    .await;
    assert_eq!(left(&site.get("/a/x").await), told(200, r#""api";r=1;t=60"#));
    assert_eq!(left(&site.get("/b/x").await), told(200, r#""api";r=0;t=60"#));
    assert_eq!(site.get("/a/x").await.status, 429);
}
