//! [`RequestLimits`]: the settings of a layer, and what they mean for a request. The service calls the store.

use std::{cmp::Reverse, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use ipnet::IpNet;
use tidegate::{AtEnd, Clock, Decision, Decisions, Hold, Mode, Reason, Spend};

use crate::{
    decision::{DecisionEvent, PendingCharge, PolicyIndex, PolicySpend, RequestDecision, ResponseUpdate, Settling},
    head::{RequestHead, ResponseHead},
    headers::{Draft10Headers, HeaderFormat, QuotaStatus},
    hold::change::HoldEvent,
    key::{ClientAddress, CountError},
    response::{self, Denial},
    rule::Rule,
    tiers::TierPolicy,
    warnings::Warnings,
};

/// Every policy allows a hold of this ttl.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(1);

/// All settings of a layer except its store.
#[derive(Clone)]
pub(crate) struct RequestLimits {
    pub(crate) rules: Vec<Rule>,
    /// Whether some requests are reserved and not checked.
    may_reserve: bool,
    pub(crate) hold: Hold,
    pub(crate) client: ClientAddress,
    pub(crate) header_format: HeaderFormat,
    pub(crate) skip: Option<Arc<SkipFn>>,
    pub(crate) allowed: Vec<IpNet>,
    pub(crate) refund_if: Option<Arc<RefundFn>>,
    pub(crate) on_decision: Option<Arc<DecisionFn>>,
    pub(crate) on_hold_change: Option<Arc<HoldChangeFn>>,
    pub(crate) denial_response: Option<Arc<DenialFn>>,
    pub(crate) jitter: Duration,
    pub(crate) inserts_decision: bool,
    pub(crate) warnings: Warnings,
}

pub(crate) type SkipFn = dyn Fn(&RequestHead<'_>) -> bool + Send + Sync;
pub(crate) type RefundFn = dyn Fn(&ResponseHead<'_>) -> bool + Send + Sync;
pub(crate) type DecisionFn = dyn Fn(&DecisionEvent<'_>) + Send + Sync;
pub(crate) type HoldChangeFn = dyn Fn(&HoldEvent<'_>) + Send + Sync;
pub(crate) type DenialFn = dyn Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync;

/// What to do with a request.
pub(crate) enum RequestPlan<'k> {
    /// Pass it to the service without a decision.
    Admit,
    /// Decide under one policy.
    DecideOne(PolicySpend<'k>),
    /// Decide under several policies at once.
    DecideAll(Vec<PolicySpend<'k>>),
    /// Reserve under all of the policies at once.
    Reserve(Vec<PolicySpend<'k>>),
}

impl RequestLimits {
    /// The default settings for these rules.
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Self {
            may_reserve: rules.iter().any(Rule::may_reserve),
            rules,
            hold: Hold::new(Duration::from_secs(60)).spent_at_end(),
            client: ClientAddress::default(),
            header_format: HeaderFormat::default(),
            skip: None,
            allowed: Vec::new(),
            refund_if: None,
            on_decision: None,
            on_hold_change: None,
            denial_response: None,
            jitter: Duration::ZERO,
            inserts_decision: false,
            warnings: Warnings::default(),
        }
    }

    /// Whether a request under these policies is reserved and not checked.
    #[inline]
    pub(crate) fn reserves(&self, spends: &[PolicySpend<'_>]) -> bool {
        let reserves = |spend: &PolicySpend<'_>| self.rules[spend.policy.rule].reserves(spend.policy.tier);
        self.may_reserve && spends.iter().any(reserves)
    }

    /// The hold that requests reserve.
    pub(crate) fn hold(&self) -> Hold {
        let hold = Hold::new(self.hold_ttl());
        if self.hold.at_end() == AtEnd::Spent { hold.spent_at_end() } else { hold }
    }

    /// The ttl of every hold, which is not longer than a policy allows.
    pub(crate) fn hold_ttl(&self) -> Duration {
        self.hold.ttl().clamp(MIN_TTL, self.max_hold())
    }

    /// The longest ttl that all policies allow.
    pub(crate) fn max_hold(&self) -> Duration {
        let policies = self.rules.iter().flat_map(|rule| rule.tiers.policies());
        policies.map(|policy| policy.reservation_bounds().max_hold()).min().unwrap_or(MIN_TTL)
    }

    /// The head of a request, for the closures of this layer.
    #[inline]
    pub(crate) fn head<'r, B: http_body::Body>(&'r self, request: &'r Request<B>) -> RequestHead<'r> {
        RequestHead::new(request).with_client(&self.client)
    }

    /// Whether the layer admits the request without counting it.
    #[inline]
    pub(crate) fn skips(&self, request: &RequestHead<'_>) -> bool {
        self.skip.as_ref().is_some_and(|skip| skip(request))
    }

    /// Finds the policies, keys and costs of a request.
    #[inline]
    pub(crate) fn plan<'k>(&self, request: &'k RequestHead<'_>) -> Result<RequestPlan<'k>, CountError> {
        if self.is_allowed_address(request) {
            return Ok(RequestPlan::Admit);
        }
        let spend = |rule: usize| self.rules[rule].spend(rule, request);
        if self.rules.len() == 1 {
            return Ok(match spend(0)? {
                None => RequestPlan::Admit,
                Some(spend) if self.reserves(std::slice::from_ref(&spend)) => RequestPlan::Reserve(vec![spend]),
                Some(spend) => RequestPlan::DecideOne(spend),
            });
        }
        let mut spends =
            (0..self.rules.len()).filter_map(|rule| spend(rule).transpose()).collect::<Result<Vec<_>, _>>()?;
        if self.reserves(&spends) {
            return Ok(RequestPlan::Reserve(spends));
        }
        Ok(match spends.len() {
            0 | 1 => spends.pop().map_or(RequestPlan::Admit, RequestPlan::DecideOne),
            _ => RequestPlan::DecideAll(spends),
        })
    }

    fn is_allowed_address(&self, request: &RequestHead<'_>) -> bool {
        !self.allowed.is_empty()
            && request.client_ip().is_some_and(|client| self.allowed.iter().any(|net| net.contains(&client)))
    }

    #[inline]
    pub(crate) fn tier(&self, index: PolicyIndex) -> &TierPolicy {
        self.rules[index.rule].tiers.policy(index.tier)
    }

    pub(crate) fn spends<'a>(&'a self, spends: &'a [PolicySpend<'a>]) -> Vec<Spend<'a>> {
        let spend = |spend: &'a PolicySpend<'a>| Spend {
            policy: &self.tier(spend.policy).policy,
            key: &spend.key,
            cost: spend.cost,
        };
        spends.iter().map(spend).collect()
    }

    /// The charge of a decision, if the layer may correct it by the response.
    #[inline]
    fn pending_charge(&self, spend: &PolicySpend<'_>, decision: &Decision) -> Option<PendingCharge> {
        let settles = self.refund_if.is_some() || self.rules.iter().any(|rule| rule.settlement.is_some());
        if settles { PendingCharge::new(spend, decision) } else { None }
    }

    #[inline]
    pub(crate) fn decided(&self, spend: &PolicySpend<'_>, decision: Decision) -> RequestDecision {
        let settling = Settling::Charges(self.pending_charge(spend, &decision).into_iter().collect());
        self.decided_one(spend, decision, settling)
    }

    pub(crate) fn decided_all(&self, spends: &[PolicySpend<'_>], decisions: &Decisions) -> RequestDecision {
        let charges = spends.iter().zip(&decisions.parts);
        let charges = charges.filter_map(|(spend, part)| self.pending_charge(spend, part)).collect();
        self.decided_several(spends, decisions, Settling::Charges(charges))
    }

    /// The decision on a request under one policy.
    #[inline]
    pub(crate) fn decided_one(
        &self,
        spend: &PolicySpend<'_>,
        decision: Decision,
        settling: Settling,
    ) -> RequestDecision {
        let policy = spend.policy;
        let update = ResponseUpdate { reported: self.reported(policy, &decision), policies: Box::default() };
        RequestDecision { decision, policy, update, settling }
    }

    /// The decision on a request under several policies.
    pub(crate) fn decided_several(
        &self,
        spends: &[PolicySpend<'_>],
        decisions: &Decisions,
        settling: Settling,
    ) -> RequestDecision {
        let Decisions { overall, parts, .. } = decisions;
        let policy = spends[overall.part()].policy;
        // If the policy that decided is in shadow mode, clients see the tightest of the enforced ones.
        let each = || spends.iter().zip(parts);
        let enforced = || each().filter_map(|(spend, part)| self.reported(spend.policy, part));
        let tightest = || enforced().min_by_key(|(_, part)| (part.remaining(), Reverse(part.reset_after())));
        let update = ResponseUpdate {
            reported: if self.enforces(policy) { self.reported(policy, overall) } else { tightest() },
            policies: spends.iter().map(|spend| spend.policy).collect(),
        };
        RequestDecision { decision: *overall, policy, update, settling }
    }

    /// The decision, if headers report it. They report no policy in shadow mode, no decision that counted nothing
    /// because the store failed, and no request that can never fit.
    #[inline]
    fn reported(&self, policy: PolicyIndex, decision: &Decision) -> Option<(PolicyIndex, Decision)> {
        let is_uncounted = decision.is_degraded() && decision.is_allowed() && decision.charged_at().is_none();
        let has_quota = !is_uncounted && !matches!(decision.reason(), Reason::StoreUnavailable | Reason::Impossible);
        let has_headers = self.header_format != HeaderFormat::Off || !decision.is_allowed();
        (has_quota && has_headers && self.enforces(policy)).then_some((policy, *decision))
    }

    #[inline]
    fn enforces(&self, policy: PolicyIndex) -> bool {
        self.tier(policy).policy.mode() == Mode::Enforce
    }

    /// Reports a later charge instead, if it leaves less.
    pub(crate) fn report_charge(&self, update: &mut ResponseUpdate, policy: PolicyIndex, charged: &Decision) {
        let less = |reported: &(PolicyIndex, Decision)| charged.remaining() < reported.1.remaining();
        if update.reported.as_ref().is_some_and(less) && charged.reason() == Reason::Allowed {
            update.reported = self.reported(policy, charged).or(update.reported);
        }
    }

    /// Reports the units in use after a hold has been committed. `policies` are those of its requests.
    pub(crate) fn report_settled(&self, update: &mut ResponseUpdate, policies: &[PolicyIndex], settled: &Decision) {
        // Requests for the same policy and key are settled as one, so the part may be that of another request.
        let is_decided =
            |policy: &&PolicyIndex| self.tier(**policy).policy.limits().iter().any(|limit| *limit == settled.limit());
        let policy = policies.get(settled.part()).filter(is_decided);
        if let (Some(policy), Some(_)) = (policy, update.reported) {
            update.reported = self.reported(*policy, settled).or(update.reported);
        }
    }

    #[inline]
    pub(crate) fn on_decision(&self, request: &RequestHead<'_>, decided: &RequestDecision) {
        if let Some(on_decision) = &self.on_decision {
            let policy = &self.tier(decided.policy).policy;
            on_decision(&DecisionEvent { request, decision: &decided.decision, policy });
        }
    }

    /// The response to a request that can't be counted.
    pub(crate) fn reject(&self, request: &RequestHead<'_>, error: &CountError) -> Response<Bytes> {
        match error {
            CountError::Spend(error) => self.warnings.spend(error),
            CountError::Reservation(error) => self.warnings.reservation(error),
            _ => {}
        }
        response::count_error(request, error)
    }

    /// The response to a denied request.
    pub(crate) fn deny(&self, request: &RequestHead<'_>, decided: &RequestDecision, clock: &Clock) -> Response<Bytes> {
        let TierPolicy { policy, labels } = self.tier(decided.policy);
        let decision = &decided.decision;
        let retry_after = match decision.reason() {
            Reason::Limited | Reason::Banned => decision.retry_after().map(|wait| wait + self.random_delay()),
            _ => None,
        };
        let denial = Denial { request, decision, policy, labels, retry_after };
        let mut response = match &self.denial_response {
            Some(denial_response) => denial_response(&denial),
            None => denial.response(),
        };
        self.write_headers(response.headers_mut(), &decided.update, retry_after, clock);
        response
    }

    /// Writes the quota headers of a response.
    pub(crate) fn write_headers(
        &self,
        headers: &mut HeaderMap,
        update: &ResponseUpdate,
        retry_after: Option<Duration>,
        clock: &Clock,
    ) {
        let Some((policy, decision)) = &update.reported else { return };
        let labels = &self.tier(*policy).labels;
        let status = QuotaStatus { labels, decision, retry_after, clock };
        if update.policies.is_empty() {
            return self.header_format.write(headers, [labels], &status);
        }
        let enforced = update.policies.iter().filter(|policy| self.enforces(**policy));
        self.header_format.write(headers, enforced.map(|policy| &self.tier(*policy).labels), &status);
    }

    /// The quota headers of the usual case, in which they are known before the response: one policy and draft 10.
    /// The response settles nothing.
    #[inline]
    pub(crate) fn early_headers(&self, update: &ResponseUpdate, clock: &Clock) -> Option<Draft10Headers> {
        let (policy, decision) = update.reported.as_ref()?;
        let is_usual = self.header_format == HeaderFormat::Draft10 && update.policies.is_empty();
        let labels = &self.tier(*policy).labels;
        is_usual.then(|| Draft10Headers::new([labels], &QuotaStatus { labels, decision, retry_after: None, clock }))
    }

    fn random_delay(&self) -> Duration {
        let max = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        if max == 0 { Duration::ZERO } else { Duration::from_micros(fastrand::u64(0..=max)) }
    }
}

impl fmt::Debug for RequestLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLimits")
            .field("rules", &self.rules)
            .field("client", &self.client)
            .field("header_format", &self.header_format)
            .finish_non_exhaustive()
    }
}
