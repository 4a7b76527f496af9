//! Shows the progress in one line on standard error, if that is a terminal.

use std::io::{IsTerminal, stderr};

/// A line that is overwritten by the next one.
#[derive(Debug)]
pub struct Progress {
    is_seen: bool,
}

impl Progress {
    /// Shows nothing unless standard error is a terminal.
    pub fn new() -> Self {
        Self { is_seen: stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn say(&self, text: &str) {
        if self.is_seen {
            eprint!("\r\x1b[2K{text}");
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.say("");
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
