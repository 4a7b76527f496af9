//! Reservations stay within the bounds of a store, and a store without room never forgets an open hold.

use std::time::Duration;

use tidegate::{
    Algorithm, AtCapacity, Burst, Cost, Decision, Hold, Key, Lease, MemoryStore, MemoryStoreBuilder, Op, Policy,
    Reason, ReservationBounds, ReservationId, Reserved, Spend, Timestamp,
};

const START: u64 = 1_745_000_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn after(time: Duration) -> Timestamp {
    at(0).after(time)
}

fn policy(limits: &[&str]) -> Policy {
    Policy::new("p", limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

fn build(builder: MemoryStoreBuilder) -> MemoryStore {
    builder.build().expect("a store")
}

fn store(max_keys: usize, at_capacity: AtCapacity) -> MemoryStore {
    build(MemoryStore::builder().max_keys(max_keys).at_capacity(at_capacity).shards(1))
}

fn reserve(store: &MemoryStore, policy: &Policy, key: &str, units: u64, ttl: Duration, now: Timestamp) -> Reserved {
    let (key, cost) = (Key::new(key).expect("a key"), Cost::new(units).expect("a cost"));
    store.reserve(policy, &key, cost, Hold::new(ttl), now).expect("well-formed")
}

fn is_known(store: &MemoryStore, policy: &Policy, id: &ReservationId, now: Timestamp) -> bool {
    store.commit(id, &[0], policy, now).expect("well-formed").known
}

fn peek(store: &MemoryStore, policy: &Policy, key: &str, now: Timestamp) -> Decision {
    store.decide(Op::Peek, policy, &Key::new(key).expect("a key"), Cost::ONE, now)
}

#[test]
fn a_key_has_at_most_max_reservations() {
    let bounds = ReservationBounds::default().with_max_reservations(3).expect("in range");
    for limits in [["100/1h"].as_slice(), &["100/1h", "50/inflight"]] {
        let store = MemoryStore::default();
        let tokens = policy(limits).with_reservation_bounds(bounds);
        let ids = [30, 10, 20].map(|seconds| {
            let ttl = Duration::from_secs(seconds);
            reserve(&store, &tokens, "alice", 1, ttl, at(0)).id.expect("it fits")
        });
        let denied = |units| reserve(&store, &tokens, "alice", units, MINUTE, at(0)).decision;
        assert_eq!((denied(1).reason(), denied(1).retry_after()), (Reason::Limited, Some(Duration::from_secs(10))));
        // With a wait for units, too, it is the longer wait.
        let units = if limits.len() > 1 { 49 } else { 99 };
        assert_eq!(denied(units).retry_after(), Some(Duration::from_secs(20)), "{limits:?}");
        assert!(!denied(1).is_degraded());
        assert!(is_known(&store, &tokens, &ids[0], at(0)));
        assert!(denied(1).is_allowed());
    }
    // Leases count, too. Checks do not need a reservation.
    let (store, tokens) = (MemoryStore::default(), policy(&["100/1h"]).with_reservation_bounds(bounds));
    let alice = Key::new("alice").expect("a key");
    let lease = || store.lease(&tokens, &alice, &Lease::new(Cost::ONE, Duration::from_secs(5)), at(0));
    let granted = [(); 4].map(|()| lease().expect("well-formed").granted);
    assert_eq!(granted, [1, 1, 1, 0]);
    assert_eq!(reserve(&store, &tokens, "alice", 1, MINUTE, at(0)).decision.reason(), Reason::Limited);
    assert!(store.decide(Op::Check, &tokens, &alice, Cost::ONE, at(0)).is_allowed());
    let spends = [("alice", 1), ("bob", 1)].map(|(name, units)| (Key::new(name).expect("a key"), units));
    let spends =
        spends.each_ref().map(|(key, units)| Spend { policy: &tokens, key, cost: Cost::new(*units).expect("a cost") });
    let several = store.reserve_all(&spends, Hold::new(MINUTE), at(0)).expect("well-formed");
    assert_eq!((several.decisions.overall.reason(), several.id), (Reason::Limited, None));
    assert_eq!(peek(&store, &tokens, "bob", at(0)).used(), 0);
}

#[test]
fn a_flood_of_holds_over_many_keys_stays_within_max_bytes() {
    let max_bytes = 256 << 10;
    let floods: [(&str, &[&str], u64); 4] = [
        ("many keys with few holds", &["1000000/1h"], 1_000_000),
        ("few keys with many holds", &["1000000/1h"], 6),
        ("keys with several limits", &["1000000/1h", "1000000/inflight"], 2_000),
        ("limits on open holds", &["1000000/inflight"], 2_000),
    ];
    for (of, limits, keys) in floods {
        for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
            let store = build(MemoryStore::builder().max_bytes(max_bytes).at_capacity(at_capacity).shards(1));
            let tokens = policy(limits);
            let mut refused = 0;
            for n in 0..6_000_u64 {
                let reserved = reserve(&store, &tokens, &format!("key {}", n % keys), 1, HOUR, at(n));
                refused += u64::from(reserved.decision.is_degraded());
                if n % 64 == 0 {
                    assert!(store.stats().bytes <= max_bytes, "{of}, {at_capacity}: {:?} after {n}", store.stats());
                }
            }
            assert!(refused > 0, "{of}, {at_capacity}: the bound was never reached");
            assert!(store.stats().bytes > max_bytes / 2, "{of}, {at_capacity}: {:?}", store.stats());
        }
    }
}

#[test]
fn first_holds_of_known_keys_stay_within_max_bytes() {
    let max_bytes = 1 << 20;
    for several in [false, true] {
        let store = build(MemoryStore::builder().max_bytes(max_bytes).max_keys(100_000));
        let tokens = policy(&["1000000/1h"]);
        let keys: Vec<Key<'_>> = (0..10_000_u64).map(Key::from).collect();
        for key in &keys {
            assert!(store.decide(Op::Check, &tokens, key, Cost::ONE, at(0)).is_allowed());
        }
        let mut open = 0;
        for pair in keys.chunks(2) {
            let spends = [0, 1].map(|i| Spend { policy: &tokens, key: &pair[i], cost: Cost::ONE });
            let spends = &spends[..if several { 2 } else { 1 }];
            let reserved = store.reserve_all(spends, Hold::new(HOUR), at(1)).expect("well-formed");
            let overall = reserved.decisions.overall;
            if reserved.id.is_none() {
                assert_eq!((overall.reason(), overall.is_degraded()), (Reason::StoreUnavailable, true));
            }
            open += usize::from(reserved.id.is_some());
            assert!(store.stats().bytes <= max_bytes, "{:?} with {open} holds", store.stats());
        }
        assert!((200..4_000).contains(&open), "{open} holds");
    }
}

#[test]
fn a_hold_without_room_is_denied_and_never_admitted_unrecorded() {
    // A known key is never refused, but a hold that can't be recorded could not be settled.
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
        let store = build(MemoryStore::builder().max_bytes(256 << 10).at_capacity(at_capacity).shards(1));
        let jobs = policy(&["1000000/inflight"]);
        let mut ids = Vec::new();
        let denied = loop {
            let reserved = reserve(&store, &jobs, &format!("{}", ids.len() % 3), 1, HOUR, at(0));
            match reserved.id {
                Some(id) => ids.push(id),
                None => break reserved.decision,
            }
        };
        let is_unavailable = denied.reason() == Reason::StoreUnavailable && denied.is_degraded();
        assert!(is_unavailable || ids.len() == 3_000, "{at_capacity}: {denied:?}");
        assert!(ids.iter().all(|id| is_known(&store, &jobs, id, at(1))), "{at_capacity}");
        assert!(reserve(&store, &jobs, "0", 1, HOUR, at(1)).id.is_some());
    }
}

#[test]
fn eviction_never_drops_an_open_hold() {
    for limits in [["10/1s"].as_slice(), &["3/inflight"], &["10/1s", "3/inflight"]] {
        let store = build(MemoryStore::builder().max_keys(1_000).shards(1));
        let jobs = policy(limits);
        let hold = |n| [1, 2].map(|_| reserve(&store, &jobs, &format!("holder {n}"), 1, HOUR, at(0)).id.expect("room"));
        let ids: Vec<_> = (0..900).flat_map(hold).collect();
        // Every window has passed long ago, and more keys arrive than there is room for.
        let late = after(HOUR / 2);
        for n in 0..10_000 {
            let _ = reserve(&store, &jobs, &format!("new {n}"), 1, Duration::from_millis(1), late);
        }
        let end = after(HOUR - Duration::from_micros(1));
        assert!(ids.iter().all(|id| is_known(&store, &jobs, id, end)), "{limits:?}");
    }
}

#[test]
fn eviction_never_forgets_the_debt_of_a_lease() {
    let store = build(MemoryStore::builder().max_keys(1_000).shards(1));
    let burst = Algorithm::Gcra(Some(Burst::new(1_000).expect("a burst")));
    let tokens = policy(&["1/1s"]).with_algorithm(burst);
    let units = Cost::new(500).expect("a cost");
    let lease = Lease::new(units, Duration::from_secs(10)).least(units);
    let keys: Vec<Key<'_>> = (0..900_u64).map(Key::from).collect();
    for key in &keys {
        // An earlier debt of 100 s drains first.
        let _ = store.decide(Op::Check, &tokens, key, Cost::new(100).expect("a cost"), at(0));
        assert_eq!(store.lease(&tokens, key, &lease, at(0)).expect("well-formed").granted, 500);
    }
    // Every window has passed long ago, and more keys arrive than there is room for.
    let late = after(Duration::from_secs(599));
    for n in 10_000..20_000_u64 {
        let _ = store.decide(Op::Check, &tokens, &Key::from(n), Cost::ONE, late);
    }
    let forgotten = keys.iter().filter(|key| store.decide(Op::Peek, &tokens, key, Cost::ONE, late).used() == 0);
    assert_eq!(forgotten.count(), 0);
    // Later the debt has drained, and the keys make room for others.
    let end = after(Duration::from_secs(700));
    for n in 20_000..30_000_u64 {
        let _ = store.decide(Op::Check, &tokens, &Key::from(n), Cost::ONE, end.after(Duration::from_micros(n)));
    }
    assert!(store.stats().evicted > 800, "{:?}", store.stats());
}

#[test]
fn keys_whose_holds_have_ended_are_evicted() {
    for limits in [["10/1s"].as_slice(), &["3/inflight"], &["10/1s", "3/inflight"]] {
        let store = build(MemoryStore::builder().max_keys(1_000).shards(1));
        let jobs = policy(limits);
        for n in 0..50_000_u64 {
            let ttl = Duration::from_millis(1);
            let reserved = reserve(&store, &jobs, &format!("{n}"), 1, ttl, at(n * 10_000));
            assert!(!reserved.decision.is_degraded(), "{limits:?}: no room for key {n}");
        }
        assert!(store.stats().evicted > 40_000, "{:?}", store.stats());
    }
}

#[test]
fn expired_states_are_evicted_before_a_hold_is_refused() {
    let store = build(MemoryStore::builder().max_bytes(512 << 10).shards(1));
    let jobs = policy(&["1000000/inflight"]);
    let _ = reserve(&store, &jobs, "known", 1, HOUR, at(0));
    let mut n = 0;
    while !reserve(&store, &jobs, &format!("{n}"), 1, MINUTE, at(0)).decision.is_degraded() {
        n += 1;
    }
    // All other holds have ended. Only requests for the known key arrive.
    let later = after(HOUR - MINUTE);
    let mut admitted = 0;
    for n in 0..1_000 {
        admitted +=
            usize::from(reserve(&store, &jobs, "known", 1, MINUTE, later.after(Duration::from_micros(n))).id.is_some());
    }
    assert!(admitted > 900, "{admitted}");
}

#[test]
fn at_capacity_shared_counts_the_holds_of_a_key_without_room() {
    let store = store(1, AtCapacity::Shared);
    let jobs = policy(&["4/inflight"]);
    let first = reserve(&store, &jobs, "first", 1, HOUR, at(0));
    assert!(!first.decision.is_degraded());
    let open = [(); 5].map(|()| reserve(&store, &jobs, "second", 1, MINUTE, at(0)));
    assert!(open.iter().all(|reserved| reserved.decision.is_degraded()));
    assert_eq!(open.each_ref().map(|reserved| reserved.id.is_some()), [true, true, true, true, false]);
    assert_eq!(open[4].decision.reason(), Reason::Limited);
    let ids: Vec<_> = open.into_iter().filter_map(|reserved| reserved.id).collect();
    assert!(is_known(&store, &jobs, &ids[0], at(1)));
    assert!(reserve(&store, &jobs, "second", 1, MINUTE, at(1)).id.is_some());
    assert!(store.renew(&ids[1], HOUR, &jobs, at(1)).expect("well-formed").known);
    // The others end by themselves.
    assert_eq!(peek(&store, &jobs, "second", after(2 * MINUTE)).used(), 1);
    assert!(is_known(&store, &jobs, &ids[1], after(2 * MINUTE)));
    assert_eq!(peek(&store, &jobs, "second", after(2 * MINUTE)).used(), 0);
}

#[test]
fn a_key_that_shared_never_has_more_open_holds_than_its_limit() {
    let store = store(1, AtCapacity::Shared);
    let jobs = policy(&["4/inflight"]);
    let _ = reserve(&store, &jobs, "first", 1, HOUR, at(0));
    let shared: Vec<_> = (1..=4)
        .map(|n| reserve(&store, &jobs, "second", 1, n * MINUTE, at(0)).id.expect("its share has room"))
        .collect();
    // Now there is room for a state of its own. Its open holds still count, also when some of them have ended.
    assert!(store.reset(&jobs, &Key::new("first").expect("a key")));
    assert_eq!(reserve(&store, &jobs, "second", 1, MINUTE, at(1)).decision.reason(), Reason::Limited);
    let later = after(2 * MINUTE);
    let admitted = (0..10).filter(|_| reserve(&store, &jobs, "second", 1, MINUTE, later).id.is_some()).count();
    assert_eq!(admitted, 2, "two of the first four have ended");
    assert!(is_known(&store, &jobs, &shared[3], later));
    let admitted = (0..10).filter(|_| reserve(&store, &jobs, "second", 1, MINUTE, later).id.is_some()).count();
    assert_eq!(admitted, 1);
    // When all holds of the shared state have ended, the key gets its own state.
    let end = after(HOUR);
    let _ = reserve(&store, &jobs, "second", 1, MINUTE, end);
    let own = reserve(&store, &jobs, "second", 1, MINUTE, end.after(2 * MINUTE));
    assert!(!own.decision.is_degraded() && own.id.is_some(), "{own:?}");
}

#[test]
fn leased_units_of_a_key_that_shared_count_until_the_window_after_their_end() {
    let store = store(1, AtCapacity::Shared);
    let tokens = policy(&["10/10s"]);
    let (first, second) = (Key::new("first").expect("a key"), Key::new("second").expect("a key"));
    let _ = store.decide(Op::Check, &tokens, &first, Cost::ONE, at(0));
    let lease =
        Lease::new(Cost::new(10).expect("a cost"), Duration::from_secs(8)).least(Cost::new(10).expect("a cost"));
    let leased = store.lease(&tokens, &second, &lease, at(0)).expect("well-formed");
    assert!(leased.granted == 10 && leased.id.is_some());
    assert!(store.reset(&tokens, &first));
    for micros in [1, 7_999_999, 8_000_000, 10_000_001, 17_999_999] {
        let decision = store.decide(Op::Check, &tokens, &second, Cost::ONE, at(micros));
        assert_eq!(decision.reason(), Reason::Limited, "at {micros} us");
    }
    assert!(store.decide(Op::Check, &tokens, &second, Cost::ONE, at(18_000_000)).is_allowed());
}

#[test]
fn at_capacity_deny_denies_a_hold_of_a_new_key() {
    let store = store(1, AtCapacity::Deny);
    let jobs = policy(&["4/inflight"]);
    let first = reserve(&store, &jobs, "first", 1, HOUR, at(0)).id.expect("room");
    let denied = reserve(&store, &jobs, "second", 1, HOUR, at(0));
    assert_eq!((denied.decision.reason(), denied.id), (Reason::StoreUnavailable, None));
    assert!(denied.decision.is_degraded());
    assert!(is_known(&store, &jobs, &first, at(1)), "known keys are not affected");
}

#[test]
fn at_capacity_admit_admits_a_hold_of_a_new_key_with_an_id_that_is_never_known() {
    let store = store(1, AtCapacity::Admit);
    let jobs = policy(&["4/inflight"]);
    let _ = reserve(&store, &jobs, "first", 1, HOUR, at(0));
    for _ in 0..10 {
        let admitted = reserve(&store, &jobs, "second", 1, HOUR, at(0));
        assert!(admitted.decision.is_allowed() && admitted.decision.is_degraded());
        assert!(!is_known(&store, &jobs, &admitted.id.expect("an admitted request has an id"), at(0)));
    }
}

#[test]
fn several_keys_that_share_one_state_have_at_most_max_reservations() {
    let bounds = ReservationBounds::default().with_max_reservations(2).expect("in range");
    let store = store(1, AtCapacity::Shared);
    let jobs = policy(&["100/inflight"]).with_reservation_bounds(bounds);
    let _ = reserve(&store, &jobs, "first", 1, HOUR, at(0));
    let keys: Vec<Key<'_>> = (0..64_u64).map(Key::from).collect();
    for key in &keys {
        for _ in 0..3 {
            let _ = store.reserve(&jobs, key, Cost::ONE, Hold::new(HOUR), at(0)).expect("well-formed");
        }
    }
    // Requests of one decision that use the same full state are denied, too.
    for pair in keys.chunks(8) {
        let spends: Vec<_> = pair.iter().map(|key| Spend { policy: &jobs, key, cost: Cost::ONE }).collect();
        let reserved = store.reserve_all(&spends, Hold::new(HOUR), at(0)).expect("well-formed");
        assert_eq!((reserved.decisions.overall.reason(), reserved.id), (Reason::Limited, None));
    }
}
