//! [`Decided`]: what became of a request, and [`Ticket`]: what is kept of it until the response is there.

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

/// A decision, and by which policy.
pub(crate) struct Decided {
    /// Of the whole, where there are several rules.
    pub(crate) decision: Decision,
    /// What bound.
    pub(crate) bound: Place,
    pub(crate) ticket: Ticket,
}

/// What the response has to be told, and what may have to be corrected by it.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    /// Where the client stands: the tightest of what enforces. Nothing is told of what only watches, nor what nobody knows or waiting
    /// does not help for.
    pub(crate) told: Option<(Place, Decision)>,
    /// All policies that were decided by, if there are several.
    pub(crate) places: Box<[Place]>,
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
    /// Whether that is not the key's own state: there was no room for it, or Redis was away and it was charged here.
    pub(crate) is_degraded: bool,
}

/// What is to be done about a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Correction {
    /// Give so much back to the moment it was charged at.
    Refund(Cost),
    /// Charge so much more, whether it fits or not.
    Charge(Cost),
    /// One unit for each so many bytes, once these have been counted.
    CountBytes(u64),
}

impl Ticket {
    /// Whether the response can go as it is.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_none() && self.charges.is_empty()
    }
}

impl Charge {
    /// What is to be done now that the response is there.
    pub(crate) fn correction(&self, gate: &Gate, response: &Outgoing<'_>) -> Option<Correction> {
        if gate.refund_if.as_ref().is_some_and(|refund_if| refund_if(response)) {
            return Some(Correction::Refund(self.cost));
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
            Some(more) => Some(Correction::Charge(units_of(more))),
            None => Some(Correction::Refund(units_of(charged - units))),
        }
    }
}
