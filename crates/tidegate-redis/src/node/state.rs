//! [`NodeState`]: the state that a node's task shares with its callers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use tokio::sync::{Notify, watch};

use super::NodeContext;
use crate::{
    breaker::Breaker,
    degraded_states::DegradedStates,
    error::{Cause, Error},
    keyspace::Keyspace,
    pending_request::PendingRequest,
    server_clock::ServerClock,
    stats::{Counters, count},
    stopwatch::{self, to_micros},
};

/// A node is busy if it has at least this many outstanding requests: twice the usual size of a call.
const MANY_OUTSTANDING: usize = 256;

/// The state that a node's task shares with its callers.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) name: String,
    pub(crate) breaker: Breaker,
    pub(crate) degraded_states: DegradedStates,
    pub(crate) keyspace: Keyspace,
    pub(super) clock: ServerClock,
    pub(super) breaker_opened: Notify,
    pub(super) connected: watch::Sender<bool>,
    /// Each request that was submitted and is not answered yet has a reference.
    pub(super) outstanding: Arc<()>,
    /// Whether the server may evict keys.
    pub(crate) may_evict: AtomicBool,
    counters: Arc<Counters>,
    /// When the current connection was opened, by the stopwatch.
    pub(super) connected_at: AtomicU64,
    /// When the server last answered, by the stopwatch.
    pub(super) answered_at: AtomicU64,
    /// How long the newest batch waited before it was sent, in microseconds.
    waited: AtomicU64,
    /// Maximum time that requests wait for an answer, in microseconds.
    pub(super) timeout: u64,
}

impl NodeState {
    pub(super) fn new(name: String, context: &NodeContext) -> Self {
        Self {
            name,
            breaker: Breaker::new(context.settings.breaker_after),
            keyspace: Keyspace::new(context.settings.max_keys),
            counters: Arc::clone(&context.counters),
            timeout: to_micros(context.settings.timeout),
            ..Self::default()
        }
    }

    /// Whether many requests are outstanding. Then a late answer is not a sign of an outage.
    pub(crate) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.outstanding) > MANY_OUTSTANDING
    }

    /// Whether requests wait long before they are sent. Then remembered denials are used without a request to Redis.
    #[inline]
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.is_busy() && self.waited.load(Relaxed) >= self.timeout / 4
    }

    /// Records how long a request has waited, just before it is sent.
    pub(super) fn record_wait(&self, deadline: u64) {
        self.waited.store(self.waited(deadline), Relaxed);
    }

    /// How long a request with this deadline has waited.
    fn waited(&self, deadline: u64) -> u64 {
        stopwatch::micros().saturating_sub(deadline.saturating_sub(self.timeout))
    }

    /// Whether a request must be shed. Only decisions are shed, because nothing can replace a refund, reset or override.
    pub(super) fn must_shed(&self, request: &PendingRequest) -> bool {
        let may_be_shed = request.given.is_none() && request.group.is_decision();
        may_be_shed && self.is_busy() && self.waited(request.deadline) >= self.timeout / 2
    }

    /// Whether the server has sent no answer for three timeouts.
    fn is_silent(&self) -> bool {
        let last_answer = self.connected_at.load(Relaxed).max(self.answered_at.load(Relaxed));
        stopwatch::micros().saturating_sub(last_answer) >= self.timeout.saturating_mul(3)
    }

    /// Records that a request sent at `since` got no answer in time. Returns the reason.
    pub(crate) fn timed_out(&self, since: u64) -> Error {
        let silent = self.is_silent();
        // A request over an earlier connection does not count against this connection.
        if since >= self.connected_at.load(Relaxed) && self.breaker.record_failure(silent) {
            self.record_opened(Cause::Unreachable, "requests got no answer in time");
        }
        self.late(Error::Timeout, silent)
    }

    /// Why a request came too late: if the node is busy, it is overload, unless the server is silent.
    pub(crate) fn why_late(&self) -> Error {
        self.late(Error::Late, self.is_silent())
    }

    fn late(&self, otherwise: Error, silent: bool) -> Error {
        if self.is_busy() && !silent { Error::Overloaded } else { otherwise }
    }

    /// Why requests are refused while the breaker is open.
    pub(crate) fn refusal(&self) -> Error {
        if self.breaker.answers_late() { Error::TooSlow } else { Error::Unreachable }
    }

    /// Records a request that failed.
    pub(crate) fn record_error(&self, error: &Error) {
        if *error == Error::OutOfMemory {
            self.keyspace.record_out_of_memory();
        }
        // While the breaker is open, only the cause that opened it is reported.
        if self.breaker.is_closed() {
            self.degraded_states.record(error.cause(), || error.to_string());
        }
    }

    /// Opens the breaker because this error prevents a connection.
    pub(super) fn open_breaker(&self, error: &Error) {
        let cause = match error {
            Error::Lost | Error::Timeout | Error::Late => Cause::Unreachable,
            named => named.cause(),
        };
        if self.breaker.open() {
            count(&self.counters.breaker_opened);
        }
        // Maybe no connection ever existed.
        let why = if *error == Error::Lost { &Error::Unreachable } else { error };
        self.begin(cause, &why.to_string());
    }

    /// Opens the breaker because answers come too late.
    pub(super) fn open_slow(&self, took: u64) {
        if self.breaker.open_slow() {
            self.record_opened(Cause::TooSlow, &self.describe_slow(took));
        }
    }

    /// Keeps the breaker open because a probe was answered too late.
    pub(super) fn stay_open_slow(&self, took: u64) {
        self.breaker.mark_slow();
        self.begin(Cause::TooSlow, &self.describe_slow(took));
    }

    fn describe_slow(&self, took: u64) -> String {
        let (took, timeout) = (took / 1000, self.timeout / 1000);
        format!("answers take too long for the timeout of {timeout} ms, the last one {took} ms")
    }

    /// Records that the breaker has opened, and notifies the node's task.
    pub(super) fn record_opened(&self, cause: Cause, why: &str) {
        count(&self.counters.breaker_opened);
        self.begin(cause, why);
        self.breaker_opened.notify_one();
    }

    fn begin(&self, cause: Cause, why: &str) {
        self.end_others(Some(cause));
        self.degraded_states.begin(cause, || why.to_owned());
    }

    /// Closes the breaker, and ends the lasting states that it began.
    pub(super) fn close_breaker(&self) {
        if self.breaker.close() {
            count(&self.counters.breaker_closed);
        }
        self.end_others(None);
    }

    fn end_others(&self, kept: Option<Cause>) {
        for cause in Cause::ALL.into_iter().filter(|cause| Some(*cause) != kept && *cause != Cause::MayEvict) {
            self.degraded_states.end(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tidegate::Op;

    use super::{MANY_OUTSTANDING, NodeContext, NodeState};
    use crate::{
        pending_request::PendingRequest,
        script::Source,
        settings::Settings,
        stats::Counters,
        target::Target,
        wire::{Action, Group},
    };

    fn request(action: Action) -> PendingRequest {
        PendingRequest::new(Group::with_one_key(action, "key", 1), None, 0).0
    }

    #[test]
    fn only_decisions_are_shed_while_many_requests_are_outstanding() {
        let (_, login) = Target::parse("redis://127.0.0.1", None).expect("a URL");
        // With a timeout of zero every request has waited for half of it.
        let settings = Settings { timeout: Duration::ZERO, ..Settings::default() };
        let counters = Arc::new(Counters::default());
        let context = NodeContext { source: Source::new(None), settings, login, counters, is_cluster: false };
        let state = NodeState::new("n".to_owned(), &context);
        assert!(!state.must_shed(&request(Action::Decide(Op::Check))), "few requests are outstanding");
        let _outstanding = vec![Arc::clone(&state.outstanding); MANY_OUTSTANDING];
        assert!(state.must_shed(&request(Action::Decide(Op::Check))));
        for action in [Action::Refund, Action::Reset, Action::Inspect] {
            assert!(!state.must_shed(&request(action)), "{action:?}");
        }
    }
}
