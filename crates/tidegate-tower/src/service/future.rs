//! [`ResponseFuture`]: the way of a request through a [`RateLimit`](super::RateLimit).

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use tidegate::{Cost, Key, Op, Store};
use tower_service::Service;

use super::{Shared, settlement};
use crate::{
    answer::{self, body::AnswerBody},
    headers::Items,
    incoming::Incoming,
    key::NoKey,
    ticket::{Decided, Place, Ticket},
};

type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pin_project_lite::pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<I, B, R, S>
    where
        I: Service<Request<B>>,
    {
        #[pin]
        state: State<I, B, R, I::Future, I::Error, S>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State<I, B, R, F, E, S> {
        /// The store decides. Then the request goes to the service.
        Deciding { deciding: Waiting<Result<Decided, NoKey>>, call: Option<Box<(Request<B>, I)>>, shared: Arc<Shared<S>> },
        /// The service responds, and the response stays as it is.
        Passed { #[pin] inner: F },
        /// The service responds, and headers that are known already are added.
        WithHeaders { #[pin] inner: F, items: Option<Items> },
        /// The service responds. The response may correct charges, and then headers are added.
        Allowed { #[pin] inner: F, shared: Arc<Shared<S>>, ticket: Option<Ticket> },
        /// The store corrects charges. Then headers are added to the response.
        Settling { settling: Waiting<Ticket>, outcome: Option<Result<Response<R>, E>>, shared: Arc<Shared<S>> },
        /// The response is ready.
        Answered { response: Option<Response<R>> },
    }
}

impl<I, B, R, S> ResponseFuture<I, B, R, S>
where
    I: Service<Request<B>, Response = Response<R>>,
    B: http_body::Body,
    R: AnswerBody,
    S: Store + Clone + 'static,
{
    #[inline]
    pub(super) fn pass(inner: I::Future) -> Self {
        Self { state: State::Passed { inner } }
    }

    pub(super) fn answer(response: Response<R>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    /// Waits for the decision of the store.
    pub(super) fn deciding(
        shared: Arc<Shared<S>>,
        asks: Vec<(Place, Key<'static>, Cost)>,
        request: Request<B>,
        inner: I,
    ) -> Self {
        let deciding = Box::pin(decide(Arc::clone(&shared), asks));
        Self { state: State::Deciding { deciding, call: Some(Box::new((request, inner))), shared } }
    }

    /// Goes on after the decision.
    #[inline]
    pub(super) fn decided(
        shared: &Arc<Shared<S>>,
        decided: Result<Decided, NoKey>,
        mut request: Request<B>,
        inner: &mut I,
    ) -> Self {
        let Shared { gate, store } = &**shared;
        let clock = store.store().clock();
        let decided = match decided {
            Ok(decided) => decided,
            Err(why) => return Self::answer(answer::uncountable(&Incoming::of(&request), &why).map(R::of)),
        };
        gate.observe(&Incoming::of(&request), &decided);
        if !decided.decision.is_allowed() {
            return Self::answer(gate.deny(&Incoming::of(&request), &decided, clock).map(R::of));
        }
        if gate.tells_service {
            request.extensions_mut().insert(decided.decision);
        }
        let ticket = decided.ticket;
        if ticket.is_empty() {
            return Self::pass(inner.call(request));
        }
        let state = match gate.told_beforehand(&ticket, clock) {
            Some(items) => State::WithHeaders { inner: inner.call(request), items: Some(items) },
            None => State::Allowed { inner: inner.call(request), shared: Arc::clone(shared), ticket: Some(ticket) },
        };
        Self { state }
    }
}

async fn decide<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    asks: Vec<(Place, Key<'static>, Cost)>,
) -> Result<Decided, NoKey> {
    let Shared { gate, store } = &*shared;
    if let [(place, key, cost)] = &*asks {
        let decision = store.decide(Op::Check, &gate.tier(*place).policy, key, *cost).await;
        return Ok(gate.decided(*place, decision, key, *cost));
    }
    let decisions = store.decide_all(Op::Check, &gate.spends(&asks)).await.map_err(NoKey::Rules)?;
    Ok(gate.decided_by_several(&asks, &decisions))
}

impl<I, B, R, S> Future for ResponseFuture<I, B, R, S>
where
    I: Service<Request<B>, Response = Response<R>>,
    B: http_body::Body,
    R: AnswerBody,
    S: Store + Clone + 'static,
{
    type Output = Result<Response<R>, I::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProjection::Passed { inner } => return inner.poll(cx),
                StateProjection::Answered { response } => {
                    let response = response.take();
                    return Poll::Ready(Ok(response.unwrap_or_else(|| unreachable!("polled after it was ready"))));
                }
                StateProjection::WithHeaders { inner, items } => {
                    let mut outcome = ready!(inner.poll(cx));
                    if let (Ok(response), Some(items)) = (&mut outcome, items.take()) {
                        items.tell(response.headers_mut());
                    }
                    return Poll::Ready(outcome);
                }
                StateProjection::Deciding { deciding, call, shared } => {
                    let decided = ready!(deciding.as_mut().poll(cx));
                    let call = call.take().unwrap_or_else(|| unreachable!("polled after it was ready"));
                    let (request, mut inner) = *call;
                    Self::decided(shared, decided, request, &mut inner).state
                }
                StateProjection::Allowed { inner, shared, ticket } => {
                    let outcome = ready!(inner.poll(cx));
                    let mut ticket = ticket.take().unwrap_or_else(|| unreachable!("polled after it was ready"));
                    let (outcome, corrections) = settlement::corrections(shared, &mut ticket, outcome);
                    match settlement::start(shared, ticket, corrections) {
                        Ok(ticket) => return Poll::Ready(with_headers(shared, &ticket, outcome)),
                        Err(settling) => {
                            State::Settling { settling, outcome: Some(outcome), shared: Arc::clone(shared) }
                        }
                    }
                }
                StateProjection::Settling { settling, outcome, shared } => {
                    let ticket = ready!(settling.as_mut().poll(cx));
                    let outcome = outcome.take().unwrap_or_else(|| unreachable!("polled after it was ready"));
                    return Poll::Ready(with_headers(shared, &ticket, outcome));
                }
            };
            self.as_mut().project().state.set(next);
        }
    }
}

fn with_headers<R, E, S: Store>(
    shared: &Shared<S>,
    ticket: &Ticket,
    mut outcome: Result<Response<R>, E>,
) -> Result<Response<R>, E> {
    if let Ok(response) = &mut outcome {
        shared.gate.tell(response.headers_mut(), ticket, None, shared.store.store().clock());
    }
    outcome
}
