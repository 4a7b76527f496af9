//! [`Logouts`]: logins that a logout has ended before they expired. This process keeps them in memory only.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{LIFETIME_S, Login};

/// Maximum number of ended logins that are listed one by one.
const MAX_LISTED: usize = 10_000;

/// Logins that were ended by a logout.
#[derive(Debug)]
pub(crate) struct Logouts {
    max: usize,
    ended: Mutex<Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    /// The expiry time of each ended login, by its id.
    logins: HashMap<u128, u64>,
    /// All logins that began before this second have ended, too.
    before_s: u64,
}

impl Default for Logouts {
    fn default() -> Self {
        Self { max: MAX_LISTED, ended: Mutex::default() }
    }
}

impl Logouts {
    /// Ends a login. If the list is full, all logins that began before now are ended instead.
    pub(crate) fn end(&self, login: Login, now_s: u64) {
        let mut ended = self.ended.lock();
        let Ended { logins, before_s } = &mut *ended;
        if logins.len() >= self.max {
            logins.retain(|_, ends_s| *ends_s >= now_s);
        }
        logins.insert(login.id, login.ends_s);
        if logins.len() > self.max {
            // Clocks of other nodes may be ahead: logins that are removed from the list must stay ended.
            let newest = logins.values().map(|ends_s| ends_s.saturating_sub(LIFETIME_S)).max();
            *before_s = newest.unwrap_or(0).max(now_s) + 1;
            logins.clear();
            tracing::warn!("too many logouts to list: all logins until now have ended");
        }
    }

    /// Returns whether a login has ended.
    pub(crate) fn has_ended(&self, login: Login, now_s: u64) -> bool {
        let ended = self.ended.lock();
        now_s > login.ends_s
            || login.ends_s.saturating_sub(LIFETIME_S) < ended.before_s
            || ended.logins.contains_key(&login.id)
    }

    /// Returns the begin time that a new login must have, so that it does not count as ended.
    pub(crate) fn begin_s(&self, now_s: u64) -> u64 {
        self.ended.lock().before_s.max(now_s)
    }
}

#[cfg(test)]
mod tests {
    use super::Logouts;
    use crate::auth::{LIFETIME_S, Login};

    #[test]
    fn an_ended_login_stays_ended_when_the_list_overflows() {
        let logouts = Logouts { max: 3, ..Logouts::default() };
        let login = |id: u128, begin: u64| Login { id, ends_s: begin + LIFETIME_S };
        let now = 1_000_000;
        logouts.end(login(0, now), now);
        assert!(logouts.has_ended(login(0, now), now) && !logouts.has_ended(login(1, now), now));
        logouts.end(login(1, now), now);
        // This login began on a node whose clock is ahead.
        logouts.end(login(2, now + 30), now);
        assert!(!logouts.has_ended(login(9, now), now));
        logouts.end(login(3, now), now);
        for id in 0..4 {
            assert!(logouts.has_ended(login(id, now + if id == 2 { 30 } else { 0 }), now), "{id}");
        }
        assert!(logouts.has_ended(login(9, now), now), "the list overflowed, so all logins until now have ended");
        let begin = logouts.begin_s(now);
        assert!(!logouts.has_ended(login(9, begin), now), "a new login is valid");
        assert!(logouts.ended.lock().logins.is_empty());
        assert!(logouts.has_ended(login(9, begin), begin + LIFETIME_S + 1), "it has expired");
    }

    #[test]
    fn expired_logins_make_room_in_the_list() {
        let logouts = Logouts { max: 3, ..Logouts::default() };
        for id in 0..100 {
            let now = 1_000_000 + id * (LIFETIME_S + 1) / 3;
            logouts.end(Login { id: id.into(), ends_s: now + LIFETIME_S }, now);
            assert_eq!(logouts.begin_s(now), now, "nobody else is logged out");
        }
    }
}
