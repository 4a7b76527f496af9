//! What the service tells about itself: lines for people on a terminal, JSON elsewhere.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::arguments::Format;

/// Begins to write what happens to standard error. `TIDEGATE_LOG` says how much, as in `debug` or `tidegate_redis=debug`.
pub(crate) fn begin(format: Format) {
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() && format == Format::Text {
        builder.with_target(false).compact().init();
    } else {
        builder.json().flatten_event(true).init();
    }
}
