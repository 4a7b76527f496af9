//! [`KeyDenials`]: when and why one key was denied in a span of five minutes.

use tidegate::{Decision, Limit, Reason};

/// Seconds of a span: a new sketch replaces the current one after it.
pub(crate) const SPAN_S: u64 = 5 * 60;

/// Seconds of a slot. Denials are counted by slot.
pub(crate) const SLOT_S: u64 = 15;

/// Number of slots of a span.
pub(crate) const SLOTS: usize = (SPAN_S / SLOT_S) as usize;

/// Number of slots of the recent denials: the last minute, with the current slot.
pub(crate) const RECENT_SLOTS: usize = 4;

/// The denials of one key in one span.
#[derive(Debug, Default)]
pub(super) struct KeyDenials {
    slots: [u32; SLOTS],
    /// The cause of the last denial.
    pub(super) cause: Option<DenialCause>,
}

/// Why a request was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DenialCause {
    pub(crate) reason: Reason,
    /// The limit that decided.
    pub(crate) limit: Limit,
}

impl KeyDenials {
    pub(super) fn add(&mut self, slot: usize, weight: u32, decision: &Decision) {
        let count = &mut self.slots[slot.min(SLOTS - 1)];
        *count = count.saturating_add(weight);
        self.cause = Some(DenialCause { reason: decision.reason(), limit: decision.limit() });
    }
}

/// Returns the denials of a key in each slot of the span before and of the current one up to `slot`, oldest first.
pub(super) fn by_slot(before: Option<&KeyDenials>, now: Option<&KeyDenials>, slot: usize) -> impl Iterator<Item = u32> {
    let of = |denials: Option<&KeyDenials>| denials.map_or([0; SLOTS], |denials| denials.slots);
    of(before).into_iter().chain(of(now).into_iter().take(slot.min(SLOTS - 1) + 1))
}

/// Returns the recent denials of a key.
pub(super) fn recent(before: Option<&KeyDenials>, now: Option<&KeyDenials>, slot: usize) -> u64 {
    let known = SLOTS + slot.min(SLOTS - 1) + 1;
    by_slot(before, now, slot).skip(known - RECENT_SLOTS).map(u64::from).sum()
}
