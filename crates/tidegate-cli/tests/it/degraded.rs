//! Each kind of Redis failure is visible in the log, in `/readyz`, in the metrics and in the dashboard until it ends.

use std::net::SocketAddr;

use serde_json::Value;
use tidegate_testbed::{Reply, Server, wait_for};

use crate::{
    http::{TIMEOUT, check, get, json_of},
    process::{Serving, file},
};

/// A service with a Redis store, and its log lines so far.
struct Observed {
    serving: Serving,
    http: SocketAddr,
    log: Vec<Value>,
}

impl Observed {
    fn start(name: &str, url: &str) -> Self {
        let store = format!("[store]\nurl = \"{url}\"\ntimeout = \"1s\"\n");
        let path = file(name, &format!("{store}[policies.api]\nlimits = [\"1000000/1h\"]\n"));
        let serving = Serving::start(&["--config", path.to_str().expect("text")]);
        let http = serving.http.trim_start_matches("http://").parse().expect("an address");
        let observed = Self { serving, http, log: Vec::new() };
        wait_for("Redis to decide", TIMEOUT, || observed.expect_degraded(false));
        observed
    }

    /// Sends a check. Fails unless `degraded` is as expected.
    fn expect_degraded(&self, degraded: bool) -> Result<(), String> {
        let decision = check(self.http, "api")?;
        if decision["degraded"] == degraded { Ok(()) } else { Err(decision.to_string()) }
    }

    fn page(&self, path: &str) -> String {
        get(self.http, path).expect("an answer")
    }

    /// Reads the log up to a line with this beginning and this cause.
    fn read_log_until(&mut self, beginning: &str, cause: &str) -> Value {
        let matches = |line: &Value| {
            line["cause"] == cause && line["message"].as_str().is_some_and(|message| message.starts_with(beginning))
        };
        let Self { serving, log, .. } = self;
        serving.read_until(|line| {
            log.push(line.clone());
            matches(line)
        })
    }

    /// Asserts that the state is visible everywhere.
    fn assert_reported(&mut self, cause: &str) {
        let state = wait_for(cause, TIMEOUT, || {
            check(self.http, "api")?;
            let ready = json_of(&get(self.http, "/readyz")?);
            let state =
                ready["degraded"].as_array().expect("a list").iter().find(|state| state["cause"] == cause).cloned();
            assert!(state.is_none() || (ready["status"] == "degraded" && ready["store_answers"] == false), "{ready}");
            state.ok_or_else(|| ready.to_string())
        });
        assert!(state["cure"].as_str().is_some_and(|cure| !cure.is_empty()) && state["node"].is_string(), "{state}");
        let lines = [
            format!("\ntidegate_degraded{{cause=\"{cause}\"}} 1\n"),
            format!("\ntidegate_degraded_answers_total{{cause=\"{cause}\"}} "),
        ];
        wait_for("the metrics", TIMEOUT, || {
            check(self.http, "api")?;
            let metrics = get(self.http, "/metrics")?;
            if lines.iter().all(|line| metrics.contains(line)) { Ok(()) } else { Err(metrics) }
        });
        let overview = json_of(&self.page("/v1/overview"));
        assert!(
            overview["degraded"].as_array().expect("a list").iter().any(|state| state["cause"] == cause),
            "{overview}"
        );
        let line = self.read_log_until("degraded", cause);
        assert_eq!((&line["level"], &line["cure"]), (&Value::from("WARN"), &state["cure"]), "{line}");
        let begun = self.log.iter().filter(|line| line["cause"] == cause && line["level"] == "WARN").count();
        assert_eq!(begun, 1, "the change of state is one line: {:?}", self.log);
    }

    /// Asserts that the state has ended everywhere.
    fn assert_recovered(&mut self, cause: &str) {
        wait_for("the state to end", TIMEOUT, || {
            self.expect_degraded(false)?;
            let ready = json_of(&get(self.http, "/readyz")?);
            if ready["status"] == "ok" && ready["store_answers"] == true { Ok(()) } else { Err(ready.to_string()) }
        });
        let metrics = self.page("/metrics");
        assert!(metrics.contains(&format!("\ntidegate_degraded{{cause=\"{cause}\"}} 0\n")), "{metrics}");
        assert_eq!(self.read_log_until("no longer degraded", cause)["level"], "INFO");
    }
}

#[test]
fn a_stopped_redis_is_reported() {
    let redis = Server::start();
    let mut observed = Observed::start("stopped", &redis.url());
    redis.stop();
    observed.assert_reported("unreachable");
    redis.restart();
    observed.assert_recovered("unreachable");
}

#[test]
fn a_full_redis_is_reported() {
    let redis = Server::builder().arg("maxmemory-policy", "noeviction").start();
    let mut observed = Observed::start("full", &redis.url());
    redis.wire().command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    observed.assert_reported("out_of_memory");
    redis.wire().command(["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    observed.assert_recovered("out_of_memory");
}

#[test]
fn a_redis_user_without_the_right_to_write_is_reported() {
    let rights = "resetchannels ~tg:* +@all";
    let redis = Server::builder().acl_user("limiter", "p4ss", rights).start();
    let mut observed = Observed::start("rights", &redis.url_as("limiter", "p4ss"));
    redis.wire().command(["ACL", "SETUSER", "limiter", "-evalsha"]).expect_ok();
    observed.assert_reported("no_permission");
    redis.wire().command(["ACL", "SETUSER", "limiter", "+evalsha"]).expect_ok();
    observed.assert_recovered("no_permission");
}

#[test]
fn a_key_that_another_program_wrote_is_reported() {
    let redis = Server::start();
    let mut observed = Observed::start("type", &redis.url());
    let mut wire = redis.wire();
    let names = wire.command(["KEYS", "tg:*"]);
    let Reply::Array(names) = &names else { panic!("{names:?} is no list") };
    let name = names[0].as_str_lossy();
    wire.command(["DEL", &name]).integer();
    wire.command(["RPUSH", &name, "something else"]).integer();
    observed.assert_reported("wrong_type");
    wire.command(["DEL", &name]).integer();
    observed.assert_recovered("wrong_type");
}

#[test]
fn a_redis_that_lacks_its_replicas_is_reported() {
    let redis = Server::start();
    let mut observed = Observed::start("replicas", &redis.url());
    redis.wire().command(["CONFIG", "SET", "min-replicas-to-write", "1"]).expect_ok();
    observed.assert_reported("no_replicas");
    redis.wire().command(["CONFIG", "SET", "min-replicas-to-write", "0"]).expect_ok();
    observed.assert_recovered("no_replicas");
}

#[test]
fn a_redis_that_loads_its_data_is_reported() {
    let master = Server::builder().arg("repl-diskless-sync-delay", "0").start();
    let mut wire = master.wire();
    for number in 0..1000 {
        wire.command(["SET", &format!("ballast {number}"), &"x".repeat(100)]).expect_ok();
    }
    let redis = Server::builder().arg("loading-process-events-interval-bytes", "1024").start();
    let mut observed = Observed::start("loading", &redis.url());
    let mut wire = redis.wire();
    // Redis waits ten milliseconds for each key that it loads, until the test sets this to 0.
    wire.command(["CONFIG", "SET", "key-load-delay", "10000"]).expect_ok();
    wire.command(["REPLICAOF", "127.0.0.1", &master.port().to_string()]).expect_ok();
    let is_loading = |wire: &mut tidegate_testbed::Wire| wire.command(["EXISTS", "nothing"]).is_error();
    wait_for("the server to load", TIMEOUT, || is_loading(&mut wire).then_some(()).ok_or_else(String::new));
    observed.assert_reported("loading");
    wire.command(["CONFIG", "SET", "key-load-delay", "0"]);
    wait_for("the server to have loaded", TIMEOUT, || (!is_loading(&mut wire)).then_some(()).ok_or_else(String::new));
    wire.command(["REPLICAOF", "NO", "ONE"]).expect_ok();
    observed.assert_recovered("loading");
}
