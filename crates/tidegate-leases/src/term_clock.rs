//! [`TermClock`]: the clock by which a node measures how long it may admit from a lease.

use std::{fmt, sync::Arc};

/// A clock of this machine that keeps running while the machine is suspended.
///
/// A lease ends by the clock of the shared store. The node can't read that clock, so it measures the term by its own clock,
/// from before it sends the request, and stops early by 1 %. A clock that stands still while the machine is suspended would
/// let it go on after the end. The wall clock would do so after it is set back.
#[derive(Clone, Default)]
pub struct TermClock(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    Machine,
    Function(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl TermClock {
    /// The clock of this machine.
    pub fn machine() -> Self {
        Self(Source::Machine)
    }

    /// A clock that shows the microseconds that `read` returns, for tests and simulations. They must not go back.
    pub fn from_fn(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Source::Function(Arc::new(read)))
    }

    /// Microseconds since some moment.
    #[inline]
    pub(crate) fn micros(&self) -> u64 {
        match &self.0 {
            Source::Machine => machine_micros(),
            Source::Function(read) => read(),
        }
    }
}

impl fmt::Debug for TermClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Machine => "TermClock::machine",
            Source::Function(_) => "TermClock::from_fn",
        })
    }
}

/// The only reader of this machine's clock in this crate.
#[cfg(unix)]
#[inline]
fn machine_micros() -> u64 {
    // The monotonic clock of macOS and iOS runs during suspension, and they have no other name for it.
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "openbsd", target_os = "freebsd"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "openbsd", target_os = "freebsd")))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1_000
}

/// On Windows, the performance counter runs during suspension.
#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn machine_micros() -> u64 {
    use std::{sync::OnceLock, time::Instant};

    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::TermClock;

    #[test]
    fn the_clock_of_the_machine_advances() {
        let clock = TermClock::machine();
        let start = clock.micros();
        while clock.micros() == start {
            std::hint::spin_loop();
        }
        assert!(clock.micros() > start);
    }
}
