//! The test that the guide shows (README.md).

use std::time::Duration;

use tidegate::{Cost, Key, Limiter, ManualClock, Policy, Timestamp};

#[test]
fn a_client_is_admitted_again_after_a_minute() {
    let time = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let limiter = Limiter::default().with_clock(time.clock());
    let policy = Policy::new("api", ["1/1m".parse().unwrap()]).unwrap();
    let key = Key::from(42_u64);

    assert!(limiter.check(&policy, &key, Cost::ONE).is_allowed());
    assert_eq!(limiter.check(&policy, &key, Cost::ONE).retry_after(), Some(Duration::from_secs(60)));
    time.advance(Duration::from_secs(60));
    assert!(limiter.check(&policy, &key, Cost::ONE).is_allowed());
}
