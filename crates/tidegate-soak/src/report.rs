//! [`Report`]: the results of a soak test, as a table.

use std::{
    fmt,
    io::{IsTerminal as _, Write as _},
    time::Instant,
};

use crate::{
    abuse,
    honest::{Counts, Totals},
    memory::Memory,
};

/// Everything that was counted. The first of each pair is the service in memory, the second the one in Redis.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) minutes: u64,
    pub(crate) totals: [Totals; 2],
    pub(crate) memory: [Memory; 2],
    pub(crate) abused: abuse::Counts,
    pub(crate) faults: u64,
}

impl Report {
    /// Whether the soak test passed.
    pub(crate) fn is_good(&self) -> bool {
        let right = self.totals.iter().map(Totals::counts).all(|counts| counts.wrong == 0 && counts.compared > 0);
        right && self.abused.hot_over == 0 && self.memory.iter().all(Memory::is_flat)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abuse::Counts { commands, hot_checks, hot_keys, hot_over, hot_early, unread, guesses, connections } =
            &self.abused;
        writeln!(f, "{} minutes, {} faults", self.minutes, self.faults)?;
        writeln!(
            f,
            "abuse: {commands} flood commands, {hot_checks} checks of {hot_keys} hot keys, {unread} requests without a \
             reader, {guesses} wrong tokens, {connections} idle or garbage connections"
        )?;
        writeln!(f, "admitted to a hot key after it was denied: {hot_over}; beyond its limit before: {hot_early}")?;
        writeln!(
            f,
            "| store | compared | admitted | denied | degraded | lost | wrong | peak memory, first two thirds | last third |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for ((name, totals), memory) in ["memory", "redis"].into_iter().zip(&self.totals).zip(&self.memory) {
            let Counts { compared, admitted, denied, degraded, lost, wrong, described } = &*totals.counts();
            let (before, after) = memory.peaks();
            writeln!(
                f,
                "| {name} | {compared} | {admitted} | {denied} | {degraded} | {lost} | {wrong} | {} MB | {} MB |",
                before >> 20,
                after >> 20
            )?;
            for line in described {
                writeln!(f, "wrong: {line}")?;
            }
        }
        write!(f, "{}", if self.is_good() { "passed" } else { "FAILED" })
    }
}

/// Shows the progress of the run on a terminal.
pub(crate) fn progress(started: Instant, minutes: u64, totals: &[Totals; 2]) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let sum = |counter: fn(&Counts) -> u64| totals.iter().map(|totals| counter(&totals.counts())).sum::<u64>();
    let (compared, wrong) = (sum(|counts| counts.compared), sum(|counts| counts.wrong));
    let elapsed = started.elapsed().as_secs();
    let _ = write!(
        std::io::stderr(),
        "\r{}:{:02} of {minutes} min, {compared} decisions compared, {wrong} wrong ",
        elapsed / 60,
        elapsed % 60
    );
}
