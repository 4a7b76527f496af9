//! The visitors of a site: mostly people, and some programs.

use super::{
    RequestKind, Traffic,
    activity_curve::ActivityCurve,
    behaviour::{Behaviour, ClientClock, cron_job, pages, scraper, script},
};

/// Number of requests of a page, and the time to load them.
const PAGE: f64 = 8.0;
const LOADING_US: f64 = 1_500_000.0;

/// One in this many clients is a program of this kind, and how much more it sends than the mean of all clients.
const SCRAPERS: (u32, f64) = (50, 8.0);
const SCRIPTS: (u32, f64) = (250, 20.0);
const PASSWORD_GUESSERS: (u32, f64) = (250, 10.0);
const CRON_JOBS: u32 = 40;

/// Mean duration of runs and pauses.
const SCRIPT_RUNS: (f64, f64) = (30e6, 90e6);
const PASSWORD_GUESSER_RUNS: (f64, f64) = (120e6, 240e6);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visitor {
    Person,
    Scraper,
    Script,
    PasswordGuesser,
    CronJob,
}

impl Visitor {
    /// Returns the kind of a client. Even a few clients include one of each kind.
    fn of(client: u32) -> Self {
        match client {
            n if n % SCRAPERS.0 == 3 => Self::Scraper,
            n if n % SCRIPTS.0 == 5 => Self::Script,
            n if n % PASSWORD_GUESSERS.0 == 8 => Self::PasswordGuesser,
            n if n % CRON_JOBS == 6 => Self::CronJob,
            _ => Self::Person,
        }
    }

    /// Returns the number of requests of a program as a multiple of the mean. People send the remaining requests.
    fn weight(self, per_minute: f64) -> f64 {
        match self {
            Self::Person => 0.0,
            Self::Scraper => SCRAPERS.1,
            Self::Script => SCRIPTS.1,
            Self::PasswordGuesser => PASSWORD_GUESSERS.1,
            // A cron job makes one call a minute on average.
            Self::CronJob => 1.0 / per_minute,
        }
    }
}

/// Returns the behaviour of every client.
pub(super) fn clients(traffic: &Traffic) -> Vec<Behaviour> {
    let clock = ClientClock::new(traffic.start_us);
    let curve = ActivityCurve::daily(traffic.seed);
    let mean_gap = 60e6 / traffic.per_minute;
    let visitors = || (0..traffic.clients).map(Visitor::of);
    let programs: f64 = visitors().map(|visitor| visitor.weight(traffic.per_minute)).sum();
    let people = f64::from(u32::try_from(visitors().filter(|v| *v == Visitor::Person).count()).unwrap_or(u32::MAX));
    // Even among few clients, people send something.
    let person = ((f64::from(traffic.clients) - programs) / people).max(0.2);
    let behaviour = |(client, visitor): (u32, Visitor)| {
        let gap = mean_gap / visitor.weight(traffic.per_minute);
        match visitor {
            Visitor::Person => pages(clock, mean_gap / person, PAGE, LOADING_US, Some(curve)),
            Visitor::Scraper => scraper(clock, gap),
            Visitor::Script => script(clock, gap, SCRIPT_RUNS, RequestKind::Api),
            Visitor::PasswordGuesser => script(clock, gap, PASSWORD_GUESSER_RUNS, RequestKind::Login),
            Visitor::CronJob => {
                // Most jobs run every five minutes, some every minute.
                let every = if (client / CRON_JOBS).is_multiple_of(4) { 1 } else { 5 };
                cron_job(traffic.start_us, every, every)
            }
        }
    };
    (0..).zip(visitors()).map(behaviour).collect()
}
