//! [`Behaviour`]: when a client sends its next request.

use super::{RequestKind, Traffic, TrafficShape, activity_curve::ActivityCurve, adversary::adversary, visitors};
use crate::{simulate::random::Random, window_us};

/// Returns the next request of a client, without end. No request is earlier than the one before.
pub(super) type Behaviour = Box<dyn FnMut(&mut Random) -> (u64, RequestKind) + Send>;

/// How much less each client sends than the client before: 7 of 100 send more than twice the mean, 2 more than four times.
const ZIPF: f64 = 0.6;
/// Size of a page as a fraction of the limit.
const PAGE_OF_LIMIT: f64 = 0.25;
/// Time to load a page as a fraction of the window.
const PAGE_OF_WINDOW: f64 = 0.05;

const MINUTE_US: u64 = 60_000_000;
/// Time between two calls of a cron job.
const JOB_STEP_US: u64 = 40_000;

/// Time of a client. It is finer than a microsecond, so that short gaps add up correctly.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientClock {
    start_us: u64,
    elapsed: f64,
}

impl ClientClock {
    pub(super) fn new(start_us: u64) -> Self {
        Self { start_us, elapsed: 0.0 }
    }

    /// Moves on by a number of microseconds. Returns the new time.
    fn advance(&mut self, gap: f64) -> u64 {
        self.elapsed += gap;
        self.now()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates")]
    fn now(&self) -> u64 {
        self.start_us.saturating_add(self.elapsed as u64)
    }
}

/// Returns the behaviour of every client.
#[expect(clippy::cast_precision_loss, reason = "approximate sizes")]
pub(super) fn clients(traffic: &Traffic) -> Vec<Behaviour> {
    let clock = ClientClock::new(traffic.start_us);
    let mean_gaps = activities(traffic.clients).map(|activity| 60e6 / traffic.per_minute / activity);
    match traffic.shape {
        TrafficShape::Poisson => mean_gaps.map(|mean_gap| poisson(clock, mean_gap)).collect(),
        TrafficShape::Diurnal => {
            let curve = ActivityCurve::over(traffic.start_us, traffic.duration_us, traffic.seed);
            mean_gaps.map(|mean_gap| diurnal(clock, mean_gap, curve)).collect()
        }
        TrafficShape::Bursty => {
            let page = (traffic.limit.max() as f64 / traffic.cost as f64 * PAGE_OF_LIMIT).max(2.0);
            let loading = window_us(traffic.limit) as f64 * PAGE_OF_WINDOW;
            mean_gaps.map(|mean_gap| pages(clock, mean_gap, page, loading, None)).collect()
        }
        TrafficShape::Adversarial => (0..traffic.clients).map(|client| adversary(traffic, client)).collect(),
        TrafficShape::Mix => visitors::clients(traffic),
    }
}

/// Returns the activity of each client as a multiple of the mean: a few clients send much, most send little.
fn activities(clients: u32) -> impl Iterator<Item = f64> {
    let weight = |rank: u32| f64::from(rank + 1).powf(-ZIPF);
    let mean = (0..clients).map(weight).sum::<f64>() / f64::from(clients);
    (0..clients).map(move |rank| weight(rank) / mean)
}

/// A Poisson process: each request is independent of the others.
fn poisson(mut clock: ClientClock, mean_gap: f64) -> Behaviour {
    Box::new(move |random| (clock.advance(random.exponential(mean_gap)), RequestKind::Api))
}

/// A Poisson process whose rate follows a curve: requests at the highest rate, thinned to the rate of each moment.
fn diurnal(mut clock: ClientClock, mean_gap: f64, curve: ActivityCurve) -> Behaviour {
    let shortest_mean_gap = mean_gap / ActivityCurve::MAX;
    Box::new(move |random| {
        loop {
            let now = clock.advance(random.exponential(shortest_mean_gap));
            if random.chance(curve.at(now) / ActivityCurve::MAX) {
                return (now, RequestKind::Api);
            }
        }
    })
}

/// A person who loads pages: a burst of `page` requests within `loading`, then a pause. The requests are `mean_gap` apart on average.
pub(super) fn pages(
    mut clock: ClientClock,
    mean_gap: f64,
    page: f64,
    loading: f64,
    curve: Option<ActivityCurve>,
) -> Behaviour {
    let cycle = mean_gap * page;
    // A busy client loads faster, so that it reaches its rate.
    let loading = loading.min(cycle / 2.0);
    let (mean_asset_gap, mean_pause) = (loading / page, cycle - loading);
    let (mut assets, mut has_started) = (0, false);
    Box::new(move |random| {
        if assets > 0 {
            assets -= 1;
            return (clock.advance(random.exponential(mean_asset_gap)), RequestKind::Asset);
        }
        // Pauses are short or long, with the given mean. The traffic starts in the middle of a pause, which is more likely a long one.
        let is_long = random.chance(if has_started { 0.2 } else { 0.2 * 3.4 });
        let mean = mean_pause * if is_long { 3.4 } else { 0.4 };
        let activity = curve.map_or(1.0, |curve| curve.at(clock.now()));
        let now = clock.advance(random.exponential(mean) / activity);
        has_started = true;
        assets = random.geometric(page) - 1;
        (now, RequestKind::Page)
    })
}

/// A scraper that waits about the same time after each page.
pub(super) fn scraper(mut clock: ClientClock, gap: f64) -> Behaviour {
    let mut has_started = false;
    Box::new(move |random| {
        // The scrapers start at different times.
        let factor = if has_started { random.between(0.9, 1.1) } else { random.unit() };
        has_started = true;
        (clock.advance(gap * factor), RequestKind::Crawl)
    })
}

/// A program that sends quickly for a while, then pauses. The requests are `mean_gap` apart on average.
pub(super) fn script(
    mut clock: ClientClock,
    mean_gap: f64,
    (mean_run, mean_pause): (f64, f64),
    kind: RequestKind,
) -> Behaviour {
    let gap = mean_gap * mean_run / (mean_run + mean_pause);
    let mut left = 0.0;
    Box::new(move |random| {
        let gap = gap * random.between(0.5, 1.5);
        left -= gap;
        clock.advance(gap);
        if left < 0.0 {
            clock.advance(random.exponential(mean_pause));
            left = random.exponential(mean_run);
        }
        (clock.now(), kind)
    })
}

/// A cron job that makes a few calls, one after the other, on a whole minute.
pub(super) fn cron_job(start_us: u64, every_minutes: u64, calls: u64) -> Behaviour {
    let every_us = every_minutes * MINUTE_US;
    let (mut run_us, mut done) = (start_us.next_multiple_of(every_us), 0);
    Box::new(move |_| {
        if done == calls {
            run_us += every_us;
            done = 0;
        }
        done += 1;
        (run_us + (done - 1) * JOB_STEP_US, RequestKind::Job)
    })
}
