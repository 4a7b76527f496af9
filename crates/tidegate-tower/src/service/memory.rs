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

use super::RateLimit;
use crate::{
    answer::{
        self,
        body::{AnswerBody, Count},
    },
    gate::{Course, Gate},
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
        let incoming = Incoming::of(&request);
        let decided = match self.gate.course(&incoming) {
            Course::Pass => return ResponseFuture { state: State::Passed { inner: self.inner.call(request) } },
            Course::Refuse(response) => return ResponseFuture::answer(response.map(R::of)),
            Course::One(place, ask) => {
                let key = ask.key.key();
                let decision = self.store.check(&self.gate.tier(place).policy, &key, ask.cost);
                self.gate.decided(place, decision, &key, ask.cost)
            }
            Course::Several(asks) => {
                let asks: Vec<_> = asks.iter().map(|(place, ask)| (*place, ask.key.key(), ask.cost)).collect();
                match self.store.check_all(&self.gate.spends(&asks)) {
                    Ok(decisions) => self.gate.decided_by_several(&asks, &decisions),
                    Err(error) => {
                        let response = answer::uncountable(&incoming, &NoKey::Rules(error));
                        return ResponseFuture::answer(response.map(R::of));
                    }
                }
            }
        };
        self.gate.observe(&incoming, &decided);
        if !decided.decision.is_allowed() {
            let denied = self.gate.deny(&incoming, &decided, self.store.clock().now());
            return ResponseFuture::answer(denied.map(R::of));
        }
        if self.gate.tells_service {
            request.extensions_mut().insert(decided.decision);
        }
        if decided.ticket.is_empty() {
            return ResponseFuture { state: State::Passed { inner: self.inner.call(request) } };
        }
        let (gate, limiter, ticket) = (Arc::clone(&self.gate), Arc::clone(&self.store), decided.ticket);
        ResponseFuture { state: State::Allowed { inner: self.inner.call(request), gate, limiter, ticket } }
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
        Allowed { #[pin] inner: F, gate: Arc<Gate>, limiter: Arc<Limiter>, ticket: Ticket },
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
            StateProjection::Allowed { inner, gate, limiter, ticket } => {
                let outcome = ready!(inner.poll(cx));
                Poll::Ready(match outcome {
                    Ok(mut response) => {
                        for charge in mem::take(&mut ticket.charges) {
                            response = settle(gate, limiter, ticket, charge, response);
                        }
                        gate.tell(response.headers_mut(), ticket, None, limiter.clock().now());
                        Ok(response)
                    }
                    Err(error) => {
                        if gate.refund_if.is_some() {
                            for charge in ticket.charges.drain(..) {
                                let _ = correct(gate, limiter, &charge, Correction::GiveBack(charge.cost));
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
    gate: &Arc<Gate>,
    limiter: &Arc<Limiter>,
    ticket: &mut Ticket,
    charge: Charge,
    response: Response<R>,
) -> Response<R> {
    match charge.correction(gate, &Outgoing::of(&response)) {
        None => response,
        Some(Correction::CountBytes(unit)) => {
            let (gate, limiter) = (Arc::clone(gate), Arc::clone(limiter));
            let count = Count::new(move |bytes| {
                if let Some(correction) = charge.to(bytes.div_ceil(unit)) {
                    let _ = correct(&gate, &limiter, &charge, correction);
                }
            });
            response.map(|body| body.counted(count))
        }
        Some(correction) => {
            if let Some(charged) = correct(gate, limiter, &charge, correction) {
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
        Correction::GiveBack(cost) => {
            limiter.refund(policy, key, cost, charge.at);
            None
        }
        Correction::Add(cost) => Some(limiter.charge(policy, key, cost)),
        Correction::CountBytes(_) => None,
    }
}
