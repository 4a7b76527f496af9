//! The promises of holds and leases, and the answers to malformed operations on them.

use std::{collections::HashSet, thread, time::Duration};

use tidegate::{
    Cost, Hold, Key, Lease, Limiter, ManualClock, Mode, Op, Override, Policy, Reason, ReservationBounds,
    ReservationError, ReservationId, Reserved, Spend, SpendError, Store, StoreError, Timestamp, now_or_never,
};

const START: u64 = 1_745_000_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);
const MICROSECOND: Duration = Duration::from_micros(1);
const ALGORITHMS: [&str; 6] =
    ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra", "gcra:200"];

fn limiter() -> (Limiter, ManualClock) {
    let time = ManualClock::at(Timestamp::from_micros(START));
    (Limiter::default().with_clock(time.clock()), time)
}

fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

fn key(text: &str) -> Key<'_> {
    Key::new(text).expect("a key")
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("a cost")
}

fn reserve(limiter: &Limiter, policy: &Policy, units: u64, ttl: Duration) -> Reserved {
    limiter.reserve(policy, &key("alice"), cost(units), Hold::new(ttl)).expect("well-formed")
}

/// The id of a hold that fits.
fn hold(limiter: &Limiter, policy: &Policy, units: u64, ttl: Duration) -> ReservationId {
    reserve(limiter, policy, units, ttl).id.expect("it fits")
}

fn used(limiter: &Limiter, policy: &Policy) -> u64 {
    limiter.peek(policy, &key("alice"), Cost::ONE).used()
}

#[test]
fn a_hold_is_settled_once_whatever_is_repeated() {
    for algorithm in ALGORITHMS {
        let (limiter, time) = limiter();
        let tokens = policy("tokens", &["200/1h"]).with_algorithm(algorithm.parse().expect("an algorithm"));
        let id = hold(&limiter, &tokens, 100, MINUTE);
        time.advance(Duration::from_secs(10));
        let first = limiter.commit(&id, &[30], &tokens).expect("well-formed");
        assert!(first.known);
        let in_use = used(&limiter, &tokens);
        assert!(in_use == 30 || algorithm.starts_with("gcra"), "{algorithm}: {in_use} units after a commit of 30");
        let repeated = || {
            let settled = [
                limiter.commit(&id, &[30], &tokens),
                limiter.commit(&id, &[150], &tokens),
                limiter.release(&id, &tokens),
                limiter.renew(&id, MINUTE, &tokens),
                limiter.settle(&id, 0, &tokens),
            ];
            for settled in settled {
                let settled = settled.expect("well-formed");
                assert_eq!((settled.known, settled.decision.used()), (false, in_use), "{algorithm}");
            }
        };
        repeated();
        // Nor is it settled again when its end passes.
        time.advance(Duration::from_secs(50));
        let in_use_then = used(&limiter, &tokens);
        assert!(in_use_then == in_use || algorithm.starts_with("gcra"), "{algorithm}: {in_use_then}");
        for settled in [limiter.commit(&id, &[30], &tokens), limiter.release(&id, &tokens)] {
            assert!(!settled.expect("well-formed").known);
        }
        assert_eq!(used(&limiter, &tokens), in_use_then, "{algorithm}");
    }
}

#[test]
fn units_that_are_never_settled_come_back_at_the_holds_end() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window"] {
        let (limiter, time) = limiter();
        let tokens = policy("tokens", &["100/1h"]).with_algorithm(algorithm.parse().expect("an algorithm"));
        assert!(limiter.check(&tokens, &key("alice"), cost(40)).is_allowed());
        let _ = hold(&limiter, &tokens, 60, MINUTE);
        let denied = reserve(&limiter, &tokens, 1, MINUTE);
        assert_eq!((denied.id, denied.decision.retry_after()), (None, Some(MINUTE)), "{algorithm}");
        time.advance(MINUTE - MICROSECOND);
        assert_eq!(used(&limiter, &tokens), 100, "{algorithm}");
        time.advance(MICROSECOND);
        assert_eq!(used(&limiter, &tokens), 40, "{algorithm}");
        assert!(limiter.check(&tokens, &key("alice"), cost(60)).is_allowed(), "{algorithm}");
    }
}

#[test]
fn units_of_a_hold_that_is_spent_at_its_end_stay_spent() {
    let (limiter, time) = limiter();
    let tokens = policy("tokens", &["100/1h"]);
    let hold = Hold::new(MINUTE).spent_at_end();
    let id = limiter.reserve(&tokens, &key("alice"), cost(60), hold).expect("well-formed").id.expect("it fits");
    time.advance(MINUTE);
    assert!(!limiter.release(&id, &tokens).expect("well-formed").known);
    assert_eq!(used(&limiter, &tokens), 60);
    time.advance(59 * MINUTE - MICROSECOND);
    assert_eq!(used(&limiter, &tokens), 60);
    time.advance(MICROSECOND);
    assert_eq!(used(&limiter, &tokens), 0, "they were charged at the grant");
}

#[test]
fn ids_cannot_be_guessed_and_cannot_be_used_for_another_key() {
    let (limiter, _) = limiter();
    let (tokens, other) = (policy("tokens", &["100/1h"]), policy("other", &["100/1h"]));
    let ids: HashSet<String> = (0..1_000)
        .map(|n| {
            let name = format!("user {}", n % 2);
            let reserved = limiter.reserve(&tokens, &key(&name), Cost::ONE, Hold::new(MINUTE)).expect("well-formed");
            limiter.reset(&tokens, &key(&name));
            reserved.id.expect("it fits").to_string()
        })
        .collect();
    assert_eq!(ids.len(), 1_000);
    // No character after the name of the policy is the same in all ids of a key: nothing of the key shows.
    let random: Vec<&str> = ids.iter().map(|id| id.rsplit_once('.').expect("a dot").1).collect();
    for place in 0..random[0].len() - 1 {
        let characters: HashSet<u8> = random.iter().map(|id| id.as_bytes()[place]).collect();
        assert!(characters.len() > 2, "character {place} is always one of {characters:?}");
    }

    let alice = hold(&limiter, &tokens, 30, MINUTE);
    let bob = limiter.reserve(&tokens, &key("bob"), cost(30), Hold::new(MINUTE)).expect("well-formed");
    let bob = bob.id.expect("it fits");
    // The random number of one id with the place of another, another policy, and each bit changed.
    let mixed = ReservationId::new(&tokens, alice.nonce(), &bob.place()).expect("an id");
    let elsewhere = ReservationId::new(&other, alice.nonce(), &alice.place()).expect("an id");
    let mut forged = vec![mixed, elsewhere];
    for bit in 0..128 {
        let mut nonce = alice.nonce();
        nonce[bit / 8] ^= 1 << (bit % 8);
        forged.push(ReservationId::new(&tokens, nonce, &alice.place()).expect("an id"));
        let mut place = alice.place().to_vec();
        place[bit / 8] ^= 1 << (bit % 8);
        forged.push(ReservationId::new(&tokens, alice.nonce(), &place).expect("an id"));
    }
    for id in &forged {
        let policies = vec![tokens.clone(), other.clone()];
        assert!(!limiter.commit(id, &[100], &policies).expect("well-formed").known, "{id}");
        assert!(!limiter.renew(id, MINUTE, &policies).expect("well-formed").known, "{id}");
    }
    assert_eq!((used(&limiter, &tokens), limiter.peek(&tokens, &key("bob"), Cost::ONE).used()), (30, 30));
    assert!(limiter.release(&alice, &tokens).expect("well-formed").known);
}

#[test]
fn a_key_can_have_a_thousand_open_holds_that_all_end_at_once() {
    for limits in [["100000/1h"].as_slice(), &["100000/1h", "100000/inflight"], &["100000/inflight"]] {
        let (limiter, time) = limiter();
        let tokens = policy("tokens", limits);
        for _ in 0..1_000 {
            let _ = hold(&limiter, &tokens, 7, MINUTE);
        }
        let one_more = reserve(&limiter, &tokens, 1, MINUTE);
        assert_eq!((one_more.decision.reason(), one_more.id), (Reason::Limited, None));
        assert_eq!(one_more.decision.retry_after(), Some(MINUTE), "{limits:?}");
        let open = limiter.inspect(&tokens, &key("alice")).expect("a state").reservations;
        assert_eq!((open.len(), open.iter().map(|open| open.units).sum::<u64>()), (1_000, 7_000));
        time.advance(MINUTE - MICROSECOND);
        assert_eq!(used(&limiter, &tokens), 7_000, "{limits:?}");
        time.advance(MICROSECOND);
        assert_eq!(used(&limiter, &tokens), 0, "{limits:?}");
        let _ = hold(&limiter, &tokens, 100_000, MINUTE);
    }
}

/// A model call reserves at most 20 tokens, and reports how many it used only at its end
/// (<https://github.com/BerriAI/litellm/issues/18730>).
#[test]
fn fifty_calls_at_once_never_use_more_tokens_than_the_limit() {
    for round in 0..20 {
        let limiter = Limiter::default();
        let tokens = policy("tokens", &["100/1h"]);
        let used_by_calls: u64 = thread::scope(|scope| {
            let call = |n: u64| {
                let (limiter, tokens) = (&limiter, &tokens);
                scope.spawn(move || {
                    let id = reserve(limiter, tokens, 20, MINUTE).id?;
                    let actual = (n * 7 + round) % 21;
                    assert!(limiter.commit(&id, &[actual], tokens).expect("well-formed").known);
                    Some(actual)
                })
            };
            let calls: Vec<_> = (0..50).map(call).collect();
            calls.into_iter().filter_map(|call| call.join().expect("no panic")).sum()
        });
        assert!(used_by_calls <= 100, "{used_by_calls} tokens");
        assert_eq!(used(&limiter, &tokens), used_by_calls);
    }
    // While no call has ended, only five of them fit.
    let limiter = Limiter::default();
    let tokens = policy("tokens", &["100/1h"]);
    let admitted = (0..50).filter(|_| reserve(&limiter, &tokens, 20, MINUTE).id.is_some()).count();
    assert_eq!(admitted, 5);
}

#[test]
fn more_than_the_reserved_units_are_charged_past_the_limit() {
    let (limiter, time) = limiter();
    let tokens = policy("tokens", &["100/1h"]);
    let id = hold(&limiter, &tokens, 90, MINUTE);
    time.advance(Duration::from_secs(30));
    let settled = limiter.commit(&id, &[250], &tokens).expect("well-formed");
    assert_eq!((settled.decision.used(), settled.decision.remaining()), (250, 0));
    // The first 90 were charged at the grant, and 160 at the commit.
    time.advance(Duration::from_secs(3570));
    assert_eq!(used(&limiter, &tokens), 160);
}

#[test]
fn a_shadow_policy_admits_and_the_id_of_what_it_would_deny_is_never_known() {
    let (limiter, _) = limiter();
    let jobs = policy("jobs", &["1/inflight"]).with_mode(Mode::Shadow);
    let first = hold(&limiter, &jobs, 1, MINUTE);
    let second = reserve(&limiter, &jobs, 1, MINUTE);
    assert_eq!(second.decision.reason(), Reason::Shadow);
    let second = second.id.expect("it is admitted");
    assert!(!limiter.release(&second, &jobs).expect("well-formed").known);
    assert!(limiter.release(&first, &jobs).expect("well-formed").known);
}

#[test]
fn several_requests_are_one_hold_or_none() {
    let (limiter, time) = limiter();
    let (tokens, jobs) = (policy("tokens", &["100/1h"]), policy("jobs", &["2/inflight"]));
    let policies = vec![tokens.clone(), jobs.clone()];
    let (alice, acme) = (key("alice"), key("acme"));
    let spend = |policy, key, units| Spend { policy, key, cost: cost(units) };
    // The same policy and key twice is one request of 30 units.
    let spends = [spend(&tokens, &alice, 10), spend(&jobs, &acme, 1), spend(&tokens, &alice, 20)];
    let reserve = || limiter.reserve_all(&spends, Hold::new(MINUTE)).expect("well-formed");
    let in_use = || (used(&limiter, &tokens), limiter.peek(&jobs, &acme, Cost::ONE).used());
    let (first, second) = (reserve().id.expect("it fits"), reserve().id.expect("it fits"));
    assert_eq!(in_use(), (60, 2));
    let denied = reserve();
    assert_eq!((denied.id, denied.decisions.overall.reason(), in_use()), (None, Reason::Limited, (60, 2)));

    assert!(limiter.commit(&first, &[1, 0, 2], &policies).expect("well-formed").known);
    assert_eq!(in_use(), (33, 1));
    assert!(!limiter.commit(&first, &[1, 0, 2], &policies).expect("well-formed").known);
    time.advance(MINUTE - MICROSECOND);
    assert!(limiter.renew(&second, MINUTE, &policies).expect("well-formed").known);
    time.advance(MINUTE - MICROSECOND);
    assert_eq!(in_use(), (33, 1));
    time.advance(MICROSECOND);
    assert_eq!(in_use(), (3, 0));
    let third = reserve().id.expect("it fits");
    assert!(limiter.release(&third, &policies).expect("well-formed").known);
    assert_eq!(in_use(), (3, 0));

    let fourth = reserve().id.expect("it fits");
    let wrong = limiter.commit(&fourth, &[1, 2], &policies);
    assert_eq!(wrong, Err(ReservationError::Amounts { given: 2, parts: 3 }));
    assert_eq!(in_use(), (33, 1), "a malformed commit changes nothing");
}

#[test]
fn a_policy_that_is_gone_does_not_keep_the_other_requests_of_a_hold_open() {
    let (limiter, time) = limiter();
    let (tokens, jobs) = (policy("tokens", &["100/1h"]), policy("jobs", &["2/inflight"]));
    let (alice, acme) = (key("alice"), key("acme"));
    let spends =
        [Spend { policy: &tokens, key: &alice, cost: cost(30) }, Spend { policy: &jobs, key: &acme, cost: Cost::ONE }];
    let id = limiter.reserve_all(&spends, Hold::new(MINUTE)).expect("well-formed").id.expect("it fits");
    let in_use = || (used(&limiter, &tokens), limiter.peek(&jobs, &acme, Cost::ONE).used());
    assert_eq!(
        limiter.commit(&id, &[1, 2, 3], &tokens),
        Err(ReservationError::Amounts { given: 3, parts: 2 }),
        "the request of the policy that is gone counts"
    );
    assert!(limiter.commit(&id, &[10, 0], &tokens).expect("well-formed").known);
    assert_eq!(in_use(), (10, 1));
    assert!(!limiter.commit(&id, &[10, 0], &tokens).is_ok_and(|settled| settled.known));
    // The request of the policy that is gone ends by itself.
    time.advance(MINUTE);
    assert_eq!(in_use(), (10, 0));
}

#[test]
fn a_ttl_out_of_range_is_malformed() {
    let (limiter, _) = limiter();
    let jobs = policy("jobs", &["4/inflight"]);
    let hour = Duration::from_secs(3600);
    let id = hold(&limiter, &jobs, 1, hour);
    for ttl in [Duration::ZERO, Duration::from_micros(999), hour + MICROSECOND, Duration::MAX] {
        let error = Err(ReservationError::Ttl { max: hour });
        assert_eq!(limiter.reserve(&jobs, &key("alice"), Cost::ONE, Hold::new(ttl)).map(|_| ()), error, "{ttl:?}");
        assert_eq!(limiter.renew(&id, ttl, &jobs).map(|_| ()), error, "{ttl:?}");
        let spend = Spend { policy: &jobs, key: &key("alice"), cost: Cost::ONE };
        assert_eq!(limiter.reserve_all(&[spend], Hold::new(ttl)).map(|_| ()), error, "{ttl:?}");
    }
    let error = ReservationError::Ttl { max: hour }.to_string();
    assert_eq!(error, "the ttl is out of range: use 1ms to 1h");
    let bounds = ReservationBounds::default().with_max_hold(Duration::from_secs(10)).expect("in range");
    let short = policy("short", &["4/inflight"]).with_reservation_bounds(bounds);
    let _ = hold(&limiter, &short, 1, Duration::from_secs(10));
    let too_long = Hold::new(Duration::from_secs(10) + MICROSECOND);
    assert!(limiter.reserve(&short, &key("alice"), Cost::ONE, too_long).is_err());
    // Each policy of a hold bounds its ttl.
    let (alice, both) = (key("alice"), vec![jobs.clone(), short.clone()]);
    let spends = [&jobs, &short].map(|policy| Spend { policy, key: &alice, cost: Cost::ONE });
    let id = limiter.reserve_all(&spends, Hold::new(Duration::from_secs(10))).expect("well-formed").id;
    assert!(limiter.renew(&id.expect("it fits"), MINUTE, &both).is_err());

    let tokens = policy("tokens", &["100/1h"]);
    for ttl in [Duration::from_micros(999), Duration::from_secs(10) + MICROSECOND] {
        let leased = limiter.lease(&tokens, &key("alice"), &Lease::new(Cost::ONE, ttl));
        assert_eq!(leased.map(|_| ()), Err(ReservationError::Ttl { max: Duration::from_secs(10) }));
    }
}

#[test]
fn bounds_of_reservations_out_of_range_are_errors() {
    let bounds = ReservationBounds::default();
    let day = Duration::from_secs(86_400);
    assert!(bounds.with_max_hold(day).is_ok() && bounds.with_max_hold(day + MICROSECOND).is_err());
    assert!(bounds.with_max_lease(MINUTE).is_ok() && bounds.with_max_lease(MINUTE + MICROSECOND).is_err());
    assert!(bounds.with_max_hold(Duration::from_micros(999)).is_err());
    assert!(bounds.with_max_reservations(10_000).is_ok() && bounds.with_max_reservations(1).is_ok());
    for max in [0, 10_001] {
        assert_eq!(bounds.with_max_reservations(max), Err(ReservationError::MaxReservations { max }));
    }
}

#[test]
fn an_unknown_or_foreign_id_changes_nothing() {
    let (limiter, _) = limiter();
    let tokens = policy("tokens", &["100/1h"]);
    let (foreign, _) = self::limiter();
    let id = hold(&foreign, &tokens, 10, MINUTE);
    let _ = hold(&limiter, &tokens, 10, MINUTE);
    for settled in
        [limiter.commit(&id, &[90], &tokens), limiter.renew(&id, MINUTE, &tokens), limiter.settle(&id, 5, &tokens)]
    {
        assert!(!settled.expect("well-formed").known);
    }
    assert_eq!(used(&limiter, &tokens), 10);
    assert_eq!(limiter.store().stats().keys, 1, "an unknown id stores nothing");
    let other_kind = ReservationId::new(&tokens, id.nonce(), &[1, 2, 3]).expect("an id");
    assert_eq!(limiter.commit(&other_kind, &[1], &tokens), Err(ReservationError::Foreign));
    assert_eq!("n.".parse::<ReservationId>(), Err(ReservationError::Id));
}

#[test]
fn a_commit_of_a_lease_and_a_settle_of_a_hold_change_nothing() {
    let (limiter, _) = limiter();
    let tokens = policy("tokens", &["100/1h"]);
    let lease = limiter.lease(&tokens, &key("alice"), &Lease::new(cost(10), Duration::from_secs(5)));
    let lease = lease.expect("well-formed").id.expect("it fits");
    let hold = hold(&limiter, &tokens, 10, MINUTE);
    for settled in [
        limiter.commit(&lease, &[0], &tokens),
        limiter.release(&lease, &tokens),
        limiter.renew(&lease, MINUTE, &tokens),
        limiter.settle(&hold, 0, &tokens),
    ] {
        let settled = settled.expect("well-formed");
        assert_eq!((settled.known, settled.decision.used()), (false, 20));
    }
    assert!(limiter.settle(&lease, 3, &tokens).expect("well-formed").known);
    assert!(limiter.commit(&hold, &[4], &tokens).expect("well-formed").known);
    assert_eq!(used(&limiter, &tokens), 7);
}

#[test]
fn a_check_under_an_in_flight_limit_says_to_reserve_instead() {
    let (limiter, _) = limiter();
    let (jobs, other) = (policy("jobs", &["60/1m", "4/inflight"]), policy("other", &["1/1h"]));
    let expected = "the policy has the limit `4/inflight`, which counts open holds: reserve instead";
    for op in [Op::Check, Op::Charge] {
        let answer = now_or_never(Store::decide(&limiter, op, &jobs, &key("alice"), Cost::ONE)).expect("immediate");
        let error = answer.expect_err("it is malformed");
        assert_eq!(error, StoreError::Reservation(ReservationError::InFlight { max: 4 }));
        assert_eq!(error.to_string(), expected);
        let alice = key("alice");
        let spends = [&other, &jobs].map(|policy| Spend { policy, key: &alice, cost: Cost::ONE });
        let answer = limiter.store().decide_all(op, &spends, limiter.clock().now());
        assert_eq!(answer.expect_err("it is malformed"), SpendError::InFlight { part: 1, max: 4 });
    }
    assert_eq!(limiter.check(&jobs, &key("alice"), Cost::ONE).reason(), Reason::Impossible);
    assert_eq!(limiter.charge(&jobs, &key("alice"), Cost::ONE).reason(), Reason::Impossible);
    let leased = limiter.lease(&jobs, &key("alice"), &Lease::new(Cost::ONE, Duration::from_secs(1)));
    assert_eq!(leased.map(|_| ()), Err(ReservationError::InFlight { max: 4 }));
    assert!(limiter.peek(&jobs, &key("alice"), cost(4)).is_allowed(), "a peek answers as a reserve would");
    assert_eq!(limiter.peek(&jobs, &key("alice"), cost(5)).reason(), Reason::Impossible);
    assert_eq!(limiter.store().stats().keys, 0);
}

#[test]
fn more_requests_than_one_decision_may_have_are_malformed() {
    let (limiter, _) = limiter();
    let (jobs, alice) = (policy("jobs", &["100/inflight"]), key("alice"));
    let spends = [Spend { policy: &jobs, key: &alice, cost: Cost::ONE }; 65];
    let reserve = |count: usize| limiter.reserve_all(&spends[..count], Hold::new(MINUTE));
    assert_eq!(reserve(65), Err(ReservationError::Spend(SpendError::Parts { parts: 65 })));
    assert_eq!(reserve(0), Err(ReservationError::Spend(SpendError::Parts { parts: 0 })));
    let id = reserve(64).expect("well-formed").id.expect("it fits");
    assert_eq!(used(&limiter, &jobs), 64);
    assert!(limiter.release(&id, &jobs).expect("well-formed").known);
    assert_eq!(used(&limiter, &jobs), 0);
}

#[test]
fn an_id_of_a_policy_that_is_gone_ends_by_itself() {
    let (limiter, time) = limiter();
    let (tokens, other) = (policy("tokens", &["100/1h"]), policy("other", &["100/1h"]));
    let id = hold(&limiter, &tokens, 30, MINUTE);
    let gone = ReservationError::PolicyGone { name: "tokens".into() };
    assert_eq!(limiter.commit(&id, &[1], &other), Err(gone.clone()));
    assert_eq!(limiter.renew(&id, MINUTE, &other), Err(gone.clone()));
    assert_eq!(limiter.settle(&id, 0, &other), Err(gone));
    time.advance(MINUTE);
    assert_eq!(used(&limiter, &tokens), 0);
}

#[test]
fn a_policy_that_is_gone_does_not_keep_the_other_requests_open() {
    let all = ["first", "second", "third"].map(|name| policy(name, &["10/1h"]));
    let alice = key("alice");
    // The id names the policy of the first request.
    for gone in 0..3 {
        let (limiter, _) = limiter();
        let spends: Vec<_> = all.iter().map(|policy| Spend { policy, key: &alice, cost: cost(5) }).collect();
        let id = limiter.reserve_all(&spends, Hold::new(MINUTE)).expect("well-formed").id.expect("it fits");
        let mut policies = all.to_vec();
        policies.remove(gone);
        assert!(limiter.renew(&id, 2 * MINUTE, &policies).expect("well-formed").known);
        let wrong = limiter.commit(&id, &[1, 2], &policies);
        assert_eq!(wrong, Err(ReservationError::Amounts { given: 2, parts: 3 }));
        assert!(limiter.commit(&id, &[1, 2, 3], &policies).expect("well-formed").known);
        let mut expected = [1, 2, 3];
        expected[gone] = 5;
        assert_eq!(all.each_ref().map(|policy| used(&limiter, policy)), expected, "request {gone} ends by itself");
        let none = limiter.commit(&id, &[0], &Vec::new());
        assert!(matches!(none, Err(ReservationError::PolicyGone { .. })), "{none:?}");
    }
}

#[test]
fn an_id_works_after_its_policy_has_changed_its_limits() {
    for changed in [["50/1h"].as_slice(), &["100/1d"], &["5/1h", "70/1d"], &["30/inflight"], &["100/1h", "1/inflight"]]
    {
        let (limiter, _) = limiter();
        let id = hold(&limiter, &policy("tokens", &["100/1h"]), 30, MINUTE);
        let changed = policy("tokens", changed);
        let settled = limiter.commit(&id, &[10], &changed).expect("well-formed");
        assert!(settled.known, "{changed:?}");
        let inspection = limiter.inspect(&changed, &key("alice")).expect("a state");
        for in_use in inspection.limits {
            assert_eq!(in_use.used, if in_use.limit.is_in_flight() { 0 } else { 10 }, "{}", in_use.limit);
        }
        assert!(inspection.reservations.is_empty());
    }
}

#[test]
fn amounts_out_of_range_are_malformed_and_change_nothing() {
    let (limiter, _) = limiter();
    let tokens = policy("tokens", &["100/1h"]);
    let id = hold(&limiter, &tokens, 30, MINUTE);
    let units = 1_000_000_000_001;
    assert_eq!(limiter.commit(&id, &[units], &tokens), Err(ReservationError::Amount { units }));
    assert_eq!(limiter.commit(&id, &[], &tokens), Err(ReservationError::Amounts { given: 0, parts: 1 }));
    assert_eq!(limiter.commit(&id, &[1, 2], &tokens), Err(ReservationError::Amounts { given: 2, parts: 1 }));
    let lease = |least| Lease::new(cost(10), Duration::from_secs(5)).least(cost(least));
    let leased = limiter.lease(&tokens, &key("alice"), &lease(11));
    assert_eq!(leased.map(|_| ()), Err(ReservationError::Least { asked: 10, least: 11 }));
    for least_ttl in [Duration::from_micros(999), Duration::from_millis(5_001)] {
        let leased = limiter.lease(&tokens, &key("alice"), &lease(10).least_ttl(least_ttl));
        assert_eq!(leased.map(|_| ()), Err(ReservationError::LeastTtl { ttl: Duration::from_secs(5) }));
    }
    let granted = limiter.lease(&tokens, &key("alice"), &lease(10)).expect("well-formed").id.expect("it fits");
    let spent = limiter.settle(&granted, 11, &tokens);
    assert_eq!(spent, Err(ReservationError::SpentTooMuch { spent: 11, units: 10 }));
    assert_eq!(used(&limiter, &tokens), 40);
    let settling = |id: &ReservationId, key: &Key<'_>| limiter.lease(&tokens, key, &lease(1).settling(id.clone(), 3));
    assert_eq!(settling(&granted, &key("bob")).map(|_| ()), Err(ReservationError::OtherKey));
    assert_eq!(settling(&granted, &key("alice")).expect("well-formed").settled, Some(true));
    assert_eq!(settling(&granted, &key("alice")).expect("well-formed").settled, Some(false));
    let of_other_store =
        Limiter::default().lease(&tokens, &key("alice"), &lease(1)).expect("well-formed").id.expect("it fits");
    assert_eq!(settling(&of_other_store, &key("alice")).expect("well-formed").settled, Some(false));
    let never_granted = ReservationId::never_granted(&tokens, [7; 16]);
    assert_eq!(settling(&never_granted, &key("alice")).expect("well-formed").settled, Some(false));
    assert!(!limiter.commit(&never_granted, &[1], &tokens).expect("well-formed").known);
}

#[test]
fn the_end_of_a_hold_that_is_spent_or_renewed_decides_the_wait() {
    let (limiter, time) = limiter();
    let jobs = policy("jobs", &["2/inflight"]);
    let first = hold(&limiter, &jobs, 1, MINUTE);
    let _ = hold(&limiter, &jobs, 1, 2 * MINUTE);
    let wait = |units| reserve(&limiter, &jobs, units, MINUTE).decision.retry_after();
    assert_eq!((wait(1), wait(2)), (Some(MINUTE), Some(2 * MINUTE)));
    time.advance(Duration::from_secs(30));
    assert!(limiter.renew(&first, 5 * MINUTE, &jobs).expect("well-formed").known);
    assert_eq!((wait(1), wait(2)), (Some(Duration::from_secs(90)), Some(5 * MINUTE)));
    let decision = limiter.peek(&jobs, &key("alice"), Cost::ONE);
    assert_eq!(decision.reset_after(), 5 * MINUTE, "the last hold ends then");
}

#[test]
fn no_units_are_in_use_after_the_only_hold_if_the_newest_charge_was_given_back() {
    for algorithm in ALGORITHMS {
        let (limiter, time) = limiter();
        let tokens = policy("tokens", &["200/1h"]).with_algorithm(algorithm.parse().expect("an algorithm"));
        let _ = hold(&limiter, &tokens, 100, MINUTE);
        time.advance(MICROSECOND);
        let charged_at = limiter.check(&tokens, &key("alice"), Cost::ONE).charged_at().expect("it fits");
        assert!(limiter.refund(&tokens, &key("alice"), Cost::ONE, charged_at).is_returned());
        let reset = limiter.peek(&tokens, &key("alice"), Cost::ONE).reset_after();
        assert_eq!(reset, MINUTE - MICROSECOND, "{algorithm}");
    }
}

#[test]
fn a_reset_deletes_the_reservations_of_a_key() {
    let (limiter, _) = limiter();
    let jobs = policy("jobs", &["1/inflight"]);
    let id = hold(&limiter, &jobs, 1, MINUTE);
    assert!(limiter.reset(&jobs, &key("alice")));
    let other = hold(&limiter, &jobs, 1, MINUTE);
    assert!(!limiter.release(&id, &jobs).expect("well-formed").known);
    assert_eq!(used(&limiter, &jobs), 1);
    assert!(limiter.release(&other, &jobs).expect("well-formed").known);
}

#[test]
fn a_hold_stays_open_while_an_override_begins_and_ends() {
    for set in [Override::ban(), Override::exempt()] {
        let (limiter, _) = limiter();
        let jobs = policy("jobs", &["1/inflight"]);
        let id = hold(&limiter, &jobs, 1, MINUTE);
        limiter.set_override(&jobs, &key("alice"), set).expect("room");
        limiter.remove_override(&jobs, &key("alice"));
        assert_eq!(used(&limiter, &jobs), 1);
        assert!(limiter.release(&id, &jobs).expect("well-formed").known);
        assert_eq!(used(&limiter, &jobs), 0);
    }
}
