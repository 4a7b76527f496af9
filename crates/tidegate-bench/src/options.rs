//! [`Size`]: the option `--quick` of every benchmark.

use clap::Args;

/// The size of a run.
#[derive(Clone, Copy, Debug, Args)]
pub struct Size {
    /// Measure about a tenth, to check that everything works
    #[arg(long)]
    pub quick: bool,
}

impl Size {
    /// The divisor of the size of the run: 1 or 10.
    pub fn divisor(self) -> u16 {
        if self.quick { 10 } else { 1 }
    }
}
