//! The routes of the dashboard: `page` serves the files, `session` logs people in and out, `overview` returns the state of the
//! service, `hits` the most denied keys of a policy, `key` the denials and the policies of a key, `live` sends all of that each
//! second, and `trial` decides for the page that tries limits. `fullest_limit` is what `hits` and `key` show of a key's limits.

mod fullest_limit;
mod hits;
mod key;
mod leases;
mod live;
mod overview;
mod page;
mod session;
mod trial;

use std::sync::Arc;

use axum::{
    Extension, Router,
    routing::{get, post},
};
use utoipa::OpenApi as _;

use super::Dashboard;
use crate::{context::Context, transports::http::ExtraRoutes};

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(overview::overview, hits::hits, live::live, trial::decide, session::session, session::log_in, session::log_out),
    components(schemas(super::KeyDenials, super::KeyPolicies)),
    tags((name = "dashboard", description = "The API of the dashboard and of `tidegate top`"))
)]
struct DashboardApi;

impl Dashboard {
    /// Returns the routes of the page and of its API.
    pub(crate) fn routes(self: Arc<Self>, context: &Context) -> ExtraRoutes {
        let router = Router::new()
            .route("/v1/overview", get(overview::overview))
            .route("/v1/hits", get(hits::hits))
            .route("/v1/live", get(live::live))
            .route("/v1/try", post(trial::decide))
            .route("/v1/session", get(session::session).post(session::log_in).delete(session::log_out))
            .route("/", get(page::page))
            .route("/assets/{name}", get(page::asset))
            .layer(Extension(self))
            .with_state(Arc::new(context.clone()));
        ExtraRoutes { router, document: DashboardApi::openapi() }
    }
}
