//! Closes the connections of a listener that do not read their responses.

use std::{
    cmp::Reverse,
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::TaskTracker;

use super::{ResponseReader, UNDER_PRESSURE, UnreadResponses};
use crate::{metrics::Transport, service::Service};

impl UnreadResponses {
    /// Checks all connections regularly. After the service has stopped, it checks those that are still open.
    pub(crate) async fn watch(self: Arc<Self>, service: Arc<Service>, transport: Transport, connections: TaskTracker) {
        let often = (self.timeout / 4).clamp(Duration::from_millis(5), Duration::from_millis(500));
        let mut checks = interval(often);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ended = pin!(connections.wait());
        while tokio::select! { _ = checks.tick() => true, () = ended.as_mut() => false } {
            let closed = self.close_stalled(often);
            service.metrics().unread_bytes[transport].set(i64::try_from(self.held.load(Relaxed)).unwrap_or(i64::MAX));
            if closed > 0 {
                service.metrics().closed_unread[transport].inc_by(closed);
                if service.wrong_tokens().may_log("unread responses") {
                    let transport = transport.name();
                    tracing::warn!(
                        transport,
                        connections = closed,
                        "closed connections that do not read their responses: see `write_timeout` in [server]"
                    );
                }
            }
        }
    }

    /// Closes connections that have left a response unread for too long. The time between two checks is `apart`. Returns the number
    /// of closed connections.
    ///
    /// Under memory pressure it also closes connections that have delayed a response or the body of a request for a shorter time,
    /// those with the most memory first, until the pressure is gone.
    fn close_stalled(&self, apart: Duration) -> u64 {
        let now = self.checks.fetch_add(1, Relaxed) + 1;
        // A response that was added between two checks has waited at least since the second one.
        let is_due = |since: Option<u64>, timeout: Duration| {
            let checks = since.map_or(0, |since| u32::try_from(now.saturating_sub(since + 1)).unwrap_or(u32::MAX));
            since.is_some() && apart.saturating_mul(checks) >= timeout
        };
        let readers: Vec<Arc<ResponseReader>> = {
            let mut registered = self.readers.lock();
            registered.retain(|reader| reader.strong_count() > 0);
            registered.iter().filter_map(Weak::upgrade).collect()
        };
        let open = || readers.iter().filter(|reader| !reader.closed.is_cancelled());
        let mut held = self.held.load(Relaxed);
        let mut closed = 0;
        for reader in open().filter(|reader| is_due(reader.unread.lock().oldest(), self.timeout)) {
            reader.closed.cancel();
            held = held.saturating_sub(reader.held.load(Relaxed));
            closed += 1;
        }
        let timeout = self.timeout.min(UNDER_PRESSURE);
        let is_slow = |reader: &&Arc<ResponseReader>| {
            is_due(reader.unread.lock().oldest(), timeout) || is_due(reader.arriving.lock().oldest(), timeout)
        };
        if self.is_under_pressure(held) {
            let mut slow: Vec<_> = open().filter(is_slow).map(|reader| (reader.held.load(Relaxed), reader)).collect();
            slow.sort_unstable_by_key(|(held, _)| Reverse(*held));
            for (bytes, reader) in slow {
                if !self.is_under_pressure(held) {
                    break;
                }
                reader.closed.cancel();
                held = held.saturating_sub(bytes);
                closed += 1;
            }
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{RESERVED, ResponseReader, UnreadResponses};

    const APART: Duration = Duration::from_millis(500);
    const TIMEOUT: Duration = Duration::from_secs(5);

    fn is_closed(reader: &ResponseReader) -> bool {
        reader.closed.is_cancelled()
    }

    #[test]
    fn a_response_that_stays_unread_closes_the_connection_although_others_are_read() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let (greedy, honest) = (all.reader(), all.reader());
        let unread = greedy.begin().expect("there is room").charge(0);
        let mut checks = 0;
        while !is_closed(&greedy) {
            // Both read a response between any two checks.
            for reader in [&greedy, &honest] {
                drop(reader.begin().expect("there is room").charge(0));
            }
            let kept = honest.begin().expect("there is room").charge(0);
            assert!(all.close_stalled(APART) <= 1);
            drop(kept);
            checks += 1;
        }
        assert_eq!(checks, 11, "5 s, and the time until the first check");
        assert!(!is_closed(&honest));
        drop(unread);
    }

    #[test]
    fn reading_parts_of_a_large_response_keeps_the_connection_open() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let reader = all.reader();
        let large = reader.begin().expect("there is room").charge(500_000);
        for _ in 0..100 {
            assert_eq!(all.close_stalled(APART), 0);
            large.progressed();
        }
        assert_eq!((0..11).map(|_| all.close_stalled(APART)).sum::<u64>(), 1);
    }

    #[test]
    fn under_pressure_the_connections_with_the_most_memory_are_closed_first() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let connections: Vec<_> = (0..4).map(|_| all.reader()).collect();
        let charges: Vec<_> = [100_000, 400_000, 30_000, 200_000]
            .iter()
            .zip(&connections)
            .map(|(bytes, reader)| reader.begin().expect("there is room").charge(*bytes))
            .collect();
        assert_eq!(all.close_stalled(APART) + all.close_stalled(APART), 0, "a second has not passed");
        assert_eq!(all.close_stalled(APART), 1);
        assert!(is_closed(&connections[1]), "this one uses the most memory");
        drop(charges);
    }

    #[test]
    fn under_pressure_a_connection_that_delays_bodies_is_closed() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let (greedy, honest) = (all.reader(), all.reader());
        let begin = || (greedy.begin().expect("there is room"), greedy.arriving());
        let few: Vec<_> = (0..10).map(|_| begin()).collect();
        assert_eq!((0..100).map(|_| all.close_stalled(APART)).sum::<u64>(), 0, "there is no pressure");
        let many: Vec<_> = (0..(1 << 19) / RESERVED).map(|_| begin()).collect();
        // Its bodies have arrived; the service delays its response.
        let under_way = honest.begin().expect("there is room");
        drop(honest.arriving());
        assert_eq!((0..100).map(|_| all.close_stalled(APART)).sum::<u64>(), 1);
        assert!(is_closed(&greedy) && !is_closed(&honest));
        drop((few, many, under_way));
    }
}
