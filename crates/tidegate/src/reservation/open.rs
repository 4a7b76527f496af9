//! [`Reservations`]: the open reservations of one key under one policy.

#![expect(clippy::cast_possible_truncation, reason = "parts of a longer number")]

use std::{collections::VecDeque, sync::Arc};

use super::{AtEnd, OpenReservation, releases::Releases};
use crate::{
    algorithms::{LimitState, Release, sliding_buckets::bucket},
    layout::Grid,
    timestamp::Timestamp,
};

/// The maximum number of reservations that an inspection lists.
const MAX_LISTED: usize = 1000;

/// What a reservation is, and what happens at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A hold that gives its units back at its end.
    ReleasedHold,
    /// A hold whose units stay spent at its end.
    SpentHold,
    /// A lease. It is charged at its end.
    Lease,
}

impl Kind {
    pub(crate) fn of_hold(at_end: AtEnd) -> Self {
        match at_end {
            AtEnd::Released => Self::ReleasedHold,
            AtEnd::Spent => Self::SpentHold,
        }
    }
}

/// The random number of a reservation, as two halves: as one number it would need a larger alignment.
pub(crate) type Nonce = [u64; 2];

/// Where the store finds all requests of a reservation of several requests. The store encodes it.
pub(crate) type AllParts = Arc<Box<[u8]>>;

/// One open reservation.
#[derive(Debug, Clone)]
pub(crate) struct Reservation {
    pub(crate) nonce: Nonce,
    pub(crate) units: u64,
    pub(crate) granted_at: i64,
    pub(crate) until: i64,
    pub(crate) kind: Kind,
    /// The place among the grants of the key: a number of 48 bits, so that the record has 48 bytes.
    pub(crate) number: [u16; 3],
    /// Whether unused units of a hold are given back. They are not after the clock went far back.
    pub(crate) gives_back: bool,
    /// For a reservation of several requests.
    pub(crate) parts: Option<AllParts>,
}

impl Reservation {
    pub(crate) fn is_lease(&self) -> bool {
        self.kind == Kind::Lease
    }

    /// Whether it gives units back to the time of its grant when it ends by itself.
    pub(crate) fn is_released_at_end(&self) -> bool {
        self.kind == Kind::ReleasedHold && self.gives_back
    }

    /// The units that it gives back when it ends by itself.
    pub(crate) fn release(&self) -> Option<Release> {
        let Self { units, granted_at, until, .. } = *self;
        self.is_released_at_end().then_some(Release { units, granted_at, until })
    }

    fn parts_bytes(&self) -> usize {
        bytes_of(self.parts.as_ref())
    }

    fn show(&self) -> OpenReservation {
        OpenReservation {
            units: self.units,
            granted_at: Timestamp::from_micros(self.granted_at.max(0).cast_unsigned()),
            until: Timestamp::from_micros(self.until.max(0).cast_unsigned()),
            is_lease: self.is_lease(),
            at_end: if self.kind == Kind::ReleasedHold { AtEnd::Released } else { AtEnd::Spent },
        }
    }
}

/// A reservation that is requested.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) nonce: Nonce,
    pub(crate) ttl: i64,
    pub(crate) kind: Kind,
    pub(crate) parts: Option<AllParts>,
}

fn bytes_of(parts: Option<&AllParts>) -> usize {
    // The allocation of an `Arc` starts with two counters.
    let header = 2 * size_of::<usize>() + size_of::<Box<[u8]>>();
    parts.map_or(0, |parts| header + parts.len())
}

impl Grant {
    /// The bytes of the places of its requests, if there are several.
    pub(crate) fn parts_bytes(&self) -> usize {
        bytes_of(self.parts.as_ref())
    }

    /// The reservation of `units` that is granted at `at`.
    pub(crate) fn at(self, units: u64, at: i64) -> Reservation {
        let Self { nonce, ttl, kind, parts } = self;
        Reservation { nonce, units, granted_at: at, until: at + ttl, kind, number: [0; 3], gives_back: true, parts }
    }
}

/// The two halves of a random number.
pub(crate) fn halves(nonce: [u8; 16]) -> Nonce {
    let number = u128::from_be_bytes(nonce);
    [(number >> 64) as u64, number as u64]
}

/// The open reservations of a key, in the order of their ends, then of their grants.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct Reservations {
    /// The end of the first reservation, or the latest time.
    first_end: i64,
    /// The end of the last reservation, if there is one.
    last_end: i64,
    leases: u32,
    /// Units of all holds.
    held: u64,
    /// Units of all leases.
    leased: u64,
    open: VecDeque<Reservation>,
    /// The time of the newest hold.
    newest_hold: i64,
    /// Units of the holds that were granted at that time and are given back at their ends.
    held_at_newest: u64,
    /// Bytes of all `parts`. Requests that share them count them again.
    parts_bytes: usize,
    /// The number of the next grant.
    next_number: u64,
    releases: Releases,
}

impl Default for Reservations {
    fn default() -> Self {
        Self {
            first_end: i64::MAX,
            last_end: 0,
            open: VecDeque::new(),
            held: 0,
            leased: 0,
            leases: 0,
            newest_hold: 0,
            held_at_newest: 0,
            next_number: 0,
            parts_bytes: 0,
            releases: Releases::Unknown,
        }
    }
}

impl Reservations {
    /// Forgets the grants of a key whose reservations have all been closed, and keeps the allocated memory.
    pub(crate) fn reset(&mut self) {
        debug_assert!(self.open.is_empty(), "an open reservation would be lost");
        self.releases.forget_key();
        (self.newest_hold, self.held_at_newest, self.next_number) = (0, 0, 0);
    }

    /// Whether no reservation has ended at `at`, and none is a lease.
    #[inline]
    pub(crate) fn has_no_end_or_lease(&self, at: i64) -> bool {
        self.first_end > at && self.leases == 0
    }

    /// The end of the first reservation, or the latest time if there is none.
    #[inline]
    pub(crate) fn first_end_or_max(&self) -> i64 {
        self.first_end
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Units of the open holds.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Units of the open leases.
    pub(crate) fn leased(&self) -> u64 {
        self.leased
    }

    /// The number of open leases.
    pub(crate) fn leases(&self) -> u64 {
        self.leases.into()
    }

    /// Units of the open holds that were granted at `time` and are given back at their ends, if none was granted later.
    pub(crate) fn held_at(&self, time: i64) -> u64 {
        if self.newest_hold == time { self.held_at_newest } else { 0 }
    }

    /// The time at which the first reservation ends.
    #[inline]
    pub(crate) fn first_end(&self) -> Option<i64> {
        (!self.open.is_empty()).then_some(self.first_end)
    }

    /// The time at which the last reservation ends.
    pub(crate) fn last_end(&self) -> Option<i64> {
        (!self.open.is_empty()).then_some(self.last_end)
    }

    /// The first time, `t` or later, at which at most `level` units are in use under a limit, given that all holds have ended
    /// at `t`. It reads none of them. `None` for a log.
    pub(crate) fn falls_to_after_all(
        &mut self,
        state: &LimitState,
        grid: Grid,
        newest: i64,
        level: u64,
        t: i64,
    ) -> Option<i64> {
        self.update_releases(state, grid, newest);
        self.releases.falls_to(state, grid, newest, level, t)
    }

    /// Units of the open holds that were granted in the bucket of the newest charge and are given back at their ends.
    pub(crate) fn held_in_newest_bucket(&mut self, state: &LimitState, grid: Grid, newest: i64) -> u64 {
        self.update_releases(state, grid, newest);
        self.releases.in_bucket(bucket(grid, newest))
    }

    /// The first time at which no units are in use, if units that were charged in the window of the newest charge are in use
    /// after the end of all holds. `None` if that is not known.
    #[inline]
    pub(crate) fn newest_window_resets_at(&self, state: &LimitState, grid: Grid, newest: i64) -> Option<i64> {
        self.releases.newest_window_resets_at(state, grid, newest).filter(|reset_at| *reset_at > self.last_end)
    }

    #[inline]
    fn update_releases(&mut self, state: &LimitState, grid: Grid, newest: i64) {
        if !self.releases.are_of(state, grid, newest) {
            self.releases = Releases::of(state, grid, newest, &self.open);
        }
    }

    /// All reservations, in the order of their ends.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Reservation> {
        self.open.iter()
    }

    /// The first time, `t` or later, at which at most `level` units are in open holds, if nobody commits or renews them.
    pub(crate) fn held_falls_to(&self, level: u64, t: i64) -> i64 {
        if level == 0 {
            let last = self.open.iter().rev().find(|open| !open.is_lease());
            return last.map_or(t, |last| last.until.max(t));
        }
        let mut left = self.held;
        let mut time = t;
        for hold in self.open.iter().filter(|open| !open.is_lease()) {
            if left <= level {
                break;
            }
            left -= hold.units;
            time = hold.until.max(t);
        }
        time
    }

    /// Adds a new reservation.
    pub(crate) fn insert(&mut self, mut new: Reservation) {
        new.number = [32, 16, 0].map(|bits| (self.next_number >> bits) as u16);
        self.next_number += 1;
        if !new.is_lease() && new.granted_at > self.newest_hold {
            (self.newest_hold, self.held_at_newest) = (new.granted_at, 0);
        }
        self.put(new);
    }

    /// Removes the first reservation if it ends by `now`.
    pub(crate) fn take_ended(&mut self, now: i64) -> Option<Reservation> {
        self.first_end().filter(|end| *end <= now)?;
        self.remove(0)
    }

    /// Finds an open hold or an open lease.
    pub(crate) fn find(&self, nonce: Nonce, is_lease: bool) -> Option<(usize, &Reservation)> {
        self.open.iter().enumerate().find(|(_, open)| open.nonce == nonce && open.is_lease() == is_lease)
    }

    /// Removes an open hold or an open lease.
    pub(crate) fn take(&mut self, nonce: Nonce, is_lease: bool) -> Option<Reservation> {
        let (at, _) = self.find(nonce, is_lease)?;
        self.remove(at)
    }

    /// Sets the end of an open hold. Returns whether it was open.
    pub(crate) fn renew(&mut self, nonce: Nonce, until: i64) -> bool {
        let Some(mut hold) = self.take(nonce, false) else { return false };
        hold.until = until;
        self.put(hold);
        true
    }

    /// Moves the times of all reservations to an earlier time, because the clock went far back. Their holds give nothing
    /// back any more.
    pub(crate) fn shift(&mut self, step: i64) {
        for open in &mut self.open {
            open.until -= step;
            open.granted_at -= step;
            open.gives_back = false;
        }
        self.first_end = self.open.front().map_or(i64::MAX, |first| first.until);
        self.last_end -= step;
        (self.newest_hold, self.held_at_newest) = (0, 0);
        self.releases = Releases::Unknown;
    }

    /// Lists the reservations for an inspection.
    pub(crate) fn list(&self) -> Vec<OpenReservation> {
        self.open.iter().take(MAX_LISTED).map(Reservation::show).collect()
    }

    /// The number of reservations that memory is allocated for.
    pub(crate) fn capacity(&self) -> usize {
        self.open.capacity()
    }

    /// The bytes that another reservation may allocate, without those of its `parts`.
    pub(crate) fn bytes_to_insert(&self) -> usize {
        if self.open.len() < self.open.capacity() { 0 } else { (self.open.len() + 4) * size_of::<Reservation>() }
    }

    /// The bytes that the first reservation of a key may allocate, without those of its `parts`.
    pub(crate) const BYTES_OF_FIRST: usize = 4 * size_of::<Reservation>();

    pub(crate) fn heap_bytes(&self) -> usize {
        self.open.capacity() * size_of::<Reservation>() + self.parts_bytes
    }

    fn put(&mut self, new: Reservation) {
        if new.is_lease() {
            self.leased += new.units;
            self.leases += 1;
        } else {
            self.held += new.units;
            self.releases.add(&new);
            if new.is_released_at_end() && new.granted_at == self.newest_hold {
                self.held_at_newest += new.units;
            }
        }
        self.parts_bytes += new.parts_bytes();
        let order = |open: &Reservation| (open.until, open.number);
        // Most reservations of a key have the same ttl, so the new one ends last.
        let at = match self.open.back() {
            Some(last) if order(last) > order(&new) => self.open.partition_point(|open| order(open) < order(&new)),
            _ => self.open.len(),
        };
        self.first_end = self.first_end.min(new.until);
        if at == self.open.len() {
            self.last_end = new.until;
        }
        self.open.insert(at, new);
    }

    /// Removes the reservation at this position.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Reservation> {
        let removed = if at == 0 { self.open.pop_front() } else { self.open.remove(at) }?;
        if at == 0 {
            self.first_end = self.open.front().map_or(i64::MAX, |first| first.until);
        }
        if at == self.open.len() {
            self.last_end = self.open.back().map_or(0, |last| last.until);
        }
        self.parts_bytes -= removed.parts_bytes();
        if removed.is_lease() {
            self.leased -= removed.units;
            self.leases -= 1;
        } else {
            self.held -= removed.units;
            self.releases.remove(&removed);
            if removed.is_released_at_end() && removed.granted_at == self.newest_hold {
                self.held_at_newest -= removed.units;
            }
        }
        Some(removed)
    }
}
