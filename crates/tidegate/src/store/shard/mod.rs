//! [`Shard`]: a part of the keys, behind one lock.
//!
//! A decision is made in two steps under the lock: [`Shard::weigh`] finds the key's state and looks whether the cost fits,
//! [`Shard::conclude`] charges it if the whole decision says so, and answers. Of several keys in one decision, all are weighed
//! before any is charged.

mod operations;
mod overflow;
mod overrides;
mod overruled;
mod room;
mod states;

use std::sync::Arc;

pub(super) use overflow::overflow_bits;
pub(super) use overrides::Full;
use overrides::{Overrides, Overriding};
use states::FAR_BACK;

use super::{
    Op,
    attic::Attic,
    bounds::{AtCapacity, Bounds},
    id::Id,
    shapes::Shapes,
    slot::{Slot, pack},
    table::Table,
};
use crate::{
    decision::{Decision, Reason},
    policy::{Only, Policy},
    reshape::Held,
    ruling,
    shape::Rule,
    tracks::{Recorded, Track},
    weigh::{Fit, Moment, Outcome, Single, Told, Weighed, answer, weigh},
};

/// What a log may take at once: a block, and its queue's growth.
const LOG_STEP: usize = 1024;

/// One request of a decision.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) policy: &'a Policy,
    pub(super) id: Id,
    pub(super) cost: u64,
    pub(super) now: i64,
}

/// What a request met.
pub(super) struct Seen {
    place: Place,
    newest: i64,
    /// The time of the request, or of the newest charge if that is later.
    at: i64,
    weighed: Weighed,
    /// Units that earlier parts of the decision spend in the same overflow state.
    earlier: u64,
    /// What a peek has to put back.
    before: Option<Box<(Slot, Held)>>,
}

/// Where a key's state is, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Own(usize),
    /// Nowhere yet, but there is room.
    New,
    /// In the overflow state with this id, shared with other keys without room.
    Shared(Id),
    /// Nowhere, and it is let through.
    Uncounted,
    /// Nowhere, and it is denied.
    Refused,
    /// With those that an override decides, if it has one.
    Overridden,
}

/// Which of a shard's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Keys,
    Shared,
    Overridden,
}

/// What a shard has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) evicted: u64,
    pub(super) refused: u64,
    pub(super) refused_shapes: u64,
    pub(super) joined: u64,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    keys: Table,
    shapes: Shapes,
    attic: Attic,
    shared: Table,
    tally: Tally,
    /// The next slot to look at for one whose time has passed.
    hand: usize,
    /// The next slot of the overflow states to look at for one that has expired.
    overflow_hand: usize,
    /// The states of the keys that have an override, as far as they have any.
    overridden: Table,
    /// Elsewhere, since few shards have any.
    overrides: Option<Box<Overrides>>,
}

impl Seen {
    /// The time of the request, and the time that it is decided at.
    fn moment(&self, part: &Part<'_>) -> Moment {
        Moment { now: part.now, at: self.at }
    }

    pub(super) fn fits(&self) -> bool {
        self.weighed.fit == Fit::Fits && self.place != Place::Refused
    }

    /// Whether nothing can count the request, so that it is denied.
    pub(super) fn is_refused(&self) -> bool {
        self.place == Place::Refused
    }

    /// Whether both use the same overflow state, given that they are in the same shard.
    pub(super) fn shares_with(&self, other: &Self) -> bool {
        matches!(self.place, Place::Shared(_)) && self.place == other.place
    }

    /// Weighs the cost together with what earlier parts of the decision spend in the same overflow state.
    pub(super) fn add_earlier(&mut self, part: &Part<'_>, units: u64) {
        self.earlier = units;
        self.weighed.weigh_again(part.policy.rules(), part.cost + units);
    }
}

impl Shard {
    /// Decides a request on its own.
    #[inline]
    pub(super) fn decide(&mut self, part: &Part<'_>, op: Op, bounds: &Bounds) -> Decision {
        if let (Some(at), Some(only)) = (self.keys.find_near(part.id), part.policy.only())
            && let Some((told, moment)) = self.decide_simple(at, part, only, op, bounds)
        {
            self.count(op, told.allows(only.mode));
            return told.decision(only, moment);
        }
        self.decide_any(*part, op, bounds)
    }

    /// Takes the request by value, so that requests on the fast path can stay in registers.
    #[cold]
    #[inline(never)]
    fn decide_any(&mut self, part: Part<'_>, op: Op, bounds: &Bounds) -> Decision {
        let part = &part;
        let only = part.policy.only();
        let mut found = self.keys.find(part.id);
        if let Some(at) = found
            && self.lacks_shape(at, part, bounds)
        {
            self.tidy_for_shape(at, part, bounds);
            found = self.keys.find(part.id);
        }
        let quick = match found {
            Some(at) => only.and_then(|only| self.decide_simple(at, part, only, op, bounds)),
            None => match self.overriding(part, bounds) {
                Overriding::Holds => None,
                Overriding::Ended => return self.decide_any(*part, op, bounds),
                Overriding::None => {
                    self.tidy(part.now, op, bounds);
                    only.and_then(|only| self.decide_new(part, only, op, bounds))
                }
            },
        };
        if let (Some((told, moment)), Some(only)) = (quick, only) {
            self.count(op, told.allows(only.mode));
            return told.decision(only, moment);
        }
        let seen = self.weigh(part, bounds, op == Op::Peek);
        let outcome = match (op, seen.fits()) {
            (Op::Check, true) | (Op::Charge, _) => Outcome::Charged,
            (Op::Peek, true) => Outcome::Spared,
            (Op::Check | Op::Peek, false) => Outcome::Denied,
        };
        let decision = self.conclude(part, seen, outcome, bounds);
        self.count(op, decision.is_allowed());
        decision
    }

    /// Decides what most requests are: a known key, one limit, a state of its shape and a clock that goes forwards. `None`
    /// for any other.
    #[inline]
    fn decide_simple(
        &mut self,
        at: usize,
        part: &Part<'_>,
        only: &Only,
        op: Op,
        bounds: &Bounds,
    ) -> Option<(Told, Moment)> {
        let rule = &only.rule;
        let slot = self.keys.slot_mut(at);
        let newest = slot.newest();
        if !self.shapes.is(slot, only.shape_id) || newest - part.now > FAR_BACK {
            return None;
        }
        let moment = Moment { now: part.now, at: part.now.max(newest) };
        let mut single = Single { op, cost: part.cost, capacity: rule.capacity, room: true };
        let Some(place) = slot.held() else {
            let (told, outgrown) = slot.visit(only.kind, rule, moment.at, single);
            if let Some(track) = outgrown {
                self.store(Of::Keys, at, Held::One(track), bounds);
            }
            return Some((told, moment));
        };
        let Held::One(track) = self.attic.get_mut(place) else {
            return None;
        };
        let before = track.heap_bytes();
        single.room = bounds.has_room(LOG_STEP);
        let told = track.visit(rule, newest, moment.at, single);
        if told.charged {
            slot.set_newest(moment.at);
            self.tally.joined += u64::from(told.joined);
            let after = track.heap_bytes();
            bounds.note(before, after);
            if let Some(body) = pack(track) {
                slot.set_packed(body);
                self.attic.take(place);
                bounds.note(after, 0);
            }
        }
        Some((told, moment))
    }

    /// Decides what most new keys ask for: something that fits under one limit, where there is room and nobody shares any. `None` for
    /// anything else.
    fn decide_new(&mut self, part: &Part<'_>, only: &Only, op: Op, bounds: &Bounds) -> Option<(Told, Moment)> {
        let fits = part.cost <= only.rule.capacity;
        if !(op == Op::Charge || op == Op::Check && fits) || self.shared.len() > 0 {
            return None;
        }
        if !self.make_room(part.policy.shape(), bounds) {
            return None;
        }
        let at = self.put_empty(Of::Keys, part.id, part.policy, part.now, bounds);
        let moment = Moment { now: part.now, at: part.now };
        let single = Single { op, cost: part.cost, capacity: only.rule.capacity, room: true };
        let (told, outgrown) = self.keys.slot_mut(at).visit(only.kind, &only.rule, part.now, single);
        if let Some(track) = outgrown {
            self.store(Of::Keys, at, Held::One(track), bounds);
        }
        Some((told, moment))
    }

    /// Looks whether the cost fits. Only what a clock that went far back asks for is written, and a peek puts that back.
    pub(super) fn weigh(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        if let Some(at) = self.keys.find(part.id) {
            if self.lacks_shape(at, part, bounds) {
                return self.weigh_misshapen(part, bounds, peek);
            }
            return self.weigh_at(Of::Keys, at, Place::Own(at), part, bounds, peek);
        }
        match self.override_of(part.id).map(Arc::clone) {
            Some(by) => self.weigh_overridden(part, &by, bounds, peek),
            None => self.weigh_unknown(part, bounds, peek),
        }
    }

    fn weigh_at(&mut self, of: Of, at: usize, place: Place, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        let before = self.believe(of, at, part.policy, part.now, bounds, peek);
        let newest = self.table(of).slot(at).newest();
        let moment = Moment { now: part.now, at: part.now.max(newest) };
        let weighed =
            self.read(of, at, part.policy, |rules, tracks| weigh(rules, tracks, newest, moment.at, part.cost));
        Seen { place, newest, at: moment.at, weighed, earlier: 0, before }
    }

    #[cold]
    fn weigh_unknown(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        let place = if self.make_room(part.policy.shape(), bounds) {
            Place::New
        } else {
            self.count_refused(part, bounds, peek);
            match bounds.at_capacity {
                AtCapacity::Shared => self.overflow_place(part, bounds).map_or(Place::Refused, Place::Shared),
                AtCapacity::Admit => Place::Uncounted,
                AtCapacity::Deny => Place::Refused,
            }
        };
        // A key that has shared limits with others starts from what they have used, so that it is not forgiven its part.
        match (place, self.overflow_state(part, bounds)) {
            (Place::New | Place::Shared(_), Some(at)) => {
                let mut seen = self.weigh_at(Of::Shared, at, place, part, bounds, peek);
                if place != Place::Shared(self.shared.slot(at).id) {
                    seen.newest = seen.at;
                    self.put_back(Of::Shared, at, seen.before.take(), bounds);
                }
                seen
            }
            _ => seen_of_nothing(part, place),
        }
    }

    /// Weighs a request for a key whose state would have to be rewritten in one shape more than callers may bring.
    #[cold]
    fn weigh_misshapen(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        self.count_refused(part, bounds, peek);
        let admits = bounds.at_capacity == AtCapacity::Admit;
        seen_of_nothing(part, if admits { Place::Uncounted } else { Place::Refused })
    }

    fn count_refused(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) {
        if !peek {
            self.tally.refused += 1;
            self.tally.refused_shapes += u64::from(!self.may_have_shape(part.policy.shape(), bounds));
        }
    }

    /// Charges if the outcome says so, and answers.
    pub(super) fn conclude(&mut self, part: &Part<'_>, mut seen: Seen, outcome: Outcome, bounds: &Bounds) -> Decision {
        let decision = match seen.place {
            Place::Own(at) => {
                // Another part of the decision may have moved it.
                let still = self.keys.places() > at && self.keys.slot(at).id == part.id;
                match if still { Some(at) } else { self.keys.find(part.id) } {
                    Some(at) => self.conclude_at(Of::Keys, at, part, &mut seen, outcome, bounds),
                    None => refused(part, &seen, outcome),
                }
            }
            Place::Overridden => self.conclude_overridden(part, &mut seen, outcome, bounds),
            _ => self.conclude_elsewhere(part, &mut seen, outcome, bounds),
        };
        ruling::in_mode(decision, part.policy.mode())
    }

    fn conclude_at(
        &mut self,
        of: Of,
        at: usize,
        part: &Part<'_>,
        seen: &mut Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        let mut recorded = Recorded::Exactly;
        if outcome == Outcome::Charged {
            recorded = self.charge(of, at, part, seen.newest, seen.at, bounds);
            seen.newest = seen.at;
        }
        let mut decision =
            self.read(of, at, part.policy, |rules, tracks| answer_from(part, (rules, tracks), seen, outcome));
        decision.degraded = recorded == Recorded::Joined;
        self.put_back(of, at, seen.before.take(), bounds);
        decision
    }

    #[cold]
    fn conclude_elsewhere(&mut self, part: &Part<'_>, seen: &mut Seen, outcome: Outcome, bounds: &Bounds) -> Decision {
        let mut decision = match (seen.place, outcome) {
            (Place::New | Place::Own(_), _) => return self.conclude_new(part, seen, outcome, bounds),
            (Place::Shared(id), _) => match (self.shared.find(id), outcome) {
                (Some(at), _) => self.conclude_shared(at, part, seen, outcome, bounds),
                (None, Outcome::Charged) => {
                    let held = self.charged_state(part, seen);
                    let at = self.put_new(Of::Shared, id, part.policy, held, seen.at, bounds);
                    bounds.count_overflow();
                    seen.newest = seen.at;
                    self.read(Of::Shared, at, part.policy, |rules, tracks| {
                        answer_from(part, (rules, tracks), seen, outcome)
                    })
                }
                (None, _) => self.conclude_unwritten(part, seen, outcome, bounds),
            },
            (Place::Uncounted, _) => {
                let outcome = if outcome == Outcome::Charged { Outcome::Spared } else { outcome };
                self.conclude_new_uncharged(part, seen, outcome)
            }
            (Place::Refused | Place::Overridden, _) => refused(part, seen, outcome),
        };
        let fits_alone = || part.policy.rules().iter().all(|rule| part.cost <= rule.capacity);
        if seen.earlier > 0 && decision.reason == Reason::Impossible && fits_alone() {
            // The parts would fit if there were room for a state for each.
            decision.reason = Reason::StoreUnavailable;
            decision.remaining = 0;
        }
        decision.degraded = true;
        decision
    }

    /// Charges and answers a key in an overflow state, which an earlier part of the decision may have charged or made.
    fn conclude_shared(
        &mut self,
        at: usize,
        part: &Part<'_>,
        seen: &mut Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        seen.newest = self.shared.slot(at).newest();
        seen.at = seen.at.max(seen.newest);
        self.conclude_at(Of::Shared, at, part, seen, outcome, bounds)
    }

    /// Answers a key that has no state of its own, and gives it one if it is charged. Its place is reserved already.
    fn conclude_new(&mut self, part: &Part<'_>, seen: &Seen, outcome: Outcome, bounds: &Bounds) -> Decision {
        if outcome != Outcome::Charged {
            bounds.give_back_key();
            return self.conclude_unwritten(part, seen, outcome, bounds);
        }
        let held = self.charged_state(part, seen);
        let at = self.put_new(Of::Keys, part.id, part.policy, held, seen.at, bounds);
        self.read(Of::Keys, at, part.policy, |rules, tracks| answer_from(part, (rules, tracks), seen, outcome))
    }

    /// Answers a key that gets no state. Nothing is written, so the state that it shares, and its time to wait, do not
    /// change.
    fn conclude_unwritten(&self, part: &Part<'_>, seen: &Seen, outcome: Outcome, bounds: &Bounds) -> Decision {
        match self.overflow_state(part, bounds) {
            Some(at) if self.shared.slot(at).newest() <= seen.at => {
                let newest = self.shared.slot(at).newest();
                let mut decision = self.read(Of::Shared, at, part.policy, |rules, tracks| {
                    let (limits, cost) = (part.policy.limits(), part.cost + seen.earlier);
                    answer(limits, (rules, tracks), newest, seen.moment(part), cost, &seen.weighed, outcome)
                });
                decision.degraded = decision.used > 0;
                decision
            }
            _ => self.conclude_new_uncharged(part, seen, outcome),
        }
    }

    #[expect(clippy::unused_self, reason = "stands beside its siblings")]
    fn conclude_new_uncharged(&self, part: &Part<'_>, seen: &Seen, outcome: Outcome) -> Decision {
        let held = Held::in_use(part.policy, &seen.weighed.used, seen.at);
        let reading = held.read(part.policy.shape(), part.policy, seen.at);
        answer_from(part, (reading.rules(part.policy), reading.tracks()), seen, outcome)
    }

    /// The state of a new key once it is charged: on top of what the keys have used that it shared limits with.
    #[expect(clippy::unused_self, reason = "stands beside its siblings")]
    fn charged_state(&self, part: &Part<'_>, seen: &Seen) -> Held {
        let at = seen.at;
        let mut held = if seen.weighed.used.iter().all(|used| *used == 0) {
            Held::empty(part.policy.shape())
        } else {
            Held::in_use(part.policy, &seen.weighed.used, at)
        };
        let _ = held.charge(part.policy.shape(), at, part.cost, at, true);
        held
    }

    #[inline]
    pub(super) fn count(&mut self, op: Op, allowed: bool) {
        if op == Op::Peek {
            return;
        }
        if allowed {
            self.tally.allowed += 1;
        } else {
            self.tally.denied += 1;
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}

/// The result of weighing a request while no units are in use.
fn seen_of_nothing(part: &Part<'_>, place: Place) -> Seen {
    let weighed = Weighed::of_nothing(part.policy.rules(), part.cost);
    Seen { place, newest: part.now, at: part.now, weighed, earlier: 0, before: None }
}

fn answer_from(part: &Part<'_>, (rules, tracks): (&[Rule], &[Track]), seen: &Seen, outcome: Outcome) -> Decision {
    let (limits, cost) = (part.policy.limits(), part.cost + seen.earlier);
    answer(limits, (rules, tracks), seen.newest, seen.moment(part), cost, &seen.weighed, outcome)
}

/// The answer if there is no room for a key and it shares no overflow state. A charge that can't be counted is denied,
/// too.
#[cold]
fn refused(part: &Part<'_>, seen: &Seen, outcome: Outcome) -> Decision {
    let empty = Held::empty(part.policy.shape());
    let reading = empty.read(part.policy.shape(), part.policy, seen.at);
    let parts = (reading.rules(part.policy), reading.tracks());
    let became = if outcome == Outcome::Charged { Outcome::Denied } else { outcome };
    let mut decision = answer_from(part, parts, seen, became);
    if became == Outcome::Denied && (outcome == Outcome::Charged || decision.reason == Reason::Allowed) {
        decision.reason = Reason::StoreUnavailable;
        decision.remaining = 0;
    }
    decision.degraded = true;
    decision
}
