//! Regular checks of a server: how many keys it has, how much memory it uses, and whether it may evict keys.

use std::{future::Future, sync::atomic::Ordering::Relaxed, time::Duration};

use redis::{Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{Driver, sending};
use crate::{cause::Cause, error::Error, stopwatch};

/// How often a server is checked while requests are sent to it.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);
/// After so many intervals a server is checked even if no requests were sent.
pub(super) const QUIET_TICKS: u32 = 20;
/// Minimum timeout of a check. After the timeout the connection counts as lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many probes in a row must be fast before a server that was too slow is asked again.
const FAST_PROBES: usize = 3;

/// The result of a check.
pub(super) struct Seen {
    asked: u64,
    heard: u64,
    /// The count of created keys ([`Room::made`](crate::room::Room::made)) when the server was asked.
    made: u64,
    /// The sections `memory` and `keyspace` of INFO, or why the server did not return them.
    info: Result<String, String>,
    /// Whether the connection is lost.
    lost: bool,
}

impl Driver {
    /// Checks a server.
    pub(super) fn look(&self, mut connection: MultiplexedConnection) -> impl Future<Output = Seen> + use<> {
        let made = self.shared.room.made();
        let patience = PATIENCE.max(self.common.settings.timeout.saturating_mul(3));
        async move {
            let asked = stopwatch::micros();
            let mut info = redis::pipe();
            info.cmd("INFO").arg("memory").cmd("INFO").arg("keyspace");
            let replies = timeout(patience, connection.send_packed_commands(&info, 0, 2)).await;
            let text = |reply: Value| match reply.extract_error() {
                Ok(Value::BulkString(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
                Ok(_) => Err("the reply is not a text".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            let told = replies.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
            let lost = told.as_ref().is_err_and(|error| Error::from_error(error) == Error::Lost);
            let told = told.map_err(|error| error.to_string());
            let info = told.and_then(|replies| replies.into_iter().map(text).collect::<Result<Vec<_>, _>>());
            Seen { asked, heard: stopwatch::micros(), made, info: info.map(|sections| sections.join("\n")), lost }
        }
    }

    /// Records the result of a check. Returns whether the connection is lost.
    pub(super) fn note_look(&mut self, seen: Seen) -> bool {
        let info = match seen.info {
            Ok(info) => info,
            Err(_) if seen.lost => return true,
            Err(error) => {
                self.shared.room.not_looked();
                let why = || format!("INFO can't be read, so max_keys and maxmemory are not observed: {error}");
                self.shared.conditions.hold(Cause::NoPermission, why);
                return false;
            }
        };
        self.shared.conditions.release(Cause::NoPermission);
        self.note_pace(seen.asked, seen.heard);
        let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let (used, max) = (number("used_memory"), number("maxmemory"));
        let may_evict = self.note_eviction(field("maxmemory_policy"));
        let database = format!("db{}", self.common.login.database());
        let keys = field(&database).and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok());
        let is_short = max > 0 && !may_evict && used >= max - max / 20;
        self.shared.room.looked(keys.unwrap_or(0), is_short, seen.made);
        false
    }

    /// Records the eviction policy. Returns whether the server may evict keys.
    pub(super) fn note_eviction(&self, policy: Option<&str>) -> bool {
        let may_evict = policy.is_some_and(|policy| policy != "noeviction");
        self.shared.may_evict.store(may_evict, Relaxed);
        if may_evict {
            let policy = policy.unwrap_or_default();
            let why = || {
                format!("redis may evict keys, and evicted keys lose their used units: maxmemory-policy is {policy}")
            };
            self.shared.conditions.hold(Cause::MayEvict, why);
        } else {
            self.shared.conditions.release(Cause::MayEvict);
        }
        may_evict
    }

    /// Records how long an answer took, and opens the breaker if most answers come too late.
    pub(super) fn note_pace(&mut self, asked: u64, heard: u64) {
        let took = heard.saturating_sub(asked);
        if self.pace.note(heard, self.shared.is_in_time(took), self.shared.is_crowded()) {
            self.shared.open_slow(took);
        }
    }

    /// If the breaker is open, waits until a probe is answered in time, or, if the server was too slow, until several
    /// probes in a row are answered well within the timeout. Returns whether the connection can be used.
    pub(super) async fn wait_until_fast(&mut self, mut connection: MultiplexedConnection) -> bool {
        let probe = sending::of_nothing(&self.common.source);
        let interval = super::micros(self.common.settings.probe_interval);
        while !self.shared.breaker.lets_through() {
            let began = stopwatch::micros();
            let was_slow = self.shared.breaker.is_slow();
            let (needed, mut fast) = (if was_slow { FAST_PROBES } else { 1 }, 0);
            while fast < needed {
                let asked = stopwatch::micros();
                let Ok(Ok(_)) = timeout(PATIENCE, connection.send_packed_command(&probe)).await else { return false };
                let took = stopwatch::micros().saturating_sub(asked);
                let is_fast = if was_slow { self.shared.is_fast(took) } else { self.shared.is_in_time(took) };
                if !is_fast {
                    self.shared.stay_open_slow(took);
                    break;
                }
                fast += 1;
            }
            if fast == needed {
                return true;
            }
            if self.jobs.is_closed() {
                return false;
            }
            self.refuse_until(began.saturating_add(interval)).await;
        }
        true
    }
}
