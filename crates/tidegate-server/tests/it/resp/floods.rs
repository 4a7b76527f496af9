//! Callers supply more windows and keys than fit, and named policies are not affected.

use super::client::{Client, Reply, command};
use crate::{http::client::get, running::Running};

const POLICIES: &str = "[policies.login]\nlimits = [\"5/1h\"]\n";

/// Sends commands in pipelines and reads the first number of each reply.
fn pipelined(client: &mut Client, commands: impl Iterator<Item = String>) -> Vec<i64> {
    let commands: Vec<String> = commands.collect();
    let mut first = Vec::with_capacity(commands.len());
    for batch in commands.chunks(500) {
        let bytes: Vec<u8> = batch.iter().flat_map(|words| command(words.split(' '))).collect();
        client.send(&bytes);
        for _ in batch {
            first.push(match client.read() {
                Reply::List(fields) => match fields[0] {
                    Reply::Int(n) => n,
                    ref other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            });
        }
    }
    first
}

fn metric(service: &Running, name: &str) -> u64 {
    let text = String::from_utf8(get(service.http, "/metrics").body).expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

fn admitted(client: &mut Client, key: &str, times: usize) -> usize {
    let replies = pipelined(client, (0..times).map(|_| format!("TG.CHECK login {key}")));
    replies.into_iter().filter(|allowed| *allowed == 1).count()
}

#[test]
fn ninety_thousand_windows_of_callers_do_not_affect_a_named_policy() {
    for at_capacity in ["shared", "deny", "admit"] {
        let service = Running::start(&format!("[store]\nat_capacity = \"{at_capacity}\"\n{POLICIES}"));
        let mut client = Client::connect(service.resp);
        let limits = (0..90_000).map(|j| format!("TG.LIMIT k{j} 1/{}ms", 3_600_000 + j));
        let replies = pipelined(&mut client, limits);
        let refused = replies.iter().filter(|allowed| **allowed != 1).count();
        assert_eq!(refused > 1_000, at_capacity != "admit", "{at_capacity}: {refused} refused");
        assert_eq!(admitted(&mut client, "fresh", 200), 5, "{at_capacity}");
        let counted = metric(&service, "tidegate_caller_no_room_total");
        assert!(counted > 1_000 && metric(&service, "tidegate_no_room_total") == counted, "{at_capacity}: {counted}");
    }
}

#[test]
fn throttles_with_distinct_periods_do_not_affect_a_named_policy() {
    let service = Running::start(&format!("[store]\nat_capacity = \"deny\"\n{POLICIES}"));
    let mut client = Client::connect(service.resp);
    let throttles = (0..76_000).map(|j| format!("CL.THROTTLE k{j} 1 1 {}", 10_000 + j));
    let limited = pipelined(&mut client, throttles).into_iter().filter(|limited| *limited == 1).count();
    assert!(limited > 1_000, "{limited} refused");
    assert_eq!(admitted(&mut client, "fresh", 200), 5);
}

#[test]
fn new_keys_of_named_policies_are_decided_after_a_flood_of_keys_and_windows() {
    let service = Running::start(&format!("[store]\nmax_keys = 50_000\n{POLICIES}"));
    let mut client = Client::connect(service.resp);
    let keys = pipelined(&mut client, (0..50_000).map(|n| format!("TG.CHECK login flood{n}")));
    assert!(keys.iter().all(|allowed| *allowed == 1));
    pipelined(&mut client, (0..60_000).map(|j| format!("TG.LIMIT k{j} 1/{}ms", 3_600_000 + j)));
    let counts: Vec<usize> = (0..200).map(|n| admitted(&mut client, &format!("user{n}"), 10)).collect();
    assert!(counts.iter().all(|count| *count <= 5), "{counts:?}");
    // About five of the keys share the entry of an exhausted key. The chance of 20 is one in a hundred million.
    let served = counts.iter().filter(|count| **count == 5).count();
    assert!(served >= 180, "{served} of 200: {counts:?}");
}

#[test]
fn keys_of_caller_limits_do_not_evict_keys_of_named_policies() {
    let service = Running::start(&format!("[store]\nmax_keys = 20_000\ncaller_share = 0.25\n{POLICIES}"));
    let mut client = Client::connect(service.resp);
    pipelined(&mut client, (0..40_000).map(|n| format!("TG.LIMIT flood{n} 5/1h")));
    assert_eq!(metric(&service, "tidegate_caller_keys"), 5_000);
    pipelined(&mut client, (0..15_000).map(|n| format!("TG.CHECK login user{n}")));
    assert_eq!(metric(&service, "tidegate_keys"), 20_000);
    assert_eq!(metric(&service, "tidegate_no_room_total"), metric(&service, "tidegate_caller_no_room_total"));
}
