//! Bans, exemptions, overrides with other limits, and their end.

use std::time::Duration;

use tidegate::{Cost, Decision, Key, Limit, MemoryStore, Op, Override, Policy, Reason, Refund, Spend, Timestamp};

const START: u64 = 1_745_000_100_000_000;
pub(crate) const SECOND: u64 = 1_000_000;
const ALGORITHMS: [&str; 5] = ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra"];

pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

pub(crate) fn policy(limits: &[&str], algorithm: &str) -> Policy {
    let limits = limits.iter().map(|text| text.parse::<Limit>().unwrap());
    Policy::new("p", limits).unwrap().with_algorithm(algorithm.parse().unwrap())
}

pub(crate) fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

fn decide(store: &MemoryStore, op: Op, policy: &Policy, name: &str, cost: u64, now: Timestamp) -> Decision {
    store.decide(op, policy, &key(name), Cost::new(cost).unwrap(), now)
}

pub(crate) fn check(store: &MemoryStore, policy: &Policy, name: &str, now: Timestamp) -> Decision {
    decide(store, Op::Check, policy, name, 1, now)
}

fn set(store: &MemoryStore, policy: &Policy, name: &str, by: Override, now: Timestamp) -> Option<Override> {
    store.set_override(policy, &key(name), by, now).unwrap()
}

fn refund(store: &MemoryStore, policy: &Policy, name: &str, charged_at: Timestamp, now: Timestamp) -> Refund {
    store.refund(policy, &key(name), Cost::ONE, charged_at, now)
}

fn wait(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn a_ban_denies_until_its_end_and_not_a_microsecond_longer() {
    for algorithm in ALGORITHMS {
        let (store, policy) = (MemoryStore::default(), policy(&["3/1m"], algorithm));
        set(&store, &policy, "mallory", Override::ban().until(at(5 * SECOND)), at(0));
        let denied = check(&store, &policy, "mallory", at(SECOND));
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::Banned, Some(wait(4 * SECOND))), "{algorithm}");
        assert_eq!((denied.used(), denied.remaining(), denied.capacity()), (0, 0, 3));
        assert!(denied.is_overridden() && denied.charged_at().is_none());
        assert_eq!(check(&store, &policy, "mallory", at(5 * SECOND - 1)).retry_after(), Some(wait(1)));
        let admitted = check(&store, &policy, "mallory", at(5 * SECOND));
        assert!(admitted.is_allowed() && !admitted.is_overridden(), "{algorithm}");
        assert_eq!(store.stats().overrides, 0);
    }
}

#[test]
fn a_permanent_ban_has_no_retry_time() {
    let (store, policy) = (MemoryStore::default(), policy(&["3/1m", "5/1h"], "sliding_log"));
    set(&store, &policy, "mallory", Override::ban(), at(0));
    for op in [Op::Check, Op::Peek] {
        let denied = decide(&store, op, &policy, "mallory", 1, at(SECOND));
        assert_eq!((denied.reason(), denied.retry_after(), denied.capacity()), (Reason::Banned, None, 3));
    }
    assert_eq!(check(&store, &policy, "mallory", at(31_000_000 * SECOND)).reason(), Reason::Banned);
}

#[test]
fn a_ban_takes_precedence_over_impossible() {
    let (store, policy) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    set(&store, &policy, "mallory", Override::ban().until(at(SECOND)), at(0));
    let denied = decide(&store, Op::Check, &policy, "mallory", 4, at(0));
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Banned, Some(wait(SECOND))));
}

#[test]
fn the_retry_time_of_a_ban_is_its_end_even_if_a_limit_is_used_up() {
    let (store, policy) = (MemoryStore::default(), policy(&["1/1m", "2/1h"], "sliding_log"));
    assert!(check(&store, &policy, "k", at(0)).is_allowed());
    assert!(check(&store, &policy, "k", at(60 * SECOND)).is_allowed());
    set(&store, &policy, "k", Override::ban().until(at(70 * SECOND)), at(60 * SECOND));
    let denied = check(&store, &policy, "k", at(61 * SECOND));
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Banned, Some(wait(9 * SECOND))));
    assert_eq!((denied.reset_after(), denied.limit().to_string()), (wait(3599 * SECOND), "2/1h".into()));
    let limited = check(&store, &policy, "k", at(70 * SECOND));
    assert_eq!((limited.reason(), limited.retry_after()), (Reason::Limited, Some(wait(3530 * SECOND))));
    assert!(check(&store, &policy, "k", at(3600 * SECOND)).is_allowed());
}

#[test]
fn a_charge_under_a_ban_is_counted() {
    let (store, policy) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    set(&store, &policy, "k", Override::ban().until(at(SECOND)), at(0));
    let charged = decide(&store, Op::Charge, &policy, "k", 2, at(0));
    assert_eq!((charged.reason(), charged.used(), charged.remaining()), (Reason::Allowed, 2, 0));
    assert_eq!(charged.charged_at(), Some(at(0)));
    let inspection = store.inspect(&policy, &key("k"), at(0)).unwrap();
    assert_eq!((inspection.limits[0].used, inspection.limits[0].remaining), (2, 0));
    let refund = refund(&store, &policy, "k", at(0), at(1));
    assert_eq!((refund.is_returned(), refund.remaining()), (true, 0));
    assert_eq!(check(&store, &policy, "k", at(SECOND)).remaining(), 1);
}

#[test]
fn reset_does_not_remove_a_ban() {
    let (store, policy) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    assert!(check(&store, &policy, "k", at(0)).is_allowed());
    set(&store, &policy, "k", Override::ban(), at(0));
    assert!(store.reset(&policy, &key("k")), "there is a state");
    assert!(!store.reset(&policy, &key("k")), "the state is deleted");
    assert_eq!(store.inspect(&policy, &key("k"), at(0)), None);
    assert!(!check(&store, &policy, "k", at(0)).is_allowed());
    assert!(store.remove_override(&policy, &key("k"), at(0)).is_some());
    assert_eq!(check(&store, &policy, "k", at(0)).remaining(), 2);
}

#[test]
fn an_exemption_charges_nothing() {
    for algorithm in ALGORITHMS {
        let (store, policy) = (MemoryStore::default(), policy(&["2/1m"], algorithm));
        assert!(check(&store, &policy, "k", at(0)).is_allowed());
        set(&store, &policy, "k", Override::exempt().until(at(SECOND)), at(0));
        for op in [Op::Check, Op::Charge, Op::Peek] {
            let exempt = decide(&store, op, &policy, "k", 1_000_000, at(1));
            assert_eq!((exempt.reason(), exempt.charged_at()), (Reason::Allowed, None), "{algorithm}");
            assert_eq!((exempt.used(), exempt.remaining(), exempt.reset_after()), (0, 2, Duration::ZERO));
            assert!(exempt.is_overridden());
        }
        let inspection = store.inspect(&policy, &key("k"), at(1)).unwrap();
        assert_eq!(
            (inspection.limits[0].used, inspection.limits[0].remaining),
            (1, 1),
            "{algorithm}: the state is shown"
        );
        assert_eq!(check(&store, &policy, "k", at(SECOND)).remaining(), 0, "{algorithm}: the unit is still in use");
    }
}

#[test]
fn the_history_is_kept_when_other_limits_start_and_end() {
    // A gcra debt is a time and stays the same under another max, so its units differ.
    for algorithm in &ALGORITHMS[..4] {
        let (store, own) = (MemoryStore::default(), policy(&["2/1m"], algorithm));
        let more = policy(&["5/1m"], algorithm);
        for _ in 0..2 {
            assert!(check(&store, &own, "k", at(0)).is_allowed());
        }
        assert_eq!(check(&store, &own, "k", at(0)).reason(), Reason::Limited);
        set(&store, &own, "k", Override::limits(more).until(at(SECOND)), at(0));
        let raised = check(&store, &own, "k", at(1));
        assert_eq!((raised.used(), raised.remaining(), raised.capacity()), (3, 2, 5), "{algorithm}");
        assert!(raised.is_overridden());
        let ended = decide(&store, Op::Peek, &own, "k", 1, at(SECOND));
        assert_eq!((ended.reason(), ended.used(), ended.capacity()), (Reason::Limited, 3, 2), "{algorithm}");
        assert!(!ended.is_overridden());
    }
}

#[test]
fn a_retry_time_is_exact_before_and_after_the_end_of_an_override() {
    let own = policy(&["10/1m"], "sliding_log");
    let tight = || Override::limits(policy(&["1/30s"], "sliding_log"));
    // The request fits before the override ends, because it ends, or at its end.
    for (end, expected) in [(31, 30 * SECOND), (20, 20 * SECOND), (30, 30 * SECOND)] {
        let store = MemoryStore::default();
        set(&store, &own, "k", tight().until(at(end * SECOND)), at(0));
        assert!(check(&store, &own, "k", at(0)).is_allowed());
        let denied = check(&store, &own, "k", at(0));
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::Limited, Some(wait(expected))), "until {end} s");
        assert_eq!(denied.limit().to_string(), "1/30s");
        assert_eq!(
            decide(&store, Op::Peek, &own, "k", 1, at(expected - 1)).retry_after(),
            Some(wait(1)),
            "until {end} s"
        );
        assert!(check(&store, &own, "k", at(expected)).is_allowed(), "until {end} s");
    }
}

#[test]
fn if_the_override_ends_first_the_retry_time_is_that_of_the_policy() {
    // The override ends after a second. Then the limit of the policy is used up for a minute.
    let own = policy(&["1/1m"], "sliding_log");
    let store = MemoryStore::default();
    let loose = Override::limits(policy(&["3/2s"], "sliding_log")).until(at(SECOND));
    set(&store, &own, "k", loose, at(0));
    let charged = decide(&store, Op::Check, &own, "k", 3, at(0));
    assert!(charged.is_allowed());
    assert_eq!(check(&store, &own, "k", at(1)).retry_after(), Some(wait(60 * SECOND - 1)));
    assert_eq!(decide(&store, Op::Peek, &own, "k", 1, at(60 * SECOND - 1)).reason(), Reason::Limited);
    assert!(check(&store, &own, "k", at(60 * SECOND)).is_allowed());
}

#[test]
fn an_impossible_cost_is_limited_if_the_override_ends_and_the_policy_allows_it() {
    let (store, own) = (MemoryStore::default(), policy(&["10/1m"], "sliding_log"));
    let tight = || Override::limits(policy(&["2/1m", "1/1s"], "sliding_log"));
    set(&store, &own, "k", tight().until(at(SECOND)), at(0));
    let denied = decide(&store, Op::Check, &own, "k", 5, at(0));
    assert_eq!((denied.reason(), denied.retry_after(), denied.capacity()), (Reason::Limited, Some(wait(SECOND)), 1));
    assert_eq!(decide(&store, Op::Check, &own, "k", 11, at(0)).reason(), Reason::Impossible);
    set(&store, &own, "k", tight(), at(0));
    assert_eq!(decide(&store, Op::Check, &own, "k", 5, at(0)).reason(), Reason::Impossible);
}

#[test]
fn a_shadow_policy_never_denies_even_a_banned_key() {
    let own = policy(&["3/1m"], "sliding_log").with_mode(tidegate::Mode::Shadow);
    let store = MemoryStore::default();
    set(&store, &own, "k", Override::ban().until(at(SECOND)), at(0));
    let shadowed = check(&store, &own, "k", at(0));
    assert_eq!((shadowed.reason(), shadowed.retry_after()), (Reason::Shadow, Some(wait(SECOND))));
    assert!(shadowed.is_allowed() && shadowed.charged_at().is_none());
}

#[test]
fn one_ban_denies_a_decision_over_several_requests() {
    let (store, one) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    let two = Policy::new("two", ["9/1m".parse().unwrap()]).unwrap();
    let (free, banned) = (key("free"), key("banned"));
    set(&store, &two, "banned", Override::ban().until(at(SECOND)), at(0));
    let spends = [(&one, &free), (&two, &banned)].map(|(policy, key)| Spend { policy, key, cost: Cost::ONE });
    let denied = store.decide_all(Op::Check, &spends, at(0)).unwrap();
    assert_eq!((denied.overall.reason(), denied.overall.part()), (Reason::Banned, 1));
    assert!(denied.overall.is_overridden() && !denied.parts[0].is_overridden());
    assert_eq!(denied.parts[0].charged_at(), None);
    assert!(store.decide_all(Op::Check, &spends, at(SECOND)).unwrap().overall.is_allowed());
}

#[test]
fn inspect_shows_when_units_are_free_again() {
    let (store, log) = (MemoryStore::default(), policy(&["5/1m"], "sliding_log"));
    for (cost, now) in [(2, 0), (1, 10 * SECOND)] {
        assert!(decide(&store, Op::Check, &log, "k", cost, at(now)).is_allowed());
    }
    let next = |now| store.inspect(&log, &key("k"), at(now)).unwrap().limits[0].next_free_after;
    assert_eq!(next(15 * SECOND), Duration::from_secs(45));
    assert_eq!(next(60 * SECOND), Duration::from_secs(10));
    assert_eq!(next(70 * SECOND), Duration::ZERO);
}
