//! [`RateLimit`]: a service behind a limit.
//!
//! If the store is immediate, the decision is made when the service is called, with the key borrowed from the request.
//! Then nothing is allocated for a request that one rule admits. Otherwise the decision is a boxed future, and the
//! request waits for it. [`future`] is the way of a request from there on, [`settlement`] corrects charges by the
//! response.

mod future;
mod settlement;

use std::{
    mem,
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll},
};

pub use future::ResponseFuture;
use http::{Request, Response};
use tidegate::{FailSafe, Limiter, Op, Store, StoreError};
use tower_service::Service;

use crate::{
    answer::body::AnswerBody,
    gate::{Course, Gate},
    incoming::Incoming,
    key::NoKey,
};

/// A service behind a limit; made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is as ready as the service behind it, and a denied request costs that service nothing.
#[derive(Debug, Clone)]
pub struct RateLimit<I, S = Arc<Limiter>> {
    pub(crate) inner: I,
    pub(crate) shared: Arc<Shared<S>>,
}

/// What all services of a layer share, behind one pointer: frameworks clone a service for every request, and threads
/// that count references to one thing wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Shared<S> {
    pub(crate) gate: Gate,
    pub(crate) store: FailSafe<S>,
}

impl<I, B, R, S> Service<Request<B>> for RateLimit<I, S>
where
    I: Service<Request<B>, Response = Response<R>> + Clone,
    B: http_body::Body,
    R: AnswerBody,
    S: Store + Clone + 'static,
{
    type Response = Response<R>;
    type Error = I::Error;
    type Future = ResponseFuture<I, B, R, S>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Shared { gate, store } = &*self.shared;
        let incoming = Incoming::of(&request);
        let decided = match gate.course(&incoming) {
            Course::Pass => return ResponseFuture::pass(self.inner.call(request)),
            Course::Refuse(response) => return ResponseFuture::answer(response.map(R::of)),
            Course::One(place, ask) => {
                let (key, cost) = (ask.key.key(), ask.cost);
                let decision = store.decide_now(Op::Check, &gate.tier(place).policy, &key, cost);
                decision
                    .map(|decision| Ok(gate.decided(place, decision, &key, cost)))
                    .ok_or_else(|| vec![(place, key.into_owned(), cost)])
            }
            Course::Several(asks) => {
                let asks: Vec<_> = asks.iter().map(|(place, ask)| (*place, ask.key.key(), ask.cost)).collect();
                match store.decide_all_now(Op::Check, &gate.spends(&asks)) {
                    Some(Ok(decisions)) => Ok(Ok(gate.decided_by_several(&asks, &decisions))),
                    Some(Err(error)) => Ok(Err(NoKey::Rules(error))),
                    None => Err(asks.into_iter().map(|(place, key, cost)| (place, key.into_owned(), cost)).collect()),
                }
            }
        };
        match decided {
            Ok(decided) => ResponseFuture::decided(&self.shared, decided, request, &mut self.inner),
            Err(asks) => {
                // The clone has not said that it is ready, so it stays here, and the one that has is called.
                let next = self.inner.clone();
                let inner = mem::replace(&mut self.inner, next);
                ResponseFuture::deciding(Arc::clone(&self.shared), asks, request, inner)
            }
        }
    }
}

/// Logs an error of the store that a decision met, at most once a second.
pub(crate) fn log_error(error: &StoreError) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static UNLOGGED: AtomicU64 = AtomicU64::new(0);
    use std::sync::atomic::Ordering::Relaxed;
    let now = tidegate::Clock::process().now().as_micros();
    let next = NEXT.load(Relaxed);
    if now >= next && NEXT.compare_exchange(next, now + 1_000_000, Relaxed, Relaxed).is_ok() {
        let unlogged = UNLOGGED.swap(0, Relaxed);
        tracing::warn!(cause = error.cause(), unlogged, "a decision was made without the store: {error}");
    } else {
        UNLOGGED.fetch_add(1, Relaxed);
    }
}
