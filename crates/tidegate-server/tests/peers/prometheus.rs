//! Tests of the metrics, the alert rules and the Grafana dashboard with a real Prometheus.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate_testbed::{free_port, wait_for};

use crate::{running::Running, tools::run};

const POLICIES: &str = "[policies.api]\nlimits = [\"1000000/1h\"]\n[policies.tiny]\nlimits = [\"1/1h\"]\n";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A file of the folder `deploy`.
fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// A Prometheus that scrapes one service each second. It is stopped on drop.
struct Prometheus {
    port: u16,
    child: Child,
    folder: PathBuf,
}

impl Prometheus {
    fn start(service: SocketAddr) -> Self {
        let port = free_port();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prometheus-{port}"));
        fs::create_dir_all(&folder).expect("a writable directory");
        let rules = deployed("prometheus-rules.yaml");
        let config = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules.to_str().expect("text")],
            "scrape_configs": [{ "job_name": "tidegate", "static_configs": [{ "targets": [service.to_string()] }] }],
        });
        // JSON is valid YAML.
        fs::write(folder.join("prometheus.yml"), config.to_string()).expect("a writable file");
        let log = fs::File::create(folder.join("log")).expect("a writable file");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus is installed by scripts/peers");
        Self { port, child, folder }
    }

    /// Returns the series of a query with their newest values.
    fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let output = Command::new("curl")
            .args(["-s", "-G", "--data-urlencode", &format!("query={query}")])
            .arg(format!("http://127.0.0.1:{}/api/v1/query", self.port))
            .output()
            .expect("curl is installed by scripts/peers");
        let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let answer: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", log()))?;
        if answer["status"] != "success" {
            return Err(format!("`{query}` failure_mode: {answer}"));
        }
        Ok(answer["data"]["result"].as_array().expect("a list").clone())
    }

    /// Queries during traffic until a series has a finite value.
    fn wait_for(&self, query: &str, traffic: &dyn Fn()) -> Vec<Value> {
        let is_number = |series: &Value| {
            let value = series["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
            value.is_some_and(f64::is_finite)
        };
        wait_for(query, TIMEOUT, || {
            traffic();
            let found: Vec<_> = self.query(query)?.into_iter().filter(is_number).collect();
            if found.is_empty() { Err("nothing".to_owned()) } else { Ok(found) }
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn scrape(http: SocketAddr) -> String {
    run(Command::new("curl").args(["-s", "-H", "accept: text/plain", &format!("http://{http}/metrics")]))
}

/// Traffic of every kind: over HTTP and RESP, allowed and denied, near the limit, and refused.
fn traffic(running: &Running) {
    let check = |body: Value| {
        let url = format!("http://{}/v1/check", running.http);
        run(Command::new("curl").args(["-s", "-H", "content-type: application/json", "-d", &body.to_string(), &url]));
    };
    check(json!({ "policy": "api", "key": "a" }));
    check(json!({ "policy": "tiny", "key": "a" }));
    check(json!({ "policy": "unknown", "key": "a" }));
    let port = running.resp.port().to_string();
    run(Command::new("redis-cli").args(["-p", &port, "TG.CHECK", "api", "b"]));
    run(Command::new("redis-cli").args(["-p", &port, "TG.LIMIT", "b", "1/1h"]));
}

#[test]
fn promtool_accepts_the_metrics() {
    let running = Running::start(POLICIES);
    traffic(&running);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed by scripts/peers");
    let metrics = scrape(running.http);
    promtool.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("the service listens");
    let output = promtool.wait_with_output().expect("it ends");
    let output_text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}\n{metrics}", output.status, String::from_utf8_lossy(&output_text));
}

#[test]
fn promtool_accepts_the_rules() {
    run(Command::new("promtool").args(["check", "rules"]).arg(deployed("prometheus-rules.yaml")));
}

#[test]
fn every_metric_of_the_rules_is_in_a_scrape() {
    let running = Running::start(POLICIES);
    traffic(&running);
    let (metrics, rules) =
        (scrape(running.http), fs::read_to_string(deployed("prometheus-rules.yaml")).expect("a file"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = rules.lines().filter(|line| line.contains("expr:")).flat_map(|line| line.split(|c| !is_part(c)));
    let named: std::collections::BTreeSet<_> = named.filter(|word| word.starts_with("tidegate_")).collect();
    assert!(named.len() >= 6, "{named:?}");
    for name in named {
        assert!(
            metrics.contains(&format!("\n# TYPE {} ", name.trim_end_matches("_bucket"))),
            "{name} is not in\n{metrics}"
        );
    }
}

#[test]
fn prometheus_computes_p99_by_policy_and_transport() {
    let running = Running::start(POLICIES);
    let prometheus = Prometheus::start(running.http);
    let busy = || traffic(&running);
    for (policy, transport) in [("api", "http"), ("api", "resp"), ("tiny", "http"), ("(limits)", "resp")] {
        let of = format!("{{policy=\"{policy}\",transport=\"{transport}\"}}");
        let query = format!(
            "histogram_quantile(0.99, sum by (le, policy, transport) (rate(tidegate_decision_seconds_bucket{of}[30s])))"
        );
        let series = prometheus.wait_for(&query, &busy);
        let p99: f64 = series[0]["value"][1].as_str().expect("a value").parse().expect("a number");
        assert!(p99 > 0.0, "{series:?}");
    }
    let build = prometheus.wait_for("tidegate_build_info", &busy);
    assert_eq!(build[0]["metric"]["version"], env!("CARGO_PKG_VERSION"), "{build:?}");
}

#[test]
fn every_query_of_the_dashboard_and_the_rules_has_a_result() {
    let running = Running::start(POLICIES);
    let prometheus = Prometheus::start(running.http);
    let busy = || traffic(&running);
    let dashboard: Value =
        serde_json::from_slice(&fs::read(deployed("grafana-dashboard.json")).expect("a file")).expect("JSON");
    for panel in dashboard["panels"].as_array().expect("a list") {
        for target in panel["targets"].as_array().expect("a list") {
            let query = target["expr"].as_str().expect("a text");
            let query = query.replace("$__rate_interval", "30s").replace("$job", "tidegate").replace("$instance", ".*");
            prometheus.wait_for(&query, &busy);
        }
    }
    let output =
        Command::new("curl").args(["-s", &format!("http://127.0.0.1:{}/api/v1/rules", prometheus.port)]).output();
    let rules: Value =
        serde_json::from_slice(&output.expect("curl is installed by scripts/peers").stdout).expect("JSON");
    let rules = rules["data"]["groups"][0]["rules"].as_array().expect("a list").clone();
    assert!(rules.len() >= 8, "{rules:?}");
    for rule in &rules {
        prometheus.query(rule["query"].as_str().expect("a text")).expect("it is answered");
        assert_eq!((rule["health"] == "err", rule["state"] == "firing"), (false, false), "{rule}");
    }
}
