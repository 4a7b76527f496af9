//! A site's visitors: mostly people, and what else comes along.

use super::{
    Traffic,
    behaviour::{Behaviour, Clock, Cron, Pages, Runs, Scraper},
    curve::Curve,
    requests::What,
};

/// A person's page: how many requests, and how long they take.
const PAGE: f64 = 8.0;
const LOADING_US: f64 = 1_500_000.0;

/// Those who are no people: one in so many clients, and how much more each sends than the mean of all.
const SCRAPERS: (u32, f64) = (50, 8.0);
const SCRIPTS: (u32, f64) = (250, 20.0);
const GUESSERS: (u32, f64) = (250, 10.0);
const CRONS: u32 = 40;

/// Runs and rests of a script, and of one who guesses passwords.
const SCRIPT_RUNS: (f64, f64) = (30e6, 90e6);
const GUESSER_RUNS: (f64, f64) = (120e6, 240e6);

/// Who a client is. The numbers tell, so that even a few clients have one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visitor {
    Person,
    Scraper,
    Script,
    Guesser,
    Cron,
}

impl Visitor {
    fn of(client: u32) -> Self {
        match client {
            n if n % SCRAPERS.0 == 3 => Self::Scraper,
            n if n % SCRIPTS.0 == 5 => Self::Script,
            n if n % GUESSERS.0 == 8 => Self::Guesser,
            n if n % CRONS == 6 => Self::Cron,
            _ => Self::Person,
        }
    }

    /// How much it sends beside the mean of all; people have the rest.
    fn weight(self, per_minute: f64) -> f64 {
        match self {
            Self::Person => 0.0,
            Self::Scraper => SCRAPERS.1,
            Self::Script => SCRIPTS.1,
            Self::Guesser => GUESSERS.1,
            // One call a minute is what they come to, whatever the others do.
            Self::Cron => 1.0 / per_minute,
        }
    }
}

/// The behaviour of every client.
pub(super) fn clients(traffic: &Traffic) -> Vec<Behaviour> {
    let clock = Clock::new(traffic.start_us);
    let curve = Curve::of_the_clock(traffic.seed);
    let mean_gap = 60e6 / traffic.per_minute;
    let visitors = || (0..traffic.clients).map(Visitor::of);
    let others: f64 = visitors().map(|visitor| visitor.weight(traffic.per_minute)).sum();
    let people = f64::from(u32::try_from(visitors().filter(|v| *v == Visitor::Person).count()).unwrap_or(u32::MAX));
    // However few clients there are, people send something.
    let person = ((f64::from(traffic.clients) - others) / people).max(0.2);
    let behaviour = |(client, visitor): (u32, Visitor)| {
        let gap = mean_gap / visitor.weight(traffic.per_minute);
        match visitor {
            Visitor::Person => Behaviour::Pages(Pages::new(clock, mean_gap / person, PAGE, LOADING_US, Some(curve))),
            Visitor::Scraper => Behaviour::Scraper(Scraper::new(clock, gap)),
            Visitor::Script => Behaviour::Runs(Runs::new(clock, gap, SCRIPT_RUNS, What::Api)),
            Visitor::Guesser => Behaviour::Runs(Runs::new(clock, gap, GUESSER_RUNS, What::Login)),
            Visitor::Cron => {
                // Most run every five minutes, some every minute.
                let every = if (client / CRONS).is_multiple_of(4) { 1 } else { 5 };
                Behaviour::Cron(Cron::new(traffic.start_us, every, every))
            }
        }
    };
    (0..).zip(visitors()).map(behaviour).collect()
}
