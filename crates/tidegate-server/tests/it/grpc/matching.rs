//! The policy and the key of a descriptor.

use super::{
    GrpcClient, code, descriptor,
    proto::{Fine, OverLimit},
    user, user_policy,
};

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
fn the_most_specific_rule_decides_and_all_entries_must_match_in_order() {
    let client = GrpcClient::start(RULES);
    for (entries, expected) in [
        (&[("path", "/a/b")][..], Some("exact")),
        (&[("path", "/a/c")], Some("prefix")),
        (&[("path", "/b")], Some("any")),
        (&[("path", "/a/b"), ("user", "x")], Some("nested")),
        (&[("user", "x"), ("path", "/a/b")], Some("nested")),
        (&[("user", "x")], None),
        (&[("path", "/a"), ("user", "x"), ("more", "y")], None),
    ] {
        let status = client.check_one(descriptor(entries));
        assert_eq!(status.current_limit.as_ref().map(|limit| limit.name.as_str()), expected, "{entries:?}");
        assert_eq!(code(&status), Fine);
    }
}

#[test]
fn the_key_is_the_list_of_all_names_and_values() {
    let client = GrpcClient::start(RULES);
    client.check_one(descriptor(&[("path", "/x"), ("user", "alice")]));
    assert_eq!(client.used("nested", &["path", "/x", "user", "alice"]), [1]);
    client.check_one(descriptor(&[("user", "alice"), ("path", "/x")]));
    assert_eq!(client.used("nested", &["path", "/x", "user", "alice"]), [1], "another order is another key");
    assert_eq!(client.used("nested", &["user", "alice", "path", "/x"]), [1]);
}

#[test]
fn different_values_with_the_same_concatenation_have_different_keys() {
    let client = GrpcClient::start(&RULES.replace("40/1h", "1/1h"));
    for (path, user) in [("/a", "b"), ("/ab", ""), ("", "/ab"), ("/", "ab")] {
        assert_eq!(code(&client.check_one(descriptor(&[("path", path), ("user", user)]))), Fine, "{path} {user}");
    }
}

#[test]
fn a_value_too_long_for_a_key_is_limited() {
    let client = GrpcClient::start(&user_policy("[\"1/1h\"]", ""));
    let long = |last: &str| user(&("x".repeat(5_000) + last));
    assert_eq!([code(&client.check_one(long("a"))), code(&client.check_one(long("a")))], [Fine, OverLimit]);
    assert_eq!(code(&client.check_one(long("b"))), Fine, "a different value has its own key");
}
