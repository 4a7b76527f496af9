//! [`Clock`]: the source of time. Nothing else reads the time.

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use crate::timestamp::Timestamp;

/// The source of time: the system, a manual clock for tests, or a function of the program.
///
/// The system clock counts processor ticks, so that it advances steadily when the wall clock jumps. It follows the wall
/// clock by these rules:
/// - If the wall clock is ahead, the system clock moves forward to it. If the wall clock is ahead by more than a
///   second, as after a suspended machine wakes, it must have been ahead for 10 seconds first.
/// - If the system clock is [ahead](Self::ahead), it runs a thousandth slow until the wall clock has caught up. It
///   never goes back for a lead of less than a minute.
/// - If the wall clock has been behind by more than a minute for 10 minutes, the system clock goes back to it. Stores
///   handle a clock that goes back: units in use stay in use.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System(Arc<SystemClock>),
    Manual(Arc<AtomicU64>),
    Function(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl Clock {
    /// The time of the system.
    pub fn system() -> Self {
        Self(Source::System(Arc::new(SystemClock::new())))
    }

    /// The system's time, from one clock that the whole process shares.
    pub fn process() -> &'static Self {
        static PROCESS: LazyLock<Clock> = LazyLock::new(Clock::system);
        &PROCESS
    }

    /// The time that `read` returns, for programs with their own clock, such as a simulation or a runtime with paused
    /// time. It must not go back by more than a little.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Clock, Timestamp};
    ///
    /// let began = Timestamp::from_micros(1_745_000_000_000_000);
    /// let simulated = |elapsed: Duration| Clock::from_fn(move || began.after(elapsed));
    /// assert_eq!(simulated(Duration::from_secs(1)).now().as_micros(), 1_745_000_001_000_000);
    /// ```
    pub fn from_fn(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Source::Function(Arc::new(read)))
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(clock) => Timestamp::from_micros(clock.now()),
            Source::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::Acquire)),
            Source::Function(read) => read(),
        }
    }

    /// The lead of the system clock over the wall clock. It is almost zero, unless the wall clock was set back, and at
    /// most a minute after ten minutes. It is always zero for other clocks.
    pub fn ahead(&self) -> Duration {
        match &self.0 {
            Source::System(clock) => Duration::from_micros(clock.ahead()),
            Source::Manual(_) | Source::Function(_) => Duration::ZERO,
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
            Source::Function(_) => "Clock::from_fn",
        })
    }
}

/// A clock that changes only when it is set or advanced.
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

    /// A clock for a [`Limiter`](crate::Limiter) that shows the same time.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }

    /// Sets the time, which may be earlier.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::Release);
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Duration) {
        let later = |micros| Some(Timestamp::from_micros(micros).after(by).as_micros());
        // The closure always returns a value, so the update never fails.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }
}

/// The tick counter and its relation to the wall clock.
struct SystemClock {
    ticks: quanta::Clock,
    /// The value of the tick counter when this clock was created.
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
        let ticks = || self.ticks.delta_as_nanos(self.start, self.ticks.raw()) / 1_000;
        self.anchor.read(ticks(), || (wall_micros(), ticks()))
    }

    fn ahead(&self) -> u64 {
        let now = self.now();
        now.saturating_sub(wall_micros())
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn wall_micros() -> u64 {
    // A wall clock before 1970 is wrong, so it reads as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Relates ticks to the wall clock. Ticks are read a thousandth slow, and the clock moves forward by the difference. So a
/// tick counter that runs a little fast is never ahead of the wall clock for long.
struct Anchor {
    /// Offset to add to the slowed ticks.
    offset: AtomicU64,
    /// The ticks of the next comparison with the wall clock.
    next_comparison: AtomicU64,
    jump: Mutex<Jump>,
}

/// Results of the comparisons with the wall clock so far, in ticks.
#[derive(Default)]
struct Jump {
    last_comparison: u64,
    /// The start of the time in which the wall clock has been further ahead than the ticks explain.
    ahead_since: Option<u64>,
    /// The start of the time in which the wall clock has been far behind.
    behind_since: Option<u64>,
}

/// Interval of the comparisons with the wall clock, in microseconds. The clock is then at most 16 µs behind.
const COMPARE_EVERY: u64 = 16_384;
/// Largest lead of the wall clock over the ticks that is followed at once.
const MAX_AHEAD: u64 = 1_000_000;
/// Largest drift of the ticks between two comparisons that is added to that.
const MAX_DRIFT: u64 = 4_000_000;
/// Maximum time between reading the ticks and reading the wall clock.
const MAX_PAUSE: u64 = 1_000;
/// The time for which the wall clock must be further ahead than that before it is followed.
const AHEAD_FOR: u64 = 10_000_000;
/// Largest lag of the wall clock that is not followed.
const MAX_LEAD: u64 = 60_000_000;
/// The time for which the wall clock must be further behind than that before it is followed.
const BEHIND_FOR: u64 = 600_000_000;

impl Anchor {
    fn new(wall: u64) -> Self {
        let (offset, next_comparison) = (AtomicU64::new(wall), AtomicU64::new(COMPARE_EVERY));
        Self { offset, next_comparison, jump: Mutex::default() }
    }

    /// Reads the time at `ticks`. `compare` reads the wall clock, then the ticks again.
    #[inline]
    fn read(&self, ticks: u64, compare: impl FnOnce() -> (u64, u64)) -> u64 {
        if ticks >= self.next_comparison.load(Ordering::Relaxed) {
            self.compare(ticks, compare);
        }
        slowed(ticks).saturating_add(self.offset.load(Ordering::Acquire))
    }

    /// Compares with the wall clock, unless another thread is doing so.
    #[cold]
    fn compare(&self, ticks: u64, compare: impl FnOnce() -> (u64, u64)) {
        let Some(mut jump) = self.jump.try_lock() else {
            return;
        };
        let (wall, ticks_after) = compare();
        // The thread was suspended, so the wall clock does not belong to these ticks. The next reading compares again.
        if ticks_after.saturating_sub(ticks) > MAX_PAUSE {
            return;
        }
        self.next_comparison.store(ticks + COMPARE_EVERY, Ordering::Relaxed);
        let elapsed = ticks.saturating_sub(jump.last_comparison);
        jump.last_comparison = ticks;
        let now = slowed(ticks).saturating_add(self.offset.load(Ordering::Acquire));
        // Ticks are read exactly a thousandth slow, and the counter itself may be slow by as much.
        let steady = now.saturating_add(elapsed.saturating_sub(slowed(elapsed)));
        let drift = (elapsed / 1024).min(MAX_DRIFT);
        let is_ahead = wall.saturating_sub(steady) > MAX_AHEAD + drift;
        let is_behind = now.saturating_sub(wall) > MAX_LEAD;
        jump.ahead_since = is_ahead.then(|| jump.ahead_since.unwrap_or(ticks));
        jump.behind_since = is_behind.then(|| jump.behind_since.unwrap_or(ticks));
        let lasts = |since: Option<u64>, long: u64| since.is_none_or(|since| ticks.saturating_sub(since) >= long);
        let follows = if is_behind { lasts(jump.behind_since, BEHIND_FOR) } else { wall > now };
        if follows && lasts(jump.ahead_since, AHEAD_FOR) {
            self.offset.store(wall.saturating_sub(slowed(ticks)), Ordering::Release);
            (jump.ahead_since, jump.behind_since) = (None, None);
        } else if is_ahead {
            // Until the wall clock is followed, only the ticks determine the time.
            self.offset.store(steady.saturating_sub(slowed(ticks)), Ordering::Release);
        }
    }
}

#[inline]
fn slowed(ticks: u64) -> u64 {
    ticks - (ticks >> 10)
}

#[cfg(test)]
mod tests {
    use super::{Anchor, COMPARE_EVERY};

    const START: u64 = 1_745_000_000_000_000;

    impl Anchor {
        /// Reads the time in a thread that is not suspended during the comparison.
        fn read_wall(&self, ticks: u64, wall: impl FnOnce() -> u64) -> u64 {
            self.read(ticks, || (wall(), ticks))
        }
    }

    #[test]
    fn follows_the_wall_clock_closely() {
        let anchor = Anchor::new(START);
        for ticks in (0..10_000_000).step_by(5_000) {
            let wall = START + ticks;
            let read = anchor.read_wall(ticks, || wall);
            assert!(read <= wall && wall - read <= 2 * COMPARE_EVERY / 1024 + 5, "{read} for {wall}");
        }
    }

    /// Reads the clock every 10 ms of ticks for `seconds`, with a wall clock that is off by `wall_off`; returns the
    /// last reading.
    fn run(anchor: &Anchor, ticks: &mut u64, seconds: u64, wall_off: i64) -> u64 {
        let mut read = 0;
        for _ in 0..seconds * 100 {
            *ticks += 10_000;
            read = anchor.read_wall(*ticks, || (START + *ticks).saturating_add_signed(wall_off));
        }
        read
    }

    fn lead(ticks: u64, read: u64) -> i64 {
        read.cast_signed() - (START + ticks).cast_signed()
    }

    const SECOND: i64 = 1_000_000;
    const YEAR: i64 = 365 * 86_400 * SECOND;

    #[test]
    fn follows_a_small_step_ahead_at_once_and_a_large_one_after_ten_seconds() {
        let anchor = Anchor::new(START);
        let hours = 8 * 3_600_000_000;
        assert!(anchor.read_wall(1_000, || unreachable!()) < START + 2_000);
        assert_eq!(anchor.read_wall(COMPARE_EVERY, || START + 900_000), START + 900_000);
        // Suspended for eight hours.
        let woken = 2 * COMPARE_EVERY;
        assert!(anchor.read_wall(woken, || START + hours) < START + 2_000_000);
        assert!(anchor.read_wall(woken + 9_000_000, || START + hours + 9_000_000) < START + 10_000_000);
        assert_eq!(anchor.read_wall(woken + 10_000_000, || START + hours + 10_000_000), START + hours + 10_000_000);
    }

    #[test]
    fn a_wall_clock_that_is_a_year_ahead_for_a_few_seconds_changes_nothing() {
        let (anchor, mut ticks) = (Anchor::new(START), 0);
        run(&anchor, &mut ticks, 5, 0);
        for _ in 0..10 {
            let read = run(&anchor, &mut ticks, 9, YEAR);
            assert!(lead(ticks, read) <= 0, "{}", lead(ticks, read));
            let read = run(&anchor, &mut ticks, 1, 0);
            assert!((-50..=0).contains(&lead(ticks, read)), "{}", lead(ticks, read));
        }
    }

    #[test]
    fn a_clock_that_followed_a_wrong_wall_clock_goes_back_after_ten_minutes() {
        let (anchor, mut ticks) = (Anchor::new(START), 0);
        let read = run(&anchor, &mut ticks, 60, YEAR);
        assert!((YEAR - 50..=YEAR).contains(&lead(ticks, read)), "an error that lasts a minute is followed");
        let read = run(&anchor, &mut ticks, 599, 0);
        assert!(lead(ticks, read) > YEAR - SECOND, "it does not go back early: {}", lead(ticks, read));
        let read = run(&anchor, &mut ticks, 5, 0);
        assert!((-50..=0).contains(&lead(ticks, read)), "still ahead by {}", lead(ticks, read));
    }

    #[test]
    fn a_clock_that_started_wrong_is_corrected() {
        let (anchor, mut ticks) = (Anchor::new(START + YEAR.cast_unsigned()), 0);
        let read = run(&anchor, &mut ticks, 605, 0);
        assert!((-50..=0).contains(&lead(ticks, read)), "still ahead by {}", lead(ticks, read));
    }

    #[test]
    fn a_wall_clock_that_is_behind_for_minutes_only_is_not_followed() {
        let (anchor, mut ticks) = (Anchor::new(START), 0);
        for wall_off in [-YEAR, 0, -120 * SECOND, 0] {
            let read = run(&anchor, &mut ticks, 590, wall_off);
            assert!(lead(ticks, read).abs() < SECOND, "{wall_off}: {}", lead(ticks, read));
        }
    }

    #[test]
    fn a_lead_of_a_minute_shrinks_without_going_back() {
        let (anchor, mut ticks) = (Anchor::new(START + 59_000_000), 0);
        let (mut before, mut read) = (0, 0);
        for _ in 0..17 * 360 {
            ticks += 10_000_000;
            read = anchor.read_wall(ticks, || START + ticks);
            assert!(read >= before, "{read} after {before}");
            before = read;
        }
        assert!(lead(ticks, read) <= 0, "still ahead by {}", lead(ticks, read));
    }

    #[test]
    fn is_right_at_once_after_hours_without_a_reading() {
        let anchor = Anchor::new(START);
        for ticks in [3_600_000_000, 86_400_000_000] {
            assert_eq!(anchor.read_wall(ticks, || START + ticks), START + ticks);
        }
    }

    #[test]
    fn a_wall_clock_ahead_is_not_followed_at_once_after_hours_without_a_reading() {
        for hours in [1, 24, 24 * 365] {
            let (anchor, mut ticks) = (Anchor::new(START), hours * 3_600_000_000);
            let read = anchor.read_wall(ticks, || START + ticks + 15_000_000);
            assert!((-50..=0).contains(&lead(ticks, read)), "{hours} hours: {}", lead(ticks, read));
            let read = run(&anchor, &mut ticks, 9, 15 * SECOND);
            assert!(lead(ticks, read) <= 0, "{hours} hours: {}", lead(ticks, read));
            let read = run(&anchor, &mut ticks, 2, 0);
            assert!((-50..=0).contains(&lead(ticks, read)), "{hours} hours: {}", lead(ticks, read));
        }
    }

    #[test]
    fn a_thread_that_is_suspended_while_it_compares_does_not_move_the_clock() {
        let anchor = Anchor::new(START);
        let (ticks, pause) = (COMPARE_EVERY, 900_000);
        let read = anchor.read(ticks, || (START + ticks + pause, ticks + pause));
        assert!(lead(ticks, read) <= 0, "{}", lead(ticks, read));
        // The next reading compares again.
        assert_eq!(anchor.read_wall(ticks + 1, || START + ticks + 1), START + ticks + 1);
    }

    #[test]
    fn never_goes_back_if_the_wall_clock_does() {
        let anchor = Anchor::new(START);
        let mut before = 0;
        for (step, wall) in
            [START, START + 5_000_000, 0, START - 86_400_000_000, START + 6_000_000].into_iter().enumerate()
        {
            for within in 0..1_000 {
                let ticks = step as u64 * 2_000_000 + within * 2_000;
                let read = anchor.read_wall(ticks, || wall);
                assert!(read >= before, "{read} after {before}");
                before = read;
            }
        }
    }

    #[test]
    fn is_not_ahead_for_long_when_ticks_run_fast() {
        let anchor = Anchor::new(START);
        let mut read = 0;
        for second in 0..86_400_u64 {
            let wall = second * 1_000_000;
            let fast = wall + wall / 5_000;
            read = anchor.read_wall(fast, || START + wall);
        }
        assert!(read <= START + 86_400 * 1_000_000, "led by {}", read - START - 86_400 * 1_000_000);
    }
}
