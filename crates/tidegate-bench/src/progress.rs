//! Shows the progress in one line on standard error, if that is a terminal.

use std::io::{IsTerminal, stderr};

/// A line that the next one replaces.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
}

impl Progress {
    /// Shows nothing unless standard error is a terminal.
    pub fn new() -> Self {
        Self { is_terminal: stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn show(&self, text: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[2K{text}");
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.show("");
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
