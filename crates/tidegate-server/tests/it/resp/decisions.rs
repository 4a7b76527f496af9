//! The commands that decide, in every format of their replies.

use super::{
    client::{Client, Reply},
    service,
};

const HOUR_MS: i64 = 3_600_000;

/// Splits the six numbers of a reply: `[allowed, max, remaining]`, retry, reset, charged.
#[track_caller]
fn split_numbers(reply: &Reply) -> ([i64; 3], i64, i64, i64) {
    let numbers = reply.numbers();
    let [allowed, max, remaining, retry, reset, charged] = numbers[..] else { panic!("not six: {numbers:?}") };
    ([allowed, max, remaining], retry, reset, charged)
}

#[test]
fn a_check_returns_six_integers() {
    let service = service();
    for (key, mut client) in [("a", Client::connect(service.resp)), ("b", Client::connect3(service.resp))] {
        for remaining in [2, 1, 0] {
            let (head, retry, reset, charged) = split_numbers(&client.call(&format!("TG.CHECK api {key}")));
            assert_eq!((head, retry), ([1, 3, remaining], -1));
            assert!((1..=HOUR_MS).contains(&reset), "{reset}");
            assert!(charged > 1_700_000_000_000_000, "{charged}");
        }
        let (head, retry, reset, charged) = split_numbers(&client.call(&format!("tg.check api {key}")));
        assert_eq!((head, charged), ([0, 3, 0], 0));
        assert!((1..=HOUR_MS).contains(&retry) && retry <= reset && reset <= HOUR_MS, "{retry} {reset}");
        let (head, retry, ..) = split_numbers(&client.call(&format!("Tg.Check api {key} cost 4")));
        assert_eq!((head, retry), ([0, 3, 0], -2), "the cost exceeds the capacity");
    }
}

#[test]
fn costs_and_operations_are_spent() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("TG.CHECK quota k COST 7").numbers()[..3], [1, 9500, 9493]);
    assert_eq!(client.call("TG.CHECK quota k OPERATION search.list").numbers()[..3], [1, 9500, 9393]);
    assert_eq!(client.call("TG.CHECK quota k onfail Closed operation search.list").numbers()[..3], [1, 9500, 9293]);
    assert_eq!(client.call("TG.CHECK quota k ONFAIL local:0.25").numbers()[..3], [1, 9500, 9292]);
    assert_eq!(client.call("TG.CHECK burst k").numbers()[..3], [1, 4, 3], "the maximum of gcra is its burst");
    let two = client.call("TG.CHECK login k").numbers();
    assert_eq!(two[..3], [1, 5, 4], "the tightest limit");
}

#[test]
fn full_returns_all_fields_of_the_http_body_and_the_exact_decision() {
    let service = service();
    let names = [
        "allowed",
        "reason",
        "policy",
        "limit",
        "used",
        "remaining",
        "retry_after_ms",
        "reset_after_ms",
        "charged_at_us",
        "degraded",
        "capacity",
        "retry_after_us",
        "reset_after_us",
        "limit_reset_after_us",
        "leased",
        "decided_by",
    ];
    for (key, mut client, yes, no) in [
        ("a", Client::connect(service.resp), Reply::Int(1), Reply::Int(0)),
        ("b", Client::connect3(service.resp), Reply::Bool(true), Reply::Bool(false)),
    ] {
        let reply = client.call(&format!("TG.CHECK api {key} COST 3 FULL"));
        match &reply {
            Reply::List(items) => {
                let given: Vec<String> = items.chunks(2).map(|pair| pair[0].text()).collect();
                assert_eq!(given, names, "in order, each with its value");
            }
            Reply::Map(pairs) => assert_eq!(pairs.len(), names.len()),
            other => panic!("{other:?}"),
        }
        assert_eq!(reply.field("allowed"), yes);
        assert_eq!(reply.field("reason"), Reply::bulk("allowed"));
        assert_eq!(reply.field("policy"), Reply::bulk("api"));
        assert_eq!(reply.field("limit"), Reply::bulk("3/1h"));
        assert_eq!(reply.field("used"), Reply::Int(3));
        assert_eq!(reply.field("remaining"), Reply::Int(0));
        assert_eq!(reply.field("retry_after_ms"), Reply::Null);
        assert_eq!(reply.field("degraded"), no);
        assert_eq!(reply.field("leased"), no);
        assert!(matches!(reply.field("charged_at_us"), Reply::Int(at) if at > 0));
        let denied = client.call(&format!("TG.CHECK api {key} full"));
        assert_eq!(denied.field("allowed"), no);
        assert_eq!(denied.field("reason"), Reply::bulk("limited"));
        assert!(matches!(denied.field("retry_after_ms"), Reply::Int(1..=HOUR_MS)));
        assert_eq!(denied.field("charged_at_us"), Reply::Null);
    }
}

#[test]
fn several_checks_are_one_decision() {
    let service = service();
    for (key, mut client) in [("a", Client::connect(service.resp)), ("b", Client::connect3(service.resp))] {
        let (head, retry, _, charged) =
            split_numbers(&client.call(&format!("TG.CHECKALL api {key} 2 quota {key} 100")));
        assert_eq!((head, retry), ([1, 3, 1], -1), "the limit with the least remaining decided");
        assert!(charged > 0);
        let (head, retry, _, charged) =
            split_numbers(&client.call(&format!("TG.CHECKALL quota {key} 100 api {key} 2")));
        assert_eq!((head, charged), ([0, 3, 1], 0));
        assert!(retry > 0);
        assert_eq!(client.call(&format!("TG.PEEK quota {key}")).numbers()[2], 9400, "the denied command spent nothing");
        let (head, retry, ..) = split_numbers(&client.call(&format!("TG.CHECKALL burst {key} 5 quota {key} 1")));
        assert_eq!((head[..2].to_vec(), retry), (vec![0, 4], -2), "the maximum of gcra is its burst");
        let full = client.call(&format!("TG.CHECKALL quota {key} 1 api {key} 1 FULL"));
        assert_eq!(full.field("policy"), Reply::bulk("api"));
        let Reply::List(checks) = full.field("checks") else { panic!("{full:?}") };
        assert_eq!(checks.len(), 2);
        assert_eq!(checks[0].field("policy"), Reply::bulk("quota"));
        assert_eq!(checks[0].field("used"), Reply::Int(101));
        assert_eq!(checks[1].field("used"), Reply::Int(3));
        let times = checks.iter().map(|check| check.field("charged_at_us"));
        let times: Vec<i64> = times.map(|at| Reply::List(vec![at]).numbers()[0]).collect();
        assert_eq!(full.field("charged_at_us"), Reply::Int(*times.iter().max().expect("two")));
    }
}

#[test]
fn callers_may_supply_limits() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("TG.LIMIT k 2/1h 100/1d").numbers()[..3], [1, 2, 1]);
    assert_eq!(client.call("TG.LIMIT k 2/1h 100/1d COST 1 FULL").field("policy"), Reply::Null);
    let (head, retry, ..) = split_numbers(&client.call("TG.LIMIT k 2/1h 100/1d"));
    assert_eq!(head, [0, 2, 0]);
    assert!(retry > 0);
    assert_eq!(
        client.call("TG.LIMIT k 2/1h algorithm GCRA:20").error(),
        "ERR `GCRA:20` is not an algorithm: use sliding_log, sliding_counter, sliding_buckets:10, fixed_window, gcra or gcra:20"
    );
    assert_eq!(client.call("TG.LIMIT k 2/1h algorithm gcra:20 onfail open").numbers()[..3], [1, 20, 19]);
}

#[test]
fn a_peek_spends_nothing_and_a_charge_always_spends() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let (head, retry, reset, charged) = split_numbers(&client.call("TG.PEEK api k COST 3"));
    assert_eq!((head, retry, reset, charged), ([1, 3, 3], -1, 0, 0));
    let (head, retry, ..) = split_numbers(&client.call("TG.CHARGE api k 5"));
    assert_eq!((head, retry), ([1, 3, 0], -1));
    let peeked = client.call("TG.PEEK api k FULL");
    assert_eq!(peeked.field("used"), Reply::Int(5));
    assert_eq!(peeked.field("reason"), Reply::bulk("limited"));
    assert_eq!(client.call("TG.CHARGE api k 1 FULL").field("used"), Reply::Int(6));
}

#[test]
fn a_shadow_policy_admits_and_reports_the_denial() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("TG.CHECK watched k").numbers()[..4], [1, 1, 0, -1]);
    let (head, retry, ..) = split_numbers(&client.call("TG.CHECK watched k"));
    assert_eq!(head, [1, 1, 0]);
    assert!(retry > 0, "the wait of an enforced policy, as in the HTTP body");
    assert_eq!(client.call("TG.CHECK watched k FULL").field("reason"), Reply::bulk("shadow"));
}

#[test]
fn a_charge_is_refunded_once_and_a_key_is_reset_once() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let charged = split_numbers(&client.call("TG.CHECK api k COST 2")).3;
    assert_eq!(client.call(&format!("TG.REFUND api k 2 {charged}")), Reply::Int(1));
    assert_eq!(client.call(&format!("TG.REFUND api k 2 {charged}")), Reply::Int(0));
    assert_eq!(client.call("TG.PEEK api k").numbers()[2], 3);
    assert_eq!(client.call("TG.CHECK api k").numbers()[0], 1);
    assert_eq!(client.call("TG.RESET api k"), Reply::Int(1));
    assert_eq!(client.call("TG.RESET api k"), Reply::Int(0));
}

#[test]
fn inspect_returns_the_state_of_a_key() {
    let service = service();
    for (key, mut client) in [("a", Client::connect(service.resp)), ("b", Client::connect3(service.resp))] {
        assert_eq!(client.call(&format!("TG.INSPECT login {key}")), Reply::Null);
        let charged = split_numbers(&client.call(&format!("TG.CHECK login {key} COST 2"))).3;
        let state = client.call(&format!("TG.INSPECT login {key}"));
        assert_eq!(state.field("newest_charge_us"), Reply::Int(charged));
        let Reply::List(limits) = state.field("limits") else { panic!("{state:?}") };
        assert_eq!(limits.len(), 2);
        assert_eq!(limits[1].field("limit"), Reply::bulk("50/1d"));
        assert_eq!(limits[1].field("used"), Reply::Int(2));
        assert_eq!(limits[1].field("remaining"), Reply::Int(48));
        assert_eq!(limits[1].field("unlisted"), Reply::Int(0));
        let Reply::List(entries) = limits[1].field("entries") else { panic!("{state:?}") };
        assert_eq!(entries[0].field("first_us"), Reply::Int(charged));
        assert_eq!(entries[0].field("last_us"), Reply::Int(charged));
        assert_eq!(entries[0].field("units"), Reply::Int(2));
    }
}

#[test]
fn throttle_replies_like_redis_cell() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(
        client.call("CL.THROTTLE user123 15 30 60"),
        Reply::ints(&[0, 16, 15, -1, 2]),
        "the example of redis-cell"
    );
    assert_eq!(client.call("cl.throttle k 2 1 3600"), Reply::ints(&[0, 3, 2, -1, 3600]));
    assert_eq!(
        client.call("CL.THROTTLE k 2 1 3600 0"),
        Reply::ints(&[0, 3, 2, -1, 3600]),
        "a quantity of 0 spends nothing"
    );
    assert_eq!(client.call("CL.THROTTLE k 2 1 3600 2"), Reply::ints(&[0, 3, 0, -1, 10800]));
    assert_eq!(client.call("CL.THROTTLE k 2 1 3600"), Reply::ints(&[1, 3, 0, 3600, 10800]));
    assert_eq!(
        client.call("CL.THROTTLE k 2 1 3600 0"),
        Reply::ints(&[0, 3, 0, -1, 10800]),
        "a quantity of 0 always fits"
    );
    assert_eq!(
        client.call("CL.THROTTLE k 2 1 3600 4"),
        Reply::ints(&[1, 3, 0, -1, 10800]),
        "the cost exceeds the capacity"
    );
    assert_eq!(client.call("CL.THROTTLE fresh 0 1 1 0"), Reply::ints(&[0, 1, 1, -1, 0]));
    // Its keys are separate from those of policies.
    assert_eq!(client.call("TG.PEEK api user123").numbers()[2], 3);
}

#[test]
fn keys_are_bytes() {
    let service = service();
    let mut client = Client::connect(service.resp);
    for key in [&b"\xff\x00\r\n*3"[..], b"$5\r\nhello\r\n", b" ", &[b'k'; 1024]] {
        client.send(&super::client::command([b"TG.CHECK".as_slice(), b"api", key]));
        assert_eq!(client.read().numbers()[..3], [1, 3, 2]);
    }
}
