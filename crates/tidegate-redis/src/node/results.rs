//! The results of calls: replies to requests, or errors after which requests fail or are sent again.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use redis::{Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{NodeTask, calls::CompletedCall};
use crate::{
    error::{Cause, Error},
    pending_request::{GroupReply, PendingRequest},
    reply::{CallReply, Status, read_reply},
    stats::count,
    stopwatch::{self, to_micros},
    target::{Address, ServerLocation},
};

/// How long to wait before sending requests again that a cluster could not execute.
const RETRY_DELAY: Duration = Duration::from_millis(3);

impl NodeTask {
    /// Answers the requests of a call, or sends them again. Returns whether the connection is lost.
    pub(super) async fn handle_result(&mut self, completed: CompletedCall, connection: &MultiplexedConnection) -> bool {
        let CompletedCall { requests, sent_at, result, replicated } = completed;
        let error = match result {
            Ok(Value::BulkString(reply)) => return self.deliver_replies(requests, sent_at, reply, replicated),
            Ok(_) => return fail_all(requests, &Error::Garbled),
            Err(error) => error,
        };
        if error.code().is_some_and(|code| code != "LOADING") {
            // An error is also an answer.
            self.state.answered_at.store(stopwatch::micros(), Relaxed);
            self.state.breaker.record_success();
        }
        match error.code() {
            Some("NOSCRIPT") => {
                let mut connection = connection.clone();
                let loaded = timeout(self.context.settings.connect_timeout, self.load_script(&mut connection)).await;
                if let Err(error) = loaded.unwrap_or(Err(Error::Lost)) {
                    return fail_all(requests, &error) || error == Error::Lost;
                }
                self.retry(requests);
                false
            }
            Some(code @ ("MOVED" | "ASK")) if self.context.is_cluster => {
                let to = error.redirect_node().and_then(|(to, _)| match &self.location {
                    ServerLocation::Fixed(from) => Address::redirected(to, from),
                    ServerLocation::Sentinel { .. } => None,
                });
                match (self.router.upgrade(), to) {
                    (Some(router), Some(to)) => {
                        for mut request in requests {
                            count(&self.context.counters.sent_again);
                            request.asking = code == "ASK";
                            router.redirect(request, &to);
                        }
                        false
                    }
                    _ => fail_all(requests, &Error::Refused(error.to_string())),
                }
            }
            Some("TRYAGAIN") if requests.len() > 1 => {
                // Some of the keys are at one node and some at the other, so each request needs a call of its own.
                let alone = requests.into_iter().map(|request| PendingRequest { alone: true, ..request });
                self.retry(alone.collect());
                false
            }
            Some("TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN") => {
                self.refresh();
                self.retry_later(requests, &Error::from_error(&error));
                false
            }
            Some("READONLY") => {
                self.retry(requests);
                true
            }
            Some("LOADING") => {
                if self.state.breaker.record_failure(true) {
                    self.state.record_opened(Cause::Loading, "redis is loading its data set");
                }
                fail_all(requests, &Error::Loading)
            }
            _ => {
                let error = Error::from_error(&error);
                fail_all(requests, &error) || error == Error::Lost
            }
        }
    }

    /// Answers each request of a call. Returns whether the server is read-only, so that the connection is useless.
    fn deliver_replies(
        &mut self,
        requests: Vec<PendingRequest>,
        sent_at: u64,
        reply: Vec<u8>,
        replicated: bool,
    ) -> bool {
        let read = read_reply(&reply, requests.iter().map(|request| &request.group));
        let Ok(CallReply { now, statuses, ended }) = read else { return fail_all(requests, &Error::Garbled) };
        self.context.counters.reservations_ended.fetch_add(ended, Relaxed);
        let received_at = stopwatch::micros();
        self.state.clock.record(sent_at, received_at, now);
        self.state.answered_at.store(received_at, Relaxed);
        self.state.breaker.record_success();
        self.record_response_time(sent_at, received_at);
        let reply = Arc::new(reply);
        let (mut read_only, mut any_done) = (false, false);
        for (request, status) in requests.into_iter().zip(statuses) {
            match status {
                Status::Answered { range, no_room } => {
                    any_done |= !no_room;
                    if !no_room && !replicated && request.group.has_charged(&reply[range.clone()]) {
                        count(&self.context.counters.unreplicated);
                    }
                    let _ = request.reply_to.send(Ok(GroupReply { reply: Arc::clone(&reply), range, no_room }));
                }
                // The estimate of the server's clock was wrong. The reply has corrected it.
                Status::Late if !request.is_late() => self.retry(vec![request]),
                Status::Late => request.fail(self.state.why_late()),
                Status::Failed(Error::ReadOnly) => {
                    read_only = true;
                    self.retry(vec![request]);
                }
                Status::Failed(error) => request.fail(error),
            }
        }
        if any_done {
            self.state.degraded_states.record_success(received_at);
        }
        read_only
    }

    fn retry(&mut self, requests: Vec<PendingRequest>) {
        for request in requests {
            if request.is_late() {
                request.fail(Error::Timeout);
            } else {
                count(&self.context.counters.sent_again);
                self.retries.push(request);
            }
        }
    }

    /// Sends requests again after a short delay, to the node that has the slot then. A request that would hardly be answered in
    /// time fails with `error`; otherwise its caller and the breaker would see a timeout.
    fn retry_later(&self, requests: Vec<PendingRequest>, error: &Error) {
        let due = stopwatch::micros() + 2 * to_micros(RETRY_DELAY);
        let (requests, late): (Vec<PendingRequest>, Vec<PendingRequest>) =
            requests.into_iter().partition(|request| request.deadline > due);
        fail_all(late, error);
        let (router, counters) = (self.router.clone(), Arc::clone(&self.context.counters));
        let error = error.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETRY_DELAY).await;
            let router = router.upgrade();
            for request in requests {
                match &router {
                    Some(router) if !request.is_late() => {
                        count(&counters.sent_again);
                        router.submit(PendingRequest { asking: false, ..request });
                    }
                    _ => request.fail(error.clone()),
                }
            }
        });
    }
}

fn fail_all(requests: Vec<PendingRequest>, error: &Error) -> bool {
    for request in requests {
        request.fail(error.clone());
    }
    false
}
