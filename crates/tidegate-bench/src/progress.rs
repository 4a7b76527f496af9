//! Shows the progress in one line on standard error, if that is a terminal.

use std::io::{IsTerminal, stderr};

/// Replaces the line.
pub fn show(text: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[2K{text}");
    }
}

/// Removes the line.
pub fn clear() {
    show("");
}
