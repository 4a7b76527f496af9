//! What was found, in the terminal: tables and small charts that fit into 80 columns.

pub mod table;
