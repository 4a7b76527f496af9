//! The log of the service: text on a terminal, JSON elsewhere.
//!
//! A line goes through `repeats`, which suppresses repeated lines, and `queue`, which hands it to a separate thread. So
//! logging never blocks other code or makes it fail, even if standard error can't be written.

mod queue;
mod repeats;

use std::{io::IsTerminal as _, panic, sync::Arc};

use anyhow::Context as _;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use self::{queue::Queue, repeats::Repeats};
use crate::{arguments::Format, visible::visible};

/// The log. Dropping it waits briefly until all lines are written.
pub(crate) struct Log {
    queue: Queue,
    repeats: Arc<Repeats>,
}

/// Starts logging to standard error. `TIDEGATE_LOG` sets the level, such as `debug` or `info,tidegate_redis=debug`.
pub(crate) fn begin(format: Format) -> anyhow::Result<Log> {
    let levels = match std::env::var_os("TIDEGATE_LOG") {
        Some(text) => levels(&text.to_string_lossy())?,
        // The service itself reports the degraded states of its store.
        None => levels("info,tidegate_redis::degraded_states=off,tidegate_remote::health=off")?,
    };
    let repeats = Arc::new(Repeats::new().context("log lines can't be limited")?);
    let queue = Queue::start(Arc::clone(&repeats)).context("the thread that writes the log can't be started")?;
    let registry = tracing_subscriber::registry().with(levels).with(repeats::Layer(Arc::clone(&repeats)));
    let writer = queue.clone();
    let lines = fmt::layer().with_writer(move || writer.clone()).log_internal_errors(false);
    if std::io::stderr().is_terminal() && format == Format::Text {
        registry.with(lines.with_target(false).compact()).init();
    } else {
        registry.with(lines.json().flatten_event(true)).init();
    }
    // The default hook writes to standard error and can block.
    panic::set_hook(Box::new(|info| tracing::error!("{info}")));
    Ok(Log { queue, repeats })
}

/// Parses the level of the log, for everything or by target.
fn levels(text: &str) -> anyhow::Result<Targets> {
    // The parser of targets reads a word that is not a level as a target, which turns off all others.
    let is_known = |directive: &str| directive.contains('=') || directive.parse::<LevelFilter>().is_ok();
    text.parse().ok().filter(|_| text.split(',').all(is_known)).with_context(|| {
        format!(
            "TIDEGATE_LOG is `{}`, which is not a level: use off, error, warn, info, debug or trace, for everything or by \
             target, as in `info,tidegate_redis=debug`",
            visible(text)
        )
    })
}

impl Drop for Log {
    fn drop(&mut self) {
        self.repeats.report();
        self.queue.wait();
    }
}
