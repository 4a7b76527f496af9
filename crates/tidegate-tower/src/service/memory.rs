//! In memory: decided when the service is called, with the key borrowed from the request. Nothing is allocated for a request that is let
//! through by one rule.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use tidegate::{Decision, Limiter};
use tower_service::Service;

use super::{RateLimit, Shared};
use crate::{
    answer::{
        self,
        body::{AnswerBody, Count},
    },
    gate::{Course, Gate},
    headers::Items,
    incoming::{Incoming, Outgoing},
    key::NoKey,
    ticket::{Charge, Correction, Ticket},
};

impl<I, B, R> Service<Request<B>> for RateLimit<I, Arc<Limiter>>
where
    I: Service<Request<B>, Response = Response<R>>,
    B: http_body::Body,
    R: AnswerBody,
{
    type Response = Response<R>;
    type Error = I::Error;
    type Future = ResponseFuture<I::Future, R>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Shared { gate, store } = &*self.shared;
        let incoming = Incoming::of(&request);
        let decided = match gate.course(&incoming) {
            Course::Pass => return ResponseFuture { state: State::Passed { inner: self.inner.call(request) } },
            Course::Refuse(response) => return ResponseFuture::answer(response.map(R::of)),
            Course::One(place, ask) => {
                let key = ask.key.key();
                let decision = store.check(&gate.tier(place).policy, &key, ask.cost);
                gate.decided(place, decision, &key, ask.cost)
            }
            Course::Several(asks) => {
                let asks: Vec<_> = asks.iter().map(|(place, ask)| (*place, ask.key.key(), ask.cost)).collect();
                match store.check_all(&gate.spends(&asks)) {
                    Ok(decisions) => gate.decided_by_several(&asks, &decisions),
                    Err(error) => {
                        let response = answer::uncountable(&incoming, &NoKey::Rules(error));
                        return ResponseFuture::answer(response.map(R::of));
                    }
                }
            }
        };
        gate.observe(&incoming, &decided);
        if !decided.decision.is_allowed() {
            let denied = gate.deny(&incoming, &decided, store.clock());
            return ResponseFuture::answer(denied.map(R::of));
        }
        if gate.tells_service {
            request.extensions_mut().insert(decided.decision);
        }
        if decided.ticket.is_empty() {
            return ResponseFuture { state: State::Passed { inner: self.inner.call(request) } };
        }
        let ticket = decided.ticket;
        let state = match gate.told_beforehand(&ticket, store.clock()) {
            Some(items) => State::Told { inner: self.inner.call(request), items: Some(items) },
            None => State::Allowed { inner: self.inner.call(request), shared: Arc::clone(&self.shared), ticket },
        };
        ResponseFuture { state }
    }
}

pin_project_lite::pin_project! {
    /// The response of a [`RateLimit`] in memory.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State<F, R> {
        Passed { #[pin] inner: F },
        Told { #[pin] inner: F, items: Option<Items> },
        Allowed { #[pin] inner: F, shared: Arc<Shared<Arc<Limiter>>>, ticket: Ticket },
        Answered { response: Option<Response<R>> },
    }
}

impl<F, R> ResponseFuture<F, R> {
    fn answer(response: Response<R>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: AnswerBody,
{
    type Output = Result<Response<R>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { inner } => inner.poll(cx),
            StateProjection::Answered { response } => {
                Poll::Ready(Ok(response.take().unwrap_or_else(|| unreachable!("polled after it was ready"))))
            }
            StateProjection::Told { inner, items } => {
                let mut outcome = ready!(inner.poll(cx));
                if let (Ok(response), Some(items)) = (&mut outcome, items.take()) {
                    items.tell(response.headers_mut());
                }
                Poll::Ready(outcome)
            }
            StateProjection::Allowed { inner, shared, ticket } => {
                let outcome = ready!(inner.poll(cx));
                let Shared { gate, store } = &**shared;
                Poll::Ready(match outcome {
                    Ok(mut response) => {
                        for charge in mem::take(&mut ticket.charges) {
                            response = settle(shared, ticket, charge, response);
                        }
                        gate.tell(response.headers_mut(), ticket, None, store.clock());
                        Ok(response)
                    }
                    Err(error) => {
                        if gate.refund_if.is_some() {
                            for charge in ticket.charges.drain(..) {
                                let _ = correct(gate, store, &charge, Correction::Refund(charge.cost));
                            }
                        }
                        Err(error)
                    }
                })
            }
        }
    }
}

/// Corrects a charge by its response, or when that has been sent.
fn settle<R: AnswerBody>(
    shared: &Arc<Shared<Arc<Limiter>>>,
    ticket: &mut Ticket,
    charge: Charge,
    response: Response<R>,
) -> Response<R> {
    let Shared { gate, store } = &**shared;
    match charge.correction(gate, &Outgoing::of(&response)) {
        None => response,
        Some(Correction::CountBytes(unit)) => {
            let shared = Arc::clone(shared);
            let count = Count::new(move |bytes| {
                if let Some(correction) = charge.to(bytes.div_ceil(unit)) {
                    let _ = correct(&shared.gate, &shared.store, &charge, correction);
                }
            });
            response.map(|body| body.counted(count))
        }
        Some(correction) => {
            if let Some(charged) = correct(gate, store, &charge, correction) {
                gate.charged_more(ticket, charge.place, &charged);
            }
            response
        }
    }
}

/// Corrects a charge; what was decided if more was charged.
fn correct(gate: &Gate, limiter: &Limiter, charge: &Charge, correction: Correction) -> Option<Decision> {
    let (policy, key) = (&gate.tier(charge.place).policy, &charge.key);
    match correction {
        Correction::Refund(cost) => {
            limiter.refund(policy, key, cost, charge.at);
            None
        }
        Correction::Charge(cost) => Some(limiter.charge(policy, key, cost)),
        Correction::CountBytes(_) => None,
    }
}
