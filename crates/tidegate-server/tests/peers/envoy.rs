//! Real Envoy, with its HTTP rate limit filter, in front of an upstream.

use crate::tools::peer;
use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tidegate_server::{
    Server, Transport,
    config::{Config, SettingSources},
};
use tidegate_testbed::free_port;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    runtime::Runtime,
};

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

/// An upstream, the service and Envoy. All are stopped on drop.
struct Chain {
    front: SocketAddr,
    server: Option<Server>,
    envoy: Child,
    watchdog: Child,
    log: PathBuf,
    runtime: Runtime,
}

/// The upstream. It answers every request with 200.
async fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {}
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nyes").await;
    }
}

/// A response of Envoy.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Chain {
    fn start(failure_mode_deny: bool) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (server, limits, upstream) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            let upstream = listener.local_addr().expect("the service listens").port();
            tokio::spawn(serve(listener));
            let overrides = ["http", "resp", "grpc"]
                .iter()
                .fold(SettingSources::default(), |all, key| all.server(key, key, "127.0.0.1:0"));
            let config = Config::parse("test.toml", LIMITS, &overrides).expect("a valid configuration");
            let server = Server::start(config, overrides).await.expect("it starts");
            let limits = server.address(Transport::Grpc).expect("the connection is open").port();
            (server, limits, upstream)
        });
        let front = free_port();
        let config = include_str!("envoy.yaml")
            .replace("{front}", &front.to_string())
            .replace("{upstream}", &upstream.to_string())
            .replace("{limits}", &limits.to_string())
            .replace("{failure_mode_deny}", &failure_mode_deny.to_string());
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("envoy-{front}.log"));
        let output = fs::File::create(&log).expect("a writable file");
        let program = peer("python/bin/envoy");
        let envoy = Command::new(&program)
            .args(["--config-yaml", &config, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn();
        let envoy = envoy.unwrap_or_else(|error| {
            panic!("{} can't be run ({error}): run scripts/peers, which installs it", program.display())
        });
        // Kills Envoy when this process ends: the pipe closes even if the process is killed.
        let watchdog = Command::new("sh")
            .args(["-c", "trap '' HUP INT TERM; read _; kill -KILL $0", &envoy.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell is installed");
        let front = ([127, 0, 0, 1], front).into();
        let mut chain = Self { front, server: Some(server), envoy, watchdog, log, runtime };
        chain.wait();
        chain
    }

    /// Waits until Envoy listens.
    fn wait(&mut self) {
        let (front, envoy) = (self.front, &mut self.envoy);
        let listening = async {
            while tokio::net::TcpStream::connect(front).await.is_err() {
                if let Some(status) = envoy.try_wait().expect("the process exists") {
                    return Err(status.to_string());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let timeout = Duration::from_secs(60);
        let ended = self.runtime.block_on(async { tokio::time::timeout(timeout, listening).await });
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        assert!(matches!(ended, Ok(Ok(()))), "Envoy does not listen ({ended:?}): {}", log());
    }

    /// Sends a GET request through Envoy.
    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.get_raw(path, &headers)
    }

    /// Sends a GET request with arbitrary bytes in the headers.
    fn get_raw(&self, path: &str, headers: &[(&str, &[u8])]) -> Reply {
        let mut stream = TcpStream::connect(self.front).expect("Envoy listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: front\r\nconnection: close\r\n").into_bytes();
        for (name, value) in headers {
            request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        request.extend(b"\r\n");
        stream.write_all(&request).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it answers");
        let (head, _) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it is HTTP");
        Reply { status, head: head.to_owned() }
    }

    fn as_user(&self, path: &str, user: &str) -> Reply {
        self.get(path, &[("x-user", user)])
    }

    /// Stops the service that Envoy calls.
    fn stop_service(&mut self) {
        let server = self.server.take().expect("it runs");
        self.runtime.block_on(server.stop());
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // The watchdog first: another process could get Envoy's process id afterwards.
        for child in [&mut self.watchdog, &mut self.envoy] {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
        let _ = fs::remove_file(&self.log);
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
        let seen = [(); 7].map(|()| chain.get_raw("/", &[("x-user", user)]).status);
        assert_eq!(seen, [200, 200, 200, 200, 200, 429, 429], "{user:?}");
    }
    // Such a header does not void the limit of another descriptor.
    let seen = [b'a', b'b', b'c', b'd']
        .map(|last| chain.get_raw("/both", &[("x-user", &[0xff, last]), ("x-tenant", b"acme")]).status);
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
