//! What was found, in the terminal: tables and small charts that fit into 80 columns.

mod chart;
mod replay;
pub mod table;

pub use replay::replay;
