//! Which policy a descriptor falls under, and whom it counts.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code::{Ok as Fine, OverLimit};

use super::{Asked, code, descriptor, of_user, user};

const RULES: &str = r#"
[policies.any]
limits = ["10/1h"]
[policies.exact]
limits = ["20/1h"]
[policies.prefix]
limits = ["30/1h"]
[policies.nested]
limits = ["40/1h"]
[[envoy]]
domain = "edge"
descriptors = [["path"]]
policy = "any"
[[envoy]]
domain = "edge"
descriptors = [["path=/a/*"]]
policy = "prefix"
[[envoy]]
domain = "edge"
descriptors = [["path=/a/b"]]
policy = "exact"
[[envoy]]
domain = "edge"
descriptors = [["path", "user"], ["user", "path"]]
policy = "nested"
"#;

#[test]
fn the_most_specific_rule_decides_with_entries_in_order_and_in_full_number() {
    let mut asked = Asked::start(RULES);
    for (entries, expected) in [
        (&[("path", "/a/b")][..], Some("exact")),
        (&[("path", "/a/c")], Some("prefix")),
        (&[("path", "/b")], Some("any")),
        (&[("path", "/a/b"), ("user", "x")], Some("nested")),
        (&[("user", "x"), ("path", "/a/b")], Some("nested")),
        (&[("user", "x")], None),
        (&[("path", "/a"), ("user", "x"), ("more", "y")], None),
    ] {
        let status = asked.one(descriptor(entries));
        assert_eq!(status.current_limit.as_ref().map(|limit| limit.name.as_str()), expected, "{entries:?}");
        assert_eq!(code(&status), Fine);
    }
}

#[test]
fn names_and_values_of_all_entries_are_the_key_as_a_list_over_http() {
    let mut asked = Asked::start(RULES);
    asked.one(descriptor(&[("path", "/x"), ("user", "alice")]));
    assert_eq!(asked.used("nested", &["path", "/x", "user", "alice"]), [1]);
    asked.one(descriptor(&[("user", "alice"), ("path", "/x")]));
    assert_eq!(asked.used("nested", &["path", "/x", "user", "alice"]), [1], "another order is another key");
    assert_eq!(asked.used("nested", &["user", "alice", "path", "/x"]), [1]);
}

#[test]
fn values_that_run_together_are_still_two() {
    let mut asked = Asked::start(&RULES.replace("40/1h", "1/1h"));
    for (path, user) in [("/a", "b"), ("/ab", ""), ("", "/ab"), ("/", "ab")] {
        assert_eq!(code(&asked.one(descriptor(&[("path", path), ("user", user)]))), Fine, "{path} {user}");
    }
}

#[test]
fn a_value_too_long_for_a_key_is_limited_all_the_same() {
    let mut asked = Asked::start(&of_user("[\"1/1h\"]", ""));
    let long = |last: &str| user(&("x".repeat(5_000) + last));
    assert_eq!([code(&asked.one(long("a"))), code(&asked.one(long("a")))], [Fine, OverLimit]);
    assert_eq!(code(&asked.one(long("b"))), Fine, "another is counted by itself");
}
