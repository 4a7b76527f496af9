//! The dashboard: a page that shows the service, and the API of the page and of `tidegate top`.
//!
//! `asset` has the files of the page, `data` collects what the service reports to its observer, `routes` answers requests, and `dto`
//! has the JSON types. The rest of the server does not depend on the dashboard: `Dashboard` gives it an observer and routes.

mod asset;
mod data;
mod dto;
mod routes;

use std::sync::Arc;

use axum::extract::FromRef;
use tidegate::Clock;

use self::data::DashboardData;
pub use self::dto::{
    CurrentState, DecisionHistory, DegradedDecisions, DeniedKey, JournalLine, NearLimitKey, NodeState, OutcomeTotals,
    Overview, PolicyHistory, PolicyHits, PolicySecond, PolicySummary, RecentDecisions, SecondSummary, StoreErrorCount,
    StoreState, Tick,
};
use crate::{context::Context, service::Observer, transports::http::ExtraRoutes};

/// The dashboard of one service.
#[derive(Debug)]
pub(crate) struct Dashboard(Arc<DashboardData>);

impl Dashboard {
    pub(crate) fn new() -> Self {
        Self(Arc::new(DashboardData::new(Clock::system().now().as_micros() / 1_000_000)))
    }

    /// Returns the observer to create the service with.
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::<DashboardData>::clone(&self.0)
    }

    /// Returns the routes of the page and of its API.
    pub(crate) fn routes(&self, context: &Context) -> ExtraRoutes {
        routes::routes(RouteState { context: Arc::new(context.clone()), data: Arc::clone(&self.0) })
    }
}

/// The state of the routes.
#[derive(Debug, Clone)]
struct RouteState {
    context: Arc<Context>,
    data: Arc<DashboardData>,
}

impl FromRef<RouteState> for Arc<Context> {
    fn from_ref(state: &RouteState) -> Self {
        Arc::clone(&state.context)
    }
}

impl FromRef<RouteState> for Arc<DashboardData> {
    fn from_ref(state: &RouteState) -> Self {
        Arc::clone(&state.data)
    }
}
