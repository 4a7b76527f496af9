//! [`Ticket`]: what is kept of a decision until the response is there.

use tidegate::{Cost, Decision, Key, Timestamp};

use crate::{
    gate::Gate,
    incoming::Outgoing,
    rule::{Settle, units_of},
};

/// Which policy of which rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) rule: usize,
    pub(crate) tier: usize,
}

/// The policies that were decided by.
#[derive(Debug)]
pub(crate) enum Places {
    /// The one that bound.
    One,
    /// All of these; and, if what bound only watches, the tightest of those that enforce, with its own decision.
    Several(Box<[Place]>, Option<Box<(Place, Decision)>>),
}

/// A decision, by what it was made, and what may have to be corrected.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) decision: Decision,
    pub(crate) bound: Place,
    pub(crate) places: Places,
    /// Empty where nothing is ever corrected.
    pub(crate) charges: Vec<Charge>,
}

/// What a request was charged by one rule.
#[derive(Debug, Clone)]
pub(crate) struct Charge {
    pub(crate) place: Place,
    pub(crate) key: Key<'static>,
    pub(crate) cost: Cost,
    pub(crate) at: Timestamp,
}

/// What is to be done about a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Correction {
    /// Give so much back to the moment it was charged at.
    GiveBack(Cost),
    /// Charge so much more, whether it fits or not.
    Add(Cost),
    /// One unit for each so many bytes, once these have been counted.
    CountBytes(u64),
}

impl Charge {
    /// What is to be done now that the response is there.
    pub(crate) fn correction(&self, gate: &Gate, response: &Outgoing<'_>) -> Option<Correction> {
        if gate.refund_if.as_ref().is_some_and(|refund_if| refund_if(response)) {
            return Some(Correction::GiveBack(self.cost));
        }
        match gate.rules[self.place.rule].settle.as_ref()? {
            Settle::Final(of) => self.to(of(response)?),
            Settle::Bytes(unit) => match response.body_size() {
                Some(bytes) => self.to(bytes.div_ceil(*unit)),
                None => Some(Correction::CountBytes(*unit)),
            },
        }
    }

    /// What it takes for the cost to be `units`.
    pub(crate) fn to(&self, units: u64) -> Option<Correction> {
        let charged = self.cost.get();
        match units.checked_sub(charged) {
            Some(0) => None,
            Some(more) => Some(Correction::Add(units_of(more))),
            None => Some(Correction::GiveBack(units_of(charged - units))),
        }
    }
}
