//! How the service is, in lines that a screen and a script can show.

use tidegate_server::dashboard::{JournalLine, StoreState};

use super::{
    figures::{bytes, micros, rate, share},
    picture::Picture,
};
use crate::{times, visible::visible};

/// The service, its version, and since when it is up.
pub(crate) fn service(picture: &Picture, server: &str) -> String {
    let up = times::span(picture.now.now_ms.saturating_sub(picture.started_ms) / 1_000 * 1_000);
    let (version, server) = (visible(&picture.version), visible(server));
    format!("tidegate {version} at {server}, up {up} since {}", times::moment(picture.started_ms))
}

/// Whether the store answers, and how full it is or which of its servers are left alone.
pub(crate) fn store(store: &StoreState) -> String {
    let health = if store.answers { "answers" } else { "DOES NOT ANSWER" };
    let mut parts = vec![format!("{} store {health}", visible(&store.kind))];
    if let (Some(keys), Some(max_keys)) = (store.keys, store.max_keys) {
        parts.push(format!("{keys} of {max_keys} keys"));
    }
    if let (Some(held), Some(most)) = (store.bytes, store.max_bytes) {
        parts.push(format!("{} of {}", bytes(held), bytes(most)));
    }
    // Those in trouble first: there may be more than fit.
    for (state, words) in [("open", "OPEN"), ("half_open", "half open"), ("closed", "closed")] {
        let nodes = store.nodes.iter().filter(|node| node.breaker == state).map(|node| visible(&node.node));
        let nodes = nodes.collect::<Vec<_>>().join(" ");
        if !nodes.is_empty() {
            parts.push(format!("breaker {words}: {nodes}"));
        }
    }
    parts.join(", ")
}

/// Decisions of the last seconds.
pub(crate) fn decisions(picture: &Picture) -> String {
    let last = &picture.now.last;
    format!(
        "{} decisions/s, {} denied, p50 {}, p99 {} (last {} s)",
        rate(last.per_second),
        share(last.denied_share),
        micros(last.p50_us),
        micros(last.p99_us),
        last.seconds
    )
}

/// A line of the journal. Its text says what kind it is of.
pub(crate) fn line(line: &JournalLine) -> String {
    let by = line.by.as_ref().map_or(String::new(), |by| format!("by {}: ", visible(by)));
    format!("{} {by}{}", times::time_of_day(line.at_ms), visible(&line.text))
}
