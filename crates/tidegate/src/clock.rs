//! [`Clock`]: where time comes from. Nothing else reads it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::timestamp::Timestamp;

/// Where time comes from: the system, a hand that a test moves, or a clock of the program's own.
///
/// The system's clock never goes back, whatever happens to the wall clock: it counts the processor's ticks and is moved
/// forwards to the wall clock when that is ahead, as it is after a suspended machine wakes.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(Arc<SystemClock>),
    Manual(Arc<AtomicU64>),
    Given(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// The system's time.
    pub fn system() -> Self {
        Self(Source::System(Arc::new(SystemClock::new())))
    }

    /// A time that `read` tells, for programs that run on a clock of their own: a simulation, or a runtime whose timers a test holds. It
    /// must not go back by more than a little.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Clock, Timestamp};
    ///
    /// let began = Timestamp::from_micros(1_745_000_000_000_000);
    /// let simulated = |elapsed: Duration| Clock::given(move || began.after(elapsed));
    /// assert_eq!(simulated(Duration::from_secs(1)).now().as_micros(), 1_745_000_001_000_000);
    /// ```
    pub fn given(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Given(Arc::new(read)))
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(clock) => Timestamp::from_micros(clock.now()),
            Source::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::Acquire)),
            Source::Given(read) => read(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System(_) => "Clock::system",
            Source::Manual(_) => "Clock::manual",
            Source::Given(_) => "Clock::given",
        })
    }
}

/// A clock that stands still until it is moved, either way.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{ManualClock, Timestamp};
///
/// let time = ManualClock::at(Timestamp::from_micros(1_745_000_000_000_000));
/// let clock = time.clock();
/// time.advance(Duration::from_secs(1));
/// assert_eq!(clock.now().as_micros(), 1_745_000_001_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `time`.
    pub fn at(time: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(time.as_micros())))
    }

    /// The clock to give to a [`Limiter`](crate::Limiter); it shows what this one shows.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }

    /// Shows `time` from now on, which may be earlier.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::Release);
    }

    /// Moves forwards.
    pub fn advance(&self, by: Duration) {
        let later = |micros| Some(Timestamp::from_micros(micros).after(by).as_micros());
        // The closure never declines, so the update never fails.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }
}

/// The tick counter, and how far the wall clock is ahead of it.
struct SystemClock {
    ticks: quanta::Clock,
    /// The ticks counted when this clock was made.
    start: u64,
    anchor: Anchor,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn new() -> Self {
        let ticks = quanta::Clock::new();
        let start = ticks.raw();
        let anchor = Anchor::new(wall_micros());
        Self { ticks, start, anchor }
    }

    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> u64 {
        let elapsed = self.ticks.delta_as_nanos(self.start, self.ticks.raw());
        self.anchor.read(elapsed / 1_000, wall_micros)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn wall_micros() -> u64 {
    // A wall clock before 1970 is as good as none.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Ties ticks to the wall clock. Ticks are read a thousandth slow and the difference is made up by moving forwards, so
/// that a tick counter that runs a little fast never leads the wall clock for long, and nothing ever moves back.
struct Anchor {
    /// What to add to the slowed ticks. It only grows.
    offset: AtomicU64,
    /// The ticks at which to look at the wall clock next.
    next_look: AtomicU64,
}

/// How often to look at the wall clock, in microseconds. At a thousandth, the clock is then 16 µs behind at the most.
const LOOK_EVERY: u64 = 16_384;

impl Anchor {
    fn new(wall: u64) -> Self {
        Self { offset: AtomicU64::new(wall), next_look: AtomicU64::new(LOOK_EVERY) }
    }

    #[inline]
    fn read(&self, ticks: u64, wall: impl FnOnce() -> u64) -> u64 {
        let slowed = ticks - (ticks >> 10);
        if ticks >= self.next_look.load(Ordering::Relaxed) {
            self.next_look.store(ticks + LOOK_EVERY, Ordering::Relaxed);
            self.offset.fetch_max(wall().saturating_sub(slowed), Ordering::AcqRel);
        }
        slowed.saturating_add(self.offset.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::{Anchor, LOOK_EVERY};

    const START: u64 = 1_745_000_000_000_000;

    #[test]
    fn follows_the_wall_clock_closely() {
        let anchor = Anchor::new(START);
        for ticks in (0..10_000_000).step_by(5_000) {
            let wall = START + ticks;
            let read = anchor.read(ticks, || wall);
            assert!(read <= wall && wall - read <= 2 * LOOK_EVERY / 1024 + 5, "{read} for {wall}");
        }
    }

    #[test]
    fn moves_ahead_with_a_wall_clock_that_was_suspended_less_than_a_look_ago() {
        let anchor = Anchor::new(START);
        let hours = 8 * 3_600_000_000;
        assert!(anchor.read(1_000, || unreachable!()) < START + 2_000);
        assert_eq!(anchor.read(LOOK_EVERY, || START + hours), START + hours);
    }

    #[test]
    fn never_goes_back_with_a_wall_clock_that_does() {
        let anchor = Anchor::new(START);
        let mut before = 0;
        for (step, wall) in
            [START, START + 5_000_000, 0, START - 86_400_000_000, START + 6_000_000].into_iter().enumerate()
        {
            for within in 0..1_000 {
                let ticks = step as u64 * 2_000_000 + within * 2_000;
                let read = anchor.read(ticks, || wall);
                assert!(read >= before, "{read} after {before}");
                before = read;
            }
        }
    }

    #[test]
    fn does_not_lead_for_long_when_ticks_run_fast() {
        let anchor = Anchor::new(START);
        let mut read = 0;
        for second in 0..86_400_u64 {
            let wall = second * 1_000_000;
            let fast = wall + wall / 5_000;
            read = anchor.read(fast, || START + wall);
        }
        assert!(read <= START + 86_400 * 1_000_000, "led by {}", read - START - 86_400 * 1_000_000);
    }
}
