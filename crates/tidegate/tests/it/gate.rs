//! One face for the model and for the library, so that a test can ask either and compare what they tell.

use std::time::Duration;

use tidegate::{
    Algorithm, Buckets, Burst, Cost, Decision, Inspection, Limit, Mode, Override, OverrideRule, Policy, Reason, Refund,
    Timestamp,
};

use crate::model::{Algo, Answer, Answers, Cap, Micros, Op, Overrule, Overruling, Part, Units, Verdict};

/// What a refund tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refunded {
    pub(crate) returned: bool,
    pub(crate) remaining: Units,
    pub(crate) reset_after: Micros,
}

/// What an inspection shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) newest_charge: Micros,
    pub(crate) used: Vec<Units>,
    pub(crate) remaining: Vec<Units>,
    pub(crate) reset_after: Vec<Micros>,
    pub(crate) next_free_after: Vec<Micros>,
}

/// Something that decides.
pub(crate) trait Gate: Default {
    fn decide_all(&mut self, op: Op, parts: &[Part], now: Micros) -> Answers;
    fn refund(&mut self, part: &Part, charged_at: Micros, now: Micros) -> Refunded;
    fn reset(&mut self, part: &Part) -> bool;
    fn inspect(&mut self, part: &Part, now: Micros) -> Option<Shown>;

    fn decide(&mut self, op: Op, part: &Part, now: Micros) -> Answer {
        self.decide_all(op, std::slice::from_ref(part), now).overall
    }

    fn check(&mut self, part: &Part, now: Micros) -> Answer {
        self.decide(Op::Check, part, now)
    }

    fn peek(&mut self, part: &Part, now: Micros) -> Answer {
        self.decide(Op::Peek, part, now)
    }

    fn charge(&mut self, part: &Part, now: Micros) -> Answer {
        self.decide(Op::Charge, part, now)
    }
}

/// Something that decides by overrides, too.
pub(crate) trait Overrides: Gate {
    /// Sets an override; the one that held until now.
    fn set_override(&mut self, part: &Part, by: &Overruling, now: Micros) -> Option<Held>;
    /// Lifts an override; what it was, if it still held.
    fn remove_override(&mut self, part: &Part, now: Micros) -> Option<Held>;
    /// The override that holds.
    fn override_of(&mut self, part: &Part, now: Micros) -> Option<Held>;
}

/// What is told of an override: which kind it is, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: &'static str,
    pub(crate) until: Option<Micros>,
}

/// An override, as the library has it.
pub(crate) fn overriding(by: &Overruling) -> Override {
    let made = match &by.rule {
        Overrule::Limits(rule) => Override::limits(policy(&Part { name: (0, 0), rule: rule.clone(), cost: 1 })),
        Overrule::Ban => Override::ban(),
        Overrule::Exempt => Override::exempt(),
    };
    by.until.map_or_else(|| made.clone(), |end| made.clone().until(timestamp(end)))
}

/// An override of the library's, in the model's words.
pub(crate) fn held(by: &Override) -> Held {
    let kind = match by.rule() {
        OverrideRule::Limits(_) => "limits",
        OverrideRule::Ban => "ban",
        OverrideRule::Exempt => "exempt",
    };
    Held { kind, until: by.end().map(|end| end.as_micros().into()) }
}

pub(crate) use crate::tested::Tested;

pub(crate) fn timestamp(at: Micros) -> Timestamp {
    Timestamp::from_micros(at.try_into().expect("a time of the model's fits 64 bits"))
}

/// The policy of a rule. The vectors go a little beyond the range of limits, so it is not asked for here.
pub(crate) fn policy(part: &Part) -> Policy {
    let number = |value: i128| u64::try_from(value).expect("a number fits");
    let limit = |cap: &Cap| Limit::from_vector(number(cap.max), number(cap.window));
    let burst = |cap: &Cap| Burst::new(number(cap.capacity)).expect("a burst in range");
    let mode = if part.rule.shadow { Mode::Shadow } else { Mode::Enforce };
    let name = format!("policy-{}", part.name.0);
    let caps = &part.rule.caps;
    let policy = Policy::new(&name, caps.iter().map(limit)).expect("a policy in range").with_mode(mode);
    let one_burst = caps.iter().all(|cap| cap.capacity == caps[0].capacity);
    match part.rule.algo {
        Algo::Log => policy,
        Algo::Counter => policy.with_algorithm(Algorithm::SlidingCounter),
        Algo::Buckets(n) => {
            policy.with_algorithm(Algorithm::SlidingBuckets(Buckets::new(number(n)).expect("n in range")))
        }
        Algo::Fixed => policy.with_algorithm(Algorithm::FixedWindow),
        Algo::Gcra if caps.iter().all(|cap| cap.capacity == cap.max) => policy.with_algorithm(Algorithm::Gcra(None)),
        Algo::Gcra if one_burst => policy.with_algorithm(Algorithm::Gcra(Some(burst(&caps[0])))),
        Algo::Gcra => policy.with_bursts(caps.iter().map(burst)).expect("a burst for each limit"),
    }
}

pub(crate) fn cost(part: &Part) -> Cost {
    Cost::from_vector(part.cost.try_into().expect("a cost fits"))
}

/// What a Decision says, in the model's words; `part` is the one that bound, `index` its place among several.
pub(crate) fn told(decision: &Decision, index: usize, part: &Part) -> Answer {
    let verdict = match decision.reason() {
        Reason::Allowed => Verdict::Allowed,
        Reason::Limited => Verdict::Limited,
        Reason::Impossible => Verdict::Impossible,
        Reason::Shadow => Verdict::Shadow,
        Reason::Banned => Verdict::Banned,
        _ => panic!("a store that is not full answered {decision:?}"),
    };
    assert_eq!(decision.is_allowed(), matches!(verdict, Verdict::Allowed | Verdict::Shadow), "{decision:?}");
    assert!(!decision.is_degraded(), "{decision:?}");
    let bound = Cap {
        max: decision.limit().max().into(),
        window: whole(decision.limit().window()),
        capacity: decision.capacity().into(),
    };
    assert!(decision.is_overridden() || part.rule.caps.contains(&bound), "{decision:?} under {part:?}");
    Answer {
        verdict,
        part: index,
        bound,
        used: decision.used().into(),
        remaining: decision.remaining().into(),
        retry_after: decision.retry_after().map(whole),
        reset_after: whole(decision.reset_after()),
        charged_at: decision.charged_at().map(|at| at.as_micros().into()),
        overridden: decision.is_overridden(),
    }
}

fn whole(span: Duration) -> Micros {
    assert_eq!(span.subsec_nanos() % 1_000, 0, "a wait is a whole number of microseconds");
    span.as_micros().try_into().expect("a wait fits")
}

pub(crate) fn library(op: Op) -> tidegate::Op {
    match op {
        Op::Check => tidegate::Op::Check,
        Op::Peek => tidegate::Op::Peek,
        Op::Charge => tidegate::Op::Charge,
    }
}

/// What a refund says, in the model's words.
pub(crate) fn refunded(refund: &Refund) -> Refunded {
    Refunded {
        returned: refund.is_returned(),
        remaining: refund.remaining().into(),
        reset_after: whole(refund.reset_after()),
    }
}

/// What an inspection shows, in the model's words.
pub(crate) fn shown(inspection: &Inspection) -> Shown {
    Shown {
        newest_charge: inspection.newest_charge.as_micros().into(),
        used: inspection.limits.iter().map(|limit| limit.used.into()).collect(),
        remaining: inspection.limits.iter().map(|limit| limit.remaining.into()).collect(),
        reset_after: inspection.limits.iter().map(|limit| whole(limit.reset_after)).collect(),
        next_free_after: inspection.limits.iter().map(|limit| whole(limit.next_free_after)).collect(),
    }
}
