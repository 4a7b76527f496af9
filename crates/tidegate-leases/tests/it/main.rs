//! Leases in simulated networks, and over real stores.

mod answers;
mod clients;
mod deploys;
mod faults;
mod node;
mod over_memory;
mod processes;
mod protocol;
mod regions;
