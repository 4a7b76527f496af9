//! [`Guesses`]: wrong tokens, limited by address with our own library, over all transports.
//!
//! A token is compared first, so the right one always works. After too many wrong tokens from an address, each further
//! wrong token is answered late, and its connection is closed. So an address can try no more tokens a second than its
//! number of connections divided by the delay.

use std::{net::IpAddr, time::Duration};

use tidegate::{Clock, Cost, Key, Limiter, MemoryStore, Policy};

use crate::{
    metrics::{Metrics, Transport},
    places::network,
};

/// Wrong tokens of one address that are answered at once.
const LIMIT: &str = "10/1m";

/// Addresses with a count of their own. Further addresses share a few counts. Only addresses with wrong tokens are
/// counted.
const ADDRESSES: usize = 10_000;

/// Log lines about one address or one event.
const LOGGED: &str = "1/1m";

/// All log lines that [`Guesses::may_log`] limits, together.
const LOGGED_IN_ALL: &str = "30/1m";

/// Counts wrong tokens.
#[derive(Debug)]
pub(crate) struct Guesses {
    limiter: Limiter,
    wrong: Policy,
    logged: Policy,
    logged_in_all: Policy,
    delay: Duration,
}

/// An address has sent too many wrong tokens. It may send another one after this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) Duration);

impl Guesses {
    /// Counts by this clock; late answers are sent after `delay`.
    pub(crate) fn new(clock: Clock, delay: Duration) -> Self {
        let policy = |name: &str, limit: &str| Policy::new(name, [limit.parse().expect("a limit")]).expect("a policy");
        let store = MemoryStore::builder().max_keys(3 * ADDRESSES).build().expect("bounds that a store can have");
        Self {
            limiter: Limiter::new(store).with_clock(clock),
            wrong: policy("wrong-tokens", LIMIT),
            logged: policy("logged", LOGGED),
            logged_in_all: policy("logged-in-all", LOGGED_IN_ALL),
            delay,
        }
    }

    /// The delay of the answer to a wrong token beyond the limit.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Counts a wrong token, unless its address has already sent too many. Logs the first one of an address in a
    /// minute.
    pub(crate) fn wrong(&self, metrics: &Metrics, transport: Transport, by: Option<IpAddr>) -> Result<(), TooMany> {
        metrics.wrong_token(transport);
        let by = by.map_or_else(|| "this process".to_owned(), |address| network(address).to_string());
        if self.may_log(&by) {
            tracing::warn!(by, transport = transport.name(), "a wrong token was shown");
        }
        let Ok(key) = Key::new(&by) else { return Ok(()) };
        match self.limiter.check(&self.wrong, &key, Cost::ONE).retry_after() {
            None => Ok(()),
            Some(wait) => Err(TooMany(wait)),
        }
    }

    /// Whether a line about this subject may be logged now: one in a minute, and a bounded number of lines in all.
    pub(crate) fn may_log(&self, about: &str) -> bool {
        let (Ok(about), Ok(all)) = (Key::new(about), Key::new("all")) else { return false };
        self.limiter.check(&self.logged, &about, Cost::ONE).is_allowed()
            && self.limiter.check(&self.logged_in_all, &all, Cost::ONE).is_allowed()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc, time::Duration};

    use tidegate::{AnyStore, FailSafe, Limiter, ManualClock, MemoryStore, Timestamp};

    use super::{ADDRESSES, Guesses};
    use crate::metrics::{Metrics, Transport};

    fn metrics() -> Metrics {
        Metrics::new(FailSafe::new(AnyStore::new(Limiter::default())), Arc::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_ten_wrong_tokens_in_any_minute_over_all_transports() {
        let time = ManualClock::at(Timestamp::from_micros(1_000_000_000_000));
        let guesses = Guesses::new(time.clock(), Duration::from_secs(3));
        let metrics = metrics();
        let wrong = |by: &str, number: usize| guesses.wrong(&metrics, Transport::ALL[number % 3], Some(ip(by)));
        for number in 0..10 {
            assert_eq!(wrong("192.0.2.1", number), Ok(()));
            assert_eq!(wrong(&format!("2001:db8::{number}"), number), Ok(()));
        }
        let wait = wrong("192.0.2.1", 0).expect_err("too many").0;
        assert!(wait <= Duration::from_secs(60) && wait > Duration::from_secs(50), "{wait:?}");
        assert!(wrong("2001:db8::ffff", 1).is_err(), "of the same network");
        assert_eq!(wrong("192.0.2.2", 2), Ok(()), "another address has its own");
        time.advance(Duration::from_secs(61));
        assert_eq!(wrong("192.0.2.1", 0), Ok(()));
    }

    #[test]
    fn many_addresses_take_no_more_memory_than_a_few() {
        let time = ManualClock::at(Timestamp::from_micros(1_000_000_000_000));
        let guesses = Guesses::new(time.clock(), Duration::from_secs(3));
        let metrics = metrics();
        for number in 0..10 * u32::try_from(ADDRESSES).expect("it fits") {
            let _ = guesses.wrong(&metrics, Transport::Resp, Some(IpAddr::from(number.to_be_bytes())));
        }
        assert!(guesses.limiter.store().stats().keys <= 3 * ADDRESSES);
    }
}
