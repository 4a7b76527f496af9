//! What a call brought: answers, or a reason to ask again, elsewhere or not at all.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use redis::{Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{Driver, Place, micros, sending::Returned};
use crate::{
    cause::Cause,
    error::Error,
    job::{Answer, Job},
    reply::{Status, read_reply},
    stats::count,
    stopwatch,
    target::Address,
};

/// How long to wait before sending again what a cluster could not take just now.
const AGAIN_AFTER: Duration = Duration::from_millis(3);

impl Driver {
    /// Hands out what a call brought; whether the connection is lost.
    pub(super) async fn settle(&mut self, returned: Returned, connection: &MultiplexedConnection) -> bool {
        let Returned { jobs, asked, result, replicated } = returned;
        let error = match result {
            Ok(Value::BulkString(reply)) => return self.hand_out(jobs, asked, reply, replicated),
            Ok(_) => return fail_all(jobs, &Error::Garbled),
            Err(error) => error,
        };
        if error.code().is_some_and(|code| code != "LOADING") {
            // An error is an answer, too.
            self.shared.answered_at.store(stopwatch::micros(), Relaxed);
            self.shared.breaker.succeeded();
        }
        match error.code() {
            Some("NOSCRIPT") => {
                let mut connection = connection.clone();
                let loaded = timeout(self.common.settings.connect_timeout, self.load_script(&mut connection)).await;
                if let Err(trouble) = loaded.unwrap_or(Err(Error::Lost)) {
                    return fail_all(jobs, &trouble) || trouble == Error::Lost;
                }
                self.send_again(jobs);
                false
            }
            Some(code @ ("MOVED" | "ASK")) if self.common.is_cluster => {
                let to = error.redirect_node().and_then(|(to, _)| match &self.place {
                    Place::Fixed(from) => Address::redirected(to, from),
                    Place::Sentinel { .. } => None,
                });
                match (self.router.upgrade(), to) {
                    (Some(router), Some(to)) => {
                        for mut job in jobs {
                            count(&self.common.counters.sent_again);
                            job.asking = code == "ASK";
                            router.redirect(job, &to);
                        }
                        false
                    }
                    _ => fail_all(jobs, &Error::Refused(error.to_string())),
                }
            }
            Some("TRYAGAIN") if jobs.len() > 1 => {
                // Some of the keys are at one node and some at the other: each has to be asked for where it is.
                let alone = jobs.into_iter().map(|job| Job { alone: true, ..job });
                self.send_again(alone.collect());
                false
            }
            Some("TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN") => {
                self.refresh();
                self.send_later(jobs, &Error::from_error(&error));
                false
            }
            Some("READONLY") => {
                self.send_again(jobs);
                true
            }
            Some("LOADING") => {
                if self.shared.breaker.failed(true) {
                    self.shared.note_opened(Cause::Loading, "redis is loading its data set");
                    self.shared.tripped.notify_one();
                }
                fail_all(jobs, &Error::Loading)
            }
            _ => {
                let trouble = Error::from_error(&error);
                fail_all(jobs, &trouble) || trouble == Error::Lost
            }
        }
    }

    /// Answers each request of a batch; whether the connection is of no use any more.
    fn hand_out(&mut self, jobs: Vec<Job>, asked: u64, reply: Vec<u8>, replicated: bool) -> bool {
        let read = read_reply(&reply, jobs.iter().map(|job| &job.group));
        let Ok((now, statuses)) = read else { return fail_all(jobs, &Error::Garbled) };
        let heard = stopwatch::micros();
        self.shared.clock.note(asked, heard, now);
        self.shared.answered_at.store(heard, Relaxed);
        self.shared.breaker.succeeded();
        self.note_pace(asked, heard);
        let reply = Arc::new(reply);
        let (mut read_only, mut succeeded) = (false, false);
        for (job, status) in jobs.into_iter().zip(statuses) {
            match status {
                Status::Done(range) => {
                    succeeded = true;
                    if !replicated && job.group.has_charged(&reply[range.clone()]) {
                        count(&self.common.counters.unreplicated);
                    }
                    let _ = job.answer.send(Ok(Answer { reply: Arc::clone(&reply), range, no_room: false }));
                }
                Status::NoRoom(range) => {
                    let _ = job.answer.send(Ok(Answer { reply: Arc::clone(&reply), range, no_room: true }));
                }
                // The server's clock was taken for another than it is; now it is known.
                Status::Late if !job.is_late() => self.send_again(vec![job]),
                Status::Late => job.fail(self.shared.why_late()),
                Status::Failed(Error::ReadOnly) => {
                    read_only = true;
                    self.send_again(vec![job]);
                }
                Status::Failed(trouble) => job.fail(trouble),
            }
        }
        if succeeded {
            self.shared.conditions.succeeded(heard);
        }
        read_only
    }

    fn send_again(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            if job.is_late() {
                job.fail(Error::Timeout);
            } else {
                count(&self.common.counters.sent_again);
                self.again.push(job);
            }
        }
    }

    /// Sends again after a little while, wherever the slot is then. What would hardly be answered in time any more fails by
    /// its name: to its caller it would be a timeout, and to the breaker, too.
    fn send_later(&self, jobs: Vec<Job>, trouble: &Error) {
        let due = stopwatch::micros() + 2 * micros(AGAIN_AFTER);
        let (jobs, late): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.deadline > due);
        fail_all(late, trouble);
        let (router, counters) = (self.router.clone(), Arc::clone(&self.common.counters));
        let trouble = trouble.clone();
        tokio::spawn(async move {
            stopwatch::pause(AGAIN_AFTER).await;
            let router = router.upgrade();
            for job in jobs {
                match &router {
                    Some(router) if !job.is_late() => {
                        count(&counters.sent_again);
                        router.submit(Job { asking: false, ..job });
                    }
                    _ => job.fail(trouble.clone()),
                }
            }
        });
    }
}

fn fail_all(jobs: Vec<Job>, trouble: &Error) -> bool {
    for job in jobs {
        job.fail(trouble.clone());
    }
    false
}
