//! Keys by client address, with and without proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::{
    body::Body,
    extract::{Request, connect_info::MockConnectInfo},
};
use tidegate_tower::{ClientAddress, RateLimitLayer};
use tower::ServiceExt as _;

use crate::test_server::{TestServer, hello, policy};

const FORWARDED: &str = "x-forwarded-for";

/// A server that admits one request of each client.
async fn once(client: ClientAddress) -> TestServer {
    TestServer::behind(RateLimitLayer::new(policy("api", &["1/1m"])).client_address(client)).await
}

/// Whether a request with these `X-Forwarded-For` lines is counted as `client`.
async fn is_counted_as(server: &TestServer, forwarded: &[&str], client: &str) -> bool {
    let api = policy("api", &["1/1m"]);
    let before = server.used(&api, client);
    let headers: Vec<_> = forwarded.iter().map(|line| (FORWARDED, *line)).collect();
    let answer = server.get_with("/", &headers).await;
    match (before, answer.status) {
        (0, 200) => server.used(&api, client) == 1,
        (1, 429) => true,
        _ => false,
    }
}

#[tokio::test]
async fn without_proxies_the_peer_address_counts_and_headers_do_not() {
    let server = once(ClientAddress::peer()).await;
    assert!(is_counted_as(&server, &["203.0.113.7"], "127.0.0.1").await);
    assert_eq!(server.get_with("/", &[(FORWARDED, "203.0.113.8")]).await.status, 429, "forged or not");
    assert!(is_counted_as(&server.with_client_address("127.0.0.2"), &[], "127.0.0.2").await);
}

#[tokio::test]
async fn behind_one_proxy_the_last_entry_counts() {
    let server = once(ClientAddress::behind_hops(1).expect("at least one")).await;
    for forwarded in
        [&["203.0.113.7"][..], &["6.6.6.6, 203.0.113.7"], &["6.6.6.6", "203.0.113.7"], &["203.0.113.7:4711"]]
    {
        assert!(is_counted_as(&server, forwarded, "203.0.113.7").await, "{forwarded:?}");
    }
    assert!(is_counted_as(&server, &["203.0.113.7, 203.0.113.8"], "203.0.113.8").await);
    assert!(is_counted_as(&server, &["203.0.113.9, garbage"], "127.0.0.1").await, "no proxy wrote that");
    assert!(is_counted_as(&server, &[], "127.0.0.1").await);
}

#[tokio::test]
async fn behind_two_proxies_the_second_last_entry_counts() {
    let server = once(ClientAddress::behind_hops(2).expect("at least one")).await;
    for forwarded in [&["203.0.113.7, 10.0.0.1"][..], &["6.6.6.6, 203.0.113.7, 10.0.0.1"], &["203.0.113.7", "10.0.0.2"]]
    {
        assert!(is_counted_as(&server, forwarded, "203.0.113.7").await, "{forwarded:?}");
    }
    assert!(is_counted_as(&server, &["203.0.113.8"], "203.0.113.8").await, "the client skipped the first proxy");
}

#[tokio::test]
async fn behind_known_proxies_the_last_other_address_counts() {
    let proxies = ["127.0.0.1/32", "10.0.0.0/8"].map(|net| net.parse().expect("a network"));
    let server = once(ClientAddress::behind(proxies)).await;
    for forwarded in [
        &["203.0.113.7"][..],
        &["6.6.6.6, 203.0.113.7, 10.1.1.1"],
        &["203.0.113.7, 10.1.1.1, 10.2.2.2"],
        &["10.6.6.6, 203.0.113.7"],
        &["203.0.113.7, ::ffff:10.1.1.1"],
    ] {
        assert!(is_counted_as(&server, forwarded, "203.0.113.7").await, "{forwarded:?}");
    }
    assert!(is_counted_as(&server, &["10.1.1.1"], "10.1.1.1").await, "a proxy that asks for itself");
    let stranger = server.with_client_address("127.0.0.2");
    assert!(is_counted_as(&stranger, &["203.0.113.9"], "127.0.0.2").await, "who is no proxy speaks for itself");
    assert_eq!(stranger.get_with("/", &[(FORWARDED, "203.0.113.10")]).await.status, 429);
}

#[tokio::test]
async fn an_ipv6_client_is_counted_by_its_network() {
    let server = once(ClientAddress::behind_hops(1).expect("at least one")).await;
    for forwarded in ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "[2001:db8:1:2::3]:443"] {
        assert!(is_counted_as(&server, &[forwarded], "2001:db8:1:2::/64").await, "{forwarded}");
    }
    assert!(is_counted_as(&server, &["2001:db8:1:3::1"], "2001:db8:1:3::/64").await);
    assert!(is_counted_as(&server, &["::ffff:203.0.113.7"], "203.0.113.7").await, "IPv4 in disguise");

    let wider = ClientAddress::behind_hops(1).and_then(|client| client.with_ipv6_prefix(48)).expect("in range");
    let server = once(wider).await;
    for forwarded in ["2001:db8:1:2::1", "2001:db8:1:3::1"] {
        assert!(is_counted_as(&server, &[forwarded], "2001:db8:1::/48").await, "{forwarded}");
    }
}

#[tokio::test]
async fn an_ipv6_connection_is_counted_by_its_network() {
    for (bits, network) in [(64, "::/64"), (128, "::1/128")] {
        let client = ClientAddress::peer().with_ipv6_prefix(bits).expect("in range");
        let layer = RateLimitLayer::new(policy("api", &["1/1m"])).client_address(client);
        let server = TestServer::serve_at("[::1]:0", |limiter| hello().layer(layer.in_store(limiter))).await;
        let server = server.with_client_address("::1");
        assert_eq!(server.address.ip(), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert!(is_counted_as(&server, &[], network).await);
        assert_eq!(server.get("/").await.status, 429);
    }
}

#[tokio::test]
async fn an_ipv4_client_of_a_dual_stack_socket_is_counted_as_ipv4() {
    let proxy = || ["127.0.0.1/32".parse().expect("a network")];
    for (client, forwarded, expected) in [
        (ClientAddress::peer(), &[][..], "127.0.0.1"),
        (ClientAddress::behind(proxy()), &["203.0.113.7"], "203.0.113.7"),
    ] {
        let layer = RateLimitLayer::new(policy("api", &["1/1m"])).client_address(client);
        let mut server =
            TestServer::serve_at("[::ffff:127.0.0.1]:0", |limiter| hello().layer(layer.in_store(limiter))).await;
        server.address.set_ip([127, 0, 0, 1].into());
        assert!(is_counted_as(&server, forwarded, expected).await, "{expected}");
    }
}

#[tokio::test]
async fn axums_mock_address_is_found() {
    let app = hello().layer(RateLimitLayer::new(policy("api", &["1/1m"])));
    let app = app.layer(MockConnectInfo(SocketAddr::from(([203, 0, 113, 7], 4711))));
    for expected in [200, 429] {
        let response = app.clone().oneshot(Request::new(Body::empty())).await.expect("it can't fail");
        assert_eq!(response.status(), expected);
    }
}
