//! The measurements as a table.

use std::fmt;

use serde::Serialize;

use super::Row;
use crate::machine::Machine;
use crate::table::{Columns, met_or_missed, target, whole};

/// The measurements.
#[derive(Debug, Serialize)]
pub struct LeasesReport {
    /// The machine.
    pub machine: Machine,
    /// The version of Redis.
    pub redis: String,
    /// The number of rounds.
    pub rounds: u16,
    /// The comparisons.
    pub rows: Vec<Row>,
}

impl fmt::Display for LeasesReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}, Redis {}, median of {} rounds", self.machine, self.redis, self.rounds)?;
        let is_met = |row: &&Row| row.ratio >= row.wanted && row.wanted_cpu.is_none_or(|most| row.cpu_ratio <= most);
        Columns::of(&self.rows)
            .text("workload", |row| row.workload.to_owned())
            .number("term", |row| format!("{} ms", row.term_ms))
            .number("plain /s", |row| whole(row.plain))
            .number("leased /s", |row| whole(row.leased))
            .number("ratio", |row| format!("{:.2}", row.ratio))
            .text("target", |row| target(">=", row.wanted))
            .number("allowed", |row| format!("{:.3} / {:.3}", row.allowed[0], row.allowed[1]))
            .number("CPU of Redis", |row| format!("{:.2}", row.cpu_ratio))
            .text("target", |row| target("<=", row.wanted_cpu))
            .text("", |row| met_or_missed(is_met(row)))
            .write(out, "Two nodes with leases of one Redis, compared with two nodes that ask it for each decision")
    }
}
