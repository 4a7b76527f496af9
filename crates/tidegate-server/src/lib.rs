#![doc = include_str!("../README.md")]

mod auth;
pub mod config;
mod connections;
mod context;
pub mod dashboard;
#[doc(hidden)]
pub mod fuzzing;
mod guarded_store;
mod import_envoy;
mod in_process;
mod metrics;
mod reload;
mod server;
mod service;
mod store;
mod supervise;
mod transports;

pub use import_envoy::{ImportError, Imported, import_envoy};
pub use in_process::InProcess;
pub use metrics::{AUDIT, LOG_LINES, LogLines, Transport};
pub use server::{Server, StartError};
pub use service::{
    ActivePolicies, Actor, ChangedReservation, DegradedState, KeyLabel, KeyRequest, KeyText, LeaseDecision,
    LimitSource, PolicyDecision, PolicyDecisions, Price, Refusal, ReservationChange, ReservedDecision, ResolvedPolicy,
    Service,
};
pub use store::open as open_store;
pub use transports::http::api;
