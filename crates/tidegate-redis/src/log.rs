//! Log lines of tasks that must stay alive: a subscriber that panics must not end them.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Writes a log line. A subscriber that panics does not end the caller.
pub(crate) fn guarded(write: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(write));
}
