//! [`BudgetLayer`]: calls through a tower service that stay within a budget.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, Response, StatusCode};
use tidegate::{Limiter, Store};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    budget::{AcquireError, Budget},
    call::Call,
};

/// A response that says how it went and what its headers are.
pub trait Told {
    /// The status.
    fn status(&self) -> StatusCode;
    /// The headers.
    fn headers(&self) -> &HeaderMap;
}

impl<B> Told for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl Told for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

type OrderOf<Q> = dyn Fn(&Q) -> Call + Send + Sync;

/// Holds calls back until a [`Budget`] allows them, and minds what the responses say; made by [`Budget::layer`].
pub struct BudgetLayer<Q, S = Arc<Limiter>> {
    budget: Budget<S>,
    order: Arc<OrderOf<Q>>,
}

/// A service whose calls stay within a [`Budget`].
///
/// It is as ready as the service behind it, and the one that said so is the one that is called, right after the budget allows it.
pub struct BudgetService<I, Q, S = Arc<Limiter>> {
    inner: I,
    budget: Budget<S>,
    order: Arc<OrderOf<Q>>,
}

/// Why a call gave no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// It was not made.
    #[error(transparent)]
    NotMade(#[from] AcquireError),
    /// It was made, and failed.
    #[error(transparent)]
    Failed(E),
}

impl<S: Store + Clone + 'static> Budget<S> {
    /// A layer for the services that make calls: `order` says for whom each is, and what it costs.
    ///
    /// ```
    /// use tidegate::Policy;
    /// use tidegate_tower::caller::{Budget, Call};
    /// use tower::Layer as _;
    ///
    /// let budget = Budget::new(Policy::new("upstream", ["100/1m".parse()?])?);
    /// let by_host = |request: &reqwest::Request| Call::to(request.url().host_str().unwrap_or_default());
    /// let client = budget.layer(by_host).layer(reqwest::Client::new());
    /// # let _ = client;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layer<Q>(&self, order: impl Fn(&Q) -> Call + Send + Sync + 'static) -> BudgetLayer<Q, S> {
        BudgetLayer { budget: self.clone(), order: Arc::new(order) }
    }
}

impl<I, Q, S: Store + Clone + 'static> Layer<I> for BudgetLayer<Q, S> {
    type Service = BudgetService<I, Q, S>;

    fn layer(&self, inner: I) -> Self::Service {
        BudgetService { inner, budget: self.budget.clone(), order: Arc::clone(&self.order) }
    }
}

impl<I, Q, S> Service<Q> for BudgetService<I, Q, S>
where
    I: Service<Q> + Clone + Send + 'static,
    I::Response: Told + Send,
    I::Error: Send,
    I::Future: Send,
    Q: Send + 'static,
    S: Store + Clone + 'static,
{
    type Response = I::Response;
    type Error = CallError<I::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<I::Response, CallError<I::Error>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(CallError::Failed)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        let (order, budget) = ((self.order)(&request), self.budget.clone());
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let permit = budget.fill(order).await?;
            let response = inner.call(request).await.map_err(CallError::Failed)?;
            if let Some(wait) = budget.wait_told(response.status(), response.headers()) {
                budget.pause(permit.key(), wait).await;
            }
            Ok(response)
        })
    }
}

impl<Q, S: Clone> Clone for BudgetLayer<Q, S> {
    fn clone(&self) -> Self {
        Self { budget: self.budget.clone(), order: Arc::clone(&self.order) }
    }
}

impl<I: Clone, Q, S: Clone> Clone for BudgetService<I, Q, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), budget: self.budget.clone(), order: Arc::clone(&self.order) }
    }
}

impl<Q, S: fmt::Debug> fmt::Debug for BudgetLayer<Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetLayer").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl<I: fmt::Debug, Q, S: fmt::Debug> fmt::Debug for BudgetService<I, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetService")
            .field("inner", &self.inner)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
