//! Imported configurations of envoyproxy/ratelimit. The expected decisions are those that its manual gives.

use tidegate_server::{Imported, import_envoy};

use super::{
    GrpcClient, code, codes, descriptor,
    proto::{Fine, OverLimit, RateLimitDescriptor, RateLimitRequest, RateLimitResponse},
};

fn import(yaml: &str) -> Imported {
    import_envoy("limits.yaml", yaml).expect("a valid file")
}

/// A service with an imported configuration, and the warnings of the import.
struct ImportedService {
    client: GrpcClient,
    warnings: Vec<String>,
    domain: &'static str,
}

impl ImportedService {
    fn start(domain: &'static str, descriptors: &str) -> Self {
        let Imported { toml, warnings, .. } = import(&format!("domain: {domain}\ndescriptors:\n{descriptors}"));
        Self { client: GrpcClient::start(&toml), warnings, domain }
    }

    fn check(&self, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
        let descriptors = descriptors.to_vec();
        let request = RateLimitRequest { domain: self.domain.to_owned(), descriptors, hits_addend: 0 };
        self.client.send(request).expect("a valid request")
    }

    /// Returns the number of admitted requests.
    fn admitted(&self, tries: usize, entries: &[(&str, &str)]) -> usize {
        let one = descriptor(entries);
        (0..tries).filter(|_| code(&self.check(std::slice::from_ref(&one)).statuses[0]) == Fine).count()
    }

    /// Returns the reported limit of a descriptor.
    fn limit(&self, entries: &[(&str, &str)]) -> Option<u32> {
        let response = self.check(&[descriptor(entries)]);
        response.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit)
    }
}

#[test]
fn each_value_of_a_key_has_its_own_limit() {
    let service = ImportedService::start(
        "queries",
        "
  - {key: table, value: orders, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: table, value: other, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    );
    assert!(service.warnings.is_empty(), "{:?}", service.warnings);
    assert_eq!(service.admitted(6, &[("table", "orders")]), 4);
    assert_eq!(service.admitted(6, &[("table", "other")]), 2);
    assert_eq!(service.admitted(6, &[("table", "third")]), 6, "it has no limit");
}

#[test]
fn a_nested_descriptor_counts_each_value_separately() {
    let service = ImportedService::start(
        "mail",
        "
  - key: kind
    value: newsletter
    descriptors:
      - {key: recipient, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: recipient, rate_limit: {unit: day, requests_per_unit: 5}}
",
    );
    assert!(service.warnings.is_empty(), "{:?}", service.warnings);
    for recipient in ["ann", "bob"] {
        assert_eq!(service.admitted(4, &[("kind", "newsletter"), ("recipient", recipient)]), 2, "{recipient}");
    }
    assert_eq!(service.admitted(9, &[("kind", "newsletter")]), 9, "an inner node has no limit");
    assert_eq!(service.admitted(9, &[("kind", "invoice"), ("recipient", "ann")]), 9, "another kind has no limit");
    let both = [descriptor(&[("kind", "newsletter"), ("recipient", "cid")]), descriptor(&[("recipient", "cid")])];
    assert_eq!(codes(&service.check(&both)), [Fine, Fine]);
    assert_eq!(codes(&service.check(&both)), [Fine, Fine]);
    let third = service.check(&both);
    assert_eq!(
        (third.overall_code, codes(&third)),
        (OverLimit.into(), vec![OverLimit, Fine]),
        "one denial denies the request"
    );
}

#[test]
fn a_value_takes_precedence_over_its_key_and_a_limit_of_zero_denies_it() {
    let service = ImportedService::start(
        "addresses",
        "
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: remote_address, value: 203.0.113.9, rate_limit: {unit: hour, requests_per_unit: 0}}
",
    );
    assert!(service.warnings.is_empty(), "{:?}", service.warnings);
    assert_eq!(service.admitted(5, &[("remote_address", "203.0.113.1")]), 3);
    assert_eq!(service.admitted(5, &[("remote_address", "203.0.113.2")]), 3);
    assert_eq!(service.admitted(5, &[("remote_address", "203.0.113.9")]), 0);
}

#[test]
fn a_rule_does_not_match_a_longer_descriptor() {
    let flat = "\n  - {key: k, value: v, rate_limit: {unit: hour, requests_per_unit: 1}}\n";
    assert_eq!(ImportedService::start("deep", flat).admitted(3, &[("k", "v"), ("sub", "x")]), 3);
    let nested = "\n  - key: k\n    value: v\n    descriptors:\n      - {key: sub, rate_limit: {unit: hour, requests_per_unit: 1}}\n";
    assert_eq!(ImportedService::start("deep", nested).admitted(3, &[("k", "v"), ("sub", "x")]), 1);
}

#[test]
fn an_unlimited_descriptor_reports_the_maximum_remaining() {
    let service = ImportedService::start(
        "inside",
        "
  - {key: directory, rate_limit: {unlimited: true}}
  - {key: cloud, rate_limit: {unit: minute, requests_per_unit: 100}}
",
    );
    let response = service.check(&[descriptor(&[("directory", "")])]);
    assert_eq!((codes(&response), response.statuses[0].limit_remaining), (vec![Fine], u32::MAX));
    assert_eq!(service.limit(&[("cloud", "")]), Some(100));
}

#[test]
fn a_rule_in_shadow_mode_never_denies() {
    let service = ImportedService::start(
        "shadows",
        "
  - key: service
    descriptors:
      - {key: user, value: ann, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: user, value: bob, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    );
    assert!(service.warnings.is_empty(), "{:?}", service.warnings);
    assert_eq!(service.admitted(5, &[("service", "auth"), ("user", "ann")]), 5);
    assert_eq!(service.admitted(5, &[("service", "auth"), ("user", "bob")]), 2);
    assert_eq!(service.admitted(5, &[("service", "pay"), ("user", "bob")]), 2, "each service separately");
}

#[test]
fn a_limit_that_replaces_another_is_kept_with_a_warning() {
    let service = ImportedService::start(
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
    let [warning] = &*service.warnings else { panic!("one warning: {:?}", service.warnings) };
    assert!(warning.contains("`endpoint=search, user`") && warning.contains("replaces `reads`"), "{warning}");
    assert_eq!(service.admitted(4, &[("method", "read"), ("user", "ann")]), 1);
    assert_eq!(service.admitted(4, &[("endpoint", "search"), ("user", "ann")]), 2);
}

#[test]
fn detailed_metrics_change_no_decision_and_give_a_warning() {
    let service = ImportedService::start(
        "metrics",
        "
  - {key: plan, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: plan, value: gold, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    );
    assert_eq!(service.warnings.len(), 1, "{:?}", service.warnings);
    assert_eq!(service.admitted(4, &[("plan", "tin")]), 1);
    assert_eq!(service.admitted(4, &[("plan", "iron")]), 1);
    assert_eq!(service.admitted(4, &[("plan", "gold")]), 2);
}

#[test]
fn a_value_with_a_trailing_star_is_a_prefix_and_counts_each_value_separately() {
    let service = ImportedService::start(
        "paths",
        "\n  - {key: path, value: /v1/*, rate_limit: {unit: hour, requests_per_unit: 2}}\n",
    );
    for path in ["/v1/a", "/v1/b"] {
        assert_eq!(service.admitted(4, &[("path", path)]), 2, "{path}");
    }
    assert_eq!(service.admitted(4, &[("path", "/v2/a")]), 4);
}

#[test]
fn a_value_without_a_limit_is_exempt_from_the_limit_of_its_key() {
    let service = ImportedService::start(
        "friends",
        "
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: user, value: monitor}
",
    );
    assert_eq!(service.admitted(4, &[("user", "ann")]), 1);
    assert_eq!(service.admitted(4, &[("user", "monitor")]), 4);
}

#[test]
fn each_difference_gives_a_warning_that_is_also_in_the_file() {
    let limit = "rate_limit: {unit: hour, requests_per_unit: 1}";
    for (descriptors, expected) in [
        (
            format!("\n  - {{key: p, value: /a*, {limit}}}\n  - {{key: p, value: /a/b*, {limit}}}\n"),
            "`p=/a/b*` never applies in the original, because `p=/a*` comes first",
        ),
        (format!("\n  - {{key: p, value: 'a*b*', {limit}}}\n"), "`p=a*b*` has a second `*`"),
        (format!("\n  - {{key: 'p*', {limit}}}\n"), "the key `p*` ends in `*`"),
        (format!("\n  - {{key: p, quota_mode: true, {limit}}}\n"), "`p`: `quota_mode` is not imported"),
        (
            format!("\n  - {{key: p, value: 'a*', share_threshold: true, {limit}}}\n"),
            "`share_threshold` is not imported",
        ),
        (format!("\n  - {{key: p, value_to_metric: true, {limit}}}\n"), "metrics by value are not imported"),
        (
            "\n  - {key: p, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}\n".to_owned(),
            "a limit of 0 in shadow mode",
        ),
        // In the original, user a without path x has no limit. A rule for "everything but x" does not exist.
        (
            format!(
                "\n  - key: user\n    value: a\n    descriptors:\n      - {{key: p, descriptors: [{{key: q, value: x, {limit}}}]}}\
                 \n  - key: user\n    descriptors:\n      - {{key: p, value: v, descriptors: [{{key: q, {limit}}}]}}\n"
            ),
            "`user=a`: a descriptor without a limit in the original may have one here",
        ),
    ] {
        let Imported { toml, warnings, .. } = import(&format!("domain: d\ndescriptors:{descriptors}"));
        let [warning] = &*warnings else { panic!("one warning for {descriptors}: {warnings:?}") };
        assert!(warning.contains(expected), "{warning}\n expected {expected}");
        assert!(toml.contains(&format!("# - {warning}\n")), "{toml}");
        drop(GrpcClient::start(&toml));
    }
}

#[test]
fn every_unit_is_imported() {
    for (unit, expected) in
        [("second", 1), ("MINUTE", 2), ("hour", 3), ("day", 4), ("week", 7), ("month", 5), ("year", 6)]
    {
        let rule = format!("\n  - {{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 9}}}}\n");
        let response = ImportedService::start("units", &rule).check(&[descriptor(&[("k", "v")])]);
        assert_eq!(response.statuses[0].current_limit.as_ref().map(|limit| limit.unit), Some(expected), "{unit}");
    }
}

#[test]
fn an_invalid_file_is_rejected_with_a_hint() {
    for (yaml, expected) in [
        ("descriptors: []", "missing field `domain`"),
        ("domain: ''", "`domain` is empty"),
        ("domain: d\ndescriptors:\n  - {key: k, rate_limits: {}}", "unknown field `rate_limits`, expected one of"),
        ("domain: d\ndescriptors:\n  - {key: '', value: v}", "an empty key"),
        ("domain: d\ndescriptors:\n  - {key: a=b}", "has a `=`"),
        ("domain: d\ndescriptors:\n  - {key: k, value: 1.10}", "in quotes"),
        ("domain: d\ndescriptors:\n  - {key: k}\n  - {key: k}", "`k` occurs twice"),
        (
            "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}",
            "use second, minute",
        ),
        ("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, unlimited: true}}", "unlimited and has a unit"),
        ("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: -1}}", "limits.yaml: "),
        ("domain: [", "limits.yaml: "),
    ] {
        let error = import_envoy("limits.yaml", yaml).expect_err("an invalid file").to_string();
        assert!(error.contains(expected), "{yaml}\n gives  {error}\n expected {expected}");
    }
}

#[test]
fn policy_names_are_unique_and_valid_for_any_key_and_value() {
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
    let client = GrpcClient::start(&import(&yaml).toml);
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
        let response = client.send(request).expect("a valid request");
        let limit = response.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit);
        assert_eq!(limit, Some(expected), "{value}");
    }
}
