//! The saved counts, and the comparison with new ones.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::count::Counts;
use super::toolchain::Toolchain;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");
/// How much a count may grow, or has to shrink to be worth saving.
const ROOM: f64 = 0.05;

/// The content of `instructions.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Baseline {
    #[serde(flatten)]
    pub(super) toolchain: Toolchain,
    pub(super) instructions_per_decision: Counts,
}

impl Baseline {
    pub(super) fn read() -> Result<Self> {
        let text = fs::read_to_string(FILE).context("there is no baseline: create one with `--save`")?;
        serde_json::from_str(&text).context("the baseline can't be read: replace it with `--save`")
    }

    pub(super) fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(FILE, text).context("the baseline can't be written")
    }

    /// Every benchmark of either side.
    pub(super) fn compare(&self, now: &Counts) -> Vec<Change> {
        let before = &self.instructions_per_decision;
        let names: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        names
            .into_iter()
            .map(|name| Change { name: name.clone(), before: before.get(name).copied(), now: now.get(name).copied() })
            .collect()
    }
}

/// One benchmark in the baseline and in this run.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) before: Option<f64>,
    pub(super) now: Option<f64>,
}

impl Change {
    pub(super) fn ratio(&self) -> Option<f64> {
        self.now.zip(self.before).map(|(now, before)| now / before)
    }

    pub(super) fn is_worse(&self) -> bool {
        self.ratio().is_some_and(|ratio| ratio > 1.0 + ROOM)
    }

    pub(super) fn is_better(&self) -> bool {
        self.ratio().is_some_and(|ratio| ratio < 1.0 - ROOM)
    }

    pub(super) fn is_unmatched(&self) -> bool {
        self.ratio().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, f64)]) -> Counts {
        counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn five_percent_are_let_pass_in_both_directions() {
        let before = counts(&[("better", 100.0), ("gone", 100.0), ("same", 100.0), ("worse", 100.0)]);
        let now = counts(&[("better", 94.9), ("new", 1.0), ("same", 105.0), ("worse", 105.1)]);
        let baseline = Baseline { toolchain: Toolchain::this(), instructions_per_decision: before };
        let changes = baseline.compare(&now);
        let named = |wanted: fn(&Change) -> bool| {
            changes.iter().filter(|change| wanted(change)).map(|change| &*change.name).collect::<Vec<_>>()
        };
        assert_eq!(named(Change::is_worse), ["worse"]);
        assert_eq!(named(Change::is_better), ["better"]);
        assert_eq!(named(Change::is_unmatched), ["gone", "new"]);
    }
}
