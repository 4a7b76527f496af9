//! Sources of the configuration: the file, the environment and flags.

use tidegate_server::config::{Config, SettingSources};

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let text = "[server]\nhttp = \"127.0.0.1:1\"\n[store]\nmax_keys = 5\n";
    let environment = SettingSources::default()
        .server("TIDEGATE_SERVER_HTTP", "http", "127.0.0.1:2")
        .store("TIDEGATE_STORE_MAX_KEYS", "max_keys", "1_000")
        .server("TIDEGATE_SERVER_HOSTS", "hosts", "[\"limits.internal\"]")
        .server("TIDEGATE_SERVER_ADMIN_TOKEN", "admin_token", "1234567890");
    let config = Config::parse("t.toml", text, &environment).expect("a valid configuration");
    assert_eq!(config.server.http, "127.0.0.1:2".parse().ok());
    assert_eq!(config.store.max_keys, 1_000);
    assert_eq!(config.server.hosts, ["limits.internal"]);
    assert_eq!(
        config.server.tokens.admin.as_deref(),
        Some("1234567890"),
        "a string that looks like a number stays a string"
    );
    let flags = environment.server("--http", "http", "off");
    assert_eq!(Config::parse("t.toml", text, &flags).expect("a valid configuration").server.http, None);
}

#[test]
fn a_wrong_flag_or_variable_is_refused_by_its_name() {
    for (overrides, expected) in [
        (
            SettingSources::default().server("TIDEGATE_SERVER_HTPP", "htpp", "x"),
            "TIDEGATE_SERVER_HTPP: unknown key `htpp`: did you mean `http`?",
        ),
        (SettingSources::default().server("--http", "http", "x"), "--http: `x` is not an address"),
        (
            SettingSources::default().server("TIDEGATE_SERVER_ADMIN_TOKEN", "admin_token", "short"),
            "TIDEGATE_SERVER_ADMIN_TOKEN: `admin_token` is too short",
        ),
        (SettingSources::default().store("TIDEGATE_STORE_MAX_KEYS", "max_keys", "many"), "TIDEGATE_STORE_MAX_KEYS: "),
    ] {
        let error = Config::parse("t.toml", "", &overrides).expect_err("an invalid configuration").to_string();
        assert!(error.starts_with(expected), "{error}\n expected {expected}");
    }
}

#[test]
fn no_error_and_no_log_quotes_a_token_or_a_password() {
    let parse = |url: &str| Config::parse("t.toml", &format!("[store]\nurl = \"{url}\"\n"), &SettingSources::default());
    for url in ["tidegate://:s3cret-token", "tidegate:/:s3cret-token@root", "redis://:s3cret-word", "redis:/:s3cret@a"]
    {
        let error = parse(url).expect_err("an invalid URL").to_string();
        assert!(error.contains("the url is not one of a store") && !error.contains("s3cret"), "{error}");
    }
    let config = parse("tidegate://:s3cret-token@root").expect("a valid configuration");
    assert!(!format!("{:?}", config.store).contains("s3cret"), "{:?}", config.store);
}

#[test]
fn the_documented_configuration_is_accepted() {
    let text = r#"
[server]
http = "127.0.0.1:8080"
resp = "127.0.0.1:6380"
grpc = "127.0.0.1:8081"

[store]
url = "memory"
timeout = "15ms"
max_keys = 1_000_000
max_bytes = "512MB"
at_capacity = "shared"
caller_share = 0.25

[policies.public-api]
limits = ["60/1m"]
key = "client-ip"
on_store_failure = "open"

[policies.youtube]
limits = ["9500/1d"]
on_store_failure = { local = 0.25 }
[policies.youtube.operations]
"search.list" = 100
"videos.list" = { cost = 1, on_store_failure = "open" }

[policies.login]
limits = ["5/1m", "50/1d"]
algorithm = "sliding_log"
mode = "enforce"

[[envoy]]
domain = "edge"
descriptors = [["remote_address"], ["user=alice", "path=/v1/*"]]
policy = "public-api"
"#;
    let config = Config::parse("t.toml", text, &SettingSources::default()).expect("a valid configuration");
    assert_eq!(config.policies.len(), 3);
    assert_eq!(config.policies.envoy().len(), 2);
    let youtube = config.policies.get("youtube").expect("it exists");
    assert_eq!(youtube.operation("search.list").map(|operation| operation.cost.get()), Some(100));
    assert_eq!(
        youtube.operation("videos.list").map(|operation| operation.policy.on_store_failure()),
        Some(tidegate::OnStoreFailure::Open)
    );
    assert_eq!(
        youtube.operation("search.list").map(|o| o.policy.on_store_failure()),
        Some(youtube.policy.on_store_failure())
    );
}

#[test]
fn mb_is_a_million_bytes_and_mib_is_a_power_of_two() {
    for (text, bytes) in [
        ("512MB", 512_000_000),
        ("512MiB", 512 << 20),
        ("2GB", 2_000_000_000),
        ("2GiB", 2 << 30),
        ("900KB", 900_000),
        ("900kB", 900_000),
        ("900KiB", 900 << 10),
    ] {
        let file = format!("[store]\nmax_bytes = \"{text}\"\n");
        let config = Config::parse("t.toml", &file, &SettingSources::default()).expect("a valid configuration");
        assert_eq!(config.store.max_bytes, bytes, "{text}");
    }
    let config = Config::parse("t.toml", "", &SettingSources::default()).expect("a valid configuration");
    assert_eq!(config.store.max_bytes, 512_000_000, "the default is the documented 512MB");
}

#[test]
fn a_candidate_is_a_shadow_policy_that_names_another_policy() {
    let parse = |mode: &str, other: &str| {
        let file = format!(
            "[policies.api]\nlimits = [\"60/1m\"]\n[policies.next]\nlimits = [\"30/1m\"]\n{mode}candidate_for = \"{other}\"\n"
        );
        Config::parse("t.toml", &file, &SettingSources::default())
    };
    let config = parse("mode = \"shadow\"\n", "api").expect("a valid configuration");
    let candidate_for = |name: &str| config.policies.get(name).expect("it exists").candidate_for.clone();
    assert_eq!((candidate_for("next").as_deref(), candidate_for("api")), (Some("api"), None));
    let shadow = "mode = \"shadow\"\n";
    for (mode, other, place, expected) in [
        ("", "api", "5:17", "`candidate_for` needs `mode = \"shadow\"`"),
        ("mode = \"enforce\"\n", "api", "6:17", "`candidate_for` needs `mode = \"shadow\"`"),
        (shadow, "next", "6:17", "a policy can't be a candidate for itself"),
        (shadow, "apo", "6:17", "there is no policy `apo`: did you mean `api`?"),
        (shadow, "nowhere", "6:17", "there is no policy `nowhere`"),
    ] {
        let error = parse(mode, other).expect_err("an invalid configuration").to_string();
        assert!(error.starts_with(&format!("t.toml:{place}: policy `next`: {expected}")), "{error}");
    }
}

#[test]
fn idle_connections_stay_open_by_default() {
    let idle = |text: &str, overrides: &SettingSources| {
        let config = Config::parse("t.toml", text, overrides).expect("a valid configuration");
        config.server.bounds.idle_timeout
    };
    let five_minutes = Some(std::time::Duration::from_secs(300));
    for (text, expected) in [
        ("", None),
        ("[server]\nidle_timeout = \"off\"", None),
        ("[server]\nidle_timeout = \"0\"", None),
        ("[server]\nidle_timeout = \"5m\"", five_minutes),
    ] {
        assert_eq!(idle(text, &SettingSources::default()), expected, "{text}");
    }
    let off = SettingSources::default().server("TIDEGATE_SERVER_IDLE_TIMEOUT", "idle_timeout", "off");
    assert_eq!(idle("[server]\nidle_timeout = \"5m\"", &off), None);
}
