//! [`LogLines`]: log lines that were not written. A log belongs to a process, so the process has one count of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts of this process. The program that sets up the log adds to them; the service reports them.
pub static LOG_LINES: LogLines = LogLines { dropped: AtomicU64::new(0), suppressed: AtomicU64::new(0) };

/// Target of the lines about changes that people made to keys. Such lines should not be suppressed.
pub const AUDIT: &str = "tidegate::audit";

/// Counts of log lines that were not written.
#[derive(Debug)]
pub struct LogLines {
    dropped: AtomicU64,
    suppressed: AtomicU64,
}

impl LogLines {
    /// Counts a line that was lost: the log could not be written, or not fast enough.
    pub fn dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Counts a line that was suppressed because it repeats others.
    pub fn suppressed(&self) {
        self.suppressed.fetch_add(1, Relaxed);
    }

    pub(crate) fn dropped_so_far(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    pub(crate) fn suppressed_so_far(&self) -> u64 {
        self.suppressed.load(Relaxed)
    }
}
