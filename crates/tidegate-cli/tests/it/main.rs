//! Tests of the command line.

mod certificates;
mod client;
mod configuration;
mod degraded;
mod documents;
mod http;
mod logging;
mod overrides;
mod package;
mod process;
mod replay;
mod replay_at_once;
mod replay_model;
mod replay_odd_logs;
mod reservation_input;
mod reservations;
mod serving;
mod shell;
mod simulate;
mod tls;
mod top;
