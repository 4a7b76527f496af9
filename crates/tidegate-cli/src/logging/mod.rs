//! The log of the service: text on a terminal, JSON elsewhere.
//!
//! A line goes through `repeats`, which suppresses repeated lines, and `queue`, which hands it to a separate thread. So
//! logging never blocks other code or makes it fail, even if standard error can't be written.

mod queue;
mod repeats;

use std::{io::IsTerminal as _, panic, sync::Arc};

use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use self::{queue::Queue, repeats::Repeats};
use crate::arguments::Format;

/// The log. Dropping it waits briefly until all lines are written.
pub(crate) struct Log {
    queue: Queue,
    repeats: Arc<Repeats>,
}

/// Starts logging to standard error. `TIDEGATE_LOG` sets the level, such as `debug` or `tidegate_redis=debug`.
pub(crate) fn begin(format: Format) -> anyhow::Result<Log> {
    // The service itself reports the degraded states of its store.
    let usual = || EnvFilter::new("info,tidegate_redis::degraded_states=off");
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| usual());
    let repeats = Arc::new(Repeats::new().context("log lines can't be limited")?);
    let queue = Queue::start(Arc::clone(&repeats)).context("the thread that writes the log can't be started")?;
    let registry = tracing_subscriber::registry().with(filter).with(repeats::Layer(Arc::clone(&repeats)));
    let lines = fmt::layer().with_writer(queue.clone()).log_internal_errors(false);
    if std::io::stderr().is_terminal() && format == Format::Text {
        registry.with(lines.with_target(false).compact()).init();
    } else {
        registry.with(lines.json().flatten_event(true)).init();
    }
    // The default hook writes to standard error and can block.
    panic::set_hook(Box::new(|info| tracing::error!("{info}")));
    Ok(Log { queue, repeats })
}

impl Drop for Log {
    fn drop(&mut self) {
        self.repeats.report();
        self.queue.flush();
    }
}
