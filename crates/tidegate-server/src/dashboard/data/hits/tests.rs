use std::sync::{Arc, atomic::Ordering::Relaxed};

use tidegate::{Cost, Decision, Key, Limiter, MemoryStore, Policy, Reason};

use super::{EXACT, Hits, MAX_KEY_BYTES, SAMPLED, SLOTS, SharedCounts};
use crate::{metrics::DecisionClass, service::PolicyObserver as _};

fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

/// Returns a denial by the limit of one unit.
fn denial() -> Decision {
    let limiter = Limiter::new(MemoryStore::builder().max_keys(16).build().unwrap());
    let policy = Policy::new("p", ["1/1h".parse().unwrap()]).unwrap();
    limiter.check(&policy, &key("x"), Cost::new(2).unwrap())
}

fn deny(hits: &Hits, name: &str, times: u32, denial: &Decision) {
    (0..times).for_each(|_| hits.decided(DecisionClass::Denied, &key(name), denial));
}

#[test]
fn the_most_denied_key_comes_first_and_counts_expire_after_two_spans() {
    let (shared, denial) = (Arc::<SharedCounts>::default(), denial());
    let hits = Hits::new(&shared);
    for (name, times) in [("a", 3), ("b", 5), ("c", 1)] {
        deny(&hits, name, times, &denial);
    }
    hits.decided(DecisionClass::NearLimit, &key("d"), &denial);
    hits.decided(DecisionClass::Ordinary, &key("e"), &denial);
    let shown = hits.most_denied(2);
    let names: Vec<_> = shown.keys.iter().map(|one| (one.key.as_bytes().to_vec(), one.count.max)).collect();
    assert_eq!(names, [(b"b".to_vec(), 5), (b"a".to_vec(), 3)]);
    let cause = shown.keys[0].cause.expect("a cause");
    assert_eq!((cause.reason, cause.limit.to_string()), (Reason::Impossible, "1/1h".to_owned()));
    assert_eq!((shown.denials, shown.error, shown.sampled), (9, 0, false));
    assert_eq!(hits.candidates(9).len(), 4, "all except the ordinary decision");
    hits.tick(true);
    deny(&hits, "b", 1, &denial);
    assert_eq!(hits.most_denied(1).keys[0].count.max, 6, "both spans count");
    hits.tick(true);
    assert_eq!(hits.most_denied(9).denials, 1);
    hits.tick(true);
    assert_eq!((hits.most_denied(9).keys.len(), shared.key_bytes.load(Relaxed)), (0, 0));
}

#[test]
fn recent_denials_are_those_of_the_last_minute() {
    let (shared, denial) = (Arc::<SharedCounts>::default(), denial());
    let hits = Hits::new(&shared);
    let recent = || {
        let now = hits.most_denied_now(9);
        now.iter().map(|one| (one.key.as_bytes().to_vec(), one.recent)).collect::<Vec<_>>()
    };
    shared.slot.store(SLOTS - 2, Relaxed);
    deny(&hits, "old", 9, &denial);
    deny(&hits, "both", 1, &denial);
    // The next span begins.
    hits.tick(true);
    shared.slot.store(1, Relaxed);
    deny(&hits, "both", 2, &denial);
    assert_eq!(recent(), [(b"old".to_vec(), 9), (b"both".to_vec(), 3)], "four slots, across the spans");
    shared.slot.store(2, Relaxed);
    assert_eq!(recent(), [(b"both".to_vec(), 2), (b"old".to_vec(), 0)], "the oldest slot has ended");
    let both = hits.series(&key("both"));
    assert_eq!((both.slots.len(), both.count.max), (SLOTS, 3));
    assert_eq!(both.slots[SLOTS - 5..], [1, 0, 0, 2, 0], "the current slot is the last one");
    let unknown = hits.series(&key("unknown"));
    assert_eq!((unknown.slots, unknown.count.max, unknown.cause), (vec![0; SLOTS], 0, None));
}

#[test]
fn a_flood_is_sampled_at_any_rhythm() {
    let names: Vec<String> = (0..24).map(|i| format!("key {i}")).collect();
    let denial = denial();
    for of in [1, 2, 3, 16, 24] {
        let hits = Hits::new(&Arc::default());
        let each = 100 * SAMPLED;
        deny(&hits, "before", EXACT, &denial);
        for i in 0..of * each {
            deny(&hits, &names[(i % of) as usize], 1, &denial);
        }
        let shown = hits.most_denied(1 + names.len());
        assert_eq!((shown.denials, shown.sampled), (u64::from(EXACT + of * each), true));
        assert_eq!(shown.keys.len(), 1 + of as usize);
        for one in &shown.keys[1..] {
            assert!(one.count.max.abs_diff(each.into()) <= u64::from(each) / 5, "{one:?} of {of}");
            assert_eq!(one.count.max, one.recent, "the same weight");
        }
        hits.tick(false);
        deny(&hits, "before", 1, &denial);
        assert_eq!(
            hits.most_denied(1).keys[0].count.max,
            u64::from(EXACT) + 1,
            "counts are exact again in the next second"
        );
        hits.tick(true);
        assert!(hits.most_denied(1).sampled, "while the estimated counts are included");
        hits.tick(true);
        assert!(!hits.most_denied(1).sampled);
    }
}

#[test]
fn beyond_the_maximum_of_key_bytes_no_new_key_is_recorded() {
    let shared = Arc::<SharedCounts>::default();
    shared.key_bytes.store(MAX_KEY_BYTES + 1, Relaxed);
    let hits = Hits::new(&shared);
    deny(&hits, "a", 1, &denial());
    let shown = hits.most_denied(1);
    assert_eq!((shown.denials, shown.keys.len()), (1, 0));
}
