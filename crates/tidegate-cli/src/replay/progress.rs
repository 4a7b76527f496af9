//! [`ReadProgress`]: shows the progress of a reader on a terminal, and stops it on Ctrl-C.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::{consts::SIGINT, flag};
use tidegate_replay::{
    formatting::count,
    logs::{LogReader, LogSource, Progress, ReadOptions},
};

pub(crate) struct ReadProgress {
    progress: Arc<Progress>,
    bar: ProgressBar,
}

impl ReadProgress {
    /// Opens the logs. Afterwards the first Ctrl-C stops the reader, and the second one the process.
    pub(crate) fn open(options: ReadOptions) -> anyhow::Result<(LogReader, Self)> {
        let progress = Arc::new(Progress::default());
        let total: Option<u64> = options.sources.iter().map(LogSource::bytes).sum();
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{wide_bar} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {msg}, {eta} left",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {decimal_bytes}, {decimal_bytes_per_sec}, {msg}"),
        };
        // The bar is drawn on standard error, only if that is a terminal.
        let bar =
            bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        let reader = LogReader::open(options, Arc::clone(&progress))?;
        flag::register_conditional_shutdown(SIGINT, 130, progress.stop())?;
        flag::register(SIGINT, progress.stop())?;
        Ok((reader, Self { progress, bar }))
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
