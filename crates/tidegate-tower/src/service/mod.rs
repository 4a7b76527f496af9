//! [`RateLimit`]: a service with a rate limit.
//!
//! If the store is immediate, the service decides when it is called, with a key that it borrows from the request. It
//! then allocates nothing for a request that one rule admits. Otherwise the decision is a boxed future, and the request
//! waits for it. [`future`] handles the request after the decision. [`mod@reserve`] decides requests that are reserved.
//! [`settlement`] settles a request by its response.

mod future;
mod reserve;
mod settlement;

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

pub use future::ResponseFuture;
use http::{Request, Response};
use tidegate::{FailSafe, Limiter, Op, Policy, Store, StoreError, now_or_never};
use tower_service::Service;

use crate::{
    decision::PolicySpend,
    hold::renewals::Renewals,
    key::CountError,
    limits::{RequestLimits, RequestPlan},
    response::body::ResponseBody,
};

/// A service with a rate limit, made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is ready when the inner service is ready. A denied request does not reach the inner service.
#[derive(Debug, Clone)]
pub struct RateLimit<I, S = Arc<Limiter>> {
    pub(crate) inner: I,
    pub(crate) shared: Arc<Shared<S>>,
}

/// The state that all services of a layer share.
///
/// It is behind one pointer because frameworks clone a service for every request, and threads contend for every
/// reference count.
#[derive(Debug, Clone)]
pub(crate) struct Shared<S> {
    pub(crate) limits: RequestLimits,
    pub(crate) store: FailSafe<S>,
    pub(crate) renewals: Renewals,
}

impl<I, B, R, S> Service<Request<B>> for RateLimit<I, S>
where
    I: Service<Request<B>, Response = Response<R>> + Clone,
    B: http_body::Body,
    R: ResponseBody,
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
        let Shared { limits, store, .. } = &*self.shared;
        let head = limits.head(&request);
        if limits.skips(&head) {
            return ResponseFuture::unchanged(self.inner.call(request));
        }
        let head = head.with_warnings(&limits.warnings);
        let decided = match limits.plan(&head) {
            Ok(RequestPlan::Admit) => return ResponseFuture::unchanged(self.inner.call(request)),
            Ok(RequestPlan::Reserve(spends)) if store.store().is_immediate() => {
                now_or_never(reserve::reserve(&self.shared, &spends))
                    .ok_or_else(|| spends.into_iter().map(PolicySpend::into_owned).collect())
            }
            Ok(RequestPlan::Reserve(spends)) => Err(spends.into_iter().map(PolicySpend::into_owned).collect()),
            Ok(RequestPlan::DecideOne(spend)) => {
                let policy = &limits.tier(spend.policy).policy;
                store
                    .decide_now(Op::Check, policy, &spend.key, spend.cost)
                    .map(|decision| Ok(limits.decided(&spend, decision)))
                    .ok_or_else(|| vec![spend.into_owned()])
            }
            Ok(RequestPlan::DecideAll(spends)) => match store.decide_all_now(Op::Check, &limits.spends(&spends)) {
                Some(Ok(decisions)) => Ok(Ok(limits.decided_all(&spends, &decisions))),
                Some(Err(error)) => Ok(Err(CountError::Spend(error))),
                None => Err(spends.into_iter().map(PolicySpend::into_owned).collect()),
            },
            Err(error) => Ok(Err(error)),
        };
        match decided {
            Ok(decided) => ResponseFuture::decided(&self.shared, decided, request, &mut self.inner),
            Err(spends) => {
                // The clone may not be ready, so the original is called and the clone takes its place.
                let next = self.inner.clone();
                let inner = mem::replace(&mut self.inner, next);
                ResponseFuture::deciding(Arc::clone(&self.shared), spends, request, inner)
            }
        }
    }
}

/// Logs an error of the store, at most once a second.
pub(crate) fn log_error(error: &StoreError) {
    static TIMES: LogTimes = LogTimes::new();
    if let Some(unlogged) = TIMES.next() {
        tracing::warn!(cause = error.cause(), unlogged, "a decision was made without the store: {error}");
    }
}

/// Logs a hold that ended before its request, at most once a second.
pub(crate) fn log_lost_hold(policy: &Policy) {
    static TIMES: LogTimes = LogTimes::new();
    if let Some(unlogged) = TIMES.next() {
        let policy = policy.name().unwrap_or("limits without a name");
        tracing::warn!(
            policy,
            unlogged,
            "the hold of a request ended before its response was sent, so the request is not counted until it is reserved \
             again, and its final cost may not be counted: the store could not renew the hold, or the key was reset"
        );
    }
}

/// Allows one log line a second, and counts the others.
struct LogTimes {
    next: AtomicU64,
    unlogged: AtomicU64,
}

impl LogTimes {
    const fn new() -> Self {
        Self { next: AtomicU64::new(0), unlogged: AtomicU64::new(0) }
    }

    /// The number of lines that were not logged since the last one; `None` if this line is not logged.
    fn next(&self) -> Option<u64> {
        let now = tidegate::Clock::process().now().as_micros();
        let next = self.next.load(Relaxed);
        if now >= next && self.next.compare_exchange(next, now + 1_000_000, Relaxed, Relaxed).is_ok() {
            Some(self.unlogged.swap(0, Relaxed))
        } else {
            self.unlogged.fetch_add(1, Relaxed);
            None
        }
    }
}
