//! In Redis: the request waits for the answer, the service behind for the request. What waits is boxed, once for each request: the
//! store's own futures have no name to be kept by, and a trip over the network allocates more than that.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use tidegate::{Cost, Decision, Key};
use tidegate_redis::RedisStore;
use tower_service::Service;

use super::{RateLimit, Shared};
use crate::{
    answer::{
        self,
        body::{AnswerBody, Count},
    },
    gate::{Course, Gate},
    incoming::{Incoming, Outgoing},
    key::NoKey,
    store::sealed::Asked as _,
    ticket::{Charge, Correction, Decided, Place},
};

/// The response of a [`RateLimit`] in Redis.
pub(super) type BoxedResponse<R, E> = Pin<Box<dyn Future<Output = Result<Response<R>, E>> + Send>>;

impl<I, B, R> Service<Request<B>> for RateLimit<I, RedisStore>
where
    I: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    I::Future: Send,
    I::Error: Send,
    B: http_body::Body + Send + 'static,
    R: AnswerBody + Send + 'static,
{
    type Response = Response<R>;
    type Error = I::Error;
    type Future = BoxedResponse<R, I::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asks = match self.shared.gate.course(&Incoming::of(&request)) {
            Course::Pass => return Box::pin(self.inner.call(request)),
            Course::Refuse(response) => return Box::pin(std::future::ready(Ok(response.map(R::of)))),
            Course::One(place, ask) => vec![(place, ask.key.key().into_owned(), ask.cost)],
            Course::Several(asks) => {
                asks.iter().map(|(place, ask)| (*place, ask.key.key().into_owned(), ask.cost)).collect()
            }
        };
        // The one that said it was ready is the one to call.
        let next = self.inner.clone();
        let inner = mem::replace(&mut self.inner, next);
        Box::pin(limited(inner, Arc::clone(&self.shared), asks, request))
    }
}

async fn limited<I, B, R>(
    mut inner: I,
    shared: Arc<Shared<RedisStore>>,
    asks: Vec<(Place, Key<'static>, Cost)>,
    mut request: Request<B>,
) -> Result<Response<R>, I::Error>
where
    I: Service<Request<B>, Response = Response<R>>,
    B: http_body::Body,
    R: AnswerBody,
{
    let Shared { gate, store } = &*shared;
    let decided = match decide(gate, store, &asks).await {
        Ok(decided) => decided,
        Err(why) => return Ok(answer::uncountable(&Incoming::of(&request), &why).map(R::of)),
    };
    gate.observe(&Incoming::of(&request), &decided);
    if !decided.decision.is_allowed() {
        return Ok(gate.deny(&Incoming::of(&request), &decided, store.clock()).map(R::of));
    }
    if gate.tells_service {
        request.extensions_mut().insert(decided.decision);
    }
    let mut ticket = decided.ticket;
    let charges = mem::take(&mut ticket.charges);
    match inner.call(request).await {
        Ok(mut response) => {
            for charge in charges {
                let correction = charge.correction(gate, &Outgoing::of(&response));
                match correction {
                    None => {}
                    Some(Correction::CountBytes(unit)) => {
                        let count = counting(Arc::clone(&shared), charge, unit);
                        response = response.map(|body| body.counted(count));
                    }
                    Some(correction) => {
                        if let Some(charged) = correct(gate, store, &charge, correction).await {
                            gate.charged_more(&mut ticket, charge.place, &charged);
                        }
                    }
                }
            }
            gate.tell(response.headers_mut(), &ticket, None, store.clock());
            Ok(response)
        }
        Err(error) => {
            if gate.refund_if.is_some() {
                for charge in charges {
                    let _ = correct(gate, store, &charge, Correction::Refund(charge.cost)).await;
                }
            }
            Err(error)
        }
    }
}

async fn decide(gate: &Gate, store: &RedisStore, asks: &[(Place, Key<'static>, Cost)]) -> Result<Decided, NoKey> {
    if let [(place, key, cost)] = asks {
        let decision = store.check(&gate.tier(*place).policy, key, *cost).await;
        return Ok(gate.decided(*place, decision, key, *cost));
    }
    let decisions = store.check_all(&gate.spends(asks)).await.map_err(NoKey::Rules)?;
    Ok(gate.decided_by_several(asks, &decisions))
}

/// Corrects a charge when the body has been sent, by a task of its own: a body that is dropped can't wait.
fn counting(shared: Arc<Shared<RedisStore>>, charge: Charge, unit: u64) -> Count {
    let runtime = tokio::runtime::Handle::current();
    Count::new(move |bytes| {
        if let Some(correction) = charge.to(bytes.div_ceil(unit)) {
            runtime.spawn(async move {
                let _ = correct(&shared.gate, &shared.store, &charge, correction).await;
            });
        }
    })
}

/// Corrects a charge; what was decided if more was charged.
async fn correct(gate: &Gate, store: &RedisStore, charge: &Charge, correction: Correction) -> Option<Decision> {
    let (policy, key) = (&gate.tier(charge.place).policy, &charge.key);
    match correction {
        // It was charged here, while Redis was away: there is nothing of it to give back there.
        Correction::Refund(_) if charge.is_degraded => None,
        Correction::Refund(cost) => {
            if let Err(trouble) = store.refund(policy, key, cost, charge.at).await {
                tracing::warn!("{} units were not given back: {trouble}", cost.get());
            }
            None
        }
        Correction::Charge(cost) => Some(store.charge(policy, key, cost).await),
        Correction::CountBytes(_) => None,
    }
}
