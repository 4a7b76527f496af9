//! Degraded states: where they are checked, and how their beginning and end are reported.

use std::time::Duration;

use tidegate::{Degradation, EventCount};

use super::{
    Event, Service,
    degraded::{Changes, DegradedState},
};
use crate::metrics::LOG_LINES;

/// A clock that is ahead of the wall clock by more than this is reported.
const CLOCK_LEAD: Duration = Duration::from_secs(1);

/// States of Redis in which it does not answer at all.
const SILENT: [&str; 6] = ["unreachable", "lost", "timeout", "too_slow", "loading", "cluster_down"];

impl Service {
    /// Checks for degraded states, reports those that have begun or ended since the last check, and returns the current
    /// ones.
    pub(crate) fn check_degraded_states(&self) -> Vec<DegradedState> {
        let now_ms = self.now_ms();
        let report = self.store_report();
        let mut found = report.degradations;
        found.extend(self.refused_files());
        found.extend(clock_ahead(self.clock.ahead()));
        let mut counted = vec![EventCount {
            cause: "log_lines_dropped",
            count: LOG_LINES.dropped_so_far(),
            what: "log lines were lost because they could not be written".into(),
            cure: "free disk space where standard error goes, or restart the program that reads it",
        }];
        counted.push(EventCount {
            cause: "accept_errors",
            count: self.metrics.accept_errors(),
            what: "connections could not be accepted; usually no file descriptors are left".into(),
            cure: "raise `ulimit -n`, or lower max_connections of [server]",
        });
        counted.extend(report.event_counts);
        let changes = self.degraded.update(now_ms, found, &counted);
        self.report(now_ms, changes);
        self.degraded.states()
    }

    /// Files that were refused when they were read again.
    fn refused_files(&self) -> impl Iterator<Item = Degradation> {
        let refused = self.refused_files.lock().clone();
        refused.into_iter().map(|(cause, refused)| Degradation {
            cause,
            node: None,
            detail: refused.error,
            cure: refused.cure.to_owned(),
            lasted: Duration::ZERO,
        })
    }

    fn report(&self, now_ms: u64, Changes { begun, ended }: Changes) {
        for DegradedState { cause, node, detail, cure, .. } in begun {
            let at = node.as_ref().map(|node| format!(" at {node}")).unwrap_or_default();
            // The code that refuses a file logs each refusal and reports it to the observer.
            if !is_of_a_file(&cause) {
                tracing::warn!(cause = &*cause, node, detail, cure, "degraded: {cause}{at}");
                let event = match &*cause {
                    "no_room" | "no_room_for_callers" => Event::NoRoom,
                    cause if SILENT.contains(&cause) => Event::StoreLost,
                    _ => Event::Degraded,
                };
                self.observer.event(event, now_ms, format!("{cause}{at}: {detail}; {cure}"));
            }
        }
        for DegradedState { cause, node, detail, since_ms, .. } in ended {
            let at = node.as_ref().map(|node| format!(" at {node}")).unwrap_or_default();
            let lasted_ms = now_ms.saturating_sub(since_ms);
            tracing::info!(cause = &*cause, node, detail, lasted_ms, "no longer degraded: {cause}{at}");
            let event = if SILENT.contains(&&*cause) { Event::StoreBack } else { Event::Recovered };
            self.observer.event(event, now_ms, format!("no longer degraded: {cause}{at}"));
        }
    }
}

/// The state of a clock that is ahead of the wall clock, for example after the wall clock was set back.
fn clock_ahead(ahead: Duration) -> Option<Degradation> {
    (ahead > CLOCK_LEAD).then(|| Degradation {
        cause: "clock_ahead",
        node: None,
        detail: format!("the clock that decisions use is {ahead:?} ahead of the wall clock"),
        cure: "correct the system clock (NTP); restart the service to remove the lead at once".to_owned(),
        lasted: Duration::ZERO,
    })
}

fn is_of_a_file(cause: &str) -> bool {
    matches!(cause, "configuration_refused" | "certificate_refused")
}
