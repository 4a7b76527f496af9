//! The command as people and scripts use it.

mod asking;
mod configuration;
mod process;
mod serving;
