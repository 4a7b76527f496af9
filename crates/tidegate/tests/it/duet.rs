//! The model and the library side by side: whatever is asked, both must tell the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;

use crate::gate::{Gate, Tested};
use crate::model::{Micros, Op, Part, World};
use crate::scenes::Moments;

/// How many decisions have been compared so far.
pub(crate) static COMPARED: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Duet {
    pub(crate) moments: Moments,
    pub(crate) model: World,
    pub(crate) library: Tested,
    /// What is shown is compared after every so many requests, since it takes longer than they do.
    pub(crate) inspected_every: usize,
    requests: usize,
    /// For each policy and key, its newest charge and the latest time that anybody has asked at since.
    reached: BTreeMap<(u8, u8), (Option<Micros>, Micros)>,
}

impl Duet {
    pub(crate) fn starting(now: Micros) -> Self {
        Self {
            moments: Moments::starting(now),
            model: World::default(),
            library: Tested::chosen_by(now),
            inspected_every: 1,
            requests: 0,
            reached: BTreeMap::new(),
        }
    }

    /// A state may be forgotten once nothing is in use and the longest window has passed. What a `now` before that
    /// or another shape finds is open then, so that it is made sure of: both forget.
    fn forget_what_may_be(&mut self, parts: &[Part], now: Micros) {
        for (_, reached) in self.reached.values_mut() {
            *reached = now.max(*reached);
        }
        for part in parts {
            let subject = self.model.subject(part.name);
            let (Some(stored), Some(newest)) = (&subject.rule, subject.newest) else { continue };
            let reached = self.reached.get(&part.name).map_or(now, |(_, reached)| *reached);
            let idle = (0..stored.caps.len()).all(|i| subject.used(stored, i, reached) == 0);
            let overridden = self.model.overrides.contains_key(&part.name);
            let matters = now < reached || overridden || !stored.same_shape(&part.rule);
            if idle && matters && reached - newest >= stored.longest_window() {
                self.model.reset(part);
                self.library.reset(part);
            }
        }
    }

    /// Takes note of what was written.
    fn remember(&mut self, parts: &[Part], now: Micros) {
        for part in parts {
            let newest = self.model.subject(part.name).newest;
            let known = self.reached.entry(part.name).or_insert((newest, now));
            if known.0 != newest {
                *known = (newest, now);
            }
        }
    }

    pub(crate) fn decide(&mut self, op: Op, part: &Part, now: Micros) -> Result<(), TestCaseError> {
        self.forget_what_may_be(std::slice::from_ref(part), now);
        let expected = self.model.decide(op, part, now);
        let got = self.library.decide(op, part, now);
        let asked = format!("{op:?} of {} at {now} under {:?}", part.cost, part.rule);
        prop_assert_eq!(expected, got, "{}: the model left, the library right", asked);
        COMPARED.fetch_add(1, Relaxed);
        self.moments.note(now, expected);
        self.remember(std::slice::from_ref(part), now);
        self.inspect(part, now)
    }

    pub(crate) fn decide_all(&mut self, op: Op, parts: &[Part], now: Micros) -> Result<(), TestCaseError> {
        self.forget_what_may_be(parts, now);
        let expected = self.model.decide_all(op, parts, now);
        let got = self.library.decide_all(op, parts, now);
        prop_assert_eq!(&expected, &got, "{:?} of {:?} at {}: the model left, the library right", op, parts, now);
        self.moments.note(now, expected.overall);
        self.remember(parts, now);
        Ok(())
    }

    pub(crate) fn refund(&mut self, part: &Part, charged_at: Micros, now: Micros) -> Result<(), TestCaseError> {
        self.forget_what_may_be(std::slice::from_ref(part), now);
        let expected = self.model.refund(part, charged_at, now);
        let got = self.library.refund(part, charged_at, now);
        let asked = format!("refund of {} charged at {charged_at} at {now} under {:?}", part.cost, part.rule);
        prop_assert_eq!(expected, got, "{}: the model left, the library right", asked);
        self.moments.now = now;
        self.remember(std::slice::from_ref(part), now);
        self.inspect(part, now)
    }

    /// Both show the same state, as `now` is read. A state in which nothing is in use may be gone.
    fn inspect(&mut self, part: &Part, now: Micros) -> Result<(), TestCaseError> {
        self.requests += 1;
        if !self.requests.is_multiple_of(self.inspected_every) {
            return Ok(());
        }
        let expected = self.model.inspect(part, now);
        let got = self.library.inspect(part, now);
        let gone = got.is_none() && expected.as_ref().is_none_or(|shown| shown.used.iter().all(|used| *used == 0));
        prop_assert!(gone || expected == got, "inspected at {now}: {expected:?} by the model, {got:?} by the library");
        Ok(())
    }

    pub(crate) fn reset(&mut self, part: &Part) -> Result<(), TestCaseError> {
        let expected = self.model.reset(part);
        let got = self.library.reset(part);
        // Whether a state in which nothing is in use was still there to forget is open.
        prop_assert!(expected || !got, "there was nothing to reset");
        self.reached.remove(&part.name);
        self.moments.charged.clear();
        Ok(())
    }
}
