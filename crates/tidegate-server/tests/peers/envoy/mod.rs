//! Real Envoy, with its HTTP rate limit filter, in front of an upstream.

mod guide;
mod process;

use std::path::Path;

use tidegate_testbed::free_port;

use self::process::{Envoy, Reply};
use crate::{running::Running, upstream::Upstream};

const LIMITS: &str = r#"
[policies.user]
limits = ["5/1d"]
[policies.tenant]
limits = ["2/1h"]
[policies.watched]
limits = ["1/1h"]
mode = "shadow"
[[envoy]]
domain = "edge"
descriptors = [["user"]]
policy = "user"
[[envoy]]
domain = "edge"
descriptors = [["tenant"], ["again"]]
policy = "tenant"
[[envoy]]
domain = "edge"
descriptors = [["watched=yes"]]
policy = "watched"
"#;

/// Envoy, the service that it calls and the server behind it. All are stopped on drop.
struct Chain {
    envoy: Envoy,
    service: Option<Running>,
    _upstream: Upstream,
}

impl Chain {
    fn start(failure_mode_deny: bool) -> Self {
        let (service, upstream, front) = (Running::start(LIMITS), Upstream::start(), free_port());
        let config = include_str!("routes.yaml")
            .replace("{front}", &front.to_string())
            .replace("{upstream}", &upstream.port.to_string())
            .replace("{limits}", &service.grpc.port().to_string())
            .replace("{failure_mode_deny}", &failure_mode_deny.to_string());
        let envoy = Envoy::start(&config, Path::new("."), front, &service);
        Self { envoy, service: Some(service), _upstream: upstream }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.envoy.get(path, headers)
    }

    fn as_user(&self, path: &str, user: &str) -> Reply {
        self.get(path, &[("x-user", user)])
    }

    /// Stops the service that Envoy calls.
    fn stop_service(&mut self) {
        self.service = None;
    }
}

fn statuses<const N: usize>(chain: &Chain, path: &str, user: &str) -> [u16; N] {
    [(); N].map(|()| chain.as_user(path, user).status)
}

#[test]
fn envoy_admits_requests_up_to_the_limit_and_then_answers_429_with_headers() {
    let chain = Chain::start(false);
    for left in (0..5).rev() {
        let reply = chain.as_user("/", "ann");
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("x-ratelimit-limit"), Some("5, 5;w=86400;name=\"user\""), "{reply:?}");
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(&*left.to_string()), "{reply:?}");
        assert_eq!(reply.header("x-ratelimit-reset"), Some("86400"), "{reply:?}");
    }
    let reply = chain.as_user("/", "ann");
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (429, Some("0")), "{reply:?}");
    assert_eq!(reply.header("x-envoy-ratelimited"), Some("true"), "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    assert_eq!(reply.header("retry-after"), reply.header("x-ratelimit-reset"), "{reply:?}");
    assert_eq!(chain.as_user("/", "bob").status, 200, "another user");
    assert_eq!(chain.get("/", &[]).status, 200, "without a header there is no descriptor");
    let both = [("x-user", "cid"), ("x-tenant", "acme")];
    let seen = [(); 3].map(|()| chain.get("/both", &both).status);
    assert_eq!(seen, [200, 200, 429], "the tenant's limit denies");
    let reply = chain.as_user("/", "cid");
    assert_eq!(
        reply.header("x-ratelimit-remaining"),
        Some("2"),
        "a denied request does not charge the user: {reply:?}"
    );
}

#[test]
fn envoy_sets_the_number_of_hits_of_a_request() {
    let chain = Chain::start(false);
    assert_eq!(statuses(&chain, "/weighted", "ann"), [200, 429], "three of five fit, three more do not");
    assert_eq!(statuses(&chain, "/", "ann"), [200, 200, 429], "two units are left");
    assert_eq!(chain.as_user("/looking", "ann").status, 429, "no unit is left");
    assert_eq!(statuses(&chain, "/back", "ann"), [200, 200], "two units are refunded");
    assert_eq!(statuses(&chain, "/looking", "ann"), [200; 4], "zero hits spend nothing");
    assert_eq!(statuses(&chain, "/", "ann"), [200, 200, 429]);
    let priced = |cost| chain.get("/priced", &[("x-user", "bob"), ("x-cost", cost)]).status;
    assert_eq!([priced("6"), priced("4"), priced("2"), priced("1"), priced("1")], [429, 200, 429, 200, 429]);
}

#[test]
fn forged_headers_do_not_bypass_a_limit() {
    let chain = Chain::start(false);
    for user in [&b"al\xffce"[..], b"al\xfece", b"\xff"] {
        let seen = [(); 7].map(|()| chain.envoy.get_raw("/", &[("x-user", user)]).status);
        assert_eq!(seen, [200, 200, 200, 200, 200, 429, 429], "{user:?}");
    }
    // Such a header does not void the limit of another descriptor.
    let seen = [b'a', b'b', b'c', b'd']
        .map(|last| chain.envoy.get_raw("/both", &[("x-user", &[0xff, last]), ("x-tenant", b"acme")]).status);
    assert_eq!(seen, [200, 200, 429, 429]);
    let long = "x".repeat(50_000);
    assert_eq!(statuses(&chain, "/twice", &long), [200, 200, 429, 429], "100 KB in two descriptors");
}

#[test]
fn envoy_admits_every_request_under_a_shadow_policy() {
    let chain = Chain::start(true);
    assert_eq!(statuses(&chain, "/shadow", "ann"), [200; 4]);
}

#[test]
fn a_limit_supplied_by_envoy_applies() {
    let chain = Chain::start(true);
    assert_eq!(statuses(&chain, "/override", "ann"), [200, 200, 429]);
    assert_eq!(statuses(&chain, "/override", "bob"), [200, 200, 429]);
}

#[test]
fn envoy_decides_by_its_failure_mode_when_the_service_is_stopped() {
    for (failure_mode_deny, expected) in [(false, 200), (true, 500)] {
        let mut chain = Chain::start(failure_mode_deny);
        assert_eq!(chain.as_user("/", "ann").status, 200);
        chain.stop_service();
        assert_eq!(
            statuses(&chain, "/", "ann"),
            [expected; 8],
            "more than the limit, failure_mode_deny: {failure_mode_deny}"
        );
    }
}
