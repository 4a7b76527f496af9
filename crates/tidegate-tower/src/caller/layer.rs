//! [`BudgetLayer`]: keeps the calls of a tower service within a budget.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, Response, StatusCode};
use tidegate::{Limiter, Policy, Store};
use tower_layer::Layer;
use tower_service::Service;

use super::{acquire_error::AcquireError, budget::Budget, call::Call};

/// A response with a status and headers.
pub trait HttpResponse {
    /// The status.
    fn status(&self) -> StatusCode;
    /// The headers.
    fn headers(&self) -> &HeaderMap;
}

impl<B> HttpResponse for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl HttpResponse for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

type CallFn<Q> = dyn Fn(&Q) -> Call + Send + Sync;

/// Delays calls until a [`Budget`] allows them, and pauses if a response requests it. Made by [`Budget::layer`].
pub struct BudgetLayer<Q, S = Arc<Limiter>> {
    budget: Budget<S>,
    call: Arc<CallFn<Q>>,
}

/// A service whose calls stay within a [`Budget`].
///
/// It is ready when the inner service is ready. It calls the inner service as soon as the budget allows the call.
pub struct BudgetService<I, Q, S = Arc<Limiter>> {
    inner: I,
    layer: BudgetLayer<Q, S>,
}

/// Why a call returned no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The budget did not allow the call, and it was not made.
    #[error(transparent)]
    Budget(#[from] AcquireError),
    /// The inner service failed.
    #[error(transparent)]
    Service(E),
}

impl<S: Store + Clone + 'static> Budget<S> {
    /// Makes a layer for a service that makes calls. `call` returns the key and the cost of a request.
    ///
    /// ```
    /// use tidegate::Policy;
    /// use tidegate_tower::caller::{Budget, Call};
    /// use tower::Layer as _;
    ///
    /// let budget = Budget::new(Policy::new("upstream", ["100/1m".parse()?])?);
    /// let by_host = |request: &reqwest::Request| Call::to_host(request.url().host_str().unwrap_or_default());
    /// let client = budget.layer(by_host).layer(reqwest::Client::new());
    /// # let _ = client;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a policy has a limit such as `4/inflight`. The layer can't know when the response has been read:
    /// [reserve](Self::reserve) each call.
    pub fn layer<Q>(&self, call: impl Fn(&Q) -> Call + Send + Sync + 'static) -> BudgetLayer<Q, S> {
        let mut limits = self.policies().iter().flat_map(Policy::limits);
        if let Some(limit) = limits.find(|limit| limit.is_in_flight()) {
            panic!(
                "a layer can't keep calls within {limit}, which counts open holds: use `Budget::reserve` for each call"
            );
        }
        BudgetLayer { budget: self.clone(), call: Arc::new(call) }
    }
}

impl<I, Q, S: Store + Clone + 'static> Layer<I> for BudgetLayer<Q, S> {
    type Service = BudgetService<I, Q, S>;

    fn layer(&self, inner: I) -> Self::Service {
        BudgetService { inner, layer: self.clone() }
    }
}

impl<I, Q, S> Service<Q> for BudgetService<I, Q, S>
where
    I: Service<Q> + Clone + Send + 'static,
    I::Response: HttpResponse + Send,
    I::Error: Send,
    I::Future: Send,
    Q: Send + 'static,
    S: Store + Clone + 'static,
{
    type Response = I::Response;
    type Error = CallError<I::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<I::Response, CallError<I::Error>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(CallError::Service)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        let BudgetLayer { budget, call } = &self.layer;
        let (call, budget) = (call(&request), budget.clone());
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let permit = budget.acquire_call(call).await?;
            let response = inner.call(request).await.map_err(CallError::Service)?;
            if let Some(wait) = budget.server_wait(response.status(), response.headers()) {
                budget.pause(permit.key(), wait).await;
            }
            Ok(response)
        })
    }
}

impl<Q, S: Clone> Clone for BudgetLayer<Q, S> {
    fn clone(&self) -> Self {
        Self { budget: self.budget.clone(), call: Arc::clone(&self.call) }
    }
}

impl<I: Clone, Q, S: Clone> Clone for BudgetService<I, Q, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<Q, S: fmt::Debug> fmt::Debug for BudgetLayer<Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetLayer").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl<I: fmt::Debug, Q, S: fmt::Debug> fmt::Debug for BudgetService<I, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetService").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}
