//! A process of Envoy, and requests through it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{running::Running, tools::peer};

/// A process of Envoy that listens. It is killed on drop.
pub(super) struct Envoy {
    front: SocketAddr,
    process: Child,
    watchdog: Child,
    log: PathBuf,
}

/// A response of Envoy.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    head: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Envoy {
    /// Starts Envoy in a folder with a configuration that listens on the port `front`, and waits until it listens.
    pub(super) fn start(config: &str, folder: &Path, front: u16, service: &Running) -> Self {
        let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("envoy-{front}.log"));
        let output = fs::File::create(&log).expect("a writable file");
        let program = peer("python/bin/envoy").canonicalize().expect("a file");
        let process = Command::new(&program)
            .args(["--config-yaml", config, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn();
        let process = process.unwrap_or_else(|error| {
            panic!("{} can't be run ({error}): run scripts/peers, which installs it", program.display())
        });
        // Kills Envoy when this process ends: the pipe closes even if the process is killed.
        let watchdog = Command::new("sh")
            .args(["-c", "trap '' HUP INT TERM; read _; kill -KILL $0", &process.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell is installed");
        let mut envoy = Self { front: ([127, 0, 0, 1], front).into(), process, watchdog, log };
        envoy.wait(service);
        envoy
    }

    /// Waits until Envoy listens, on the runtime of the service.
    fn wait(&mut self, service: &Running) {
        let (front, process) = (self.front, &mut self.process);
        let listening = async {
            while tokio::net::TcpStream::connect(front).await.is_err() {
                if let Some(status) = process.try_wait().expect("the process exists") {
                    return Err(status.to_string());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        let timeout = Duration::from_secs(60);
        let ended = service.block_on(async { tokio::time::timeout(timeout, listening).await });
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        assert!(matches!(ended, Ok(Ok(()))), "Envoy does not listen ({ended:?}): {}", log());
    }

    /// Sends a GET request through Envoy.
    pub(super) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.get_raw(path, &headers)
    }

    /// Sends a GET request with arbitrary bytes in the headers.
    pub(super) fn get_raw(&self, path: &str, headers: &[(&str, &[u8])]) -> Reply {
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
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // The watchdog first: another process could get Envoy's process id afterwards.
        for child in [&mut self.watchdog, &mut self.process] {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_file(&self.log);
    }
}
