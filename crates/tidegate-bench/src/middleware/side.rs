//! [`Side`]: the same route behind each layer. Every limit is so high that nothing is ever denied.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use clap::ValueEnum;
use serde::Serialize;
use tidegate::{Algorithm, Policy};
use tidegate_tower::{HeaderFormat, RateLimitLayer};
use tokio::net::TcpListener;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// The layer of the route. Layers count clients by their peer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Nothing.
    Plain,
    /// Ours, by two counters, with the headers that it has by default.
    Tidegate,
    /// The same without headers.
    TidegateQuiet,
    /// Ours, exact, as it is by default.
    TidegateLog,
    /// `tower_governor` as it is by default: without headers.
    #[value(name = "tower_governor")]
    #[serde(rename = "tower_governor")]
    TowerGovernor,
    /// The same with headers.
    #[value(name = "tower_governor-headers")]
    #[serde(rename = "tower_governor-headers")]
    TowerGovernorHeaders,
}

impl Side {
    /// As the command line, the table and the JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tidegate => "tidegate",
            Self::TidegateQuiet => "tidegate-quiet",
            Self::TidegateLog => "tidegate-log",
            Self::TowerGovernor => "tower_governor",
            Self::TowerGovernorHeaders => "tower_governor-headers",
        }
    }

    fn router(self) -> Result<Router> {
        let route = Router::new().route("/", get(|| async { "hello" }));
        let policy = Policy::new("hello", ["1_000_000_000/1m".parse()?])?;
        let counter = RateLimitLayer::new(policy.clone().with_algorithm(Algorithm::SlidingCounter));
        // One more each nanosecond: a bucket that is never empty.
        let mut governor = GovernorConfigBuilder::default();
        governor.per_nanosecond(1).burst_size(1_000_000_000);
        let unlikely = "a rate and a burst above nothing are a quota";
        Ok(match self {
            Self::Plain => route,
            Self::Tidegate => route.layer(counter),
            Self::TidegateQuiet => route.layer(counter.headers(HeaderFormat::Off)),
            Self::TidegateLog => route.layer(RateLimitLayer::new(policy)),
            Self::TowerGovernor => route.layer(GovernorLayer::new(governor.finish().context(unlikely)?)),
            Self::TowerGovernorHeaders => {
                route.layer(GovernorLayer::new(governor.use_headers().finish().context(unlikely)?))
            }
        })
    }
}

/// Serves a side until the process is ended.
///
/// # Errors
/// If the address can't be had.
pub fn serve(side: Side, address: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.with_context(|| format!("{address} can't be had"))?;
        let service = side.router()?.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await.context("the route is served no more")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_command_line_takes() {
        for side in Side::value_variants() {
            assert_eq!(Side::from_str(side.name(), false), Ok(*side));
            assert_eq!(serde_json::to_value(side).expect("a name"), side.name());
        }
    }

    #[test]
    fn every_side_can_be_served() {
        for side in Side::value_variants() {
            assert!(side.router().is_ok(), "{side:?}");
        }
    }
}
