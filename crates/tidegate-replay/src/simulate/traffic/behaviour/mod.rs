//! [`Behaviour`]: when one client sends its next request.

mod adversary;
mod cron;
mod pages;
mod runs;
mod steady;

use adversary::Adversary;
pub(super) use cron::Cron;
pub(super) use pages::Pages;
pub(super) use runs::Runs;
pub(super) use steady::{Scraper, Steady, Waves};

use super::{Shape, Traffic, curve::Curve, mix, requests::What, window_us};
use crate::simulate::random::Random;

pub(super) use adversary::LOAD as ADVERSARIAL_LOAD;

/// How much less each client sends than the one before it: 7 of 100 send more than twice the mean, 2 more than four times.
const ZIPF: f64 = 0.6;
/// A page is this part of a limit, and is fetched in this part of its window.
const PAGE_OF_LIMIT: f64 = 0.25;
const PAGE_OF_WINDOW: f64 = 0.05;

/// When one client sends its next request, without end.
#[derive(Debug, Clone)]
pub(super) enum Behaviour {
    Steady(Steady),
    Waves(Waves),
    Pages(Pages),
    Adversary(Adversary),
    Scraper(Scraper),
    Runs(Runs),
    Cron(Cron),
}

impl Behaviour {
    /// The next request, no earlier than the one before.
    pub(super) fn next(&mut self, random: &mut Random) -> (u64, What) {
        match self {
            Self::Steady(steady) => (steady.next(random), What::Api),
            Self::Waves(waves) => (waves.next(random), What::Api),
            Self::Pages(pages) => pages.next(random),
            Self::Adversary(adversary) => (adversary.next(), What::Api),
            Self::Scraper(scraper) => (scraper.next(random), What::Crawl),
            Self::Runs(runs) => runs.next(random),
            Self::Cron(cron) => (cron.next(), What::Job),
        }
    }
}

/// Time since the traffic began, finer than a microsecond so that short gaps add up to what they should.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start_us: u64,
    elapsed: f64,
}

impl Clock {
    pub(super) fn new(start_us: u64) -> Self {
        Self { start_us, elapsed: 0.0 }
    }

    /// Goes on by so many microseconds.
    pub(super) fn pass(&mut self, gap: f64) {
        self.elapsed += gap;
    }

    /// The time now.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates")]
    pub(super) fn now(&self) -> u64 {
        self.start_us.saturating_add(self.elapsed as u64)
    }
}

/// The behaviour of every client.
#[expect(clippy::cast_precision_loss, reason = "about so much")]
pub(super) fn clients(traffic: &Traffic) -> Vec<Behaviour> {
    let clock = Clock::new(traffic.start_us);
    let mean_gap = 60e6 / traffic.per_minute;
    let gap = |activity: f64| mean_gap / activity;
    match traffic.shape {
        Shape::Poisson => {
            let steady = |activity| Behaviour::Steady(Steady::new(clock, gap(activity)));
            activities(traffic.clients).map(steady).collect()
        }
        Shape::Diurnal => {
            let curve = Curve::over(traffic.start_us, traffic.duration_us, traffic.seed);
            let waves = |activity| Behaviour::Waves(Waves::new(clock, gap(activity), curve));
            activities(traffic.clients).map(waves).collect()
        }
        Shape::Bursty => {
            let page = (traffic.limit.max() as f64 / traffic.cost as f64 * PAGE_OF_LIMIT).max(2.0);
            let loading = window_us(traffic.limit) as f64 * PAGE_OF_WINDOW;
            let pages = |activity| Behaviour::Pages(Pages::new(clock, gap(activity), page, loading, None));
            activities(traffic.clients).map(pages).collect()
        }
        Shape::Adversarial => {
            (0..traffic.clients).map(|client| Behaviour::Adversary(Adversary::new(traffic, client))).collect()
        }
        Shape::Mix => mix::clients(traffic),
    }
}

/// How much each client sends, beside the mean: a few send much, most send little.
fn activities(clients: u32) -> impl Iterator<Item = f64> {
    let weight = |rank: u32| f64::from(rank + 1).powf(-ZIPF);
    let mean = (0..clients).map(weight).sum::<f64>() / f64::from(clients);
    (0..clients).map(move |rank| weight(rank) / mean)
}
