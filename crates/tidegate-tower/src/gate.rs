//! [`Gate`]: what a layer decides by, and the way of a request through it. Only the store is asked elsewhere.

use std::{cmp::Reverse, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Response};
use ipnet::IpNet;
use tidegate::{Clock, Cost, Decision, Decisions, Key, Mode, Policy, Reason, Spend};

use crate::{
    answer::{self, Denial},
    headers::{Dialect, Items, Standing},
    incoming::{Incoming, Outgoing},
    key::ClientAddress,
    rule::{Ask, Rule, Tier},
    ticket::{Charge, Decided, Place, Ticket},
};

/// Everything that a layer is told, except where the state lives.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) rules: Vec<Rule>,
    pub(crate) client: ClientAddress,
    pub(crate) dialect: Dialect,
    pub(crate) skip: Option<Arc<Skip>>,
    pub(crate) allowed: Vec<IpNet>,
    pub(crate) refund_if: Option<Arc<RefundIf>>,
    pub(crate) observe: Option<Arc<Observe>>,
    pub(crate) denied: Option<Arc<Denied>>,
    pub(crate) jitter: Duration,
    pub(crate) tells_service: bool,
}

pub(crate) type Skip = dyn for<'r> Fn(&Incoming<'r>) -> bool + Send + Sync;
pub(crate) type RefundIf = dyn for<'r> Fn(&Outgoing<'r>) -> bool + Send + Sync;
pub(crate) type Observe = dyn for<'r> Fn(&Observed<'r>) + Send + Sync;
pub(crate) type Denied = dyn for<'r> Fn(&Denial<'r>) -> Response<Bytes> + Send + Sync;

/// A decision that was made, for metrics and logs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Observed<'r> {
    /// The request.
    pub request: Incoming<'r>,
    /// What was decided; under several policies, of the whole.
    pub decision: &'r Decision,
    /// The policy that bound.
    pub policy: &'r Policy,
}

/// What is to be done with a request.
pub(crate) enum Course<'r> {
    /// It is not limited.
    Pass,
    /// It can't be counted.
    Refuse(Response<Bytes>),
    /// The store is to be asked, by one rule …
    One(Place, Ask<'r>),
    /// … or by several at once.
    Several(Vec<(Place, Ask<'r>)>),
}

impl Gate {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Self {
            rules,
            client: ClientAddress::peer(),
            dialect: Dialect::default(),
            skip: None,
            allowed: Vec::new(),
            refund_if: None,
            observe: None,
            denied: None,
            jitter: Duration::ZERO,
            tells_service: false,
        }
    }

    /// Finds out what to ask the store.
    #[inline]
    pub(crate) fn course<'r>(&self, request: &Incoming<'r>) -> Course<'r> {
        if self.skip.as_ref().is_some_and(|skip| skip(request)) || self.is_allowed_address(request) {
            return Course::Pass;
        }
        let asked = |rule: usize| {
            let ask = self.rules[rule].ask(request, &self.client)?;
            Ok(ask.map(|ask| (Place { rule, tier: ask.tier }, ask)))
        };
        let asks = match &*self.rules {
            [_] => asked(0).map(|ask| match ask {
                Some((place, ask)) => Course::One(place, ask),
                None => Course::Pass,
            }),
            rules => (0..rules.len())
                .filter_map(|number| asked(number).transpose())
                .collect::<Result<Vec<_>, _>>()
                .map(|mut asks| match asks.len() {
                    0 => Course::Pass,
                    1 => asks.pop().map_or(Course::Pass, |(place, ask)| Course::One(place, ask)),
                    _ => Course::Several(asks),
                }),
        };
        asks.unwrap_or_else(|why| Course::Refuse(answer::uncountable(request, &why)))
    }

    fn is_allowed_address(&self, request: &Incoming<'_>) -> bool {
        !self.allowed.is_empty()
            && self
                .client
                .find(request.headers(), request.peer())
                .is_some_and(|client| self.allowed.iter().any(|net| net.contains(&client)))
    }

    #[inline]
    pub(crate) fn tier(&self, place: Place) -> &Tier {
        self.rules[place.rule].tier(place.tier)
    }

    /// A spend under one rule, for a decision of several.
    pub(crate) fn spends<'a>(&'a self, asks: &'a [(Place, Key<'a>, Cost)]) -> Vec<Spend<'a>> {
        asks.iter().map(|(place, key, cost)| Spend { policy: &self.tier(*place).policy, key, cost: *cost }).collect()
    }

    /// Whether what was charged may have to be corrected when the response is there.
    pub(crate) fn settles(&self) -> bool {
        self.refund_if.is_some() || self.rules.iter().any(|rule| rule.settle.is_some())
    }

    /// What a decision under one rule comes to.
    #[inline]
    pub(crate) fn decided(&self, bound: Place, decision: Decision, key: &Key<'_>, cost: Cost) -> Decided {
        let charges = match decision.charged_at() {
            Some(at) if self.settles() => {
                let is_degraded = decision.is_degraded();
                vec![Charge { place: bound, key: key.clone().into_owned(), cost, at, is_degraded }]
            }
            _ => Vec::new(),
        };
        let ticket = Ticket { told: self.told(bound, &decision), places: Box::default(), charges };
        Decided { decision, bound, ticket }
    }

    /// What a decision under several comes to.
    pub(crate) fn decided_by_several(&self, asks: &[(Place, Key<'_>, Cost)], decisions: &Decisions) -> Decided {
        let Decisions { overall: decision, parts, .. } = decisions;
        let each = || asks.iter().zip(parts);
        let charge = |((place, key, cost), part): (&(Place, Key<'_>, Cost), &Decision)| {
            let at = part.charged_at()?;
            let is_degraded = part.is_degraded();
            Some(Charge { place: *place, key: key.clone().into_owned(), cost: *cost, at, is_degraded })
        };
        let charges = if self.settles() { each().filter_map(charge).collect() } else { Vec::new() };
        let bound = asks[decision.part()].0;
        // If what bound only watches, there may be others that enforce.
        let others = || each().filter_map(|((place, ..), part)| self.told(*place, part));
        let tightest = || others().min_by_key(|(_, part)| (part.remaining(), Reverse(part.reset_after())));
        let told = if self.enforces(bound) { self.told(bound, decision) } else { tightest() };
        let ticket = Ticket { told, places: asks.iter().map(|(place, ..)| *place).collect(), charges };
        Decided { decision: *decision, bound, ticket }
    }

    #[inline]
    fn told(&self, place: Place, decision: &Decision) -> Option<(Place, Decision)> {
        let is_uncounted = decision.is_degraded() && decision.is_allowed() && decision.charged_at().is_none();
        let makes_sense = !is_uncounted && !matches!(decision.reason(), Reason::StoreUnavailable | Reason::Impossible);
        let is_said = self.dialect != Dialect::Off || !decision.is_allowed();
        (makes_sense && is_said && self.enforces(place)).then_some((place, *decision))
    }

    #[inline]
    fn enforces(&self, place: Place) -> bool {
        self.tier(place).policy.mode() == Mode::Enforce
    }

    /// Has it told that more was charged in the end, if that leaves less.
    pub(crate) fn charged_more(&self, ticket: &mut Ticket, place: Place, charged: &Decision) {
        let less = |told: &(Place, Decision)| charged.remaining() < told.1.remaining();
        if ticket.told.as_ref().is_some_and(less) && charged.reason() == Reason::Allowed {
            ticket.told = self.told(place, charged).or(ticket.told);
        }
    }

    /// Shows a decision to who wants to know of it.
    #[inline]
    pub(crate) fn observe(&self, request: &Incoming<'_>, decided: &Decided) {
        if let Some(observe) = &self.observe {
            let policy = &self.tier(decided.bound).policy;
            observe(&Observed { request: *request, decision: &decided.decision, policy });
        }
    }

    /// The answer to a request that is denied.
    pub(crate) fn deny(&self, request: &Incoming<'_>, decided: &Decided, clock: &Clock) -> Response<Bytes> {
        let Tier { policy, labels } = self.tier(decided.bound);
        let decision = &decided.decision;
        let retry_after = match decision.reason() {
            Reason::Limited | Reason::Banned => decision.retry_after().map(|wait| wait + self.delay()),
            _ => None,
        };
        let denial = Denial { request: *request, decision, policy, labels, retry_after };
        let mut response = match &self.denied {
            Some(denied) => denied(&denial),
            None => denial.answer(),
        };
        self.tell(response.headers_mut(), &decided.ticket, retry_after, clock);
        response
    }

    /// Tells a client where it stands.
    pub(crate) fn tell(&self, headers: &mut HeaderMap, ticket: &Ticket, retry_after: Option<Duration>, clock: &Clock) {
        let Some((bound, decision)) = &ticket.told else { return };
        let bound = &self.tier(*bound).labels;
        let standing = Standing { bound, decision, retry_after, clock };
        if ticket.places.is_empty() {
            return self.dialect.tell(headers, [bound], &standing);
        }
        let shown = ticket.places.iter().filter(|place| self.enforces(**place));
        self.dialect.tell(headers, shown.map(|place| &self.tier(*place).labels), &standing);
    }

    /// The same for the usual case, where it can be said before the response is there: under one policy, in draft 10, and nothing
    /// is corrected.
    #[inline]
    pub(crate) fn told_beforehand(&self, ticket: &Ticket, clock: &Clock) -> Option<Items> {
        let (bound, decision) = ticket.told.as_ref()?;
        let is_usual = self.dialect == Dialect::Draft10 && ticket.places.is_empty() && ticket.charges.is_empty();
        let bound = &self.tier(*bound).labels;
        is_usual.then(|| Items::new(&Standing { bound, decision, retry_after: None, clock }))
    }

    /// What a retry time is made longer by.
    fn delay(&self) -> Duration {
        let most = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        if most == 0 { Duration::ZERO } else { Duration::from_micros(fastrand::u64(0..=most)) }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("rules", &self.rules)
            .field("client", &self.client)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}
