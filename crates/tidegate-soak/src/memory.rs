//! [`Memory`]: the resident memory of a process over time.

use anyhow::Context as _;

/// Maximum ratio of the peak of the last third of a run to the peak before it.
const MAX_GROWTH: f64 = 1.15;
/// The growth of memory below this number of bytes is ignored: small numbers vary a lot.
const SMALL: u64 = 64 << 20;

/// The resident memory of one process, sampled.
#[derive(Debug)]
pub(crate) struct Memory {
    process: u32,
    samples: Vec<u64>,
}

impl Memory {
    pub(crate) fn of(process: u32) -> Self {
        Self { process, samples: Vec::new() }
    }

    pub(crate) fn sample(&mut self) -> anyhow::Result<()> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process))
            .context("can't read the memory of the service: it has ended")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is a number")?;
        self.samples.push(kilobytes << 10);
        Ok(())
    }

    /// The largest sample of the first two thirds, and of the last third.
    pub(crate) fn peaks(&self) -> (u64, u64) {
        let (before, after) = self.samples.split_at(self.samples.len() * 2 / 3);
        let peak = |samples: &[u64]| samples.iter().copied().max().unwrap_or(0);
        (peak(before), peak(after))
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio of byte counts")]
    pub(crate) fn is_flat(&self) -> bool {
        let (before, after) = self.peaks();
        after <= SMALL || after as f64 <= before as f64 * MAX_GROWTH
    }
}
