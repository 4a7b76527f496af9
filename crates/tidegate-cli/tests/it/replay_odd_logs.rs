//! Unusual logs: malformed lines are counted and shown, and never stop the replay.

use std::fs;

use serde_json::Value;

use crate::process::{folder, run};

const GOOD: &str = r#"203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8""#;

/// Replays bytes. Returns the findings, the decisions and the exit code.
fn replayed(name: &str, bytes: &[u8]) -> (Value, Vec<String>, Option<i32>) {
    let folder = folder("odd");
    let (log, out) = (folder.join(name), folder.join(format!("{name}.csv")));
    fs::write(&log, bytes).expect("a writable file");
    let (log, out_text) = (log.to_str().expect("text"), out.to_str().expect("text"));
    let arguments = ["replay", log, "--limit", "2/1m", "--format", "json", "--decisions", out_text, "--sort", "off"];
    let output = run(&arguments);
    let found = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let rows = fs::read(&out).expect("decisions");
    let rows = String::from_utf8_lossy(&rows).lines().skip(1).map(str::to_owned).collect();
    (found, rows, output.status.code())
}

fn counts(found: &Value) -> [Option<u64>; 3] {
    ["lines", "requests", "malformed"].map(|name| found["input"][name].as_u64())
}

#[test]
fn windows_line_ends_and_a_missing_last_newline_are_accepted() {
    let (found, rows, code) = replayed("crlf", format!("{GOOD}\r\n\r\n{GOOD}\r\n{GOOD}").as_bytes());
    assert_eq!((counts(&found), code), ([Some(3), Some(3), Some(0)], Some(0)));
    assert!(rows[2].contains("limited"), "{rows:?}");
}

#[test]
fn a_truncated_last_line_is_reported_with_its_number() {
    for end in 1..GOOD.len() - 1 {
        let (found, ..) = replayed("cut", format!("{GOOD}\n{}", &GOOD[..end]).as_bytes());
        let cut_before_agent = GOOD.find(" \"-\"").is_some_and(|common| end <= common + 1 && end > common - 3);
        if cut_before_agent {
            continue; // The rest is a valid line of the common format.
        }
        assert_eq!(counts(&found), [Some(2), Some(1), Some(1)], "{}", &GOOD[..end]);
        assert_eq!(found["input"]["first_malformed"][0]["line"], 2);
    }
}

#[test]
fn time_zones_are_applied() {
    let log = [("+0000", "10:05:03"), ("+0545", "15:50:04"), ("-1200", "22:05:05"), ("+1400", "00:05:06")];
    let days = [17, 17, 16, 18];
    let lines: Vec<String> = log
        .iter()
        .zip(days)
        .map(|((zone, time), day)| format!("a - - [{day}/May/2015:{time} {zone}] \"GET / HTTP/1.1\" 200 1"))
        .collect();
    let (_, rows, _) = replayed("zones", lines.join("\n").as_bytes());
    let seconds: Vec<u64> = rows.iter().map(|row| row[..10].parse().expect("a time")).collect();
    assert_eq!(seconds, [1_431_857_103, 1_431_857_104, 1_431_857_105, 1_431_857_106]);
}

#[test]
fn quotes_in_user_agents_and_requests_are_accepted() {
    let lines = [
        r#"a - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/1.1" 200 1 "-" "An \"agent\" of mine""#,
        r#"a - - [17/May/2015:10:05:03 +0000] "GET /"x" HTTP/1.1" 200 1 "-" "An "agent" of mine""#,
        r#"a - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-""#,
        r#"a - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 226"#,
        r#"a - john doe [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "-" 0.004 "extra""#,
        r#"a - - [17/May/2015:10:05:03 +0000] "" 400 0 "" """#,
    ];
    let (found, ..) = replayed("quotes", lines.join("\n").as_bytes());
    assert_eq!(counts(&found), [Some(6), Some(6), Some(0)], "{}", found["input"]);
}

#[test]
fn a_malformed_line_is_shown_with_its_number_and_reason() {
    let bad = [
        "nonsense",
        "a - - [17/May/2015:25:05:03 +0000] \"GET / HTTP/1.1\" 200 1",
        "a - - [17/May/2015:10:05:03 +0000] GET / 200 1",
        "a - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" twohundred 1",
        "\u{1b}[31mred",
        "a seventh",
    ];
    let log = format!("{GOOD}\n{}\n{GOOD}\n", bad.join("\n"));
    let (found, rows, code) = replayed("bad", log.as_bytes());
    assert_eq!((counts(&found), rows.len(), code), ([Some(8), Some(2), Some(6)], 2, Some(0)));
    let shown = found["input"]["first_malformed"].as_array().expect("a list");
    assert_eq!(shown.len(), 5, "the first few");
    assert!(
        shown
            .iter()
            .zip(2..)
            .all(|(flaw, line)| flaw["line"] == line && !flaw["why"].as_str().expect("text").is_empty())
    );
    assert!(!shown[4]["text"].as_str().expect("text").contains('\u{1b}'), "control characters are replaced");
}

#[test]
fn late_lines_and_jumps_of_hours_follow_the_contract() {
    let line = |time: &str| format!("a - - [17/May/2015:{time} +0000] \"GET / HTTP/1.1\" 200 1");
    // In order, late by seconds, hours ahead, and hours back (accepted as a change of the clock).
    let log: Vec<String> =
        ["10:00:10", "10:00:05", "10:00:12", "16:00:00", "10:00:20", "10:00:21"].map(line).into_iter().collect();
    let (found, rows, _) = replayed("leaps", log.join("\n").as_bytes());
    let reasons: Vec<&str> = rows.iter().map(|row| row.split(',').nth(3).expect("a reason")).collect();
    assert_eq!(reasons, ["allowed", "allowed", "limited", "allowed", "allowed", "limited"]);
    assert_eq!(found["input"]["out_of_order"], 3);
    assert_eq!(
        (&found["input"]["from_us"], &found["input"]["to_us"]),
        (&Value::from(1_431_856_805_000_000_u64), &Value::from(1_431_878_400_000_000_u64))
    );
}

#[test]
fn empty_and_binary_files_are_handled() {
    let (found, rows, code) = replayed("empty", b"");
    assert_eq!((counts(&found), rows.len(), code), ([Some(0), Some(0), Some(0)], 0, Some(2)));
    let (_, _, code) = replayed("blank", b"\n\n\r\n");
    assert_eq!(code, Some(2), "an empty input is a usage error");
    // A fixed sequence of all byte values, with line ends.
    let garbage: Vec<u8> = (0..300_000_u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let (found, rows, code) = replayed("garbage", &garbage);
    assert_eq!((found["input"]["requests"].as_u64(), rows.len()), (Some(0), 0));
    assert_eq!(code, Some(2), "a file that is not a log is a usage error");
    let (found, rows, code) = replayed("mixed", &[&garbage[..], b"\n", GOOD.as_bytes(), b"\n", &garbage].concat());
    assert_eq!((found["input"]["requests"].as_u64(), rows.len(), code), (Some(1), 1, Some(0)));
}

#[test]
fn a_line_that_is_too_long_is_one_malformed_line() {
    let endless = vec![b'x'; 5 << 20];
    let log = [GOOD.as_bytes(), b"\n", &endless, b"\n", GOOD.as_bytes()].concat();
    let (found, ..) = replayed("long", &log);
    assert_eq!(counts(&found), [Some(3), Some(2), Some(1)]);
    assert_eq!(found["input"]["first_malformed"][0]["why"], "it is longer than 1 MiB");
}

#[test]
fn a_host_before_the_client_is_skipped() {
    let rest = r#"- - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "-""#;
    let clients = ["example.com:80 203.0.113.7", "203.0.113.7", "203.0.113.7, 10.0.0.1", "2001:db8::1:80", "::1"];
    let lines: Vec<String> = clients.iter().map(|client| format!("{client} {rest}")).collect();
    let (_, rows, _) = replayed("vhost", lines.join("\n").as_bytes());
    let keys: Vec<&str> = rows.iter().filter_map(|row| row.split(',').nth(1)).collect();
    assert_eq!(keys, ["203.0.113.7", "203.0.113.7", "203.0.113.7", "2001:db8::/64", "::/64"]);
}

#[test]
fn requests_without_a_key_are_reported() {
    let (found, _, code) = replayed("no-ip.json", b"{\"time\":1,\"tenant\":\"a\"}\n");
    assert_eq!((found["input"]["without_key"].as_u64(), code), (Some(1), Some(2)));
}

#[test]
fn traces_must_be_valid() {
    let trace = "time_us,key,cost\n1,a,1\n2,\"b,\"\"c\"\"\",2\n3,a,0\n4,a\n-5,a,1\n6,,1\n9000000000000001,a,1\n7,a,x\n8,\"a,1\n";
    let (found, rows, _) = replayed("trace", trace.as_bytes());
    assert_eq!(counts(&found), [Some(9), Some(2), Some(6)]);
    assert_eq!(found["input"]["without_key"], 1);
    assert!(rows[1].starts_with("2,\"b,\"\"c\"\"\",2,allowed,0,"), "{rows:?}");
}
