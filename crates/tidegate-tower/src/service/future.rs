//! [`ResponseFuture`]: the states of a request in a [`RateLimit`](super::RateLimit).

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use tidegate::{Op, Store};
use tower_service::Service;

use super::{Shared, reserve::reserve_in_task, settlement};
use crate::{
    decision::{PolicySpend, RequestDecision, ResponseUpdate, Settling},
    headers::Draft10Headers,
    hold::{BoxFuture, OpenHold},
    key::CountError,
    response::body::ResponseBody,
};

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
        Deciding { deciding: BoxFuture<Result<RequestDecision, CountError>>, call: Option<Box<(Request<B>, I)>>, shared: Arc<Shared<S>> },
        /// The service responds, and the response gets headers that are known already, or none.
        Responding { #[pin] inner: F, quota: Option<Draft10Headers> },
        /// The service responds. The response may settle the request. Then it gets headers.
        Awaiting { #[pin] inner: F, shared: Arc<Shared<S>>, pending: Option<(ResponseUpdate, Settling)> },
        /// The store settles the request. Then the response gets headers.
        Settling { settling: BoxFuture<ResponseUpdate>, outcome: Option<Result<Response<R>, E>>, shared: Arc<Shared<S>> },
        /// The response is ready.
        Ready { response: Option<Response<R>> },
    }
}

impl<I, B, R, S> ResponseFuture<I, B, R, S>
where
    I: Service<Request<B>, Response = Response<R>>,
    B: http_body::Body,
    R: ResponseBody,
    S: Store + Clone + 'static,
{
    #[inline]
    pub(super) fn unchanged(inner: I::Future) -> Self {
        Self { state: State::Responding { inner, quota: None } }
    }

    pub(super) fn ready(response: Response<R>) -> Self {
        Self { state: State::Ready { response: Some(response) } }
    }

    /// Waits for the decision of the store.
    pub(super) fn deciding(
        shared: Arc<Shared<S>>,
        spends: Vec<PolicySpend<'static>>,
        request: Request<B>,
        inner: I,
    ) -> Self {
        let deciding = Box::pin(decide(Arc::clone(&shared), spends));
        Self { state: State::Deciding { deciding, call: Some(Box::new((request, inner))), shared } }
    }

    /// Denies the request or calls the service, by the decision.
    #[inline]
    pub(super) fn decided(
        shared: &Arc<Shared<S>>,
        decided: Result<RequestDecision, CountError>,
        mut request: Request<B>,
        inner: &mut I,
    ) -> Self {
        let Shared { limits, store, .. } = &**shared;
        let clock = store.store().clock();
        let decided = match decided {
            Ok(decided) => decided,
            Err(error) => {
                return Self::ready(limits.reject(&limits.head(&request), &error).map(R::from_bytes));
            }
        };
        limits.on_decision(&limits.head(&request), &decided);
        if !decided.decision.is_allowed() {
            return Self::ready(limits.deny(&limits.head(&request), &decided, clock).map(R::from_bytes));
        }
        if limits.inserts_decision {
            request.extensions_mut().insert(decided.decision);
        }
        let RequestDecision { update, settling, .. } = decided;
        if settling.is_nothing() {
            if update.reported.is_none() {
                return Self::unchanged(inner.call(request));
            }
            if let Some(quota) = limits.early_headers(&update, clock) {
                return Self { state: State::Responding { inner: inner.call(request), quota: Some(quota) } };
            }
        }
        if let Settling::Hold(hold) = &settling {
            hold.with(OpenHold::begin);
            hold.insert_into(request.extensions_mut());
        }
        let (inner, shared) = (inner.call(request), Arc::clone(shared));
        Self { state: State::Awaiting { inner, shared, pending: Some((update, settling)) } }
    }
}

async fn decide<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    spends: Vec<PolicySpend<'static>>,
) -> Result<RequestDecision, CountError> {
    if shared.limits.reserves(&spends) {
        return reserve_in_task(shared, spends).await;
    }
    let Shared { limits, store, .. } = &*shared;
    if let [spend] = &*spends {
        let decision = store.decide(Op::Check, &limits.tier(spend.policy).policy, &spend.key, spend.cost).await;
        return Ok(limits.decided(spend, decision));
    }
    let decisions = store.decide_all(Op::Check, &limits.spends(&spends)).await.map_err(CountError::Spend)?;
    Ok(limits.decided_all(&spends, &decisions))
}

impl<I, B, R, S> Future for ResponseFuture<I, B, R, S>
where
    I: Service<Request<B>, Response = Response<R>>,
    B: http_body::Body,
    R: ResponseBody,
    S: Store + Clone + 'static,
{
    type Output = Result<Response<R>, I::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProjection::Ready { response } => {
                    return Poll::Ready(Ok(take(response)));
                }
                StateProjection::Responding { inner, quota } => {
                    let mut outcome = ready!(inner.poll(cx));
                    if let (Ok(response), Some(quota)) = (&mut outcome, quota.take()) {
                        quota.append_to(response.headers_mut());
                    }
                    return Poll::Ready(outcome);
                }
                StateProjection::Deciding { deciding, call, shared } => {
                    let decided = ready!(deciding.as_mut().poll(cx));
                    let (request, mut inner) = *take(call);
                    Self::decided(shared, decided, request, &mut inner).state
                }
                StateProjection::Awaiting { inner, shared, pending } => {
                    let outcome = ready!(inner.poll(cx));
                    let (update, settling) = take(pending);
                    let (outcome, settled) = settlement::settle(shared, settling, update, outcome);
                    match settled {
                        Ok(update) => return Poll::Ready(with_headers(shared, &update, outcome)),
                        Err(settling) => {
                            State::Settling { settling, outcome: Some(outcome), shared: Arc::clone(shared) }
                        }
                    }
                }
                StateProjection::Settling { settling, outcome, shared } => {
                    let update = ready!(settling.as_mut().poll(cx));
                    return Poll::Ready(with_headers(shared, &update, take(outcome)));
                }
            };
            self.as_mut().project().state.set(next);
        }
    }
}

fn take<T>(value: &mut Option<T>) -> T {
    value.take().unwrap_or_else(|| unreachable!("polled after it was ready"))
}

fn with_headers<R, E, S: Store>(
    shared: &Shared<S>,
    update: &ResponseUpdate,
    mut outcome: Result<Response<R>, E>,
) -> Result<Response<R>, E> {
    if let Ok(response) = &mut outcome {
        shared.limits.write_headers(response.headers_mut(), update, None, shared.store.store().clock());
    }
    outcome
}
