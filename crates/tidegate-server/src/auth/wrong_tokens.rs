//! [`WrongTokens`]: the limit of wrong tokens for each address, over all transports. It uses the library itself.
//!
//! A token is compared first, so the right one always works. After too many wrong tokens from an address, each further
//! wrong token is answered late, and its connection is closed. So an address can try no more tokens a second than its
//! number of connections divided by the delay.

use std::{net::IpAddr, time::Duration};

use tidegate::{Clock, Cost, Key, Limiter, MemoryStore, Policy};

use crate::{
    connections::network,
    metrics::{Metrics, Transport},
};

/// Wrong tokens of one address that are answered without a delay.
const LIMIT: &str = "10/1m";

/// Maximum number of addresses with a count of their own. Further addresses share a few counts.
const MAX_ADDRESSES: usize = 10_000;

/// Limit of log lines about one address or one event.
const LOG_LINES: &str = "1/1m";

/// Limit of all log lines that [`WrongTokens::may_log`] permits.
const LOG_LINES_IN_ALL: &str = "30/1m";

/// Counts wrong tokens.
#[derive(Debug)]
pub(crate) struct WrongTokens {
    limiter: Limiter,
    wrong: Policy,
    logged: Policy,
    logged_in_all: Policy,
    delay: Duration,
}

/// An address has sent too many wrong tokens. It may send another one after this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyWrongTokens(pub(crate) Duration);

impl WrongTokens {
    /// Counts by this clock. Late answers are sent after `delay`.
    pub(crate) fn new(clock: Clock, delay: Duration) -> Self {
        let policy = |name: &str, limit: &str| Policy::new(name, [limit.parse().expect("a limit")]).expect("a policy");
        let store = MemoryStore::builder().max_keys(3 * MAX_ADDRESSES).build().expect("bounds that a store can have");
        Self {
            limiter: Limiter::new(store).with_clock(clock),
            wrong: policy("wrong-tokens", LIMIT),
            logged: policy("logged", LOG_LINES),
            logged_in_all: policy("logged-in-all", LOG_LINES_IN_ALL),
            delay,
        }
    }

    /// Returns the delay of the answer to a wrong token beyond the limit.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Counts a wrong token, unless its address has already sent too many. Logs the first one of an address in a
    /// minute.
    pub(crate) fn count(
        &self,
        metrics: &Metrics,
        transport: Transport,
        by: Option<IpAddr>,
    ) -> Result<(), TooManyWrongTokens> {
        metrics.wrong_tokens[transport].inc();
        let by = by.map_or_else(|| "this process".to_owned(), |address| network(address).to_string());
        if self.may_log(&by) {
            tracing::warn!(by, transport = transport.name(), "a wrong token was received");
        }
        let Ok(key) = Key::new(&by) else { return Ok(()) };
        match self.limiter.check(&self.wrong, &key, Cost::ONE).retry_after() {
            None => Ok(()),
            Some(wait) => Err(TooManyWrongTokens(wait)),
        }
    }

    /// Returns whether a line about this subject may be logged now: one in a minute, and a bounded number of lines in all.
    pub(crate) fn may_log(&self, about: &str) -> bool {
        let (Ok(about), Ok(all)) = (Key::new(about), Key::new("all")) else { return false };
        self.limiter.check(&self.logged, &about, Cost::ONE).is_allowed()
            && self.limiter.check(&self.logged_in_all, &all, Cost::ONE).is_allowed()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc, time::Duration};

    use tidegate::{AnyStore, FailSafe, Limiter, ManualClock, Timestamp};

    use super::{MAX_ADDRESSES, WrongTokens};
    use crate::metrics::{Metrics, Transport};

    fn metrics() -> Metrics {
        Metrics::new(FailSafe::new(AnyStore::new(Limiter::default())), Arc::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_may_send_ten_wrong_tokens_a_minute_over_all_transports() {
        let time = ManualClock::at(Timestamp::from_micros(1_000_000_000_000));
        let tokens = WrongTokens::new(time.clock(), Duration::from_secs(3));
        let metrics = metrics();
        let wrong = |by: &str, number: usize| tokens.count(&metrics, Transport::ALL[number % 3], Some(ip(by)));
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
    fn the_memory_for_addresses_is_bounded() {
        let time = ManualClock::at(Timestamp::from_micros(1_000_000_000_000));
        let tokens = WrongTokens::new(time.clock(), Duration::from_secs(3));
        let metrics = metrics();
        for number in 0..10 * u32::try_from(MAX_ADDRESSES).expect("it fits") {
            let _ = tokens.count(&metrics, Transport::Resp, Some(IpAddr::from(number.to_be_bytes())));
        }
        assert!(tokens.limiter.store().stats().keys <= 3 * MAX_ADDRESSES);
    }
}
