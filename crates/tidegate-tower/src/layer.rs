//! [`RateLimitLayer`]: five lines in front of a service.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use ipnet::IpNet;
use tidegate::{FailSafe, Limiter, Store};
use tower_layer::Layer;

use crate::{
    answer::Denial,
    gate::{Gate, Observed},
    headers::Dialect,
    incoming::{Incoming, Outgoing},
    key::ClientAddress,
    rule::Rule,
    service::{RateLimit, Shared, log_error},
};

/// Limits what reaches a service.
///
/// A [`Policy`](tidegate::Policy) is all it needs: then each client's address is counted, in memory, and who is denied gets a 429 that
/// says when to come back.
///
/// ```
/// use axum::{Router, routing::get};
/// use tidegate::Policy;
/// use tidegate_tower::RateLimitLayer;
///
/// let policy = Policy::new("api", ["60/1m".parse()?])?;
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::new(policy));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Around one route, one method or a whole router it limits just that; layers around each other all have to agree. The
/// clones of a layer, and the services made by it, share one state.
#[derive(Debug, Clone)]
pub struct RateLimitLayer<S = Arc<Limiter>> {
    shared: Arc<Shared<S>>,
}

impl RateLimitLayer {
    /// Limits by a rule, or by a policy alone, in this process's memory.
    pub fn new(rule: impl Into<Rule>) -> Self {
        Self::all([rule.into()])
    }

    /// Limits by several rules as one decision: all are charged, or, if one denies, none.
    ///
    /// # Panics
    /// If there are none or more than 64.
    pub fn all(rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules: Vec<Rule> = rules.into_iter().collect();
        assert!((1..=64).contains(&rules.len()), "{} rules can't be one decision: use 1 to 64", rules.len());
        let store = FailSafe::new(Arc::default()).on_error(log_error);
        Self { shared: Arc::new(Shared { gate: Gate::new(rules), store }) }
    }
}

impl<S: Store + Clone + 'static> RateLimitLayer<S> {
    /// Keeps the state in `store`: an `Arc<Limiter>` that other parts of the program share, a `RedisStore` of
    /// tidegate-redis, or any other [`Store`].
    pub fn in_store<T: Store + Clone + 'static>(self, store: T) -> RateLimitLayer<T> {
        let store = FailSafe::new(store).on_error(log_error);
        RateLimitLayer { shared: Arc::new(Shared { gate: self.shared.gate.clone(), store }) }
    }

    fn with(mut self, change: impl FnOnce(&mut Gate)) -> Self {
        change(&mut Arc::make_mut(&mut self.shared).gate);
        self
    }

    /// How clients' addresses are found; by the connection alone if unsaid.
    #[must_use]
    pub fn client_address(self, client: ClientAddress) -> Self {
        self.with(|gate| gate.client = client)
    }

    /// Which headers tell a client where it stands; those of draft 10 if unsaid.
    #[must_use]
    pub fn headers(self, dialect: Dialect) -> Self {
        self.with(|gate| gate.dialect = dialect)
    }

    /// Lets through, uncounted, what `skip` says yes to: health checks, preflights.
    #[must_use]
    pub fn skip<F>(self, skip: F) -> Self
    where
        F: for<'r> Fn(&Incoming<'r>) -> bool + Send + Sync + 'static,
    {
        self.with(|gate| gate.skip = Some(Arc::new(skip)))
    }

    /// Lets through, uncounted, clients with these addresses.
    #[must_use]
    pub fn allow(self, clients: impl IntoIterator<Item = IpNet>) -> Self {
        self.with(|gate| gate.allowed.extend(clients))
    }

    /// Gives back all that a request was charged if `failed` says yes to its response, or if there is none because the service
    /// failed.
    #[must_use]
    pub fn refund_if<F>(self, failed: F) -> Self
    where
        F: for<'r> Fn(&Outgoing<'r>) -> bool + Send + Sync + 'static,
    {
        self.with(|gate| gate.refund_if = Some(Arc::new(failed)))
    }

    /// Gives back all that a request was charged if the server is to blame: a 5xx, or a gRPC status that says the same.
    #[must_use]
    pub fn refund_server_errors(self) -> Self {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not for every lifetime")]
        self.refund_if(|response| response.is_server_error())
    }

    /// Answers denials in another way. The headers that tell where the client stands, `Retry-After` among them, are added to it.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use http::Response;
    /// # use tidegate_tower::RateLimitLayer;
    /// # let policy = tidegate::Policy::new("api", ["60/1m".parse()?])?;
    /// RateLimitLayer::new(policy).denied(|denial| {
    ///     let mut response = Response::new(Bytes::from_static(b"slow down, please\n"));
    ///     *response.status_mut() = denial.status();
    ///     response
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn denied<F>(self, answer: F) -> Self
    where
        F: for<'r> Fn(&Denial<'r>) -> Response<Bytes> + Send + Sync + 'static,
    {
        self.with(|gate| gate.denied = Some(Arc::new(answer)))
    }

    /// Tells those who are denied to come back later by up to this, at random, so that they don't come back all at once.
    #[must_use]
    pub fn jitter(self, most: Duration) -> Self {
        self.with(|gate| gate.jitter = most)
    }

    /// Shows every decision to `observe`, for metrics and logs: it is all one sees of a policy that only watches.
    #[must_use]
    pub fn observe<F>(self, observe: F) -> Self
    where
        F: for<'r> Fn(&Observed<'r>) + Send + Sync + 'static,
    {
        self.with(|gate| gate.observe = Some(Arc::new(observe)))
    }

    /// Puts the [`Decision`](tidegate::Decision) beside the request, for the service: in axum, `Extension<Decision>`.
    #[must_use]
    pub fn tell_service(self) -> Self {
        self.with(|gate| gate.tells_service = true)
    }
}

impl<S, I> Layer<I> for RateLimitLayer<S> {
    type Service = RateLimit<I, S>;

    fn layer(&self, inner: I) -> RateLimit<I, S> {
        RateLimit { inner, shared: Arc::clone(&self.shared) }
    }
}
