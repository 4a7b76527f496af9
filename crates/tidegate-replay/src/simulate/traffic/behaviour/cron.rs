//! [`Cron`]: a job that runs exactly on the minute.

const MINUTE_US: u64 = 60_000_000;
/// From one call of a job to its next.
const STEP_US: u64 = 40_000;

/// A job that makes a few calls, one after the other, at every so many whole minutes.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Cron {
    every_us: u64,
    calls: u64,
    /// When the run began that is under way.
    begun_us: u64,
    done: u64,
}

impl Cron {
    pub(in crate::simulate::traffic) fn new(start_us: u64, every_minutes: u64, calls: u64) -> Self {
        let every_us = every_minutes * MINUTE_US;
        Self { every_us, calls, begun_us: start_us.next_multiple_of(every_us), done: 0 }
    }

    pub(super) fn next(&mut self) -> u64 {
        if self.done == self.calls {
            self.begun_us += self.every_us;
            self.done = 0;
        }
        let time_us = self.begun_us + self.done * STEP_US;
        self.done += 1;
        time_us
    }
}
