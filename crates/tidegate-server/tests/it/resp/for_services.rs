//! The options that a service uses whose store is this service.

use serde_json::json;

use super::client::{Client, Reply, command};
use crate::{http::client::post, running::Running};

const CONFIG: &str = "[policies.api]\nlimits = [\"9/1h\"]\n[policies.hot]\nlimits = [\"900/1h\"]\n";

/// Sends a command whose arguments may have any bytes.
fn call(client: &mut Client, words: &[&str]) -> Reply {
    client.send(&command(words.iter().copied()));
    client.read()
}

/// The key of the list `["a", "b"]`.
const LIST: &str = "\0\u{1}a\0\u{1}b";

#[test]
fn a_joined_key_is_the_key_of_the_list() {
    let service = Running::start(CONFIG);
    let mut client = Client::connect(service.resp);
    let check = json!({ "policy": "api", "key": ["a", "b"], "cost": 4 });
    assert_eq!(post(service.http, "/v1/check", &check).json()["remaining"], 5);
    let peek = |client: &mut Client, words: &[&str]| call(client, words).field("remaining");
    assert_eq!(peek(&mut client, &["TG.PEEK", "api", LIST, "JOINED", "FULL"]), Reply::Int(5));
    assert_eq!(peek(&mut client, &["TG.PEEK", "api", LIST, "FULL"]), Reply::Int(9), "the same bytes as a plain key");
    let all = ["TG.CHECKALL", "api", LIST, "2", "api", LIST, "1", "OP", "charge", "JOINED", "10", "FULL"];
    let Reply::List(checks) = call(&mut client, &all).field("checks") else { panic!("a list") };
    assert_eq!(checks.iter().map(|check| check.field("remaining")).collect::<Vec<_>>(), [Reply::Int(3), Reply::Int(8)]);
    let all = ["TG.CHECKALL", "api", LIST, "2", "JOINED", "1", "FULL"];
    assert_eq!(call(&mut client, &all).field("remaining"), Reply::Int(1));
    assert_eq!(call(&mut client, &["TG.RESET", "api", LIST, "JOINED"]), Reply::Int(1));
    assert_eq!(call(&mut client, &["TG.INSPECT", "api", LIST, "JOINED"]), Reply::Null);
    for broken in ["\0\u{2}a", "\0", "a"] {
        let error = call(&mut client, &["TG.CHECK", "api", broken, "JOINED"]).error().to_owned();
        assert!(error.contains("the key is not the encoding of a list"), "{error}");
    }
}

#[test]
fn limits_of_a_caller_are_peeked_and_charged() {
    let service = Running::start(CONFIG);
    let mut client = Client::connect(service.resp);
    let mut remaining = |words: &str| client.call(&format!("TG.LIMIT k 5/1h {words} FULL")).field("remaining");
    assert_eq!(remaining("OP peek"), Reply::Int(5));
    assert_eq!(remaining("OP charge COST 3"), Reply::Int(2));
    assert_eq!(remaining("OP check"), Reply::Int(1));
    assert!(client.call("TG.LIMIT k 5/1h OP spend").error().contains("use check, peek or charge"));
}

#[test]
fn options_of_several_requests_are_never_taken_for_a_request() {
    let service = Running::start(CONFIG);
    let mut client = Client::connect(service.resp);
    for words in [
        "api a 1 OP peek",
        "api a 1 JOINED 0 OP peek",
        "api a 1 JOINED 00 FULL",
        "api a 1 OP peek api FULL",
        "OP peek JOINED 1 FULL",
        "api a FULL",
    ] {
        let error = client.call(&format!("TG.CHECKALL {words}"));
        assert!(error.error().starts_with("ERR "), "{words}: {error:?}");
    }
    assert_eq!(client.call("TG.PEEK api a FULL").field("used"), Reply::Int(0), "none of them spent");
    assert!(client.call("TG.CHECKALL api a 1 OP sum JOINED 0 FULL").error().contains("use check, peek or charge"));
}

#[test]
fn a_shorter_term_is_granted_only_to_a_caller_that_reads_it() {
    let service = Running::start(CONFIG);
    let mut client = Client::connect(service.resp);
    assert!(client.call("TG.LEASE hot k 5 2000 LEAST_TTL 1000").error().contains("LEAST_TTL needs FULL"));
    let leased = client.call("TG.LEASE hot k 5 2000 LEAST_TTL 1000 FULL");
    assert_eq!(
        (leased.field("granted"), leased.field("ttl_ms")),
        (Reply::Int(5), Reply::Int(2000)),
        "a root has no end"
    );
}

#[test]
fn a_refund_tells_what_remains() {
    let service = Running::start(CONFIG);
    let mut client = Client::connect(service.resp);
    let charged = client.call("TG.CHECK api k COST 4 FULL").field("charged_at_us");
    let Reply::Int(charged_at) = charged else { panic!("{charged:?}") };
    let refund = client.call(&format!("TG.REFUND api k 3 {charged_at} FULL"));
    assert_eq!((refund.field("returned"), refund.field("remaining")), (Reply::Int(1), Reply::Int(8)));
    assert!(matches!(refund.field("reset_after_us"), Reply::Int(1..=3_600_000_000)), "{refund:?}");
}
