//! Envoy and the service as docs/envoy.md configures them: TLS with a certificate authority of one's own, a token, and
//! costs by route.

use std::{fs, process::Command};

use tempfile::TempDir;
use tidegate_testbed::{free_port, markdown::with_ports};

use super::process::Envoy;
use crate::{
    running::Running,
    tools::{run, snippet},
    upstream::Upstream,
};

/// The headers of a browser that a client of another origin sends, and a forged address.
const BROWSER: [(&str, &str); 4] = [
    ("origin", "https://shop.example"),
    ("authorization", "Bearer of-the-client"),
    ("sec-fetch-mode", "cors"),
    ("x-forwarded-for", "6.6.6.6"),
];

/// Envoy, the service and the server behind Envoy. All are stopped on drop.
struct Example {
    envoy: Envoy,
    upstream: Upstream,
    _service: Running,
    _folder: TempDir,
}

impl Example {
    /// Follows the guide. `change` changes the configuration of Envoy.
    fn start(change: impl FnOnce(String) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        run(Command::new("sh").args(["-ec", &snippet("envoy-certificates")]).current_dir(folder.path()));
        // The service runs in this process, so its files need paths.
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = ["server.pem", "server.key"]
            .iter()
            .fold(snippet("envoy-tidegate"), |config, name| config.replace(name, &path(name)));
        fs::write(path("tidegate.toml"), config).expect("a writable folder");
        let service = Running::start_from_file(&folder.path().join("tidegate.toml"));
        let (upstream, front) = (Upstream::start(), free_port());
        let ports = [(8000, front), (8081, service.grpc.port()), (9000, upstream.port)];
        // A busy machine may take longer than the timeout of the guide.
        let config = with_ports(&snippet("envoy-yaml"), &ports).replace("timeout: 0.1s", "timeout: 60s");
        let envoy = Envoy::start(&change(config), folder.path(), front, &service);
        Self { envoy, upstream, _service: service, _folder: folder }
    }

    /// Returns the status and the units left after a request of a browser.
    fn request(&self, path: &str) -> (u16, Option<String>) {
        let reply = self.envoy.get(path, &BROWSER);
        (reply.status, reply.header("x-ratelimit-remaining").map(str::to_owned))
    }

    /// Uses up the limit of 100 units.
    fn use_up(&self) {
        for left in (0..20).rev().map(|searches| searches * 5) {
            assert_eq!(self.request("/search?q=tea"), (200, Some(left.to_string())));
        }
    }
}

#[test]
fn the_documented_example_limits_requests_by_their_cost() {
    let example = Example::start(|config| config);
    let first = example.envoy.get("/", &BROWSER);
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(first.header("x-ratelimit-limit"), Some("100, 100;w=3600;name=\"public-api\""), "{first:?}");
    assert_eq!(first.header("x-ratelimit-remaining"), Some("99"), "{first:?}");
    assert_eq!(first.header("x-ratelimit-reset"), Some("3600"), "{first:?}");
    for left in [94, 89, 84] {
        assert_eq!(example.request("/search?q=tea"), (200, Some(left.to_string())));
    }
    for left in (0..84).rev() {
        assert_eq!(example.request("/"), (200, Some(left.to_string())));
    }
    let arrived = example.upstream.take();
    assert_eq!(arrived.len(), 88, "every admitted request arrives");
    assert!(arrived.iter().all(|one| one.header("authorization") == Some("Bearer of-the-client")), "{arrived:?}");
    for path in ["/", "/search?q=tea"] {
        let denied = example.envoy.get(path, &BROWSER);
        assert_eq!((denied.status, denied.header("x-envoy-ratelimited")), (429, Some("true")), "{denied:?}");
        assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"), "{denied:?}");
        let wait = denied.header("retry-after").and_then(|wait| wait.parse().ok()).unwrap_or(0);
        assert!((1..=3600).contains(&wait), "{denied:?}");
    }
    assert_eq!(example.upstream.take().len(), 0, "no denied request arrives");
}

#[test]
fn an_older_envoy_sends_retry_after_as_documented() {
    let example = Example::start(|config| {
        let (before, after) = config.split_once("route_config:").expect("the connection manager has routes");
        let indent = &before[before.rfind('\n').expect("a line") + 1..];
        let reply = snippet("envoy-retry-after").replace('\n', &format!("\n{indent}"));
        let config = format!("{before}{reply}route_config:{after}");
        config.lines().filter(|line| !line.contains("enable_retry_after_header")).collect::<Vec<_>>().join("\n")
    });
    example.use_up();
    let denied = example.envoy.get("/", &BROWSER);
    assert_eq!(denied.status, 429, "{denied:?}");
    assert!(denied.header("retry-after").is_some(), "{denied:?}");
    assert_eq!(denied.header("retry-after"), denied.header("x-ratelimit-reset"), "{denied:?}");
}

#[test]
fn the_documented_example_needs_the_token_and_the_authority() {
    for (shown, wrong) in
        [("Bearer replace-this-usage-token", "Bearer wrong"), ("exact: limits.internal", "exact: other")]
    {
        let example = Example::start(|config| {
            assert!(config.contains(shown), "{config}");
            config.replace(shown, wrong).replace("failure_mode_deny: false", "failure_mode_deny: true")
        });
        assert_eq!(example.request("/"), (500, None), "{wrong}");
    }
}
