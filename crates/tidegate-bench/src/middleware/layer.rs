//! [`RouteLayer`]: the same route behind each layer. The limits are so high that no request is denied.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use clap::ValueEnum;
use serde::Serialize;
use tidegate::{Algorithm, Policy};
use tidegate_tower::{HeaderFormat, RateLimitLayer};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::service::process;

/// The layer of the route. Layers count clients by their peer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteLayer {
    /// No layer.
    Plain,
    /// Ours with `sliding_counter` and its default headers.
    Tidegate,
    /// The same without headers.
    TidegateQuiet,
    /// Ours with the default algorithm, `sliding_log`.
    TidegateLog,
    /// `tower_governor` with its defaults: without headers.
    #[value(name = "tower_governor")]
    #[serde(rename = "tower_governor")]
    TowerGovernor,
    /// The same with headers.
    #[value(name = "tower_governor-headers")]
    #[serde(rename = "tower_governor-headers")]
    TowerGovernorHeaders,
}

impl RouteLayer {
    /// The name on the command line, in the table and in the JSON.
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("every layer can be chosen").get_name().to_owned()
    }

    fn router(self) -> Result<Router> {
        let route = Router::new().route("/", get(|| async { "hello" }));
        let policy = Policy::new("hello", ["1_000_000_000/1m".parse()?])?;
        let counter = RateLimitLayer::new(policy.clone().with_algorithm(Algorithm::SlidingCounter));
        // One unit each nanosecond: a bucket that is never empty.
        let mut governor = GovernorConfigBuilder::default();
        governor.per_nanosecond(1).burst_size(1_000_000_000);
        let invalid = "the rate and the burst are above zero";
        Ok(match self {
            Self::Plain => route,
            Self::Tidegate => route.layer(counter),
            Self::TidegateQuiet => route.layer(counter.headers(HeaderFormat::Off)),
            Self::TidegateLog => route.layer(RateLimitLayer::new(policy)),
            Self::TowerGovernor => route.layer(GovernorLayer::new(governor.finish().context(invalid)?)),
            Self::TowerGovernorHeaders => {
                route.layer(GovernorLayer::new(governor.use_headers().finish().context(invalid)?))
            }
        })
    }
}

/// Serves the route behind a layer until the process ends.
///
/// # Errors
/// If the address can't be used.
pub fn serve(layer: RouteLayer, address: SocketAddr) -> Result<()> {
    let service = layer.router()?.into_make_service_with_connect_info::<SocketAddr>();
    process::serve(address, |listener| axum::serve(listener, service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_and_the_json_use_the_same_names() {
        for layer in RouteLayer::value_variants() {
            assert_eq!(RouteLayer::from_str(&layer.name(), false), Ok(*layer));
            assert_eq!(serde_json::to_value(layer).expect("a name"), layer.name());
        }
    }

    #[test]
    fn every_layer_has_a_router() {
        for layer in RouteLayer::value_variants() {
            assert!(layer.router().is_ok(), "{layer:?}");
        }
    }
}
