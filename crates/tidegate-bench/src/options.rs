//! [`Size`]: the option `--quick` of every benchmark.

use std::ops::Div;

use clap::Args;

/// The size of a run.
#[derive(Clone, Copy, Debug, Args)]
pub struct Size {
    /// Measure about a tenth, to check that everything works
    #[arg(long)]
    pub quick: bool,
}

impl Size {
    /// A number of this run that is `full` in a full run.
    pub(crate) fn of<N: Div<N, Output = N> + From<u8>>(self, full: N) -> N {
        if self.quick { full / 10.into() } else { full }
    }
}
