//! Degraded states: where they are checked, and how their beginning and end are reported.

use std::time::Duration;

use tidegate::{Degradation, EventCount};

use super::{
    Event, Service,
    degraded::{Changes, DegradedState, degradation},
    reload::{CERTIFICATE_REFUSED, CONFIGURATION_REFUSED},
};
use crate::metrics::LOG_LINES;

/// A clock that is ahead of the wall clock by more than this is reported.
const CLOCK_LEAD: Duration = Duration::from_secs(1);

impl Service {
    /// Checks for degraded states, reports those that have begun or ended since the last check, and returns the current
    /// ones.
    pub(crate) fn check_degraded_states(&self) -> Vec<DegradedState> {
        let now_ms = self.now_ms();
        let report = self.store_report();
        let mut found = report.degradations;
        found.extend(self.refused_files.lock().values().cloned());
        found.extend(clock_ahead(self.clock.ahead()));
        let mut counted = report.event_counts;
        counted.push(EventCount {
            cause: "log_lines_dropped",
            count: LOG_LINES.dropped_so_far(),
            what: "log lines were lost because they could not be written".into(),
            cure: "free disk space where standard error goes, or restart the program that reads it",
        });
        counted.push(EventCount {
            cause: "accept_errors",
            count: self.metrics.accept_errors(),
            what: "connections could not be accepted; usually no file descriptors are left".into(),
            cure: "raise `ulimit -n`, or lower max_connections of [server]",
        });
        let changes = self.degraded.update(now_ms, found, &counted);
        self.report(now_ms, changes);
        self.degraded.states()
    }

    fn report(&self, now_ms: u64, Changes { begun, ended }: Changes) {
        for DegradedState { cause, node, detail, cure, is_outage, .. } in begun {
            // The code that refuses a file logs each refusal and reports it to the observer.
            if [CONFIGURATION_REFUSED, CERTIFICATE_REFUSED].contains(&&*cause) {
                continue;
            }
            let at = place(node.as_deref());
            tracing::warn!(cause = &*cause, node, detail, cure, "degraded: {cause}{at}");
            let event = match &*cause {
                "no_room" | "no_room_for_callers" => Event::NoRoom,
                _ if is_outage => Event::StoreLost,
                _ => Event::Degraded,
            };
            self.observer.event(event, now_ms, format!("{cause}{at}: {detail}; {cure}"));
        }
        for DegradedState { cause, node, detail, since_ms, is_outage, .. } in ended {
            let at = place(node.as_deref());
            let lasted_ms = now_ms.saturating_sub(since_ms);
            tracing::info!(cause = &*cause, node, detail, lasted_ms, "no longer degraded: {cause}{at}");
            let event = if is_outage { Event::StoreBack } else { Event::Recovered };
            self.observer.event(event, now_ms, format!("no longer degraded: {cause}{at}"));
        }
    }
}

fn place(node: Option<&str>) -> String {
    node.map(|node| format!(" at {node}")).unwrap_or_default()
}

/// The state of a clock that is ahead of the wall clock, for example after the wall clock was set back.
fn clock_ahead(ahead: Duration) -> Option<Degradation> {
    let detail = format!("the clock that decisions use is {ahead:?} ahead of the wall clock");
    let cure = "correct the system clock (NTP); restart the service to remove the lead at once";
    (ahead > CLOCK_LEAD).then(|| degradation("clock_ahead", detail, cure))
}
