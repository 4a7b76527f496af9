//! [`Repeats`]: suppresses repeated log lines, and reports how many were suppressed.
//!
//! Each place in the code may log ten lines in ten seconds, for each transport, node and cause that its lines name. The
//! audit log of changes that people make to keys is never suppressed.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate::{Cost, Key, Limit, Limiter, MemoryStore, Policy};
use tidegate_server::{AUDIT, LOG_LINES};
use tracing::{Event, Subscriber, field::Field};
use tracing_subscriber::layer::Context;

/// Maximum number of lines of one kind in a window.
const LINES: u64 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of kinds of lines that one report lists.
const MAX_KINDS: usize = 100;

/// Maximum number of characters of a message that a report quotes.
const MAX_QUOTED: usize = 200;

/// Fields whose values distinguish kinds of lines from one place in the code.
const FIELDS: [&str; 3] = ["transport", "node", "cause"];

/// Target of the reports.
const REPORTS: &str = "tidegate::log";

/// The limit for each kind of line, and the lines that were suppressed since the last report.
#[derive(Debug)]
pub(super) struct Repeats {
    limiter: Limiter,
    policy: Policy,
    suppressed: Mutex<HashMap<String, Suppressed>>,
    reported_at_us: AtomicU64,
}

#[derive(Debug)]
struct Suppressed {
    message: String,
    count: u64,
}

impl Repeats {
    pub(super) fn new() -> anyhow::Result<Self> {
        let limiter = Limiter::new(MemoryStore::builder().max_keys(10_000).max_bytes(4 << 20).build()?);
        let policy = Policy::new("log-lines", [Limit::new(LINES, WINDOW)?])?;
        let now = limiter.clock().now().as_micros();
        Ok(Self { limiter, policy, suppressed: Mutex::default(), reported_at_us: AtomicU64::new(now) })
    }

    fn admits(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        if [AUDIT, REPORTS].contains(&metadata.target()) {
            return true;
        }
        let mut kind = LineKind::default();
        let _ = write!(kind.key, "{}:{}", metadata.file().unwrap_or(metadata.target()), metadata.line().unwrap_or(0));
        event.record(&mut kind);
        let Ok(key) = Key::new(&kind.key) else { return true };
        if self.limiter.check(&self.policy, &key, Cost::ONE).is_allowed() {
            return true;
        }
        LOG_LINES.suppressed();
        let mut suppressed = self.suppressed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = suppressed.get_mut(&kind.key) {
            known.count += 1;
        } else if suppressed.len() < MAX_KINDS {
            suppressed.insert(kind.key, Suppressed { message: kind.message, count: 1 });
        }
        false
    }

    /// Reports the suppressed lines, if the last report was long enough ago.
    pub(super) fn report_when_due(&self) {
        let now = self.limiter.clock().now().as_micros();
        let window = u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX);
        if now >= self.reported_at_us.load(Relaxed).saturating_add(window) {
            self.reported_at_us.store(now, Relaxed);
            self.report();
        }
    }

    /// Reports the lines that were suppressed since the last report.
    pub(super) fn report(&self) {
        // Emptied first, because a report is a log line, too.
        let suppressed = std::mem::take(&mut *self.suppressed.lock().unwrap_or_else(PoisonError::into_inner));
        for (place, Suppressed { message, count }) in suppressed {
            tracing::warn!(target: REPORTS, place, like = message, "{count} similar lines were suppressed");
        }
    }
}

/// The kind of a line.
#[derive(Default)]
struct LineKind {
    key: String,
    message: String,
}

impl tracing::field::Visit for LineKind {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}").chars().take(MAX_QUOTED).collect();
        } else if FIELDS.contains(&field.name()) {
            let _ = write!(self.key, " {}", format!("{value:?}").chars().take(MAX_QUOTED).collect::<String>());
        }
    }
}

/// The layer that applies [`Repeats`].
pub(super) struct Layer(pub(super) std::sync::Arc<Repeats>);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Layer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.admits(event)
    }
}
