//! [`Watch`]: shows on a terminal how far the reading is, and ends it on Ctrl-C.

use std::sync::{Arc, atomic::AtomicBool};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::{consts::SIGINT, flag};
use tidegate_replay::logs::{Input, Progress};

pub(crate) struct Watch {
    progress: Arc<Progress>,
    bar: ProgressBar,
}

impl Watch {
    /// Watches the reading of these inputs.
    pub(crate) fn new(inputs: &[Input]) -> Self {
        let progress = Arc::new(Progress::default());
        let total: Option<u64> = inputs.iter().map(Input::bytes).sum();
        let (bar, template) = match total {
            Some(total) => {
                (ProgressBar::new(total), "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {msg}, {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {msg}"),
        };
        // Draws on standard error, and only if that is a terminal.
        let bar =
            bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { progress, bar }
    }

    /// From now on the first Ctrl-C ends the reading, and the second one ends the process. Before, when there is nothing to tell yet, the
    /// first one does.
    pub(crate) fn listen(&self) -> std::io::Result<()> {
        let is_second: Arc<AtomicBool> = self.progress.stop();
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&is_second))?;
        flag::register(SIGINT, is_second)?;
        Ok(())
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Shows how far the reading is.
    pub(crate) fn look(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_position(self.progress.bytes());
            self.bar.set_message(format!("{} lines", tidegate_replay::figures::count(self.progress.lines())));
        }
    }

    /// Takes the bar away; whether the reading was ended before its end.
    pub(crate) fn end(&self) -> bool {
        self.bar.finish_and_clear();
        self.progress.is_stopped()
    }
}
