//! [`Shared`]: the state that a node's task shares with its callers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::{Notify, watch};

use super::{Common, micros};
use crate::{
    breaker::Breaker,
    cause::Cause,
    conditions::Conditions,
    error::Error,
    job::Job,
    room::Room,
    server_clock::ServerClock,
    stats::{Counters, count},
    stopwatch,
};

/// A node is crowded if it has at least so many outstanding requests: twice the usual size of a call.
const CROWD: usize = 256;

/// The state that a node's task shares with its callers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) breaker: Breaker,
    pub(crate) conditions: Conditions,
    pub(crate) room: Room,
    pub(super) clock: ServerClock,
    pub(super) tripped: Notify,
    pub(super) connected: watch::Sender<bool>,
    /// Requests that were handed to the task and are not answered yet.
    pub(super) outstanding: Arc<AtomicUsize>,
    /// Whether the server may evict keys.
    pub(super) may_evict: AtomicBool,
    counters: Arc<Counters>,
    /// When the current connection was made, by the stopwatch.
    pub(super) connected_at: AtomicU64,
    /// When the server last answered, by the stopwatch.
    pub(super) answered_at: AtomicU64,
    /// How long the newest batch waited before it was sent, in microseconds.
    waited: AtomicU64,
    /// Maximum time that requests wait for an answer, in microseconds.
    timeout: u64,
}

impl Shared {
    pub(super) fn new(name: String, common: &Common) -> Self {
        Self {
            name,
            breaker: Breaker::new(common.settings.breaker_after),
            conditions: Conditions::default(),
            room: Room::new(common.settings.max_keys),
            clock: ServerClock::default(),
            tripped: Notify::new(),
            connected: watch::Sender::new(false),
            outstanding: Arc::new(AtomicUsize::new(0)),
            may_evict: AtomicBool::new(false),
            counters: Arc::clone(&common.counters),
            connected_at: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            timeout: micros(common.settings.timeout),
        }
    }

    pub(crate) fn may_evict(&self) -> bool {
        self.may_evict.load(Relaxed)
    }

    /// Whether so many requests are outstanding that a late answer is no sign of an outage.
    pub(crate) fn is_crowded(&self) -> bool {
        self.outstanding.load(Relaxed) >= CROWD
    }

    /// Whether requests wait long before they are sent. Then remembered denials are used without asking Redis.
    #[inline]
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.is_crowded() && self.waited.load(Relaxed) >= self.timeout / 4
    }

    /// Records how long a request has waited that is about to be sent.
    pub(super) fn note_wait(&self, deadline: u64) {
        self.waited.store(self.waited(deadline), Relaxed);
    }

    /// How long a request with this deadline has waited.
    fn waited(&self, deadline: u64) -> u64 {
        stopwatch::micros().saturating_sub(deadline.saturating_sub(self.timeout))
    }

    /// Whether a request is shed rather than sent. Only decisions are: nothing else decides on a refund, reset or override.
    pub(super) fn sheds(&self, job: &Job) -> bool {
        let may_be_shed = job.given.is_none() && job.group.is_decision();
        may_be_shed && self.is_crowded() && self.waited(job.deadline) >= self.timeout / 2
    }

    /// Whether an answer that took this many microseconds is in time.
    pub(super) fn is_in_time(&self, took: u64) -> bool {
        took <= self.timeout
    }

    /// Whether a probe that took this many microseconds is fast enough for a server that was too slow.
    pub(super) fn is_fast(&self, took: u64) -> bool {
        took <= self.timeout / 2
    }

    /// Whether the server has answered nothing for three timeouts.
    fn is_silent(&self) -> bool {
        let heard_at = self.connected_at.load(Relaxed).max(self.answered_at.load(Relaxed));
        stopwatch::micros().saturating_sub(heard_at) >= self.timeout.saturating_mul(3)
    }

    /// Records that a request sent at `since` got no answer in time. Returns the reason.
    pub(crate) fn timed_out(&self, since: u64) -> Error {
        let silent = self.is_silent();
        // A request over an earlier connection says nothing about this connection.
        if since >= self.connected_at.load(Relaxed) && self.breaker.failed(silent) {
            self.note_opened(Cause::Unreachable, "requests got no answer in time");
            self.tripped.notify_one();
        }
        self.late(Error::Timeout, silent)
    }

    /// Why a request came too late: if the node is crowded, it is overload, unless the server is silent.
    pub(crate) fn why_late(&self) -> Error {
        self.late(Error::Late, self.is_silent())
    }

    fn late(&self, otherwise: Error, silent: bool) -> Error {
        if self.is_crowded() && !silent { Error::Overloaded } else { otherwise }
    }

    /// Why requests are refused while the breaker is open.
    pub(crate) fn refusal(&self) -> Error {
        if self.breaker.answers_late() { Error::TooSlow } else { Error::Unreachable }
    }

    /// Records a request that failed.
    pub(crate) fn note_failed(&self, trouble: &Error) {
        if *trouble == Error::OutOfMemory {
            self.room.memory_ran_out();
        }
        // While the breaker is open, only the cause that opened it is reported.
        if self.breaker.lets_through() {
            self.conditions.note(trouble.cause(), || trouble.to_string());
        }
    }

    /// Opens the breaker because this trouble prevents a connection.
    pub(super) fn open_breaker(&self, trouble: &Error) {
        let cause = match trouble {
            Error::Lost | Error::Timeout | Error::Late => Cause::Unreachable,
            named => named.cause(),
        };
        if self.breaker.open() {
            count(&self.counters.breaker_opened);
        }
        // There may never have been a connection to lose.
        let why = if *trouble == Error::Lost { &Error::Unreachable } else { trouble };
        self.hold(cause, &why.to_string());
    }

    /// Opens the breaker because answers come too late.
    pub(super) fn open_slow(&self, took: u64) {
        if self.breaker.open_slow() {
            self.note_opened(Cause::TooSlow, &self.describe_slow(took));
            self.tripped.notify_one();
        }
    }

    /// Keeps the breaker open because a probe was answered too late.
    pub(super) fn stay_open_slow(&self, took: u64) {
        self.breaker.mark_slow();
        self.hold(Cause::TooSlow, &self.describe_slow(took));
    }

    fn describe_slow(&self, took: u64) -> String {
        let (took, timeout) = (took / 1000, self.timeout / 1000);
        format!("answers take too long for the timeout of {timeout} ms, the last one {took} ms")
    }

    /// Records that the breaker has opened.
    pub(super) fn note_opened(&self, cause: Cause, why: &str) {
        count(&self.counters.breaker_opened);
        self.hold(cause, why);
    }

    fn hold(&self, cause: Cause, why: &str) {
        self.release_but(Some(cause));
        self.conditions.hold(cause, || why.to_owned());
    }

    /// Closes the breaker, and ends the states that were held because of it.
    pub(super) fn close_breaker(&self) {
        if self.breaker.close() {
            count(&self.counters.breaker_closed);
        }
        self.release_but(None);
    }

    fn release_but(&self, kept: Option<Cause>) {
        for cause in Cause::ALL.into_iter().filter(|cause| Some(*cause) != kept && *cause != Cause::MayEvict) {
            self.conditions.release(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, atomic::Ordering::Relaxed},
        time::Duration,
    };

    use tidegate::{Cost, Op, Policy};
    use tokio::sync::oneshot;

    use super::{CROWD, Common, Shared};
    use crate::{
        job::Job,
        script::Source,
        settings::Settings,
        stats::Counters,
        target::Target,
        wire::{Action, Group, NewKeys, Part},
    };

    fn job(action: Action) -> Job {
        let policy = Policy::new("p", ["5/1s".parse().expect("a limit")]).expect("a policy");
        let parts = vec![Part::new(b"key".to_vec(), &policy, Cost::ONE, None)];
        let group = Group { action, parts, deadline: 0, new_keys: NewKeys::Always };
        let (answer, _) = oneshot::channel();
        Job { group, slot: 0, given: None, deadline: 0, asking: false, alone: false, answer, outstanding: None }
    }

    #[test]
    fn only_decisions_are_shed_from_a_crowd() {
        let (_, login) = Target::parse("redis://127.0.0.1", None).expect("a URL");
        // Every request has waited for half of no time.
        let settings = Settings { timeout: Duration::ZERO, ..Settings::default() };
        let counters = Arc::new(Counters::default());
        let common = Common { source: Source::new(None), settings, login, counters, is_cluster: false };
        let shared = Shared::new("n".to_owned(), &common);
        assert!(!shared.sheds(&job(Action::Decide(Op::Check))), "there is no crowd");
        shared.outstanding.store(CROWD, Relaxed);
        assert!(shared.sheds(&job(Action::Decide(Op::Check))));
        for action in [Action::Refund, Action::Reset, Action::Inspect] {
            assert!(!shared.sheds(&job(action)), "{action:?}");
        }
    }
}
