//! Regular checks of a server: how many keys it has, how much memory it uses, and whether it may evict keys.

use std::{future::Future, sync::atomic::Ordering::Relaxed, time::Duration};

use redis::{Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{NodeTask, calls};
use crate::{
    error::{Cause, Error},
    stopwatch::{self, to_micros},
};

/// How often a server is checked while requests are sent to it.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);
/// After this many intervals a server is checked even if no requests were sent.
pub(super) const IDLE_TICKS: u32 = 20;
/// Minimum timeout of a check. After the timeout the connection counts as lost.
const MIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How many probes in a row must be fast before requests are sent again to a server that was too slow.
const FAST_PROBES: usize = 3;

/// The result of a check.
pub(super) struct HealthReport {
    sent_at: u64,
    received_at: u64,
    /// The count of created keys ([`Keyspace::created`](crate::keyspace::Keyspace::created)) when the check began.
    created: u64,
    /// The sections `memory` and `keyspace` of INFO, or why the server did not return them.
    info: Result<String, String>,
    /// Whether the connection is lost.
    lost: bool,
}

impl NodeTask {
    /// Checks a server.
    pub(super) fn check_health(
        &self,
        mut connection: MultiplexedConnection,
    ) -> impl Future<Output = HealthReport> + use<> {
        let created = self.state.keyspace.created();
        let max_time = MIN_TIMEOUT.max(self.context.settings.timeout.saturating_mul(3));
        async move {
            let sent_at = stopwatch::micros();
            let mut info = redis::pipe();
            info.cmd("INFO").arg("memory").cmd("INFO").arg("keyspace");
            let replies = timeout(max_time, connection.send_packed_commands(&info, 0, 2)).await;
            let text = |reply: Value| match reply.extract_error() {
                Ok(Value::BulkString(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
                Ok(_) => Err("the answer is not a string".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            let replies = replies.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
            let lost = replies.as_ref().is_err_and(|error| Error::from_error(error) == Error::Lost);
            let replies = replies.map_err(|error| error.to_string());
            let info = replies.and_then(|replies| replies.into_iter().map(text).collect::<Result<Vec<_>, _>>());
            HealthReport {
                sent_at,
                received_at: stopwatch::micros(),
                created,
                info: info.map(|sections| sections.join("\n")),
                lost,
            }
        }
    }

    /// Records the result of a check. Returns whether the connection is lost.
    pub(super) fn record_health(&mut self, report: HealthReport) -> bool {
        let info = match report.info {
            Ok(info) => info,
            Err(_) if report.lost => return true,
            Err(error) => {
                self.state.keyspace.record_failed_check();
                let why = || format!("INFO failed, so max_keys and maxmemory are not observed: {error}");
                self.state.degraded_states.begin(Cause::NoPermission, why);
                return false;
            }
        };
        self.state.degraded_states.end(Cause::NoPermission);
        self.record_response_time(report.sent_at, report.received_at);
        let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let (used, max) = (number("used_memory"), number("maxmemory"));
        let may_evict = self.record_eviction_policy(field("maxmemory_policy"));
        let database = format!("db{}", self.context.login.settings.db());
        let keys = field(&database).and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok());
        let is_short = max > 0 && !may_evict && used >= max - max / 20;
        self.state.keyspace.record_check(keys.unwrap_or(0), is_short, report.created);
        false
    }

    /// Records the eviction policy. Returns whether the server may evict keys.
    pub(super) fn record_eviction_policy(&self, policy: Option<&str>) -> bool {
        let may_evict = policy.is_some_and(|policy| policy != "noeviction");
        self.state.may_evict.store(may_evict, Relaxed);
        if may_evict {
            let policy = policy.unwrap_or_default();
            let why = || {
                format!("redis may evict keys, and evicted keys lose their used units: maxmemory-policy is {policy}")
            };
            self.state.degraded_states.begin(Cause::MayEvict, why);
        } else {
            self.state.degraded_states.end(Cause::MayEvict);
        }
        may_evict
    }

    /// Records how long an answer took, and opens the breaker if most answers come too late.
    pub(super) fn record_response_time(&mut self, sent_at: u64, received_at: u64) {
        let took = received_at.saturating_sub(sent_at);
        if self.response_times.record(received_at, took <= self.state.timeout, self.state.is_busy()) {
            self.state.open_slow(took);
        }
    }

    /// If the breaker is open, waits until a probe is answered in time, or, if the server was too slow, until several
    /// probes in a row are answered well within the timeout. Returns whether the connection can be used.
    pub(super) async fn wait_until_fast(&mut self, mut connection: MultiplexedConnection) -> bool {
        let probe = calls::empty_call(&self.context.source);
        let interval = to_micros(self.context.settings.probe_interval);
        while !self.state.breaker.is_closed() {
            let began = stopwatch::micros();
            let was_slow = self.state.breaker.is_slow();
            let timeout_us = self.state.timeout;
            let (needed, max_time) = if was_slow { (FAST_PROBES, timeout_us / 2) } else { (1, timeout_us) };
            let mut fast = 0;
            while fast < needed {
                let sent_at = stopwatch::micros();
                let Ok(Ok(_)) = timeout(MIN_TIMEOUT, connection.send_packed_command(&probe)).await else {
                    return false;
                };
                let took = stopwatch::micros().saturating_sub(sent_at);
                if took > max_time {
                    self.state.stay_open_slow(took);
                    break;
                }
                fast += 1;
            }
            if fast == needed {
                return true;
            }
            if self.requests.is_closed() {
                return false;
            }
            self.refuse_until(began.saturating_add(interval)).await;
        }
        true
    }
}
