//! [`RateLimits`]: Envoy's rate limit service.
//!
//! The descriptors of a request that spend are one decision, all or nothing. Those that only look are looked at just before,
//! each by itself, and if one of them says no, or a rule does, nothing is spent. What is given back is given back after that,
//! whatever the decision: it has been spent in vain already.

use std::sync::Arc;

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse,
    rate_limit_response::{Code, DescriptorStatus},
};
use futures_util::future::try_join_all;
use tidegate::{Cost, Op};
use tonic::{Request, Response, Status, codegen::http::HeaderMap};

use super::{
    give_back, guard,
    message::RateLimitRequest,
    request::{self, Wish},
    status,
};
use crate::{
    auth::Access,
    config::ServerSettings,
    context::Context,
    metrics::Transport,
    service::{ActivePolicies, KeyRequest, PolicyDecision, Price, Refusal, Service},
};

/// The service of that name.
#[derive(Debug)]
pub(super) struct RateLimits {
    service: Arc<Service>,
    settings: Arc<ServerSettings>,
}

impl RateLimits {
    pub(super) fn new(context: &Context) -> Self {
        Self { service: Arc::clone(&context.service), settings: Arc::clone(&context.settings) }
    }

    async fn answer(&self, live: &ActivePolicies, wishes: &[Wish<'_>]) -> Result<RateLimitResponse, Refusal> {
        let looked = self.look(live, wishes).await?;
        let is_denied = |(wish, looked): (&Wish<'_>, &Option<PolicyDecision<'_>>)| {
            matches!(wish, Wish::Denied(_)) || looked.as_ref().is_some_and(|answer| !answer.decision.is_allowed())
        };
        let op = if wishes.iter().zip(&looked).any(is_denied) { Op::Peek } else { Op::Check };
        let mut spent = self.spend(live, op, wishes).await?.into_iter();

        let mut statuses = Vec::with_capacity(wishes.len());
        for (wish, looked) in wishes.iter().zip(looked) {
            statuses.push(match (wish, looked) {
                (Wish::Free, _) => status::free(),
                (Wish::Unlimited, _) => status::unlimited(),
                (Wish::Denied(limit), _) => {
                    self.service.metrics().denied.inc();
                    status::denied(*limit)
                }
                (Wish::GiveBack(ask), _) => {
                    give_back::give_back(&self.service, live, ask).await;
                    status::given_back(&self.service.decide(Transport::Grpc, live, Op::Peek, &one(ask)).await?)
                }
                (_, Some(looked)) => status::of(&looked),
                (_, None) => spent.next().as_ref().map_or_else(status::free, status::of),
            });
        }
        let over = |status: &DescriptorStatus| status.code == i32::from(Code::OverLimit);
        let overall = if statuses.iter().any(over) { Code::OverLimit } else { Code::Ok };
        Ok(RateLimitResponse { overall_code: overall.into(), statuses, ..RateLimitResponse::default() })
    }

    /// Looks for those who want that and nothing more.
    async fn look<'l>(
        &self,
        live: &'l ActivePolicies,
        wishes: &[Wish<'_>],
    ) -> Result<Vec<Option<PolicyDecision<'l>>>, Refusal> {
        try_join_all(wishes.iter().map(async |wish| match wish {
            Wish::Look(ask) => self.service.decide(Transport::Grpc, live, Op::Peek, ask).await.map(Some),
            _ => Ok(None),
        }))
        .await
    }

    /// Decides for all who spend, as one.
    async fn spend<'l>(
        &self,
        live: &'l ActivePolicies,
        op: Op,
        wishes: &[Wish<'_>],
    ) -> Result<Vec<PolicyDecision<'l>>, Refusal> {
        let mut requests = Vec::new();
        for wish in wishes {
            if let Wish::Spend(ask) = wish {
                requests.push(ask.clone());
            }
        }
        match &*requests {
            [] => Ok(Vec::new()),
            [ask] => Ok(vec![self.service.decide(Transport::Grpc, live, op, ask).await?]),
            requests => Ok(self.service.decide_all(Transport::Grpc, live, op, requests).await?.parts),
        }
    }
}

/// The same for a single hit.
fn one<'a>(ask: &KeyRequest<'a>) -> KeyRequest<'a> {
    KeyRequest { price: Price::Cost(Cost::ONE), ..ask.clone() }
}

impl RateLimits {
    /// Whether a caller with these headers is listened to.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Status> {
        guard::admit(&self.settings.tokens, headers, Access::Usage)
    }

    /// Whether tokens are configured and a caller sent a wrong one.
    pub(super) fn shows_wrong_token(&self, headers: &HeaderMap) -> bool {
        guard::shows_wrong_token(&self.settings.tokens, headers)
    }

    /// Decides for a caller who was admitted.
    pub(super) async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        if request.get_ref().descriptors.iter().any(|descriptor| descriptor.is_negative_hits) {
            guard::admit(&self.settings.tokens, request.metadata().as_ref(), Access::Admin)?;
        }
        let request = request.into_inner();
        let live = self.service.active_policies();
        let wishes = request::read(&live.policies, &request)?;
        Ok(Response::new(self.answer(&live, &wishes).await.map_err(|refusal| told(&refusal))?))
    }
}

fn told(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Malformed { message, .. } => Status::invalid_argument(message),
        Refusal::UnknownPolicy { .. } => Status::not_found(refusal.to_string()),
        _ => Status::unavailable(refusal.to_string()),
    }
}
