//! Suggestions for each group.

use std::{fmt::Write as _, fs, sync::Arc, time::Duration};

use tidegate_replay::{
    findings::GroupedFindings,
    logs::{LogReader, LogSource, ReadOptions},
    replay::{self, DecisionLog, ReplayOptions},
    text,
};

/// Replays requests: second, client, tier. Returns the groups by tier, and the text.
fn grouped(requests: &[(u64, String, String)], top: usize) -> (GroupedFindings, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.json");
    let mut lines = String::new();
    for (second, client, tier) in requests {
        writeln!(lines, r#"{{"time":{},"ip":"{client}","tier":"{tier}"}}"#, 1_700_000_000 + second).unwrap();
    }
    fs::write(&path, lines).unwrap();
    let group = Some("tier".parse().unwrap());
    let read_options = ReadOptions { sources: vec![LogSource::File(path)], group, ..ReadOptions::default() };
    let reader = LogReader::open(read_options, Arc::default()).unwrap();
    let options = ReplayOptions { windows: vec![Duration::from_secs(60)], top, ..ReplayOptions::default() };
    let found = replay::run(options, reader, None::<DecisionLog<Vec<u8>>>, || {}).unwrap();
    let text = text::replay(&found);
    (found.groups.expect("they are wanted"), text)
}

#[test]
fn each_group_has_its_own_suggestions() {
    let mut requests = Vec::new();
    for second in 0..60 {
        requests.push((second, "free-1".to_owned(), "free".to_owned()));
        for client in 0..3 {
            requests.extend(vec![(second, format!("paid-{client}"), "paid".to_owned()); 5]);
        }
        // A client with requests of both groups counts in both.
        requests.push((second, "both".to_owned(), if second % 2 == 0 { "free" } else { "paid" }.to_owned()));
    }
    requests.push((60, "nobody".to_owned(), String::new()));
    let (found, text) = grouped(&requests, 10);
    let summary: Vec<_> =
        found.groups.iter().map(|group| (group.name.as_deref().unwrap(), group.clients, group.requests)).collect();
    assert_eq!(summary, [("paid", 4, 930), ("free", 2, 90), ("-", 1, 1)]);
    let highest: Vec<u64> = found.groups.iter().map(|group| group.curves[0].suggestions[0].max).collect();
    assert_eq!(highest, [300, 60, 1], "the peak of the busiest client of each group");
    let knee = found.groups[1].curves[0].suggestions.iter().find(|suggestion| suggestion.touched == 1);
    let knee = knee.expect("a limit between the two clients");
    assert_eq!((knee.max, knee.denied), (30, 30), "denials are of the group's own requests");
    assert!(text.contains("for each group by field:tier") && text.contains("(none)"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn the_number_of_groups_is_bounded() {
    let requests: Vec<_> = (0..1_500).map(|i| (i, "a".to_owned(), format!("tier {}", i % 1_200))).collect();
    let (found, text) = grouped(&requests, 3);
    assert_eq!((found.count, found.overflow, found.groups.len()), (1_000, Some(1_000), 3));
    assert_eq!((found.groups[0].name.as_deref(), found.groups[0].requests), (None, 200));
    assert!(text.contains("(all other groups)") && text.contains("at most 1,000 groups"), "{text}");
}
