//! Closes the connections of a listener that read nothing of their responses.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Reader, UnreadResponses};
use crate::{metrics::Transport, service::Service};

impl UnreadResponses {
    /// Checks all connections regularly, until the service stops.
    pub(crate) async fn watch(self: Arc<Self>, service: Arc<Service>, transport: Transport, stop: CancellationToken) {
        let often = (self.patience / 4).clamp(Duration::from_millis(5), Duration::from_millis(500));
        let mut looks = interval(often);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(looks.tick()).await.is_some() {
            let closed = self.close_stalled(often);
            service.metrics().unread(transport).set(i64::try_from(self.held.load(Relaxed)).unwrap_or(i64::MAX));
            if closed > 0 {
                service.metrics().closed_unread(transport, closed);
                if service.guesses().may_log("responses that nobody reads") {
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

    /// Closes the connections that have read nothing for too long, given the time between two checks. Returns their
    /// number.
    fn close_stalled(&self, apart: Duration) -> u64 {
        let patience = self.patience();
        let readers = self.readers.lock();
        let stalled = readers.values().filter(|reader| apart * reader.stalled_looks() >= patience);
        stalled.map(|reader| reader.closed.cancel()).count() as u64
    }
}

impl Reader {
    /// How many checks in a row, including this one, found unread responses and nothing read since the previous check.
    fn stalled_looks(&self) -> u32 {
        let progress = self.progress.load(Relaxed);
        let is_stalled = self.responses.load(Relaxed) > 0 && self.seen.swap(progress, Relaxed) == progress;
        let looks = if is_stalled { self.stalled.load(Relaxed) + 1 } else { 0 };
        self.stalled.store(looks, Relaxed);
        looks
    }
}
