//! `tidegate replay`: its reports, its input formats, and its errors.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;

use crate::process::{BINARY, exit_and_output, folder, run};

/// Returns a combined log: a scraper with thirty requests a minute, three people, and a malformed line.
fn access_log() -> String {
    let mut log = String::new();
    for second in 0..240 {
        let time = format!("17/May/2015:10:{:02}:{:02} +0000", second / 60, second % 60);
        let mut line = |ip: &str, path: &str| {
            let rest = r#"200 512 "-" "Agent \"7\"""#;
            let _ = writeln!(log, "{ip} - - [{time}] \"GET {path} HTTP/1.1\" {rest}");
        };
        if second % 2 == 0 {
            line("198.51.100.7", "/products?page=1");
        }
        if second % 40 == 0 {
            line("203.0.113.1", "/");
            line("203.0.113.2", "/search?q=a");
        }
        if second == 100 {
            line("2001:db8::1", "/");
            line("2001:db8::2", "/");
        }
    }
    log.push_str("198.51.100.7 - - [17/May/2015:10:04:0");
    log
}

fn write_file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder("replay").join(name);
    fs::write(&path, text).expect("a writable file");
    path.to_str().expect("text").to_owned()
}

/// Returns the printed text without the path of the test's folder.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "progress is for terminals: {}", String::from_utf8_lossy(&output.stderr));
    let folder = format!("{}/", folder("replay").display());
    String::from_utf8(output.stdout).expect("text").replace(&folder, "")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--format", "json"]].concat())).expect("JSON")
}

/// Returns the printed text. It must fit into 80 columns.
fn shown(arguments: &[&str]) -> String {
    let text = printed(arguments);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

#[test]
fn reports_the_denials_and_suggests_limits() {
    let log = write_file("golden.log", access_log());
    insta::assert_snapshot!(shown(&["replay", &log, "--limit", "20/1m", "--candidate", "20/1m fixed_window"]));
}

#[test]
fn reports_as_json() {
    let log = write_file("golden-json.log", access_log());
    let arguments = ["replay", &log, "--limit", "20/1m", "--limit", "5/10s", "--candidate", "100/1h gcra:10"];
    let found = json(&arguments);
    insta::assert_snapshot!(serde_json::to_string_pretty(&shortened(found)).expect("JSON"));
}

/// Replaces long lists of numbers by their lengths and sums, so that a person can check the rest.
fn shortened(value: Value) -> Value {
    match value {
        Value::Array(values) if values.len() > 12 && values.iter().all(Value::is_u64) => {
            let sum: u64 = values.iter().filter_map(Value::as_u64).sum();
            format!("{} numbers, {sum} in all", values.len()).into()
        }
        Value::Array(values) => values.into_iter().map(shortened).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, shortened(value))).collect(),
        other => other,
    }
}

#[test]
fn reports_the_demand_without_a_limit() {
    let log = write_file("explore.log", access_log());
    insta::assert_snapshot!(shown(&["replay", &log]));
}

#[test]
fn a_configured_policy_is_tried_with_candidates() {
    let log = write_file("configured.log", access_log());
    let config = write_file(
        "policies.toml",
        "[policies.api]\nlimits = [\"20/1m\"]\n[policies.other]\nlimits = [\"5/1m\"]\nmode = \"shadow\"\n",
    );
    let known = ["replay", &log, "--config", &config];
    let found = json(&[&known[..], &["--policy", "api", "--policy", "other", "--candidate", "20/1m"]].concat());
    let denied = |at: usize| (found["policies"][at]["name"].clone(), found["policies"][at]["denied"].as_u64());
    assert_eq!(denied(0).0, "api");
    assert_eq!(denied(0).1, denied(2).1, "the same limit, the same denials");
    assert!(denied(1).1 > denied(0).1, "a policy in shadow mode reports its would-be denials");
    let (code, output) = exit_and_output(&[&known[..], &["--policy", "apo"]].concat());
    assert!(code == Some(2) && output.contains("did you mean `api`?"), "{output}");
}

#[test]
fn clients_are_counted_by_the_chosen_key() {
    let log = write_file("by.log", access_log());
    let clients = |by: &[&str]| json(&[&["replay", &log, "--limit", "1/1m"], by].concat())["clients"].as_u64();
    assert_eq!(clients(&[]), Some(4), "two IPv6 addresses of one network are one client");
    assert_eq!(clients(&["--ipv6-prefix", "128"]), Some(5));
    assert_eq!(clients(&["--by", "path"]), Some(3));
    assert_eq!(clients(&["--by", "ip+path"]), Some(4));
    assert_eq!(clients(&["--by", "ip", "--by", "header:user-agent"]), Some(4));
    assert_eq!(clients(&["--by", r"regex:page=(\d+)"]), Some(1));
    let output = run(&["replay", &log, "--limit", "1/1m", "--by", "user", "--format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&found["clients"], &found["input"]["without_key"]), (&Value::from(0), &Value::from(134)));
    assert_eq!(output.status.code(), Some(2), "no request has a key");
    let (code, output) = exit_and_output(&["replay", &log, "--limit", "1/1m", "--by", "header:x-api-key"]);
    assert!(code == Some(2) && output.contains("header:user-agent"), "{output}");
}

#[test]
fn costs_come_from_fields_and_tables() {
    let log = write_file("costs.log", access_log());
    let table = write_file("costs.txt", "# what things cost\n/search 10\n/products 2\n");
    let units = |cost: &[&str]| json(&[&["replay", &log, "--limit", "1/1m"], cost].concat())["input"]["units"].as_u64();
    assert_eq!(units(&[]), Some(134));
    assert_eq!(units(&["--cost", "field:bytes"]), Some(134 * 512));
    let by_path = Some(120 * 2 + 6 * 10 + 8);
    assert_eq!(units(&["--cost", "/search=10", "--cost", "/products=2"]), by_path);
    assert_eq!(units(&["--cost", &format!("table:{table}")]), by_path);
    assert_eq!(exit_and_output(&["replay", &log, "--limit", "1/1m", "--cost", "search=10"]).0, Some(2));
}

#[test]
fn every_format_gives_the_same_requests() {
    let want = [("a", 5_000_000), ("b", 5_250_000), ("a", 6_000_000)];
    let rows = |line: &dyn Fn(&str, u64) -> String| want.map(|(key, time)| line(key, time)).join("\n");
    let json_lines = rows(&|key, time| {
        format!("{{\"ts\":{}.{:06},\"request\":{{\"client_ip\":\"{key}\"}}}}", time / 1_000_000, time % 1_000_000)
    });
    let trace = format!("time_us,key,cost\n{}", rows(&|key, time| format!("{time},{key},1")));
    let quoted = format!("key,time_us\r\n{}", rows(&|key, time| format!("\"{key}\",{time}\r")));
    let custom = rows(&|key, time| {
        format!("<{key}> {}.{:03} \"GET \\\"x\\\" /\" end", time / 1_000_000, time % 1_000_000 / 1_000)
    });
    let log_format = "log_format mine '<$remote_addr> $msec ' '\"$request\" end';";
    let cases: [(&str, String, &[&str]); 4] = [
        ("f.json", json_lines, &[]),
        ("f.csv", trace, &[]),
        ("f-quoted.csv", quoted, &[]),
        ("f-custom.log", custom, &["--log-format", log_format]),
    ];
    for (name, text, more) in cases {
        let (file, out) = (write_file(name, text), folder("replay").join("f.out.csv"));
        let decisions = ["--limit", "1/1m", "--decisions", out.to_str().expect("text")];
        printed(&[&["replay", &file][..], more, &decisions[..]].concat());
        let rows = fs::read_to_string(&out).expect("decisions");
        let decided: Vec<&str> = rows.lines().skip(1).collect();
        let minute = 60_000_000;
        let expected = [
            format!("5000000,a,1,allowed,0,,{minute}"),
            format!("5250000,b,1,allowed,0,,{minute}"),
            format!("6000000,a,1,limited,0,{},{}", minute - 1_000_000, minute - 1_000_000),
        ];
        assert_eq!(decided, expected, "{name}");
    }
}

#[test]
fn compressed_files_are_read_and_several_are_merged_by_time() {
    let trace = |times: &[u64]| {
        let rows: Vec<String> = times.iter().map(|time| format!("{time},k,1")).collect();
        format!("time_us,key,cost\n{}\n", rows.join("\n"))
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(trace(&[10, 40, 70]).as_bytes()).expect("it can be compressed");
    let gzip = write_file("m.gz", gzip.finish().expect("it can be compressed"));
    let zstd = compress_to_vec(trace(&[20, 50, 80]).as_bytes(), CompressionLevel::Fastest);
    let zstd = write_file("m.zst", zstd);
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).expect("valid options");
    xz.write_all(trace(&[25, 55]).as_bytes()).expect("it can be compressed");
    let xz = write_file("m.xz", xz.finish().expect("it can be compressed"));
    let plain = write_file("m.csv", trace(&[30, 60, 90]));
    let out = folder("replay").join("m.out.csv");
    let out_text = out.to_str().expect("text");
    printed(&["replay", &plain, &gzip, &zstd, &xz, "--limit", "9/1m", "--decisions", out_text]);
    let rows = fs::read_to_string(&out).expect("decisions");
    let times: Vec<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    assert_eq!(times, ["10", "20", "25", "30", "40", "50", "55", "60", "70", "80", "90"]);

    let whole = fs::read(&gzip).expect("it exists");
    let cut = write_file("cut.gz", &whole[..whole.len() - 6]);
    let found = json(&["replay", &cut, "--limit", "9/1m"]);
    let error = found["input"]["troubles"][0].as_str().expect("an error");
    assert!(error.contains("cut.gz can't be read to its end"), "{error}");
    let whole = fs::read(&zstd).expect("the file");
    let cut = write_file("cut.zst", [&whole[..], &whole[..whole.len() - 6]].concat());
    let found = json(&["replay", &cut, "--limit", "9/1m"]);
    assert_eq!(found["input"]["requests"], 3, "the complete frame counts");
    assert!(found["input"]["troubles"][0].as_str().expect("an error").contains("cut.zst can't be read to its end"));
    let whole = fs::read(&xz).expect("the file");
    let cut = write_file("cut.xz", [&whole[..], &whole[..whole.len() - 40]].concat());
    let found = json(&["replay", &cut, "--limit", "9/1m"]);
    assert_eq!(found["input"]["requests"], 2, "the complete stream counts");
    let error = found["input"]["troubles"][0].as_str().expect("an error");
    assert!(error.contains("cut.xz can't be read to its end: the xz data ends early"), "{error}");
    let cut = write_file("only.xz", &whole[..20]);
    let (code, output) = exit_and_output(&["replay", &cut, "--limit", "9/1m"]);
    assert!(code == Some(2) && output.contains("the file is truncated"), "{code:?} {output}");
}

#[test]
fn standard_input_is_read() {
    let feed = |bytes: &[u8]| {
        let mut child = Command::new(BINARY)
            .args(["replay", "-", "--limit", "20/1m", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        child.stdin.take().expect("piped").write_all(bytes).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["input"]["requests"].as_u64()
    };
    assert_eq!(feed(access_log().as_bytes()), Some(134));
    assert_eq!(feed(b""), Some(0));
}

#[test]
fn spreading_is_optional_and_repeatable() {
    let log = write_file("spread.log", access_log());
    let denied = |more: &[&str]| {
        let found = json(&[&["replay", &log, "--limit", "20/1m", "--by", "path:1"], more].concat());
        assert_eq!(found["input"]["whole_seconds"], true);
        (found["policies"][0]["retry_after"].clone(), found["input"]["spread"].clone())
    };
    assert_eq!(denied(&[]).1, false);
    assert_eq!(denied(&["--spread"]), denied(&["--spread", "--seed", "1"]));
}

#[test]
fn decisions_of_sorted_requests_are_written_in_the_order_of_the_input() {
    let trace = |times: &[u64]| {
        let rows: Vec<String> = times.iter().map(|time| format!("{time},k,1")).collect();
        format!("time_us,key,cost\n{}\n", rows.join("\n"))
    };
    let decided = |name: &str, times: &[u64], more: &[&str]| {
        let (file, out) = (write_file(name, trace(times)), folder("replay").join(format!("{name}.out")));
        let decisions = ["--limit", "2/1s", "--decisions", out.to_str().expect("text")];
        printed(&[&["replay", &file][..], &decisions[..], more].concat());
        fs::read_to_string(&out).expect("decisions")
    };
    let late = [3_000_000, 1_000_000, 1_500_000, 2_000_000, 2_200_000, 3_100_000];
    let mut in_order = late;
    in_order.sort_unstable();
    let sorted = decided("late.csv", &late, &["--sort", "2s"]);
    let rows = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let times: Vec<u64> = rows(&sorted)[1..].iter().filter_map(|row| row.split(',').next()?.parse().ok()).collect();
    assert_eq!(times, late, "the rows are in the order of the input");
    let by_time = |text: &str| {
        let mut rows = rows(text);
        rows.sort();
        rows
    };
    assert_eq!(by_time(&sorted), by_time(&decided("in-order.csv", &in_order, &[])));
    assert_ne!(sorted, decided("late.csv", &late, &[]), "a trace is not sorted by default");
    let (code, output) = exit_and_output(&["replay", "-", "--sort", "soon"]);
    assert!(code == Some(2) && output.contains("or `off`"), "{output}");
}

/// Returns a log that a server writes at the end of each request, with the time of its beginning: one client, one request a second.
fn log_with_late_lines() -> String {
    let mut log = String::new();
    for line in 0..600_u64 {
        // The lines of each minute are in reverse order.
        let second = line / 60 * 60 + (59 - line % 60);
        let time = format!("17/May/2015:10:{:02}:{:02} +0000", second / 60, second % 60);
        let _ = writeln!(log, "198.51.100.7 - - [{time}] \"GET / HTTP/1.1\" 200 512");
    }
    log
}

#[test]
fn late_lines_of_a_log_are_sorted_automatically() {
    let log = write_file("late.log", log_with_late_lines());
    let text = shown(&["replay", &log, "--limit", "30/1m"]);
    assert!(text.contains("590 lines were up to 59s late: they were sorted by time"), "{text}");
    let found = json(&["replay", &log, "--limit", "30/1m"]);
    assert!(found["policies"][0]["retry_after"]["max_s"].as_u64() <= Some(60), "no wait exceeds the window");
    assert_eq!(found["policies"][0]["denied"], 300, "half of one request a second");
    let unsorted = json(&["replay", &log, "--limit", "30/1m", "--sort", "off"]);
    assert_eq!(unsorted["input"]["still_late"], 590);
    let text = shown(&["replay", &log, "--limit", "30/1m", "--sort", "off"]);
    let text = text.replace('\n', " ");
    assert!(text.contains("decided in the order of the file") && text.contains("--sort 59s"), "{text}");
    let text = shown(&["replay", &log, "--limit", "30/1m", "--sort", "10s"]);
    assert!(text.replace('\n', " ").contains("490 were more than 10s late"), "{text}");
}

#[test]
fn late_lines_of_standard_input_are_sorted() {
    let mut child = Command::new(BINARY)
        .args(["replay", "-", "--limit", "30/1m", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    child.stdin.take().expect("piped").write_all(log_with_late_lines().as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&found["input"]["still_late"], &found["policies"][0]["denied"]), (&Value::from(0), &Value::from(300)));
}

#[test]
fn filters_select_lines_and_the_report_counts_the_others() {
    let log = write_file("filters.log", access_log());
    let filtered = |filters: &[&str]| {
        let found = json(&[&["replay", &log, "--limit", "1/1m"], filters].concat());
        (found["input"]["requests"].as_u64(), found["input"]["filtered"].as_u64())
    };
    assert_eq!(filtered(&["--only", "path=/products"]), (Some(120), Some(14)));
    assert_eq!(filtered(&["--skip", "path=/products"]), (Some(14), Some(120)));
    assert_eq!(filtered(&["--only", "path=/products", "--only", "path=/search"]), (Some(126), Some(8)));
    assert_eq!(filtered(&["--only", "path=/search", "--only", "status=2xx"]), (Some(6), Some(128)));
    assert_eq!(filtered(&["--only", "agent~Agent .*7", "--skip", "ip=203.0.113.1"]), (Some(128), Some(6)));
    assert_eq!(filtered(&["--only", "line~q=a"]), (Some(6), Some(128)));
    let text = shown(&["replay", &log, "--limit", "1/1m", "--only", "path=/products"]);
    assert!(text.contains("14 of 135 lines were skipped by --only path=/products"), "{text}");
    let cases: [(&[&str], &str); 4] = [
        (&["--only", "status=404"], "no line passes the filters"),
        (&["--only", "header:x-api-key=1"], "it has ip, user, path, status, agent"),
        (&["--skip", "products"], "FIELD=VALUE"),
        (&["--skip", "status=many"], "status=304"),
    ];
    for (filters, hint) in cases {
        let (code, output) = exit_and_output(&[&["replay", &log, "--limit", "1/1m"], filters].concat());
        assert!(code == Some(2) && output.contains(hint), "{filters:?}: {code:?} {output}");
    }
    let lines = write_file("filters.json", "{\"time\":1,\"ip\":\"a\"}\n{\"time\":2,\"ip\":\"b\"}\n");
    let text = shown(&["replay", &lines, "--skip", "tenant=acme"]);
    assert!(text.contains("no line has the field of the filter tenant=acme"), "{text}");
}

#[test]
fn clients_are_told_apart_by_client_and_path_together() {
    let log = write_file("client-path.log", access_log());
    let found = json(&["replay", &log, "--limit", "1/1m", "--by", "client,path"]);
    assert_eq!((&found["clients"], &found["by"]), (&Value::from(4), &Value::from("client + path")));
    let trace = write_file("client-path.csv", "time_us,key,path\n1,a,/x\n2,a,/y\n3,b,/x\n4,a,/x\n");
    let found = json(&["replay", &trace, "--limit", "1/1m", "--by", "client,path"]);
    assert_eq!((&found["clients"], &found["policies"][0]["denied"]), (&Value::from(3), &Value::from(1)));
    assert_eq!(found["policies"][0]["hardest_hit"][0]["key"], "a + /x");
}

#[test]
fn names_in_tables_stay_different() {
    let mut log = String::new();
    for agent in ["Chrome/118.0", "Chrome/119.0"] {
        for _ in 0..3 {
            let agent = format!("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 {agent} Safari/537.36");
            let time = "17/May/2015:10:05:03 +0000";
            let _ = writeln!(log, "1.2.3.4 - - [{time}] \"GET / HTTP/1.1\" 200 1 \"-\" \"{agent}\"");
        }
    }
    let log = write_file("agents.log", log);
    let text = shown(&["replay", &log, "--limit", "1/1m", "--by", "agent"]);
    assert!(text.contains("118"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("Mozil")).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.split("  ").find(|cell| cell.contains("Mozil"))).collect();
    assert!(names.len() == 2 && names[0] != names[1], "{text}");
}

#[test]
fn groups_and_obedience_are_reported_on_request() {
    let log = write_file("grouped.log", access_log());
    let text = shown(&["replay", &log, "--limit", "20/1m", "--by-group", "path:1", "--obey"]);
    assert!(text.contains("for each group by path:1") && text.contains("/products"), "{text}");
    assert!(text.contains("Delays if clients wait as they are told"), "{text}");
    let found = json(&["replay", &log, "--limit", "20/1m", "--by-group", "path:1", "--obey"]);
    let obey = &found["policies"][0]["obey"];
    assert_eq!(obey["served"], 134, "all requests are served in the end");
    assert!(obey["delayed"].as_u64() > Some(40) && obey["longest_queue"].as_u64() > Some(10), "{obey}");
    assert_eq!(found["groups"]["groups"][0]["name"], "/products");
    for arguments in [&["--obey"][..], &["--limit", "1/1m", "--obey", "--store", "redis://127.0.0.1:1"]] {
        assert_eq!(exit_and_output(&[&["replay", &log], arguments].concat()).0, Some(2), "{arguments:?}");
    }
}

#[test]
fn late_requests_are_decided_repeatably_and_as_the_curve_predicts() {
    // Each client has a clock that is behind by up to a minute. A decision must not depend on evicted state of another client.
    let mut trace = String::from("time_us,key,cost\n");
    for i in 0..20_000_u64 {
        let (client, late) = (i.wrapping_mul(2_654_435_761) % 700, i.wrapping_mul(40_503) % 60);
        let _ = writeln!(trace, "{},client {client},1", (1_700_000_000 + i / 50 - late) * 1_000_000);
    }
    let file = write_file("late-clients.csv", trace);
    let decided = |name: &str| {
        let out = folder("replay").join(name);
        let found = json(&["replay", &file, "--limit", "1/1s", "--decisions", out.to_str().expect("text")]);
        (found, fs::read_to_string(&out).expect("decisions"))
    };
    let (found, decisions) = decided("late-1.out");
    assert!(decisions == decided("late-2.out").1, "the same log, the same decisions");
    let points = found["curves"][0]["points"].as_array().expect("points");
    let touched = points.iter().rfind(|point| point["max"].as_u64() <= Some(1)).expect("1 is a limit");
    assert_eq!(touched["touched"], found["policies"][0]["clients_denied"]);
    assert_eq!(found["input"]["still_late"], found["input"]["out_of_order"]);
    let sorted = json(&["replay", &file, "--limit", "1/1s", "--sort", "1m"]);
    assert_eq!((&sorted["input"]["still_late"], &sorted["input"]["sorted"]), (&Value::from(0), &Value::from(true)));
    let half = json(&["replay", &file, "--limit", "1/1s", "--sort", "10s"]);
    assert!(half["input"]["still_late"].as_u64() > Some(0), "later requests are reported");
    let spread = decided_with_spread(&file);
    assert!(
        spread.lines().skip(1).filter(|row| row.split(',').next().is_some_and(|time| time.ends_with("000000"))).count()
            < 10
    );
}

fn decided_with_spread(file: &str) -> String {
    let out = folder("replay").join("late-spread.out");
    printed(&["replay", file, "--limit", "1/1s", "--spread", "--decisions", out.to_str().expect("text")]);
    fs::read_to_string(&out).expect("decisions")
}

#[test]
fn a_configured_policy_counts_by_its_own_key() {
    let log = write_file("by-header.log", access_log());
    let config = write_file("by-header.toml", "[policies.api]\nlimits = [\"20/1m\"]\nkey = \"header:user-agent\"\n");
    let known = ["replay", &log, "--config", &config];
    assert_eq!(json(&[&known[..], &["--policy", "api"]].concat())["clients"], 1);
    assert_eq!(json(&[&known[..], &["--policy", "api", "--by", "ip"]].concat())["clients"], 4);
    assert_eq!(
        exit_and_output(&[&known[..], &["--limit", "1/1m"]].concat()).0,
        Some(2),
        "a configuration without a policy"
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let log = write_file("pipe.log", access_log());
    for arguments in [&["replay", &log][..], &["simulate", "boundary"]] {
        let mut child = Command::new(BINARY).args(arguments).stdout(Stdio::piped()).spawn().expect("it runs");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_report_is_one_self_contained_page() {
    let log = write_file("report.log", access_log());
    let out = folder("replay").join("report.html");
    printed(&["replay", &log, "--limit", "20/1m", "--report", out.to_str().expect("text")]);
    let page = fs::read_to_string(&out).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("198.51.100.7") && page.contains("<svg"));
    assert!(!page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org").count());
}

#[test]
fn input_files_are_never_overwritten() {
    let log = write_file("precious.log", access_log());
    let same = write_file("same.out", "");
    let cases: [&[&str]; 4] = [
        &["replay", &log, "--limit", "20/1m", "--decisions", &log],
        &["replay", &log, "--limit", "20/1m", "--report", &log],
        &["simulate", "compare", &log, "--report", &log],
        &["replay", &log, "--limit", "20/1m", "--decisions", &same, "--report", &same],
    ];
    for arguments in cases {
        let (code, output) = exit_and_output(arguments);
        assert!(code == Some(2) && output.contains("would be lost"), "{arguments:?}: {output}");
    }
    assert_eq!(fs::read_to_string(&log).expect("it exists"), access_log());
}

#[test]
fn usage_errors_have_a_hint() {
    let log = write_file("wrong.log", access_log());
    let cases: [(&[&str], &str); 12] = [
        (&["replay"], "FILE"),
        (&["replay", "no-such-file.log", "--limit", "1/1m"], "no-such-file.log can't be read"),
        (&["replay", ".", "--limit", "1/1m"], "can't be read"),
        (&["replay", "-", "-", "--limit", "1/1m"], "once"),
        (&["replay", &log, "--limit", "60 a minute"], "100/1m"),
        (&["replay", &log, "--limit", "1/1m", "--limit", "2/1m"], "`--candidate 2/1m`"),
        (&["replay", &log, "--candidate", "sliding_log 1/1m"], "100/1m,1000/1h sliding_counter"),
        (&["replay", &log, "--limit", "1/1m", "--algorithm", "magic"], "sliding_counter"),
        (&["replay", &log, "--log-format", "$remote_addr $request"], "$time_local"),
        (&["replay", &log, "--log-format", "$remote_addr$msec"], "no text separates"),
        (&["replay", &log, "--window", "soon"], "1h30m"),
        (&["replay", &log, "--decisions", "x.csv"], "--limit"),
    ];
    for (arguments, hint) in cases {
        let (code, output) = exit_and_output(arguments);
        assert!(code == Some(2) && output.contains(hint), "{arguments:?}: {code:?} {output}");
    }
    let (code, output) = exit_and_output(&["replay", &log, "--limit", "1/1m", "--store", "redis://127.0.0.1:1"]);
    assert!(code == Some(4) && output.contains("does not answer"), "{code:?} {output}");
    assert!(!Path::new("x.csv").exists());
}

#[test]
fn ctrl_c_prints_the_results_so_far() {
    let mut child = Command::new(BINARY)
        .args(["replay", "-", "--limit", "20/1m"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    let mut block = String::new();
    while block.len() < 1 << 20 {
        block.push_str("198.51.100.7 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 512\n");
    }
    // The pipe and the queued blocks hold about six blocks. When all are written, most are decided.
    for _ in 0..12 {
        stdin.write_all(block.as_bytes()).expect("it reads");
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill is installed").success());
    let output = child.wait_with_output().expect("it ends, though its input does not");
    drop(stdin);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("stopped before the end of the input") && text.contains("most denials"), "{text}");
}

/// Dependencies of tests enable further features of `regex`, so a filter that works in a test can be an error in a release.
#[test]
fn a_released_binary_has_the_regular_expressions_that_ignore_case() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "no-dev", "--package", "tidegate-cli"])
        .args(["--invert", "regex", "--depth", "0", "--format", "{f}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let (features, errors) = (String::from_utf8_lossy(&tree.stdout), String::from_utf8_lossy(&tree.stderr));
    assert!(tree.status.success() && features.contains("unicode-case"), "{features}{errors}");
}
