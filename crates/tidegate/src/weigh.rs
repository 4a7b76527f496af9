//! From states to a decision: whether a cost fits under every limit, and what to tell about it.

use crate::{
    algorithms::{Action, ChargeAt, LimitState, Recording},
    decision::{Decision, Reason, Under},
    limit::Limit,
    memory::Op,
    policy::{MAX_LIMITS, Mode, Only},
    shape::Rule,
    timestamp::{SATURATION, Timestamp},
};

/// When a request is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// What the caller's clock said; waits are counted from here.
    pub(crate) now: i64,
    /// What it is read as: never before the newest charge.
    pub(crate) at: i64,
}

impl Moment {
    /// The time a charge is dated.
    #[inline]
    pub(crate) fn charged_at(self) -> Timestamp {
        Timestamp::of(self.at)
    }
}

/// Whether a cost fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Fits,
    Limited,
    Impossible,
    /// An override bans the key.
    Banned,
}

/// What a request meets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weighed {
    pub(crate) fit: Fit,
    /// Units in use under each limit before the decision.
    pub(crate) used: [u64; MAX_LIMITS],
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was charged.
    Charged,
    /// It fits but was not charged: only looked at, or another part of the decision was denied.
    Spared,
    /// It was not charged because it does not fit.
    Denied,
}

/// Weighs `cost` against every limit.
pub(crate) fn weigh(rules: &[Rule], states: &[LimitState], newest: i64, at: i64, cost: u64) -> Weighed {
    let mut fit = Fit::Fits;
    let mut used = [0; MAX_LIMITS];
    for (rule, used) in rules.iter().zip(&mut used) {
        *used = states[rule.state].used(rule, newest, at);
        fit = fit.and(rule, *used, cost);
    }
    Weighed { fit, used }
}

impl Fit {
    /// Whether `cost` also fits under a limit with `used` units in use.
    #[inline]
    fn and(self, rule: &Rule, used: u64, cost: u64) -> Self {
        if cost > rule.capacity {
            Self::Impossible
        } else if used + cost > rule.capacity && self == Self::Fits {
            Self::Limited
        } else {
            self
        }
    }
}

impl Weighed {
    /// What a request meets where nothing is in use.
    pub(crate) fn of_nothing(rules: &[Rule], cost: u64) -> Self {
        let impossible = rules.iter().any(|rule| cost > rule.capacity);
        Self { fit: if impossible { Fit::Impossible } else { Fit::Fits }, used: [0; MAX_LIMITS] }
    }

    /// Weighs another cost against the same units in use.
    #[cold]
    pub(crate) fn weigh_again(&mut self, rules: &[Rule], cost: u64) {
        self.fit = rules.iter().zip(&self.used).fold(Fit::Fits, |fit, (rule, used)| fit.and(rule, *used, cost));
    }
}

/// How long until `cost` fits under one limit; `None` if it never does.
pub(crate) fn fits_after(rule: &Rule, states: &[LimitState], newest: i64, moment: Moment, cost: u64) -> Option<u64> {
    let (state, level) = (&states[rule.state], rule.capacity.checked_sub(cost)?);
    if state.used(rule, newest, moment.at) <= level {
        return Some(0);
    }
    Some(wait(state.falls_to(rule, newest, level, moment.at), moment.now))
}

/// The decision, given the states as they are after it.
pub(crate) fn answer(
    limits: &[Limit],
    read: (&[Rule], &[LimitState]),
    newest: i64,
    moment: Moment,
    cost: u64,
    weighed: &Weighed,
    outcome: Outcome,
) -> Decision {
    let charged_at = (outcome == Outcome::Charged).then(|| moment.charged_at());
    let standings = standings(read, newest, moment, cost, weighed, outcome);
    told(limits, standings, reason(outcome, weighed.fit), charged_at)
}

/// How each limit stands, given the states as they are after the decision.
pub(crate) fn standings<'a>(
    (rules, states): (&'a [Rule], &'a [LimitState]),
    newest: i64,
    moment: Moment,
    cost: u64,
    weighed: &'a Weighed,
    outcome: Outcome,
) -> impl Iterator<Item = Standing> + 'a {
    let standing = move |(i, rule): (usize, &Rule)| {
        Standing::new(rule, &states[rule.state], newest, moment, cost, weighed.used[i], outcome)
    };
    rules.iter().enumerate().map(standing)
}

/// What an outcome is called.
pub(crate) fn reason(outcome: Outcome, fit: Fit) -> Reason {
    match (outcome, fit) {
        (Outcome::Denied, Fit::Limited) => Reason::Limited,
        (Outcome::Denied, Fit::Impossible) => Reason::Impossible,
        (Outcome::Denied, Fit::Banned) => Reason::Banned,
        _ => Reason::Allowed,
    }
}

/// The decision that names the limit that bound, given how each stands after it.
pub(crate) fn told(
    limits: &[Limit],
    standings: impl Iterator<Item = Standing>,
    reason: Reason,
    charged_at: Option<Timestamp>,
) -> Decision {
    let mut decision = Decision {
        reason,
        degraded: false,
        part: 0,
        under: Under::Policy,
        limit: limits[0],
        capacity: 0,
        used: 0,
        remaining: u64::MAX,
        retry_after_us: None,
        reset_after_us: 0,
        limit_reset_after_us: 0,
        charged_at,
    };
    let mut bound: Option<Standing> = None;
    for (limit, standing) in limits.iter().zip(standings) {
        decision.remaining = decision.remaining.min(standing.remaining);
        decision.reset_after_us = decision.reset_after_us.max(standing.reset_after);
        if bound.as_ref().is_none_or(|other| standing.binds_before(other, reason)) {
            decision.limit = *limit;
            decision.capacity = standing.capacity;
            decision.used = standing.used;
            decision.limit_reset_after_us = standing.reset_after;
            bound = Some(standing);
        }
    }
    if matches!(reason, Reason::Limited | Reason::Banned) {
        decision.retry_after_us = bound.and_then(|standing| standing.retry_after);
    }
    decision
}

/// A request that a single limit decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single {
    pub(crate) op: Op,
    pub(crate) cost: u64,
    pub(crate) capacity: u64,
    pub(crate) room: bool,
}

/// What a single limit says: few enough words to travel in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) reason: Reason,
    pub(crate) charged: bool,
    pub(crate) joined: bool,
    pub(crate) used: u64,
    /// When it fits, if it is limited.
    pub(crate) retry_at: i64,
    /// When nothing is in use any more, if anything is.
    pub(crate) reset_at: i64,
}

impl Action for Single {
    type Output = Told;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is told stays in registers")]
    fn apply<S: ChargeAt>(self, state: &mut S) -> (Told, bool) {
        let Self { op, cost, capacity, room } = self;
        let before = state.used();
        let fits = before + cost <= capacity;
        let charged = op == Op::Charge || (fits && op == Op::Check);
        let mut told = Told { reason: Reason::Allowed, charged, joined: false, used: before, retry_at: 0, reset_at: 0 };
        if charged {
            told.joined = state.charge(cost, room) == Recording::Joined;
            told.used = state.used_after(before, cost);
        } else if cost > capacity {
            told.reason = Reason::Impossible;
        } else if !fits {
            told.reason = Reason::Limited;
            told.retry_at = state.falls_to(capacity - cost);
        }
        if told.used > 0 {
            told.reset_at = state.falls_to(0);
        }
        (told, charged)
    }
}

impl Told {
    pub(crate) fn allows(&self, mode: Mode) -> bool {
        self.reason == Reason::Allowed || mode == Mode::Shadow
    }

    /// The decision that a policy of one limit makes of it.
    #[inline]
    pub(crate) fn decision(&self, only: &Only, moment: Moment) -> Decision {
        let reset = if self.used > 0 { wait(self.reset_at, moment.now) } else { 0 };
        let shadowed = only.mode == Mode::Shadow && self.reason != Reason::Allowed;
        Decision {
            reason: if shadowed { Reason::Shadow } else { self.reason },
            degraded: self.joined,
            part: 0,
            under: Under::Policy,
            limit: only.limit,
            capacity: only.rule.capacity,
            used: self.used,
            remaining: only.rule.capacity.saturating_sub(self.used),
            retry_after_us: (self.reason == Reason::Limited).then(|| wait(self.retry_at, moment.now)),
            reset_after_us: reset,
            limit_reset_after_us: reset,
            charged_at: self.charged.then_some(moment.charged_at()),
        }
    }
}

/// How one limit stands after the decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) capacity: u64,
    pub(crate) retry_after: Option<u64>,
    pub(crate) reset_after: u64,
}

impl Standing {
    #[inline]
    fn new(
        rule: &Rule,
        state: &LimitState,
        newest: i64,
        moment: Moment,
        cost: u64,
        before: u64,
        outcome: Outcome,
    ) -> Self {
        let wait_for = |level| wait(state.falls_to(rule, newest, level, moment.at), moment.now);
        let used = match outcome {
            // Only a debt may hold less than was charged.
            Outcome::Charged if matches!(state, LimitState::Gcra(_)) => state.used(rule, newest, moment.at),
            Outcome::Charged => (before + cost).min(SATURATION),
            _ => before,
        };
        let fits = cost <= rule.capacity && before + cost <= rule.capacity;
        let limited = outcome == Outcome::Denied && !fits && cost <= rule.capacity;
        Self {
            used,
            remaining: rule.capacity.saturating_sub(used),
            capacity: rule.capacity,
            retry_after: limited.then(|| wait_for(rule.capacity - cost)),
            reset_after: if used == 0 { 0 } else { wait_for(0) },
        }
    }

    /// Whether this limit, which comes later in the policy, is rather the one to tell of.
    fn binds_before(&self, other: &Self, reason: Reason) -> bool {
        match reason {
            Reason::Limited => {
                let rank = |s: &Self| (s.retry_after, std::cmp::Reverse(s.remaining));
                rank(self) > rank(other)
            }
            Reason::Impossible => self.capacity < other.capacity,
            _ => {
                let rank = |s: &Self| (std::cmp::Reverse(s.remaining), s.reset_after);
                rank(self) > rank(other)
            }
        }
    }
}

/// How long it is from `now` until `then`.
#[inline]
pub(crate) fn wait(then: i64, now: i64) -> u64 {
    // Neither is before the epoch, and no wait begins after it ends.
    (then - now).cast_unsigned().min(SATURATION)
}
