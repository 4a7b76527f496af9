//! [`RateLimitLayer`]: limits the requests that reach a service.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use ipnet::IpNet;
use tidegate::{FailSafe, Hold, Limiter, Store, format_duration};
use tower_layer::Layer;

use crate::{
    decision::DecisionEvent,
    head::{RequestHead, ResponseHead},
    headers::HeaderFormat,
    hold::{change::HoldEvent, renewals::Renewals},
    key::ClientAddress,
    limits::{MIN_TTL, RequestLimits},
    response::Denial,
    rule::Rule,
    service::{RateLimit, Shared, log_error},
};

/// Limits the requests that reach a service.
///
/// It needs no more than a [`Policy`](tidegate::Policy). By default it counts each client's address, keeps its state in
/// memory, and answers a denied request with status 429 and the time to wait.
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
/// It can be added to one route, one method or a whole router. A request has to pass all layers around its service.
/// Clones of a layer and the services made by them share one state.
#[derive(Debug, Clone)]
pub struct RateLimitLayer<S = Arc<Limiter>> {
    shared: Arc<Shared<S>>,
}

impl RateLimitLayer {
    /// Limits by a rule or a policy. The state is in the memory of this process.
    pub fn new(rule: impl Into<Rule>) -> Self {
        Self::all([rule.into()])
    }

    /// Limits by several rules as one decision: all are charged or, if one denies, none.
    ///
    /// # Panics
    /// If there are no rules or more than 64.
    pub fn all(rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules: Vec<Rule> = rules.into_iter().collect();
        assert!((1..=64).contains(&rules.len()), "a layer has 1 to 64 rules, not {}", rules.len());
        let store = FailSafe::new(Arc::default()).on_error(log_error);
        Self { shared: Arc::new(Shared { limits: RequestLimits::new(rules), store, renewals: Renewals::default() }) }
    }
}

impl<S: Store + Clone + 'static> RateLimitLayer<S> {
    /// Keeps the state in `store`: an `Arc<Limiter>` that other parts of the program share, a `RedisStore` of
    /// tidegate-redis, or any other [`Store`].
    pub fn in_store<T: Store + Clone + 'static>(self, store: T) -> RateLimitLayer<T> {
        let store = FailSafe::new(store).on_error(log_error);
        let (limits, renewals) = (self.shared.limits.clone(), Renewals::default());
        RateLimitLayer { shared: Arc::new(Shared { limits, store, renewals }) }
    }

    fn with(mut self, change: impl FnOnce(&mut RequestLimits)) -> Self {
        change(&mut Arc::make_mut(&mut self.shared).limits);
        self
    }

    /// Sets how to find the address of a client. By default it is the peer address of the connection.
    #[must_use]
    pub fn client_address(self, client: ClientAddress) -> Self {
        self.with(|limits| limits.client = client)
    }

    /// Sets the format of the quota headers; [`HeaderFormat::Draft10`] by default.
    #[must_use]
    pub fn headers(self, format: HeaderFormat) -> Self {
        self.with(|limits| limits.header_format = format)
    }

    /// Admits requests for which `skip` returns `true`, without counting them. For health checks and preflights.
    #[must_use]
    pub fn skip(self, skip: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|limits| limits.skip = Some(Arc::new(skip)))
    }

    /// Admits clients with these addresses, without counting their requests.
    #[must_use]
    pub fn allow(self, clients: impl IntoIterator<Item = IpNet>) -> Self {
        self.with(|limits| limits.allowed.extend(clients))
    }

    /// Refunds a request if `failed` returns `true` for its response, or if the service returns an error instead of a
    /// response.
    #[must_use]
    pub fn refund_if(self, failed: impl Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|limits| limits.refund_if = Some(Arc::new(failed)))
    }

    /// Refunds a request if the server fails: a status of 5xx, or a gRPC status that means the same.
    #[must_use]
    pub fn refund_server_errors(self) -> Self {
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not for every lifetime")]
        self.refund_if(|response| response.is_server_error())
    }

    /// Sets how long a hold lasts without this process, and what happens to its units then. By default it ends after one
    /// minute, and its units stay spent under limits with a window.
    ///
    /// A request has a hold if its policy has a limit such as `4/inflight`, or if its rule [reserves](Rule::reserve). The
    /// hold ends when the body of the response has been sent or dropped. Until then the layer renews it after a quarter
    /// to a half of the ttl. So the ttl only bounds how long a hold remains when the process dies. A policy with a
    /// shorter [`max_hold`](tidegate::ReservationBounds::max_hold) shortens the default. Renewals need a tokio runtime with
    /// timers. A process that is suspended for longer than half of the ttl loses its holds, and
    /// [reserves again](Self::on_hold_change). A WebSocket, and work that goes on after the response, [keep](crate::RequestHold)
    /// the hold.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Hold, Policy};
    /// use tidegate_tower::RateLimitLayer;
    ///
    /// // At most 20 reports at once. If a server dies, its places are free after 15 seconds.
    /// let reports = Policy::new("reports", ["20/inflight".parse()?])?;
    /// let layer = RateLimitLayer::new(reports).hold(Hold::new(Duration::from_secs(15)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the ttl is not 1 ms to the shortest `max_hold` of the policies, which is one hour by default.
    #[must_use]
    pub fn hold(self, hold: Hold) -> Self {
        let (ttl, max) = (hold.ttl(), self.shared.limits.max_hold());
        assert!(
            (MIN_TTL..=max).contains(&ttl),
            "the ttl of a hold is {} to the `max_hold` of the policies, {}, not {ttl:?}",
            format_duration(MIN_TTL),
            format_duration(max)
        );
        self.with(|limits| limits.hold = hold)
    }

    /// Makes the response to a denied request. The layer adds the quota headers and `Retry-After` to it.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use http::Response;
    /// # use tidegate_tower::RateLimitLayer;
    /// # let policy = tidegate::Policy::new("api", ["60/1m".parse()?])?;
    /// RateLimitLayer::new(policy).denial_response(|denial| {
    ///     let mut response = Response::new(Bytes::from_static(b"slow down, please\n"));
    ///     *response.status_mut() = denial.status();
    ///     response
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn denial_response(self, response: impl Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.with(|limits| limits.denial_response = Some(Arc::new(response)))
    }

    /// Adds a random time of up to `max` to the wait of each denial, so that clients do not all return at once.
    #[must_use]
    pub fn jitter(self, max: Duration) -> Self {
        self.with(|limits| limits.jitter = max)
    }

    /// Calls `on_decision` with every decision, for metrics and logs. This is the only place that shows the decisions
    /// of a policy in shadow mode.
    #[must_use]
    pub fn on_decision(self, on_decision: impl Fn(&DecisionEvent<'_>) + Send + Sync + 'static) -> Self {
        self.with(|limits| limits.on_decision = Some(Arc::new(on_decision)))
    }

    /// Calls `on_hold_change` if the hold of a request ends before the request does, once for each rule of the request. For
    /// metrics and alerts.
    ///
    /// A hold ends early if an operator resets its key, or if the store does not answer for longer than the ttl. The layer
    /// notices this at the next renewal, or when the request ends. The request goes on. If it counts for a limit such as
    /// `4/inflight`, the layer reserves it again, at once and then four times within the ttl, until it fits. Units that the
    /// lost hold has left charged under limits with a window are not charged a second time.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tidegate::Policy;
    /// use tidegate_tower::{HoldChange, RateLimitLayer};
    ///
    /// static LOST: AtomicU64 = AtomicU64::new(0);
    ///
    /// let layer = RateLimitLayer::new(Policy::new("reports", ["20/inflight".parse()?])?).on_hold_change(|event| {
    ///     if event.change == HoldChange::Lost {
    ///         LOST.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_hold_change(self, on_hold_change: impl Fn(&HoldEvent<'_>) + Send + Sync + 'static) -> Self {
        self.with(|limits| limits.on_hold_change = Some(Arc::new(on_hold_change)))
    }

    /// Inserts the [`Decision`](tidegate::Decision) into the extensions of an admitted request. In axum, a handler
    /// reads it as `Extension<Decision>`.
    #[must_use]
    pub fn insert_decision(self) -> Self {
        self.with(|limits| limits.inserts_decision = true)
    }
}

impl<S, I> Layer<I> for RateLimitLayer<S> {
    type Service = RateLimit<I, S>;

    fn layer(&self, inner: I) -> RateLimit<I, S> {
        RateLimit { inner, shared: Arc::clone(&self.shared) }
    }
}
