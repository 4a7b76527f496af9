//! A real proxy with a configuration of docs/proxies.md, the service that it calls, and the server behind it.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tidegate_testbed::{free_port, markdown::with_ports};

use crate::{
    client::{Response, request},
    running::{Running, Stopped},
    tools::{peer, snippet},
    upstream::Upstream,
};

pub(super) const TOKENS: &str = "[server]\ntoken = \"usage-token\"\nadmin_token = \"admin-token\"\n";

/// The main configuration of nginx, which includes the tested one. It uses its own folder only.
const NGINX: &str = "daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include limit.conf;
}
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Nginx,
    Caddy,
    Traefik,
}

/// The behavior of a proxy when the service is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureMode {
    Closed,
    Open,
}

/// The proxy, the service that it calls and the server behind it. All are stopped on drop.
pub(super) struct Chain {
    pub(super) front: SocketAddr,
    pub(super) upstream: Upstream,
    service: Option<Running>,
    process: Child,
    folder: PathBuf,
}

impl Chain {
    /// Starts the chain with these policies. The proxy uses the policy `public-api`.
    pub(super) fn start(proxy: Proxy, failure_mode: FailureMode, policies: &str) -> Self {
        // Traefik sends a token only in its configuration that fails open.
        let tokens = if (proxy, failure_mode) == (Proxy::Traefik, FailureMode::Closed) { "" } else { TOKENS };
        let service = Stopped::on_free_ports().start(&format!("{tokens}{policies}"));
        let upstream = Upstream::start();
        let front = free_port();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("proxy-{front}"));
        fs::create_dir_all(&folder).expect("a writable directory");
        let ports = [(8000, front), (8001, free_port()), (8080, service.http.port()), (9000, upstream.port)];
        let process = run(proxy, failure_mode, &folder, &|name| with_ports(&snippet(name), &ports));
        let front = (Ipv4Addr::LOCALHOST, front).into();
        let mut chain = Self { front, upstream, service: Some(service), process, folder };
        chain.wait();
        chain
    }

    /// Waits until the proxy forwards requests, and resets their count.
    fn wait(&mut self) {
        let (front, service) = (self.front, self.service.as_ref().expect("it runs"));
        let ready = || TcpStream::connect(front).is_ok() && request(front, "GET", "/ready", &[], "").status == 200;
        for _ in 0..1_500 {
            let ended = self.process.try_wait().expect("the process exists");
            assert!(ended.is_none(), "the proxy ended: {}", self.log());
            if ready() {
                let body = r#"{"policy":"public-api","key":"127.0.0.1"}"#;
                let headers = [("authorization", "Bearer admin-token"), ("content-type", "application/json")];
                assert_eq!(request(service.http, "POST", "/v1/reset", &headers, body).status, 200);
                self.upstream.take();
                return;
            }
            service.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
        }
        panic!("the proxy passes nothing on: {}", self.log());
    }

    /// Sends a request through the proxy.
    pub(super) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        request(self.front, method, path, headers, body)
    }

    /// Stops the service that the proxy calls.
    pub(super) fn stop_service(&mut self) -> Stopped {
        self.service.take().expect("it runs").stopped()
    }

    /// Starts the service again on the same ports.
    pub(super) fn start_service(&mut self, stopped: Stopped, config: &str) {
        self.service = Some(stopped.start(config));
    }

    /// Sends requests until a response has this status.
    pub(super) fn request_until(&self, status: u16) {
        for _ in 0..1_500 {
            if self.request("GET", "/", &[], "").status == status {
                return;
            }
            let service = self.service.as_ref().expect("it runs");
            service.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
        }
        panic!("no response has the status {status}: {}", self.log());
    }

    /// Returns the log of the proxy.
    pub(super) fn log(&self) -> String {
        ["output", "error.log"].map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default()).concat()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // nginx stops its workers on SIGTERM. SIGKILL would leave them running.
        let _ = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn run(proxy: Proxy, failure_mode: FailureMode, folder: &Path, snippet: &dyn Fn(&str) -> String) -> Child {
    let write = |name: &str, text: String| fs::write(folder.join(name), text + "\n").expect("a writable file");
    let suffix = if failure_mode == FailureMode::Open { "-fail-open" } else { "" };
    let mut command = match proxy {
        Proxy::Nginx => {
            write("nginx.conf", NGINX.to_owned());
            write("limit.conf", snippet(&format!("nginx{suffix}")));
            let mut command = Command::new("nginx");
            command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
            command
        }
        Proxy::Caddy => {
            write("Caddyfile", snippet(&format!("caddy{suffix}")));
            let mut command = Command::new("caddy");
            command.args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"]);
            command.env("CADDY_ADMIN", format!("127.0.0.1:{}", free_port())).env("HOME", folder);
            command.env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
            command
        }
        Proxy::Traefik => {
            write("traefik.yaml", snippet(&format!("traefik{suffix}-static")));
            write("limit.yaml", snippet(&format!("traefik{suffix}")));
            let mut command = Command::new(peer("python/bin/traefik"));
            command.arg("--configFile=traefik.yaml");
            command
        }
    };
    let output = || fs::File::options().create(true).append(true).open(folder.join("output")).expect("a log");
    command.current_dir(folder).stdin(Stdio::null()).stdout(output()).stderr(output());
    command.spawn().unwrap_or_else(|error| panic!("{proxy:?}: {error}: run scripts/peers"))
}
