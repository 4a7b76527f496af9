//! Invalid input: each case has a defined outcome and a message that says how to fix it.

use std::{borrow::Cow, time::Duration};

use tidegate::{
    Algorithm, AlgorithmError, Buckets, Burst, Cost, Key, KeyError, Limit, LimitError, MemoryStore, MemoryStoreError,
    Op, Policy, PolicyError, Reason, Spend, SpendError, Timestamp,
};

const START: u64 = 1_745_000_000_000_000;
const DAY: u64 = 86_400_000_000;

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

#[test]
fn limits_out_of_range_are_rejected() {
    let minute = Duration::from_secs(60);
    assert_eq!(Limit::new(0, minute), Err(LimitError::Max { max: 0 }));
    assert_eq!(Limit::new(1_000_000_000_001, minute), Err(LimitError::Max { max: 1_000_000_000_001 }));
    assert!(Limit::new(1_000_000_000_000, minute).is_ok());
    for window in [0, 999, 366 * DAY + 1, u64::MAX] {
        assert_eq!(Limit::new(1, Duration::from_micros(window)), Err(LimitError::Window), "{window}");
    }
    assert_eq!(Limit::new(1, Duration::MAX - Duration::from_nanos(999)), Err(LimitError::Window));
    assert!(Limit::new(1, Duration::from_micros(1000)).is_ok());
    assert!(Limit::new(1, Duration::from_micros(366 * DAY)).is_ok());
    assert_eq!(Limit::new(1, Duration::new(1, 500)), Err(LimitError::FractionOfMicrosecond));
}

#[test]
fn limits_parse_from_the_text_they_print() {
    for (text, max, micros) in [
        ("5/1s", 5, 1_000_000),
        ("60/1m", 60, 60_000_000),
        ("9500/1d", 9500, DAY),
        ("1_000_000/1h", 1_000_000, 3_600_000_000),
        ("100/250ms", 100, 250_000),
        ("7/1h30m", 7, 5_400_000_000),
        ("7/2w", 7, 14 * DAY),
        ("7/1d12h", 7, DAY + DAY / 2),
    ] {
        assert_eq!(limit(text), Limit::new(max, Duration::from_micros(micros)).unwrap(), "{text}");
        assert_eq!(limit(&limit(text).to_string()), limit(text), "{text}");
    }
    for printed in ["100/1m", "5/1s", "100/250ms", "7/1h30m", "7/2w", "9500/1d", "3/8d", "1/366d"] {
        assert_eq!(limit(printed).to_string(), printed);
    }
    for text in [
        "",
        "5",
        "5/",
        "/1s",
        "5/s",
        "5/1",
        "5/1x",
        "5/1 s",
        " 5/1s",
        "5/1s ",
        "-5/1s",
        "+5/1s",
        "5.5/1s",
        "_5/1s",
        "5_/1s",
        "5/1s/1s",
        "5/1sm",
        "99999999999999999999/1s",
        "5/99999999999999999999s",
        "５/1s",
    ] {
        let error = text.parse::<Limit>().unwrap_err();
        assert!(matches!(error, LimitError::Text { .. }), "{text}: {error}");
        assert!(error.to_string().contains("100/1m"), "no hint: {error}");
    }
    assert_eq!("0/1s".parse::<Limit>(), Err(LimitError::Max { max: 0 }));
    assert_eq!("5/0s".parse::<Limit>(), Err(LimitError::Window));
    assert_eq!("5/367d".parse::<Limit>(), Err(LimitError::Window));
    let long = "x".repeat(10_000).parse::<Limit>().unwrap_err();
    assert!(long.to_string().len() < 200, "the message grows with the input");
}

#[test]
fn algorithms_parse_from_the_text_they_print() {
    for text in [
        "sliding_log",
        "sliding_counter",
        "sliding_buckets:1",
        "sliding_buckets:1000",
        "fixed_window",
        "gcra",
        "gcra:20",
    ] {
        assert_eq!(text.parse::<Algorithm>().unwrap().to_string(), text);
    }
    for text in ["", "sliding", "gcra:", "gcra:x", "sliding_buckets", "sliding_log:3", "Sliding_Log", "gcra:20:3"] {
        let error = text.parse::<Algorithm>().unwrap_err();
        assert!(matches!(error, AlgorithmError::Unknown { .. }), "{text}: {error}");
        assert!(error.to_string().contains("sliding_log"), "no hint: {error}");
    }
    assert_eq!("sliding_buckets:0".parse::<Algorithm>(), Err(AlgorithmError::Buckets { buckets: 0 }));
    assert_eq!("sliding_buckets:1001".parse::<Algorithm>(), Err(AlgorithmError::Buckets { buckets: 1001 }));
    assert_eq!(Buckets::new(65_537), Err(AlgorithmError::Buckets { buckets: 65_537 }));
    assert_eq!("gcra:0".parse::<Algorithm>(), Err(AlgorithmError::Burst { burst: 0 }));
    assert_eq!(Burst::new(1_000_000_000_001), Err(AlgorithmError::Burst { burst: 1_000_000_000_001 }));
}

#[test]
fn integers_and_strings_are_keys() {
    let digits = [
        Key::from(42_u8),
        Key::from(42_u16),
        Key::from(42_u32),
        Key::from(42_u64),
        Key::from(42_u128),
        Key::from(42_usize),
        Key::from(42_i8),
        Key::from(42_i16),
        Key::from(42_i32),
        Key::from(42_i64),
        Key::from(42_i128),
        Key::from(42_isize),
    ];
    assert_eq!(digits, [(); 12].map(|()| Key::new("42").unwrap()));
    assert_eq!(Key::from(i128::MIN), Key::new("-170141183460469231731687303715884105728").unwrap());

    let owned: [Result<Key<'static>, KeyError>; 4] = [
        Key::try_from("user".to_owned()),
        Key::try_from(b"user".to_vec()),
        Key::try_from(Cow::<'static, str>::Owned("user".to_owned())),
        Key::try_from(Cow::<'static, [u8]>::Owned(b"user".to_vec())),
    ];
    let (text, bytes) = ("user".to_owned(), b"user".to_vec());
    let borrowed = [
        Key::try_from("user"),
        Key::try_from(&text),
        Key::try_from(&bytes),
        Key::try_from(&bytes[..]),
        Key::try_from(Cow::Borrowed("user")),
        Key::try_from(Cow::Borrowed(&b"user"[..])),
    ];
    assert!(owned.iter().chain(&borrowed).all(|key| *key == Key::new("user")), "{owned:?} {borrowed:?}");

    let uuid = *b"0123456789abcdef";
    assert_eq!(Key::from(uuid), Key::new(&uuid).unwrap());

    assert_eq!(Key::try_from(String::new()), Err(KeyError::Empty));
    assert_eq!(Key::try_from(&String::new()), Err(KeyError::Empty));
    assert_eq!(Key::try_from(Cow::Borrowed("")), Err(KeyError::Empty));
    assert_eq!(Key::try_from(vec![b'x'; 1025]), Err(KeyError::TooLong { len: 1025 }));
    assert_eq!(Key::try_from(Cow::<str>::Owned("x".repeat(1025))), Err(KeyError::TooLong { len: 1025 }));
}

#[test]
fn keys_have_1_to_1024_bytes_and_lists_of_parts_never_collide() {
    assert_eq!(Key::new(""), Err(KeyError::Empty));
    assert!(Key::new(&[b'x'; 1024]).is_ok());
    assert_eq!(Key::new(&[b'x'; 1025]), Err(KeyError::TooLong { len: 1025 }));
    assert_eq!(Key::join(Vec::<&str>::new()), Err(KeyError::Empty));
    assert!(Key::join(["x".repeat(1023)]).is_err());
    assert!(Key::join(["x".repeat(70_000)]).is_err());
    assert!(Key::join(vec!["x"; 342]).is_err());

    let lists: [&[&str]; 9] =
        [&["a", "b"], &["ab"], &["a", "", "b"], &["", "ab"], &["ab", ""], &["a,b"], &["a\0b"], &[""], &["", ""]];
    let store = MemoryStore::default();
    let policy = Policy::new("p", [limit("1/1m")]).unwrap();
    let now = Timestamp::from_micros(START);
    for list in lists {
        let decision = store.decide(Op::Check, &policy, &Key::join(list).unwrap(), Cost::ONE, now);
        assert!(decision.is_allowed(), "{list:?} collides with another list");
        let joined = Key::join(list).unwrap();
        let plain = store.decide(Op::Check, &policy, &Key::new(joined.as_bytes()).unwrap(), Cost::ONE, now);
        assert!(plain.is_allowed(), "{list:?} collides with the plain key of its bytes");
    }
}

#[test]
fn policies_have_separate_states() {
    let store = MemoryStore::default();
    let now = Timestamp::from_micros(START);
    let key = Key::new("k").unwrap();
    let first = |policy: &Policy| store.decide(Op::Check, policy, &key, Cost::ONE, now).remaining();
    let (minute, hour) = (limit("10/1m"), limit("10/1h"));
    assert_eq!(first(&Policy::new("a", [minute]).unwrap()), 9);
    assert_eq!(first(&Policy::new("b", [minute]).unwrap()), 9);
    assert_eq!(first(&Policy::unnamed([minute]).unwrap()), 9);
    assert_eq!(first(&Policy::unnamed([hour]).unwrap()), 9, "other windows have another state");
    assert_eq!(first(&Policy::unnamed([minute]).unwrap().with_algorithm(Algorithm::FixedWindow)), 9);
    // Another max has the same state.
    assert_eq!(first(&Policy::unnamed([limit("5/1m")]).unwrap()), 3);
    assert_eq!(first(&Policy::unnamed([minute, hour]).unwrap()), 9);
    assert_eq!(first(&Policy::unnamed([hour, minute]).unwrap()), 8, "the order of limits does not matter");
}

#[test]
fn policies_out_of_range_are_rejected() {
    for name in ["", "with space", "quo\"te", "back\\slash", "ümlaut", "line\nbreak", &"x".repeat(129)] {
        assert_eq!(Policy::new(name, [limit("1/1m")]).unwrap_err(), PolicyError::Name, "{name:?}");
    }
    let empty = Policy::new("p", []).unwrap_err();
    assert_eq!(empty, PolicyError::NoLimits);
    assert_eq!(empty.to_string(), "the policy has no limits: give it 1 to 8, such as 100/1m");
    let nine = (1..=9).map(|n| Limit::new(1, Duration::from_secs(n)).unwrap());
    assert_eq!(Policy::new("p", nine).unwrap_err(), PolicyError::TooManyLimits);
    let endless = std::iter::repeat(limit("1/1m"));
    assert!(Policy::new("p", endless).is_err());
    let twice = Policy::new("p", [limit("5/60s"), limit("6/1m")]).unwrap_err();
    assert_eq!(twice, PolicyError::SameWindow { limit: limit("6/1m") });
    let bursts = Policy::new("p", [limit("5/1m")]).unwrap().with_bursts([]);
    assert_eq!(bursts.unwrap_err(), PolicyError::Bursts { bursts: 0, limits: 1 });
}

#[test]
fn costs_start_at_1_and_costs_above_the_limit_are_impossible() {
    assert!(Cost::new(0).unwrap_err().to_string().contains("peek"));
    assert!(Cost::new(1_000_000_000_001).is_err());
    let store = MemoryStore::default();
    let now = Timestamp::from_micros(START);
    let key = Key::new("k").unwrap();
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:7", "fixed_window", "gcra"] {
        let policy = Policy::new(algorithm, [limit("10/1m")]).unwrap().with_algorithm(algorithm.parse().unwrap());
        let eleven = Cost::new(11).unwrap();
        let decision = store.decide(Op::Check, &policy, &key, eleven, now);
        assert_eq!((decision.reason(), decision.retry_after()), (Reason::Impossible, None));
        assert_eq!((decision.remaining(), decision.charged_at()), (10, None));
        assert_eq!(store.inspect(&policy, &key, now), None, "an impossible request left a trace");
    }
}

#[test]
fn buckets_that_do_not_divide_the_window_are_counted_exactly() {
    let store = MemoryStore::default();
    let policy = Policy::new("p", [limit("1/1s")]).unwrap();
    let policy = policy.with_algorithm(Algorithm::SlidingBuckets(Buckets::new(7).unwrap()));
    // The first bucket ends at 142_857.14…, so its last microsecond is 142_857, and it counts through seven more.
    let second = START - START % 1_000_000;
    let key = Key::new("k").unwrap();
    let decision = store.decide(Op::Check, &policy, &key, Cost::ONE, Timestamp::from_micros(second + 142_857));
    assert_eq!(decision.reset_after(), Duration::from_micros(1_142_858 - 142_857));
}

#[test]
fn invalid_decisions_over_several_requests_are_rejected_and_charge_nothing() {
    let store = MemoryStore::default();
    let now = Timestamp::from_micros(START);
    let policy = Policy::new("p", [limit("1_000_000_000_000/1m")]).unwrap();
    let (key, max_cost) = (Key::new("k").unwrap(), Cost::new(1_000_000_000_000).unwrap());
    let spend = Spend { policy: &policy, key: &key, cost: max_cost };
    let decide = |spends: &[Spend<'_>]| store.decide_all(Op::Check, spends, now).map(|_| ());
    assert_eq!(decide(&[]), Err(SpendError::Parts { parts: 0 }));
    assert_eq!(decide(&[spend; 65]), Err(SpendError::Parts { parts: 65 }));
    assert_eq!(decide(&[spend, Spend { cost: Cost::ONE, ..spend }]), Err(SpendError::Sum { part: 1 }));
    let other = Policy::new("p", [limit("5/1m")]).unwrap();
    assert_eq!(
        decide(&[spend, Spend { policy: &other, cost: Cost::ONE, ..spend }]),
        Err(SpendError::Conflict { part: 1 })
    );
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn stores_without_room_for_a_key_are_rejected() {
    assert_eq!(MemoryStore::builder().max_keys(0).build().unwrap_err(), MemoryStoreError::NoKeys);
    let few = MemoryStore::builder().max_bytes(1000).build();
    assert_eq!(few.unwrap_err(), MemoryStoreError::FewBytes { max_bytes: 1000 });
}

#[test]
fn a_clock_that_jumps_by_a_year_keeps_the_units_in_use() {
    let year = 365 * DAY;
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:7", "fixed_window", "gcra"] {
        let store = MemoryStore::default();
        let policy = Policy::new("p", [limit("2/1m")]).unwrap().with_algorithm(algorithm.parse().unwrap());
        let key = Key::new("k").unwrap();
        let check = |now| store.decide(Op::Check, &policy, &key, Cost::ONE, Timestamp::from_micros(now));
        assert!(check(START).is_allowed() && check(START).is_allowed());
        // A year back: the time is accepted, and the units stay in use.
        let decision = check(START - year);
        assert_eq!(decision.reason(), Reason::Limited, "{algorithm}");
        assert!(decision.retry_after().unwrap() <= Duration::from_secs(120), "{algorithm}");
        // A year ahead: no units are in use any more.
        assert!(check(START).is_allowed() && check(START).is_allowed());
        assert_eq!(check(START).reason(), Reason::Limited, "{algorithm}");
        // To the first and the last possible time.
        assert_eq!(check(0).reason(), Reason::Limited, "{algorithm}");
        assert!(check(u64::MAX).is_allowed());
        assert!(check(u64::MAX).is_allowed());
        assert!(!check(u64::MAX).is_allowed());
    }
}
