//! Clients by their address: whose word about it counts, and how much of it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::{
    body::Body,
    extract::{Request, connect_info::MockConnectInfo},
};
use tidegate_tower::{ClientAddress, RateLimitLayer};
use tower::ServiceExt as _;

use crate::site::{Site, hello, policy};

const FORWARDED: &str = "x-forwarded-for";

/// A page that each client can see once.
async fn once(client: ClientAddress) -> Site {
    Site::behind(RateLimitLayer::new(policy("api", &["1/1m"])).client_address(client)).await
}

/// Visits `site` with what is said of where the visit comes from; the first one of `client` is let through.
async fn is_counted_as(site: &Site, said: &[&str], client: &str) -> bool {
    let api = policy("api", &["1/1m"]);
    let before = site.used(&api, client);
    let headers: Vec<_> = said.iter().map(|line| (FORWARDED, *line)).collect();
    let answer = site.get_with("/", &headers).await;
    match (before, answer.status) {
        (0, 200) => site.used(&api, client) == 1,
        (1, 429) => true,
        _ => false,
    }
}

#[tokio::test]
async fn without_a_proxy_the_connection_says_who_it_is_and_no_header_does() {
    let site = once(ClientAddress::peer()).await;
    assert!(is_counted_as(&site, &["203.0.113.7"], "127.0.0.1").await);
    assert_eq!(site.get_with("/", &[(FORWARDED, "203.0.113.8")]).await.status, 429, "forged or not");
    assert!(is_counted_as(&site.visited_from("127.0.0.2"), &[], "127.0.0.2").await);
}

#[tokio::test]
async fn behind_one_proxy_the_last_address_counts_and_what_is_before_it_was_forged() {
    let site = once(ClientAddress::behind_hops(1).expect("at least one")).await;
    for said in [&["203.0.113.7"][..], &["6.6.6.6, 203.0.113.7"], &["6.6.6.6", "203.0.113.7"], &["203.0.113.7:4711"]] {
        assert!(is_counted_as(&site, said, "203.0.113.7").await, "{said:?}");
    }
    assert!(is_counted_as(&site, &["203.0.113.7, 203.0.113.8"], "203.0.113.8").await);
    assert!(is_counted_as(&site, &["203.0.113.9, garbage"], "127.0.0.1").await, "no proxy wrote that");
    assert!(is_counted_as(&site, &[], "127.0.0.1").await);
}

#[tokio::test]
async fn behind_two_proxies_the_last_but_one_counts() {
    let site = once(ClientAddress::behind_hops(2).expect("at least one")).await;
    for said in [&["203.0.113.7, 10.0.0.1"][..], &["6.6.6.6, 203.0.113.7, 10.0.0.1"], &["203.0.113.7", "10.0.0.2"]] {
        assert!(is_counted_as(&site, said, "203.0.113.7").await, "{said:?}");
    }
    assert!(is_counted_as(&site, &["203.0.113.8"], "203.0.113.8").await, "who came around the first one");
}

#[tokio::test]
async fn behind_known_proxies_the_last_that_is_none_of_them_counts() {
    let proxies = ["127.0.0.1/32", "10.0.0.0/8"].map(|net| net.parse().expect("a network"));
    let site = once(ClientAddress::behind(proxies)).await;
    for said in [
        &["203.0.113.7"][..],
        &["6.6.6.6, 203.0.113.7, 10.1.1.1"],
        &["203.0.113.7, 10.1.1.1, 10.2.2.2"],
        &["10.6.6.6, 203.0.113.7"],
        &["203.0.113.7, ::ffff:10.1.1.1"],
    ] {
        assert!(is_counted_as(&site, said, "203.0.113.7").await, "{said:?}");
    }
    assert!(is_counted_as(&site, &["10.1.1.1"], "10.1.1.1").await, "a proxy that asks for itself");
    let stranger = site.visited_from("127.0.0.2");
    assert!(is_counted_as(&stranger, &["203.0.113.9"], "127.0.0.2").await, "who is no proxy speaks for itself");
    assert_eq!(stranger.get_with("/", &[(FORWARDED, "203.0.113.10")]).await.status, 429);
}

#[tokio::test]
async fn an_ipv6_client_is_its_network() {
    let site = once(ClientAddress::behind_hops(1).expect("at least one")).await;
    for said in ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "[2001:db8:1:2::3]:443"] {
        assert!(is_counted_as(&site, &[said], "2001:db8:1:2::/64").await, "{said}");
    }
    assert!(is_counted_as(&site, &["2001:db8:1:3::1"], "2001:db8:1:3::/64").await);
    assert!(is_counted_as(&site, &["::ffff:203.0.113.7"], "203.0.113.7").await, "IPv4 in disguise");

    let wider = ClientAddress::behind_hops(1).and_then(|client| client.with_ipv6_prefix(48)).expect("in range");
    let site = once(wider).await;
    for said in ["2001:db8:1:2::1", "2001:db8:1:3::1"] {
        assert!(is_counted_as(&site, &[said], "2001:db8:1::/48").await, "{said}");
    }
}

#[tokio::test]
async fn a_connection_over_ipv6_is_counted_by_its_network_too() {
    for (bits, network) in [(64, "::/64"), (128, "::1/128")] {
        let client = ClientAddress::peer().with_ipv6_prefix(bits).expect("in range");
        let layer = RateLimitLayer::new(policy("api", &["1/1m"])).client_address(client);
        let site = Site::serve_at("[::1]:0", |limiter| hello().layer(layer.in_store(limiter))).await;
        let site = site.visited_from("::1");
        assert_eq!(site.address.ip(), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert!(is_counted_as(&site, &[], network).await);
        assert_eq!(site.get("/").await.status, 429);
    }
}

#[tokio::test]
async fn a_connection_over_ipv4_to_a_socket_of_both_is_an_ipv4_client() {
    let proxy = || ["127.0.0.1/32".parse().expect("a network")];
    for (client, said, expected) in [
        (ClientAddress::peer(), &[][..], "127.0.0.1"),
        (ClientAddress::behind(proxy()), &["203.0.113.7"], "203.0.113.7"),
    ] {
        let layer = RateLimitLayer::new(policy("api", &["1/1m"])).client_address(client);
        let mut site = Site::serve_at("[::ffff:127.0.0.1]:0", |limiter| hello().layer(layer.in_store(limiter))).await;
        site.address.set_ip([127, 0, 0, 1].into());
        assert!(is_counted_as(&site, said, expected).await, "{expected}");
    }
}

#[tokio::test]
async fn an_address_that_a_test_makes_up_is_found_as_well() {
    let app = hello().layer(RateLimitLayer::new(policy("api", &["1/1m"])));
    let app = app.layer(MockConnectInfo(SocketAddr::from(([203, 0, 113, 7], 4711))));
    for expected in [200, 429] {
        let response = app.clone().oneshot(Request::new(Body::empty())).await.expect("it can't fail");
        assert_eq!(response.status(), expected);
    }
}
