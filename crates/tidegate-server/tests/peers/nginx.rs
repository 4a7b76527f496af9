//! nginx asks before it passes a request on (`auth_request`), with curl as the client.

use std::{
    fs,
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tidegate_testbed::free_port;

use crate::{running::Running, tools::run};

const LIMITS: &str = r#"
[server]
trusted_proxies = ["127.0.0.1"]
[policies.by-address]
limits = ["2/1h"]
[policies.by-key]
limits = ["1/1h"]
key = "header:x-api-key"
"#;

/// nginx in front of pages of its own; ends with it.
struct Nginx {
    port: u16,
    child: Child,
    folder: PathBuf,
}

impl Nginx {
    fn start(limits: u16) -> Self {
        let port = free_port();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nginx-{port}"));
        fs::create_dir_all(folder.join("logs")).expect("a folder can be made");
        let config = include_str!("nginx.conf")
            .replace("{folder}", &folder.display().to_string())
            .replace("{port}", &port.to_string())
            .replace("{limits}", &limits.to_string());
        fs::write(folder.join("nginx.conf"), config).expect("it can be written");
        let child = Command::new("nginx")
            .args(["-p", &folder.display().to_string(), "-c", "nginx.conf"])
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is there: scripts/peers installs it");
        let mut nginx = Self { port, child, folder };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = nginx.child.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "nginx ended: {:?}", fs::read_to_string(nginx.folder.join("logs/error.log")));
            std::thread::yield_now();
        }
        nginx
    }

    /// The status and the headers of a page, as curl sees them.
    fn page(&self, path: &str, headers: &[&str]) -> String {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-D", "-"]);
        for header in headers {
            curl.args(["-H", header]);
        }
        run(curl.arg(format!("http://127.0.0.1:{}{path}", self.port))).to_lowercase()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers go with it when it is asked to; killed, it would leave them.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn nginx_passes_what_fits_and_denies_the_rest() {
    let running = Running::start(LIMITS);
    let nginx = Nginx::start(running.http.port());
    for (path, headers, status) in [
        ("/by-address/", &["x-forwarded-for: 6.6.6.1"][..], " 200 "),
        ("/by-address/", &["x-forwarded-for: 6.6.6.2", "origin: https://shop.example", "host: shop.example"], " 200 "),
        ("/by-address/", &["x-forwarded-for: 6.6.6.3"], " 429 "),
        ("/by-key/", &["x-api-key: one"], " 200 "),
        ("/by-key/", &["x-api-key: two"], " 200 "),
        ("/by-key/", &["x-api-key: one"], " 429 "),
    ] {
        let page = nginx.page(path, headers);
        assert!(page.starts_with("http/1.1") && page.contains(status), "{path} {headers:?} gives\n{page}");
        assert_eq!(page.contains("retry-after: "), status == " 429 ", "{path} {headers:?} gives\n{page}");
        assert!(page.contains("ratelimit: \"by-"), "{path} {headers:?} gives\n{page}");
    }
}
