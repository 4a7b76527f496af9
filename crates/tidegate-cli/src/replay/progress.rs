//! [`ReadProgress`]: shows the progress of a reader on a terminal, and stops it on Ctrl-C.

use std::sync::{Arc, atomic::AtomicBool};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::{consts::SIGINT, flag};
use tidegate_replay::{
    formatting::count,
    logs::{LogSource, Progress},
};

pub(crate) struct ReadProgress {
    progress: Arc<Progress>,
    bar: ProgressBar,
}

impl ReadProgress {
    /// Creates the progress of reading these sources.
    pub(crate) fn new(sources: &[LogSource]) -> Self {
        let progress = Arc::new(Progress::default());
        let total: Option<u64> = sources.iter().map(LogSource::bytes).sum();
        let (bar, template) = match total {
            Some(total) => {
                (ProgressBar::new(total), "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {msg}, {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {msg}"),
        };
        // The bar is drawn on standard error, only if that is a terminal.
        let bar =
            bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { progress, bar }
    }

    /// Makes the first Ctrl-C stop the reader, and the second one the process. Before this call, the first one stops the process.
    pub(crate) fn stop_on_interrupt(&self) -> std::io::Result<()> {
        let stop: Arc<AtomicBool> = self.progress.stop();
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))?;
        flag::register(SIGINT, stop)?;
        Ok(())
    }

    pub(crate) fn handle(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Updates the bar.
    pub(crate) fn update(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_position(self.progress.bytes());
            self.bar.set_message(format!("{} lines", count(self.progress.lines())));
        }
    }

    /// Removes the bar. Returns whether the reader was stopped.
    pub(crate) fn finish(&self) -> bool {
        self.bar.finish_and_clear();
        self.progress.is_stopped()
    }
}
