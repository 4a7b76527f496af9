//! [`FinalCost`]: the cost of a request that its response settles.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{decision::PolicyIndex, head::ResponseHead, limits::RequestLimits};

pub(crate) type FinalCostFn = dyn Fn(&ResponseHead<'_>) -> Option<u64> + Send + Sync;

/// How the response of a rule sets the final cost.
#[derive(Clone)]
pub(crate) enum Settlement {
    /// The closure returns the final cost, if the response has one.
    FinalCost(Arc<FinalCostFn>),
    /// One unit pays for this number of bytes of the response's body. A part of a unit costs a whole unit.
    BytesPerUnit(u64),
    /// The service reports the final cost while it sends the body.
    Report,
}

/// The final cost of a request under one rule.
#[derive(Debug)]
pub(crate) enum FinalCost {
    /// The cost before the request.
    Unchanged,
    /// This number of units.
    Units(u64),
    /// One unit for this number of bytes of the body, which are counted while it is sent.
    PerBytes(u64),
    /// The units that the service has reported when the body has been sent.
    Reported(CostReport),
}

impl FinalCost {
    /// The final cost under a rule, by its response.
    pub(crate) fn of_response(limits: &RequestLimits, policy: PolicyIndex, response: &ResponseHead<'_>) -> Self {
        if limits.refund_if.as_ref().is_some_and(|refund_if| refund_if(response)) {
            return Self::Units(0);
        }
        match &limits.rules[policy.rule].settlement {
            None => Self::Unchanged,
            Some(Settlement::FinalCost(cost)) => cost(response).map_or(Self::Unchanged, Self::Units),
            Some(Settlement::BytesPerUnit(unit)) => match response.body_size() {
                Some(bytes) => Self::Units(bytes.div_ceil(*unit)),
                None => Self::PerBytes(*unit),
            },
            Some(Settlement::Report) => {
                response.extension::<CostReport>().map_or(Self::Unchanged, |report| Self::Reported(report.clone()))
            }
        }
    }

    /// The final cost under every rule of a request whose service returned an error.
    pub(crate) fn of_error(limits: &RequestLimits) -> Self {
        if limits.refund_if.is_some() { Self::Units(0) } else { Self::Unchanged }
    }

    /// Whether it is known only when the body has been sent.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::PerBytes(_) | Self::Reported(_))
    }

    /// The units, if the body had this number of bytes; `None` if the cost is unchanged.
    pub(crate) fn units(&self, bytes: u64) -> Option<u64> {
        match self {
            Self::Unchanged => None,
            Self::Units(units) => Some(*units),
            Self::PerBytes(unit) => Some(bytes.div_ceil(*unit)),
            Self::Reported(report) => report.units(),
        }
    }
}

/// The final cost of a request that its service reports while it sends the response's body, for
/// [`Rule::settle_by_report`](crate::Rule::settle_by_report).
///
/// ```
/// use axum::{Extension, body::Body, response::IntoResponse};
/// use futures_util::stream;
/// use tidegate_tower::CostReport;
///
/// async fn handler() -> impl IntoResponse {
///     let cost = CostReport::new();
///     let in_stream = cost.clone();
///     let events = stream::iter(["hello", "world", "usage: 321"]).map(move |event| {
///         if let Some(tokens) = event.strip_prefix("usage: ") {
///             in_stream.set(tokens.parse().unwrap_or(0));
///         }
///         Ok::<_, std::convert::Infallible>(event)
///     });
///     (Extension(cost), Body::from_stream(events))
/// }
/// # use futures_util::StreamExt as _;
/// # let _ = handler;
/// ```
#[derive(Debug, Clone)]
pub struct CostReport(Arc<AtomicU64>);

/// No number has been reported. A cost is never as large.
const NONE: u64 = u64::MAX;

impl CostReport {
    /// A report without a number.
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(NONE)))
    }

    /// Reports the final cost. The last number counts.
    pub fn set(&self, units: u64) {
        self.0.store(units.min(NONE - 1), Ordering::Release);
    }

    /// The last number, if there is one.
    pub fn units(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|units| *units != NONE)
    }
}

impl Default for CostReport {
    fn default() -> Self {
        Self::new()
    }
}
