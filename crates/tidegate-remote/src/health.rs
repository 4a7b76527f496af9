//! [`Health`]: whether the root answers, and what is wrong with its configuration or with this one.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use tidegate::{Clock, Degradation, EventCount, Metric, StoreNode, StoreReport, Timestamp};

use crate::error::Error;

/// Maximum number of policies that are remembered as unknown to the root, or as decided by another limit there.
const MAX_NAMES: usize = 64;

/// What is known about the root.
#[derive(Debug)]
pub(crate) struct Health {
    root: String,
    outage: Mutex<Option<Outage>>,
    /// Whether the outage is that requests get no answer on an open connection.
    silent: AtomicBool,
    /// Answers of the root to requests.
    answers: AtomicU64,
    unknown: PolicyProblem,
    different: PolicyProblem,
    pub(crate) requests: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) overloaded: AtomicU64,
    refused: AtomicU64,
    pub(crate) degraded: AtomicU64,
    pub(crate) releases_dropped: AtomicU64,
    last_refusal: Mutex<Option<Error>>,
}

#[derive(Debug, Clone)]
struct Outage {
    error: Error,
    since: Timestamp,
}

/// The names of policies with a problem.
#[derive(Debug, Default)]
struct PolicyProblem {
    any: AtomicBool,
    /// The names with the time of the last request, and since when there has been one.
    names: Mutex<(BTreeMap<String, Timestamp>, Option<Timestamp>)>,
}

impl PolicyProblem {
    /// Adds a policy. Returns whether it is new.
    fn begin(&self, name: &str) -> bool {
        let (mut names, now) = (self.names.lock(), Clock::process().now());
        if names.0.is_empty() {
            names.1 = Some(now);
        }
        self.any.store(true, Relaxed);
        if let Some(last) = names.0.get_mut(name) {
            *last = now;
            return false;
        }
        names.0.len() < MAX_NAMES && names.0.insert(name.to_owned(), now).is_none()
    }

    fn end(&self, name: &str) {
        // Nearly always there is no such policy.
        if self.any.load(Relaxed) {
            let mut names = self.names.lock();
            names.0.remove(name);
            self.any.store(!names.0.is_empty(), Relaxed);
        }
    }

    /// Ends the problem of each policy for which `keeps` returns false, by its name and the time since its last request.
    fn retain(&self, keeps: impl Fn(&str, Duration) -> bool) {
        let mut names = self.names.lock();
        names.0.retain(|name, last| keeps(name, since(*last)));
        self.any.store(!names.0.is_empty(), Relaxed);
    }

    fn list(&self) -> Option<(String, Duration)> {
        let names = self.names.lock();
        let quoted: Vec<String> = names.0.keys().map(|name| format!("`{name}`")).collect();
        (!quoted.is_empty()).then(|| (quoted.join(", "), names.1.map(since).unwrap_or_default()))
    }
}

fn no_answer() -> Error {
    Error::Unreachable("it does not answer on an open connection".to_owned())
}

fn since(time: Timestamp) -> Duration {
    Duration::from_micros(Clock::process().now().as_micros().saturating_sub(time.as_micros()))
}

impl Health {
    pub(crate) fn new(root: String) -> Self {
        let connecting = Error::Unreachable("no connection has been made yet".to_owned());
        Self {
            root,
            outage: Mutex::new(Some(Outage { error: connecting, since: Clock::process().now() })),
            silent: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            unknown: PolicyProblem::default(),
            different: PolicyProblem::default(),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            overloaded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
            releases_dropped: AtomicU64::new(0),
            last_refusal: Mutex::new(None),
        }
    }

    /// Records why there is no connection.
    pub(crate) fn set_outage(&self, error: Error) {
        let mut outage = self.outage.lock();
        self.silent.store(false, Relaxed);
        self.begin(&mut outage, error);
    }

    /// Records that there is a connection. After one without answers, the outage lasts until a request is answered.
    pub(crate) fn set_connected(&self, was_silent: bool) {
        tracing::info!(root = %self.root, "connected to the root");
        let mut outage = self.outage.lock();
        self.silent.store(was_silent, Relaxed);
        if was_silent {
            self.begin(&mut outage, no_answer());
        } else {
            *outage = None;
        }
    }

    /// Records that the root does not answer on the open connection.
    pub(crate) fn begin_silence(&self) {
        let mut outage = self.outage.lock();
        if outage.is_none() {
            self.silent.store(true, Relaxed);
            self.begin(&mut outage, no_answer());
        }
    }

    fn begin(&self, outage: &mut Option<Outage>, error: Error) {
        if outage.as_ref().is_none_or(|outage| outage.error != error) {
            tracing::warn!(root = %self.root, cause = error.name(), cure = error.cure(), "{error}");
        }
        let began = outage.as_ref().map_or_else(|| Clock::process().now(), |outage| outage.since);
        *outage = Some(Outage { error, since: began });
    }

    /// Records that the root has answered a request.
    pub(crate) fn record_answer(&self) {
        self.answers.fetch_add(1, Relaxed);
        // Nearly always it has answered before.
        if self.silent.load(Relaxed) {
            let mut outage = self.outage.lock();
            if self.silent.swap(false, Relaxed) {
                tracing::info!(root = %self.root, "the root answers again");
                *outage = None;
            }
        }
    }

    /// The number of answers to requests.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Relaxed)
    }

    /// Whether requests get no answer on an open connection.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Relaxed)
    }

    /// Whether the root lacks a policy, or decided under one by another limit.
    pub(crate) fn has_policy_problem(&self) -> bool {
        self.unknown.any.load(Relaxed) || self.different.any.load(Relaxed)
    }

    /// Ends the problems of policies for which `keeps` returns false, by the name and the time since the last request.
    pub(crate) fn keep_problems(&self, keeps: impl Fn(&str, Duration) -> bool) {
        if self.has_policy_problem() {
            self.unknown.retain(&keeps);
            self.different.retain(&keeps);
        }
    }

    /// Why there is no connection.
    pub(crate) fn outage(&self) -> Error {
        let outage = self.outage.lock();
        outage.as_ref().map_or_else(|| Error::Unreachable("it is being connected".to_owned()), |o| o.error.clone())
    }

    /// Records an error, and whether it is about a policy.
    pub(crate) fn record(&self, error: &Error, policy: Option<&str>) {
        let counter = match error {
            Error::Timeout => &self.timeouts,
            Error::Lost => &self.lost,
            Error::Overloaded => &self.overloaded,
            Error::UnknownPolicy(_) => {
                if policy.is_some_and(|name| self.unknown.begin(name)) {
                    tracing::error!(root = %self.root, policy, cure = error.cure(), "{error}");
                }
                return;
            }
            // Requests fail at once, and the outage is reported.
            Error::Unreachable(_) => return,
            _ => {
                *self.last_refusal.lock() = Some(error.clone());
                &self.refused
            }
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Records a decision of the root under a policy of this name.
    pub(crate) fn record_decision(&self, policy: Option<&str>, is_different: bool, is_degraded: bool) {
        if is_degraded {
            self.degraded.fetch_add(1, Relaxed);
        }
        let Some(name) = policy else { return };
        self.unknown.end(name);
        if !is_different {
            self.different.end(name);
        } else if self.different.begin(name) {
            tracing::warn!(root = %self.root, policy = name, "a limit that this policy does not have decided at the root");
        }
    }

    pub(crate) fn report(&self) -> StoreReport {
        let outage = self.outage.lock().clone();
        let mut report = StoreReport::new("tidegate");
        report.answers = outage.is_none();
        let breaker = if outage.is_none() { "closed" } else { "open" };
        report.nodes = vec![StoreNode { name: self.root.clone(), breaker }];
        let state = |cause, detail, cure: &str, lasted, is_outage| Degradation {
            cause,
            node: Some(self.root.clone()),
            detail,
            cure: cure.to_owned(),
            lasted,
            is_outage,
        };
        report.degradations.extend(outage.map(|Outage { error, since: began }| {
            state(error.name(), error.to_string(), error.cure(), since(began), true)
        }));
        report.degradations.extend(self.unknown.list().map(|(names, lasted)| {
            let error = Error::UnknownPolicy(String::new());
            let detail = format!("the root has no policy {names}: requests under it are denied");
            state(error.name(), detail, error.cure(), lasted, false)
        }));
        report.degradations.extend(self.different.list().map(|(names, lasted)| {
            let detail =
                format!("at the root, a limit decided for {names} that this service does not have: it applies");
            state("other_limits", detail, "give both services the same policies", lasted, false)
        }));
        report.event_counts = self.event_counts();
        report.metrics = self.metrics();
        report
    }

    fn event_counts(&self) -> Vec<EventCount> {
        let last = self.last_refusal.lock().clone();
        let refusal = last.as_ref().map_or(String::new(), |error| format!("; the last one: {error}"));
        let event = |error: &Error, counter: &AtomicU64, what: &'static str| EventCount {
            cause: error.name(),
            count: counter.load(Relaxed),
            what: what.into(),
            cure: error.cure(),
        };
        vec![
            event(&Error::Timeout, &self.timeouts, "requests got no answer from the root in time"),
            event(&Error::Lost, &self.lost, "requests got no answer because the connection to the root was lost"),
            event(&Error::Overloaded, &self.overloaded, "requests were not sent because too many wait for the root"),
            EventCount {
                cause: "refused",
                count: self.refused.load(Relaxed),
                what: format!("requests were refused by the root{refusal}").into(),
                cure: last.as_ref().map_or("see the detail", Error::cure),
            },
            EventCount {
                cause: "root_degraded",
                count: self.degraded.load(Relaxed),
                what: "answers of the root were degraded".into(),
                cure: "see the status of the root: its own store does not answer, or has no room",
            },
        ]
    }

    fn metrics(&self) -> Vec<Metric> {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let errors = [
            ("timeout", &self.timeouts),
            ("lost", &self.lost),
            ("overloaded", &self.overloaded),
            ("refused", &self.refused),
        ];
        vec![
            Metric::gauge(
                "root_connected",
                "1 if there is a connection to the root and it answers",
                self.outage.lock().is_none().into(),
            ),
            Metric::counter("root_requests", "Requests sent to the root", count(&self.requests)),
            Metric::counter("root_connections", "Connections made to the root", count(&self.connections)),
            Metric::counter("root_degraded", "Answers of the root that were degraded", count(&self.degraded)),
            Metric::counter(
                "store_releases_dropped",
                "Dropped holds whose release was not sent",
                count(&self.releases_dropped),
            ),
            Metric::degraded_answers(errors.map(|(cause, counter)| (cause, count(counter)))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Health;
    use crate::error::Error;

    #[test]
    fn the_problem_of_a_policy_lasts_while_it_is_kept() {
        let health = Health::new("root:6380".to_owned());
        let unknown = Error::UnknownPolicy("there is no policy".to_owned());
        health.record(&unknown, Some("removed"));
        health.record(&unknown, Some("kept"));
        health.record_decision(Some("other"), true, false);
        let details = || health.report().degradations.into_iter().skip(1).map(|state| state.detail).collect::<String>();
        health.keep_problems(|_, unrequested| unrequested < Duration::from_secs(3_600));
        assert!(["`kept`, `removed`", "`other`"].iter().all(|name| details().contains(name)), "{}", details());
        health.keep_problems(|name, unrequested| name == "kept" || unrequested < Duration::ZERO);
        assert!(details().contains("the root has no policy `kept`:"), "{}", details());
        assert!(!details().contains("other"), "{}", details());
        assert!(health.has_policy_problem());
        health.keep_problems(|_, _| false);
        assert!(!health.has_policy_problem() && details().is_empty(), "{}", details());
    }

    #[test]
    fn only_an_answer_ends_the_outage_of_a_silent_root() {
        let health = Health::new("root:6380".to_owned());
        health.record_answer();
        assert!(!health.report().answers, "a late answer does not end the lack of a connection");
        health.set_connected(false);
        assert!(health.report().answers);
        health.begin_silence();
        assert!(health.is_silent() && !health.report().answers);
        health.set_outage(Error::Unreachable("the connection was lost".to_owned()));
        health.set_connected(true);
        assert!(!health.report().answers, "a connection is not an answer");
        health.record_answer();
        assert!(health.report().answers && !health.is_silent());
    }
}
