//! Redis tools and unmodified client libraries of three languages work with the service.

use std::{path::Path, process::Command};

use crate::{
    running::Running,
    tools::{peer, run},
};

const CONFIG: &str = r#"
[policies.api]
limits = ["3/1h"]
[policies.wide]
limits = ["1_000_000/1h"]
"#;

const TOKENS: &str = r#"
[server]
token = "usage-token"
admin_token = "admin-token"
"#;

/// One service without tokens, and one with tokens.
fn services() -> (Running, Running) {
    (Running::start(CONFIG), Running::start(&format!("{TOKENS}{CONFIG}")))
}

/// Runs the script of a client with the two ports as arguments.
#[track_caller]
fn script(command: &mut Command, name: &str, services: &(Running, Running)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/clients").join(name);
    command.arg(path).arg(services.0.resp.port().to_string()).arg(services.1.resp.port().to_string());
    let output = run(command);
    assert_eq!(output.trim(), "ok", "{name}");
}

#[test]
fn redis_py_is_served() {
    script(&mut Command::new(peer("python/bin/python")), "redis_py.py", &services());
}

#[test]
fn ioredis_is_served() {
    let modules = peer("node/node_modules");
    assert!(modules.join("ioredis").exists(), "ioredis is missing: run scripts/peers");
    script(Command::new("node").env("NODE_PATH", modules), "ioredis.js", &services());
}

#[test]
fn node_redis_is_served() {
    let modules = peer("node/node_modules");
    assert!(modules.join("redis").exists(), "node-redis is missing: run scripts/peers");
    script(Command::new("node").env("NODE_PATH", modules), "node_redis.js", &services());
}

#[test]
fn phpredis_is_served() {
    let modules = run(Command::new("php").arg("-m"));
    assert!(modules.lines().any(|module| module == "redis"), "phpredis is missing: run scripts/peers");
    script(&mut Command::new("php"), "phpredis.php", &services());
}

fn redis_cli(service: &Running, arguments: &[&str]) -> String {
    let port = service.resp.port().to_string();
    run(Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(arguments))
}

#[test]
fn redis_cli_is_served() {
    let (open, guarded) = services();
    assert_eq!(redis_cli(&open, &["PING"]), "PONG\n");
    let lines = |output: String| output.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(redis_cli(&open, &["TG.CHECK", "api", "k"]))[..4], ["1", "3", "2", "-1"]);
    assert_eq!(lines(redis_cli(&open, &["CL.THROTTLE", "user123", "15", "30", "60"])), ["0", "16", "15", "-1", "2"]);
    let full = redis_cli(&open, &["-3", "--json", "TG.PEEK", "api", "k", "FULL"]);
    assert!(full.contains(r#""allowed":true,"reason":"allowed","policy":"api","limit":"3/1h","used":1"#), "{full}");
    let full = redis_cli(&open, &["TG.PEEK", "api", "k", "FULL"]);
    assert!(full.starts_with("allowed\n1\nreason\nallowed\npolicy\napi\n"), "{full}");
    assert!(redis_cli(&open, &["TG.CHECK", "apo", "k"]).contains("did you mean `api`?"));
    assert!(redis_cli(&open, &["INFO"]).contains("tidegate_version:"));
    assert!(redis_cli(&guarded, &["TG.CHECK", "api", "k"]).starts_with("NOAUTH "));
    let authorized = ["--no-auth-warning", "-a", "admin-token"];
    assert_eq!(redis_cli(&guarded, &[&authorized[..], &["TG.RESET", "api", "k"]].concat()), "0\n");
    let as_user = ["--no-auth-warning", "--user", "anyone", "--pass", "usage-token", "-3"];
    assert!(redis_cli(&guarded, &[&as_user[..], &["TG.CHECK", "api", "k"]].concat()).starts_with("1\n3\n2\n"));
}

#[test]
fn redis_cli_sends_a_file_at_once() {
    let (open, _) = services();
    let port = open.resp.port().to_string();
    let commands = "TG.CHECK wide k\r\n".repeat(10_000);
    let file = std::env::temp_dir().join(format!("tidegate-pipe-{port}"));
    std::fs::write(&file, commands).expect("a writable file");
    let input = std::fs::File::open(&file).expect("it was written");
    let output = run(Command::new("redis-cli").args(["-p", &port, "--pipe"]).stdin(input));
    std::fs::remove_file(&file).expect("it existed");
    assert!(output.contains("errors: 0, replies: 10000"), "{output}");
    assert_eq!(redis_cli(&open, &["TG.PEEK", "wide", "k"]).lines().nth(2), Some("990000"));
}

#[test]
fn redis_benchmark_is_served() {
    let (open, _) = services();
    let port = open.resp.port().to_string();
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port, "-c", "5", "-n", "2000", "-P", "16", "-q", "TG.CHECK", "wide", "k"]);
    let output = run(&mut command);
    assert!(output.contains("requests per second"), "{output}");
    assert_eq!(redis_cli(&open, &["TG.PEEK", "wide", "k"]).lines().nth(2), Some("998000"));
}

#[test]
fn redis_cli_is_served_over_tls() {
    let dir = std::env::temp_dir().join(format!("tidegate-resp-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a writable directory");
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]);
    make.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
    run(make.arg("-out").arg(&cert).arg("-keyout").arg(&key));
    let service = Running::start(&format!("[server]\ntls_cert = {cert:?}\ntls_key = {key:?}\n{CONFIG}"));
    let cert = cert.display().to_string();
    let tls = ["--tls", "--cacert", &cert];
    let output = redis_cli(&service, &[&tls[..], &["TG.CHECK", "api", "k"]].concat());
    assert!(output.starts_with("1\n3\n2\n"), "{output}");
    let mut pipe = Command::new("redis-cli");
    pipe.args(["-p", &service.resp.port().to_string(), "-r", "500"]).args(tls).args(["TG.CHECK", "wide", "k"]);
    assert_eq!(run(&mut pipe).lines().count(), 500 * 7 - 500);
    std::fs::remove_dir_all(&dir).expect("it existed");
}
