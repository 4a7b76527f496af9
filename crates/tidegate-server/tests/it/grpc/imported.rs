//! Configurations of envoyproxy/ratelimit, imported and asked: the verdicts are those that its manual gives for such files.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code::{Ok as Fine, OverLimit};
use tidegate_server::{Imported, import_envoy};

use super::{Asked, RateLimitDescriptor, RateLimitRequest, code, codes, descriptor};

fn import(yaml: &str) -> Imported {
    import_envoy("limits.yaml", yaml).expect("it can be imported")
}

/// A service by an imported file, with what was warned of.
struct Moved {
    asked: Asked,
    warnings: Vec<String>,
    domain: &'static str,
}

impl Moved {
    fn start(domain: &'static str, descriptors: &str) -> Self {
        let Imported { toml, warnings } = import(&format!("domain: {domain}\ndescriptors:\n{descriptors}"));
        Self { asked: Asked::start(&toml), warnings, domain }
    }

    fn ask(&mut self, descriptors: &[RateLimitDescriptor]) -> super::RateLimitResponse {
        let descriptors = descriptors.to_vec();
        let request = RateLimitRequest { domain: self.domain.to_owned(), descriptors, hits_addend: 0 };
        self.asked.send(request).expect("the request is right")
    }

    /// How many of so many requests are let through, one after another.
    fn passed(&mut self, tries: usize, entries: &[(&str, &str)]) -> usize {
        let one = descriptor(entries);
        (0..tries).filter(|_| code(&self.ask(std::slice::from_ref(&one)).statuses[0]) == Fine).count()
    }

    /// The limit that is told of a descriptor.
    fn limit(&mut self, entries: &[(&str, &str)]) -> Option<u32> {
        let answer = self.ask(&[descriptor(entries)]);
        answer.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit)
    }
}

#[test]
fn values_of_one_key_have_limits_of_their_own() {
    let mut moved = Moved::start(
        "queries",
        "
  - {key: table, value: orders, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: table, value: other, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    );
    assert!(moved.warnings.is_empty(), "{:?}", moved.warnings);
    assert_eq!(moved.passed(6, &[("table", "orders")]), 4);
    assert_eq!(moved.passed(6, &[("table", "other")]), 2);
    assert_eq!(moved.passed(6, &[("table", "third")]), 6, "nothing is said of it");
}

#[test]
fn a_nested_descriptor_counts_every_value_below_it_by_itself() {
    let mut moved = Moved::start(
        "mail",
        "
  - key: kind
    value: newsletter
    descriptors:
      - {key: recipient, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: recipient, rate_limit: {unit: day, requests_per_unit: 5}}
",
    );
    assert!(moved.warnings.is_empty(), "{:?}", moved.warnings);
    for recipient in ["ann", "bob"] {
        assert_eq!(moved.passed(4, &[("kind", "newsletter"), ("recipient", recipient)]), 2, "{recipient}");
    }
    assert_eq!(moved.passed(9, &[("kind", "newsletter")]), 9, "a place in between has no limit");
    assert_eq!(moved.passed(9, &[("kind", "invoice"), ("recipient", "ann")]), 9, "nor has another kind");
    let both = [descriptor(&[("kind", "newsletter"), ("recipient", "cid")]), descriptor(&[("recipient", "cid")])];
    assert_eq!(codes(&moved.ask(&both)), [Fine, Fine]);
    assert_eq!(codes(&moved.ask(&both)), [Fine, Fine]);
    let third = moved.ask(&both);
    assert_eq!((third.overall_code, codes(&third)), (OverLimit.into(), vec![OverLimit, Fine]), "any denies all");
}

#[test]
fn a_value_goes_before_its_key_and_a_limit_of_nothing_bans_it() {
    let mut moved = Moved::start(
        "addresses",
        "
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: remote_address, value: 203.0.113.9, rate_limit: {unit: hour, requests_per_unit: 0}}
",
    );
    assert!(moved.warnings.is_empty(), "{:?}", moved.warnings);
    assert_eq!(moved.passed(5, &[("remote_address", "203.0.113.1")]), 3);
    assert_eq!(moved.passed(5, &[("remote_address", "203.0.113.2")]), 3);
    assert_eq!(moved.passed(5, &[("remote_address", "203.0.113.9")]), 0);
}

#[test]
fn a_descriptor_with_more_entries_than_a_rule_is_not_its() {
    let flat = "\n  - {key: k, value: v, rate_limit: {unit: hour, requests_per_unit: 1}}\n";
    assert_eq!(Moved::start("deep", flat).passed(3, &[("k", "v"), ("sub", "x")]), 3);
    let nested = "\n  - key: k\n    value: v\n    descriptors:\n      - {key: sub, rate_limit: {unit: hour, requests_per_unit: 1}}\n";
    assert_eq!(Moved::start("deep", nested).passed(3, &[("k", "v"), ("sub", "x")]), 1);
}

#[test]
fn unlimited_is_fine_with_all_that_32_bits_hold_remaining() {
    let mut moved = Moved::start(
        "inside",
        "
  - {key: directory, rate_limit: {unlimited: true}}
  - {key: cloud, rate_limit: {unit: minute, requests_per_unit: 100}}
",
    );
    let answer = moved.ask(&[descriptor(&[("directory", "")])]);
    assert_eq!((codes(&answer), answer.statuses[0].limit_remaining), (vec![Fine], u32::MAX));
    assert_eq!(moved.limit(&[("cloud", "")]), Some(100));
}

#[test]
fn a_rule_in_shadow_mode_never_denies() {
    let mut moved = Moved::start(
        "shadows",
        "
  - key: service
    descriptors:
      - {key: user, value: ann, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: user, value: bob, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    );
    assert!(moved.warnings.is_empty(), "{:?}", moved.warnings);
    assert_eq!(moved.passed(5, &[("service", "auth"), ("user", "ann")]), 5);
    assert_eq!(moved.passed(5, &[("service", "auth"), ("user", "bob")]), 2);
    assert_eq!(moved.passed(5, &[("service", "pay"), ("user", "bob")]), 2, "each service by itself");
}

#[test]
fn what_replaces_another_limit_has_its_own_and_is_warned_of() {
    let mut moved = Moved::start(
        "endpoints",
        "
  - key: method
    value: read
    descriptors:
      - {key: user, rate_limit: {name: reads, unit: hour, requests_per_unit: 1}}
  - key: endpoint
    value: search
    descriptors:
      - {key: user, rate_limit: {replaces: [{name: reads}], unit: hour, requests_per_unit: 2}}
",
    );
    let [warning] = &*moved.warnings else { panic!("one warning: {:?}", moved.warnings) };
    assert!(warning.contains("`endpoint=search, user`") && warning.contains("replaces `reads`"), "{warning}");
    assert_eq!(moved.passed(4, &[("method", "read"), ("user", "ann")]), 1);
    assert_eq!(moved.passed(4, &[("endpoint", "search"), ("user", "ann")]), 2);
}

#[test]
fn detailed_metrics_change_no_verdict_and_are_warned_of() {
    let mut moved = Moved::start(
        "metrics",
        "
  - {key: plan, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: plan, value: gold, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    );
    assert_eq!(moved.warnings.len(), 1, "{:?}", moved.warnings);
    assert_eq!(moved.passed(4, &[("plan", "tin")]), 1);
    assert_eq!(moved.passed(4, &[("plan", "iron")]), 1);
    assert_eq!(moved.passed(4, &[("plan", "gold")]), 2);
}

#[test]
fn a_value_that_ends_in_a_star_is_what_values_begin_with_each_counted_by_itself() {
    let mut moved =
        Moved::start("paths", "\n  - {key: path, value: /v1/*, rate_limit: {unit: hour, requests_per_unit: 2}}\n");
    for path in ["/v1/a", "/v1/b"] {
        assert_eq!(moved.passed(4, &[("path", path)]), 2, "{path}");
    }
    assert_eq!(moved.passed(4, &[("path", "/v2/a")]), 4);
}

#[test]
fn a_descriptor_without_limit_keeps_its_value_from_the_limit_of_the_key() {
    let mut moved = Moved::start(
        "friends",
        "
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: user, value: monitor}
",
    );
    assert_eq!(moved.passed(4, &[("user", "ann")]), 1);
    assert_eq!(moved.passed(4, &[("user", "monitor")]), 4);
}

#[test]
fn what_can_not_be_the_same_here_is_warned_of_and_written_into_the_file() {
    let limit = "rate_limit: {unit: hour, requests_per_unit: 1}";
    for (descriptors, expected) in [
        (
            format!("\n  - {{key: p, value: /a*, {limit}}}\n  - {{key: p, value: /a/b*, {limit}}}\n"),
            "`p=/a/b*` never applies there, since `p=/a*` comes first",
        ),
        (format!("\n  - {{key: p, value: 'a*b*', {limit}}}\n"), "`p=a*b*` has a second `*`"),
        (format!("\n  - {{key: 'p*', {limit}}}\n"), "the key `p*` ends in `*`"),
        (format!("\n  - {{key: p, quota_mode: true, {limit}}}\n"), "`p`: `quota_mode` is not carried over"),
        (
            format!("\n  - {{key: p, value: 'a*', share_threshold: true, {limit}}}\n"),
            "`share_threshold` is not carried",
        ),
        (format!("\n  - {{key: p, value_to_metric: true, {limit}}}\n"), "metrics by value are not carried over"),
        (
            "\n  - {key: p, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}\n".to_owned(),
            "a limit of 0 that is only watched",
        ),
        // What has user a and no path x finds nothing there. Here, it would take a rule that says `everything but x`.
        (
            format!(
                "\n  - key: user\n    value: a\n    descriptors:\n      - {{key: p, descriptors: [{{key: q, value: x, {limit}}}]}}\
                 \n  - key: user\n    descriptors:\n      - {{key: p, value: v, descriptors: [{{key: q, {limit}}}]}}\n"
            ),
            "`user=a`: a descriptor that finds no limit below it there may find one here",
        ),
    ] {
        let Imported { toml, warnings } = import(&format!("domain: d\ndescriptors:{descriptors}"));
        let [warning] = &*warnings else { panic!("one warning for {descriptors}: {warnings:?}") };
        assert!(warning.contains(expected), "{warning}\n expected {expected}");
        assert!(toml.contains(&format!("# - {warning}\n")), "{toml}");
        drop(Asked::start(&toml));
    }
}

#[test]
fn every_unit_is_carried_over() {
    for (unit, expected) in
        [("second", 1), ("MINUTE", 2), ("hour", 3), ("day", 4), ("week", 7), ("month", 5), ("year", 6)]
    {
        let rule = format!("\n  - {{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 9}}}}\n");
        let answer = Moved::start("units", &rule).ask(&[descriptor(&[("k", "v")])]);
        assert_eq!(answer.statuses[0].current_limit.as_ref().map(|limit| limit.unit), Some(expected), "{unit}");
    }
}

#[test]
fn what_is_no_such_file_is_refused_with_what_would_be_right() {
    for (yaml, expected) in [
        ("descriptors: []", "missing field `domain`"),
        ("domain: ''", "`domain` is empty"),
        ("domain: d\ndescriptors:\n  - {key: k, rate_limits: {}}", "unknown field `rate_limits`, expected one of"),
        ("domain: d\ndescriptors:\n  - {key: '', value: v}", "an empty key"),
        ("domain: d\ndescriptors:\n  - {key: a=b}", "has a `=`"),
        ("domain: d\ndescriptors:\n  - {key: k, value: 1.10}", "in quotes"),
        ("domain: d\ndescriptors:\n  - {key: k}\n  - {key: k}", "`k` is there twice"),
        (
            "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}",
            "use second, minute",
        ),
        ("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, unlimited: true}}", "unlimited and has a unit"),
        ("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: -1}}", "limits.yaml: "),
        ("domain: [", "limits.yaml: "),
    ] {
        let error = import_envoy("limits.yaml", yaml).expect_err("it is wrong").to_string();
        assert!(error.contains(expected), "{yaml}\n gives  {error}\n expected {expected}");
    }
}

#[test]
fn names_of_policies_are_unique_and_usable_whatever_keys_and_values_are() {
    let long = "v".repeat(300);
    let yaml = format!(
        "domain: \"my \\\"domain\\\"\\n\"\ndescriptors:\n\
         \x20 - {{key: k, value: 'a b', rate_limit: {{unit: day, requests_per_unit: 1}}}}\n\
         \x20 - {{key: k, value: 'a_b', rate_limit: {{unit: day, requests_per_unit: 2}}}}\n\
         \x20 - {{key: k, value: 'ä\\', rate_limit: {{unit: day, requests_per_unit: 3}}}}\n\
         \x20 - {{key: k, value: {long}1, rate_limit: {{unit: day, requests_per_unit: 4}}}}\n\
         \x20 - {{key: k, value: {long}2, rate_limit: {{unit: day, requests_per_unit: 5}}}}\n\
         \x20 - {{key: n, value: 5, rate_limit: {{unit: day, requests_per_unit: 6}}}}\n"
    );
    let mut asked = Asked::start(&import(&yaml).toml);
    for (key, value, expected) in [
        ("k", "a b", 1),
        ("k", "a_b", 2),
        ("k", "ä\\", 3),
        ("k", &*format!("{long}1"), 4),
        ("k", &*format!("{long}2"), 5),
        ("n", "5", 6),
    ] {
        let request = RateLimitRequest {
            domain: "my \"domain\"\n".to_owned(),
            descriptors: vec![descriptor(&[(key, value)])],
            hits_addend: 0,
        };
        let answer = asked.send(request).expect("it is right");
        let limit = answer.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit);
        assert_eq!(limit, Some(expected), "{value}");
    }
}
