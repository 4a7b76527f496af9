//! [`RateLimits`]: the decisions of Envoy's rate limit service.
//!
//! All descriptors of a request that spend are one decision, all or nothing. Before that, every descriptor without hits is
//! checked separately. If one of these checks or a rule denies, nothing is spent. Refunds follow last, whatever the decision:
//! their units were spent for an earlier request.

use std::sync::Arc;

use futures_util::future::try_join_all;
use tidegate::{Cost, Op};
use tonic::{Request, Response, Status, codegen::http::HeaderMap};

use super::{
    guard,
    proto::{Code, DescriptorStatus, RateLimitRequest, RateLimitResponse},
    refund,
    request::{self, Action},
    status,
};
use crate::{
    auth::Access,
    config::ServerSettings,
    context::Context,
    metrics::Transport,
    service::{ActivePolicies, KeyRequest, PolicyDecision, Price, Refusal, Service},
};

/// Decides the calls of Envoy's rate limit service.
#[derive(Debug)]
pub(super) struct RateLimits {
    service: Arc<Service>,
    settings: Arc<ServerSettings>,
}

impl RateLimits {
    pub(super) fn new(context: &Context) -> Self {
        Self { service: Arc::clone(&context.service), settings: Arc::clone(&context.settings) }
    }

    /// Checks that a caller with these headers may use the service.
    pub(super) fn authorize(&self, headers: &HeaderMap) -> Result<(), Status> {
        guard::authorize(&self.settings.tokens, headers, Access::Usage)
    }

    /// Returns whether tokens are configured and the caller sent a wrong one.
    pub(super) fn has_wrong_token(&self, headers: &HeaderMap) -> bool {
        guard::has_wrong_token(&self.settings.tokens, headers)
    }

    /// Decides a request of an authorized caller.
    pub(super) async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        if request.get_ref().descriptors.iter().any(|descriptor| descriptor.is_negative_hits) {
            guard::authorize(&self.settings.tokens, request.metadata().as_ref(), Access::Admin)?;
        }
        let request = request.into_inner();
        let active = self.service.active_policies();
        let actions = request::parse(&active.policies, &request)?;
        Ok(Response::new(self.decide(&active, &actions).await.map_err(|refusal| refusal_status(&refusal))?))
    }

    async fn decide(&self, active: &ActivePolicies, actions: &[Action<'_>]) -> Result<RateLimitResponse, Refusal> {
        let peeked = self.peek(active, actions).await?;
        let is_denied = |(action, peeked): (&Action<'_>, &Option<PolicyDecision<'_>>)| {
            matches!(action, Action::Deny(_)) || peeked.as_ref().is_some_and(|answer| !answer.decision.is_allowed())
        };
        let op = if actions.iter().zip(&peeked).any(is_denied) { Op::Peek } else { Op::Check };
        let mut spent = self.spend(active, op, actions).await?.into_iter();

        let mut statuses = Vec::with_capacity(actions.len());
        for (action, peeked) in actions.iter().zip(peeked) {
            statuses.push(match (action, peeked) {
                (Action::Ignore, _) => status::unmatched(),
                (Action::Unlimited, _) => status::unlimited(),
                (Action::Deny(limit), _) => {
                    self.service.metrics().denied.inc();
                    status::denied(*limit)
                }
                (Action::Refund(ask), _) => {
                    refund::refund_oldest(&self.service, active, ask).await;
                    let one = KeyRequest { price: Price::Cost(Cost::ONE), ..ask.clone() };
                    status::refunded(&self.service.decide(Transport::Grpc, active, Op::Peek, &one).await?)
                }
                (_, Some(peeked)) => status::decided(&peeked),
                (_, None) => spent.next().as_ref().map_or_else(status::unmatched, status::decided),
            });
        }
        let over = |status: &DescriptorStatus| status.code == i32::from(Code::OverLimit);
        let overall = if statuses.iter().any(over) { Code::OverLimit } else { Code::Ok };
        Ok(RateLimitResponse { overall_code: overall.into(), statuses, ..RateLimitResponse::default() })
    }

    /// Checks the descriptors without hits. The result has `None` for every other descriptor.
    async fn peek<'l>(
        &self,
        active: &'l ActivePolicies,
        actions: &[Action<'_>],
    ) -> Result<Vec<Option<PolicyDecision<'l>>>, Refusal> {
        try_join_all(actions.iter().map(async |action| match action {
            Action::Peek(ask) => self.service.decide(Transport::Grpc, active, Op::Peek, ask).await.map(Some),
            _ => Ok(None),
        }))
        .await
    }

    /// Decides all descriptors that spend, as one decision.
    async fn spend<'l>(
        &self,
        active: &'l ActivePolicies,
        op: Op,
        actions: &[Action<'_>],
    ) -> Result<Vec<PolicyDecision<'l>>, Refusal> {
        let spending = actions.iter().filter_map(|action| match action {
            Action::Spend(ask) => Some(ask.clone()),
            _ => None,
        });
        match &*spending.collect::<Vec<_>>() {
            [] => Ok(Vec::new()),
            [ask] => Ok(vec![self.service.decide(Transport::Grpc, active, op, ask).await?]),
            requests => Ok(self.service.decide_all(Transport::Grpc, active, op, requests).await?.parts),
        }
    }
}

fn refusal_status(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Malformed { message, .. } => Status::invalid_argument(message),
        Refusal::UnknownPolicy { .. } => Status::not_found(refusal.to_string()),
        _ => Status::unavailable(refusal.to_string()),
    }
}
